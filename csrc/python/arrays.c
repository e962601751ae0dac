/* arrays.c: arrays from Python to the core. Strides, alignment and read-only memory are taken as they
 * are; what is byte-swapped is copied. data, shape and strides are read once. */
#include "args.h"

#include <string.h>

/* Our type for an array, or -1. bfloat16 is a type that another package registers with NumPy: known
 * by its name, so that the package need not be imported. */
static int dtype_of(PyArrayObject *array)
{
    const PyArray_Descr *descr = PyArray_DESCR(array);
    switch (descr->type_num) {
    case NPY_BOOL: return ATTN_BOOL;
    case NPY_HALF: return ATTN_F16;
    case NPY_FLOAT: return ATTN_F32;
    case NPY_DOUBLE: return ATTN_F64;
    case NPY_INT64: return ATTN_I64;
    default: break;
    }
    if (descr->type_num < NPY_USERDEF || PyDataType_ELSIZE(descr) != 2)
        return -1;
    const char *name = descr->typeobj->tp_name, *dot = strrchr(name, '.');
    return strcmp(dot ? dot + 1 : name, "bfloat16") == 0 ? ATTN_BF16 : -1;
}

static int wrong_dtype(const char *name, const char *wanted, PyArrayObject *found)
{
    PyErr_Format(PyExc_TypeError, "%s: expected %s, got %S", name, wanted, PyArray_DESCR(found));
    return -1;
}

/* Keeps a reference until the call ends. */
static void hold(struct call *call, PyObject *object) { call->held[call->num_held++] = object; }

/* A masked array's mask would be lost without a word. */
static bool is_masked_array(PyObject *object)
{
    for (PyTypeObject *type = Py_TYPE(object); type && type != &PyArray_Type; type = type->tp_base)
        if (strcmp(type->tp_name, "MaskedArray") == 0
            || strcmp(type->tp_name, "numpy.ma.MaskedArray") == 0)
            return true;
    return false;
}

static int refuse_masked_array(const char *name)
{
    PyErr_Format(PyExc_TypeError,
                 "%s: expected an array without a mask of its own, got MaskedArray", name);
    return -1;
}

/* Puts the argument's name before NumPy's own words about what it can't convert. */
static void add_name(const char *name)
{
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_Format(PyErr_GivenExceptionMatches(type, PyExc_TypeError) ? PyExc_TypeError
                                                                    : PyExc_ValueError,
                 "%s: expected an array, got what NumPy refuses: %S", name, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* numpy.asarray, in native byte order; a new reference. */
static PyArrayObject *as_array(PyObject *object, const char *name)
{
    if (is_masked_array(object)) {
        refuse_masked_array(name);
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)PyArray_FromAny(object, NULL, 0, 0, 0, NULL);
    if (!array)
        add_name(name);
    if (!array || PyArray_ISNOTSWAPPED(array))
        return array;
    PyArray_Descr *native = PyArray_DescrNewByteorder(PyArray_DESCR(array), NPY_NATIVE);
    PyArrayObject *copy = native ? (PyArrayObject *)PyArray_FromArray(array, native, 0) : NULL;
    Py_DECREF(array);
    return copy;
}

void view_of(PyArrayObject *array, attn_view *view)
{
    view->data = PyArray_DATA(array);
    view->dtype = (attn_dtype)dtype_of(array);
    view->axes = PyArray_NDIM(array);
    for (int axis = 0; axis < view->axes; axis++) {
        view->dim[axis] = PyArray_DIM(array, axis);
        view->stride[axis] = PyArray_STRIDE(array, axis);
    }
}

/* The view of an argument, which may have too many axes. */
static int take_view(PyArrayObject *array, const char *name, attn_view *view)
{
    if (PyArray_NDIM(array) > ATTN_MAX_AXES) {
        PyErr_Format(PyExc_ValueError, "%s: expected at most %d axes, got %d", name, ATTN_MAX_AXES,
                     PyArray_NDIM(array));
        return -1;
    }
    view_of(array, view);
    return 0;
}

int take_array(struct call *call, PyObject *object, const char *name, attn_view *view)
{
    PyArrayObject *array = as_array(object, name);
    if (!array)
        return -1;
    hold(call, (PyObject *)array);
    const int dtype = dtype_of(array);
    if (dtype < ATTN_F16 || dtype > ATTN_F64)
        return wrong_dtype(name, "float16, bfloat16, float32 or float64", array);
    if (view == &call->problem.query)
        call->query = array;
    return take_view(array, name, view);
}

int take_mask(struct call *call, PyObject *object, attn_view *view)
{
    if (object == Py_None)
        return 0;
    PyArrayObject *array = as_array(object, "attn_mask");
    if (!array)
        return -1;
    hold(call, (PyObject *)array);
    const int dtype = dtype_of(array);
    if (dtype < ATTN_BOOL || dtype > ATTN_F64)
        return wrong_dtype("attn_mask",
                           "bool (True takes part) or a float dtype (added to the scores)", array);
    return take_view(array, "attn_mask", view);
}

/* A copy of an array as another type, which nobody else can change, in view. */
static int take_copy(struct call *call, PyArrayObject *array, const char *name, int type_num,
                     attn_view *view)
{
    PyArrayObject *copy = (PyArrayObject *)PyArray_FromArray(array, PyArray_DescrFromType(type_num),
                                                             NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY
                                                                 | NPY_ARRAY_FORCECAST);
    if (!copy)
        return -1;
    hold(call, (PyObject *)copy);
    return take_view(copy, name, view);
}

/* An int of Python: it lives in the call itself. */
static int take_integer(struct call *call, PyObject *object, const char *name, attn_view *view)
{
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) {
        PyErr_Format(PyExc_ValueError, "%s: expected an integer of 64 bits, got %R", name, object);
        return -1;
    }
    int64_t *place = &call->integer[call->num_integers++];
    *place = number;
    view->data = place;
    view->dtype = ATTN_I64;
    view->axes = 0;
    return 0;
}

int take_integers(struct call *call, PyObject *object, const char *name, attn_view *view)
{
    if (object == Py_None)
        return 0;
    if (PyLong_CheckExact(object))
        return take_integer(call, object, name, view);
    PyArrayObject *array = as_array(object, name);
    if (!array)
        return -1;
    int status = -1;
    if (!PyArray_ISINTEGER(array))
        wrong_dtype(name, "integers", array);
    else
        status = take_copy(call, array, name, NPY_INT64, view);

    /* What did not fit into int64 has become negative. */
    if (status == 0 && PyArray_ISUNSIGNED(array)) {
        PyArrayObject *copy = (PyArrayObject *)call->held[call->num_held - 1];
        const int64_t *number = PyArray_DATA(copy);
        for (npy_intp i = 0; status == 0 && i < PyArray_SIZE(copy); i++)
            if (number[i] < 0) {
                PyErr_Format(PyExc_ValueError, "%s: expected integers below 2**63, got %llu", name,
                             (unsigned long long)number[i]);
                status = -1;
            }
    }
    Py_DECREF(array);
    return status;
}

int take_floats(struct call *call, PyObject *object, const char *name, attn_view *view)
{
    if (object == Py_None)
        return 0;
    PyArrayObject *array = as_array(object, name);
    if (!array)
        return -1;
    int status = -1;
    if (!PyArray_ISFLOAT(array) && !PyArray_ISINTEGER(array) && dtype_of(array) != ATTN_BF16)
        wrong_dtype(name, "real numbers", array);
    else
        status = take_copy(call, array, name, NPY_DOUBLE, view);
    Py_DECREF(array);
    return status;
}

/* The bytes that an array's elements lie in: [low, high). */
static void extent(PyArrayObject *array, uintptr_t *low, uintptr_t *high)
{
    *low = (uintptr_t)PyArray_DATA(array);
    *high = *low + (uintptr_t)PyArray_ITEMSIZE(array);
    for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
        const npy_intp reach = (PyArray_DIM(array, axis) - 1) * PyArray_STRIDE(array, axis);
        if (PyArray_DIM(array, axis) == 0)
            *high = *low;
        else if (reach < 0)
            *low -= (uintptr_t)-reach;
        else
            *high += (uintptr_t)reach;
    }
}

/* 1 when two arrays share an element, 0 when not, -1 on an error. */
static int share_memory(PyArrayObject *a, PyArrayObject *b)
{
    uintptr_t a_low, a_high, b_low, b_high;
    if (PyArray_SIZE(a) == 0 || PyArray_SIZE(b) == 0)
        return 0;
    extent(a, &a_low, &a_high);
    extent(b, &b_low, &b_high);
    if (a_high <= b_low || b_high <= a_low)
        return 0;

    /* The extents meet, as those of slices of one array do: NumPy solves it exactly. */
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *answer = numpy ? PyObject_CallMethod(numpy, "shares_memory", "OOi", a, b, 100000)
                             : NULL;
    int shared = answer ? PyObject_IsTrue(answer) : -1;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        /* numpy.exceptions.TooHardError: better refused than wrong. */
        PyErr_Clear();
        shared = 1;
    }
    Py_XDECREF(answer);
    Py_XDECREF(numpy);
    return shared;
}

/* Whether two elements of an array may lie in the same place: axes, taken from the shortest stride
 * on, have to step over all that the shorter ones reach. */
static bool overlaps_itself(PyArrayObject *array)
{
    if (PyArray_SIZE(array) == 0)
        return false;
    npy_intp reach = PyArray_ITEMSIZE(array);
    bool done[NPY_MAXDIMS] = {false};
    for (int round = 0; round < PyArray_NDIM(array); round++) {
        int next = -1;
        npy_intp shortest = 0;
        for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
            const npy_intp stride = Py_ABS(PyArray_STRIDE(array, axis));
            if (!done[axis] && PyArray_DIM(array, axis) > 1 && (next < 0 || stride < shortest)) {
                next = axis;
                shortest = stride;
            }
        }
        if (next < 0)
            return false;
        if (shortest < reach)
            return true;
        done[next] = true;
        reach += shortest * (PyArray_DIM(array, next) - 1);
    }
    return false;
}

int take_out(struct call *call, PyObject *object)
{
    static const char *const name[] = {"query", "key", "value", "attn_mask"};
    if (object == Py_None)
        return 0;
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "out: expected a NumPy array, got %s",
                     Py_TYPE(object)->tp_name);
        return -1;
    }
    if (is_masked_array(object))
        return refuse_masked_array("out");
    PyArrayObject *out = (PyArrayObject *)object;
    if (dtype_of(out) != (int)call->problem.query.dtype || !PyArray_ISNOTSWAPPED(out)) {
        PyErr_Format(PyExc_TypeError, "out: expected dtype %S like query, got %S",
                     PyArray_DESCR(call->query), PyArray_DESCR(out));
        return -1;
    }
    if (!PyArray_ISWRITEABLE(out)) {
        PyErr_SetString(PyExc_ValueError, "out: expected a writeable array, got a read-only one");
        return -1;
    }
    if (overlaps_itself(out)) {
        PyErr_SetString(PyExc_ValueError,
                        "out: expected elements that each have their own memory, got a view in "
                        "which they overlap");
        return -1;
    }
    for (int i = 0; i < call->num_held; i++) { /* so far: query, key, value, attn_mask */
        const int shared = share_memory(out, (PyArrayObject *)call->held[i]);
        if (shared == 1)
            PyErr_Format(PyExc_ValueError,
                         "out: expected memory of its own, got memory shared with %s", name[i]);
        if (shared != 0)
            return -1;
    }
    call->out = (PyArrayObject *)Py_NewRef(object);
    return take_view(out, "out", &call->problem.out);
}
