/* Times of kernels: the fastest of many passes, since all that disturbs a pass makes it slower. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct timing timing_start(void) { return (struct timing){.best = INFINITY, .end = now() + 0.02}; }

bool timing_more(struct timing *timing)
{
    const double time = now();
    if (timing->last > 0 && time - timing->last < timing->best)
        timing->best = time - timing->last;
    timing->last = now();
    return time < timing->end;
}

static void report(const struct attn_kernels *isa, const char *what, double figure,
                   const char *unit)
{
    printf("%-8s %s  %-34s %8.3g %s\n", isa->isa, isa->real_size == sizeof(float) ? "f32" : "f64",
           what, figure, unit);
}

void report_rate(const struct attn_kernels *isa, const char *what, double flops, double seconds)
{
    report(isa, what, 1e-9 * flops / seconds, "GF/s");
}

void report_each(const struct attn_kernels *isa, const char *what, double elements, double seconds)
{
    report(isa, what, 1e9 * seconds / elements, "ns each");
}
