/* plan.c: see plan.h. */
#include "plan.h"

#include <assert.h>
#include <math.h>

#include "dispatch.h"
#include "number.h"

enum {
    WIDENED_BYTES = 256 * 1024, /* room for a widened tile of keys and of values */
    UNITS_WANTED = 16,          /* with fewer the keys are split … */
    LEAST_PART_KEYS = 1024,     /* … into parts of no less than this */
    UNITS_PER_THREAD = 8,       /* at least, so that all threads end together */
};
static const double work_per_thread = 2e5; /* less does not pay for a wake-up */
static const double work_per_unit = 4e6;   /* some 20 µs */

/* Bytes for one step along the axis that stands `back` places from the right: 0 where the view has no
 * such axis, or one of size 1 that broadcasts. */
static ptrdiff_t step_along(const attn_view *view, int back)
{
    const int axis = view->axes - 1 - back;
    return axis >= 0 && view->dim[axis] != 1 ? view->stride[axis] : 0;
}

void find_operand(struct operand *o, const attn_view *view, int axes, const attn_shape *shape)
{
    int back = 0;
    if (!view->data)
        return;
    o->data = view->data;
    o->dtype = view->dtype;
    if (axes & AXIS_COL)
        o->col = step_along(view, back++);
    if (axes & AXIS_ROW)
        o->row = step_along(view, back++);
    if (axes & AXIS_HEAD)
        o->head = step_along(view, back++);
    for (int axis = shape->batch_axes - 1; axis >= 0; axis--)
        o->batch[axis] = step_along(view, back++);
}

static void find_operands(struct attn_plan *plan)
{
    const attn_problem *p = plan->problem;
    const attn_shape *shape = plan->shape;
    const int matrix = AXIS_HEAD | AXIS_ROW | AXIS_COL;

    find_operand(&plan->query, &p->query, matrix, shape);
    find_operand(&plan->key, &p->key, matrix, shape);
    find_operand(&plan->value, &p->value, matrix, shape);
    find_operand(&plan->mask, &p->mask, matrix, shape);
    find_operand(&plan->out, &p->out, matrix, shape);
    find_operand(&plan->weights, &p->weights, matrix, shape);
    find_operand(&plan->lse, &p->lse, AXIS_HEAD | AXIS_ROW, shape);
    find_operand(&plan->alibi_slopes, &p->alibi_slopes, AXIS_HEAD, shape);
    find_operand(&plan->sinks, &p->sinks, AXIS_HEAD, shape);
    find_operand(&plan->q_offset, &p->q_offset, 0, shape);
    find_operand(&plan->q_lens, &p->q_lens, 0, shape);
    find_operand(&plan->kv_lens, &p->kv_lens, 0, shape);
}

/* Whether an operand has the real type, at addresses that suit it. */
static bool is_real(const struct operand *o, const struct attn_plan *plan)
{
    const ptrdiff_t size = (ptrdiff_t)plan->kernels->real_size;
    bool aligned = (uintptr_t)o->data % plan->kernels->real_size == 0 && o->head % size == 0
                   && o->row % size == 0 && o->col % size == 0;
    for (int axis = 0; axis < plan->shape->batch_axes; axis++)
        aligned = aligned && o->batch[axis] % size == 0;
    return aligned && attn_dtype_size(o->dtype) == plan->kernels->real_size;
}

static bool is_contiguous(const struct operand *o, const struct attn_plan *plan)
{
    return o->col == (ptrdiff_t)plan->kernels->real_size;
}

/* Whether the product can't read an operand in place: it may be misaligned, or have features in the
 * lanes and not be contiguous. */
static bool must_widen(const struct operand *o, const struct attn_plan *plan)
{
    return !is_real(o, plan) || (plan->few_rows && !is_contiguous(o, plan));
}

/* Puts a part of rows × cols reals at the end of the scratch, on a cache line. */
static bool reserve(ptrdiff_t *offset, ptrdiff_t *size, ptrdiff_t rows, ptrdiff_t cols,
                    const struct attn_kernels *kernels)
{
    ptrdiff_t bytes;
    if (!product_fits(rows, cols, &bytes)
        || !product_fits(bytes, (ptrdiff_t)kernels->real_size, &bytes)
        || !sum_fits(bytes, 63, &bytes))
        return false;
    *offset = *size;
    return sum_fits(*size, bytes / 64 * 64, size);
}

static bool lay_out_scratch(struct attn_plan *plan)
{
    const attn_shape *shape = plan->shape;
    const struct attn_kernels *k = plan->kernels;
    struct scratch_layout *s = &plan->scratch;
    ptrdiff_t *size = &s->size;
    /* Without values the same place holds a number for each key. */
    const ptrdiff_t out_rows = plan->value.data ? shape->value_features : plan->key_tile;
    return reserve(&s->query, size, shape->features, k->tile_lanes, k)
           && reserve(&s->scores, size, plan->key_tile, k->tile_lanes, k)
           && reserve(&s->bias, size, plan->key_tile, k->tile_lanes, k)
           && reserve(&s->out, size, out_rows, k->tile_lanes, k)
           && reserve(&s->key, size, plan->widen_key ? plan->key_tile : 0, shape->features, k)
           && reserve(&s->value, size, plan->widen_value ? plan->key_tile : 0,
                      shape->value_features, k)
           && reserve(&s->lanes, size, NUM_LANE_ARRAYS, k->tile_lanes, k);
}

/* Keys in a tile, so that they and their values fit when widened. Whether they are must not count:
 * the same numbers in another layout have to give the same bits. */
static ptrdiff_t most_keys(const attn_shape *shape, const struct attn_kernels *kernels)
{
    const ptrdiff_t room = WIDENED_BYTES / (ptrdiff_t)kernels->real_size;
    const ptrdiff_t features = least(shape->features, room) + least(shape->value_features, room);
    const ptrdiff_t keys = features > 0 ? room / features / 4 * 4 : KEYS_PER_TILE;
    return least(most(4, keys), KEYS_PER_TILE);
}

/* Parts are merged, which only outputs can be. Their number is the problem's matter and not that of
 * the threads, since it shows in the last bits. */
static void split_keys(struct attn_plan *plan)
{
    const ptrdiff_t keys = plan->shape->keys;
    const ptrdiff_t tiles = plan->shape->batches * plan->head_blocks * plan->tiles;
    plan->parts = 1;
    if (plan->out.data && !plan->weights.data && tiles > 0 && tiles < UNITS_WANTED)
        plan->parts = most(1, least(divide_up(UNITS_WANTED, tiles), keys / LEAST_PART_KEYS));
    plan->part_keys = round_up(divide_up(keys, plan->parts), plan->key_tile);
    plan->units = tiles * plan->parts;
}

double attn_work(const attn_shape *shape)
{
    /* Results are written even where there is no query or no key. */
    return (double)shape->batches * (double)shape->heads * (double)most(1, shape->queries)
           * (double)most(1, shape->keys) * (double)(shape->features + shape->value_features + 16);
}

bool attn_plan_make(struct attn_plan *plan, const attn_problem *problem, const attn_shape *shape,
                    bool mixed)
{
    const struct attn_kernels *k = attn_dispatch(problem->query.dtype);
    *plan = (struct attn_plan){.problem = problem, .shape = shape, .kernels = k};
    find_operands(plan);

    /* Without features every score is an empty sum, 0, which no scale may turn into NaN. */
    const double features = shape->features > 0 ? (double)shape->features : 1;
    const double scale = problem->scaled ? problem->scale : 1 / sqrt(features);
    plan->softcap = problem->weights.data && problem->stage == ATTN_RAW ? 0 : problem->softcap;
    plan->factor = plan->softcap > 0 ? scale / plan->softcap : scale;

    plan->group = shape->kv_heads > 0 ? shape->heads / shape->kv_heads : 1;
    plan->tile_heads = mixed ? plan->group : 1;
    plan->head_blocks = plan->tile_heads > 0 ? shape->heads / plan->tile_heads : 0;
    plan->rows = plan->tile_heads * shape->queries;
    plan->row_vectors = divide_up(plan->rows, k->lanes);
    plan->tiles = divide_up(plan->row_vectors, TILE_VECTORS);

    plan->few_rows = 2 * plan->rows <= k->lanes;
    /* A single row goes through memory so fast that asking costs more than it brings. */
    plan->read_once = plan->tiles == 1 && plan->rows > 1;
    plan->same_mask = (plan->mask.row == 0 || shape->queries == 1)
                      && (plan->mask.head == 0 || plan->tile_heads == 1);
    plan->widen_key = must_widen(&plan->key, plan);
    plan->widen_value = problem->value.data && must_widen(&plan->value, plan);
    plan->keep_scores = plan->weights.data && problem->stage == ATTN_WEIGHTS
                        && problem->dropout == 0 && is_real(&plan->weights, plan)
                        && is_contiguous(&plan->weights, plan);
    plan->key_tile = least(round_up(most(1, shape->keys), 4), most_keys(shape, k));

    assert(plan->key_tile > 0 && plan->key_tile % 4 == 0); /* dropout counts in fours */
    split_keys(plan);
    plan->work = attn_work(shape);
    return lay_out_scratch(plan);
}

ptrdiff_t attn_plan_unit_tiles(const struct attn_plan *plan, const attn_run *run)
{
    const double tiles = work_per_unit / (1 + plan->work / (double)plan->units);
    const ptrdiff_t spread = plan->units / (UNITS_PER_THREAD * run->threads);
    return most(1, tiles < (double)spread ? (ptrdiff_t)tiles : spread);
}

int attn_plan_threads(const attn_run *run, double work, ptrdiff_t units)
{
    double threads = run->threads;
    if (threads > (double)units)
        threads = (double)units;
    if (threads > 1 + work / work_per_thread)
        threads = 1 + work / work_per_thread;
    return threads > 1 ? (int)threads : 1;
}
