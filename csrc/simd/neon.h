/* NEON of 64-bit ARM: 4 floats or 2 doubles. generic.h says what each operation means. */
#if REAL_BITS == 32

#define LANES 4
typedef float32x4_t vec;
typedef uint32x4_t vmask;

static inline vec v_zero(void) { return vdupq_n_f32(0); }
static inline vec v_set1(real x) { return vdupq_n_f32(x); }
static inline vec v_load(const real *p) { return vld1q_f32(p); }
static inline void v_store(real *p, vec x) { vst1q_f32(p, x); }
static inline vec v_load_part(const real *p, int n)
{
    vec x = v_zero();
    if (n > 0)
        x = vld1q_lane_f32(p, x, 0);
    if (n > 1)
        x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        x = vld1q_lane_f32(p + 2, x, 2);
    if (n > 3)
        x = vld1q_lane_f32(p + 3, x, 3);
    return x;
}
static inline void v_store_part(real *p, vec x, int n)
{
    if (n > 0)
        vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
    if (n > 3)
        vst1q_lane_f32(p + 3, x, 3);
}

static inline vec v_add(vec a, vec b) { return vaddq_f32(a, b); }
static inline vec v_sub(vec a, vec b) { return vsubq_f32(a, b); }
static inline vec v_mul(vec a, vec b) { return vmulq_f32(a, b); }
static inline vec v_div(vec a, vec b) { return vdivq_f32(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
static inline vec v_max(vec a, vec b) { return vmaxq_f32(a, b); }
static inline vec v_min(vec a, vec b) { return vminq_f32(a, b); }
static inline vec v_abs(vec a) { return vabsq_f32(a); }
static inline real v_sum(vec a) { return vaddvq_f32(a); }

static inline vmask v_lt(vec a, vec b) { return vcltq_f32(a, b); }
static inline vmask v_le(vec a, vec b) { return vcleq_f32(a, b); }
static inline vmask v_eq(vec a, vec b) { return vceqq_f32(a, b); }
static inline vmask v_and(vmask a, vmask b) { return vandq_u32(a, b); }
static inline bool v_all(vmask a) { return vminvq_u32(a) != 0; }
static inline vec v_select(vmask m, vec yes, vec no) { return vbslq_f32(m, yes, no); }

static inline vec v_fraction(vec x, vec *whole)
{
    x = vminq_f32(vdupq_n_f32(127), vmaxq_f32(vdupq_n_f32(-127), x));
    *whole = vrndnq_f32(x);
    return vsubq_f32(x, *whole);
}
static inline vec v_ldexp(vec x, vec whole)
{
    const int32x4_t biased = vaddq_s32(vcvtq_s32_f32(whole), vdupq_n_s32(127));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(biased, 23)));
}

static inline void v_transpose(vec r[LANES])
{
    const float64x2_t ab = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t AB = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t cd = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t CD = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(ab, cd));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(AB, CD));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(ab, cd));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(AB, CD));
}

static inline vec v_from_bool(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}
static inline vec v_from_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void v_to_f16(void *p, vec x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
static inline vec v_from_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline void v_to_bf16(void *p, vec x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t near = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    const uint32x4_t number = vceqq_f32(x, x);
    vst1_u16(p, vshrn_n_u32(vbslq_u32(number, near, quiet), 16));
}

#else

#define LANES 2
typedef float64x2_t vec;
typedef uint64x2_t vmask;

static inline vec v_zero(void) { return vdupq_n_f64(0); }
static inline vec v_set1(real x) { return vdupq_n_f64(x); }
static inline vec v_load(const real *p) { return vld1q_f64(p); }
static inline void v_store(real *p, vec x) { vst1q_f64(p, x); }
static inline vec v_load_part(const real *p, int n)
{
    if (n > 1)
        return v_load(p);
    return n > 0 ? vld1q_lane_f64(p, v_zero(), 0) : v_zero();
}
static inline void v_store_part(real *p, vec x, int n)
{
    if (n > 1)
        v_store(p, x);
    else if (n > 0)
        vst1q_lane_f64(p, x, 0);
}

static inline vec v_add(vec a, vec b) { return vaddq_f64(a, b); }
static inline vec v_sub(vec a, vec b) { return vsubq_f64(a, b); }
static inline vec v_mul(vec a, vec b) { return vmulq_f64(a, b); }
static inline vec v_div(vec a, vec b) { return vdivq_f64(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return vfmaq_f64(c, a, b); }
static inline vec v_max(vec a, vec b) { return vmaxq_f64(a, b); }
static inline vec v_min(vec a, vec b) { return vminq_f64(a, b); }
static inline vec v_abs(vec a) { return vabsq_f64(a); }
static inline real v_sum(vec a) { return vaddvq_f64(a); }

static inline vmask v_lt(vec a, vec b) { return vcltq_f64(a, b); }
static inline vmask v_le(vec a, vec b) { return vcleq_f64(a, b); }
static inline vmask v_eq(vec a, vec b) { return vceqq_f64(a, b); }
static inline vmask v_and(vmask a, vmask b) { return vandq_u64(a, b); }
static inline bool v_all(vmask a) { return vminvq_u32(vreinterpretq_u32_u64(a)) != 0; }
static inline vec v_select(vmask m, vec yes, vec no) { return vbslq_f64(m, yes, no); }

static inline vec v_fraction(vec x, vec *whole)
{
    x = vminq_f64(vdupq_n_f64(1023), vmaxq_f64(vdupq_n_f64(-1023), x));
    *whole = vrndnq_f64(x);
    return vsubq_f64(x, *whole);
}
static inline vec v_ldexp(vec x, vec whole)
{
    const int64x2_t biased = vaddq_s64(vcvtq_s64_f64(whole), vdupq_n_s64(1023));
    return vmulq_f64(x, vreinterpretq_f64_s64(vshlq_n_s64(biased, 52)));
}

static inline void v_transpose(vec r[LANES])
{
    const float64x2_t first = vtrn1q_f64(r[0], r[1]);
    r[1] = vtrn2q_f64(r[0], r[1]);
    r[0] = first;
}

static inline vec v_from_bool(const void *p)
{
    const unsigned char *two = p;
    return (vec){two[0], two[1]};
}

#endif

/* Thirty-two registers hold 6 × 4 sums, 4 of B and some of A. */
#define BLOCK_VECTORS 4
static const int block_rows[] = {0, 12, 12, 8, 6};
