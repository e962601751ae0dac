/* attention.c: the calls around one attention problem: borrow, check, make results, release the GIL,
 * run. */
#include "calls.h"
#include "errors.h"

/* The masks and scales that every call takes, in this order. */
enum option {
    IS_CAUSAL,
    SCALE,
    ENABLE_GQA,
    Q_OFFSET,
    WINDOW,
    SOFTCAP,
    ALIBI_SLOPES,
    SINKS,
    Q_LENS,
    KV_LENS,
    NUM_THREADS,
    NUM_OPTIONS
};

int expect_arguments(const char *function, Py_ssize_t found, Py_ssize_t wanted)
{
    if (found == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, got %zd", function, wanted, found);
    return -1;
}

static int take_options(struct call *call, PyObject *const *option)
{
    attn_problem *p = &call->problem;
    p->scaled = option[SCALE] != Py_None;
    call->run.threads = attn_get_threads();
    if (take_bool(option[IS_CAUSAL], "is_causal", &p->causal) < 0
        || (p->scaled && take_double(option[SCALE], "scale", &p->scale) < 0)
        || take_bool(option[ENABLE_GQA], "enable_gqa", &p->grouped) < 0
        || take_integers(call, option[Q_OFFSET], "q_offset", &p->q_offset) < 0
        || take_window(option[WINDOW], &p->window_left, &p->window_right) < 0
        || (option[SOFTCAP] != Py_None && take_double(option[SOFTCAP], "softcap", &p->softcap) < 0)
        || take_floats(call, option[ALIBI_SLOPES], "alibi_slopes", &p->alibi_slopes) < 0
        || take_floats(call, option[SINKS], "sinks", &p->sinks) < 0
        || take_integers(call, option[Q_LENS], "q_lens", &p->q_lens) < 0
        || take_integers(call, option[KV_LENS], "kv_lens", &p->kv_lens) < 0
        || (option[NUM_THREADS] != Py_None
            && take_threads(option[NUM_THREADS], "num_threads", &call->run.threads) < 0))
        return -1;
    return 0;
}

static int check(struct call *call)
{
    attn_status status = attn_check(&call->problem, &call->shape, &call->fault);
    if (status == ATTN_OK)
        status = attn_check_values(&call->problem, &call->shape, &call->fault);
    if (status != ATTN_OK)
        raise_status(status, &call->fault);
    return status == ATTN_OK ? 0 : -1;
}

/* A new array of a result's shape: the leading axes, heads, and then at most two more sizes, -1 for
 * one that it does not have. Takes over the reference to descr. */
static PyArrayObject *new_result(const struct call *call, PyArray_Descr *descr, ptrdiff_t rows,
                                 ptrdiff_t cols, attn_view *view)
{
    const attn_shape *shape = &call->shape;
    npy_intp dim[ATTN_MAX_AXES];
    int axes = 0;
    for (; axes < shape->batch_axes; axes++)
        dim[axes] = shape->batch_dim[axes];
    if (shape->head_axis)
        dim[axes++] = shape->heads;
    if (rows >= 0)
        dim[axes++] = rows;
    if (cols >= 0)
        dim[axes++] = cols;
    PyArrayObject *array = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, axes, dim,
                                                                 NULL, NULL, 0, NULL);
    if (array)
        view_of(array, view);
    return array;
}

static PyArray_Descr *query_descr(const struct call *call)
{
    return (PyArray_Descr *)Py_NewRef(PyArray_DESCR(call->query));
}

/* Runs a call's problem, without the GIL unless it is tiny; sums is for key_weights. */
static int run(struct call *call, const attn_view *sums)
{
    const double work_worth_releasing = 1e5;
    PyThreadState *state = NULL;
    if (attn_work(&call->shape) >= work_worth_releasing)
        state = release_gil(&call->run, &state);
    const attn_status status = sums ? attn_key_weights(&call->problem, &call->shape, sums,
                                                       &call->run)
                                    : attn_forward(&call->problem, &call->shape, &call->run);
    if (state)
        PyEval_RestoreThread(state);
    if (status != ATTN_OK)
        raise_status(status, NULL);
    return status == ATTN_OK ? 0 : -1;
}

/* out alone, or a tuple of what was asked for. */
static PyObject *results(struct call *call)
{
    PyObject *const all[] = {(PyObject *)call->out, (PyObject *)call->weights,
                             (PyObject *)call->lse};
    if (!call->weights && !call->lse)
        return Py_NewRef(all[0]);
    PyObject *tuple = PyTuple_New(1 + !!call->weights + !!call->lse);
    Py_ssize_t size = 0;
    for (int i = 0; tuple && i < 3; i++)
        if (all[i])
            PyTuple_SET_ITEM(tuple, size++, Py_NewRef(all[i]));
    return tuple;
}

PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    enum { QUERY, KEY, VALUE, MASK, DROPOUT, SEED, RETURN_WEIGHTS, RETURN_LSE, OUT, OPTIONS };
    struct call call = {.num_held = 0};
    attn_problem *p = &call.problem;
    bool want_weights, want_lse;
    PyObject *answer = NULL;
    (void)module;

    if (expect_arguments("attention", n, OPTIONS + NUM_OPTIONS) < 0
        || take_array(&call, args[QUERY], "query", &p->query) < 0
        || take_array(&call, args[KEY], "key", &p->key) < 0
        || take_array(&call, args[VALUE], "value", &p->value) < 0
        || take_mask(&call, args[MASK], &p->mask) < 0 || take_out(&call, args[OUT]) < 0
        || take_double(args[DROPOUT], "dropout_p", &p->dropout) < 0
        || take_bool(args[RETURN_WEIGHTS], "return_weights", &want_weights) < 0
        || take_bool(args[RETURN_LSE], "return_lse", &want_lse) < 0
        || take_options(&call, args + OPTIONS) < 0)
        goto done;
    p->seed = PyLong_AsUnsignedLongLong(args[SEED]); /* functional.py made it */
    if (PyErr_Occurred() || check(&call) < 0)
        goto done;

    const attn_shape *shape = &call.shape;
    if (!call.out)
        call.out = new_result(&call, query_descr(&call), shape->queries, shape->value_features,
                              &p->out);
    if (call.out && want_weights) {
        p->stage = ATTN_WEIGHTS;
        call.weights = new_result(&call, query_descr(&call), shape->queries, shape->keys,
                                  &p->weights);
    }
    if (call.out && want_lse) {
        const int type = p->query.dtype == ATTN_F64 ? NPY_DOUBLE : NPY_FLOAT;
        call.lse = new_result(&call, PyArray_DescrFromType(type), shape->queries, -1, &p->lse);
    }
    if (!PyErr_Occurred() && run(&call, NULL) == 0)
        answer = results(&call);
done:
    call_clear(&call);
    return answer;
}

static int take_stage(PyObject *object, attn_stage *stage)
{
    static const char *const name[] = {"raw", "softcapped", "biased", "weights"};
    for (int i = ATTN_RAW; PyUnicode_Check(object) && i <= ATTN_WEIGHTS; i++)
        if (PyUnicode_CompareWithASCIIString(object, name[i]) == 0) {
            *stage = (attn_stage)i;
            return 0;
        }
    PyErr_Format(PyUnicode_Check(object) ? PyExc_ValueError : PyExc_TypeError,
                 "stage: expected 'raw', 'softcapped', 'biased' or 'weights', got %R", object);
    return -1;
}

PyObject *py_attention_scores(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    enum { QUERY, KEY, MASK, STAGE, OPTIONS };
    struct call call = {.num_held = 0};
    attn_problem *p = &call.problem;
    PyObject *answer = NULL;
    (void)module;

    if (expect_arguments("attention_scores", n, OPTIONS + NUM_OPTIONS) < 0
        || take_array(&call, args[QUERY], "query", &p->query) < 0
        || take_array(&call, args[KEY], "key", &p->key) < 0
        || take_mask(&call, args[MASK], &p->mask) < 0 || take_stage(args[STAGE], &p->stage) < 0
        || take_options(&call, args + OPTIONS) < 0 || check(&call) < 0)
        goto done;
    call.weights = new_result(&call, query_descr(&call), call.shape.queries, call.shape.keys,
                              &p->weights);
    if (call.weights && run(&call, NULL) == 0)
        answer = Py_NewRef((PyObject *)call.weights);
done:
    call_clear(&call);
    return answer;
}

PyObject *py_key_weights(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    enum { QUERY, KEY, MASK, OPTIONS };
    struct call call = {.num_held = 0};
    attn_problem *p = &call.problem;
    attn_view sums;
    PyObject *answer = NULL;
    (void)module;

    if (expect_arguments("key_weights", n, OPTIONS + NUM_OPTIONS) < 0
        || take_array(&call, args[QUERY], "query", &p->query) < 0
        || take_array(&call, args[KEY], "key", &p->key) < 0
        || take_mask(&call, args[MASK], &p->mask) < 0 || take_options(&call, args + OPTIONS) < 0
        || check(&call) < 0)
        goto done;
    call.out = new_result(&call, query_descr(&call), -1, call.shape.keys, &sums);
    if (call.out && run(&call, &sums) == 0)
        answer = Py_NewRef((PyObject *)call.out);
done:
    call_clear(&call);
    return answer;
}
