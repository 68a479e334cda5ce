// error.c: see tperf/error.h.
#include "tperf/error.h"

#include <stdarg.h>
#include <stdio.h>

tperf_status tperf_error_set(tperf_error *error, tperf_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}
