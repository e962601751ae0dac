/* status.c: see status.h; the names of types. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

attn_status attn_fail(attn_fault *fault, attn_status status, const char *argument,
                      const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(fault->text, sizeof fault->text, format, values);
    va_end(values);
    fault->argument = argument;
    return status;
}

struct attn_shape_text attn_shape_text(const ptrdiff_t *dim, int axes)
{
    struct attn_shape_text shape = {"("};
    const size_t room = sizeof shape.text - sizeof ", …)";
    size_t used = 1;
    for (int axis = 0; axis < axes; axis++) {
        char number[24];
        const int length = snprintf(number, sizeof number, "%s%td", axis > 0 ? ", " : "",
                                    dim[axis]);
        if (used + (size_t)length > room) {
            snprintf(shape.text + used, sizeof shape.text - used, ", …)");
            return shape;
        }
        snprintf(shape.text + used, sizeof shape.text - used, "%s", number);
        used += (size_t)length;
    }
    snprintf(shape.text + used, sizeof shape.text - used, axes == 1 ? ",)" : ")");
    return shape;
}

size_t attn_dtype_size(attn_dtype dtype)
{
    static const size_t size[] = {1, 2, 2, 4, 8, 8};
    return size[dtype];
}

const char *attn_dtype_name(attn_dtype dtype)
{
    static const char *const name[] = {"bool",    "float16", "bfloat16",
                                       "float32", "float64", "int64"};
    return name[dtype];
}
