/* Rows into lanes and back, and other types into the real type: the only place where a float16, a
 * bfloat16 or a bool exists. Whole vectors are converted and transposed in registers; what is left,
 * or lies apart in memory, goes through a buffer of one vector, so nothing is read past its end. */

/* One element of any type. */
static inline real load_element(const char *p, attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_F16: return half_load(p);
    case ATTN_BF16: return bfloat_load(p);
    case ATTN_BOOL: return (unsigned char)*p;
    case ATTN_F32: {
        float x;
        memcpy(&x, p, sizeof x);
        return (real)x;
    }
    default: {
        double x;
        memcpy(&x, p, sizeof x);
        return (real)x;
    }
    }
}

static inline void store_element(char *p, real x, attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_F16: half_store(p, (float)x); break;
    case ATTN_BF16: bfloat_store(p, (float)x); break;
    case ATTN_F32: {
        const float y = (float)x;
        memcpy(p, &y, sizeof y);
        break;
    }
    default: {
        const double y = x;
        memcpy(p, &y, sizeof y);
        break;
    }
    }
}

#define REAL_DTYPE (REAL_BITS == 32 ? ATTN_F32 : ATTN_F64)

static inline ptrdiff_t dtype_size(attn_dtype dtype)
{
    return dtype == ATTN_BOOL ? 1 : dtype == ATTN_F32 ? 4 : dtype == ATTN_F64 ? 8 : 2;
}

/* The first n elements from p on, `step` bytes apart, as a vector; zero in the lanes after. */
static inline __attribute__((always_inline)) vec load_as(const char *p, ptrdiff_t step, int n,
                                                         const attn_dtype dtype)
{
    if (step == dtype_size(dtype)) {
        if (dtype == REAL_DTYPE)
            return n == LANES ? v_load((const real *)p) : v_load_part((const real *)p, n);
        if (n == LANES && dtype == ATTN_BOOL)
            return v_from_bool(p);
#if REAL_BITS == 32
        if (n == LANES && dtype == ATTN_F16)
            return v_from_f16(p);
        if (n == LANES && dtype == ATTN_BF16)
            return v_from_bf16(p);
#endif
    }
    real buffer[LANES];
    for (int i = 0; i < LANES; i++)
        buffer[i] = i < n ? load_element(p + i * step, dtype) : 0;
    return v_load(buffer);
}

static inline __attribute__((always_inline)) void store_as(char *p, ptrdiff_t step, int n, vec x,
                                                           const attn_dtype dtype)
{
    if (step == dtype_size(dtype)) {
        if (dtype == REAL_DTYPE) {
            if (n == LANES)
                v_store((real *)p, x);
            else
                v_store_part((real *)p, x, n);
            return;
        }
#if REAL_BITS == 32
        if (n == LANES && dtype == ATTN_F16) {
            v_to_f16(p, x);
            return;
        }
        if (n == LANES && dtype == ATTN_BF16) {
            v_to_bf16(p, x);
            return;
        }
#endif
    }
    real buffer[LANES];
    v_store(buffer, x);
    for (int i = 0; i < n; i++)
        store_element(p + i * step, buffer[i], dtype);
}

static inline int at_most_lanes(ptrdiff_t n) { return n < LANES ? (int)n : LANES; }

/* A block of at most LANES rows and columns; both are constants for a whole one. */
static inline __attribute__((always_inline)) void
pack_block(real *tile, char *const *row, ptrdiff_t offset, ptrdiff_t step, const int count,
           const int width, const attn_dtype dtype)
{
    vec r[LANES];
    for (int i = 0; i < LANES; i++)
        r[i] = i < count ? load_as(row[i] + offset * step, step, width, dtype) : v_zero();
    v_transpose(r);
    for (int i = 0; i < width; i++)
        v_store(tile + i * TILE_LANES, r[i]);
}

static inline __attribute__((always_inline)) void pack_as(real *tile, const struct attn_rows *rows,
                                                          ptrdiff_t offset, ptrdiff_t cols,
                                                          const attn_dtype dtype)
{
    for (int j = 0; j < rows->vectors; j++)
        for (ptrdiff_t c = 0; c < cols; c += LANES) {
            real *to = tile + c * TILE_LANES + j * LANES;
            char *const *row = rows->row + j * LANES;
            const int count = at_most_lanes(rows->count - j * LANES);
            const int width = at_most_lanes(cols - c);
            if (count == LANES && width == LANES)
                pack_block(to, row, offset + c, rows->step, LANES, LANES, dtype);
            else
                pack_block(to, row, offset + c, rows->step, count, width, dtype);
        }
}

static void pack(void *tile, const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols)
{
    switch (rows->dtype) {
    case ATTN_F16: pack_as(tile, rows, offset, cols, ATTN_F16); break;
    case ATTN_BF16: pack_as(tile, rows, offset, cols, ATTN_BF16); break;
    case ATTN_F32: pack_as(tile, rows, offset, cols, ATTN_F32); break;
    case ATTN_F64: pack_as(tile, rows, offset, cols, ATTN_F64); break;
    default: pack_as(tile, rows, offset, cols, ATTN_BOOL); break;
    }
}

static inline __attribute__((always_inline)) void
unpack_block(char *const *row, ptrdiff_t offset, ptrdiff_t step, const real *tile, vec factor,
             const int count, const int width, const attn_dtype dtype)
{
    vec r[LANES];
    for (int i = 0; i < LANES; i++)
        r[i] = i < width ? v_mul(v_load(tile + i * TILE_LANES), factor) : v_zero();
    v_transpose(r);
    for (int i = 0; i < count; i++)
        store_as(row[i] + offset * step, step, width, r[i], dtype);
}

static inline __attribute__((always_inline)) void
unpack_as(const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols, const real *tile,
          const real *factor, const attn_dtype dtype)
{
    for (int j = 0; j < rows->vectors; j++) {
        const vec f = factor ? v_load(factor + j * LANES) : v_set1(1);
        for (ptrdiff_t c = 0; c < cols; c += LANES) {
            const real *from = tile + c * TILE_LANES + j * LANES;
            char *const *row = rows->row + j * LANES;
            const int count = at_most_lanes(rows->count - j * LANES);
            const int width = at_most_lanes(cols - c);
            if (count == LANES && width == LANES)
                unpack_block(row, offset + c, rows->step, from, f, LANES, LANES, dtype);
            else
                unpack_block(row, offset + c, rows->step, from, f, count, width, dtype);
        }
    }
}

static void unpack(const struct attn_rows *rows, ptrdiff_t offset, ptrdiff_t cols, const void *tile,
                   const void *factor)
{
    switch (rows->dtype) {
    case ATTN_F16: unpack_as(rows, offset, cols, tile, factor, ATTN_F16); break;
    case ATTN_BF16: unpack_as(rows, offset, cols, tile, factor, ATTN_BF16); break;
    case ATTN_F32: unpack_as(rows, offset, cols, tile, factor, ATTN_F32); break;
    default: unpack_as(rows, offset, cols, tile, factor, ATTN_F64); break;
    }
}

static void set_lanes(void *lanes, const double *x)
{
    for (int lane = 0; lane < TILE_LANES; lane++)
        ((real *)lanes)[lane] = (real)x[lane];
}

static void get_lanes(double *x, const void *lanes)
{
    for (int lane = 0; lane < TILE_LANES; lane++)
        x[lane] = (double)((const real *)lanes)[lane];
}

static inline __attribute__((always_inline)) void widen_as(real *to, const struct attn_matrix *from,
                                                           ptrdiff_t rows, ptrdiff_t cols,
                                                           const attn_dtype dtype)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = 0; c < cols; c += LANES) {
            const int width = at_most_lanes(cols - c);
            const vec x = load_as(from->data + r * from->row + c * from->col, from->col, width,
                                  dtype);
            if (width == LANES)
                v_store(to + r * cols + c, x);
            else
                v_store_part(to + r * cols + c, x, width);
        }
}

static void widen(void *to, const struct attn_matrix *from, ptrdiff_t rows, ptrdiff_t cols)
{
    switch (from->dtype) {
    case ATTN_F16: widen_as(to, from, rows, cols, ATTN_F16); break;
    case ATTN_BF16: widen_as(to, from, rows, cols, ATTN_BF16); break;
    case ATTN_F32: widen_as(to, from, rows, cols, ATTN_F32); break;
    default: widen_as(to, from, rows, cols, ATTN_F64); break;
    }
}

static inline __attribute__((always_inline)) void
narrow_as(const struct attn_rows *rows, ptrdiff_t cols, const real *from, const real *factor,
          const attn_dtype dtype)
{
    for (int r = 0; r < rows->count; r++)
        for (ptrdiff_t c = 0; c < cols; c += LANES) {
            const int width = at_most_lanes(cols - c);
            const vec x = v_load_part(from + r * cols + c, width);
            store_as(rows->row[r] + c * rows->step, rows->step, width, v_mul(x, v_set1(factor[r])),
                     dtype);
        }
}

static void narrow(const struct attn_rows *rows, ptrdiff_t cols, const void *from,
                   const void *factor)
{
    switch (rows->dtype) {
    case ATTN_F16: narrow_as(rows, cols, from, factor, ATTN_F16); break;
    case ATTN_BF16: narrow_as(rows, cols, from, factor, ATTN_BF16); break;
    case ATTN_F32: narrow_as(rows, cols, from, factor, ATTN_F32); break;
    default: narrow_as(rows, cols, from, factor, ATTN_F64); break;
    }
}
