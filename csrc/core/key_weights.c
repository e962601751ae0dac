/* key_weights.c: the weight that each key receives, summed over the queries, without an L × S matrix.
 * First the softmax's max and factor of every query, then, key tile by key tile, the column sums of
 * weights made anew: a unit owns its keys, so that no sum is shared between threads. */
#include <string.h>

#include "alloc.h"
#include "forward.h"
#include "number.h"

struct column_sums {
    char *statistics; /* max and factor of each row: 2 reals */
    struct operand sums;
    ptrdiff_t key_units; /* key tiles of a head */
};

static char *row_statistics(const struct column_sums *job, const struct tile *tile)
{
    const struct attn_plan *plan = tile->plan;
    const ptrdiff_t head = tile->flat_batch * plan->shape->heads + tile->first_head;
    return job->statistics
           + (head * plan->shape->queries + tile->first_row) * 2
                 * (ptrdiff_t)plan->kernels->real_size;
}

static void statistics_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct attn_units *units = job->context;
    const struct attn_plan *plan = units->plan;
    struct tile tile;
    tile_open(&tile, plan, units->scratch + thread * plan->scratch.size, unit);
    tile_load(&tile);
    if (!attn_attend(&tile, job, thread))
        return;
    attn_divide_by_sum(&tile);
    char *to = row_statistics(units->context, &tile);
    const size_t bytes = (size_t)tile.count * plan->kernels->real_size;
    memcpy(to, tile.max, bytes);
    memcpy(to + bytes, tile.factor, bytes);
}

/* Adds one tile of queries to the sums, which lie in the lanes of tile->out until all are there. */
static void add_queries(struct tile *tile, const struct column_sums *job, ptrdiff_t key,
                        ptrdiff_t keys)
{
    const struct attn_kernels *k = tile->plan->kernels;
    const char *from = row_statistics(job, tile);
    const size_t bytes = (size_t)tile->count * k->real_size;
    memcpy(tile->max, from, bytes);
    memcpy(tile->factor, from + bytes, bytes);
    tile_load(tile);
    if (tile_scores(tile, key, keys, ATTN_WEIGHTS) == TILE_HIDDEN)
        return;
    k->softmax_end(tile->scores, keys, tile->vectors, tile->max, tile->factor);
    k->add_lanes(tile->out, tile->scores, keys, tile->count);
}

static void sums_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct attn_units *units = job->context;
    const struct attn_plan *plan = units->plan;
    const struct attn_kernels *k = plan->kernels;
    const struct column_sums *columns = units->context;
    const ptrdiff_t head = unit / columns->key_units;
    const ptrdiff_t key = unit % columns->key_units * plan->key_tile;
    const ptrdiff_t keys = least(plan->key_tile, plan->shape->keys - key);
    char *scratch = units->scratch + thread * plan->scratch.size;
    struct tile tile;

    tile_locate(&tile, plan, head);
    tile.out = scratch + plan->scratch.out;
    memset(tile.out, 0, (size_t)keys * (size_t)k->tile_lanes * k->real_size);
    for (ptrdiff_t i = 0; i < plan->tiles; i++) {
        if (attn_job_stops(job, thread))
            return;
        tile_open(&tile, plan, scratch, head * plan->tiles + i);
        if (key < tile.stop && key + keys > tile.start)
            add_queries(&tile, columns, key, keys);
    }
    k->sum_lanes(tile.out, keys);
    struct attn_rows row = {
        .count = 1, .vectors = 1, .dtype = columns->sums.dtype, .step = columns->sums.col};
    row.row[0] = tile_base(&tile, &columns->sums, tile.first_head);
    k->unpack(&row, key, keys, tile.out, NULL);
}

attn_status attn_key_weights(const attn_problem *problem, const attn_shape *shape,
                             const attn_view *sums, const attn_run *run)
{
    struct attn_plan plan;
    struct column_sums columns = {0};
    ptrdiff_t rows;
    if (shape->keys == 0 || shape->batches == 0 || shape->heads == 0)
        return ATTN_OK;
    if (!attn_plan_make(&plan, problem, shape, false)
        || !product_fits(shape->batches * shape->heads * shape->queries,
                         2 * (ptrdiff_t)plan.kernels->real_size, &rows))
        return ATTN_E_MEMORY;
    columns.statistics = attn_alloc((size_t)rows);
    if (!columns.statistics)
        return ATTN_E_MEMORY;

    find_operand(&columns.sums, sums, AXIS_HEAD | AXIS_COL, shape);
    columns.key_units = divide_up(shape->keys, plan.key_tile);
    attn_status status = attn_run_plan(&plan, run, 1, statistics_unit, &columns);
    if (status == ATTN_OK) {
        plan.units = shape->batches * shape->heads * columns.key_units;
        status = attn_run_plan(&plan, run, 1, sums_unit, &columns);
    }
    attn_free(columns.statistics);
    return status;
}
