/* limits.c: what one core can do at most: multiply-adds in registers, and reading of memory.
 *
 * limits.py builds this for the machine it runs on. The vectors are GCC's and clang's own, so the
 * text names no instruction set; it asks only how wide a register is and how many there are. */

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { VECTOR_BYTES = 16, CHAINS = 24 };
#else
enum { VECTOR_BYTES = 16, CHAINS = 12 };
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

enum { LANES = VECTOR_BYTES / sizeof(float), STREAM = 8 };

/* x <- x * 0.5 + 0.5, `rounds` times in CHAINS independent chains, which hide the latency of each.
 * Returns the number of operations; what is written to *sink keeps the work from being removed. */
double limits_fma(ptrdiff_t rounds, float *sink)
{
    vector chain[CHAINS];
    const vector half = (vector){0} + 0.5f;
    for (int i = 0; i < CHAINS; i++)
        chain[i] = half * (float)(i + 3); /* away from 1, which stays 1 */
    for (ptrdiff_t round = 0; round < rounds; round++)
#pragma GCC unroll 24 /* left as a loop, the chains would live in memory */
        for (int i = 0; i < CHAINS; i++)
            chain[i] = chain[i] * half + half;
    for (int i = 0; i < CHAINS; i++)
        *sink += chain[i][0];
    return 2.0 * LANES * CHAINS * (double)rounds;
}

/* Reads the whole vectors among `bytes` bytes of floats, in order; returns the bytes read. */
double limits_read(const void *data, ptrdiff_t bytes, float *sink)
{
    const uintptr_t first = ((uintptr_t)data + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
    const ptrdiff_t skipped = (ptrdiff_t)(first - (uintptr_t)data);
    const ptrdiff_t count = (bytes - skipped) / (VECTOR_BYTES * STREAM) * STREAM;
    const vector *at = (const vector *)first;
    vector sum[STREAM] = {{0}};
    for (ptrdiff_t i = 0; i < count; i += STREAM)
        for (int j = 0; j < STREAM; j++)
            sum[j] += at[i + j];
    for (int j = 0; j < STREAM; j++)
        *sink += sum[j][0];
    return (double)count * VECTOR_BYTES;
}
