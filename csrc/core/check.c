/* check.c: whether a problem makes sense. All checks of a call stand here, in the order in which a
 * reader of the call would make them; nothing below this file validates anything.
 *
 * Views are aligned from the right, as NumPy broadcasts: …, head, row, column. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "number.h"
#include "status.h"

/* Sums are made in float32, for float64 in float64: what they are made with has to be a finite number
 * there too. */
static const char *sum_name(attn_dtype dtype) { return dtype == ATTN_F64 ? "float64" : "float32"; }

static bool holds(attn_dtype dtype, double x)
{
    return isfinite(x) && (dtype == ATTN_F64 || fabs(x) <= FLT_MAX);
}

static bool is_float(attn_dtype dtype) { return dtype >= ATTN_F16 && dtype <= ATTN_F64; }

static attn_status check_dtypes(const attn_problem *p, attn_fault *fault)
{
    const struct {
        const attn_view *view;
        const char *name;
    } alike[] = {{&p->key, "key"}, {&p->value, "value"}, {&p->out, "out"}};

    if (!is_float(p->query.dtype))
        return attn_fail(fault, ATTN_E_DTYPE, "query",
                         "expected float16, bfloat16, float32 or float64, got %s",
                         attn_dtype_name(p->query.dtype));
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (alike[i].view->data && alike[i].view->dtype != p->query.dtype)
            return attn_fail(
                fault, ATTN_E_DTYPE, alike[i].name, "expected dtype %s like query, got %s",
                attn_dtype_name(p->query.dtype), attn_dtype_name(alike[i].view->dtype));
    if (p->mask.data && p->mask.dtype != ATTN_BOOL && !is_float(p->mask.dtype))
        return attn_fail(fault, ATTN_E_DTYPE, "attn_mask",
                         "expected bool (True takes part) or a float dtype (added to the scores), "
                         "got %s",
                         attn_dtype_name(p->mask.dtype));
    return ATTN_OK;
}

/* Joins the leading axes of one input into those of the problem. */
static attn_status join_leading(const attn_view *view, const char *name, attn_shape *shape,
                                attn_fault *fault)
{
    const int leading = view->axes > 3 ? view->axes - 3 : 0;
    const attn_shape before = *shape;

    for (int back = 1; back <= leading; back++) { /* counted from the head axis outwards */
        const ptrdiff_t dim = view->dim[leading - back];
        if (back > shape->batch_axes) {
            for (int axis = shape->batch_axes; axis > 0; axis--)
                shape->batch_dim[axis] = shape->batch_dim[axis - 1];
            shape->batch_dim[0] = dim;
            shape->batch_axes++;
            continue;
        }
        ptrdiff_t *joined = &shape->batch_dim[shape->batch_axes - back];
        if (*joined == 1)
            *joined = dim;
        else if (dim != 1 && dim != *joined)
            return attn_fail(fault, ATTN_E_SHAPE, name,
                             "expected leading axes that broadcast with %s, got %s",
                             attn_shape_text(before.batch_dim, before.batch_axes).text,
                             attn_shape_text(view->dim, leading).text);
    }
    return ATTN_OK;
}

static attn_status check_heads(const attn_problem *p, attn_shape *shape, attn_fault *fault)
{
    const bool value_heads = p->value.data && p->value.axes > 2;
    const ptrdiff_t no_axis = -1;
    const ptrdiff_t h = p->query.axes > 2 ? p->query.dim[p->query.axes - 3] : no_axis;
    ptrdiff_t g = p->key.axes > 2 ? p->key.dim[p->key.axes - 3] : no_axis;
    if (value_heads) {
        const ptrdiff_t found = p->value.dim[p->value.axes - 3];
        if (g != no_axis && found != g)
            return attn_fail(fault, ATTN_E_SHAPE, "value", "expected %td heads like key, got %td",
                             g, found);
        g = found;
    }

    shape->head_axis = h != no_axis || g != no_axis;
    shape->kv_heads = g != no_axis ? g : 1;
    shape->heads = h != no_axis ? h : shape->kv_heads;
    if (h == no_axis || g == no_axis || h == g)
        return ATTN_OK;
    if (!p->grouped)
        return attn_fail(fault, ATTN_E_SHAPE, "enable_gqa",
                         "expected True for %td query heads over %td key heads, got False", h, g);
    if (g == 0 || h % g != 0)
        return attn_fail(fault, ATTN_E_SHAPE, "key",
                         "expected a number of heads that divides %td like query's heads, got %td",
                         h, g);
    return ATTN_OK;
}

static attn_status check_inputs(const attn_problem *p, attn_shape *shape, attn_fault *fault)
{
    const struct {
        const attn_view *view;
        const char *name;
    } input[] = {{&p->query, "query"}, {&p->key, "key"}, {&p->value, "value"}};
    attn_status status = ATTN_OK;

    for (int i = 0; i < 3; i++)
        if (input[i].view->data && input[i].view->axes < 2)
            return attn_fail(fault, ATTN_E_SHAPE, input[i].name, "expected at least 2 axes, got %d",
                             input[i].view->axes);

    const ptrdiff_t *query = p->query.dim + p->query.axes - 2;
    const ptrdiff_t *key = p->key.dim + p->key.axes - 2;
    *shape = (attn_shape){.queries = query[0], .features = query[1], .keys = key[0]};
    if (key[1] != query[1])
        return attn_fail(fault, ATTN_E_SHAPE, "key", "expected %td features like query, got %td",
                         query[1], key[1]);
    if (p->value.data) {
        const ptrdiff_t *value = p->value.dim + p->value.axes - 2;
        shape->value_features = value[1];
        if (value[0] != key[0])
            return attn_fail(fault, ATTN_E_SHAPE, "value", "expected %td keys like key, got %td",
                             key[0], value[0]);
    }
    for (int i = 0; i < 3 && status == ATTN_OK; i++)
        if (input[i].view->data)
            status = join_leading(input[i].view, input[i].name, shape, fault);
    return status == ATTN_OK ? check_heads(p, shape, fault) : status;
}

/* The shape of a result or of what broadcasts to it: the leading axes, and which of the others. */
enum axes_after { HEAD = 1, QUERY = 2, KEY = 4, FEATURE = 8 };

static int expected_dims(const attn_shape *shape, int after, ptrdiff_t dim[ATTN_MAX_AXES])
{
    int axes = 0;
    for (; axes < shape->batch_axes; axes++)
        dim[axes] = shape->batch_dim[axes];
    if (after & HEAD && (shape->head_axis || !(after & QUERY)))
        dim[axes++] = shape->heads;
    if (after & QUERY)
        dim[axes++] = shape->queries;
    if (after & KEY)
        dim[axes++] = shape->keys;
    if (after & FEATURE)
        dim[axes++] = shape->value_features;
    return axes;
}

static bool broadcasts_to(const attn_view *view, const ptrdiff_t *dim, int axes)
{
    for (int back = 1; back <= view->axes; back++) {
        const ptrdiff_t found = view->dim[view->axes - back];
        if (back > axes || (found != 1 && found != dim[axes - back]))
            return false;
    }
    return true;
}

static attn_status check_options(const attn_problem *p, const attn_shape *shape, attn_fault *fault)
{
    const struct {
        const attn_view *view;
        const char *name;
        int after;
    } option[] = {{&p->mask, "attn_mask", HEAD | QUERY | KEY},
                  {&p->q_offset, "q_offset", 0},
                  {&p->alibi_slopes, "alibi_slopes", HEAD},
                  {&p->q_lens, "q_lens", 0},
                  {&p->sinks, "sinks", HEAD},
                  {&p->kv_lens, "kv_lens", 0}};
    ptrdiff_t dim[ATTN_MAX_AXES];

    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        if (!option[i].view->data)
            continue;
        const int axes = expected_dims(shape, option[i].after, dim);
        if (!broadcasts_to(option[i].view, dim, axes))
            return attn_fail(fault, ATTN_E_SHAPE, option[i].name,
                             "expected a shape that broadcasts to %s, got %s",
                             attn_shape_text(dim, axes).text,
                             attn_shape_text(option[i].view->dim, option[i].view->axes).text);
    }
    if (p->scaled && !holds(p->query.dtype, p->scale))
        return attn_fail(fault, ATTN_E_VALUE, "scale", "expected a finite number%s, got %g",
                         isfinite(p->scale) ? " that float32 holds" : "", p->scale);
    const double least_cap = p->query.dtype == ATTN_F64 ? DBL_MIN : FLT_MIN;
    if (!holds(p->query.dtype, p->softcap) || (p->softcap != 0 && p->softcap < least_cap))
        return attn_fail(fault, ATTN_E_VALUE, "softcap",
                         "expected a positive number that %s holds, or 0 or None for none, got %g",
                         sum_name(p->query.dtype), p->softcap);
    if (!(p->dropout >= 0 && p->dropout <= 1))
        return attn_fail(fault, ATTN_E_VALUE, "dropout_p", "expected a number from 0 to 1, got %g",
                         p->dropout);
    if (p->window_left < ATTN_OPEN || p->window_right < ATTN_OPEN)
        return attn_fail(fault, ATTN_E_VALUE, "window",
                         "expected sides of None, -1 or more, got (%td, %td)", p->window_left,
                         p->window_right);
    return ATTN_OK;
}

/* Whether a result of these axes, eight bytes a number, fits into memory at all. */
static attn_status check_size(const attn_shape *shape, int after, const char *what,
                              attn_fault *fault)
{
    ptrdiff_t dim[ATTN_MAX_AXES], size = 8;
    const int axes = expected_dims(shape, after, dim);
    for (int axis = 0; axis < axes; axis++)
        if (!product_fits(size, dim[axis], &size))
            return attn_fail(fault, ATTN_E_MEMORY, "query",
                             "expected %s that can be counted, got shape %s", what,
                             attn_shape_text(dim, axes).text);
    return ATTN_OK;
}

static attn_status check_results(const attn_problem *p, const attn_shape *shape, attn_fault *fault)
{
    if (!p->out.data)
        return ATTN_OK;
    ptrdiff_t dim[ATTN_MAX_AXES];
    const int axes = expected_dims(shape, HEAD | QUERY | FEATURE, dim);
    bool same = p->out.axes == axes;
    for (int axis = 0; same && axis < axes; axis++)
        same = p->out.dim[axis] == dim[axis];
    if (same)
        return ATTN_OK;
    return attn_fail(fault, ATTN_E_SHAPE, "out", "expected shape %s, got %s",
                     attn_shape_text(dim, axes).text,
                     attn_shape_text(p->out.dim, p->out.axes).text);
}

attn_status attn_check(const attn_problem *p, attn_shape *shape, attn_fault *fault)
{
    attn_status status = check_dtypes(p, fault);
    if (status == ATTN_OK)
        status = check_inputs(p, shape, fault);
    if (status == ATTN_OK)
        status = check_options(p, shape, fault);
    if (status == ATTN_OK) /* the scores: nobody stores them all, but someone has to count them */
        status = check_size(shape, HEAD | QUERY | KEY, "scores", fault);
    if (status == ATTN_OK)
        status = check_size(shape, HEAD | QUERY | FEATURE, "outputs", fault);
    if (status == ATTN_OK)
        status = check_results(p, shape, fault);

    shape->batches = 1;
    for (int axis = 0; status == ATTN_OK && axis < shape->batch_axes; axis++)
        shape->batches *= shape->batch_dim[axis];
    return status;
}

/* Whether all numbers of an int64 or float64 array lie between least and largest. */
static attn_status check_range(const attn_view *view, const char *name, double least_number,
                               double largest, const char *wanted, attn_fault *fault)
{
    ptrdiff_t count = 1;
    for (int axis = 0; axis < view->axes; axis++)
        count *= view->dim[axis];
    for (ptrdiff_t i = 0; i < count; i++) {
        const char *at = (char *)view->data
                         + element_offset(view->dim, view->stride, view->axes, i);
        const bool integer = view->dtype == ATTN_I64;
        const int64_t whole = integer ? *(const int64_t *)(const void *)at : 0;
        const double number = integer ? (double)whole : *(const double *)(const void *)at;
        if (number >= least_number && number <= largest)
            continue;
        if (integer)
            return attn_fail(fault, ATTN_E_VALUE, name, "expected %s, got %lld", wanted,
                             (long long)whole);
        return attn_fail(fault, ATTN_E_VALUE, name, "expected %s, got %g", wanted, number);
    }
    return ATTN_OK;
}

static attn_status check_lengths(const attn_view *view, const char *name, ptrdiff_t longest,
                                 attn_fault *fault)
{
    char wanted[64];
    if (!view->data)
        return ATTN_OK;
    snprintf(wanted, sizeof wanted, "lengths from 0 to %td", longest);
    return check_range(view, name, 0, (double)longest, wanted, fault);
}

attn_status attn_check_values(const attn_problem *p, const attn_shape *shape, attn_fault *fault)
{
    attn_status status = check_lengths(&p->q_lens, "q_lens", shape->queries, fault);
    if (status == ATTN_OK)
        status = check_lengths(&p->kv_lens, "kv_lens", shape->keys, fault);
    if (status != ATTN_OK)
        return status;
    if (!p->alibi_slopes.data)
        return ATTN_OK;
    const bool wide = p->query.dtype == ATTN_F64;
    const double largest = wide ? DBL_MAX : FLT_MAX;
    return check_range(&p->alibi_slopes, "alibi_slopes", -largest, largest,
                       wide ? "finite numbers" : "finite numbers that float32 holds", fault);
}
