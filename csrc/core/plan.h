/* plan.h: how a problem is split. A plan is pure: it depends on the problem and the ISA, never on the
 * number of threads or on data, and nothing is allocated to make it. So results are the same bits at
 * any thread count. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "../attn.h"
#include "../kernel/kernels.h"

/* At most: with 64 lanes of float this is 24 KB of scores, which stay in L1. */
enum { KEYS_PER_TILE = 96 };

/* An array as the problem sees it: bytes to go for one step along each axis, 0 where it broadcasts. */
struct operand {
    char *data;
    attn_dtype dtype;
    ptrdiff_t batch[ATTN_MAX_AXES], head, row, col;
};

/* Fills an operand, which is all zero, from a view with these axes from the right; leading axes come
 * after them. */
enum { AXIS_HEAD = 1, AXIS_ROW = 2, AXIS_COL = 4 };
void find_operand(struct operand *operand, const attn_view *view, int axes,
                  const attn_shape *shape);

/* Where each part of a thread's scratch begins. lanes: arrays of one real for each lane. */
enum { NUM_LANE_ARRAYS = 8 };
struct scratch_layout {
    ptrdiff_t query, scores, bias, out, key, value, lanes, size;
};

/* A tile of query rows meets all its keys, or a part of them; a unit of a job is one of these, or a few
 * in a row. The rows of a tile come from `tile_heads` query heads that share a key head, so that K and
 * V are streamed once for the whole group: row r of a head block is query r / tile_heads of its head
 * r % tile_heads. */
struct attn_plan {
    const attn_problem *problem;
    const attn_shape *shape;
    const struct attn_kernels *kernels;
    struct operand query, key, value, mask, alibi_slopes, sinks, q_offset, q_lens, kv_lens, out,
        weights, lse;

    double softcap;        /* 0 for none, or where raw scores are wanted */
    double factor;         /* of the scores: scale, over softcap where there is one */
    ptrdiff_t group;       /* query heads per key head */
    ptrdiff_t tile_heads;  /* group, or 1 */
    ptrdiff_t head_blocks; /* heads / tile_heads */
    ptrdiff_t rows;        /* of a head block */
    ptrdiff_t row_vectors; /* that hold them */
    ptrdiff_t tiles;       /* of a head block; row_vectors are spread evenly over them */
    ptrdiff_t key_tile;    /* keys at a time, a multiple of 4 */
    ptrdiff_t parts;       /* that the keys are split into, where there are few tiles */
    ptrdiff_t part_keys;   /* keys of a part, a multiple of key_tile */
    ptrdiff_t units;       /* tiles × parts */
    bool few_rows;         /* fill at most half a vector: the features go into the lanes instead */
    bool read_once;   /* no two tiles share keys: none are in the cache, so they are asked for */
    bool keep_scores; /* the array of weights can hold the scores until their softmax is known */
    bool same_mask;   /* the mask is the same for all rows of a tile, as for padding */
    bool widen_key, widen_value;   /* into scratch first: the product can't read them in place */
    struct scratch_layout scratch; /* in bytes */
    double work;                   /* multiplications, roughly */
};

/* Makes the plan; mixed: tiles may mix the heads of a group. false where its scratch would not fit
 * into ptrdiff_t. */
bool attn_plan_make(struct attn_plan *plan, const attn_problem *problem, const attn_shape *shape,
                    bool mixed);

/* How many tiles a thread should take at once. They are computed one by one, so this is a matter of
 * speed alone, and may depend on the number of threads. */
ptrdiff_t attn_plan_unit_tiles(const struct attn_plan *plan, const attn_run *run);

/* The threads worth waking for so much work. */
int attn_plan_threads(const attn_run *run, double work, ptrdiff_t units);

#endif
