/* The product of a tile: C[i, lane] = Σ_k A[i, k] · B[k, lane], for keys · queries (scores) and for
 * values · weights (output) alike. A is read in place, element by element, each broadcast over the
 * lanes, so neither keys nor values are ever packed, whatever their strides. */

/* One register tile of rows × vectors: C = keep · C + A · B, or factor · A · B without keep. rows and
 * vectors are constants where this is inlined, so that sum and its loops dissolve into registers. (By
 * value, factor would take two of AVX2's sixteen from them.) */
static inline __attribute__((always_inline)) void
product_block(real *restrict c, const real *a, ptrdiff_t a_row, ptrdiff_t a_col,
              const real *restrict b, ptrdiff_t depth, const int rows, const int vectors,
              const real *factor, const real *keep)
{
    vec sum[12][BLOCK_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = v_zero();

    for (ptrdiff_t k = 0; k < depth; k++) {
        vec column[BLOCK_VECTORS];
        for (int j = 0; j < vectors; j++)
            column[j] = v_load(b + j * LANES);
        for (int i = 0; i < rows; i++) {
            const vec element = v_set1(a[i * a_row]);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = v_fma(element, column[j], sum[i][j]);
        }
        a += a_col;
        b += TILE_LANES;
    }

    const vec times = keep ? v_zero() : v_set1(*factor);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++) {
            real *to = c + i * TILE_LANES + j * LANES;
            v_store(to, keep ? v_fma(v_load(keep + j * LANES), v_load(to), sum[i][j])
                             : v_mul(sum[i][j], times));
        }
}

/* All rows of one panel of vectors: register tiles of `block` rows, then smaller ones. The two
 * layouts that matter get their own copy, in which one stride of A is a constant. */
static inline __attribute__((always_inline)) void
product_panel(real *c, const real *a, ptrdiff_t a_row, ptrdiff_t a_col, const real *b,
              ptrdiff_t rows, ptrdiff_t depth, const int block, const int vectors,
              const real *factor, const real *keep)
{
    ptrdiff_t i = 0;
    if (a_col == 1)
        for (; i + block <= rows; i += block)
            product_block(c + i * TILE_LANES, a + i * a_row, a_row, 1, b, depth, block, vectors,
                          factor, keep);
    else if (a_row == 1)
        for (; i + block <= rows; i += block)
            product_block(c + i * TILE_LANES, a + i, 1, a_col, b, depth, block, vectors, factor,
                          keep);
    for (; i + 4 <= rows; i += 4)
        product_block(c + i * TILE_LANES, a + i * a_row, a_row, a_col, b, depth, 4, vectors, factor,
                      keep);
    for (; i + 2 <= rows; i += 2)
        product_block(c + i * TILE_LANES, a + i * a_row, a_row, a_col, b, depth, 2, vectors, factor,
                      keep);
    if (i < rows)
        product_block(c + i * TILE_LANES, a + i * a_row, a_row, a_col, b, depth, 1, vectors, factor,
                      keep);
}

static void product_panels(real *c, const real *a, ptrdiff_t a_row, ptrdiff_t a_col, const real *b,
                           ptrdiff_t rows, ptrdiff_t depth, int vectors, const real *factor,
                           const real *keep)
{
    for (; vectors > 0; vectors -= BLOCK_VECTORS) {
        if (vectors == 1)
            product_panel(c, a, a_row, a_col, b, rows, depth, block_rows[1], 1, factor, keep);
        else if (vectors == 2 || BLOCK_VECTORS == 2)
            product_panel(c, a, a_row, a_col, b, rows, depth, block_rows[2], 2, factor, keep);
#if BLOCK_VECTORS == 4
        else if (vectors == 3)
            product_panel(c, a, a_row, a_col, b, rows, depth, block_rows[3], 3, factor, keep);
        else
            product_panel(c, a, a_row, a_col, b, rows, depth, block_rows[4], 4, factor, keep);
#endif
        c += BLOCK_VECTORS * LANES;
        b += BLOCK_VECTORS * LANES;
        keep = keep ? keep + BLOCK_VECTORS * LANES : NULL;
    }
}

static void product(void *c, const void *a, ptrdiff_t a_row, ptrdiff_t a_col, const void *b,
                    ptrdiff_t rows, ptrdiff_t depth, int vectors, double factor)
{
    const real f = (real)factor;
    product_panels(c, a, a_row, a_col, b, rows, depth, vectors, &f, NULL);
}

static void product_add(void *c, const void *a, ptrdiff_t a_row, ptrdiff_t a_col, const void *b,
                        ptrdiff_t rows, ptrdiff_t depth, int vectors, const void *keep)
{
    product_panels(c, a, a_row, a_col, b, rows, depth, vectors, NULL, keep);
}

static void product_seen(void *c_tile, const void *a_matrix, ptrdiff_t a_row, ptrdiff_t a_col,
                         const void *b_tile, ptrdiff_t rows, ptrdiff_t depth, int vectors,
                         const void *keep, const void *seen_tile)
{
    const vec minus_inf = v_set1(-INFINITY);
    for (int j = 0; j < vectors; j++) {
        real *c = (real *)c_tile + j * LANES;
        const real *b = (const real *)b_tile + j * LANES;
        const real *seen = (const real *)seen_tile + j * LANES;
        for (ptrdiff_t i = 0; i < rows; i++, c += TILE_LANES) {
            const real *a = (const real *)a_matrix + i * a_row;
            vec sum = v_zero();
            for (ptrdiff_t k = 0; k < depth; k++) {
                const vec with = v_fma(v_set1(a[k * a_col]), v_load(b + k * TILE_LANES), sum);
                sum = v_select(v_eq(v_load(seen + k * TILE_LANES), minus_inf), sum, with);
            }
            v_store(c, v_fma(v_load((const real *)keep + j * LANES), v_load(c), sum));
        }
    }
}

static bool all_finite(const void *a_matrix, ptrdiff_t a_row, ptrdiff_t a_col, ptrdiff_t rows,
                       ptrdiff_t cols)
{
    vec sum = v_zero(); /* stays 0 while every x · 0 is */
    if (a_row == 1 && a_col != 1) {
        const ptrdiff_t swap = rows;
        rows = cols, cols = swap, a_row = a_col, a_col = 1;
    }
    for (ptrdiff_t i = 0; i < rows; i++) {
        const real *a = (const real *)a_matrix + i * a_row;
        ptrdiff_t j = 0;
        if (a_col == 1) {
            for (; j + LANES <= cols; j += LANES)
                sum = v_fma(v_load(a + j), v_zero(), sum);
            if (j < cols)
                sum = v_fma(v_load_part(a + j, (int)(cols - j)), v_zero(), sum);
        } else {
            for (; j < cols; j++)
                sum = v_fma(v_set1(a[j * a_col]), v_zero(), sum);
        }
    }
    return v_all(v_eq(sum, v_zero()));
}
