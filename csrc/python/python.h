/* python.h: the only way in which this folder's files include Python and NumPy. One file, module.c,
 * defines ATTN_IMPORTS_NUMPY and fills the table of NumPy's functions that the others use. */
#ifndef ATTN_PYTHON_H
#define ATTN_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL attnmod_array_api
#ifndef ATTN_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../attn.h"

#endif
