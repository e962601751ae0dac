#define REAL_BITS 32
#include "avx2.h"
