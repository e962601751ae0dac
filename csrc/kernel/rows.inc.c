/* A few query rows against many keys, as in decoding: one query would fill one lane, so here the
 * features lie in the lanes instead. Each key and each value is read once for up to FEW_ROWS rows, and
 * memory, not arithmetic, sets the pace. Scores and weights stay in the tile's usual layout. */

enum { FEW_ROWS = 4, FEW_KEYS = 4 };

/* scores[key, r] for a block of keys and rows, both constants where this is inlined. */
static inline __attribute__((always_inline)) void
score_block(real *scores, const real *key, ptrdiff_t key_row, const real *query, ptrdiff_t features,
            const int keys, const int rows, real factor)
{
    vec sum[FEW_KEYS][FEW_ROWS];
    for (int i = 0; i < keys; i++)
        for (int r = 0; r < rows; r++)
            sum[i][r] = v_zero();
    for (ptrdiff_t c = 0; c < features; c += LANES) {
        const int width = at_most_lanes(features - c);
        vec q[FEW_ROWS];
        for (int r = 0; r < rows; r++)
            q[r] = width == LANES ? v_load(query + r * features + c)
                                  : v_load_part(query + r * features + c, width);
        for (int i = 0; i < keys; i++) {
            const real *from = key + i * key_row + c;
            const vec k = width == LANES ? v_load(from) : v_load_part(from, width);
            for (int r = 0; r < rows; r++)
                sum[i][r] = v_fma(k, q[r], sum[i][r]);
        }
    }
    for (int i = 0; i < keys; i++)
        for (int r = 0; r < rows; r++)
            scores[i * TILE_LANES + r] = v_sum(sum[i][r]) * factor;
}

static inline __attribute__((always_inline)) void
score_few_rows(real *scores, const real *key, ptrdiff_t key_row, const real *query, ptrdiff_t keys,
               ptrdiff_t features, const int rows, real factor)
{
    ptrdiff_t i = 0;
    for (; i + FEW_KEYS <= keys; i += FEW_KEYS)
        score_block(scores + i * TILE_LANES, key + i * key_row, key_row, query, features, FEW_KEYS,
                    rows, factor);
    for (; i < keys; i++)
        score_block(scores + i * TILE_LANES, key + i * key_row, key_row, query, features, 1, rows,
                    factor);
}

static void score_rows(void *scores_tile, const void *key, ptrdiff_t key_row, const void *query,
                       ptrdiff_t keys, ptrdiff_t features, int rows, double factor)
{
    for (ptrdiff_t i = 0; i < keys; i++)
        v_store((real *)scores_tile + i * TILE_LANES, v_zero());
    for (int r = 0; r < rows; r += FEW_ROWS) {
        real *scores = (real *)scores_tile + r;
        const real *q = (const real *)query + r * features;
        const real f = (real)factor;
        switch (rows - r) {
        case 1: score_few_rows(scores, key, key_row, q, keys, features, 1, f); break;
        case 2: score_few_rows(scores, key, key_row, q, keys, features, 2, f); break;
        case 3: score_few_rows(scores, key, key_row, q, keys, features, 3, f); break;
        default: score_few_rows(scores, key, key_row, q, keys, features, 4, f); break;
        }
    }
}

/* out[r, c…] for a block of feature vectors and rows. The last vector may be short. */
static inline __attribute__((always_inline)) void
value_block(real *out, const real *value, ptrdiff_t value_row, const real *weights, ptrdiff_t keys,
            ptrdiff_t features, ptrdiff_t c, const int vectors, const int rows, const real *keep)
{
    vec sum[FEW_ROWS][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++)
            sum[r][j] = v_zero();
    const int width = at_most_lanes(features - c - (vectors - 1) * LANES); /* of the last */
    for (ptrdiff_t key = 0; key < keys; key++) {
        const real *from = value + key * value_row + c;
        vec v[4];
        for (int j = 0; j < vectors; j++)
            v[j] = j < vectors - 1 || width == LANES ? v_load(from + j * LANES)
                                                     : v_load_part(from + j * LANES, width);
        for (int r = 0; r < rows; r++) {
            const vec weight = v_set1(weights[key * TILE_LANES + r]);
            for (int j = 0; j < vectors; j++)
                sum[r][j] = v_fma(weight, v[j], sum[r][j]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) {
            real *to = out + r * features + c + j * LANES;
            const int n = j < vectors - 1 ? LANES : width;
            v_store_part(to, v_fma(v_set1(keep[r]), v_load_part(to, n), sum[r][j]), n);
        }
}

static inline __attribute__((always_inline)) void
add_few_rows(real *out, const real *value, ptrdiff_t value_row, const real *weights, ptrdiff_t keys,
             ptrdiff_t features, const int rows, const real *keep)
{
    ptrdiff_t c = 0;
    for (; c + 4 * LANES <= features; c += 4 * LANES)
        value_block(out, value, value_row, weights, keys, features, c, 4, rows, keep);
    for (; c < features; c += LANES)
        value_block(out, value, value_row, weights, keys, features, c, 1, rows, keep);
}

/* add_rows without the pairs that `seen` leaves out; the others are summed in the same order. */
static void add_seen_rows(real *out, const real *value, ptrdiff_t value_row, const real *weights,
                          ptrdiff_t keys, ptrdiff_t features, int rows, const real *keep,
                          const real *seen)
{
    for (int r = 0; r < rows; r++)
        for (ptrdiff_t c = 0; c < features; c += LANES) {
            const int width = at_most_lanes(features - c);
            real *to = out + r * features + c;
            vec sum = v_zero();
            for (ptrdiff_t key = 0; key < keys; key++)
                if (seen[key * TILE_LANES + r] != -INFINITY)
                    sum = v_fma(v_set1(weights[key * TILE_LANES + r]),
                                v_load_part(value + key * value_row + c, width), sum);
            v_store_part(to, v_fma(v_set1(keep[r]), v_load_part(to, width), sum), width);
        }
}

static void add_rows(void *out, const void *value, ptrdiff_t value_row, const void *weights,
                     ptrdiff_t keys, ptrdiff_t features, int rows, const void *keep,
                     const void *seen)
{
    if (seen) {
        add_seen_rows(out, value, value_row, weights, keys, features, rows, keep, seen);
        return;
    }
    for (int r = 0; r < rows; r += FEW_ROWS) {
        real *o = (real *)out + r * features;
        const real *w = (const real *)weights + r, *owed = (const real *)keep + r;
        switch (rows - r) {
        case 1: add_few_rows(o, value, value_row, w, keys, features, 1, owed); break;
        case 2: add_few_rows(o, value, value_row, w, keys, features, 2, owed); break;
        case 3: add_few_rows(o, value, value_row, w, keys, features, 3, owed); break;
        default: add_few_rows(o, value, value_row, w, keys, features, 4, owed); break;
        }
    }
}
