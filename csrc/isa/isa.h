/* What every ISA needs before it opens its target region: headers that are not ours must be compiled
 * for the baseline. A file NAME_f32.c or NAME_f64.c sets REAL_BITS and includes NAME.h: each pair of
 * ISA and real type is its own translation unit, so kernels can have plain names. */
#include <math.h>
#include <string.h>

#include "../kernel/kernels.h"
#include "../simd/half.h"

#if REAL_BITS == 32
typedef float real;
#define FILL(isa) attn_##isa##_f32
#else
typedef double real;
#define FILL(isa) attn_##isa##_f64
#endif
