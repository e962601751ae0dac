/* attn_check and attn_forward on random problems, in arrays of any layout between guard pages,
 * against the plain solution. */
#include "core.h"

static const attn_dtype dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32, ATTN_F64};

static void describe(const struct problem *p, uint64_t seed)
{
    const attn_problem *q = &p->problem;
    const attn_shape *s = &p->shape;
    context("problem %d (%s, %td x %td/%td x %td x %td, %td and %td features%s%s%s%s%s%s%s%s%s)",
            (int)seed, attn_dtype_name(q->query.dtype), s->batches, s->heads, s->kv_heads,
            s->queries, s->keys, s->features, s->value_features, q->mask.data ? ", mask" : "",
            q->causal ? ", causal" : "",
            q->window_left != ATTN_OPEN || q->window_right != ATTN_OPEN ? ", window" : "",
            q->kv_lens.data || q->q_lens.data ? ", lengths" : "", q->softcap > 0 ? ", softcap" : "",
            q->alibi_slopes.data ? ", alibi" : "", q->sinks.data ? ", sinks" : "",
            q->dropout > 0 ? ", dropout" : "", q->weights.data ? ", weights" : "");
}

static bool run(struct problem *p, int threads)
{
    attn_fault fault = {"", ""};
    const attn_run how = {.threads = threads};
    attn_status status = attn_check(&p->problem, &p->shape, &fault);
    if (status == ATTN_OK)
        status = attn_check_values(&p->problem, &p->shape, &fault);
    if (!expect(status == ATTN_OK, "refused %s: %s", fault.argument, fault.text))
        return false;
    status = attn_forward(&p->problem, &p->shape, &how);
    return expect(status == ATTN_OK, "attn_forward returned %d", (int)status);
}

/* Where a batch of that number is along each leading axis. */
static void find_batch(const attn_shape *shape, ptrdiff_t number, ptrdiff_t *index)
{
    for (int axis = shape->batch_axes - 1; axis >= 0; axis--) {
        index[axis] = number % shape->batch_dim[axis];
        number /= shape->batch_dim[axis];
    }
}

static void expect_row(const struct problem *p, const ptrdiff_t *batch, ptrdiff_t head,
                       ptrdiff_t query, const struct solution *s)
{
    const attn_problem *q = &p->problem;
    const int axes = p->shape.batch_axes;
    ptrdiff_t index[ATTN_MAX_AXES + 3];
    memcpy(index, batch, (size_t)axes * sizeof *index);
    index[axes] = head;
    index[axes + 1] = query;
    if (q->lse.data)
        expect_near(view_at(&q->lse, index, axes + 2), s->lse, s->lse_bound, "lse", query, 0);
    for (int key = 0; q->weights.data && key < p->shape.keys; key++) {
        const bool softmax = q->stage == ATTN_WEIGHTS;
        index[axes + 2] = key;
        expect_near(view_at(&q->weights, index, axes + 3), softmax ? s->weight[key] : s->score[key],
                    softmax ? s->weight_bound[key] : s->score_bound[key], "weights", query, key);
    }
    for (int e = 0; q->out.data && e < p->shape.value_features; e++) {
        index[axes + 2] = e;
        expect_near(view_at(&q->out, index, axes + 3), s->out[e], s->out_bound[e], "out", query, e);
    }
}

static void expect_solution(const struct problem *p)
{
    static struct solution solution;
    ptrdiff_t batch[ATTN_MAX_AXES];
    for (ptrdiff_t b = 0; b < p->shape.batches; b++)
        for (ptrdiff_t head = 0; head < p->shape.heads; head++)
            for (ptrdiff_t query = 0; query < p->shape.queries; query++) {
                find_batch(&p->shape, b, batch);
                solve_row(p, batch, head, query, &solution);
                expect_row(p, batch, head, query, &solution);
            }
}

/* Copies of the bytes of all inputs, or comparisons with them. */
static void snapshot(struct problem *p, char *copies[INPUTS], bool compare)
{
    for (int i = 0; i < INPUTS; i++) {
        const char *name;
        const struct array *array = problem_array(p, i, &name);
        if (array->span == 0)
            continue;
        if (!compare) {
            copies[i] = malloc(array->span);
            memcpy(copies[i], array->lowest, array->span);
            continue;
        }
        expect(memcmp(copies[i], array->lowest, array->span) == 0, "wrote to %s", name);
        free(copies[i]);
    }
}

static void check_forward(attn_dtype dtype, int problems)
{
    claim(NULL, "attention of %s is right, whatever its shape, options and layout",
          attn_dtype_name(dtype));
    for (int seed = 0; seed < problems; seed++) {
        struct problem p;
        char *inputs[INPUTS];
        guarded_reset();
        make_problem(&p, dtype, (uint64_t)seed, seed % 4 ? WILD : PLAIN,
                     (enum place)(seed % PLACES));
        snapshot(&p, inputs, false);
        if (!run(&p, 1 + seed % 3))
            return;
        describe(&p, (uint64_t)seed);
        snapshot(&p, inputs, true);
        expect_solution(&p);
        for (int i = INPUTS; i < ARRAYS; i++) {
            const char *name;
            const struct array *array = problem_array(&p, i, &name);
            if (array->view.data)
                expect_array_gaps(array, name);
        }
    }
}

/* NaN in a few keys and values, whether they are masked or not. */
static void poison(struct problem *p, uint64_t seed)
{
    struct rng rng = {seed};
    const attn_view *views[] = {&p->problem.key, &p->problem.value};
    for (int which = 0; which < 2; which++)
        for (int i = 0; views[which]->data && i < 3; i++)
            store_dtype(array_at(views[which], rng_below(&rng, array_size(views[which]))), NAN,
                        views[which]->dtype);
}

static void check_poison(attn_dtype dtype, int problems)
{
    claim(NULL, "NaN in keys and values of %s reaches the rows that see it, and no other",
          attn_dtype_name(dtype));
    for (int seed = 1000; seed < 1000 + problems; seed++) {
        struct problem p;
        guarded_reset();
        make_problem(&p, dtype, (uint64_t)seed, WILD, (enum place)(seed % PLACES));
        poison(&p, (uint64_t)seed);
        if (!run(&p, 2))
            return;
        describe(&p, (uint64_t)seed);
        expect_solution(&p);
    }
}

static void expect_same(struct problem *a, struct problem *b, const char *what)
{
    for (int i = INPUTS; i < ARRAYS; i++) {
        const char *name;
        const attn_view *one = &problem_array(a, i, &name)->view;
        const attn_view *other = &problem_array(b, i, &name)->view;
        const ptrdiff_t size = one->data ? array_size(one) : 0;
        for (ptrdiff_t at = 0; at < size; at++) {
            const double x = load_dtype(array_at(one, at), one->dtype);
            const double y = load_dtype(array_at(other, at), other->dtype);
            expect(same_bits(x, y), "%s[%td] is %.17g, and %.17g %s", name, at, x, y, what);
        }
    }
}

static void check_bits(attn_dtype dtype, int problems)
{
    claim(NULL, "results of %s have the same bits in any layout and on any number of threads",
          attn_dtype_name(dtype));
    for (int seed = 2000; seed < 2000 + problems; seed++) {
        struct problem wild, plain;
        guarded_reset();
        make_problem(&wild, dtype, (uint64_t)seed, WILD, AT_END);
        make_problem(&plain, dtype, (uint64_t)seed, PLAIN, AT_START);
        for (int i = 0; i < INPUTS; i++) {
            const char *name;
            const struct array *from = problem_array(&wild, i, &name);
            if (from->view.data)
                copy_array(problem_array(&plain, i, &name), from);
        }
        if (!run(&wild, 1) || !run(&plain, 4))
            return;
        describe(&plain, (uint64_t)seed);
        expect_same(&wild, &plain, "laid out plainly, on 4 threads");
    }
}

static bool quickly;

static void check_all(const struct subject *on)
{
    (void)on;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        check_forward(dtypes[i], quickly ? 30 : 250);
        check_poison(dtypes[i], quickly ? 15 : 120);
        check_bits(dtypes[i], quickly ? 20 : 120);
    }
}

void check_core(bool quick)
{
    quickly = quick;
    printf("(the core runs on %s)\n", attn_isa_used());
    run_check(check_all, NULL);
}
