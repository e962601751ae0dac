#define REAL_BITS 64
#include "neon.h"
