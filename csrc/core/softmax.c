/* softmax.c: the softmax of rows in memory. Rows become lanes, and attention's own running softmax
 * does the rest: one pass for max and sum, one that writes. */
#include <math.h>
#include <string.h>

#include "alloc.h"
#include "dispatch.h"
#include "number.h"
#include "plan.h"
#include "pool.h"

struct rows_job {
    const attn_view *x, *out;
    const struct attn_kernels *kernels;
    ptrdiff_t rows, cols;
    char *scratch;
    size_t scratch_size;
};

/* The addresses of rows [first, first + count), counted over all axes but the last. */
static void find_rows(const attn_view *view, ptrdiff_t first, struct attn_rows *rows)
{
    rows->dtype = view->dtype;
    rows->step = view->stride[view->axes - 1];
    for (int lane = 0; lane < rows->count; lane++)
        rows->row[lane] = (char *)view->data
                          + element_offset(view->dim, view->stride, view->axes - 1, first + lane);
}

static void softmax_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct rows_job *all = job->context;
    const struct attn_kernels *k = all->kernels;
    const size_t lanes_size = (size_t)k->tile_lanes * k->real_size;
    char *max = all->scratch + (size_t)thread * all->scratch_size;
    char *sum = max + lanes_size, *factor = sum + lanes_size, *scores = factor + lanes_size;
    const ptrdiff_t first = unit * k->tile_lanes;
    struct attn_rows from = {.count = (int)least(k->tile_lanes, all->rows - first)}, to;
    from.vectors = (int)divide_up(from.count, k->lanes);
    to = from;
    find_rows(all->x, first, &from);
    find_rows(all->out, first, &to);

    double lane[MAX_TILE_LANES];
    for (int i = 0; i < k->tile_lanes; i++)
        lane[i] = -INFINITY;
    k->set_lanes(max, lane);
    memset(sum, 0, lanes_size);
    for (ptrdiff_t col = 0; col < all->cols; col += KEYS_PER_TILE) {
        const ptrdiff_t cols = least(KEYS_PER_TILE, all->cols - col);
        if (attn_job_stops(job, thread))
            return;
        k->pack(scores, &from, col, cols);
        k->softmax_step(scores, cols, from.vectors, max, sum, factor);
    }
    k->get_lanes(lane, sum);
    for (int i = 0; i < k->tile_lanes; i++)
        lane[i] = lane[i] == 0 ? 0 : 1 / lane[i];
    k->set_lanes(factor, lane);
    for (ptrdiff_t col = 0; col < all->cols; col += KEYS_PER_TILE) {
        const ptrdiff_t cols = least(KEYS_PER_TILE, all->cols - col);
        if (attn_job_stops(job, thread))
            return;
        k->pack(scores, &from, col, cols);
        k->softmax_end(scores, cols, from.vectors, max, factor);
        k->unpack(&to, col, cols, scores, NULL);
    }
}

attn_status attn_softmax(const attn_view *x, const attn_view *out, const attn_run *run)
{
    const struct attn_kernels *k = attn_dispatch(x->dtype);
    struct rows_job all = {
        .x = x, .out = out, .kernels = k, .rows = 1, .cols = x->dim[x->axes - 1]};
    for (int axis = 0; axis < x->axes - 1; axis++)
        if (!product_fits(all.rows, x->dim[axis], &all.rows))
            return ATTN_E_MEMORY;
    if (all.rows == 0 || all.cols == 0)
        return ATTN_OK;

    struct attn_job job = {.unit = softmax_unit,
                           .context = &all,
                           .run = *run,
                           .units = divide_up(all.rows, k->tile_lanes)};
    const double work_per_element = 16;
    job.run.threads = attn_plan_threads(run, (double)all.rows * (double)all.cols * work_per_element,
                                        job.units);
    all.scratch_size = (KEYS_PER_TILE + 3) * (size_t)k->tile_lanes * k->real_size;
    all.scratch = attn_alloc(all.scratch_size * (size_t)job.run.threads);
    if (!all.scratch)
        return ATTN_E_MEMORY;
    const attn_status status = attn_pool_run(&job);
    attn_free(all.scratch);
    return status;
}
