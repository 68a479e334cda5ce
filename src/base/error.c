// error.c: see tperf/error.h.
#include "tperf/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/locale.h"

tperf_status tperf_error_set(tperf_error *error, tperf_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        locale_t before = tperf_locale_enter();
        vsnprintf(error->message, sizeof error->message, format, arguments);
        tperf_locale_leave(before);
        va_end(arguments);
    }
    return status;
}
