/* The generic kernels, float: plain C, compiled for the baseline machine. */
#define REAL_BITS 32
#include "isa.h"

#include "../simd/generic.h"
#include "../kernel/table.inc.c"

void attn_generic_f32(struct attn_kernels *table) { fill_table(table, "generic"); }
