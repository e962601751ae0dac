/* errors.c: see errors.h. */
#include "errors.h"

void raise_status(attn_status status, const attn_fault *fault)
{
    if (status == ATTN_E_CANCELLED) {
        /* A signal handler raised, or it forked and this is the child. */
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "attnmod: the call was cut off by a fork");
        return;
    }
    PyObject *exception = status == ATTN_E_DTYPE    ? PyExc_TypeError
                          : status == ATTN_E_MEMORY ? PyExc_MemoryError
                                                    : PyExc_ValueError;
    if (fault && fault->argument)
        PyErr_Format(exception, "%s: %s", fault->argument, fault->text);
    else
        PyErr_SetString(exception, "attnmod: not enough memory for scratch");
}
