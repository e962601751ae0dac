/* What every file of this folder needs before it opens its target region: headers that are not ours
 * must be compiled for the baseline. REAL_BITS is set by the including file. */
#include <math.h>
#include <string.h>

#include "../kernel/kernels.h"
#include "../simd/half.h"

#if REAL_BITS == 32
typedef float real;
#else
typedef double real;
#endif
