/* Dropout's mask: Philox4x32-10 written plainly, held to the known answers of Random123, and the
 * kernels held to it. */
#include "check.h"

#include <inttypes.h>

struct philox {
    uint32_t word[4];
};

static struct philox philox_plain(struct philox counter, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        const uint32_t *c = counter.word;
        const uint64_t product0 = (uint64_t)0xD2511F53 * c[0];
        const uint64_t product1 = (uint64_t)0xCD9E8D57 * c[2];
        counter = (struct philox){{(uint32_t)(product1 >> 32) ^ c[1] ^ key0, (uint32_t)product1,
                                   (uint32_t)(product0 >> 32) ^ c[3] ^ key1, (uint32_t)product0}};
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    return counter;
}

/* The kat_vectors file of Random123, philox4x32 with 10 rounds. */
static const struct {
    struct philox counter;
    uint32_t key[2];
    struct philox answer;
} known[] = {
    {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     {0xffffffff, 0xffffffff},
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     {0xa4093822, 0x299f31d0},
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};
enum { KNOWN = sizeof known / sizeof *known };

/* The word that decides about a key: weights are dropped where it is below the threshold, so the
 * largest threshold that keeps them is the word. */
static uint32_t word_of(const struct attn_kernels *isa, uint64_t row, uint64_t key, uint64_t seed)
{
    uint64_t rows[MAX_TILE_LANES], low = 0, high = UINT64_C(1) << 32; /* low keeps, high drops */
    void *scores = guarded_tile(isa, 4, isa->lanes, AT_END);
    for (int lane = 0; lane < isa->lanes; lane++)
        rows[lane] = row;
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        const int lane = (int)(middle % (uint64_t)isa->lanes);
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < isa->lanes; l++)
                put_tile(isa, scores, k, l, 1);
        isa->dropout(scores, (ptrdiff_t)(key & ~UINT64_C(3)), 4, 1, rows, seed, (uint32_t)middle);
        if (get_tile(isa, scores, (ptrdiff_t)(key % 4), lane) == 1)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static void check_known(const struct attn_kernels *isa)
{
    claim(isa, "dropout draws the words that Random123 lists");
    for (int i = 0; i < KNOWN; i++) {
        const uint32_t *c = known[i].counter.word;
        const struct philox plain = philox_plain(known[i].counter, known[i].key[0],
                                                 known[i].key[1]);
        const uint64_t quad = c[2] | (uint64_t)c[3] << 32;
        for (int word = 0; word < 4; word++) {
            expect(plain.word[word] == known[i].answer.word[word],
                   "the checker's Philox itself: answer %d, word %d", i, word);
            if (quad > PTRDIFF_MAX / 4) /* no key has that counter */
                continue;
            guarded_reset();
            const uint32_t got = word_of(isa, c[0] | (uint64_t)c[1] << 32,
                                         4 * quad + (uint64_t)word,
                                         known[i].key[0] | (uint64_t)known[i].key[1] << 32);
            expect(got == known[i].answer.word[word], "answer %d, word %d: %08" PRIx32, i, word,
                   got);
        }
    }
}

bool dropped(uint64_t row, uint64_t key, uint64_t seed, uint32_t threshold)
{
    const uint64_t quad = key / 4;
    const struct philox counter = {
        {(uint32_t)row, (uint32_t)(row >> 32), (uint32_t)quad, (uint32_t)(quad >> 32)}};
    const struct philox words = philox_plain(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return words.word[key % 4] < threshold;
}

static void check_tile(const struct attn_kernels *isa, ptrdiff_t keys, int vectors,
                       enum place place, struct rng *rng)
{
    const int lanes = vectors * isa->lanes;
    guarded_reset();
    void *scores = guarded_tile(isa, keys, lanes, place);
    void *before = guarded_tile(isa, keys, lanes, AT_START);
    uint64_t *rows = guarded((size_t)lanes * sizeof *rows, place);
    const uint64_t seed = rng_bits(rng);
    const uint32_t thresholds[] = {0, 1, 0x80000000, 0xffffffff, (uint32_t)rng_bits(rng)};
    const uint32_t threshold = thresholds[rng_below(rng, 5)];
    const ptrdiff_t first_key = 4 * (ptrdiff_t)(rng_bits(rng) >> rng_below(rng, 60) >> 3);
    for (int lane = 0; lane < lanes; lane++) {
        rows[lane] = rng_bits(rng) >> rng_below(rng, 64);
        for (ptrdiff_t key = 0; key < keys; key++)
            put_tile(isa, scores, key, lane, rng_between(rng, 0.5, 1));
    }
    copy_tile(isa, before, scores, keys, lanes);
    context("%td keys from %td, %d vectors, threshold %" PRIu32 ", %s", keys, first_key, vectors,
            threshold, place_name(place));
    isa->dropout(scores, first_key, keys, vectors, rows, seed, threshold);
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int lane = 0; lane < lanes; lane++) {
            const bool gone = dropped(rows[lane], (uint64_t)(first_key + key), seed, threshold);
            const double want = gone ? 0 : get_tile(isa, before, key, lane);
            expect(same_bits(get_tile(isa, scores, key, lane), want), "[%td, %d] is %g, not %g",
                   key, lane, get_tile(isa, scores, key, lane), want);
        }
    expect_tile_gaps(isa, scores, keys, lanes);
}

void check_dropout(const struct subject *on)
{
    struct rng rng = {11};
    check_known(on->isa);
    claim(on->isa, "dropout takes the weights that Philox names, and no other");
    for (int vectors = 1; vectors <= TILE_VECTORS; vectors++)
        for (ptrdiff_t keys = 1; keys <= (on->quick ? 9 : 97); keys += keys < 12 ? 1 : 17)
            for (int place = AT_END; place <= AT_START; place++)
                check_tile(on->isa, keys, vectors, (enum place)place, &rng);
}

void bench_dropout(const struct attn_kernels *isa)
{
    uint64_t rows[MAX_TILE_LANES] = {0};
    guarded_reset();
    void *scores = guarded_tile(isa, 96, isa->tile_lanes, AT_START);
    struct timing timing = timing_start();
    while (timing_more(&timing))
        isa->dropout(scores, 0, 96, TILE_VECTORS, rows, 1, 0x20000000);
    report_each(isa, "dropout", 96.0 * isa->tile_lanes, timing.best);
}
