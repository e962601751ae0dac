/* AVX-512 (F, BW, DQ, VL) kernels. The region compiles them for that ISA whatever the compiler's flags are. */
#if defined(__x86_64__)
#include "isa.h"

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))),    \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#endif

#include "../simd/avx512.h"
#include "../kernel/table.inc.c"

void FILL(avx512)(struct attn_kernels *table) { fill_table(table, "avx512"); }

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
