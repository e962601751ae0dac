/* AVX2 with FMA and F16C: 8 floats or 4 doubles. generic.h says what each operation means. */

/* A mask of the first n of 8 or 4 lanes is read from here, n elements before the zeros. */
static const int32_t lane_mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

#if REAL_BITS == 32

#define LANES 8
typedef __m256 vec;
typedef __m256 vmask;

static inline vec v_zero(void) { return _mm256_setzero_ps(); }
static inline vec v_set1(real x) { return _mm256_set1_ps(x); }
static inline vec v_load(const real *p) { return _mm256_loadu_ps(p); }
static inline void v_store(real *p, vec x) { _mm256_storeu_ps(p, x); }
static inline __m256i first_lanes(int n)
{
    return _mm256_loadu_si256((const __m256i *)(lane_mask + 8 - n));
}
static inline vec v_load_part(const real *p, int n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}
static inline void v_store_part(real *p, vec x, int n)
{
    _mm256_maskstore_ps(p, first_lanes(n), x);
}

static inline vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec v_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec v_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline vec v_abs(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline real v_sum(vec a)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline vmask v_lt(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vmask v_le(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vmask v_eq(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vmask v_and(vmask a, vmask b) { return _mm256_and_ps(a, b); }
static inline bool v_all(vmask a) { return _mm256_movemask_ps(a) == 0xff; }
static inline vec v_select(vmask m, vec yes, vec no) { return _mm256_blendv_ps(no, yes, m); }

static inline vec v_fraction(vec x, vec *whole)
{
    x = _mm256_min_ps(_mm256_set1_ps(127), _mm256_max_ps(_mm256_set1_ps(-127), x));
    *whole = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_sub_ps(x, *whole);
}
static inline vec v_ldexp(vec x, vec whole)
{
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
}

static inline void v_transpose(vec r[LANES])
{
    __m256 t[8];
    for (int i = 0; i < 8; i += 4) { /* 4 × 4 blocks inside each 128-bit lane */
        const __m256 ab = _mm256_unpacklo_ps(r[i], r[i + 1]);
        const __m256 AB = _mm256_unpackhi_ps(r[i], r[i + 1]);
        const __m256 cd = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        const __m256 CD = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(ab, cd, 0x44);
        t[i + 1] = _mm256_shuffle_ps(ab, cd, 0xee);
        t[i + 2] = _mm256_shuffle_ps(AB, CD, 0x44);
        t[i + 3] = _mm256_shuffle_ps(AB, CD, 0xee);
    }
    for (int i = 0; i < 4; i++) { /* then the 2 × 2 arrangement of those blocks */
        r[i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x20);
        r[4 + i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x31);
    }
}

static inline vec v_from_bool(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline vec v_from_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline void v_to_f16(void *p, vec x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec v_from_bf16(const void *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline void v_to_bf16(void *p, vec x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(near, quiet, nan), 16);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(high),
                                                    _mm256_extracti128_si256(high, 1)));
}

#else

#define LANES 4
typedef __m256d vec;
typedef __m256d vmask;

static inline vec v_zero(void) { return _mm256_setzero_pd(); }
static inline vec v_set1(real x) { return _mm256_set1_pd(x); }
static inline vec v_load(const real *p) { return _mm256_loadu_pd(p); }
static inline void v_store(real *p, vec x) { _mm256_storeu_pd(p, x); }
static inline __m256i first_lanes(int n)
{
    return _mm256_loadu_si256((const __m256i *)(lane_mask + 8 - 2 * n));
}
static inline vec v_load_part(const real *p, int n)
{
    return _mm256_maskload_pd(p, first_lanes(n));
}
static inline void v_store_part(real *p, vec x, int n)
{
    _mm256_maskstore_pd(p, first_lanes(n), x);
}

static inline vec v_add(vec a, vec b) { return _mm256_add_pd(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm256_sub_pd(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm256_mul_pd(a, b); }
static inline vec v_div(vec a, vec b) { return _mm256_div_pd(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }
static inline vec v_max(vec a, vec b) { return _mm256_max_pd(a, b); }
static inline vec v_min(vec a, vec b) { return _mm256_min_pd(a, b); }
static inline vec v_abs(vec a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
static inline real v_sum(vec a)
{
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline vmask v_lt(vec a, vec b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
static inline vmask v_le(vec a, vec b) { return _mm256_cmp_pd(a, b, _CMP_LE_OQ); }
static inline vmask v_eq(vec a, vec b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
static inline vmask v_and(vmask a, vmask b) { return _mm256_and_pd(a, b); }
static inline bool v_all(vmask a) { return _mm256_movemask_pd(a) == 0xf; }
static inline vec v_select(vmask m, vec yes, vec no) { return _mm256_blendv_pd(no, yes, m); }

static inline vec v_fraction(vec x, vec *whole)
{
    x = _mm256_min_pd(_mm256_set1_pd(1023), _mm256_max_pd(_mm256_set1_pd(-1023), x));
    *whole = _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_sub_pd(x, *whole);
}
static inline vec v_ldexp(vec x, vec whole)
{
    const __m256i biased = _mm256_cvtepi32_epi64(
        _mm_add_epi32(_mm256_cvtpd_epi32(whole), _mm_set1_epi32(1023)));
    return _mm256_mul_pd(x, _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52)));
}

static inline void v_transpose(vec r[LANES])
{
    const __m256d ab = _mm256_unpacklo_pd(r[0], r[1]), AB = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d cd = _mm256_unpacklo_pd(r[2], r[3]), CD = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(ab, cd, 0x20);
    r[1] = _mm256_permute2f128_pd(AB, CD, 0x20);
    r[2] = _mm256_permute2f128_pd(ab, cd, 0x31);
    r[3] = _mm256_permute2f128_pd(AB, CD, 0x31);
}

static inline vec v_from_bool(const void *p)
{
    int four;
    memcpy(&four, p, sizeof four);
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
}

#endif

/* Sixteen registers hold 6 × 2 sums, 2 of B and 1 of A; a tile of 4 vectors takes two panels. */
#define BLOCK_VECTORS 2
static const int block_rows[] = {0, 12, 6};
