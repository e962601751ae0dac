/* Random numbers, numbers of any type in memory, and how far apart a type's numbers lie.
 *
 * Sixteen-bit floats are converted here by arithmetic on their definition (sign, exponent,
 * fraction), not by bit tricks, so that the library's conversions have something to be held to. */
#include "check.h"

#include <stdint.h>

/* Splitmix64 (Steele, Lea, Flood 2014). */
uint64_t rng_bits(struct rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

ptrdiff_t rng_below(struct rng *rng, ptrdiff_t end)
{
    return (ptrdiff_t)(rng_bits(rng) % (uint64_t)end);
}

double rng_between(struct rng *rng, double low, double high)
{
    return low + (high - low) * (double)(rng_bits(rng) >> 11) * 0x1p-53;
}

double rng_extreme(struct rng *rng, size_t real_size)
{
    const bool single = real_size == sizeof(float);
    const double sign = rng_below(rng, 2) ? -1 : 1;
    switch (rng_below(rng, 16)) {
    case 0: return sign * INFINITY;
    case 1: return NAN;
    case 2: return sign * 0.0;
    case 3: return sign * (single ? FLT_TRUE_MIN : DBL_TRUE_MIN);
    case 4: return sign * (single ? FLT_MIN * 0.75 : DBL_MIN * 0.75);
    case 5: return sign * (single ? FLT_MAX : DBL_MAX);
    default: return rng_between(rng, -4, 4);
    }
}

/* A binary float of `fraction` bits behind the point and a biased exponent above them. */
static double value_of(uint32_t bits, int fraction, int bias)
{
    const int exponents = 15 - fraction, highest = (1 << exponents) - 1;
    const int exponent = (int)(bits >> fraction) & highest;
    const double sign = bits >> 15 ? -1 : 1, part = bits & ((1u << fraction) - 1);
    if (exponent == highest)
        return part != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(part, 1 - bias - fraction);
    return sign * ldexp(ldexp(1, fraction) + part, exponent - bias - fraction);
}

static uint16_t bits_of(double x, int fraction, int bias)
{
    const int highest = (1 << (15 - fraction)) - 1;
    const uint32_t sign = signbit(x) ? 0x8000 : 0;
    const uint32_t infinity = (uint32_t)highest << fraction;
    if (isnan(x))
        return (uint16_t)(sign | infinity | 1u << (fraction - 1));
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    int exponent = x == 0 ? 1 - bias : ilogb(x);
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    /* In units of the last bit, rounded to even ties. A carry into the exponent is right as it is:
     * the number after the largest fraction is the next power of two, after the last one infinity. */
    const double units = rint(ldexp(fabs(x), fraction - exponent));
    const int64_t bits = (int64_t)(exponent + bias - 1) * (1 << fraction) + (int64_t)units;
    return (uint16_t)(sign | (bits < infinity ? (uint32_t)bits : infinity));
}

uint16_t half_bits(double x) { return bits_of(x, 10, 15); }
uint16_t bfloat_bits(double x) { return bits_of(x, 7, 127); }

double load_dtype(const void *p, attn_dtype dtype)
{
    uint16_t half;
    float single;
    double real;
    switch (dtype) {
    case ATTN_BOOL: return *(const unsigned char *)p != 0;
    case ATTN_F16: memcpy(&half, p, sizeof half); return value_of(half, 10, 15);
    case ATTN_BF16: memcpy(&half, p, sizeof half); return value_of(half, 7, 127);
    case ATTN_F32: memcpy(&single, p, sizeof single); return single;
    default: memcpy(&real, p, sizeof real); return real;
    }
}

void store_dtype(void *p, double x, attn_dtype dtype)
{
    const uint16_t half = dtype == ATTN_F16 ? half_bits(x) : bfloat_bits(x);
    const float single = (float)x;
    switch (dtype) {
    case ATTN_BOOL: *(unsigned char *)p = x != 0; break;
    case ATTN_F16:
    case ATTN_BF16: memcpy(p, &half, sizeof half); break;
    case ATTN_F32: memcpy(p, &single, sizeof single); break;
    default: memcpy(p, &x, sizeof x); break;
    }
}

double round_dtype(double x, attn_dtype dtype)
{
    char memory[sizeof(double)];
    store_dtype(memory, x, dtype);
    return load_dtype(memory, dtype);
}

double unit_roundoff(const struct attn_kernels *isa)
{
    return isa->real_size == sizeof(float) ? FLT_EPSILON / 2 : DBL_EPSILON / 2;
}

double least_normal(const struct attn_kernels *isa)
{
    return isa->real_size == sizeof(float) ? FLT_MIN : DBL_MIN;
}

wide ulp(const struct attn_kernels *isa, wide x)
{
    const wide size = fabsl(x), least = least_normal(isa);
    return ldexpl(2 * unit_roundoff(isa), ilogbl(size > least ? size : least));
}

bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}
