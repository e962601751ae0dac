/* Rows into tiles and back, and matrices widened: every type, any strides, all sizes of the last
 * vector. All of it is exact to the bit, which includes agreeing with the generic table. */
#include "check.h"

/* A matrix in a guarded buffer; strides in bytes. */
struct plane {
    char *at;
    ptrdiff_t rows, cols, row, col;
    attn_dtype dtype;
};

static const char *const dtype_names[] = {"bool", "float16", "bfloat16", "float32", "float64"};
static const size_t dtype_sizes[] = {1, 2, 2, 4, 8};

/* The first few give each element an address of its own, as what is written must have. */
enum layout { DENSE, PADDED, UPWARDS, BACKWARDS, SPACED, ODD, COLUMNS, SAME_ROW, SAME_ELEMENT };
enum { WRITABLE = SAME_ROW, READABLE = SAME_ELEMENT + 1 };
static const char *const layout_names[] = {
    "dense",         "padded",        "rows upwards",    "columns backwards",  "spaced",
    "odd distances", "columns first", "one row for all", "one element for all"};

static struct plane make_plane(ptrdiff_t rows, ptrdiff_t cols, attn_dtype dtype, enum layout layout,
                               enum place place)
{
    const ptrdiff_t size = (ptrdiff_t)dtype_sizes[dtype];
    struct plane p = {.rows = rows, .cols = cols, .row = cols * size, .col = size, .dtype = dtype};
    switch (layout) {
    case PADDED: p.row += 3 * size; break;
    case UPWARDS: p.row = -p.row - size; break;
    case BACKWARDS: p.col = -size; break;
    case SPACED: p.col = 2 * size, p.row = 2 * cols * size; break;
    case ODD: p.col = size + 1, p.row = cols * (size + 1) + 1; break;
    case COLUMNS: p.row = size, p.col = (rows + 1) * size; break;
    case SAME_ROW: p.row = 0; break;
    case SAME_ELEMENT: p.row = 0, p.col = 0; break;
    default: break;
    }
    p.at = guarded_matrix(rows, cols, p.row, p.col, dtype_sizes[dtype], place);
    return p;
}

static char *plane_at(const struct plane *p, ptrdiff_t r, ptrdiff_t c)
{
    return p->at + r * p->row + c * p->col;
}

static void fill_plane(const struct plane *p, struct rng *rng)
{
    for (ptrdiff_t r = 0; r < p->rows; r++)
        for (ptrdiff_t c = 0; c < p->cols; c++)
            store_dtype(plane_at(p, r, c), rng_extreme(rng, p->dtype == ATTN_F64 ? 8 : 4),
                        p->dtype);
}

/* Erases the plane's elements, and expects to find nothing else in its buffer. */
static void expect_plane_gaps(const struct plane *p)
{
    const size_t size = dtype_sizes[p->dtype];
    for (ptrdiff_t r = 0; r < p->rows; r++)
        for (ptrdiff_t c = 0; c < p->cols; c++)
            memset(plane_at(p, r, c), 0xff, size);
    const ptrdiff_t down = (p->rows - 1) * p->row, across = (p->cols - 1) * p->col;
    const ptrdiff_t lowest = (down < 0 ? down : 0) + (across < 0 ? across : 0);
    const ptrdiff_t highest = (down > 0 ? down : 0) + (across > 0 ? across : 0);
    expect(untouched(p->at + lowest, (size_t)(highest - lowest) + size),
           "wrote between the elements");
}

/* What a number becomes on the way into the table's real type. */
static double real(const struct attn_kernels *isa, double x)
{
    return round_dtype(x, real_dtype(isa));
}

static double real_product(const struct attn_kernels *isa, double a, double b)
{
    return isa->real_size == sizeof(float) ? (float)a * (float)b : a * b;
}

/* Rows past the last can't be read: their addresses lead nowhere. */
static struct attn_rows plane_rows(const struct plane *p, int vectors, ptrdiff_t offset)
{
    struct attn_rows rows = {
        .count = (int)p->rows, .vectors = vectors, .dtype = p->dtype, .step = p->col};
    for (int lane = 0; lane < MAX_TILE_LANES; lane++)
        rows.row[lane] = lane < rows.count ? plane_at(p, lane, 0) - offset * p->col : NULL;
    return rows;
}

static void check_packed(const struct attn_kernels *isa, const struct plane *from, int vectors,
                         ptrdiff_t offset, enum place place, struct rng *rng)
{
    const struct attn_rows rows = plane_rows(from, vectors, offset);
    const int lanes = vectors * isa->lanes;
    void *tile = guarded_tile(isa, from->cols, lanes, place == ASKEW ? AT_START : place);
    (void)rng;
    isa->pack(tile, &rows, offset, from->cols);
    for (ptrdiff_t c = 0; c < from->cols; c++)
        for (int lane = 0; lane < lanes; lane++) {
            double want = 0;
            if (lane < rows.count)
                want = real(isa, load_dtype(plane_at(from, lane, c), from->dtype));
            const double got = get_tile(isa, tile, c, lane);
            if (from->dtype == ATTN_BOOL && want != 0 && got != 0)
                continue; /* true is anything but 0 */
            expect(same_bits(got, want), "tile[%td, %d] expected %g, got %g", c, lane, want, got);
        }
    expect_tile_gaps(isa, tile, from->cols, lanes);
}

/* A double on its way to sixteen bits passes through float, here as there. */
static double stored(double x, attn_dtype dtype)
{
    return round_dtype(dtype == ATTN_F16 || dtype == ATTN_BF16 ? (float)x : x, dtype);
}

static void check_unpacked(const struct attn_kernels *isa, const struct plane *to, int vectors,
                           ptrdiff_t offset, enum place place, struct rng *rng)
{
    const struct attn_rows rows = plane_rows(to, vectors, offset);
    const int lanes = vectors * isa->lanes;
    const enum place tile_place = place == ASKEW ? AT_START : place;
    void *tile = guarded_tile(isa, to->cols, lanes, tile_place);
    void *factor = guarded((size_t)lanes * isa->real_size, tile_place);
    const bool scaled = rng_below(rng, 2);
    for (int lane = 0; lane < lanes; lane++) {
        put(isa, factor, lane, scaled ? rng_between(rng, -2, 2) : 1);
        for (ptrdiff_t c = 0; c < to->cols; c++)
            put_tile(isa, tile, c, lane, rng_extreme(rng, isa->real_size));
    }
    isa->unpack(&rows, offset, to->cols, tile, scaled ? factor : NULL);
    for (ptrdiff_t c = 0; c < to->cols; c++)
        for (int lane = 0; lane < rows.count; lane++) {
            const double x = real_product(isa, get_tile(isa, tile, c, lane),
                                          get(isa, factor, lane));
            const double want = stored(x, to->dtype);
            const double got = load_dtype(plane_at(to, lane, c), to->dtype);
            expect(same_bits(got, want), "row %d[%td] of %g expected %g, got %g", lane, c, x, want,
                   got);
        }
}

/* The rows of a dense matrix, no more of them than a vector has lanes, on their way back. */
static void check_narrowed(const struct attn_kernels *isa, const struct plane *to, enum place place,
                           struct rng *rng)
{
    const struct attn_rows rows = plane_rows(to, 1, 0);
    const enum place dense_place = place == ASKEW ? AT_START : place;
    void *from = guarded((size_t)(to->rows * to->cols) * isa->real_size, dense_place);
    void *factor = guarded((size_t)to->rows * isa->real_size, dense_place);
    for (ptrdiff_t r = 0; r < to->rows; r++) {
        put(isa, factor, r, rng_between(rng, -2, 2));
        for (ptrdiff_t c = 0; c < to->cols; c++)
            put(isa, from, r * to->cols + c, rng_extreme(rng, isa->real_size));
    }
    isa->narrow(&rows, to->cols, from, factor);
    for (ptrdiff_t r = 0; r < to->rows; r++)
        for (ptrdiff_t c = 0; c < to->cols; c++) {
            const double x = real_product(isa, get(isa, from, r * to->cols + c),
                                          get(isa, factor, r));
            const double want = stored(x, to->dtype);
            const double got = load_dtype(plane_at(to, r, c), to->dtype);
            expect(same_bits(got, want), "row %td[%td] expected %g, got %g", r, c, want, got);
        }
    expect_plane_gaps(to);
}

static void check_widened(const struct attn_kernels *isa, const struct plane *from,
                          enum place place)
{
    void *to = guarded((size_t)(from->rows * from->cols) * isa->real_size,
                       place == ASKEW ? AT_START : place);
    const struct attn_matrix matrix = {from->at, from->dtype, from->row, from->col};
    isa->widen(to, &matrix, from->rows, from->cols);
    for (ptrdiff_t r = 0; r < from->rows; r++)
        for (ptrdiff_t c = 0; c < from->cols; c++) {
            const double want = real(isa, load_dtype(plane_at(from, r, c), from->dtype));
            const double got = get(isa, to, r * from->cols + c);
            expect(same_bits(got, want), "[%td, %td] expected %g, got %g", r, c, want, got);
        }
}

/* A filled plane in memory of its own; the case is named after it. */
static struct plane fresh_plane(ptrdiff_t rows, ptrdiff_t cols, int dtype, int layout,
                                enum place place, struct rng *rng)
{
    guarded_reset();
    context("%td rows of %td, %s, %s, %s", rows, cols, dtype_names[dtype], layout_names[layout],
            place_name(place));
    const struct plane p = make_plane(rows, cols, (attn_dtype)dtype, (enum layout)layout, place);
    fill_plane(&p, rng);
    return p;
}

/* Every width of the last vector, and numbers of rows that leave lanes empty. */
static void check_tiles(const struct subject *on, int first_dtype, int layouts,
                        void (*check)(const struct attn_kernels *, const struct plane *, int,
                                      ptrdiff_t, enum place, struct rng *))
{
    struct rng rng = {8};
    const int lanes = on->isa->lanes;
    int turn = 0;
    for (int vectors = 1; vectors <= TILE_VECTORS; vectors++)
        for (ptrdiff_t cols = 1; cols <= (on->quick ? lanes + 1 : 2 * lanes + 1); cols++)
            for (int dtype = first_dtype; dtype <= ATTN_F64; dtype++)
                for (int layout = 0; layout < layouts; layout++) {
                    const ptrdiff_t rows = 1 + rng_below(&rng, vectors * lanes);
                    const enum place place = (enum place)(turn++ % PLACES);
                    const struct plane p = fresh_plane(rows, cols, dtype, layout, place, &rng);
                    check(on->isa, &p, vectors, rng_below(&rng, 6), place, &rng);
                }
}

static void check_pack_gaps(const struct attn_kernels *isa, const struct plane *to, int vectors,
                            ptrdiff_t offset, enum place place, struct rng *rng)
{
    check_unpacked(isa, to, vectors, offset, place, rng);
    expect_plane_gaps(to);
}

static void check_bool(const struct subject *on)
{
    const struct attn_kernels *isa = on->isa;
    guarded_reset();
    struct plane from = make_plane(2, 64, ATTN_BOOL, DENSE, AT_END);
    claim(isa, "any byte but 0 is a true bool");
    for (ptrdiff_t c = 0; c < 64; c++)
        *plane_at(&from, 0, c) = (char)(4 * c), *plane_at(&from, 1, c) = (char)(c - 64);
    struct attn_rows first = plane_rows(&from, 1, 0);
    first.count = 1;
    void *tile = guarded_tile(isa, 64, isa->lanes, AT_END);
    isa->pack(tile, &first, 0, 64);
    for (ptrdiff_t c = 0; c < 64; c++)
        expect((get_tile(isa, tile, c, 0) != 0) == (c != 0), "byte %td", 4 * c);
    first.row[0] = plane_at(&from, 1, 0);
    isa->pack(tile, &first, 0, 64);
    for (ptrdiff_t c = 0; c < 64; c++)
        expect(get_tile(isa, tile, c, 0) != 0, "byte %td", 192 + c);
}

static void check_matrices(const struct subject *on, int layouts, bool narrow)
{
    struct rng rng = {9};
    int turn = 0;
    for (ptrdiff_t cols = 1; cols <= (on->quick ? 9 : 35); cols++)
        for (int dtype = ATTN_F16; dtype <= ATTN_F64; dtype++)
            for (int layout = 0; layout < layouts; layout++) {
                const ptrdiff_t rows = 1 + rng_below(&rng, on->isa->lanes);
                const enum place place = (enum place)(turn++ % PLACES);
                const struct plane p = fresh_plane(rows, cols, dtype, layout, place, &rng);
                if (narrow)
                    check_narrowed(on->isa, &p, place, &rng);
                else
                    check_widened(on->isa, &p, place);
            }
}

void check_pack(const struct subject *on)
{
    claim(on->isa, "packing keeps rows of every type and layout, and fills empty lanes with 0");
    check_tiles(on, ATTN_BOOL, READABLE, check_packed);
    check_bool(on);
    claim(on->isa, "unpacking rounds to every type and layout, and writes nothing in between");
    check_tiles(on, ATTN_F16, WRITABLE, check_pack_gaps);
    claim(on->isa, "widening keeps numbers of every type and layout");
    check_matrices(on, READABLE, false);
    claim(on->isa,
          "narrowing scales, rounds to every type and layout, and writes nothing in between");
    check_matrices(on, WRITABLE, true);
}

void bench_pack(const struct attn_kernels *isa)
{
    struct rng rng = {1};
    for (int dtype = ATTN_F16; dtype <= ATTN_F64; dtype++) {
        char name[40];
        guarded_reset();
        const struct plane p = make_plane(isa->tile_lanes, 64, (attn_dtype)dtype, DENSE, AT_START);
        const struct attn_rows rows = plane_rows(&p, TILE_VECTORS, 0);
        const struct attn_matrix matrix = {p.at, p.dtype, p.row, p.col};
        const double elements = (double)(p.rows * p.cols);
        void *tile = guarded_tile(isa, 64, isa->tile_lanes, AT_START);
        fill_plane(&p, &rng);

        struct timing timing = timing_start();
        while (timing_more(&timing))
            isa->pack(tile, &rows, 0, 64);
        snprintf(name, sizeof name, "pack %s", dtype_names[dtype]);
        report_each(isa, name, elements, timing.best);
        timing = timing_start();
        while (timing_more(&timing))
            isa->unpack(&rows, 0, 64, tile, NULL);
        snprintf(name, sizeof name, "unpack %s", dtype_names[dtype]);
        report_each(isa, name, elements, timing.best);
        timing = timing_start();
        while (timing_more(&timing))
            isa->widen(tile, &matrix, p.rows, 64);
        snprintf(name, sizeof name, "widen %s", dtype_names[dtype]);
        report_each(isa, name, elements, timing.best);
    }
}
