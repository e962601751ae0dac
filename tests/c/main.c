/* The checker: every kernel of every ISA that this CPU has, the core, and the pool.
 *
 *     check [--quick] [--no-fork] [--bench] [kernels | core | pool | an ISA]
 *
 * --quick tries fewer sizes, for emulators and sanitizers; --no-fork is for emulators in which a
 * forked child can't make threads; --bench times kernels instead. The last line of a check is
 * "N passed, N failed". */
#include "check.h"

#include "../../csrc/core/cpu.h"
#include "../../csrc/core/dispatch.h"

static void (*const checks[])(const struct subject *) = {check_product, check_rows,  check_finite,
                                                         check_softmax, check_lanes, check_scores,
                                                         check_pack,    check_half,  check_dropout};

static void (*const benches[])(const struct attn_kernels *) = {
    bench_product, bench_rows, bench_softmax, bench_lanes, bench_scores, bench_pack, bench_dropout};

static void check_table(attn_fill isa, attn_fill generic, bool quick, bool bench)
{
    struct attn_kernels table, generic_table;
    isa(&table);
    generic(&generic_table);
    const struct subject on = {&table, &generic_table, quick};
    if (bench)
        for (size_t i = 0; i < sizeof benches / sizeof *benches; i++)
            benches[i](&table);
    else
        for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
            run_check(checks[i], &on);
}

static void check_kernels(const char *only, bool quick, bool bench)
{
    const struct attn_isa *const generic = attn_isa_of_rank(0), *isa;
    for (int rank = 0; (isa = attn_isa_of_rank(rank)); rank++) {
        if (only && strcmp(only, isa->name) != 0)
            continue;
        if (!attn_cpu_has(isa->name)) {
            printf("(this CPU has no %s)\n", isa->name);
            continue;
        }
        check_table(isa->f32, generic->f32, quick, bench);
        check_table(isa->f64, generic->f64, quick, bench);
    }
}

int main(int count, char **arguments)
{
    bool quick = false, bench = false, forks = true;
    const char *part = "all";
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--quick") == 0)
            quick = true;
        else if (strcmp(arguments[i], "--bench") == 0)
            bench = true;
        else if (strcmp(arguments[i], "--no-fork") == 0)
            forks = false;
        else
            part = arguments[i];
    }
    const bool all = strcmp(part, "all") == 0, core = strcmp(part, "core") == 0;
    const bool pool = strcmp(part, "pool") == 0;
    if (!core && !pool)
        check_kernels(all || strcmp(part, "kernels") == 0 ? NULL : part, quick, bench);
    if (bench)
        return EXIT_SUCCESS;
    if (all || core) {
        check_core(quick);
        check_core_calls(quick);
    }
    if (all || pool) {
        stress_pool(quick, forks);
        stress_together(quick, forks);
    }
    return claims_total();
}
