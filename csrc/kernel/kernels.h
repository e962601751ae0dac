/* kernels.h: the tile kernels, as a table of function pointers.
 *
 * A tile holds up to TILE_VECTORS vectors of query rows, and each row owns one lane of them: element
 * (r, lane) of a tile is tile[r * tile_lanes + lane]. What r counts (a feature, a key) is the
 * kernel's matter. Rows may live anywhere in memory, so a kernel that moves rows in or out takes a
 * pointer to each.
 *
 * There is a table per ISA and per real type (float or double): void * stands for that type in
 * tiles, lanes and operands. Every kernel touches only the first `vectors` vectors of a row, and
 * exactly the elements that it names of anything else. Reals are aligned as such; what pack, unpack,
 * widen and narrow read and write in memory need not be. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include "../attn.h"

#define TILE_VECTORS 4
#define MAX_TILE_LANES 64

/* Query rows in memory, an address for each: row[lane] + c * step is element c. */
struct attn_rows {
    char *row[MAX_TILE_LANES];
    int count;   /* rows there; the lanes after them are filled with 0, or not stored */
    int vectors; /* that hold them */
    attn_dtype dtype;
    ptrdiff_t step; /* bytes between elements */
};

/* A matrix in memory: element (r, c) is at data + r * row + c * col, both in bytes. */
struct attn_matrix {
    const char *data;
    attn_dtype dtype;
    ptrdiff_t row, col;
};

/* A mask may hide all keys of a tile from all its rows, or change nothing. */
enum mask_effect { MASK_HIDES, MASK_MIXES, MASK_PASSES };

struct attn_kernels {
    const char *isa;
    int lanes;      /* reals in a vector */
    int tile_lanes; /* TILE_VECTORS * lanes */
    size_t real_size;

    /* tile[c, lane] = row[lane][c] for c < cols: rows into lanes. A bool is 0 where False. */
    void (*pack)(void *tile, const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols);
    /* row[lane][c] = factor[lane] * tile[c, lane], and without factor just tile[c, lane]. */
    void (*unpack)(const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols, const void *tile,
                   const void *factor);
    /* One real for each lane of a tile, from doubles and back. */
    void (*set_lanes)(void *lanes, const double *x);
    void (*get_lanes)(double *x, const void *lanes);
    /* to[r * cols + c] = from[r, c], in the real type. */
    void (*widen)(void *to, const struct attn_matrix *from, ptrdiff_t rows, ptrdiff_t cols);
    /* row[r][c] = factor[r] * from[r * cols + c]: the way back, for as many rows as there are. */
    void (*narrow)(const struct attn_rows *rows, ptrdiff_t cols, const void *from,
                   const void *factor);

    /* c[i, lane] = factor · Σ_k a[i, k] · b[k, lane], i < rows, k < depth. a's elements are reals, at
     * any two strides (counted in reals). */
    void (*product)(void *c, const void *a, ptrdiff_t a_row, ptrdiff_t a_col, const void *b,
                    ptrdiff_t rows, ptrdiff_t depth, int vectors, double factor);
    /* c[i, lane] = keep[lane] · c[i, lane] + Σ_k a[i, k] · b[k, lane] */
    void (*product_add)(void *c, const void *a, ptrdiff_t a_row, ptrdiff_t a_col, const void *b,
                        ptrdiff_t rows, ptrdiff_t depth, int vectors, const void *keep);
    /* product_add, but a pair (k, lane) whose seen[k, lane] is -inf takes no part, so that it may hold
     * anything: 0 · NaN would be NaN. */
    void (*product_seen)(void *c, const void *a, ptrdiff_t a_row, ptrdiff_t a_col, const void *b,
                         ptrdiff_t rows, ptrdiff_t depth, int vectors, const void *keep,
                         const void *seen);
    /* The two products with features in the lanes, for a few rows (at most a vector's lanes) and any
     * number of keys: query and out are rows × features, key and value have contiguous features and
     * rows that lie key_row, value_row reals apart; scores and weights are tiles, as above.
     *     scores[key, r] = factor · Σ_c key[key, c] · query[r, c], and 0 in the other lanes
     *     out[r, c] = keep[r] · out[r, c] + Σ_key weights[key, r] · value[key, c]
     * seen as for product_seen, or NULL. */
    void (*score_rows)(void *scores, const void *key, ptrdiff_t key_row, const void *query,
                       ptrdiff_t keys, ptrdiff_t features, int rows, double factor);
    void (*add_rows)(void *out, const void *value, ptrdiff_t value_row, const void *weights,
                     ptrdiff_t keys, ptrdiff_t features, int rows, const void *keep,
                     const void *seen);

    /* Whether no element of a[rows, cols] is infinite or NaN. */
    bool (*all_finite)(const void *a, ptrdiff_t a_row, ptrdiff_t a_col, ptrdiff_t rows,
                       ptrdiff_t cols);

    /* On scores[key, lane], keys rows of it: */
    /* s = cap · tanh(s), where s came in as score / cap */
    void (*softcap)(void *scores, ptrdiff_t keys, int vectors, double cap);
    /* s = s + bias, and -inf wherever bias is -inf, whatever s was */
    void (*add_bias)(void *scores, const void *bias, ptrdiff_t keys, int vectors);
    /* s = -inf where keep is 0 */
    void (*mask)(void *scores, const void *keep, ptrdiff_t keys, int vectors);
    /* What add_bias or, if keep says so, mask would do to the first `count` lanes. */
    enum mask_effect (*mask_effect)(const void *bias, ptrdiff_t keys, int count, bool keep);
    /* bias[key, lane] = bias[key, 0] */
    void (*spread)(void *bias, ptrdiff_t keys, int vectors);
    /* s = s - slope[lane] · |distance[lane] - key| */
    void (*alibi)(void *scores, ptrdiff_t keys, int vectors, const void *distance,
                  const void *slope);
    /* s = -inf where not first[lane] <= key < end[lane] */
    void (*clip)(void *scores, ptrdiff_t keys, int vectors, const void *first, const void *end);

    /* Folds the scores into the running softmax of each lane:
     *     max' = max(max, s)   s <- e^(s - max')   owed = e^(max - max')   sum <- sum · owed + Σ s
     * owed is the factor by which all that was summed before has to shrink. */
    void (*softmax_step)(void *scores, ptrdiff_t keys, int vectors, void *max, void *sum,
                         void *owed);
    /* s = factor[lane] · e^(s - max[lane]): the softmax, once max and sum are final. A score of -inf
     * gives 0, even in a lane that is NaN. */
    void (*softmax_end)(void *scores, ptrdiff_t keys, int vectors, const void *max,
                        const void *factor);
    /* The same of rows in memory, of contiguous reals: row[lane][c], offset <= c < offset + cols. */
    void (*softmax_rows)(const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols,
                         const void *max, const void *factor);
    /* s = 0 for the weights that dropout takes: word j % 4 of Philox(row[lane], j / 4) is below
     * threshold, j = first_key + key. first_key is a multiple of 4. */
    void (*dropout)(void *scores, ptrdiff_t first_key, ptrdiff_t keys, int vectors,
                    const uint64_t *row, uint64_t seed, uint32_t threshold);
    /* Sums of the first `count` lanes: add_lanes adds a tile of scores to the first vector of each
     * row of sums, sum_lanes leaves sums[key, 0] = Σ sums[key, lane] over that vector. */
    void (*add_lanes)(void *sums, const void *scores, ptrdiff_t keys, int count);
    void (*sum_lanes)(void *sums, ptrdiff_t keys);
};

/* Each fills the whole table; for the ISAs and real types that were compiled. */
void attn_generic_f32(struct attn_kernels *table);
void attn_generic_f64(struct attn_kernels *table);
void attn_avx2_f32(struct attn_kernels *table);
void attn_avx2_f64(struct attn_kernels *table);
void attn_avx512_f32(struct attn_kernels *table);
void attn_avx512_f64(struct attn_kernels *table);
void attn_neon_f32(struct attn_kernels *table);
void attn_neon_f64(struct attn_kernels *table);

#endif
