/* threads.c: how many threads a call uses when it does not say: attn_set_threads, else
 * ATTNMOD_NUM_THREADS, else OMP_NUM_THREADS, else the processors that the process may use. */
#include <stdlib.h>

#include "../attn.h"
#include "cpu.h"

static atomic_int chosen; /* 0: not yet */

/* The first number of an environment variable ("4", or "4,2" as OpenMP writes nested levels); 0 for
 * none, or for something else. */
static int from_environment(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || (*end != '\0' && *end != ',') || number < 1)
        return 0;
    return number < ATTN_MAX_THREADS ? (int)number : ATTN_MAX_THREADS;
}

int attn_get_threads(void)
{
    int threads = chosen, none = 0;
    if (threads != 0)
        return threads;
    threads = from_environment("ATTNMOD_NUM_THREADS");
    if (threads == 0)
        threads = from_environment("OMP_NUM_THREADS");
    if (threads == 0)
        threads = attn_cpu_count();
    threads = threads < ATTN_MAX_THREADS ? threads : ATTN_MAX_THREADS;
    /* Whoever set the number meanwhile has said what it shall be. */
    return atomic_compare_exchange_strong(&chosen, &none, threads) ? threads : none;
}

void attn_set_threads(int threads)
{
    chosen = threads < ATTN_MAX_THREADS ? threads : ATTN_MAX_THREADS;
}
