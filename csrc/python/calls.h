/* calls.h: what a module's functions share, and the functions. Python's own wrappers in
 * functional.py know names and defaults, so here every argument comes by position. */
#ifndef ATTN_CALLS_H
#define ATTN_CALLS_H

#include "args.h"

/* Fails unless a function got the number of arguments that it takes. */
int expect_arguments(const char *function, Py_ssize_t found, Py_ssize_t wanted);

PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_attention_scores(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_key_weights(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_softmax(PyObject *module, PyObject *const *args, Py_ssize_t n);

PyObject *py_get_num_threads(PyObject *module, PyObject *unused);
PyObject *py_set_num_threads(PyObject *module, PyObject *threads);
PyObject *py_cpu_info(PyObject *module, PyObject *unused);

PyObject *py_share_threads_with_numpy(PyObject *module, PyObject *enable);
PyObject *py_numpy_blas(PyObject *module, PyObject *unused);

/* Runs around the core's work without the GIL, and sets up run to look for signals where that is the
 * main thread: no other may handle them, and one that took the GIL while Python ends would not return.
 *     PyThreadState *state = release_gil(&run, &state); …; PyEval_RestoreThread(state); */
PyThreadState *release_gil(attn_run *run, PyThreadState **state);

/* Remembers the main thread; once, at import. */
int find_main_thread(void);

#endif
