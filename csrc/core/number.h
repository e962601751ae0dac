/* number.h: integers that sizes and positions are made of, here always of 64 bits. */
#ifndef ATTN_NUMBER_H
#define ATTN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(ptrdiff_t) == sizeof(int64_t), "attnmod needs a 64-bit machine");

static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

/* n / step rounded up, and the multiple of step that this is. */
static inline ptrdiff_t divide_up(ptrdiff_t n, ptrdiff_t step) { return (n + step - 1) / step; }
static inline ptrdiff_t round_up(ptrdiff_t n, ptrdiff_t step) { return divide_up(n, step) * step; }

/* a * b, a + b into *result; false when it does not fit. */
static inline bool product_fits(ptrdiff_t a, ptrdiff_t b, ptrdiff_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}
static inline bool sum_fits(ptrdiff_t a, ptrdiff_t b, ptrdiff_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

/* Bytes from an array's start to element `index` of its first `axes` axes, counted in C order. */
static inline ptrdiff_t element_offset(const ptrdiff_t *dim, const ptrdiff_t *stride, int axes,
                                       ptrdiff_t index)
{
    ptrdiff_t offset = 0;
    for (int axis = axes - 1; axis >= 0; axis--) {
        offset += index % dim[axis] * stride[axis];
        index /= dim[axis];
    }
    return offset;
}

/* A sum that is only ever compared with indices of keys: what leaves 64 bits may stay at their end. */
static inline int64_t saturated_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

#endif
