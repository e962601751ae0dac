/* The softmax of a tile of scores, lane by lane: no sum ever crosses lanes.
 *
 * e^(s - max) is taken as 2^((s - max) · log2 e). The difference comes first: in one fused step,
 * s · log2 e - max · log2 e, the rounding of the second term grows with max, so that a lane whose max
 * did not move would owe a factor other than 1 at every step, and scores as masks have them, of 1e10
 * and more or the lowest number, would leave the range of 2^x. */

/* max, and 0 for a lane that has seen no key: its scores of -inf then stay -inf, weight 0. */
static inline vec exponent_shift(vec max)
{
    return v_select(v_eq(max, v_set1(-INFINITY)), v_zero(), max);
}

static inline vec exp_shifted(vec score, vec shift)
{
    const vec log2_e = v_set1((real)1.4426950408889634074);
    return v_exp2(v_mul(v_sub(score, shift), log2_e));
}

static void softmax_step(void *scores, ptrdiff_t keys, int vectors, void *max_lanes,
                         void *sum_lanes, void *owed_lanes)
{
    for (int j = 0; j < vectors; j++) {
        real *s = (real *)scores + j * LANES;
        real *max_at = (real *)max_lanes + j * LANES, *sum_at = (real *)sum_lanes + j * LANES;

        /* Two chains each, since a chain's step waits for the one before. */
        const vec old_max = v_load(max_at);
        vec max = old_max, max2 = old_max;
        ptrdiff_t key = 0;
        for (; key + 2 <= keys; key += 2) {
            max = v_max(max, v_load(s + key * TILE_LANES));
            max2 = v_max(max2, v_load(s + (key + 1) * TILE_LANES));
        }
        if (key < keys)
            max = v_max(max, v_load(s + key * TILE_LANES));
        max = v_max(max, max2);

        const vec shift = exponent_shift(max);
        vec sum = v_zero(), sum2 = v_zero();
        for (key = 0; key + 2 <= keys; key += 2) {
            real *s0 = s + key * TILE_LANES, *s1 = s0 + TILE_LANES;
            const vec weight = exp_shifted(v_load(s0), shift);
            const vec weight2 = exp_shifted(v_load(s1), shift);
            v_store(s0, weight);
            v_store(s1, weight2);
            sum = v_add(sum, weight);
            sum2 = v_add(sum2, weight2);
        }
        if (key < keys) {
            const vec weight = exp_shifted(v_load(s + key * TILE_LANES), shift);
            v_store(s + key * TILE_LANES, weight);
            sum = v_add(sum, weight);
        }

        const vec owed = exp_shifted(old_max, shift);
        v_store((real *)owed_lanes + j * LANES, owed);
        v_store(sum_at, v_fma(v_load(sum_at), owed, v_add(sum, sum2)));
        v_store(max_at, max);
    }
}

static inline vec final_weight(vec score, vec shift, vec factor)
{
    const vec weight = v_mul(exp_shifted(score, shift), factor);
    return v_select(v_eq(score, v_set1(-INFINITY)), v_zero(), weight);
}

static void softmax_end(void *scores, ptrdiff_t keys, int vectors, const void *max_lanes,
                        const void *factor_lanes)
{
    for (int j = 0; j < vectors; j++) {
        const vec shift = exponent_shift(v_load((const real *)max_lanes + j * LANES));
        const vec factor = v_load((const real *)factor_lanes + j * LANES);
        real *s = (real *)scores + j * LANES;
        for (ptrdiff_t key = 0; key < keys; key++, s += TILE_LANES)
            v_store(s, final_weight(v_load(s), shift, factor));
    }
}

static void softmax_rows(const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols,
                         const void *max_lanes, const void *factor_lanes)
{
    for (int lane = 0; lane < rows->count; lane++) {
        const vec shift = exponent_shift(v_set1(((const real *)max_lanes)[lane]));
        const vec factor = v_set1(((const real *)factor_lanes)[lane]);
        real *s = (real *)(void *)rows->row[lane] + offset;
        ptrdiff_t c = 0;
        for (; c + LANES <= cols; c += LANES)
            v_store(s + c, final_weight(v_load(s + c), shift, factor));
        const int rest = (int)(cols - c);
        if (rest > 0)
            v_store_part(s + c, final_weight(v_load_part(s + c, rest), shift, factor), rest);
    }
}

static void add_lanes(void *sums, const void *scores, ptrdiff_t keys, int count)
{
    for (ptrdiff_t key = 0; key < keys; key++) {
        real *sum_at = (real *)sums + key * TILE_LANES;
        vec sum = v_load(sum_at);
        for (int lane = 0; lane < count; lane += LANES)
            sum = v_add(sum, v_load_part((const real *)scores + key * TILE_LANES + lane,
                                         at_most_lanes(count - lane)));
        v_store(sum_at, sum);
    }
}

static void sum_lanes(void *sums, ptrdiff_t keys)
{
    for (ptrdiff_t key = 0; key < keys; key++) {
        real *sum = (real *)sums + key * TILE_LANES;
        for (int lane = 1; lane < LANES; lane++)
            sum[0] += sum[lane];
    }
}
