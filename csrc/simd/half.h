/* Sixteen-bit floats, one at a time: IEEE half precision and bfloat16. Rounding is to nearest even,
 * NaN stays NaN, memory need not be aligned. */
#ifndef ATTN_HALF_H
#define ATTN_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t half_to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_load(const void *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t rest = half & 0x7fff;
    if (rest >= 0x7c00) /* inf and NaN */
        return half_from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    /* The exponent's bias goes from 15 to 127 by a product, which makes subnormals right too. */
    return half_from_bits(sign | half_to_bits(half_from_bits(rest << 13) * 0x1p112f));
}

static inline void half_store(void *p, float x)
{
    const uint32_t bits = half_to_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t half;
    if (rest > 0x7f800000)
        half = 0x7e00;
    else if (rest >= 0x477ff000) /* rounds to 65536 or more */
        half = 0x7c00;
    else if (rest < 0x38800000) /* subnormal: 0.5's last bit weighs 2^-24, so the sum rounds */
        half = half_to_bits(half_from_bits(rest) + 0.5f) - 0x3f000000;
    else
        half = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    const uint16_t result = (uint16_t)(sign | half);
    memcpy(p, &result, sizeof result);
}

static inline float bfloat_load(const void *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half_from_bits((uint32_t)half << 16);
}

static inline void bfloat_store(void *p, float x)
{
    const uint32_t bits = half_to_bits(x);
    const uint32_t rounded = x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    const uint16_t result = (uint16_t)(rounded >> 16);
    memcpy(p, &result, sizeof result);
}

#endif
