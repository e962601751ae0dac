/* The products of tiles, against sums in long double.
 *
 * A sum of n products, in whatever order and with or without fused steps, is off by at most
 * (n + 2) · u · Σ|a · b|, where u is the error of one rounding (Higham, «Accuracy and Stability of
 * Numerical Algorithms», §3.1). keep · c counts as one more product, and factor as one more rounding. */
#include "check.h"

enum layout { ROW_MAJOR, COLUMN_MAJOR, SPACED, SAME_ROW, SAME_ELEMENT, BACKWARDS, LAYOUTS };
static const char *const layout_names[] = {
    "row-major",         "column-major",          "spaced",
    "all rows the same", "all elements the same", "backwards"};

static const ptrdiff_t many_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 18, 23, 24, 25, 97};
static const ptrdiff_t many_depths[] = {0, 1, 2, 3, 7, 16, 33, 64, 97};
static const ptrdiff_t few_rows[] = {1, 3, 6, 13, 27};
static const ptrdiff_t few_depths[] = {0, 1, 5, 33};

/* One product: the left matrix, the tiles, and their sizes. Strides count reals. */
struct problem {
    ptrdiff_t rows, depth, a_row, a_col;
    int vectors, lanes;
    double factor;
    char *a;
    void *b, *c, *keep, *seen;
};

static struct problem make_problem(const struct attn_kernels *isa, ptrdiff_t rows, ptrdiff_t depth,
                                   int vectors, enum layout layout, enum place place)
{
    struct problem p = {.rows = rows, .depth = depth, .vectors = vectors, .factor = 0.8125f};
    const ptrdiff_t size = (ptrdiff_t)isa->real_size;
    p.lanes = vectors * isa->lanes;
    switch (layout) {
    case ROW_MAJOR: p.a_row = depth + 3, p.a_col = 1; break;
    case COLUMN_MAJOR: p.a_row = 1, p.a_col = rows + 3; break;
    case SPACED: p.a_row = 2 * depth + 1, p.a_col = 2; break;
    case SAME_ROW: p.a_row = 0, p.a_col = 1; break;
    case SAME_ELEMENT: p.a_row = 0, p.a_col = 0; break;
    default: p.a_row = -depth - 1, p.a_col = -1; break;
    }
    guarded_reset();
    p.a = guarded_matrix(rows, depth, p.a_row * size, p.a_col * size, isa->real_size, place);
    p.b = guarded_tile(isa, depth, p.lanes, place);
    p.c = guarded_tile(isa, rows, p.lanes, place);
    p.keep = guarded((size_t)p.lanes * isa->real_size, place);
    p.seen = guarded_tile(isa, depth, p.lanes, place);
    context("%td rows, depth %td, %d vectors, %s, %s", rows, depth, vectors, layout_names[layout],
            place_name(place));
    return p;
}

static double element(const struct attn_kernels *isa, const struct problem *p, ptrdiff_t i,
                      ptrdiff_t k)
{
    return get(isa, p->a, i * p->a_row + k * p->a_col);
}

static void fill_problem(const struct attn_kernels *isa, const struct problem *p, struct rng *rng)
{
    for (ptrdiff_t i = 0; i < p->rows; i++)
        for (ptrdiff_t k = 0; k < p->depth; k++)
            put(isa, p->a, i * p->a_row + k * p->a_col, rng_between(rng, -2, 2));
    for (int lane = 0; lane < p->lanes; lane++) {
        put(isa, p->keep, lane, rng_between(rng, 0, 2));
        for (ptrdiff_t k = 0; k < p->depth; k++) {
            put_tile(isa, p->b, k, lane, rng_between(rng, -2, 2));
            put_tile(isa, p->seen, k, lane, 0);
        }
        for (ptrdiff_t i = 0; i < p->rows; i++)
            put_tile(isa, p->c, i, lane, rng_between(rng, -2, 2));
    }
}

/* Compares c with the sum over the pairs that are seen, from the c of before. */
static void expect_product(const struct attn_kernels *isa, const struct problem *p,
                           const void *before, const void *other, bool kept)
{
    for (ptrdiff_t i = 0; i < p->rows; i++)
        for (int lane = 0; lane < p->lanes; lane++) {
            wide sum = 0, size = 0;
            for (ptrdiff_t k = 0; k < p->depth; k++) {
                if (get_tile(isa, p->seen, k, lane) == -INFINITY)
                    continue;
                const wide term = (wide)element(isa, p, i, k) * get_tile(isa, p->b, k, lane);
                sum += term;
                size += fabsl(term);
            }
            if (kept) {
                const wide term = (wide)get(isa, p->keep, lane) * get_tile(isa, before, i, lane);
                sum += term;
                size += fabsl(term);
            } else {
                sum *= p->factor;
                size *= p->factor;
            }
            const wide bound = (wide)(p->depth + 3) * unit_roundoff(isa) * size;
            const double got = get_tile(isa, p->c, i, lane);
            expect_near(got, sum, bound, "c", i, lane);
            expect_near(got, get_tile(isa, other, i, lane), 2 * bound, "c against generic", i,
                        lane);
        }
    expect_tile_gaps(isa, p->c, p->rows, p->lanes);
}

/* A tile of the generic table, which has other tiles: one lane at a time. */
static void generic_product(const struct subject *on, const struct problem *p, void *c, bool kept,
                            bool masked)
{
    const struct attn_kernels *isa = on->isa, *generic = on->generic;
    const size_t row = (size_t)generic->tile_lanes * generic->real_size;
    char *b = malloc(row * (size_t)(p->depth + 1)), *seen = malloc(row * (size_t)(p->depth + 1));
    char *out = malloc(row * (size_t)p->rows);
    for (int lane = 0; lane < p->lanes; lane++) {
        double keep[1];
        put(isa, keep, 0, get(isa, p->keep, lane));
        for (ptrdiff_t k = 0; k < p->depth; k++) {
            put_tile(generic, b, k, 0, get_tile(isa, p->b, k, lane));
            put_tile(generic, seen, k, 0, get_tile(isa, p->seen, k, lane));
        }
        for (ptrdiff_t i = 0; i < p->rows; i++)
            put_tile(generic, out, i, 0, get_tile(isa, c, i, lane));
        if (masked)
            generic->product_seen(out, p->a, p->a_row, p->a_col, b, p->rows, p->depth, 1, keep,
                                  seen);
        else if (kept)
            generic->product_add(out, p->a, p->a_row, p->a_col, b, p->rows, p->depth, 1, keep);
        else
            generic->product(out, p->a, p->a_row, p->a_col, b, p->rows, p->depth, 1, p->factor);
        for (ptrdiff_t i = 0; i < p->rows; i++)
            put_tile(isa, c, i, lane, get_tile(generic, out, i, 0));
    }
    free(b);
    free(seen);
    free(out);
}

static void run_product(const struct attn_kernels *isa, const struct problem *p, bool kept,
                        bool masked)
{
    if (masked)
        isa->product_seen(p->c, p->a, p->a_row, p->a_col, p->b, p->rows, p->depth, p->vectors,
                          p->keep, p->seen);
    else if (kept)
        isa->product_add(p->c, p->a, p->a_row, p->a_col, p->b, p->rows, p->depth, p->vectors,
                         p->keep);
    else
        isa->product(p->c, p->a, p->a_row, p->a_col, p->b, p->rows, p->depth, p->vectors,
                     p->factor);
}

/* Calls `check` for every shape, with a fresh problem of it. */
static void
for_each_problem(const struct subject *on,
                 void (*check)(const struct subject *, const struct problem *, struct rng *))
{
    struct rng rng = {1};
    const ptrdiff_t *rows = on->quick ? few_rows : many_rows;
    const ptrdiff_t *depths = on->quick ? few_depths : many_depths;
    const size_t num_rows = on->quick ? sizeof few_rows : sizeof many_rows;
    const size_t num_depths = on->quick ? sizeof few_depths : sizeof many_depths;
    int turn = 0;
    for (int vectors = 1; vectors <= TILE_VECTORS; vectors++)
        for (size_t r = 0; r < num_rows / sizeof *rows; r++)
            for (size_t d = 0; d < num_depths / sizeof *depths; d++)
                for (int layout = 0; layout < LAYOUTS; layout++) {
                    const struct problem p = make_problem(on->isa, rows[r], depths[d], vectors,
                                                          (enum layout)layout,
                                                          (enum place)(turn++ % ALIGNED_PLACES));
                    fill_problem(on->isa, &p, &rng);
                    check(on, &p, &rng);
                }
}

static void check_sum(const struct subject *on, const struct problem *p, struct rng *rng)
{
    const bool kept = rng_below(rng, 2);
    void *before = guarded_tile(on->isa, p->rows, p->lanes, AT_START);
    void *other = guarded_tile(on->isa, p->rows, p->lanes, AT_START);
    copy_tile(on->isa, before, p->c, p->rows, p->lanes);
    copy_tile(on->isa, other, p->c, p->rows, p->lanes);
    run_product(on->isa, p, kept, false);
    generic_product(on, p, other, kept, false);
    expect_product(on->isa, p, before, other, kept);
}

/* Unseen pairs hold NaN and infinities: in the tile, and in columns of a where no lane sees them. */
static void check_seen(const struct subject *on, const struct problem *p, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    void *before = guarded_tile(isa, p->rows, p->lanes, AT_START);
    void *other = guarded_tile(isa, p->rows, p->lanes, AT_START);
    copy_tile(isa, before, p->c, p->rows, p->lanes);
    copy_tile(isa, other, p->c, p->rows, p->lanes);
    for (ptrdiff_t k = 0; k < p->depth; k++) {
        const bool hidden = p->a_col != 0 && rng_below(rng, 4) == 0;
        for (ptrdiff_t i = 0; hidden && i < p->rows; i++)
            put(isa, p->a, i * p->a_row + k * p->a_col, rng_below(rng, 2) ? NAN : -INFINITY);
        for (int lane = 0; lane < p->lanes; lane++)
            if (hidden || rng_below(rng, 4) == 0) {
                put_tile(isa, p->seen, k, lane, -INFINITY);
                put_tile(isa, p->b, k, lane, rng_below(rng, 2) ? NAN : INFINITY);
            }
    }
    run_product(isa, p, true, true);
    generic_product(on, p, other, true, true);
    expect_product(isa, p, before, other, true);
}

static void check_all_seen(const struct subject *on, const struct problem *p, struct rng *rng)
{
    (void)rng;
    const struct attn_kernels *isa = on->isa;
    void *before = guarded_tile(isa, p->rows, p->lanes, AT_START);
    void *plain = guarded_tile(isa, p->rows, p->lanes, AT_START);
    copy_tile(isa, before, p->c, p->rows, p->lanes);
    run_product(isa, p, true, false);
    copy_tile(isa, plain, p->c, p->rows, p->lanes);
    copy_tile(isa, p->c, before, p->rows, p->lanes);
    run_product(isa, p, true, true);
    for (ptrdiff_t i = 0; i < p->rows; i++)
        for (int lane = 0; lane < p->lanes; lane++)
            expect(same_bits(get_tile(isa, p->c, i, lane), get_tile(isa, plain, i, lane)),
                   "[%td, %d] differs", i, lane);
}

/* Each element once more as a product of one row and one vector, packed differently. */
static void check_bits(const struct subject *on, const struct problem *p, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const ptrdiff_t size = (ptrdiff_t)isa->real_size;
    (void)rng;
    char *a = guarded_matrix(1, p->depth, 0, 3 * size, isa->real_size, AT_END);
    char *c = guarded_tile(isa, 1, isa->lanes, AT_END);
    run_product(isa, p, false, false);
    for (ptrdiff_t i = 0; i < p->rows; i += 1 + p->rows / 4) {
        for (ptrdiff_t k = 0; k < p->depth; k++)
            put(isa, a, 3 * k, element(isa, p, i, k));
        for (int j = 0; j < p->vectors; j++) {
            isa->product(c, a, 1, 3, (const char *)p->b + j * isa->lanes * size, 1, p->depth, 1,
                         p->factor);
            for (int lane = 0; lane < isa->lanes; lane++)
                expect(same_bits(get(isa, c, lane), get_tile(isa, p->c, i, j * isa->lanes + lane)),
                       "[%td, %d] differs", i, j * isa->lanes + lane);
        }
    }
}

/* Infinities, NaN, subnormals and zeros, but no sum of finite numbers that could overflow. */
static void check_special(const struct subject *on, const struct problem *p, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    for (ptrdiff_t k = 0; k < p->depth; k++) {
        if (rng_below(rng, 8) == 0)
            for (int lane = 0; lane < p->lanes; lane++) {
                const double x = rng_extreme(rng, isa->real_size);
                put_tile(isa, p->b, k, lane, isfinite(x) && fabs(x) > 4 ? 1 : x);
            }
        if (rng_below(rng, 8) == 0) {
            const double x = rng_extreme(rng, isa->real_size);
            put(isa, p->a, k * p->a_col, isfinite(x) && fabs(x) > 4 ? 1 : x);
        }
    }
    run_product(isa, p, false, false);
    for (ptrdiff_t i = 0; i < p->rows; i++)
        for (int lane = 0; lane < p->lanes; lane++) {
            wide sum = 0, size = 0;
            for (ptrdiff_t k = 0; k < p->depth; k++) {
                const wide term = (wide)element(isa, p, i, k) * get_tile(isa, p->b, k, lane);
                sum += term;
                size += fabsl(term);
            }
            /* Where products underflow, each may lose the least number. */
            const wide least = (wide)(p->depth + 2) * ulp(isa, 0);
            expect_near(get_tile(isa, p->c, i, lane), p->factor * sum,
                        (wide)(p->depth + 3) * unit_roundoff(isa) * size + least, "c", i, lane);
        }
}

void check_product(const struct subject *on)
{
    claim(on->isa, "a product is a sum within (depth + 2) roundings");
    for_each_problem(on, check_sum);
    claim(on->isa, "a product's element has the same bits in every tile and layout");
    for_each_problem(on, check_bits);
    claim(on->isa, "a product treats infinities, NaN and subnormals as arithmetic does");
    for_each_problem(on, check_special);
    claim(on->isa, "a product of seen pairs ignores whatever the others hold");
    for_each_problem(on, check_seen);
    claim(on->isa, "a product of seen pairs that are all seen has the product's bits");
    for_each_problem(on, check_all_seen);
}

static const struct {
    const char *name;
    ptrdiff_t rows, depth, a_row, a_col;
    int vectors;
} bench[] = {
    {"scores 96 keys, 64 features", 96, 64, 64, 1, 4},
    {"scores 96 keys, 128 features", 96, 128, 128, 1, 4},
    {"output 64 features, 96 keys", 64, 96, 1, 64, 4},
    {"output 128 features, 96 keys", 128, 96, 1, 128, 4},
    {"scores 96 x 64, 3 vectors", 96, 64, 64, 1, 3},
    {"scores 96 x 64, 2 vectors", 96, 64, 64, 1, 2},
    {"scores 96 x 64, 1 vector", 96, 64, 64, 1, 1},
};

void bench_product(const struct attn_kernels *isa)
{
    struct rng rng = {1};
    for (size_t i = 0; i < sizeof bench / sizeof *bench; i++) {
        struct problem p = make_problem(isa, bench[i].rows, bench[i].depth, bench[i].vectors,
                                        ROW_MAJOR, AT_START);
        p.a_row = bench[i].a_row;
        p.a_col = bench[i].a_col;
        fill_problem(isa, &p, &rng);
        const double flops = 2.0 * (double)(p.rows * p.depth * p.lanes);
        struct timing timing = timing_start();
        while (timing_more(&timing))
            run_product(isa, &p, false, false);
        report_rate(isa, bench[i].name, flops, timing.best);
        if (i > 0)
            continue;
        timing = timing_start();
        while (timing_more(&timing))
            run_product(isa, &p, false, true);
        report_rate(isa, "the same, seen pairs", flops, timing.best);
    }
}
