/* errors.h: from the core's statuses to Python's exceptions. */
#ifndef ATTN_ERRORS_H
#define ATTN_ERRORS_H

#include "python.h"

/* Sets the exception for a status other than ATTN_OK. fault may be NULL where nothing was checked. */
void raise_status(attn_status status, const attn_fault *fault);

#endif
