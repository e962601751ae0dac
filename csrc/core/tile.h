/* tile.h: one tile of queries while a thread works on it. */
#ifndef ATTN_TILE_H
#define ATTN_TILE_H

#include "plan.h"

struct tile {
    const struct attn_plan *plan;
    ptrdiff_t batch[ATTN_MAX_AXES]; /* index along each leading axis */
    ptrdiff_t flat_batch;
    ptrdiff_t first_head, kv_head;
    ptrdiff_t first_row; /* of the head block */
    int count, vectors;  /* rows here, and the vectors that hold them */
    ptrdiff_t part;      /* of the keys; the sinks stand before part 0 */

    int64_t offset; /* of a query's position */

    /* Of each row: its head and query, and the keys that masks by position (causal, window, lengths)
     * leave it: first <= key < end. */
    ptrdiff_t head[MAX_TILE_LANES], query[MAX_TILE_LANES];
    int64_t first[MAX_TILE_LANES], end[MAX_TILE_LANES];

    bool masked;  /* some scores may be -inf by a mask */
    bool careful; /* keeps values that are not finite from the rows that do not see them */

    /* The keys that any row sees lie in [start, stop), and all of [inner_start, inner_stop) is seen
     * by all rows. */
    int64_t start, stop, inner_start, inner_stop;

    /* Scratch: tiles, and one real for each lane. */
    void *packed, *scores, *bias, *out, *key_rows, *value_rows; /* out: sums, without values */
    void *max, *sum, *owed, *factor, *first_lane, *end_lane, *distance, *slope;
};

/* Sets batch and heads from the number of a head block, counted over all batches. */
void tile_locate(struct tile *tile, const struct attn_plan *plan, ptrdiff_t head_block);

/* Sets up a tile, counted over all head blocks, in a thread's scratch: its rows, and their ranges of
 * keys. */
void tile_open(struct tile *tile, const struct attn_plan *plan, char *scratch, ptrdiff_t number);

/* Asks for the memory of the tile's rows in query and out and, where the plan reads keys once, of its
 * first keys and values: all at once. */
void tile_fetch(const struct tile *tile);

/* Reads what scores are made of: slopes, and queries, packed (as they are, row by row, where the plan
 * has few rows). */
void tile_load(struct tile *tile);

/* Leaves of the tile's keys those of one part. */
void tile_take_part(struct tile *tile, ptrdiff_t part);

/* Where the tile's batch and a head of an operand begin. */
char *tile_base(const struct tile *tile, const struct operand *operand, ptrdiff_t head);

/* The addresses of the tile's rows in an operand. */
void tile_rows(const struct tile *tile, const struct operand *operand, struct attn_rows *rows);

/* Asks for the memory of a tile of keys or values. */
void tile_fetch_keys(const struct tile *tile, const struct operand *operand, ptrdiff_t key);

/* Keys or values [key, key + keys) for the product: where they lie or, if the plan says so, widened
 * into scratch. Strides count reals. */
struct key_rows {
    const void *data;
    ptrdiff_t row, col;
};
struct key_rows tile_key_rows(struct tile *tile, const struct operand *operand, ptrdiff_t key,
                              ptrdiff_t keys);

/* What the rows of a tile see of some keys: nothing, all but what may be masked, or all. */
enum tile_sight { TILE_HIDDEN, TILE_MASKED, TILE_SEEN };

/* scores[key, lane] for keys [key, key + keys), as far as stage says; ATTN_WEIGHTS stops before the
 * softmax. */
enum tile_sight tile_scores(struct tile *tile, ptrdiff_t key, ptrdiff_t keys, attn_stage stage);

#endif
