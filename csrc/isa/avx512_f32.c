#define REAL_BITS 32
#include "avx512.h"
