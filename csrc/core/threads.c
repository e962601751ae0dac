/* threads.c: how many threads a call uses when it does not say: attn_set_threads, else
 * ATTNMOD_NUM_THREADS, else OMP_NUM_THREADS, else the processors that the process may use. */
#include <stdlib.h>

#include "../attn.h"
#include "cpu.h"

enum { MOST_THREADS = 1024 };

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
    return number < MOST_THREADS ? (int)number : MOST_THREADS;
}

int attn_get_threads(void)
{
    int threads = chosen;
    if (threads == 0)
        threads = from_environment("ATTNMOD_NUM_THREADS");
    if (threads == 0)
        threads = from_environment("OMP_NUM_THREADS");
    if (threads == 0)
        threads = attn_cpu_count();
    chosen = threads;
    return threads;
}

void attn_set_threads(int threads) { chosen = threads < MOST_THREADS ? threads : MOST_THREADS; }
