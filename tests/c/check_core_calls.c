/* The core's other calls: sums of weights per key, softmax of rows, what attn_check refuses, sizes of
 * 0, and every allocation failing in turn. */
#include "core.h"

#include "../../csrc/core/alloc.h"

static const attn_dtype dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32, ATTN_F64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool quickly;

static wide roundoff(attn_dtype dtype)
{
    return dtype == ATTN_F16    ? 0x1p-11L
           : dtype == ATTN_BF16 ? 0x1p-8L
           : dtype == ATTN_F32  ? 0x1p-24L
                                : 0x1p-53L;
}

/* attn_key_weights: the weights of all queries, added per key. */
static void expect_sums(const struct problem *p, const struct array *sums)
{
    static struct solution solution;
    static wide sum[MOST_KEYS], bound[MOST_KEYS];
    const attn_shape *s = &p->shape;
    const wide u = p->problem.query.dtype == ATTN_F64 ? 0x1p-53L : 0x1p-24L;
    for (ptrdiff_t flat = 0; flat < s->batches * s->heads; flat++) {
        ptrdiff_t batch[ATTN_MAX_AXES], rest = flat / s->heads;
        for (int axis = s->batch_axes - 1; axis >= 0; axis--) {
            batch[axis] = rest % s->batch_dim[axis];
            rest /= s->batch_dim[axis];
        }
        memset(sum, 0, sizeof sum);
        memset(bound, 0, sizeof bound);
        for (ptrdiff_t query = 0; query < s->queries; query++) {
            solve_row(p, batch, flat % s->heads, query, &solution);
            for (ptrdiff_t key = 0; key < s->keys; key++) {
                sum[key] += solution.weight[key];
                bound[key] += solution.weight_bound[key]
                              + (wide)(s->queries + 20) * u * solution.weight[key];
            }
        }
        for (ptrdiff_t key = 0; key < s->keys; key++)
            expect_near(load_dtype(array_at(&sums->view, flat * s->keys + key), sums->view.dtype),
                        sum[key],
                        bound[key] + roundoff(sums->view.dtype) * sum[key]
                            + (sums->view.dtype < ATTN_F32 ? 0x1p-25L : 0),
                        "sums", flat, (int)key);
    }
}

static void check_key_weights(attn_dtype dtype)
{
    struct rng rng = {20};
    claim(NULL, "the weights that keys of %s receive are summed right", attn_dtype_name(dtype));
    for (int seed = 3000; seed < (quickly ? 3020 : 3150); seed++) {
        struct problem p;
        struct array sums;
        attn_fault fault;
        ptrdiff_t dim[ATTN_MAX_AXES];
        guarded_reset();
        make_problem(&p, dtype, (uint64_t)seed, WILD, (enum place)(seed % PLACES));
        p.problem.value.data = p.problem.out.data = p.problem.weights.data = NULL;
        p.problem.lse.data = NULL;
        p.problem.dropout = 0;
        p.problem.stage = ATTN_WEIGHTS;
        context("problem %d", seed);
        if (!expect(attn_check(&p.problem, &p.shape, &fault) == ATTN_OK, "refused"))
            return;
        int axes = 0;
        for (; axes < p.shape.batch_axes; axes++)
            dim[axes] = p.shape.batch_dim[axes];
        if (p.shape.head_axis)
            dim[axes++] = p.shape.heads;
        dim[axes++] = p.shape.keys;
        make_array(&sums, dtype, axes, dim, WILD, true, (enum place)(seed % PLACES), &rng);
        const attn_run run = {.threads = 1 + seed % 4};
        expect(attn_key_weights(&p.problem, &p.shape, &sums.view, &run) == ATTN_OK, "failed");
        expect_sums(&p, &sums);
        expect_array_gaps(&sums, "sums");
    }
}

static void expect_softmax(const struct array *x, const struct array *out, ptrdiff_t cols)
{
    const wide u = x->view.dtype == ATTN_F64 ? 0x1p-53L : 0x1p-24L;
    const ptrdiff_t rows = array_size(&x->view) / cols;
    for (ptrdiff_t row = 0; row < rows; row++) {
        wide max = -INFINITY, sum = 0;
        for (ptrdiff_t col = 0; col < cols; col++)
            max = fmaxl(max, load_dtype(array_at(&x->view, row * cols + col), x->view.dtype));
        for (ptrdiff_t col = 0; col < cols; col++)
            sum += expl(load_dtype(array_at(&x->view, row * cols + col), x->view.dtype) - max);
        for (ptrdiff_t col = 0; col < cols; col++) {
            const wide below = load_dtype(array_at(&x->view, row * cols + col), x->view.dtype)
                               - max;
            const wide want = expl(below) / sum;
            const wide error = (wide)(cols + 20) * u + 3 * u * fabsl(below)
                               + roundoff(out->view.dtype);
            expect_near(load_dtype(array_at(&out->view, row * cols + col), out->view.dtype), want,
                        error * want + (x->view.dtype == ATTN_F64 ? DBL_MIN : 0x1p-25L), "softmax",
                        row, (int)col);
        }
    }
}

static void check_softmax_of_rows(attn_dtype dtype)
{
    struct rng rng = {21};
    claim(NULL, "softmax of %s rows is right, whatever their layout", attn_dtype_name(dtype));
    for (int round = 0; round < (quickly ? 20 : 150); round++) {
        const ptrdiff_t dim[] = {1 + rng_below(&rng, 4), 1 + rng_below(&rng, 40),
                                 1 + rng_below(&rng, 230)};
        const int axes = 1 + (int)rng_below(&rng, 3);
        const enum place place = (enum place)(round % PLACES);
        struct array x, out;
        guarded_reset();
        make_array(&x, dtype, axes, dim + 3 - axes, WILD, false, place, &rng);
        make_array(&out, dtype, axes, dim + 3 - axes, WILD, true, place, &rng);
        for (ptrdiff_t i = 0; i < array_size(&x.view); i++)
            store_dtype(array_at(&x.view, i), rng_between(&rng, -12, 12), dtype);
        context("%d axes, %td columns", axes, dim[2]);
        const attn_run run = {.threads = 1 + round % 3};
        expect(attn_softmax(&x.view, &out.view, &run) == ATTN_OK, "failed");
        expect_softmax(&x, &out, dim[2]);
        expect_array_gaps(&out, "out");
    }
}

/* A sound problem of (2, 3, 4, 5) queries, 6 keys and 7 value features, to be spoilt. Its data is
 * never read. */
static attn_problem sound_problem(void)
{
    static double data[1];
    const attn_view view = {.data = data, .dtype = ATTN_F32, .axes = 4, .dim = {2, 3, 4, 5}};
    attn_problem p = {.query = view,
                      .key = view,
                      .value = view,
                      .out = view,
                      .window_left = ATTN_OPEN,
                      .window_right = ATTN_OPEN};
    p.key.dim[2] = p.value.dim[2] = 6;
    p.value.dim[3] = p.out.dim[3] = 7;
    return p;
}

static void expect_refusal(const attn_problem *p, attn_status wanted, const char *argument)
{
    attn_shape shape;
    attn_fault fault = {"", ""};
    const attn_status status = attn_check(p, &shape, &fault);
    expect(status == wanted && (wanted == ATTN_OK || strcmp(fault.argument, argument) == 0),
           "expected status %d for %s, got %d for %s: %s", (int)wanted, argument, (int)status,
           fault.argument, fault.text);
}

static void check_refusals(void)
{
    claim(NULL, "attn_check refuses what does not fit, and names the argument");
    attn_problem p = sound_problem();
    expect_refusal(&p, ATTN_OK, "");
    p = sound_problem(), p.query.dtype = ATTN_I64;
    expect_refusal(&p, ATTN_E_DTYPE, "query");
    p = sound_problem(), p.key.dtype = ATTN_F64;
    expect_refusal(&p, ATTN_E_DTYPE, "key");
    p = sound_problem(), p.mask = p.query, p.mask.dtype = ATTN_I64;
    expect_refusal(&p, ATTN_E_DTYPE, "attn_mask");
    p = sound_problem(), p.query.axes = 1;
    expect_refusal(&p, ATTN_E_SHAPE, "query");
    p = sound_problem(), p.key.dim[3] = 4;
    expect_refusal(&p, ATTN_E_SHAPE, "key");
    p = sound_problem(), p.value.dim[2] = 5;
    expect_refusal(&p, ATTN_E_SHAPE, "value");
    p = sound_problem(), p.value.dim[1] = 1;
    expect_refusal(&p, ATTN_E_SHAPE, "value");
    p = sound_problem(), p.key.dim[0] = 3;
    expect_refusal(&p, ATTN_E_SHAPE, "key");
    p = sound_problem(), p.key.dim[1] = p.value.dim[1] = 1;
    expect_refusal(&p, ATTN_E_SHAPE, "enable_gqa");
    p.grouped = true;
    expect_refusal(&p, ATTN_OK, "");
    p = sound_problem(), p.key.dim[1] = p.value.dim[1] = 2, p.grouped = true;
    expect_refusal(&p, ATTN_E_SHAPE, "key");
    p = sound_problem(), p.mask = p.query, p.mask.dtype = ATTN_BOOL;
    expect_refusal(&p, ATTN_E_SHAPE, "attn_mask");
    p = sound_problem(), p.out.dim[3] = 5;
    expect_refusal(&p, ATTN_E_SHAPE, "out");
    p = sound_problem(), p.scaled = true, p.scale = NAN;
    expect_refusal(&p, ATTN_E_VALUE, "scale");
    p = sound_problem(), p.softcap = -1;
    expect_refusal(&p, ATTN_E_VALUE, "softcap");
    p = sound_problem(), p.dropout = 1.5;
    expect_refusal(&p, ATTN_E_VALUE, "dropout_p");
    p = sound_problem(), p.window_left = -2;
    expect_refusal(&p, ATTN_E_VALUE, "window");
}

/* Stride 0 makes arrays of any size; their product must not wrap around. */
static void check_huge(void)
{
    claim(NULL, "sizes whose product does not fit are refused as out of memory");
    for (int axis = 0; axis < 3; axis++) {
        attn_problem p = sound_problem();
        const ptrdiff_t huge = (ptrdiff_t)1 << 62;
        p.query.dim[axis] = huge;
        p.out.dim[axis] = huge;
        if (axis < 2)
            p.key.dim[axis] = p.value.dim[axis] = huge;
        expect_refusal(&p, ATTN_E_MEMORY, "query");
    }
    attn_problem p = sound_problem();
    p.key.dim[2] = p.value.dim[2] = PTRDIFF_MAX;
    expect_refusal(&p, ATTN_E_MEMORY, "query");
}

/* Without keys a row is 0 and its lse -inf; without queries or heads there is nothing to write. */
static void check_empty(void)
{
    claim(NULL, "problems without batches, heads, queries, keys or features are computed");
    for (int kind = 0; kind < 6; kind++) {
        attn_problem p = sound_problem();
        float out[2 * 3 * 4 * 7], lse[2 * 3 * 4], input[2 * 3 * 6 * 7];
        attn_shape shape;
        attn_fault fault;
        const attn_run run = {.threads = 2};
        for (size_t i = 0; i < sizeof input / sizeof *input; i++)
            input[i] = 1;
        context("kind %d", kind);
        p.query.dim[0] = p.key.dim[0] = p.value.dim[0] = p.out.dim[0] = kind == 0 ? 0 : 2;
        p.query.dim[1] = p.key.dim[1] = p.value.dim[1] = p.out.dim[1] = kind == 1 ? 0 : 3;
        p.query.dim[2] = p.out.dim[2] = kind == 2 ? 0 : 4;
        p.key.dim[2] = p.value.dim[2] = kind == 3 ? 0 : 6;
        p.query.dim[3] = p.key.dim[3] = kind == 4 ? 0 : 5;
        p.value.dim[3] = p.out.dim[3] = kind == 5 ? 0 : 7;
        p.query.data = p.key.data = p.value.data = input;
        p.out.data = out;
        p.lse = p.out, p.lse.axes = 3, p.lse.data = lse;
        for (ptrdiff_t axis = 3, step = 4; axis >= 0; axis--) {
            p.out.stride[axis] = step;
            step *= p.out.dim[axis];
        }
        for (ptrdiff_t axis = 2, step = 4; axis >= 0; axis--) {
            p.lse.stride[axis] = step;
            step *= p.lse.dim[axis];
        }
        memset(out, 0xff, sizeof out);
        memset(lse, 0xff, sizeof lse);
        expect(attn_check(&p, &shape, &fault) == ATTN_OK, "refused: %s", fault.text);
        expect(attn_forward(&p, &shape, &run) == ATTN_OK, "failed");
        const ptrdiff_t rows = kind < 3 ? 0 : 24;
        for (ptrdiff_t i = 0; i < rows * p.out.dim[3]; i++)
            expect(out[i] == (kind == 3 ? 0 : 1), "out[%td] is %g", i, out[i]);
        for (ptrdiff_t i = 0; i < rows; i++)
            expect(kind == 3 ? lse[i] == -INFINITY : isfinite(lse[i]), "lse[%td] is %g", i, lse[i]);
        expect(untouched(out + rows * p.out.dim[3], sizeof out - (size_t)(rows * p.out.dim[3]) * 4),
               "wrote to out");
    }
}

static attn_status call(int which, const struct problem *p, const struct array *sums)
{
    const attn_run run = {.threads = 3};
    switch (which) {
    case 0: return attn_forward(&p->problem, &p->shape, &run);
    case 1: return attn_key_weights(&p->problem, &p->shape, &sums->view, &run);
    default: return attn_softmax(&p->query.view, &p->query.view, &run);
    }
}

/* What is allocated before a failure must be freed: AddressSanitizer's leak check sees to that. */
static void check_allocation(void)
{
    static const char *const names[] = {"attn_forward", "attn_key_weights", "attn_softmax"};
    for (int which = 0; which < 3; which++) {
        struct rng rng = {22};
        struct problem p;
        struct array sums;
        attn_fault fault;
        ptrdiff_t dim[ATTN_MAX_AXES];
        claim(NULL, "%s returns ATTN_E_MEMORY whichever allocation fails", names[which]);
        uint64_t seed = 0;
        do { /* until one is large enough to need an allocation on every ISA */
            guarded_reset();
            make_problem(&p, ATTN_F16, seed++, PLAIN, AT_START);
            if (!expect(attn_check(&p.problem, &p.shape, &fault) == ATTN_OK, "refused"))
                return;
        } while (!p.problem.out.data || p.shape.keys < 96 || p.shape.features < 20);
        if (which == 1)
            p.problem.value.data = p.problem.out.data = p.problem.weights.data = NULL,
            p.problem.lse.data = NULL;
        memcpy(dim, p.shape.batch_dim, sizeof p.shape.batch_dim);
        dim[p.shape.batch_axes] = p.shape.heads;
        dim[p.shape.batch_axes + 1] = p.shape.keys;
        make_array(&sums, ATTN_F16, p.shape.batch_axes + 2, dim, PLAIN, true, AT_START, &rng);
        int allocations = 0;
        for (attn_status status = ATTN_E_MEMORY; status != ATTN_OK && allocations < 100;) {
            attn_fail_alloc_after(allocations);
            status = call(which, &p, &sums);
            attn_fail_alloc_after(-1);
            if (status == ATTN_OK)
                break;
            expect(status == ATTN_E_MEMORY, "status %d with %d allocations", (int)status,
                   allocations);
            allocations++;
        }
        expect(allocations > 0 && allocations < 100, "%d allocations failed", allocations);
    }
}

static void check_all(const struct subject *on)
{
    (void)on;
    for (int i = 0; i < DTYPES; i++) {
        check_key_weights(dtypes[i]);
        check_softmax_of_rows(dtypes[i]);
    }
    check_refusals();
    check_huge();
    check_empty();
    check_allocation();
}

void check_core_calls(bool quick)
{
    quickly = quick;
    run_check(check_all, NULL);
}
