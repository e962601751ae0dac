/* softmax.c: the softmax of an array along one axis. */
#include "calls.h"
#include "errors.h"

/* Moves an axis of a view to the end. */
static void move_to_end(attn_view *view, int axis)
{
    const ptrdiff_t dim = view->dim[axis], stride = view->stride[axis];
    for (; axis + 1 < view->axes; axis++) {
        view->dim[axis] = view->dim[axis + 1];
        view->stride[axis] = view->stride[axis + 1];
    }
    view->dim[axis] = dim;
    view->stride[axis] = stride;
}

static int take_axis(PyObject *object, int axes, int *axis)
{
    ptrdiff_t number;
    if (take_index(object, "axis", "an int", &number) < 0)
        return -1;
    if (number < -axes || number >= axes) {
        PyErr_Format(PyExc_ValueError, "axis: expected an int from %d to %d, got %zd", -axes,
                     axes - 1, number);
        return -1;
    }
    *axis = (int)(number < 0 ? number + axes : number);
    return 0;
}

PyObject *py_softmax(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    struct call call = {.num_held = 0};
    attn_view *x = &call.problem.query, out;
    PyObject *answer = NULL;
    int axis;
    (void)module;

    if (expect_arguments("softmax", n, 2) < 0 || take_array(&call, args[0], "x", x) < 0)
        goto done;
    if (x->axes == 0) {
        PyErr_SetString(PyExc_ValueError, "x: expected at least 1 axis, got 0");
        goto done;
    }
    if (take_axis(args[1], x->axes, &axis) < 0)
        goto done;
    call.out = (PyArrayObject *)PyArray_NewFromDescr(
        &PyArray_Type, (PyArray_Descr *)Py_NewRef(PyArray_DESCR(call.query)), x->axes, x->dim, NULL,
        NULL, 0, NULL);
    if (!call.out)
        goto done;
    view_of(call.out, &out);
    move_to_end(x, axis);
    move_to_end(&out, axis);

    call.run.threads = attn_get_threads();
    PyThreadState *state = release_gil(&call.run, &state);
    const attn_status status = attn_softmax(x, &out, &call.run);
    PyEval_RestoreThread(state);
    if (status != ATTN_OK)
        raise_status(status, NULL);
    else
        answer = Py_NewRef((PyObject *)call.out);
done:
    call_clear(&call);
    return answer;
}
