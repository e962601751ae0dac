/* status.h: faults, and numbers in words. */
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

#include "../attn.h"

/* Fills *fault with the printf-style text and returns status, so that a check can end in one line. */
__attribute__((format(printf, 4, 5))) attn_status
attn_fail(attn_fault *fault, attn_status status, const char *argument, const char *format, ...);

/* A shape as Python writes it: "(2, 8, 64)", "(5,)", "()". */
struct attn_shape_text {
    char text[100];
};
struct attn_shape_text attn_shape_text(const ptrdiff_t *dim, int axes);

#endif
