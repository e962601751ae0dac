/* Random attention problems: shapes that broadcast, all options, arrays anyhow in memory. */
#include "core.h"

static const ptrdiff_t dtype_bytes[] = {[ATTN_BOOL] = 1, [ATTN_F16] = 2, [ATTN_BF16] = 2,
                                        [ATTN_F32] = 4,  [ATTN_F64] = 8, [ATTN_I64] = 8};

static void set_strides(attn_view *view, enum memory memory, bool writable, bool odd,
                        struct rng *rng)
{
    int order[ATTN_MAX_AXES];
    ptrdiff_t step = dtype_bytes[view->dtype];
    for (int i = 0; i < view->axes; i++) {
        order[i] = view->axes - 1 - i; /* the last axis is the innermost */
        if (memory == WILD) {
            const int other = (int)rng_below(rng, i + 1);
            const int axis = order[i];
            order[i] = order[other];
            order[other] = axis;
        }
    }
    for (int i = 0; i < view->axes; i++) {
        const int axis = order[i];
        view->stride[axis] = step;
        if (memory == WILD && rng_below(rng, 3) == 0)
            view->stride[axis] = step = step * 2 + (odd ? 1 : 0);
        if (view->dim[axis] > 0)
            step *= view->dim[axis];
        if (memory != WILD)
            continue;
        if (view->dim[axis] == 1)
            view->stride[axis] = 0x7ffffff1; /* is never taken */
        else if (!writable && rng_below(rng, 8) == 0)
            view->stride[axis] = 0;
        else if (rng_below(rng, 4) == 0)
            view->stride[axis] = -view->stride[axis];
    }
}

void make_array(struct array *array, attn_dtype dtype, int axes, const ptrdiff_t *dim,
                enum memory memory, bool writable, enum place place, struct rng *rng)
{
    attn_view *view = &array->view;
    ptrdiff_t lowest = 0, highest = 0, size = 1;
    *view = (attn_view){.dtype = dtype, .axes = axes};
    for (int axis = 0; axis < axes; axis++) {
        view->dim[axis] = dim[axis];
        size *= dim[axis];
    }
    set_strides(view, memory, writable, !writable && dtype != ATTN_I64, rng);
    for (int axis = 0; axis < axes && size > 0; axis++) {
        const ptrdiff_t reach = (dim[axis] - 1) * view->stride[axis];
        *(reach < 0 ? &lowest : &highest) += reach;
    }
    array->span = size > 0 ? (size_t)(highest - lowest + dtype_bytes[dtype]) : 0;
    array->lowest = guarded(array->span, place);
    view->data = array->lowest - lowest;
}

ptrdiff_t array_size(const attn_view *view)
{
    ptrdiff_t size = 1;
    for (int axis = 0; axis < view->axes; axis++)
        size *= view->dim[axis];
    return size;
}

char *array_at(const attn_view *view, ptrdiff_t flat)
{
    char *at = view->data;
    for (int axis = view->axes - 1; axis >= 0; axis--) {
        at += flat % view->dim[axis] * view->stride[axis];
        flat /= view->dim[axis];
    }
    return at;
}

void copy_array(const struct array *to, const struct array *from)
{
    const ptrdiff_t size = array_size(&from->view);
    for (ptrdiff_t i = 0; i < size; i++)
        memcpy(array_at(&to->view, i), array_at(&from->view, i),
               (size_t)dtype_bytes[from->view.dtype]);
}

struct array *problem_array(struct problem *p, int i, const char **name)
{
    struct array *arrays[] = {&p->query,        &p->key,   &p->value,    &p->mask,
                              &p->alibi_slopes, &p->sinks, &p->q_offset, &p->q_lens,
                              &p->kv_lens,      &p->out,   &p->weights,  &p->lse};
    static const char *const names[] = {"query",        "key",   "value",    "mask",
                                        "alibi_slopes", "sinks", "q_offset", "q_lens",
                                        "kv_lens",      "out",   "weights",  "lse"};
    *name = names[i];
    return arrays[i];
}

double view_at(const attn_view *view, const ptrdiff_t *index, int axes)
{
    const char *at = view->data;
    for (int axis = 0; axis < view->axes; axis++)
        if (view->dim[axis] != 1)
            at += index[axes - view->axes + axis] * view->stride[axis];
    if (view->dtype != ATTN_I64)
        return load_dtype(at, view->dtype);
    int64_t integer;
    memcpy(&integer, at, sizeof integer);
    return (double)integer;
}

void expect_array_gaps(const struct array *array, const char *name)
{
    const ptrdiff_t size = array_size(&array->view);
    for (ptrdiff_t i = 0; i < size; i++)
        memset(array_at(&array->view, i), 0xff, (size_t)dtype_bytes[array->view.dtype]);
    expect(untouched(array->lowest, array->span), "wrote between the elements of %s", name);
}

/* Values come from the seed, before memory is laid out, so that they do not depend on it. */
static void fill_array(const struct array *array, double low, double high, uint64_t seed)
{
    struct rng rng = {seed};
    const ptrdiff_t size = array_size(&array->view);
    for (ptrdiff_t i = 0; i < size; i++) {
        double x = rng_between(&rng, low, high);
        char *at = array_at(&array->view, i);
        if (array->view.dtype == ATTN_I64)
            memcpy(at, &(int64_t){(int64_t)floor(x)}, sizeof(int64_t));
        else if (array->view.dtype == ATTN_BOOL)
            *at = x > 0;
        else
            store_dtype(at, x, array->view.dtype);
    }
}

/* The sizes of a problem, and which of its options it has. */
struct draw {
    int batch_axes;
    ptrdiff_t batch[2], heads, kv_heads, queries, keys, features, value_features;
    bool no_heads; /* inputs of two axes */
    uint64_t options;
};

enum option {
    MASK = 1,
    FLOAT_MASK = 2,
    CAUSAL = 4,
    WINDOW = 8,
    OFFSET = 16,
    Q_LENS = 32,
    KV_LENS = 64,
    SOFTCAP = 128,
    ALIBI = 256,
    SINKS = 512,
    DROPOUT = 1024,
    SCALE = 2048,
    OUT = 4096,
    WEIGHTS = 8192,
    LSE = 16384,
    MORE = 32768
};

static struct draw draw_sizes(struct rng *rng)
{
    struct draw d = {.batch_axes = (int)rng_below(rng, 3)};
    static const ptrdiff_t groups[] = {1, 1, 2, 4};
    for (int axis = 0; axis < d.batch_axes; axis++)
        d.batch[axis] = 1 + rng_below(rng, 3);
    d.no_heads = d.batch_axes == 0 && rng_below(rng, 3) == 0;
    d.kv_heads = d.no_heads ? 1 : 1 + rng_below(rng, 3);
    d.heads = d.no_heads ? 1 : d.kv_heads * groups[rng_below(rng, 4)];
    const bool tall = rng_below(rng, 2);
    d.queries = 1 + rng_below(rng, tall ? 80 : 12);
    d.keys = 1 + rng_below(rng, tall ? 40 : 230);
    d.features = 1 + rng_below(rng, 40);
    d.value_features = 1 + rng_below(rng, 40);
    if (rng_below(rng, 10) == 0) { /* a few queries and many keys, which may be split */
        d.batch_axes = 0;
        d.queries = 1 + rng_below(rng, 3);
        d.keys = 1000 + rng_below(rng, MOST_KEYS - 1000);
    }
    d.options = rng_bits(rng) & rng_bits(rng); /* a quarter of them, mostly */
    if (rng_below(rng, 4) > 0)
        d.options |= OUT;
    if (!(d.options & (OUT | WEIGHTS)))
        d.options |= LSE;
    return d;
}

/* Where an argument's arrays go. */
struct layout {
    enum memory memory;
    enum place place;
    struct rng *rng; /* for layouts only: values have seeds of their own */
    struct rng *values;
};

/* The leading axes of an input: all, some of them 1, or the first left out. */
static int leading_axes(const struct draw *d, bool may_broadcast, ptrdiff_t *dim, struct rng *rng)
{
    const int first = may_broadcast && d->batch_axes > 0 && rng_below(rng, 5) == 0;
    for (int axis = first; axis < d->batch_axes; axis++)
        dim[axis - first] = may_broadcast && rng_below(rng, 5) == 0 ? 1 : d->batch[axis];
    return d->batch_axes - first;
}

static void make_input(struct array *array, const struct draw *d, attn_dtype dtype, ptrdiff_t heads,
                       ptrdiff_t rows, ptrdiff_t cols, bool may_broadcast, const struct layout *to)
{
    ptrdiff_t dim[ATTN_MAX_AXES];
    int axes = d->no_heads ? 0 : leading_axes(d, may_broadcast, dim, to->values);
    if (!d->no_heads)
        dim[axes++] = heads;
    dim[axes++] = rows;
    dim[axes++] = cols;
    make_array(array, dtype, axes, dim, to->memory, false, to->place, to->rng);
    fill_array(array, -2, 2, rng_bits(to->values));
}

/* An option broadcasts to (…, H, L, S), (…, H) or (…): `trailing` axes after the leading ones. */
static void make_option(struct array *array, const struct draw *d, attn_dtype dtype,
                        const ptrdiff_t *trailing, int trailing_axes, double low, double high,
                        const struct layout *to)
{
    ptrdiff_t dim[ATTN_MAX_AXES];
    int axes = d->no_heads ? 0 : leading_axes(d, true, dim, to->values);
    for (int i = 0; i < trailing_axes; i++)
        dim[axes++] = rng_below(to->values, 5) == 0 ? 1 : trailing[i];
    const int left_out = rng_below(to->values, 5) == 0 ? (int)rng_below(to->values, axes + 1) : 0;
    const bool integers = dtype == ATTN_I64 || trailing_axes < 2; /* the core wants them aligned */
    make_array(array, dtype, axes - left_out, dim + left_out, integers ? PLAIN : to->memory, false,
               integers && to->place == ASKEW ? AT_START : to->place, to->rng);
    fill_array(array, low, high, rng_bits(to->values));
}

/* Some of a float mask is -inf: a mask too. */
static void pierce(const struct array *mask, uint64_t seed)
{
    struct rng rng = {seed};
    const ptrdiff_t size = array_size(&mask->view);
    for (ptrdiff_t i = 0; i < size; i++)
        if (rng_below(&rng, 5) == 0)
            store_dtype(array_at(&mask->view, i), -INFINITY, mask->view.dtype);
}

static void make_options(struct problem *p, const struct draw *d, attn_dtype dtype,
                         const struct layout *to)
{
    const ptrdiff_t scores[] = {d->heads, d->queries, d->keys};
    struct rng *rng = to->values;
    if (d->options & MASK) {
        const attn_dtype mask = d->options & FLOAT_MASK ? dtype : ATTN_BOOL;
        make_option(&p->mask, d, mask, d->no_heads ? scores + 1 : scores, d->no_heads ? 2 : 3,
                    mask == ATTN_BOOL ? -1 : -3, mask == ATTN_BOOL ? 2 : 3, to);
        if (mask != ATTN_BOOL)
            pierce(&p->mask, rng_bits(rng));
    }
    if (d->options & OFFSET)
        make_option(&p->q_offset, d, ATTN_I64, NULL, 0, -20, 40, to);
    if (d->options & Q_LENS)
        make_option(&p->q_lens, d, ATTN_I64, NULL, 0, 0, (double)d->queries + 0.5, to);
    if (d->options & KV_LENS)
        make_option(&p->kv_lens, d, ATTN_I64, NULL, 0, 0, (double)d->keys + 0.5, to);
    if (d->options & ALIBI)
        make_option(&p->alibi_slopes, d, ATTN_F64, scores, d->no_heads ? 0 : 1, 0, 0.5, to);
    if (d->options & SINKS)
        make_option(&p->sinks, d, ATTN_F64, scores, d->no_heads ? 0 : 1, -3, 3, to);
}

static void make_results(struct problem *p, const struct draw *d, attn_dtype dtype,
                         const struct layout *to)
{
    ptrdiff_t dim[ATTN_MAX_AXES];
    int axes = 0;
    for (; axes < d->batch_axes; axes++)
        dim[axes] = d->batch[axes];
    if (!d->no_heads)
        dim[axes++] = d->heads;
    dim[axes++] = d->queries;
    if (d->options & LSE)
        make_array(&p->lse, dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32, axes, dim, to->memory, true,
                   to->place, to->rng);
    dim[axes] = d->keys;
    if (d->options & WEIGHTS)
        make_array(&p->weights, dtype, axes + 1, dim, to->memory, true, to->place, to->rng);
    dim[axes] = d->value_features;
    if (d->options & OUT)
        make_array(&p->out, dtype, axes + 1, dim, to->memory, true, to->place, to->rng);
}

static void join_views(struct problem *p)
{
    attn_problem *q = &p->problem;
    q->query = p->query.view;
    q->key = p->key.view;
    q->value = p->value.view;
    q->mask = p->mask.view;
    q->alibi_slopes = p->alibi_slopes.view;
    q->sinks = p->sinks.view;
    q->q_offset = p->q_offset.view;
    q->q_lens = p->q_lens.view;
    q->kv_lens = p->kv_lens.view;
    q->out = p->out.view;
    q->weights = p->weights.view;
    q->lse = p->lse.view;
}

void make_problem(struct problem *p, attn_dtype dtype, uint64_t seed, enum memory memory,
                  enum place place)
{
    struct rng layouts = {seed ^ 0x5555}, values = {seed};
    const struct layout to = {memory, place, &layouts, &values};
    const struct draw d = draw_sizes(&values);
    *p = (struct problem){.problem = {.window_left = ATTN_OPEN,
                                      .window_right = ATTN_OPEN,
                                      .stage = ATTN_WEIGHTS,
                                      .grouped = d.heads != d.kv_heads}};
    make_input(&p->query, &d, dtype, d.heads, d.queries, d.features, false, &to);
    make_input(&p->key, &d, dtype, d.kv_heads, d.keys, d.features, true, &to);
    if (d.options & OUT)
        make_input(&p->value, &d, dtype, d.kv_heads, d.keys, d.value_features, true, &to);
    make_options(p, &d, dtype, &to);

    attn_problem *q = &p->problem;
    q->causal = (d.options & CAUSAL) != 0;
    if (d.options & WINDOW)
        q->window_left = rng_below(&values, 30) - 1, q->window_right = rng_below(&values, 30) - 1;
    q->softcap = d.options & SOFTCAP ? rng_between(&values, 0.5, 30) : 0;
    q->scaled = (d.options & SCALE) != 0;
    q->scale = rng_between(&values, -1, 1);
    q->dropout = d.options & DROPOUT ? rng_between(&values, 0, 1) : 0;
    q->seed = rng_bits(&values);
    if (d.options & WEIGHTS && !(d.options & (OUT | LSE)) && d.options & MORE)
        q->stage = (attn_stage)rng_below(&values, 4);
    make_results(p, &d, dtype, &to);
    join_views(p);
}
