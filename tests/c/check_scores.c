/* What happens to scores between product and softmax: softcap, bias, masks, ALiBi, ranges. */
#include "check.h"

static const double tanh_ulps = 3;

struct tile {
    ptrdiff_t keys;
    int vectors, lanes;
    void *scores, *before, *other; /* other: a bias, or what is kept */
    void *first, *second;          /* one number per lane */
};

static struct tile make_tile(const struct attn_kernels *isa, ptrdiff_t keys, int vectors,
                             enum place place)
{
    struct tile t = {.keys = keys, .vectors = vectors, .lanes = vectors * isa->lanes};
    const size_t row = (size_t)t.lanes * isa->real_size;
    guarded_reset();
    t.scores = guarded_tile(isa, keys, t.lanes, place);
    t.before = guarded_tile(isa, keys, t.lanes, AT_START);
    t.other = guarded_tile(isa, keys, t.lanes, place);
    t.first = guarded(row, place);
    t.second = guarded(row, place);
    context("%td keys, %d vectors, %s", keys, vectors, place_name(place));
    return t;
}

static void for_each_tile(const struct subject *on,
                          void (*check)(const struct subject *, const struct tile *, struct rng *))
{
    struct rng rng = {6};
    for (int vectors = 1; vectors <= TILE_VECTORS; vectors++)
        for (ptrdiff_t keys = 1; keys <= (on->quick ? 5 : 97); keys += keys < 12 ? 1 : 17)
            for (int place = AT_END; place <= AT_START; place++) {
                const struct tile t = make_tile(on->isa, keys, vectors, (enum place)place);
                for (ptrdiff_t key = 0; key < keys; key++)
                    for (int lane = 0; lane < t.lanes; lane++)
                        put_tile(on->isa, t.scores, key, lane,
                                 rng_extreme(&rng, on->isa->real_size));
                copy_tile(on->isa, t.before, t.scores, keys, t.lanes);
                check(on, &t, &rng);
                expect_tile_gaps(on->isa, t.scores, keys, t.lanes);
            }
}

/* In the real type, as the kernels do it: one rounding, so the sum is exact to the bit. */
static double real_sum(const struct attn_kernels *isa, double a, double b)
{
    return isa->real_size == sizeof(float) ? (float)a + (float)b : a + b;
}

static void check_bias(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++)
            put_tile(isa, t->other, key, lane, rng_extreme(rng, isa->real_size));
    isa->add_bias(t->scores, t->other, t->keys, t->vectors);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const double bias = get_tile(isa, t->other, key, lane);
            const double score = get_tile(isa, t->before, key, lane);
            const double want = bias == -INFINITY ? bias : real_sum(isa, score, bias);
            const double got = get_tile(isa, t->scores, key, lane);
            expect(same_bits(got, want), "%g + %g gave %g", score, bias, got);
        }
}

static void check_mask(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++)
            put_tile(isa, t->other, key, lane, (double)rng_below(rng, 2));
    isa->mask(t->scores, t->other, t->keys, t->vectors);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const double keep = get_tile(isa, t->other, key, lane);
            const double score = get_tile(isa, t->before, key, lane);
            const double got = get_tile(isa, t->scores, key, lane);
            expect(same_bits(got, keep != 0 ? score : -INFINITY), "%g with %g gave %g", score, keep,
                   got);
        }
}

/* A mask that hides, or passes, all pairs, or all but an odd one; in the lanes after the last row
 * anything. */
static void check_mask_effect(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const int count = 1 + (int)rng_below(rng, t->lanes);
    const bool keep = rng_below(rng, 2), hide = rng_below(rng, 2), odd = rng_below(rng, 2);
    const double hides = keep ? 0 : -INFINITY, passes = keep ? 1 : rng_below(rng, 2) ? 0.0 : -0.0;
    const double changes[] = {NAN, 0.5, -INFINITY};
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++)
            put_tile(isa, t->other, key, lane,
                     lane >= count ? (double)rng_below(rng, 2)
                     : hide        ? hides
                                   : passes);
    enum mask_effect want = hide ? MASK_HIDES : MASK_PASSES;
    if (odd) {
        const double x = hide ? passes : keep ? 0 : changes[rng_below(rng, 3)];
        put_tile(isa, t->other, rng_below(rng, t->keys), (int)rng_below(rng, count), x);
        want = t->keys * count > 1 ? MASK_MIXES
               : x == hides        ? MASK_HIDES
               : x == passes       ? MASK_PASSES
                                   : MASK_MIXES;
    }
    const enum mask_effect got = isa->mask_effect(t->other, t->keys, count, keep);
    expect(got == want, "expected %d of %d lanes, got %d", want, count, got);
}

static void check_spread(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    (void)rng;
    isa->spread(t->scores, t->keys, t->vectors);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++)
            expect(same_bits(get_tile(isa, t->scores, key, lane), get_tile(isa, t->before, key, 0)),
                   "key %td, lane %d", key, lane);
}

static void check_clip(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    for (int lane = 0; lane < t->lanes; lane++) {
        put(isa, t->first, lane, (double)(rng_below(rng, t->keys + 4) - 2));
        put(isa, t->second, lane, (double)(rng_below(rng, t->keys + 4) - 1));
    }
    isa->clip(t->scores, t->keys, t->vectors, t->first, t->second);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const double first = get(isa, t->first, lane), end = get(isa, t->second, lane);
            const double score = get_tile(isa, t->before, key, lane);
            const bool inside = first <= (double)key && (double)key < end;
            const double got = get_tile(isa, t->scores, key, lane);
            expect(same_bits(got, inside ? score : -INFINITY),
                   "key %td of [%g, %g) turned %g into %g", key, first, end, score, got);
        }
}

/* s - slope · |distance - key|: a rounding each for the distance, the product and the sum. */
static void check_alibi(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    for (int lane = 0; lane < t->lanes; lane++) {
        put(isa, t->first, lane, (double)(rng_below(rng, 4000) - 2000));
        put(isa, t->second, lane, rng_between(rng, -1, 1));
    }
    isa->alibi(t->scores, t->keys, t->vectors, t->first, t->second);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const wide far = fabs(get(isa, t->first, lane) - (double)key);
            const wide slant = get(isa, t->second, lane) * far;
            const wide want = get_tile(isa, t->before, key, lane) - slant;
            const wide u = unit_roundoff(isa);
            expect_near(get_tile(isa, t->scores, key, lane), want,
                        u * (fabsl(want) + 2 * fabsl(slant)) + ulp(isa, 0), "score", key, lane);
        }
}

/* cap · tanh(s): tanh's error and one rounding of the product. */
static void check_softcap(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa;
    const double cap = round_dtype(rng_between(rng, 0.1, 60), real_dtype(isa));
    isa->softcap(t->scores, t->keys, t->vectors, cap);
    for (ptrdiff_t key = 0; key < t->keys; key++)
        for (int lane = 0; lane < t->lanes; lane++) {
            const wide want = cap * tanhl(get_tile(isa, t->before, key, lane));
            expect_near(get_tile(isa, t->scores, key, lane), want,
                        (2 * tanh_ulps + 1) * ulp(isa, want), "score", key, lane);
        }
}

static void check_tanh(const struct subject *on)
{
    const struct attn_kernels *isa = on->isa;
    const double ranges[] = {1e-6, 0.1, 0.625, 1, 10, 1000};
    const int tiles = on->quick ? 3 : 60;
    struct rng rng = {7};
    claim(isa, "tanh is within %g ULP", tanh_ulps);
    for (int i = 0; i < 6 * tiles; i++) {
        const double range = ranges[i % 6];
        const struct tile t = make_tile(isa, 96, TILE_VECTORS, AT_END);
        for (ptrdiff_t key = 0; key < t.keys; key++)
            for (int lane = 0; lane < t.lanes; lane++)
                put_tile(isa, t.before, key, lane, rng_between(&rng, -range, range));
        copy_tile(isa, t.scores, t.before, t.keys, t.lanes);
        isa->softcap(t.scores, t.keys, t.vectors, 1);
        for (ptrdiff_t key = 0; key < t.keys; key++)
            for (int lane = 0; lane < t.lanes; lane++) {
                const wide want = tanhl(get_tile(isa, t.before, key, lane));
                expect_near(get_tile(isa, t.scores, key, lane), want, tanh_ulps * ulp(isa, want),
                            "tanh", key, lane);
            }
    }
}

/* The generic table one lane at a time; its tiles are TILE_VECTORS wide. */
static void check_like_generic(const struct subject *on, const struct tile *t, struct rng *rng)
{
    const struct attn_kernels *isa = on->isa, *generic = on->generic;
    double tile[97 * TILE_VECTORS];
    (void)rng;
    isa->softcap(t->scores, t->keys, t->vectors, 30);
    for (int lane = 0; lane < t->lanes; lane++) {
        for (ptrdiff_t key = 0; key < t->keys; key++)
            put_tile(generic, tile, key, 0, get_tile(isa, t->before, key, lane));
        generic->softcap(tile, t->keys, 1, 30);
        for (ptrdiff_t key = 0; key < t->keys; key++) {
            const double want = get_tile(generic, tile, key, 0);
            expect_near(get_tile(isa, t->scores, key, lane), want,
                        (4 * tanh_ulps + 2) * ulp(isa, want), "score", key, lane);
        }
    }
}

void check_scores(const struct subject *on)
{
    check_tanh(on);
    claim(on->isa, "softcap is cap * tanh, of infinities and NaN too");
    for_each_tile(on, check_softcap);
    claim(on->isa, "softcap agrees with the generic one");
    for_each_tile(on, check_like_generic);
    claim(on->isa, "a bias is added with one rounding, and -inf masks whatever was there");
    for_each_tile(on, check_bias);
    claim(on->isa, "a mask keeps scores to the bit or sets -inf, over NaN too");
    for_each_tile(on, check_mask);

    claim(on->isa, "a mask that hides all, or changes nothing, is told from others");
    for_each_tile(on, check_mask_effect);

    claim(on->isa, "one lane's mask spreads over all");
    for_each_tile(on, check_spread);
    claim(on->isa, "a range keeps scores to the bit or sets -inf, over NaN too");
    for_each_tile(on, check_clip);
    claim(on->isa, "ALiBi is within a rounding per operation");
    for_each_tile(on, check_alibi);
}

void bench_scores(const struct attn_kernels *isa)
{
    const struct tile t = make_tile(isa, 96, TILE_VECTORS, AT_START);
    const double scores = (double)(t.keys * t.lanes);
    for (int lane = 0; lane < t.lanes; lane++) {
        put(isa, t.first, lane, 0);
        put(isa, t.second, lane, 0.5);
        for (ptrdiff_t key = 0; key < t.keys; key++) {
            put_tile(isa, t.scores, key, lane, 1);
            put_tile(isa, t.other, key, lane, 1e-3);
        }
    }
    struct timing timing = timing_start();
    while (timing_more(&timing))
        isa->softcap(t.scores, t.keys, t.vectors, 30);
    report_each(isa, "softcap", scores, timing.best);
    timing = timing_start();
    while (timing_more(&timing))
        isa->add_bias(t.scores, t.other, t.keys, t.vectors);
    report_each(isa, "add_bias", scores, timing.best);
    timing = timing_start();
    while (timing_more(&timing))
        isa->mask(t.scores, t.other, t.keys, t.vectors);
    report_each(isa, "mask", scores, timing.best);
    timing = timing_start();
    while (timing_more(&timing))
        isa->alibi(t.scores, t.keys, t.vectors, t.first, t.second);
    report_each(isa, "alibi", scores, timing.best);
    timing = timing_start();
    while (timing_more(&timing))
        isa->clip(t.scores, t.keys, t.vectors, t.first, t.second);
    report_each(isa, "clip", scores, timing.best);
}
