// error.h: how the core reports what went wrong.
// A core function returns a tp_status and, unless it is TP_OK, fills the caller's tp_error with one
// sentence that names the field and the value. Nothing here prints, allocates or exits.
#ifndef TPERF_ERROR_H
#define TPERF_ERROR_H

typedef enum tp_status {
    TP_OK = 0,
    TP_INVALID,     // an argument is out of its range or contradicts another
    TP_NO_MEMORY,   // an allocation failed; the message has "not enough memory", as Lua's own
    TP_INTERRUPTED, // the caller asked to stop
} tp_status;

typedef struct tp_error {
    char message[512]; // no trailing newline or full stop; truncated when longer
} tp_error;

// Fills *error (may be NULL) and returns status.
tp_status tp_error_set(tp_error *error, tp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Forwards a failure to the caller.
#define TP_TRY(expression)                                                                         \
    do {                                                                                           \
        tp_status tp_try_status = (expression);                                                    \
        if (tp_try_status != TP_OK) return tp_try_status;                                          \
    } while (0)

#endif
