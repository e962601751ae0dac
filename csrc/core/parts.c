/* parts.c: the forward pass where there are few tiles of queries and many keys, as in decoding: the
 * keys are split into parts, each a unit, and what the parts found is merged in their order. Merging is
 * attention again, over the parts: their maxima are the scores, their unscaled outputs the values. */
#include <math.h>
#include <string.h>

#include "alloc.h"
#include "forward.h"
#include "number.h"

/* What the parts of all tiles found, in the real type. */
struct partials {
    char *memory;
    ptrdiff_t lanes; /* bytes of one real for each lane */
    ptrdiff_t out;   /* bytes of the output of a part: rows × value features */
    ptrdiff_t tile;  /* bytes of all parts of a tile: maxima, sums, outputs, each by part */
};

static char *maxima(const struct partials *p, ptrdiff_t tile) { return p->memory + tile * p->tile; }

static char *sums(const struct partials *p, const struct attn_plan *plan, ptrdiff_t tile)
{
    return maxima(p, tile) + plan->parts * p->lanes;
}

static char *outputs(const struct partials *p, const struct attn_plan *plan, ptrdiff_t tile)
{
    return sums(p, plan, tile) + plan->parts * p->lanes;
}

/* The output of a part row by row, whichever way the tile holds it. */
static void save_rows(const struct tile *tile, char *to)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    const ptrdiff_t features = plan->shape->value_features, size = (ptrdiff_t)k->real_size;
    if (plan->few_rows) {
        memcpy(to, tile->out, (size_t)(tile->count * features * size));
        return;
    }
    struct attn_rows rows = {.count = tile->count,
                             .vectors = tile->vectors,
                             .step = size,
                             .dtype = size == sizeof(float) ? ATTN_F32 : ATTN_F64};
    for (int r = 0; r < rows.count; r++)
        rows.row[r] = to + r * features * size;
    k->unpack(&rows, 0, features, tile->out, NULL);
}

static void part_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct attn_units *units = job->context;
    const struct attn_plan *plan = units->plan;
    const struct partials *p = units->context;
    const ptrdiff_t index = unit / plan->parts, part = unit % plan->parts;
    struct tile tile;
    tile_open(&tile, plan, units->scratch + thread * plan->scratch.size, index);
    tile_take_part(&tile, part);
    tile_load(&tile);
    if (!attn_attend(&tile, job, thread))
        return;
    memcpy(maxima(p, index) + part * p->lanes, tile.max, (size_t)p->lanes);
    memcpy(sums(p, plan, index) + part * p->lanes, tile.sum, (size_t)p->lanes);
    save_rows(&tile, outputs(p, plan, index) + part * p->out);
}

/* Leaves e^(max of the part - max of all) in place of the maxima, and in the tile max and sum of all. */
static void weigh_parts(struct tile *tile, char *max, const char *sum, ptrdiff_t lanes_size)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    double all[MAX_TILE_LANES], weight[MAX_TILE_LANES], part_sum[MAX_TILE_LANES];
    for (int lane = 0; lane < k->tile_lanes; lane++)
        all[lane] = -INFINITY;
    k->set_lanes(tile->max, all);
    k->set_lanes(tile->sum, all);
    k->softmax_step(max, plan->parts, TILE_VECTORS, tile->max, tile->sum, tile->owed);

    memset(all, 0, sizeof all);
    for (ptrdiff_t part = 0; part < plan->parts; part++) {
        k->get_lanes(weight, max + part * lanes_size);
        k->get_lanes(part_sum, sum + part * lanes_size);
        for (int lane = 0; lane < k->tile_lanes; lane++)
            all[lane] += weight[lane] * part_sum[lane];
    }
    k->set_lanes(tile->sum, all);
}

static void merge_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct attn_units *units = job->context;
    const struct attn_plan *plan = units->plan;
    const struct attn_kernels *k = plan->kernels;
    const struct partials *p = units->context;
    const ptrdiff_t features = plan->shape->value_features, size = (ptrdiff_t)k->real_size;
    char *max = maxima(p, unit);
    struct attn_rows rows, row;
    struct tile tile;
    tile_open(&tile, plan, units->scratch + thread * plan->scratch.size, unit);
    weigh_parts(&tile, max, sums(p, plan, unit), p->lanes);
    attn_divide_by_sum(&tile);
    if (plan->lse.data)
        attn_store_lse(&tile);

    tile_rows(&tile, &plan->out, &rows);
    row = rows;
    row.count = 1;
    memset(tile.owed, 0, (size_t)size);
    for (int r = 0; r < tile.count; r++) {
        memset(tile.out, 0, (size_t)(features * size));
        k->add_rows(tile.out, outputs(p, plan, unit) + r * features * size, p->out / size,
                    max + r * size, plan->parts, features, 1, tile.owed, NULL);
        row.row[0] = rows.row[r];
        k->narrow(&row, features, tile.out, (char *)tile.factor + r * size);
    }
}

attn_status attn_forward_parts(const struct attn_plan *plan, const attn_run *run)
{
    const struct attn_kernels *k = plan->kernels;
    const ptrdiff_t size = (ptrdiff_t)k->real_size, tiles = plan->units / plan->parts;
    struct partials p = {.lanes = k->tile_lanes * size};
    ptrdiff_t all;
    if (!product_fits(plan->shape->value_features, p.lanes, &p.out)
        || !sum_fits(p.out, 2 * p.lanes, &p.tile) || !product_fits(p.tile, plan->parts, &p.tile)
        || !product_fits(p.tile, tiles, &all))
        return ATTN_E_MEMORY;
    p.memory = attn_alloc((size_t)all);
    if (!p.memory)
        return ATTN_E_MEMORY;

    attn_status status = attn_run_plan(plan, run, 1, part_unit, &p);
    if (status == ATTN_OK) {
        struct attn_plan merge = *plan;
        merge.units = tiles;
        merge.work = 0;
        status = attn_run_plan(&merge, run, 1, merge_unit, &p);
    }
    attn_free(p.memory);
    return status;
}
