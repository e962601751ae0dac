#define REAL_BITS 32
#include "neon.h"
