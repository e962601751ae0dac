/* Vectors of width 1: plain C, for every machine, and the text against which the others are read.
 *
 * Every header of this folder defines the same names for `real` (float or double, by REAL_BITS):
 * vec is LANES reals, vmask one condition per lane. "part" operations touch only the first n
 * elements in memory; lanes past n read as zero. */
#include <string.h>

#define LANES 1
/* The product's register tile: at most so many vectors, and so many rows for 1, 2, 3, 4 of them. */
#define BLOCK_VECTORS 4
static const int block_rows[] = {0, 4, 4, 4, 4};

typedef real vec;
#if REAL_BITS == 32
typedef uint32_t uint_real;
#else
typedef uint64_t uint_real;
#endif
typedef bool vmask;

static inline vec v_zero(void) { return 0; }
static inline vec v_set1(real x) { return x; }
static inline vec v_load(const real *p)
{
    vec x;
    memcpy(&x, p, sizeof x); /* p need not be aligned */
    return x;
}
static inline void v_store(real *p, vec x) { memcpy(p, &x, sizeof x); }
static inline vec v_load_part(const real *p, int n) { return n > 0 ? v_load(p) : 0; }
static inline void v_store_part(real *p, vec x, int n)
{
    if (n > 0)
        v_store(p, x);
}

static inline vec v_add(vec a, vec b) { return a + b; }
static inline vec v_sub(vec a, vec b) { return a - b; }
static inline vec v_mul(vec a, vec b) { return a * b; }
static inline vec v_div(vec a, vec b) { return a / b; }
/* a * b + c; rounded once where the machine can. */
static inline vec v_fma(vec a, vec b, vec c) { return a * b + c; }
/* A NaN in b comes through; what a NaN in a gives is not said. */
static inline vec v_max(vec a, vec b) { return a > b ? a : b; }
static inline vec v_min(vec a, vec b) { return a < b ? a : b; }
static inline vec v_abs(vec a) { return a < 0 ? -a : a; }
static inline real v_sum(vec a) { return a; } /* over the lanes */

static inline vmask v_lt(vec a, vec b) { return a < b; }
static inline vmask v_le(vec a, vec b) { return a <= b; }
static inline vmask v_eq(vec a, vec b) { return a == b; }
static inline vmask v_and(vmask a, vmask b) { return a && b; }
static inline bool v_all(vmask a) { return a; }
static inline vec v_select(vmask m, vec yes, vec no) { return m ? yes : no; }

/* x = whole + fraction, |fraction| <= 1/2. NaN stays in the fraction. Below the least normal power
 * of two x may be taken for the next lower one, above the largest for the largest. */
static inline vec v_fraction(vec x, vec *whole)
{
    const vec least = REAL_BITS == 32 ? -127 : -1023, largest = REAL_BITS == 32 ? 127 : 1023;
    x = v_min(largest, v_max(least, x));
    const vec shift = REAL_BITS == 32 ? 0x1.8p23f : 0x1.8p52; /* leaves no bit behind the point */
    *whole = (x + shift) - shift;
    return x - *whole;
}
/* x · 2^whole for the whole of v_fraction; 0 where that is less than the least normal exponent. */
static inline vec v_ldexp(vec x, vec whole)
{
    const int64_t exponent = whole == whole ? (int64_t)whole : 0;
    const uint_real bits = (uint_real)(exponent + (REAL_BITS == 32 ? 127 : 1023))
                           << (REAL_BITS == 32 ? 23 : 52);
    vec power;
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* Rows r[i] become columns: lane j of r[i] goes to lane i of r[j]. */
static inline void v_transpose(vec r[LANES]) { (void)r; }

/* 0 or another number for each byte of bool. */
static inline vec v_from_bool(const void *p) { return *(const unsigned char *)p; }

#if REAL_BITS == 32
static inline vec v_from_f16(const void *p) { return half_load(p); }
static inline vec v_from_bf16(const void *p) { return bfloat_load(p); }
static inline void v_to_f16(void *p, vec x) { half_store(p, x); }
static inline void v_to_bf16(void *p, vec x) { bfloat_store(p, x); }
#endif
