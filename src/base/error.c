// error.c: see tperf/error.h.
#include "tperf/error.h"

#include <stdarg.h>
#include <stdio.h>

tp_status tp_error_set(tp_error *error, tp_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}
