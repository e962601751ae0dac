#define REAL_BITS 64
#include "avx2.h"
