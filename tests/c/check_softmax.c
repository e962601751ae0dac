/* The running softmax of a tile of scores, and its exponential.
 *
 * A weight is 2^x of x = fl(fl(s - max) · fl(log2 e)). The error of exp2 itself is measured at that
 * very x; as e^(s - max) the weight is off by the roundings of x as well, 3 · u · |s - max|. */
#include "check.h"

static const double exp2_ulps = 2;

/* The largest tile of scores here, and how many keys a case has. */
enum { MOST_KEYS = 97 };
static const ptrdiff_t many_keys[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 95, 96, 97};
static const ptrdiff_t few_keys[] = {1, 2, 5, 33};

struct tile {
    ptrdiff_t keys;
    int vectors, lanes;
    void *scores, *before, *max, *sum, *owed;
};

static struct tile make_tile(const struct attn_kernels *isa, ptrdiff_t keys, int vectors,
                             enum place place)
{
    struct tile t = {.keys = keys, .vectors = vectors};
    t.lanes = vectors * isa->lanes;
    const size_t row = (size_t)t.lanes * isa->real_size;
    guarded_reset();
    t.scores = guarded_tile(isa, keys, t.lanes, place);
    t.before = guarded_tile(isa, keys, t.lanes, AT_START);
    t.max = guarded(row, place);
    t.sum = guarded(row, place);
    t.owed = guarded(row, place);
    context("%td keys, %d vectors, %s", keys, vectors, place_name(place));
    return t;
}

static void for_each_tile(const struct subject *on,
                          void (*check)(const struct subject *, const struct tile *, struct rng *))
{
    struct rng rng = {3};
    const ptrdiff_t *keys = on->quick ? few_keys : many_keys;
    const size_t num_keys = (on->quick ? sizeof few_keys : sizeof many_keys) / sizeof *keys;
    for (int vectors = 1; vectors <= TILE_VECTORS; vectors++)
        for (size_t k = 0; k < num_keys; k++)
            for (int place = AT_END; place <= AT_START; place++) {
                const struct tile t = make_tile(on->isa, keys[k], vectors, (enum place)place);
                check(on, &t, &rng);
            }
}

static void fill_scores(const struct attn_kernels *isa, const struct tile *t, struct rng *rng,
                        double size)
{
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++)
            put_tile(isa, t->scores, key, lane,
                     rng_below(rng, 6) == 0 ? -INFINITY : rng_between(rng, -size, size));
    copy_tile(isa, t->before, t->scores, t->keys, t->lanes);
}

static void fill_lanes(const struct attn_kernels *isa, void *lanes, int count, double x)
{
    for (int lane = 0; lane < count; lane++)
        put(isa, lanes, lane, x);
}

static void step(const struct attn_kernels *isa, const struct tile *t)
{
    isa->softmax_step(t->scores, t->keys, t->vectors, t->max, t->sum, t->owed);
}

/* What e^difference may be off by: exp2, the argument's roundings, and whatever lies below the
 * least normal number. */
static wide exp_bound(const struct attn_kernels *isa, wide difference)
{
    const wide weight = expl(difference), u = unit_roundoff(isa);
    if (weight == 0)
        return least_normal(isa);
    return exp2_ulps * ulp(isa, weight) + 3 * u * fabsl(difference) * weight + least_normal(isa);
}

static double lane_max(const struct attn_kernels *isa, const struct tile *t, int lane,
                       double before)
{
    double max = before;
    for (ptrdiff_t key = 0; key < t->keys; key++)
        max = fmax(max, get_tile(isa, t->before, key, lane));
    return max;
}

static void expect_step(const struct attn_kernels *isa, const struct tile *t,
                        const double *max_before, const double *sum_before)
{
    for (int lane = 0; lane < t->lanes; lane++) {
        const double max = lane_max(isa, t, lane, max_before[lane]);
        const double shift = max == -INFINITY ? 0 : max;
        expect(get(isa, t->max, lane) == max, "max[%d] expected %g, got %g", lane, max,
               get(isa, t->max, lane));

        const wide old = (wide)max_before[lane] - shift, owed = expl(old);
        expect_near(get(isa, t->owed, lane), owed, exp_bound(isa, old), "owed", 0, lane);
        wide sum = owed * sum_before[lane], bound = exp_bound(isa, old) * sum_before[lane];
        for (ptrdiff_t key = 0; key < t->keys; key++) {
            const wide difference = (wide)get_tile(isa, t->before, key, lane) - shift;
            const wide error = exp_bound(isa, difference);
            expect_near(get_tile(isa, t->scores, key, lane), expl(difference), error, "weight", key,
                        lane);
            sum += expl(difference);
            bound += error;
        }
        bound += (wide)(t->keys + 3) * unit_roundoff(isa) * sum;
        expect_near(get(isa, t->sum, lane), sum, bound, "sum", 0, lane);
    }
    expect_tile_gaps(isa, t->scores, t->keys, t->lanes);
}

static void check_step(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const double size = rng_below(rng, 2) ? 5 : 200;
    double max[MAX_TILE_LANES], sum[MAX_TILE_LANES];
    fill_scores(isa, t, rng, size);
    for (int lane = 0; lane < t->lanes; lane++) {
        const bool fresh = rng_below(rng, 3) == 0;
        put(isa, t->max, lane, fresh ? -INFINITY : rng_between(rng, -size, size));
        put(isa, t->sum, lane, fresh ? 0 : rng_between(rng, 1, 50));
        max[lane] = get(isa, t->max, lane);
        sum[lane] = get(isa, t->sum, lane);
    }
    step(isa, t);
    expect_step(isa, t, max, sum);
}

/* The same lane by lane from the generic table. */
static void check_like_generic(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa, *generic = on->generic;
    double tile[MOST_KEYS * TILE_VECTORS];
    fill_scores(isa, t, rng, 20);
    fill_lanes(isa, t->max, t->lanes, 3);
    fill_lanes(isa, t->sum, t->lanes, 2);
    step(isa, t);
    for (int lane = 0; lane < t->lanes; lane++) {
        double max[1], sum[1], owed[1];
        put(generic, max, 0, 3);
        put(generic, sum, 0, 2);
        for (ptrdiff_t key = 0; key < t->keys; key++)
            put_tile(generic, tile, key, 0, get_tile(isa, t->before, key, lane));
        generic->softmax_step(tile, t->keys, 1, max, sum, owed);

        const double want = get(generic, max, 0), total = get(generic, sum, 0);
        expect(get(isa, t->max, lane) == want, "max[%d] differs", lane);
        expect_near(get(isa, t->owed, lane), get(generic, owed, 0), 2 * exp_bound(isa, 3 - want),
                    "owed", 0, lane);
        wide bound = (wide)(2 * t->keys + 6) * unit_roundoff(isa) * total;
        bound += 4 * exp_bound(isa, 3 - want);
        for (ptrdiff_t key = 0; key < t->keys; key++) {
            const wide error = 2 * exp_bound(isa, (wide)get_tile(isa, t->before, key, lane) - want);
            expect_near(get_tile(isa, t->scores, key, lane), get_tile(generic, tile, key, 0), error,
                        "weight", key, lane);
            bound += error;
        }
        expect_near(get(isa, t->sum, lane), total, bound, "sum", 0, lane);
    }
}

/* Masks of -1e9 or of the type's lowest number are common, and a row of nothing else is uniform. */
static void check_equal(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const double largest = isa->real_size == sizeof(float) ? FLT_MAX : DBL_MAX;
    const double values[] = {0,    1,   -1,    88.8, -104.3,  1e4,
                             -1e9, 1e9, -1e30, 1e30, largest, -largest};
    const int choices = sizeof values / sizeof *values;
    for (int lane = 0; lane < t->lanes; lane++) {
        const double value = values[rng_below(rng, choices)];
        for (ptrdiff_t key = 0; key < t->keys; key++)
            put_tile(isa, t->scores, key, lane, value);
        put(isa, t->max, lane, rng_below(rng, 2) ? value : -INFINITY);
        put(isa, t->sum, lane, get(isa, t->max, lane) == -INFINITY ? 0 : 1);
    }
    copy_tile(isa, t->before, t->scores, t->keys, t->lanes);
    double sum[MAX_TILE_LANES];
    for (int lane = 0; lane < t->lanes; lane++)
        sum[lane] = get(isa, t->sum, lane);
    step(isa, t);
    for (int lane = 0; lane < t->lanes; lane++) {
        const double value = get_tile(isa, t->before, 0, lane);
        for (ptrdiff_t key = 0; key < t->keys; key++)
            expect(get_tile(isa, t->scores, key, lane) == 1, "scores of %g got the weight %g",
                   value, get_tile(isa, t->scores, key, lane));
        expect(get(isa, t->sum, lane) == sum[lane] + (double)t->keys, "sum of %g: %g", value,
               get(isa, t->sum, lane));
    }
}

static void check_still(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    fill_scores(isa, t, rng, 1000);
    fill_lanes(isa, t->sum, t->lanes, 1);
    for (int lane = 0; lane < t->lanes; lane++)
        put(isa, t->max, lane, lane_max(isa, t, lane, rng_between(rng, -1000, 1000)));
    step(isa, t);
    for (int lane = 0; lane < t->lanes; lane++)
        expect(get(isa, t->owed, lane) == 1, "owed[%d] is %.9g", lane, get(isa, t->owed, lane));
}

static void check_masked(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    (void)rng;
    for (ptrdiff_t key = 0; key < t->keys; key++)
        fill_lanes(isa, (char *)t->scores + (size_t)(key * isa->tile_lanes) * isa->real_size,
                   t->lanes, -INFINITY);
    fill_lanes(isa, t->max, t->lanes, -INFINITY);
    fill_lanes(isa, t->sum, t->lanes, 0);
    step(isa, t);
    for (int lane = 0; lane < t->lanes; lane++) {
        expect(get(isa, t->max, lane) == -INFINITY, "max[%d] moved", lane);
        expect(get(isa, t->sum, lane) == 0, "sum[%d] is %g", lane, get(isa, t->sum, lane));
        expect(isfinite(get(isa, t->owed, lane)), "owed[%d] is not finite", lane);
        for (ptrdiff_t key = 0; key < t->keys; key++)
            expect(get_tile(isa, t->scores, key, lane) == 0, "weight[%td, %d] is not 0", key, lane);
    }
}

/* One lane has a NaN or +inf somewhere: its sum is NaN, whatever follows; the others' are right. */
static void check_leaks(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const int sick = (int)rng_below(rng, t->lanes);
    fill_scores(isa, t, rng, 5);
    put_tile(isa, t->scores, rng_below(rng, t->keys), sick, rng_below(rng, 2) ? NAN : INFINITY);
    fill_lanes(isa, t->max, t->lanes, 0);
    fill_lanes(isa, t->sum, t->lanes, 1);
    step(isa, t);
    fill_scores(isa, t, rng, 5);
    step(isa, t);
    for (int lane = 0; lane < t->lanes; lane++)
        expect(isnan(get(isa, t->sum, lane)) == (lane == sick), "sum[%d] is %g, sick is %d", lane,
               get(isa, t->sum, lane), sick);
}

static void check_sick_end(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    fill_scores(isa, t, rng, 5);
    fill_lanes(isa, t->max, t->lanes, 5);
    fill_lanes(isa, t->sum, t->lanes, NAN); /* the factor */
    for (int lane = 0; lane < t->lanes; lane += 2)
        put(isa, t->max, lane, NAN);
    isa->softmax_end(t->scores, t->keys, t->vectors, t->max, t->sum);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const bool masked = get_tile(isa, t->before, key, lane) == -INFINITY;
            const double got = get_tile(isa, t->scores, key, lane);
            expect(masked ? got == 0 : isnan(got), "[%td, %d] is %g", key, lane, got);
        }
}

static void check_end(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    fill_scores(isa, t, rng, 50);
    for (int lane = 0; lane < t->lanes; lane++) {
        put(isa, t->max, lane, lane_max(isa, t, lane, -INFINITY));
        put(isa, t->sum, lane, rng_between(rng, 0, 1)); /* the factor */
    }
    isa->softmax_end(t->scores, t->keys, t->vectors, t->max, t->sum);
    for (int lane = 0; lane < t->lanes; lane++) {
        const double max = get(isa, t->max, lane), shift = max == -INFINITY ? 0 : max;
        for (ptrdiff_t key = 0; key < t->keys; key++) {
            const wide difference = (wide)get_tile(isa, t->before, key, lane) - shift;
            const wide factor = get(isa, t->sum, lane), want = factor * expl(difference);
            expect_near(get_tile(isa, t->scores, key, lane), want,
                        factor * exp_bound(isa, difference) + unit_roundoff(isa) * want
                            + least_normal(isa),
                        "weight", key, lane);
        }
    }
    expect_tile_gaps(isa, t->scores, t->keys, t->lanes);
}

/* Rows in memory: as many bits as in a tile, and nothing beyond their ends. */
static void check_rows_in_memory(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const ptrdiff_t offset = rng_below(rng, 3), cols = offset + t->keys;
    const int count = 1 + (int)rng_below(rng, t->lanes);
    struct attn_rows rows = {.count = count, .vectors = t->vectors, .dtype = real_dtype(isa)};
    rows.step = (ptrdiff_t)isa->real_size;
    fill_scores(isa, t, rng, 50);
    for (int lane = 0; lane < t->lanes; lane++) {
        put(isa, t->max, lane, lane_max(isa, t, lane, -INFINITY));
        put(isa, t->sum, lane, rng_between(rng, 0, 1)); /* the factor */
    }
    for (int lane = 0; lane < count; lane++) {
        rows.row[lane] = guarded((size_t)cols * isa->real_size, lane % 2 ? AT_START : AT_END);
        for (ptrdiff_t c = 0; c < cols; c++)
            put(isa, rows.row[lane], c,
                c < offset ? 7 : get_tile(isa, t->before, c - offset, lane));
    }
    isa->softmax_rows(&rows, offset, t->keys, t->max, t->sum);
    isa->softmax_end(t->scores, t->keys, t->vectors, t->max, t->sum);
    for (int lane = 0; lane < count; lane++)
        for (ptrdiff_t c = 0; c < cols; c++) {
            const double want = c < offset ? 7 : get_tile(isa, t->scores, c - offset, lane);
            const double got = get(isa, rows.row[lane], c);
            expect(same_bits(got, want), "[%d, %td]: expected %g, got %g", lane, c, want, got);
        }
}

/* softmax_end with max 0 and factor 1 is exp2 of the rounded product score · log2 e. */
static void check_exp2(const struct subject *on)
{
    const struct attn_kernels *isa = on->isa;
    const bool single = isa->real_size == sizeof(float);
    const double lowest = (single ? -126 : -1022) / 1.4426950408889634074;
    const int tiles = on->quick ? 20 : 400;
    struct rng rng = {5};
    claim(isa, "exp2 is within %g ULP where it is normal", exp2_ulps);
    for (int i = 0; i < tiles; i++) {
        const struct tile t = make_tile(isa, MOST_KEYS, TILE_VECTORS, AT_END);
        const double low = i % 2 ? lowest : -3;
        for (ptrdiff_t key = 0; key < t.keys; key++)
            for (int lane = 0; lane < t.lanes; lane++)
                put_tile(isa, t.before, key, lane, rng_between(&rng, low, 0));
        copy_tile(isa, t.scores, t.before, t.keys, t.lanes);
        fill_lanes(isa, t.max, t.lanes, 0);
        fill_lanes(isa, t.sum, t.lanes, 1);
        isa->softmax_end(t.scores, t.keys, t.vectors, t.max, t.sum);
        for (ptrdiff_t key = 0; key < t.keys; key++)
            for (int lane = 0; lane < t.lanes; lane++) {
                const double score = get_tile(isa, t.before, key, lane);
                const double x = single ? (float)score * 1.4426950408889634074f
                                        : score * 1.4426950408889634074;
                const wide want = exp2l(x);
                if (want >= least_normal(isa))
                    expect_near(get_tile(isa, t.scores, key, lane), want,
                                exp2_ulps * ulp(isa, want), "exp2", key, lane);
            }
    }
}

void check_softmax(const struct subject *on)
{
    check_exp2(on);
    claim(on->isa, "a softmax step has the right max, weights, sum and owed factor");
    for_each_tile(on, check_step);
    claim(on->isa, "a softmax step agrees with the generic one");
    for_each_tile(on, check_like_generic);
    claim(on->isa, "weights of rows in memory have the bits of a tile's");
    for_each_tile(on, check_rows_in_memory);
    claim(on->isa, "equal scores of any size have weight 1");
    for_each_tile(on, check_equal);
    claim(on->isa, "a lane whose max did not move owes exactly 1");
    for_each_tile(on, check_still);
    claim(on->isa, "a lane that is masked throughout sums to 0");
    for_each_tile(on, check_masked);
    claim(on->isa, "NaN and +inf spoil their own lane and no other");
    for_each_tile(on, check_leaks);
    claim(on->isa, "the final softmax of a lane that is NaN is NaN, but 0 where masked");
    for_each_tile(on, check_sick_end);
    claim(on->isa, "the final softmax is factor times e^(s - max)");
    for_each_tile(on, check_end);
}

void bench_softmax(const struct attn_kernels *isa)
{
    struct rng rng = {1};
    const struct tile t = make_tile(isa, 96, TILE_VECTORS, AT_START);
    const double scores = (double)(t.keys * t.lanes);
    fill_scores(isa, &t, &rng, 4);
    fill_lanes(isa, t.max, t.lanes, 0);
    fill_lanes(isa, t.sum, t.lanes, 1);
    struct timing timing = timing_start();
    while (timing_more(&timing))
        step(isa, &t);
    report_each(isa, "softmax_step", scores, timing.best);
    timing = timing_start();
    while (timing_more(&timing))
        isa->softmax_end(t.scores, t.keys, t.vectors, t.max, t.sum);
    report_each(isa, "softmax_end", scores, timing.best);
}
