/* AVX-512 kernels, double. The region compiles them for that ISA whatever the compiler's flags are. */
#if defined(__x86_64__)
#define REAL_BITS 64
#include "isa.h"
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#endif

#include "../simd/avx512.h"
#include "../kernel/table.inc.c"

void attn_avx512_f64(struct attn_kernels *table) { fill_table(table, "avx512"); }

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
