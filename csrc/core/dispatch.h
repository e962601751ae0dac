/* dispatch.h: the ISAs, and the kernel table for this machine. */
#ifndef ATTN_DISPATCH_H
#define ATTN_DISPATCH_H

#include "../kernel/kernels.h"

/* An ISA that was compiled, and what fills its tables. */
typedef void (*attn_fill)(struct attn_kernels *table);
struct attn_isa {
    const char *name;
    attn_fill f32, f64;
};

/* By rank: "generic" first, a later one is better; NULL past the last. */
const struct attn_isa *attn_isa_of_rank(int rank);

/* The best ISA that was compiled, that the CPU has, and that ATTNMOD_ISA does not hide: naming one
 * there hides those above it. double for ATTN_F64, float for all other types. */
const struct attn_kernels *attn_dispatch(attn_dtype dtype);

#endif
