#define REAL_BITS 32
#include "generic.h"
