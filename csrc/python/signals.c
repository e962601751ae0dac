/* signals.c: the GIL and Ctrl-C around a call of the core. */
#include "calls.h"

#include <pthread.h>

static unsigned long main_thread;

/* attn_run.poll: takes the GIL back for a moment and lets signal handlers run; non-zero when one
 * raised. */
static int poll_signals(void *saved_state)
{
    PyThreadState **state = saved_state;
    PyEval_RestoreThread(*state);
    const int raised = PyErr_CheckSignals();
    *state = PyEval_SaveThread();
    return raised;
}

PyThreadState *release_gil(attn_run *run, PyThreadState **state)
{
    if (PyThread_get_thread_ident() == main_thread) {
        run->poll = poll_signals;
        run->context = state;
    }
    return PyEval_SaveThread();
}

/* The thread that forks becomes its child's main thread. */
static void after_fork_in_child(void) { main_thread = PyThread_get_thread_ident(); }

int find_main_thread(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (ident)
        main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    if (PyErr_Occurred())
        return -1;
    pthread_atfork(NULL, NULL, after_fork_in_child);
    return 0;
}
