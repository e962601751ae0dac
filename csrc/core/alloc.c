/* alloc.c: see alloc.h. */
#include "alloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 }; /* a cache line, and the widest vector */

#ifdef ATTN_FAIL_ALLOC
#include <stdatomic.h>
static atomic_long allocations_left = -1;

void attn_fail_alloc_after(long count) { allocations_left = count; }

static bool allocation_fails(void)
{
    long left = allocations_left;
    while (left > 0 && !atomic_compare_exchange_weak(&allocations_left, &left, left - 1))
        ;
    return left == 0;
}
#else
static bool allocation_fails(void) { return false; }
#endif

void *attn_alloc(size_t size)
{
    if (size > PTRDIFF_MAX - ALIGNMENT || allocation_fails())
        return NULL;
    return aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

void attn_free(void *memory) { free(memory); }
