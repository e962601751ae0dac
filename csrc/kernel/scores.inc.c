/* What happens to scores between the product and the softmax: softcap, bias, masks. A masked score
 * is selected away, never summed away, so that a NaN in a masked key can't come through. */

static void softcap(void *scores, ptrdiff_t keys, int vectors, double cap)
{
    const vec height = v_set1((real)cap);
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int j = 0; j < vectors; j++) {
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            v_store(s, v_mul(height, v_tanh(v_load(s))));
        }
}

static void add_bias(void *scores, const void *bias, ptrdiff_t keys, int vectors)
{
    const vec minus_inf = v_set1(-INFINITY);
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int j = 0; j < vectors; j++) {
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            const vec b = v_load((const real *)bias + key * TILE_LANES + j * LANES);
            v_store(s, v_select(v_eq(b, minus_inf), minus_inf, v_add(v_load(s), b)));
        }
}

static void mask(void *scores, const void *keep, ptrdiff_t keys, int vectors)
{
    const vec minus_inf = v_set1(-INFINITY);
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int j = 0; j < vectors; j++) {
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            const vec k = v_load((const real *)keep + key * TILE_LANES + j * LANES);
            v_store(s, v_select(v_eq(k, v_zero()), minus_inf, v_load(s)));
        }
}

static enum mask_effect mask_effect(const void *bias, ptrdiff_t keys, int count, bool keep)
{
    const vec zero = v_zero(), one = v_set1(1), hiding = v_set1(keep ? 0 : -INFINITY);
    bool shows = false, changes = false;
    for (int lane = 0; lane < count && !(shows && changes); lane += LANES) {
        const real *b = (const real *)bias + lane;
        vec shown = zero, changed = zero; /* 1 in lanes with such a key */
        real rows[LANES];
        for (int i = 0; i < LANES; i++)
            rows[i] = lane + i < count;
        const vec valid = v_load(rows);
        for (ptrdiff_t key = 0; key < keys; key++, b += TILE_LANES) {
            const vec x = v_load(b), changed_by_0 = keep ? one : changed;
            shown = v_select(v_eq(x, hiding), shown, one);
            changed = v_select(v_eq(x, zero), changed_by_0, keep ? changed : one);
        }
        shows = shows || !v_all(v_eq(v_mul(shown, valid), zero));
        changes = changes || !v_all(v_eq(v_mul(changed, valid), zero));
    }
    return !shows ? MASK_HIDES : changes ? MASK_MIXES : MASK_PASSES;
}

static void spread(void *bias, ptrdiff_t keys, int vectors)
{
    for (ptrdiff_t key = 0; key < keys; key++) {
        real *b = (real *)bias + key * TILE_LANES;
        const vec same = v_set1(*b);
        for (int j = 0; j < vectors; j++)
            v_store(b + j * LANES, same);
    }
}

static void alibi(void *scores, ptrdiff_t keys, int vectors, const void *distance,
                  const void *slope)
{
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int j = 0; j < vectors; j++) {
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            const vec far = v_abs(
                v_sub(v_load((const real *)distance + j * LANES), v_set1((real)key)));
            const vec slant = v_sub(v_zero(), v_load((const real *)slope + j * LANES));
            v_store(s, v_fma(slant, far, v_load(s)));
        }
}

static void clip(void *scores, ptrdiff_t keys, int vectors, const void *first, const void *end)
{
    const vec minus_inf = v_set1(-INFINITY);
    for (ptrdiff_t key = 0; key < keys; key++)
        for (int j = 0; j < vectors; j++) {
            real *s = (real *)scores + key * TILE_LANES + j * LANES;
            const vec here = v_set1((real)key);
            const vmask in = v_and(v_le(v_load((const real *)first + j * LANES), here),
                                   v_lt(here, v_load((const real *)end + j * LANES)));
            v_store(s, v_select(in, v_load(s), minus_inf));
        }
}
