/* core.h: random attention problems in guarded memory, and their plain solution. */
#ifndef CORE_H
#define CORE_H

#include "check.h"

/* An array in a guarded buffer that its elements exactly span. */
struct array {
    attn_view view;
    char *lowest;
    size_t span;
};

/* How arrays lie in memory. PLAIN: row by row, aligned. WILD: axes in any order, gaps, negative
 * strides, and for inputs odd numbers of bytes and broadcasting by a stride of 0. */
enum memory { PLAIN, WILD };

/* A problem with its arrays. results: what to compute. */
struct problem {
    attn_problem problem;
    attn_shape shape; /* by attn_check */
    struct array query, key, value, mask, alibi_slopes, sinks, q_offset, q_lens, kv_lens, out,
        weights, lse;
};

/* An array of that shape; writable ones have an address of its own for each element. */
void make_array(struct array *array, attn_dtype dtype, int axes, const ptrdiff_t *dim,
                enum memory memory, bool writable, enum place place, struct rng *rng);
char *array_at(const attn_view *view, ptrdiff_t flat);
ptrdiff_t array_size(const attn_view *view);
/* Expects that only the array's elements were written; erases them. */
void expect_array_gaps(const struct array *array, const char *name);

/* Copies the elements of an array of the same shape and type. */
void copy_array(const struct array *to, const struct array *from);
/* All arrays of a problem, inputs first, and their names. */
enum { INPUTS = 9, ARRAYS = 12 };
struct array *problem_array(struct problem *problem, int i, const char **name);

/* A random problem of a type: its sizes and options follow from the seed alone, and so do the
 * values; memory and place only say where they lie. (An array that broadcasts by a stride of 0 has
 * fewer values, though.) */
void make_problem(struct problem *problem, attn_dtype dtype, uint64_t seed, enum memory memory,
                  enum place place);

/* One row of the solution, with what each number may be off by. Arrays of shape.keys, or of
 * shape.value_features. */
enum { MOST_KEYS = 4500, MOST_FEATURES = 64 };
struct solution {
    wide score[MOST_KEYS], score_bound[MOST_KEYS]; /* as far as problem.stage says */
    wide weight[MOST_KEYS], weight_bound[MOST_KEYS];
    wide out[MOST_FEATURES], out_bound[MOST_FEATURES];
    wide lse, lse_bound;
};
void solve_row(const struct problem *problem, const ptrdiff_t *batch, ptrdiff_t head,
               ptrdiff_t query, struct solution *solution);

/* The element of a view that broadcasts to `index`, axes aligned from the right. */
double view_at(const attn_view *view, const ptrdiff_t *index, int axes);

#endif
