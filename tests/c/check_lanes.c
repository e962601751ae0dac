/* One number per lane: set from doubles, got back, and the sums over lanes. */
#include "check.h"

static void check_set_and_get(const struct attn_kernels *isa)
{
    struct rng rng = {12};
    const size_t lanes = (size_t)isa->tile_lanes;
    claim(isa, "lanes are set to the nearest reals, and got back as they are");
    for (int round = 0; round < 200; round++)
        for (int place = AT_END; place < ALIGNED_PLACES; place++) {
            guarded_reset();
            double *in = guarded(lanes * sizeof *in, (enum place)place);
            double *out = guarded(lanes * sizeof *out, (enum place)place);
            void *reals = guarded(lanes * isa->real_size, (enum place)place);
            for (size_t lane = 0; lane < lanes; lane++)
                in[lane] = rng_extreme(&rng, round % 2 ? 4 : 8);
            isa->set_lanes(reals, in);
            isa->get_lanes(out, reals);
            for (size_t lane = 0; lane < lanes; lane++)
                expect(same_bits(out[lane], round_dtype(in[lane], real_dtype(isa))),
                       "lane %zu of %g is %g", lane, in[lane], out[lane]);
        }
}

/* The lanes of all vectors of a tile are added to the first vector, and that in the end to one. */
static void check_sum(const struct attn_kernels *isa, ptrdiff_t keys, int count, enum place place,
                      struct rng *rng)
{
    double sums[9], sizes[9];
    guarded_reset();
    void *scores = guarded_tile(isa, keys, count, place);
    void *total = guarded_tile(isa, keys, isa->lanes, place);
    context("%td keys, %d lanes, %s", keys, count, place_name(place));
    for (ptrdiff_t key = 0; key < keys; key++) {
        wide sum = 0, size = 0;
        for (int lane = 0; lane < count; lane++) {
            put_tile(isa, scores, key, lane, rng_between(rng, -1, 1));
            sum += get_tile(isa, scores, key, lane);
            size += fabs(get_tile(isa, scores, key, lane));
        }
        for (int lane = 0; lane < isa->lanes; lane++) {
            put_tile(isa, total, key, lane, rng_between(rng, -3, 3));
            sum += get_tile(isa, total, key, lane);
            size += fabs(get_tile(isa, total, key, lane));
        }
        sums[key] = (double)sum;
        sizes[key] = (double)size;
    }
    isa->add_lanes(total, scores, keys, count);
    isa->sum_lanes(total, keys);
    for (ptrdiff_t key = 0; key < keys; key++)
        expect_near(get_tile(isa, total, key, 0), sums[key],
                    (count + isa->lanes + 1) * unit_roundoff(isa) * sizes[key], "sum", key, 0);
    expect_tile_gaps(isa, total, keys, isa->lanes);
}

void check_lanes(const struct subject *on)
{
    const struct attn_kernels *isa = on->isa;
    struct rng rng = {4};
    check_set_and_get(isa);
    claim(isa, "sums over lanes are within a rounding per lane, and count only those asked for");
    for (int count = 1; count <= isa->tile_lanes; count++)
        for (ptrdiff_t keys = 1; keys <= 9; keys++)
            for (int place = AT_END; place < ALIGNED_PLACES; place++)
                check_sum(isa, keys, count, (enum place)place, &rng);
}

void bench_lanes(const struct attn_kernels *isa)
{
    struct rng rng = {1};
    guarded_reset();
    void *scores = guarded_tile(isa, 96, isa->tile_lanes, AT_START);
    void *sums = guarded_tile(isa, 96, isa->tile_lanes, AT_START);
    for (ptrdiff_t key = 0; key < 96; key++)
        for (int lane = 0; lane < isa->tile_lanes; lane++) {
            put_tile(isa, scores, key, lane, rng_between(&rng, 0, 1));
            put_tile(isa, sums, key, lane, 0);
        }
    struct timing timing = timing_start();
    while (timing_more(&timing))
        isa->add_lanes(sums, scores, 96, isa->tile_lanes);
    report_each(isa, "add_lanes", 96.0 * isa->tile_lanes, timing.best);
}
