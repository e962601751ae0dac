/* machine.c: threads and what the CPU offers. */
#include "calls.h"

/* For threadpoolctl, which finds these two by name in the shared object. */
__attribute__((visibility("default"))) int attnmod_get_num_threads(void);
__attribute__((visibility("default"))) void attnmod_set_num_threads(int threads);

int attnmod_get_num_threads(void) { return attn_get_threads(); }

void attnmod_set_num_threads(int threads) { attn_set_threads(threads > 0 ? threads : 1); }

PyObject *py_get_num_threads(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(attn_get_threads());
}

PyObject *py_set_num_threads(PyObject *module, PyObject *threads)
{
    int number;
    (void)module;
    if (take_threads(threads, "n", &number) < 0)
        return NULL;
    attn_set_threads(number);
    Py_RETURN_NONE;
}

/* The names that next gives for rank 0, 1, …, as a tuple. */
static PyObject *names(const char *(*next)(int rank))
{
    int count = 0;
    while (next(count))
        count++;
    PyObject *tuple = PyTuple_New(count);
    for (int rank = 0; tuple && rank < count; rank++) {
        PyObject *name = PyUnicode_FromString(next(rank));
        if (!name)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, rank, name);
    }
    return tuple;
}

PyObject *py_cpu_info(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
#if defined(__clang__)
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    PyObject *compiled = names(attn_isa_compiled), *found = names(attn_isa_found);
    PyObject *info = NULL;
    if (compiled && found)
        info = Py_BuildValue("{s:s,s:O,s:O,s:i,s:s}", "isa", attn_isa_used(), "compiled", compiled,
                             "found", found, "threads", attn_get_threads(), "compiler", compiler);
    Py_XDECREF(compiled);
    Py_XDECREF(found);
    return info;
}
