/* The generic kernels, double: plain C, compiled for the baseline machine. */
#define REAL_BITS 64
#include "isa.h"

#include "../simd/generic.h"
#include "../kernel/table.inc.c"

void attn_generic_f64(struct attn_kernels *table) { fill_table(table, "generic"); }
