/* forward.c: softmax(Q·Kᵀ)·V, tile by tile, with the softmax kept running (Milakov & Gimelshein 2018;
 * Dao et al. 2022), so that no more than a tile of scores ever exists. */
#include "forward.h"

#include <math.h>
#include <string.h>

#include "alloc.h"
#include "number.h"

/* A sink is a key without value that every query of its head sees first. */
static void begin_softmax(struct tile *tile)
{
    const struct attn_kernels *k = tile->plan->kernels;
    const struct operand *sinks = &tile->plan->sinks;
    double max[MAX_TILE_LANES], sum[MAX_TILE_LANES];
    for (int lane = 0; lane < k->tile_lanes; lane++) {
        max[lane] = -INFINITY;
        if (sinks->data && lane < tile->count && tile->part == 0)
            max[lane] = *(const double *)(const void *)tile_base(tile, sinks, tile->head[lane]);
        sum[lane] = max[lane] == -INFINITY ? 0 : 1;
    }
    k->set_lanes(tile->max, max);
    k->set_lanes(tile->sum, sum);
}

/* out = owed · out + Vᵀ · weights, lane by lane. seen: the scores, where a value that is not finite
 * must be kept from the lanes that do not see it, else NULL. */
static void add_values(struct tile *tile, const struct key_rows *v, ptrdiff_t keys,
                       const void *seen)
{
    const struct attn_kernels *k = tile->plan->kernels;
    const ptrdiff_t features = tile->plan->shape->value_features;
    if (tile->plan->few_rows)
        k->add_rows(tile->out, v->data, v->row, tile->scores, keys, features, tile->count,
                    tile->owed, seen);
    else if (seen)
        k->product_seen(tile->out, v->data, v->col, v->row, tile->scores, features, keys,
                        tile->vectors, tile->owed, seen);
    else
        k->product_add(tile->out, v->data, v->col, v->row, tile->scores, features, keys,
                       tile->vectors, tile->owed);
}

static void drop(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    const attn_shape *shape = plan->shape;
    const double share = plan->problem->dropout;
    uint64_t row[MAX_TILE_LANES];
    for (int lane = 0; lane < plan->kernels->tile_lanes; lane++) {
        const int real = lane < tile->count ? lane : 0;
        row[lane] = (uint64_t)((tile->flat_batch * shape->heads + tile->head[real]) * shape->queries
                               + tile->query[real]);
    }
    plan->kernels->dropout(tile->scores, key, keys, tile->vectors, row, plan->problem->seed,
                           share < 1 ? (uint32_t)(share * 0x1p32) : UINT32_MAX);
}

/* One tile of keys: scores, softmax, and the values' part of the output. */
static void attend_keys(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    if (plan->read_once && plan->out.data && key > tile->start)
        tile_fetch_keys(tile, &plan->value, key);
    const enum tile_sight sight = tile_scores(tile, key, keys, ATTN_WEIGHTS);
    if (plan->read_once)
        tile_fetch_keys(tile, &plan->key, key + keys);
    if (plan->keep_scores) {
        struct attn_rows rows;
        tile_rows(tile, &plan->weights, &rows);
        k->unpack(&rows, key, keys, tile->scores, NULL);
    }
    if (sight == TILE_HIDDEN)
        return;
    tile->masked = tile->masked || sight == TILE_MASKED;
    if (!plan->out.data) {
        k->softmax_step(tile->scores, keys, tile->vectors, tile->max, tile->sum, tile->owed);
        return;
    }

    const struct key_rows v = tile_key_rows(tile, &plan->value, key, keys);
    const void *seen = NULL;
    if (tile->careful && sight == TILE_MASKED) {
        memcpy(tile->bias, tile->scores, (size_t)keys * (size_t)k->tile_lanes * k->real_size);
        seen = tile->bias;
    }
    k->softmax_step(tile->scores, keys, tile->vectors, tile->max, tile->sum, tile->owed);
    if (plan->problem->dropout > 0)
        drop(tile, key, keys);
    add_values(tile, &v, keys, seen);
}

static bool attend(struct tile *tile, struct attn_job *job, int thread)
{
    const struct attn_plan *plan = tile->plan;
    begin_softmax(tile);
    if (plan->out.data)
        memset(tile->out, 0,
               (size_t)plan->shape->value_features * (size_t)plan->kernels->tile_lanes
                   * plan->kernels->real_size);

    for (ptrdiff_t key = tile->start; key < tile->stop; key += plan->key_tile) {
        if (attn_job_stops(job, thread))
            return false;
        attend_keys(tile, key, least(plan->key_tile, tile->stop - key));
    }
    return true;
}

/* Whether the output so far has neither infinities nor NaN. */
static bool is_finite(const struct tile *tile)
{
    const struct attn_plan *plan = tile->plan;
    const ptrdiff_t features = plan->shape->value_features;
    const int lanes = plan->kernels->tile_lanes;
    return plan->few_rows ? plan->kernels->all_finite(tile->out, features, 1, tile->count, features)
                          : plan->kernels->all_finite(tile->out, lanes, 1, features, tile->count);
}

bool attn_attend(struct tile *tile, struct attn_job *job, int thread)
{
    tile->masked = tile->careful = false;
    if (!attend(tile, job, thread))
        return false;
    if (!tile->plan->out.data || !tile->masked || is_finite(tile))
        return true;
    tile->careful = true;
    return attend(tile, job, thread);
}

void attn_divide_by_sum(struct tile *tile)
{
    const struct attn_kernels *k = tile->plan->kernels;
    const double share = tile->plan->problem->dropout, kept = share < 1 ? 1 / (1 - share) : 0;
    double sum[MAX_TILE_LANES];
    k->get_lanes(sum, tile->sum);
    for (int lane = 0; lane < k->tile_lanes; lane++)
        sum[lane] = sum[lane] == 0 ? 0 : kept / sum[lane];
    k->set_lanes(tile->factor, sum);
}

void attn_store_lse(const struct tile *tile)
{
    const struct attn_kernels *k = tile->plan->kernels;
    double max[MAX_TILE_LANES], sum[MAX_TILE_LANES];
    struct attn_rows rows;
    tile_rows(tile, &tile->plan->lse, &rows);
    k->get_lanes(max, tile->max);
    k->get_lanes(sum, tile->sum);
    for (int lane = 0; lane < tile->count; lane++) {
        const double lse = sum[lane] == 0 ? -INFINITY : max[lane] + log(sum[lane]);
        if (rows.dtype == ATTN_F64)
            memcpy(rows.row[lane], &lse, sizeof lse);
        else
            memcpy(rows.row[lane], &(float){(float)lse}, sizeof(float));
    }
}

/* Makes weights of the scores that the array of weights keeps; no other key has any. */
static void finish_weights(const struct tile *tile)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    const size_t first = (size_t)tile->start, end = (size_t)tile->stop;
    const size_t keys = (size_t)plan->shape->keys;
    struct attn_rows rows;
    tile_rows(tile, &plan->weights, &rows);
    for (int lane = 0; lane < rows.count; lane++) {
        memset(rows.row[lane], 0, first * k->real_size);
        memset(rows.row[lane] + end * k->real_size, 0, (keys - end) * k->real_size);
    }
    k->softmax_rows(&rows, tile->start, tile->stop - tile->start, tile->max, tile->factor);
}

/* Writes scores or weights of all keys, those outside [start, stop) too, whose weight is 0. */
static bool store_weights(struct tile *tile, struct attn_job *job, int thread)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    const attn_stage stage = plan->problem->stage;
    struct attn_rows rows;
    tile_rows(tile, &plan->weights, &rows);
    for (ptrdiff_t key = 0; key < plan->shape->keys; key += plan->key_tile) {
        const ptrdiff_t keys = least(plan->key_tile, plan->shape->keys - key);
        if (attn_job_stops(job, thread))
            return false;
        tile_scores(tile, key, keys, stage);
        if (stage == ATTN_WEIGHTS) {
            k->softmax_end(tile->scores, keys, tile->vectors, tile->max, tile->factor);
            if (plan->problem->dropout > 0)
                drop(tile, key, keys);
        }
        k->unpack(&rows, key, keys, tile->scores, NULL);
    }
    return true;
}

/* One tile, which is open. */
static void forward_tile(struct tile *tile, struct attn_job *job, int thread)
{
    const struct attn_plan *plan = tile->plan;
    tile_load(tile);
    if (!plan->weights.data || plan->problem->stage == ATTN_WEIGHTS) {
        if (!attn_attend(tile, job, thread))
            return;
        attn_divide_by_sum(tile);
    }
    if (plan->out.data) {
        struct attn_rows rows;
        tile_rows(tile, &plan->out, &rows);
        if (plan->few_rows)
            plan->kernels->narrow(&rows, plan->shape->value_features, tile->out, tile->factor);
        else
            plan->kernels->unpack(&rows, 0, plan->shape->value_features, tile->out, tile->factor);
    }
    if (plan->lse.data)
        attn_store_lse(tile);
    if (plan->keep_scores)
        finish_weights(tile);
    else if (plan->weights.data)
        store_weights(tile, job, thread);
}

/* A few tiles in a row: the next one's memory comes while one is computed. */
static void forward_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct attn_units *units = job->context;
    const struct attn_plan *plan = units->plan;
    char *scratch = units->scratch + thread * plan->scratch.size;
    const ptrdiff_t first = unit * units->at_a_time;
    const ptrdiff_t end = least(first + units->at_a_time, plan->units);
    struct tile tile[2];
    tile_open(&tile[0], plan, scratch, first);
    tile_fetch(&tile[0]);
    for (ptrdiff_t i = 0; first + i < end; i++) {
        if (first + i + 1 < end) {
            tile_open(&tile[(i + 1) % 2], plan, scratch, first + i + 1);
            tile_fetch(&tile[(i + 1) % 2]);
        }
        forward_tile(&tile[i % 2], job, thread);
        if (attn_job_stops(job, thread))
            return;
    }
}

attn_status attn_run_plan(const struct attn_plan *plan, const attn_run *run, ptrdiff_t at_a_time,
                          void (*unit)(struct attn_job *job, ptrdiff_t unit, int thread),
                          void *context)
{
    _Alignas(64) char small[16 * 1024]; /* enough for a tutorial's sizes */
    struct attn_units units = {
        .plan = plan, .at_a_time = at_a_time, .context = context, .scratch = small};
    struct attn_job job = {
        .unit = unit, .context = &units, .units = divide_up(plan->units, at_a_time), .run = *run};
    ptrdiff_t size;

    if (plan->units == 0)
        return ATTN_OK;
    job.run.threads = attn_plan_threads(run, plan->work, job.units);
    if (!product_fits(plan->scratch.size, job.run.threads, &size))
        return ATTN_E_MEMORY;
    if ((size_t)size > sizeof small)
        units.scratch = attn_alloc((size_t)size);
    if (!units.scratch)
        return ATTN_E_MEMORY;
    const attn_status status = attn_pool_run(&job);
    if (units.scratch != small)
        attn_free(units.scratch);
    return status;
}

/* Whether there is any element to compute. */
static bool has_results(const attn_problem *p, const attn_shape *shape)
{
    return shape->batches > 0 && shape->heads > 0 && shape->queries > 0
           && ((p->out.data && shape->value_features > 0) || (p->weights.data && shape->keys > 0)
               || p->lse.data);
}

attn_status attn_forward(const attn_problem *problem, const attn_shape *shape, const attn_run *run)
{
    struct attn_plan plan;
    if (!has_results(problem, shape))
        return ATTN_OK;
    if (!attn_plan_make(&plan, problem, shape, true))
        return ATTN_E_MEMORY;
    if (plan.parts > 1)
        return attn_forward_parts(&plan, run);
    return attn_run_plan(&plan, run, attn_plan_unit_tiles(&plan, run), forward_unit, NULL);
}
