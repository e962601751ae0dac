/* AVX-512 (F, BW, DQ, VL): 16 floats or 8 doubles. generic.h says what each operation means. */
#if REAL_BITS == 32

#define LANES 16
typedef __m512 vec;
typedef __mmask16 vmask;

static inline vec v_zero(void) { return _mm512_setzero_ps(); }
static inline vec v_set1(real x) { return _mm512_set1_ps(x); }
static inline vec v_load(const real *p) { return _mm512_loadu_ps(p); }
static inline void v_store(real *p, vec x) { _mm512_storeu_ps(p, x); }
static inline vmask first_lanes(int n) { return (vmask)((1u << n) - 1); }
static inline vec v_load_part(const real *p, int n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
static inline void v_store_part(real *p, vec x, int n)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}

static inline vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec v_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec v_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec v_abs(vec a) { return _mm512_abs_ps(a); }
static inline real v_sum(vec a) { return _mm512_reduce_add_ps(a); }

static inline vmask v_lt(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vmask v_le(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vmask v_eq(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vec v_select(vmask m, vec yes, vec no) { return _mm512_mask_blend_ps(m, no, yes); }

/* An infinite x has fraction 0, so that v_ldexp gives 0 or infinity without a special case. */
static inline vec v_fraction(vec x, vec *whole)
{
    const vec fraction = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);
    *whole = _mm512_sub_ps(x, fraction);
    return fraction;
}
static inline vec v_ldexp(vec x, vec whole) { return _mm512_scalef_ps(x, whole); }

static inline void v_transpose(vec r[LANES])
{
    __m512d t[16];
    for (int i = 0; i < 16; i += 4) { /* 4 × 4 blocks inside each 128-bit lane */
        const __m512 ab = _mm512_unpacklo_ps(r[i], r[i + 1]);
        const __m512 AB = _mm512_unpackhi_ps(r[i], r[i + 1]);
        const __m512 cd = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
        const __m512 CD = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        t[i + 1] = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        t[i + 2] = _mm512_unpacklo_pd(_mm512_castps_pd(AB), _mm512_castps_pd(CD));
        t[i + 3] = _mm512_unpackhi_pd(_mm512_castps_pd(AB), _mm512_castps_pd(CD));
    }
    for (int i = 0; i < 4; i++) { /* then the 4 × 4 arrangement of those blocks */
        const __m512d even01 = _mm512_shuffle_f64x2(t[i], t[4 + i], 0x88);
        const __m512d odd01 = _mm512_shuffle_f64x2(t[i], t[4 + i], 0xdd);
        const __m512d even23 = _mm512_shuffle_f64x2(t[8 + i], t[12 + i], 0x88);
        const __m512d odd23 = _mm512_shuffle_f64x2(t[8 + i], t[12 + i], 0xdd);
        r[i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(even01, even23, 0x88));
        r[4 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(odd01, odd23, 0x88));
        r[8 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(even01, even23, 0xdd));
        r[12 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(odd01, odd23, 0xdd));
    }
}

static inline vec v_from_bool(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vec v_from_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void v_to_f16(void *p, vec x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec v_from_bf16(const void *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void v_to_bf16(void *p, vec x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
                                   _mm512_set1_epi32(0x400000));
    const __m512i high = _mm512_srli_epi32(rounded, 16);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(high));
}

#else

#define LANES 8
typedef __m512d vec;
typedef __mmask8 vmask;

static inline vec v_zero(void) { return _mm512_setzero_pd(); }
static inline vec v_set1(real x) { return _mm512_set1_pd(x); }
static inline vec v_load(const real *p) { return _mm512_loadu_pd(p); }
static inline void v_store(real *p, vec x) { _mm512_storeu_pd(p, x); }
static inline vmask first_lanes(int n) { return (vmask)((1u << n) - 1); }
static inline vec v_load_part(const real *p, int n)
{
    return _mm512_maskz_loadu_pd(first_lanes(n), p);
}
static inline void v_store_part(real *p, vec x, int n)
{
    _mm512_mask_storeu_pd(p, first_lanes(n), x);
}

static inline vec v_add(vec a, vec b) { return _mm512_add_pd(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm512_sub_pd(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm512_mul_pd(a, b); }
static inline vec v_div(vec a, vec b) { return _mm512_div_pd(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }
static inline vec v_max(vec a, vec b) { return _mm512_max_pd(a, b); }
static inline vec v_min(vec a, vec b) { return _mm512_min_pd(a, b); }
static inline vec v_abs(vec a) { return _mm512_abs_pd(a); }
static inline real v_sum(vec a) { return _mm512_reduce_add_pd(a); }

static inline vmask v_lt(vec a, vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
static inline vmask v_le(vec a, vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }
static inline vmask v_eq(vec a, vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
static inline vec v_select(vmask m, vec yes, vec no) { return _mm512_mask_blend_pd(m, no, yes); }

static inline vec v_fraction(vec x, vec *whole)
{
    const vec fraction = _mm512_reduce_pd(x, _MM_FROUND_TO_NEAREST_INT);
    *whole = _mm512_sub_pd(x, fraction);
    return fraction;
}
static inline vec v_ldexp(vec x, vec whole) { return _mm512_scalef_pd(x, whole); }

static inline void v_transpose(vec r[LANES])
{
    __m512d t[8];
    for (int i = 0; i < 8; i += 2) { /* 2 × 2 blocks inside each 128-bit lane */
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; i++) { /* then the 4 × 4 arrangement of those blocks */
        const __m512d even01 = _mm512_shuffle_f64x2(t[i], t[2 + i], 0x88);
        const __m512d odd01 = _mm512_shuffle_f64x2(t[i], t[2 + i], 0xdd);
        const __m512d even23 = _mm512_shuffle_f64x2(t[4 + i], t[6 + i], 0x88);
        const __m512d odd23 = _mm512_shuffle_f64x2(t[4 + i], t[6 + i], 0xdd);
        r[i] = _mm512_shuffle_f64x2(even01, even23, 0x88);
        r[2 + i] = _mm512_shuffle_f64x2(odd01, odd23, 0x88);
        r[4 + i] = _mm512_shuffle_f64x2(even01, even23, 0xdd);
        r[6 + i] = _mm512_shuffle_f64x2(odd01, odd23, 0xdd);
    }
}

static inline vec v_from_bool(const void *p)
{
    return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

#endif

static inline vmask v_and(vmask a, vmask b) { return (vmask)(a & b); }
static inline bool v_all(vmask a) { return a == (vmask)((1u << LANES) - 1); }

#define BLOCK_VECTORS 4
static const int block_rows[] = {0, 12, 12, 8, 6};
