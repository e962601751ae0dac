/* NEON kernels. Every 64-bit ARM has NEON, so there is no region to open. */
#if defined(__aarch64__)
#include "isa.h"

#include <arm_neon.h>

#include "../simd/neon.h"
#include "../kernel/table.inc.c"

void FILL(neon)(struct attn_kernels *table) { fill_table(table, "neon"); }
#endif
