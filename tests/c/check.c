/* Claims, their totals, and crashes as failures. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>

static struct {
    bool open, failed;
    char text[200], context[160];
    double worst; /* the largest share of a bound that was used up, or -1 */
} current;

static int passed, failed;

static sigjmp_buf after_crash;
static volatile sig_atomic_t crash_signal;
static const void *volatile crash_address;

static void close_claim(void)
{
    if (!current.open)
        return;
    current.open = false;
    *(current.failed ? &failed : &passed) += 1;
    if (current.failed)
        return;
    printf("ok    %s", current.text);
    if (current.worst >= 0)
        printf(" (worst: %.0f %% of the bound)", 100 * current.worst);
    printf("\n");
    fflush(stdout); /* before a child or a crash can */
}

void claim(const struct attn_kernels *isa, const char *text, ...)
{
    close_claim();
    int used = 0;
    if (isa)
        used = snprintf(current.text, sizeof current.text, "%-8s %s  ", isa->isa,
                        isa->real_size == sizeof(float) ? "f32" : "f64");
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(current.text + used, sizeof current.text - (size_t)used, text, arguments);
    va_end(arguments);
    current.context[0] = '\0';
    current.open = true;
    current.failed = false;
    current.worst = -1;
}

void context(const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(current.context, sizeof current.context, text, arguments);
    va_end(arguments);
}

/* Only a claim's first failure is told: the others mostly follow from it. */
bool expect(bool held, const char *text, ...)
{
    if (held || current.failed)
        return held;
    current.failed = true;
    printf("FAIL  %s\n        ", current.text);
    if (current.context[0])
        printf("%s: ", current.context);
    va_list arguments;
    va_start(arguments, text);
    vprintf(text, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    return false;
}

bool expect_near(double got, wide want, wide bound, const char *what, ptrdiff_t row, int lane)
{
    if (isnan(want))
        return expect(isnan(got), "%s[%td, %d] expected NaN, got %.17g", what, row, lane, got);
    if (isinf(want))
        return expect(got == (double)want, "%s[%td, %d] expected %g, got %.17g", what, row, lane,
                      (double)want, got);
    const wide error = fabsl(got - want);
    if (error <= bound && bound > 0 && (double)(error / bound) > current.worst)
        current.worst = (double)(error / bound);
    return expect(error <= bound, "%s[%td, %d] expected %.17g within %.3g, got %.17g (off by %.3g)",
                  what, row, lane, (double)want, (double)bound, got, (double)error);
}

static void on_crash(int number, siginfo_t *info, void *machine)
{
    (void)machine;
    crash_signal = number;
    crash_address = info->si_addr;
    siglongjmp(after_crash, 1);
}

static void catch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static void report_crash(void)
{
    char where[100];
    guarded_describe((const void *)crash_address, where, sizeof where);
    expect(false, "signal %d, touched %s", (int)crash_signal, where);
}

void run_check(void (*check)(const struct subject *), const struct subject *on)
{
    catch_crashes();
    guarded_reset();
    if (sigsetjmp(after_crash, 1) == 0)
        check(on);
    else
        report_crash();
    close_claim();
}

int claims_total(void)
{
    close_claim();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
