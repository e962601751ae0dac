/* Whether a matrix holds only finite numbers: every single place of an infinity or NaN is seen, and
 * nothing outside the matrix is. */
#include "check.h"

struct matrix {
    char *a;
    ptrdiff_t rows, cols, row, col; /* strides count reals */
};

/* What lies between the elements is NaN, as every byte of a guarded buffer is 0xff. */
static struct matrix make_matrix(const struct attn_kernels *isa, ptrdiff_t rows, ptrdiff_t cols,
                                 int layout, enum place place)
{
    const ptrdiff_t strides[][2] = {{cols, 1},   {cols + 5, 1}, {1, rows + 5}, {2 * cols, 2},
                                    {-cols, -1}, {0, 1},        {0, 0}};
    const ptrdiff_t size = (ptrdiff_t)isa->real_size;
    struct matrix m = {.rows = rows, .cols = cols};
    m.row = strides[layout][0];
    m.col = strides[layout][1];
    guarded_reset();
    m.a = guarded_matrix(rows, cols, m.row * size, m.col * size, isa->real_size, place);
    context("%td x %td, strides %td and %td, %s", rows, cols, m.row, m.col, place_name(place));
    return m;
}

static bool is_finite(const struct attn_kernels *isa, const struct matrix *m)
{
    return isa->all_finite(m->a, m->row, m->col, m->rows, m->cols);
}

static void check_matrix(const struct attn_kernels *isa, const struct matrix *m, struct rng *rng)
{
    const double largest = isa->real_size == sizeof(float) ? FLT_MAX : DBL_MAX;
    for (ptrdiff_t i = 0; i < m->rows; i++)
        for (ptrdiff_t j = 0; j < m->cols; j++) {
            const double x = rng_extreme(rng, isa->real_size);
            put(isa, m->a, i * m->row + j * m->col, isfinite(x) ? x : largest);
        }
    expect(is_finite(isa, m), "numbers are finite");

    static const double not_finite[] = {INFINITY, -INFINITY, NAN};
    for (ptrdiff_t i = 0; i < m->rows; i++)
        for (ptrdiff_t j = 0; j < m->cols; j++) {
            const ptrdiff_t at = i * m->row + j * m->col;
            const double before = get(isa, m->a, at);
            const double x = not_finite[rng_below(rng, 3)];
            put(isa, m->a, at, x);
            expect(!is_finite(isa, m), "%g at [%td, %td] is not", x, i, j);
            put(isa, m->a, at, before);
        }
}

void check_finite(const struct subject *on)
{
    struct rng rng = {2};
    int turn = 0;
    claim(on->isa, "finite finds an infinity or NaN anywhere, and none where there is none");
    for (ptrdiff_t rows = 0; rows <= 5; rows++)
        for (ptrdiff_t cols = 1; cols <= (on->quick ? 18 : 35); cols++)
            for (int layout = 0; layout < 7; layout++) {
                const struct matrix m = make_matrix(on->isa, rows, cols, layout,
                                                    (enum place)(turn++ % ALIGNED_PLACES));
                check_matrix(on->isa, &m, &rng);
            }
}
