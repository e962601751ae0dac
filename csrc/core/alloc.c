/* alloc.c: see alloc.h. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    ALIGNMENT = 64, /* a cache line, and the widest vector */
    LARGEST_SPARE = 4 * 1024 * 1024,
};

#ifdef ATTN_FAIL_ALLOC
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

/* What stands before the memory of a block. */
union block {
    size_t size; /* of the memory */
    char line[ALIGNMENT];
};

static _Atomic(union block *) spare;

void *attn_alloc(size_t size)
{
    if (size > PTRDIFF_MAX - 2 * ALIGNMENT || allocation_fails())
        return NULL;
    union block *block = atomic_exchange(&spare, NULL);
    if (!block || block->size < size) {
        free(block);
        size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        block = aligned_alloc(ALIGNMENT, sizeof *block + size);
        if (!block)
            return NULL;
        block->size = size;
    }
    return block + 1;
}

void attn_free(void *memory)
{
    union block *block = memory ? (union block *)memory - 1 : NULL;
    if (block && block->size <= LARGEST_SPARE) {
        union block *other = atomic_exchange(&spare, block);
        if (other && other->size > block->size) /* the larger one serves more calls */
            other = atomic_exchange(&spare, other);
        block = other;
    }
    free(block);
}
