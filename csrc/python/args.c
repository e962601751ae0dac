/* args.c: see args.h; single numbers, and the end of a call. Arrays are in arrays.c. */
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

int take_index(PyObject *object, const char *name, const char *wanted, ptrdiff_t *number)
{
    if (is_bool(object) || !PyIndex_Check(object))
        return wrong_type(name, wanted, object);
    *number = PyNumber_AsSsize_t(object, NULL);
    if (*number != -1 || !PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) /* an array of one number says so only now */
        return -1;
    PyErr_Clear();
    return wrong_type(name, wanted, object);
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
    return object == Py_None ? 0 : take_index(object, "window", "sides of None or int", side);
}

int take_window(PyObject *object, ptrdiff_t *left, ptrdiff_t *right)
{
    *left = *right = ATTN_OPEN;
    if (object == Py_None)
        return 0;
    if (PyLong_Check(object) || PyArray_IsScalar(object, Integer))
        return wrong_type("window", "a pair (left, right), since one number is ambiguous", object);
    if (!PyTuple_Check(object) && !PyList_Check(object)
        && !(PyArray_Check(object) && PyArray_NDIM((PyArrayObject *)object) == 1))
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
    ptrdiff_t number;
    if (take_index(object, name, "an int of at least 1", &number) < 0)
        return -1;
    if (number < 1) {
        PyErr_Format(PyExc_ValueError, "%s: expected an int of at least 1, got %zd", name, number);
        return -1;
    }
    *threads = number < ATTN_MAX_THREADS ? (int)number : ATTN_MAX_THREADS;
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
