/* dispatch.h: the kernel table for this machine. */
#ifndef ATTN_DISPATCH_H
#define ATTN_DISPATCH_H

#include "../kernel/kernels.h"

/* The best ISA that was compiled, that the CPU has, and that ATTNMOD_ISA does not hide: naming one
 * there hides those above it. double for ATTN_F64, float for all other types. */
const struct attn_kernels *attn_dispatch(attn_dtype dtype);

#endif
