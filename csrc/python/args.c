/* args.c: see args.h; scalars. Arrays are in arrays.c. */
#include "args.h"

#include <math.h>

static int wrong_type(const char *name, const char *wanted, PyObject *found)
{
    PyErr_Format(PyExc_TypeError, "%s: expected %s, got %s", name, wanted, Py_TYPE(found)->tp_name);
    return -1;
}

static bool is_bool(PyObject *object)
{
    return PyBool_Check(object) || PyArray_IsScalar(object, Bool);
}

int take_double(PyObject *object, const char *name, double *number)
{
    if (is_bool(object))
        return wrong_type(name, "a number", object);
    *number = PyFloat_AsDouble(object);
    if (*number == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)
            && !PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Clear();
        if (!too_large)
            return wrong_type(name, "a number", object);
        *number = INFINITY;
    }
    if (isnan(*number))
        *number = NAN; /* without a sign, which a message would print */
    return 0;
}

int take_bool(PyObject *object, const char *name, bool *flag)
{
    if (!is_bool(object))
        return wrong_type(name, "True or False", object);
    *flag = PyObject_IsTrue(object) == 1;
    return 0;
}

/* One side of the window: None and -1 are open. A side beyond any array is as good as open. */
static int take_side(PyObject *object, ptrdiff_t *side)
{
    *side = ATTN_OPEN;
    if (object == Py_None)
        return 0;
    if (is_bool(object) || !PyIndex_Check(object))
        return wrong_type("window", "sides of None or int", object);
    *side = PyNumber_AsSsize_t(object, NULL);
    return *side == -1 && PyErr_Occurred() ? -1 : 0;
}

int take_window(PyObject *object, ptrdiff_t *left, ptrdiff_t *right)
{
    *left = *right = ATTN_OPEN;
    if (object == Py_None)
        return 0;
    if (PyIndex_Check(object) && !PySequence_Check(object))
        return wrong_type("window", "a pair (left, right), since one number is ambiguous", object);
    if (!PySequence_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object))
        return wrong_type("window", "a pair (left, right)", object);
    PyObject *pair = PySequence_Tuple(object);
    if (!pair)
        return -1;
    int status = -1;
    if (PyTuple_GET_SIZE(pair) != 2)
        PyErr_Format(PyExc_ValueError, "window: expected a pair (left, right), got %zd numbers",
                     PyTuple_GET_SIZE(pair));
    else if (take_side(PyTuple_GET_ITEM(pair, 0), left) == 0)
        status = take_side(PyTuple_GET_ITEM(pair, 1), right);
    Py_DECREF(pair);
    return status;
}

int take_threads(PyObject *object, const char *name, int *threads)
{
    if (is_bool(object) || !PyIndex_Check(object))
        return wrong_type(name, "an int of at least 1", object);
    const Py_ssize_t number = PyNumber_AsSsize_t(object, NULL);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number < 1) {
        PyErr_Format(PyExc_ValueError, "%s: expected an int of at least 1, got %zd", name, number);
        return -1;
    }
    *threads = number < 1024 ? (int)number : 1024;
    return 0;
}

void call_clear(struct call *call)
{
    for (int i = 0; i < call->num_held; i++)
        Py_DECREF(call->held[i]);
    Py_XDECREF(call->out);
    Py_XDECREF(call->weights);
    Py_XDECREF(call->lse);
}
