/* The products with features in the lanes, for a few rows, against sums in long double. Bounds as in
 * check_product.c. */
#include "check.h"

/* Keys are read as they lie, with gaps between rows; query and out are dense; scores and weights
 * are tiles, of which a vector is used. */
struct few {
    ptrdiff_t keys, features, matrix_row;
    int rows;
    char *matrix; /* keys, or values */
    void *dense, *tile, *keep, *seen;
};

static struct few make_few(const struct attn_kernels *isa, ptrdiff_t keys, ptrdiff_t features,
                           int rows, enum place place, struct rng *rng)
{
    struct few f = {.keys = keys, .features = features, .rows = rows};
    static const ptrdiff_t gaps[] = {0, 3, 0, -1};
    const ptrdiff_t gap = gaps[rng_below(rng, 4)], size = (ptrdiff_t)isa->real_size;
    f.matrix_row = gap < 0 ? -features : rng_below(rng, 6) == 0 ? 0 : features + gap;
    guarded_reset();
    f.matrix = guarded_matrix(keys, features, f.matrix_row * size, size, isa->real_size, place);
    f.dense = guarded((size_t)(rows * features * size), place);
    f.tile = guarded_tile(isa, keys, isa->lanes, place);
    f.keep = guarded((size_t)isa->lanes * isa->real_size, place);
    f.seen = guarded_tile(isa, keys, isa->lanes, place);
    context("%td keys, rows %td apart, %td features, %d rows, %s", keys, f.matrix_row, features,
            rows, place_name(place));
    for (ptrdiff_t key = 0; key < keys; key++)
        for (ptrdiff_t c = 0; c < features; c++)
            put(isa, f.matrix, key * f.matrix_row + c, rng_between(rng, -2, 2));
    for (ptrdiff_t i = 0; i < rows * features; i++)
        put(isa, f.dense, i, rng_between(rng, -2, 2));
    for (int lane = 0; lane < isa->lanes; lane++)
        put(isa, f.keep, lane, rng_between(rng, 0, 1));
    return f;
}

static void for_each_few(const struct subject *on,
                         void (*check)(const struct subject *, const struct few *, struct rng *))
{
    static const ptrdiff_t many_keys[] = {1, 2, 3, 4, 5, 7, 8, 13, 97};
    static const ptrdiff_t many_features[] = {1,  2,  3,  4,  5,  7,  8,  9,  15, 16,
                                              17, 31, 33, 40, 63, 64, 65, 80, 97, 129};
    struct rng rng = {13};
    int turn = 0;
    for (size_t k = 0; k < sizeof many_keys / sizeof *many_keys; k++)
        for (size_t c = 0; c < sizeof many_features / sizeof *many_features; c++)
            for (int rows = 1; rows <= on->isa->lanes; rows += on->quick ? 3 : 1) {
                const struct few f = make_few(on->isa, many_keys[k], many_features[c], rows,
                                              (enum place)(turn++ % ALIGNED_PLACES), &rng);
                check(on, &f, &rng);
            }
}

static void check_scores_of_rows(const struct subject *on, const struct few *f, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const double factor = round_dtype(rng_between(rng, -2, 2), real_dtype(isa));
    isa->score_rows(f->tile, f->matrix, f->matrix_row, f->dense, f->keys, f->features, f->rows,
                    factor);
    for (ptrdiff_t key = 0; key < f->keys; key++)
        for (int lane = 0; lane < isa->lanes; lane++) {
            wide sum = 0, size = 0;
            for (ptrdiff_t c = 0; lane < f->rows && c < f->features; c++) {
                const wide term = (wide)factor * get(isa, f->matrix, key * f->matrix_row + c)
                                  * get(isa, f->dense, lane * f->features + c);
                sum += term;
                size += fabsl(term);
            }
            expect_near(get_tile(isa, f->tile, key, lane), sum,
                        (wide)(f->features + 3) * unit_roundoff(isa) * size, "scores", key, lane);
        }
    expect_tile_gaps(isa, f->tile, f->keys, isa->lanes);
}

static void check_sum(const struct attn_kernels *isa, const struct few *f, bool masked)
{
    double *before = malloc((size_t)(f->rows * f->features) * sizeof *before);
    for (ptrdiff_t i = 0; i < f->rows * f->features; i++)
        before[i] = get(isa, f->dense, i);
    isa->add_rows(f->dense, f->matrix, f->matrix_row, f->tile, f->keys, f->features, f->rows,
                  f->keep, masked ? f->seen : NULL);
    for (int row = 0; row < f->rows; row++)
        for (ptrdiff_t c = 0; c < f->features; c++) {
            wide sum = (wide)get(isa, f->keep, row) * before[row * f->features + c];
            wide size = fabsl(sum);
            for (ptrdiff_t key = 0; key < f->keys; key++) {
                if (masked && get_tile(isa, f->seen, key, row) == -INFINITY)
                    continue;
                const wide term = (wide)get_tile(isa, f->tile, key, row)
                                  * get(isa, f->matrix, key * f->matrix_row + c);
                sum += term;
                size += fabsl(term);
            }
            expect_near(get(isa, f->dense, row * f->features + c), sum,
                        (wide)(f->keys + 3) * unit_roundoff(isa) * size, "out", row, (int)c);
        }
    free(before);
}

static void fill_weights(const struct attn_kernels *isa, const struct few *f, struct rng *rng)
{
    for (ptrdiff_t key = 0; key < f->keys; key++)
        for (int lane = 0; lane < isa->lanes; lane++) {
            put_tile(isa, f->tile, key, lane, rng_between(rng, 0, 1));
            put_tile(isa, f->seen, key, lane, 0);
        }
}

static void check_values_of_rows(const struct subject *on, const struct few *f, struct rng *rng)
{
    fill_weights(on->isa, f, rng);
    check_sum(on->isa, f, false);
}

/* Keys that no row sees hold NaN, and where only some rows see a key its weight there is NaN. */
static void check_seen_rows(const struct subject *on, const struct few *f, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    fill_weights(isa, f, rng);
    for (ptrdiff_t key = 0; key < f->keys; key++) {
        const bool hidden = f->matrix_row != 0 && rng_below(rng, 3) == 0;
        for (ptrdiff_t c = 0; hidden && c < f->features; c++)
            put(isa, f->matrix, key * f->matrix_row + c, rng_below(rng, 2) ? NAN : INFINITY);
        for (int row = 0; row < f->rows; row++)
            if (hidden || rng_below(rng, 4) == 0) {
                put_tile(isa, f->seen, key, row, -INFINITY);
                put_tile(isa, f->tile, key, row, rng_below(rng, 2) ? NAN : 0);
            }
    }
    check_sum(isa, f, true);
}

void check_rows(const struct subject *on)
{
    claim(on->isa, "scores of a few rows are sums within (features + 3) roundings");
    for_each_few(on, check_scores_of_rows);
    claim(on->isa, "values of a few rows are sums within (keys + 3) roundings");
    for_each_few(on, check_values_of_rows);
    claim(on->isa, "values of a few rows ignore whatever the pairs hold that are not seen");
    for_each_few(on, check_seen_rows);
}

void bench_rows(const struct attn_kernels *isa)
{
    struct rng rng = {1};
    for (int rows = 1; rows <= 4 && rows <= isa->lanes; rows += 3) {
        char name[40];
        struct few f = make_few(isa, 96, 128, rows, AT_START, &rng);
        f.matrix_row = 128;
        fill_weights(isa, &f, &rng);
        struct timing timing = timing_start();
        while (timing_more(&timing))
            isa->score_rows(f.tile, f.matrix, 128, f.dense, 96, 128, rows, 1);
        snprintf(name, sizeof name, "scores of %d row%s", rows, rows > 1 ? "s" : "");
        report_rate(isa, name, 2.0 * 96 * 128 * rows, timing.best);
        timing = timing_start();
        while (timing_more(&timing))
            isa->add_rows(f.dense, f.matrix, 128, f.tile, 96, 128, rows, f.keep, NULL);
        snprintf(name, sizeof name, "output of %d row%s", rows, rows > 1 ? "s" : "");
        report_rate(isa, name, 2.0 * 96 * 128 * rows, timing.best);
    }
}
