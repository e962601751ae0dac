/* attn.h: everything a caller of the core may use.
 *
 * A call checks first and computes then: attn_check says whether the problem makes sense and how large
 * its results are, attn_check_values looks at the few numbers that have a range, and attn_forward (or
 * attn_key_weights, attn_softmax) computes. Only the last allocates: scratch that does not grow with
 * L or S, but for attn_key_weights two numbers a query. None knows of Python or writes to an input.
 *
 * Shapes: B batch (any number of leading axes), H query heads, G key/value heads, L queries, S keys,
 * E features of a query and a key, Ev features of a value. */
#ifndef ATTN_H
#define ATTN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ATTN_MAX_AXES 16
#define ATTN_MAX_THREADS 1024

typedef enum { ATTN_BOOL, ATTN_F16, ATTN_BF16, ATTN_F32, ATTN_F64, ATTN_I64 } attn_dtype;

typedef enum {
    ATTN_OK,
    ATTN_E_SHAPE,    /* sizes that do not fit together */
    ATTN_E_DTYPE,    /* a type that the argument can't have */
    ATTN_E_VALUE,    /* a number out of its range */
    ATTN_E_MEMORY,   /* an allocation failed, or a size does not fit in ptrdiff_t */
    ATTN_E_CANCELLED /* attn_run.poll asked to stop */
} attn_status;

/* What was wrong: the argument's name, and "expected …, got …". */
typedef struct {
    const char *argument;
    char text[240];
} attn_fault;

/* A borrowed array of any strides. They count bytes; 0 repeats an element, which is how inputs
 * broadcast. data is NULL where there is no such array; the rest is then not looked at. Data need
 * not be aligned. */
typedef struct {
    void *data;
    attn_dtype dtype;
    int axes;
    ptrdiff_t dim[ATTN_MAX_AXES], stride[ATTN_MAX_AXES];
} attn_view;

/* How far the scores of attn_problem.weights are taken. */
typedef enum { ATTN_RAW, ATTN_SOFTCAPPED, ATTN_BIASED, ATTN_WEIGHTS } attn_stage;

#define ATTN_OPEN (-1) /* a side of the window without limit */

typedef struct {
    /* Inputs. Only query and key are always there. A view of two axes has no head axis. */
    attn_view query, key, value;         /* (…, H, L, E), (…, G, S, E), (…, G, S, Ev) */
    attn_view mask;                      /* broadcasts to (…, H, L, S); bool or float */
    attn_view alibi_slopes, sinks;       /* broadcast to (…, H); float64 */
    attn_view q_offset, q_lens, kv_lens; /* broadcast to (…); int64 */

    /* Results; an absent one is not computed. */
    attn_view out, weights, lse; /* (…, H, L, Ev), (…, H, L, S), (…, H, L) */

    attn_stage stage;                    /* of weights */
    bool causal, grouped;                /* grouped: H may be a multiple of G */
    bool scaled;                         /* scale was given; otherwise it is 1/√E */
    double scale, softcap;               /* softcap 0: none */
    ptrdiff_t window_left, window_right; /* or ATTN_OPEN */
    double dropout;                      /* the share of weights that is dropped, 0 to 1 */
    uint64_t seed;
} attn_problem;

/* The sizes of a problem that attn_check found sound. */
typedef struct {
    int batch_axes;
    bool head_axis;                     /* whether results have one */
    ptrdiff_t batch_dim[ATTN_MAX_AXES]; /* the broadcast leading axes */
    ptrdiff_t batches, heads, kv_heads, queries, keys, features, value_features;
} attn_shape;

/* How to run: on how many threads, and whom to ask every 50 ms, on the calling thread, whether to
 * go on (0) or to stop (anything else). poll may be NULL. */
typedef struct {
    int threads;
    int (*poll)(void *context);
    void *context;
} attn_run;

/* Checks types, shapes and overflow of the inputs, and of out if it is there; the caller makes weights
 * and lse of the right shape. Reads no array data. On failure *fault names the argument. */
attn_status attn_check(const attn_problem *problem, attn_shape *shape, attn_fault *fault);

/* Checks the values of q_lens, kv_lens and alibi_slopes, for which it reads these. */
attn_status attn_check_values(const attn_problem *problem, const attn_shape *shape,
                              attn_fault *fault);

/* The multiplications of a call, roughly. */
double attn_work(const attn_shape *shape);

/* Computes out, lse and weights, those that are there. */
attn_status attn_forward(const attn_problem *problem, const attn_shape *shape, const attn_run *run);

/* Sums the attention weights over the queries, into sums (…, H, S). problem has no results. */
attn_status attn_key_weights(const attn_problem *problem, const attn_shape *shape,
                             const attn_view *sums, const attn_run *run);

/* out = softmax of x over its last axis; both have the same shape and type. */
attn_status attn_softmax(const attn_view *x, const attn_view *out, const attn_run *run);

/* Threads: the process's default number, and one that replaces it. */
int attn_get_threads(void);
void attn_set_threads(int threads);

/* The ISAs by rank, "generic" first; NULL past the last. */
const char *attn_isa_compiled(int rank);
const char *attn_isa_found(int rank);
const char *attn_isa_used(void);

size_t attn_dtype_size(attn_dtype dtype);
const char *attn_dtype_name(attn_dtype dtype);

#endif
