/* check.h: tools of the checker.
 *
 * A check makes claims about the kernels of one table: claim() opens one, expect…() test it, and it
 * is counted as passed when the next is opened without a failure. A crash inside a check fails the
 * open claim, names the byte that was touched, and the run goes on with the next check.
 *
 * Every buffer that a kernel sees lies between two pages that can't be touched, so that one byte
 * read or written too far is a crash. Reference values are computed here, plainly, in long double. */
#ifndef CHECK_H
#define CHECK_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "../../csrc/kernel/kernels.h"

typedef long double wide;

/* The table under check, the table it is compared with, and whether to try fewer cases. */
struct subject {
    const struct attn_kernels *isa, *generic;
    bool quick;
};

void check_product(const struct subject *on);
void check_rows(const struct subject *on);
void check_finite(const struct subject *on);
void check_softmax(const struct subject *on);
void check_lanes(const struct subject *on);
void check_scores(const struct subject *on);
void check_pack(const struct subject *on);
void check_half(const struct subject *on);
void check_dropout(const struct subject *on);

void check_core(bool quick);
void check_core_calls(bool quick);
void stress_pool(bool quick, bool forks);
void stress_together(bool quick, bool forks);

void bench_product(const struct attn_kernels *isa);
void bench_rows(const struct attn_kernels *isa);
void bench_softmax(const struct attn_kernels *isa);
void bench_lanes(const struct attn_kernels *isa);
void bench_scores(const struct attn_kernels *isa);
void bench_pack(const struct attn_kernels *isa);
void bench_dropout(const struct attn_kernels *isa);

/* Forked children report by their exit status, and end by SIGALRM after CHILD_SECONDS. */
enum { CHILD_SECONDS = 20 };
/* Forks a child that runs `body` and ends with its result. */
pid_t fork_child(int (*body)(void));
/* Waits for it; whether it ended by itself, with 0. */
bool child_succeeded(pid_t child);

/* Runs body(0, argument), body(1, argument), … on so many threads, at most 8, at once, and `meanwhile`,
 * if there is one, on this; the sum of what they return: how much went wrong. */
int run_callers(int count, int (*body)(int number, const void *argument), const void *argument,
                int (*meanwhile)(void));

/* Claims. */
/* isa is NULL for a claim that is about no table. */
__attribute__((format(printf, 2, 3))) void claim(const struct attn_kernels *isa, const char *text,
                                                 ...);
/* What the expectations that follow are about, for the message of one that fails. */
__attribute__((format(printf, 1, 2))) void context(const char *text, ...);
__attribute__((format(printf, 2, 3))) bool expect(bool held, const char *text, ...);
/* |got - want| <= bound; NaN wants NaN, an infinity the same one. Remembers the worst share of a
 * bound that was ever used up, which is printed with the claim. */
bool expect_near(double got, wide want, wide bound, const char *what, ptrdiff_t row, int lane);
/* Calls check, and turns a crash in it into a failure. */
void run_check(void (*check)(const struct subject *), const struct subject *on);
/* Closes the last claim, prints the totals as the last line; the process's exit status. */
int claims_total(void);

/* Where a buffer lies in its pages: flush with the guard after it, flush with the guard before it,
 * or one byte further, aligned to nothing: so may arrays come that are packed, unpacked or widened,
 * while whatever holds the table's reals is aligned to one. */
enum place { AT_END, AT_START, ASKEW };
enum { ALIGNED_PLACES = ASKEW, PLACES };
const char *place_name(enum place place);
/* A guarded buffer, all bytes 0xff: a NaN in every floating-point type. */
void *guarded(size_t bytes, enum place place);
/* Gives all guarded buffers back. */
void guarded_reset(void);
/* Says which buffer an address is near. */
void guarded_describe(const void *address, char *text, size_t size);
/* Whether n bytes still are as guarded() gave them. */
bool untouched(const void *bytes, size_t n);

/* A two-dimensional array with any strides (bytes) in a guarded buffer that its elements exactly
 * span: the first byte of the lowest is the buffer's first, the last byte of the highest its last. */
char *guarded_matrix(ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t row, ptrdiff_t col, size_t size,
                     enum place place);
/* A tile of which exactly `lanes` lanes of `rows` rows exist. */
void *guarded_tile(const struct attn_kernels *isa, ptrdiff_t rows, int lanes, enum place place);
/* Expects that nothing was written between the rows of such a tile. */
void expect_tile_gaps(const struct attn_kernels *isa, const void *tile, ptrdiff_t rows, int lanes);

/* Random numbers, the same in every run. */
struct rng {
    uint64_t state;
};
uint64_t rng_bits(struct rng *rng);
ptrdiff_t rng_below(struct rng *rng, ptrdiff_t end);
double rng_between(struct rng *rng, double low, double high);
/* Often an infinity, NaN, zero of either sign, subnormal, or a number at the type's edge. */
double rng_extreme(struct rng *rng, size_t real_size);

/* Elements of any type; memory need not be aligned. */
double load_dtype(const void *p, attn_dtype dtype);
void store_dtype(void *p, double x, attn_dtype dtype);
/* x as the type's nearest number, ties to even. */
double round_dtype(double x, attn_dtype dtype);
uint16_t half_bits(double x);
uint16_t bfloat_bits(double x);

static inline attn_dtype real_dtype(const struct attn_kernels *isa)
{
    return isa->real_size == sizeof(float) ? ATTN_F32 : ATTN_F64;
}

static inline double get(const struct attn_kernels *isa, const void *p, ptrdiff_t i)
{
    return load_dtype((const char *)p + i * (ptrdiff_t)isa->real_size, real_dtype(isa));
}

static inline void put(const struct attn_kernels *isa, void *p, ptrdiff_t i, double x)
{
    store_dtype((char *)p + i * (ptrdiff_t)isa->real_size, x, real_dtype(isa));
}

static inline double get_tile(const struct attn_kernels *isa, const void *tile, ptrdiff_t row,
                              int lane)
{
    return get(isa, tile, row * isa->tile_lanes + lane);
}

static inline void put_tile(const struct attn_kernels *isa, void *tile, ptrdiff_t row, int lane,
                            double x)
{
    put(isa, tile, row * isa->tile_lanes + lane, x);
}

/* Copies what exists of a tile. */
void copy_tile(const struct attn_kernels *isa, void *to, const void *from, ptrdiff_t rows,
               int lanes);

/* Whether dropout takes the weight of a key, by the checker's own Philox. */
bool dropped(uint64_t row, uint64_t key, uint64_t seed, uint32_t threshold);

/* The largest relative error of one rounding, the least normal number, and the distance between
 * the type's numbers around x. */
double unit_roundoff(const struct attn_kernels *isa);
double least_normal(const struct attn_kernels *isa);
wide ulp(const struct attn_kernels *isa, wide x);

/* Whether two numbers have the same bits, or are both NaN. */
bool same_bits(double a, double b);

/* Times the body of a loop: for (struct timing t = timing_start(); timing_more(&t);) body;
 * t.best is the fastest pass, in seconds. */
struct timing {
    double best, last, end;
};
struct timing timing_start(void);
bool timing_more(struct timing *timing);
void report_rate(const struct attn_kernels *isa, const char *what, double flops, double seconds);
void report_each(const struct attn_kernels *isa, const char *what, double elements, double seconds);

#endif
