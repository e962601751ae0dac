/* module.c: the extension module attnmod._core. It holds no Python object of its own, so it has no
 * state; the pool and the kernel tables below it belong to the process. */
#define ATTN_IMPORTS_NUMPY
#include "calls.h"

/* A vectorcall function: the cast goes by way of a type that fits any function. */
#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    {"attention", FASTCALL(py_attention), NULL},
    {"attention_scores", FASTCALL(py_attention_scores), NULL},
    {"key_weights", FASTCALL(py_key_weights), NULL},
    {"softmax", FASTCALL(py_softmax), NULL},
    {"get_num_threads", py_get_num_threads, METH_NOARGS, NULL},
    {"set_num_threads", py_set_num_threads, METH_O, NULL},
    {"cpu_info", py_cpu_info, METH_NOARGS, NULL},
    {"share_threads_with_numpy", py_share_threads_with_numpy, METH_O, NULL},
    {"numpy_blas", py_numpy_blas, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    return PyArray_ImportNumPyAPI() < 0 ? -1 : find_main_thread();
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, prepare},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "attnmod._core",
    .m_doc = "The C core of attnmod; attnmod.functional has the names that people use.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
