/* The checker: every kernel of every ISA that this CPU has, the core, and the pool.
 *
 *     check [--quick] [--no-fork] [--bench] [kernels | core | pool | an ISA]
 *
 * --quick tries fewer sizes, for emulators and sanitizers; --no-fork is for emulators in which a
 * forked child can't make threads; --bench times kernels instead. The last line of a check is
 * "N passed, N failed". */
#include "check.h"

#include "../../csrc/core/cpu.h"

typedef void (*fill)(struct attn_kernels *table);

static const struct {
    const char *isa;
    fill f32, f64;
} tables[] = {
    {"generic", attn_generic_f32, attn_generic_f64},
#if defined(__x86_64__)
    {"avx2", attn_avx2_f32, attn_avx2_f64},
    {"avx512", attn_avx512_f32, attn_avx512_f64},
#elif defined(__aarch64__)
    {"neon", attn_neon_f32, attn_neon_f64},
#endif
};

static void (*const checks[])(const struct subject *) = {check_product, check_rows,  check_finite,
                                                         check_softmax, check_lanes, check_scores,
                                                         check_pack,    check_half,  check_dropout};

static void (*const benches[])(const struct attn_kernels *) = {
    bench_product, bench_rows, bench_softmax, bench_lanes, bench_scores, bench_pack, bench_dropout};

static void check_table(fill isa, fill generic, bool quick, bool bench)
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
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (only && strcmp(only, tables[i].isa) != 0)
            continue;
        if (!attn_cpu_has(tables[i].isa)) {
            printf("(this CPU has no %s)\n", tables[i].isa);
            continue;
        }
        check_table(tables[i].f32, tables[0].f32, quick, bench);
        check_table(tables[i].f64, tables[0].f64, quick, bench);
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
    if (all || pool)
        stress_pool(quick, forks);
    return claims_total();
}
