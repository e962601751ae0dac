#define REAL_BITS 64
#include "avx512.h"
