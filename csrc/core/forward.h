/* forward.h: the steps of the forward pass that other calls share. */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "pool.h"
#include "tile.h"

/* Runs `unit` for all of a plan's units, or for so many of them at a time; each thread has its own
 * scratch. */
attn_status attn_run_plan(const struct attn_plan *plan, const attn_run *run, ptrdiff_t at_a_time,
                          void (*unit)(struct attn_job *job, ptrdiff_t unit, int thread),
                          void *context);

/* What a unit is given through job->context. */
struct attn_units {
    const struct attn_plan *plan;
    ptrdiff_t at_a_time;
    char *scratch; /* plan->scratch.size bytes for each thread */
    void *context;
};

/* Passes over all keys of a tile: leaves max and sum of its softmax and, where the problem has a
 * result, the unscaled output in tile->out. False when the job stops. */
bool attn_attend(struct tile *tile, struct attn_job *job, int thread);

/* tile->factor = (what dropout multiplies a weight by) / sum for each lane, 0 where the sum is 0. */
void attn_divide_by_sum(struct tile *tile);

/* Stores the tile's rows of the log-sum-exp. */
void attn_store_lse(const struct tile *tile);

/* The forward pass of a plan whose keys are split into parts. */
attn_status attn_forward_parts(const struct attn_plan *plan, const attn_run *run);

#endif
