/* alloc.h: the core's only allocation. Tests make the n-th one fail (-DATTN_FAIL_ALLOC). */
#ifndef ATTN_ALLOC_H
#define ATTN_ALLOC_H

#include <stddef.h>

/* At least size bytes, aligned to 64; NULL when there are none. */
void *attn_alloc(size_t size);
/* The last block, unless it is large, is kept for the next call: malloc would give scratch back to the
 * system after every call, and every call would pay for its pages anew. */
void attn_free(void *memory);

#ifdef ATTN_FAIL_ALLOC
/* Lets `count` more allocations succeed and fails those after; -1 ends it. */
void attn_fail_alloc_after(long count);
#endif

#endif
