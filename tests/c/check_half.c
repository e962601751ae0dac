/* Sixteen-bit floats: all 65,536 patterns of both types on the way in, and on the way out every
 * rounding that can go wrong: around each number, each midpoint of two, and random ones. Whole
 * vectors and single elements are converted by different code, so each is done dense and spaced. */
#include "check.h"

#include <inttypes.h>

enum { PATTERNS = 65536, ROW = 256 };

static const char *name_of(attn_dtype dtype) { return dtype == ATTN_F16 ? "float16" : "bfloat16"; }

static void check_reading(const struct attn_kernels *isa, attn_dtype dtype, ptrdiff_t step)
{
    for (int start = 0; start < PATTERNS; start += ROW) {
        guarded_reset();
        char *from = guarded_matrix(1, ROW, 0, step, 2, AT_END);
        void *to = guarded(ROW * isa->real_size, AT_END);
        for (int i = 0; i < ROW; i++) {
            const uint16_t bits = (uint16_t)(start + i);
            memcpy(from + i * step, &bits, sizeof bits);
        }
        const struct attn_matrix matrix = {from, dtype, 0, step};
        isa->widen(to, &matrix, 1, ROW);
        for (int i = 0; i < ROW; i++) {
            const double want = load_dtype(from + i * step, dtype), got = get(isa, to, i);
            expect(same_bits(got, want), "pattern %04x expected %g, got %g", start + i, want, got);
        }
    }
}

/* Rounds `count` floats by unpacking a tile of one row per lane. */
static void check_rounding(const struct attn_kernels *isa, attn_dtype dtype, ptrdiff_t step,
                           const double *values, int count)
{
    const int lanes = isa->tile_lanes, cols = 16;
    for (int start = 0; start + lanes * cols <= count; start += lanes * cols) {
        guarded_reset();
        char *to = guarded_matrix(lanes, cols, cols * step, step, 2, AT_END);
        void *tile = guarded_tile(isa, cols, lanes, AT_END);
        struct attn_rows rows = {
            .count = lanes, .vectors = TILE_VECTORS, .dtype = dtype, .step = step};
        for (int lane = 0; lane < lanes; lane++) {
            rows.row[lane] = to + lane * cols * step;
            for (int c = 0; c < cols; c++)
                put_tile(isa, tile, c, lane, values[start + lane * cols + c]);
        }
        isa->unpack(&rows, 0, cols, tile, NULL);
        for (int lane = 0; lane < lanes; lane++)
            for (int c = 0; c < cols; c++) {
                const double x = (float)values[start + lane * cols + c];
                const double want = round_dtype(x, dtype);
                const double got = load_dtype(rows.row[lane] + c * step, dtype);
                expect(same_bits(got, want), "%a expected %a, got %a", x, want, got);
            }
    }
}

/* Each number, the midpoint to the next, and the floats on both sides of that. */
static int hard_floats(attn_dtype dtype, int every, double *values)
{
    int count = 0;
    for (int bits = 0; bits < PATTERNS; bits += every) {
        uint16_t pattern = (uint16_t)bits;
        const double number = load_dtype(&pattern, dtype);
        pattern++;
        double next = load_dtype(&pattern, dtype);
        if (isinf(next)) /* where the next number would be */
            next = copysign(dtype == ATTN_F16 ? 0x1p16 : 0x1p128, next);
        const double middle = isfinite(number) ? number / 2 + next / 2 : number;
        values[count++] = number;
        values[count++] = (float)middle;
        values[count++] = nextafterf((float)middle, INFINITY);
        values[count++] = nextafterf((float)middle, -INFINITY);
    }
    return count;
}

static int random_floats(double *values)
{
    struct rng rng = {10};
    for (int i = 0; i < PATTERNS; i++) {
        const uint32_t bits = (uint32_t)rng_bits(&rng);
        float x;
        memcpy(&x, &bits, sizeof x);
        values[i] = x;
    }
    return PATTERNS;
}

/* Quiet or not, with payloads that a rounding would carry into the exponent or push out of it. */
static void check_nan(const struct attn_kernels *isa, attn_dtype dtype)
{
    static const uint32_t singles[] = {0x7f800001, 0x7f80ffff, 0x7fbfffff, 0x7fc00000,
                                       0x7fffffff, 0xff800001, 0xffbfffff, 0xffffffff};
    const int lanes = isa->tile_lanes;
    claim(isa, "NaN of any payload becomes a %s NaN", name_of(dtype));
    for (ptrdiff_t step = 2; step <= 5; step += 3)
        for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
            guarded_reset();
            char *to = guarded_matrix(lanes, 16, 16 * step, step, 2, AT_END);
            char *tile = guarded_tile(isa, 16, lanes, AT_END);
            struct attn_rows rows = {
                .count = lanes, .vectors = TILE_VECTORS, .dtype = dtype, .step = step};
            uint64_t bits = singles[i];
            if (isa->real_size != sizeof(float)) /* the double of the same sign and payload */
                bits = (bits & 0x80000000) << 32 | (bits & 0x7fffff) << 29 | UINT64_C(0x7ff) << 52;
            for (int lane = 0; lane < lanes; lane++)
                rows.row[lane] = to + lane * 16 * step;
            for (ptrdiff_t at = 0; at < 16 * lanes; at++) /* little-endian: the low bytes first */
                memcpy(tile + (size_t)at * isa->real_size, &bits, isa->real_size);
            isa->unpack(&rows, 0, 16, tile, NULL);
            for (int lane = 0; lane < lanes; lane++)
                for (int c = 0; c < 16; c++)
                    expect(isnan(load_dtype(rows.row[lane] + c * step, dtype)),
                           "%08" PRIx32 " became %g", singles[i],
                           load_dtype(rows.row[lane] + c * step, dtype));
        }
}

void check_half(const struct subject *on)
{
    const struct attn_kernels *isa = on->isa;
    double *values = malloc(4 * PATTERNS * sizeof *values);
    for (int type = ATTN_F16; type <= ATTN_BF16; type++) {
        const attn_dtype dtype = (attn_dtype)type;
        claim(isa, "all %s patterns are read as the numbers they stand for", name_of(dtype));
        check_reading(isa, dtype, 2);
        check_reading(isa, dtype, 5);
        claim(isa, "floats at and between all %s numbers round to nearest, ties to even",
              name_of(dtype));
        int count = hard_floats(dtype, on->quick ? 7 : 1, values);
        check_rounding(isa, dtype, 2, values, count);
        check_rounding(isa, dtype, 5, values, count);
        claim(isa, "floats of random bits round to the nearest %s", name_of(dtype));
        count = random_floats(values);
        check_rounding(isa, dtype, 2, values, on->quick ? count / 8 : count);
        check_rounding(isa, dtype, 5, values, count / 8);
        check_nan(isa, dtype);
    }
    free(values);
}
