/* AVX2, FMA and F16C kernels. The region compiles them for that ISA whatever the compiler's flags are. */
#if defined(__x86_64__)
#include "isa.h"

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "../simd/avx2.h"
#include "../kernel/table.inc.c"

void FILL(avx2)(struct attn_kernels *table) { fill_table(table, "avx2"); }

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
