#define REAL_BITS 64
#include "generic.h"
