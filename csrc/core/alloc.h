/* alloc.h: the core's only allocation. Tests make the n-th one fail (-DATTN_FAIL_ALLOC). */
#ifndef ATTN_ALLOC_H
#define ATTN_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* At least size bytes, aligned to 64; NULL when there are none. */
void *attn_alloc(size_t size);
void  attn_free(void *memory);

/* a * b, or a + b, in *result; false when it does not fit. */
bool attn_product(ptrdiff_t a, ptrdiff_t b, ptrdiff_t *result);
bool attn_sum(ptrdiff_t a, ptrdiff_t b, ptrdiff_t *result);

#ifdef ATTN_FAIL_ALLOC
/* Lets `count` more allocations succeed and fails those after; -1 ends it. */
void attn_fail_alloc_after(long count);
#endif

#endif
