/* The generic kernels: plain C, compiled for the baseline machine. */
#include "isa.h"

#include "../simd/generic.h"
#include "../kernel/table.inc.c"

void FILL(generic)(struct attn_kernels *table) { fill_table(table, "generic"); }
