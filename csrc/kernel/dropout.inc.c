/* Dropout's mask, as a function of its place: Philox4x32-10 (Salmon et al., «Parallel random numbers:
 * as easy as 1, 2, 3», 2011). Counter = (row, key / 4), 64 bits each, key = seed; word key % 4 decides.
 * So backward, and any number of threads, see the same mask. Plain loops: the compiler runs them in
 * vectors. */

enum { PHILOX_ROUNDS = 10 };

static void philox(uint32_t word[4][LANES], const uint64_t row[LANES], uint64_t quad, uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int lane = 0; lane < LANES; lane++) {
        word[0][lane] = (uint32_t)row[lane];
        word[1][lane] = (uint32_t)(row[lane] >> 32);
        word[2][lane] = (uint32_t)quad;
        word[3][lane] = (uint32_t)(quad >> 32);
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        for (int lane = 0; lane < LANES; lane++) {
            const uint64_t left = (uint64_t)word[0][lane] * 0xD2511F53;
            const uint64_t right = (uint64_t)word[2][lane] * 0xCD9E8D57;
            word[0][lane] = (uint32_t)(right >> 32) ^ word[1][lane] ^ key0;
            word[1][lane] = (uint32_t)right;
            word[2][lane] = (uint32_t)(left >> 32) ^ word[3][lane] ^ key1;
            word[3][lane] = (uint32_t)left;
        }
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
}

static void dropout(void *scores, ptrdiff_t first_key, ptrdiff_t keys, int vectors,
                    const uint64_t *row, uint64_t seed, uint32_t threshold)
{
    uint32_t word[4][LANES];
    for (int j = 0; j < vectors; j++)
        for (ptrdiff_t key = 0; key < keys; key++) {
            if (key % 4 == 0)
                philox(word, row + j * LANES, (uint64_t)(first_key + key) / 4, seed);
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            for (int lane = 0; lane < LANES; lane++)
                s[lane] = word[key % 4][lane] < threshold ? 0 : s[lane];
        }
}
