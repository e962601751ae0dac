/* Attention as its definition says it, in long double, with a bound for each number.
 *
 * A score is off by delta = (E + 5) · u · scale · Σ|q · k| from the product, and a few roundings of
 * what is added. A weight e^(s - max) / sum then is off by the factor 1 ± (delta + the largest delta
 * of the row + 3 · u · |s - max| + (S + 20) · u): of the exponent, of the sum, and of exp2, the
 * running rescaling and the division. */
#include "core.h"

static wide roundoff(attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_F16: return 0x1p-11L;
    case ATTN_BF16: return 0x1p-8L;
    case ATTN_F64: return 0x1p-53L;
    default: return 0x1p-24L;
    }
}

/* The place of a row, and what the arithmetic's real type is. */
struct row {
    const struct problem *p;
    ptrdiff_t index[ATTN_MAX_AXES + 3];
    int axes; /* leading ones */
    ptrdiff_t head, query;
    wide u;
};

static double leading(const struct row *row, const attn_view *view, double none)
{
    return view->data ? view_at(view, row->index, row->axes) : none;
}

static double per_head(const struct row *row, const attn_view *view, double none)
{
    return view->data ? view_at(view, row->index, row->axes + 1) : none;
}

static double element(const struct row *row, const attn_view *view, ptrdiff_t head, ptrdiff_t r,
                      ptrdiff_t c)
{
    ptrdiff_t index[ATTN_MAX_AXES + 3];
    memcpy(index, row->index, sizeof index);
    index[row->axes] = head;
    index[row->axes + 1] = r;
    index[row->axes + 2] = c;
    return view_at(view, index, row->axes + 3);
}

static ptrdiff_t kv_head(const struct row *row)
{
    const attn_shape *shape = &row->p->shape;
    return row->head / (shape->heads / shape->kv_heads);
}

/* Whether the position masks and lengths leave the key. */
static bool in_range(const struct row *row, ptrdiff_t key)
{
    const attn_problem *p = &row->p->problem;
    const double position = leading(row, &p->q_offset, 0) + (double)row->query;
    const double ahead = (double)key - position;
    if ((double)row->query >= leading(row, &p->q_lens, (double)row->p->shape.queries)
        || (double)key >= leading(row, &p->kv_lens, (double)row->p->shape.keys))
        return false;
    return (!p->causal || ahead <= 0)
           && (p->window_left == ATTN_OPEN || -ahead <= (double)p->window_left)
           && (p->window_right == ATTN_OPEN || ahead <= (double)p->window_right);
}

static void solve_score(const struct row *row, ptrdiff_t key, attn_stage stage, struct solution *s)
{
    const attn_problem *p = &row->p->problem;
    const ptrdiff_t features = row->p->shape.features;
    const wide scale = p->scaled ? p->scale : 1 / sqrtl(features);
    wide sum = 0, size = 0;
    for (ptrdiff_t e = 0; e < features; e++) {
        const wide term = scale * element(row, &p->query, row->head, row->query, e)
                          * element(row, &p->key, kv_head(row), key, e);
        sum += term;
        size += fabsl(term);
    }
    wide score = sum, bound = (wide)(features + 5) * row->u * size;
    if (stage >= ATTN_SOFTCAPPED && p->softcap > 0) {
        score = p->softcap * tanhl(sum / p->softcap);
        bound += 8 * row->u * fabsl(score);
    }
    if (stage >= ATTN_BIASED && p->mask.data) {
        const double mask = element(row, &p->mask, row->head, row->query, key);
        if (p->mask.dtype == ATTN_BOOL ? mask == 0 : mask == -INFINITY)
            score = -INFINITY; /* whatever it was */
        else if (p->mask.dtype != ATTN_BOOL)
            score += mask, bound += row->u * (fabsl(score) + fabsl(mask));
    }
    if (stage >= ATTN_BIASED && p->alibi_slopes.data) {
        const double position = leading(row, &p->q_offset, 0) + (double)row->query;
        const wide slant = per_head(row, &p->alibi_slopes, 0) * fabs(position - (double)key);
        score -= slant;
        bound += row->u * (fabsl(score) + 4 * slant);
    }
    if (stage >= ATTN_BIASED && !in_range(row, key))
        score = -INFINITY;
    s->score[key] = score;
    s->score_bound[key] = isinf(score) ? 0 : bound;
}

static void solve_weights(const struct row *row, struct solution *s)
{
    const attn_problem *p = &row->p->problem;
    const ptrdiff_t keys = row->p->shape.keys;
    const double sink = per_head(row, &p->sinks, -INFINITY);
    wide max = sink, delta = 0, sum = 0;
    for (ptrdiff_t key = 0; key < keys; key++) {
        max = isnan(s->score[key]) || s->score[key] > max ? s->score[key] : max;
        delta = fmaxl(delta, s->score_bound[key]);
    }
    if (max == -INFINITY) {
        memset(s->weight, 0, sizeof s->weight);
        memset(s->weight_bound, 0, sizeof s->weight_bound);
        s->lse = -INFINITY;
        return;
    }
    for (ptrdiff_t key = 0; key < keys; key++)
        sum += expl(s->score[key] - max);
    sum += expl(sink - max);
    const wide common = delta + (wide)(keys + 20) * row->u;
    for (ptrdiff_t key = 0; key < keys; key++) {
        const wide below = s->score[key] - max;
        s->weight[key] = s->weight_bound[key] = 0;
        if (s->score[key] == -INFINITY)
            continue; /* also where the sum is NaN */
        s->weight[key] = expl(below) / sum;
        if (!isinf(below))
            s->weight_bound[key] = (s->score_bound[key] + common + 3 * row->u * fabsl(below))
                                       * s->weight[key]
                                   + (row->u < 1e-10L ? DBL_MIN : FLT_MIN);
    }
    s->lse = max + logl(sum);
    s->lse_bound = delta + (wide)(keys + 20) * row->u + 2 * row->u * fabsl(s->lse);
}

static void drop_weights(const struct row *row, struct solution *s)
{
    const attn_problem *p = &row->p->problem;
    const attn_shape *shape = &row->p->shape;
    if (p->dropout == 0)
        return;
    ptrdiff_t batch = 0;
    for (int axis = 0; axis < shape->batch_axes; axis++)
        batch = batch * shape->batch_dim[axis] + row->index[axis];
    const ptrdiff_t number = (batch * shape->heads + row->head) * shape->queries + row->query;
    const wide kept = 1 / (1 - (wide)p->dropout);
    for (ptrdiff_t key = 0; key < shape->keys; key++) {
        const bool gone = dropped((uint64_t)number, (uint64_t)key, p->seed,
                                  (uint32_t)floor(p->dropout * 0x1p32));
        s->weight[key] = gone ? 0 : kept * s->weight[key];
        s->weight_bound[key] = gone ? 0 : kept * s->weight_bound[key];
    }
}

static void solve_out(const struct row *row, struct solution *s)
{
    const attn_problem *p = &row->p->problem;
    const wide rounding = roundoff(p->out.dtype);
    for (ptrdiff_t e = 0; e < row->p->shape.value_features; e++) {
        wide sum = 0, size = 0, bound = 0;
        for (ptrdiff_t key = 0; key < row->p->shape.keys; key++) {
            if (s->score[key] == -INFINITY)
                continue; /* whatever the value is */
            const wide value = element(row, &p->value, kv_head(row), key, e);
            sum += s->weight[key] * value;
            size += fabsl(s->weight[key] * value);
            bound += s->weight_bound[key] * fabsl(value);
        }
        s->out[e] = isnan(s->lse) ? NAN : sum; /* the row's sum is what all is divided by */
        s->out_bound[e] = bound + (wide)(row->p->shape.keys + 20) * row->u * size
                          + rounding * fabsl(sum) + 0x1p-25L * (rounding > 1e-5L);
    }
}

void solve_row(const struct problem *p, const ptrdiff_t *batch, ptrdiff_t head, ptrdiff_t query,
               struct solution *s)
{
    const attn_problem *q = &p->problem;
    struct row row = {.p = p,
                      .axes = p->shape.batch_axes,
                      .head = head,
                      .query = query,
                      .u = q->query.dtype == ATTN_F64 ? 0x1p-53L : 0x1p-24L};
    for (int axis = 0; axis < row.axes; axis++)
        row.index[axis] = batch[axis];
    row.index[row.axes] = head;

    const bool softmax = q->stage == ATTN_WEIGHTS || !q->weights.data;
    for (ptrdiff_t key = 0; key < p->shape.keys; key++)
        solve_score(&row, key, softmax ? ATTN_BIASED : q->stage, s);
    s->lse_bound = 0;
    if (softmax) {
        solve_weights(&row, s);
        drop_weights(&row, s);
    }
    if (q->out.data)
        solve_out(&row, s);

    /* The results are rounded to their type once more. */
    const wide rounding = q->weights.data ? roundoff(q->weights.dtype) : 0;
    for (ptrdiff_t key = 0; key < p->shape.keys; key++) {
        const wide least = rounding > 1e-5L ? 0x1p-25L : 0; /* half of float16's least number */
        s->weight_bound[key] += rounding * s->weight[key] + least;
        s->score_bound[key] += rounding * fabsl(s->score[key]) + least;
    }
}
