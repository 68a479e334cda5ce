// error.h: how the core reports errors.
// A core function returns a tperf_status and, unless it is TPERF_OK, fills the caller's tperf_error with one
// sentence that names the field and the value. Nothing here prints, allocates or exits.
#ifndef TPERF_ERROR_H
#define TPERF_ERROR_H

typedef enum tperf_status {
    TPERF_OK = 0,
    TPERF_INVALID,     // an argument is out of its range or contradicts another
    TPERF_NO_MEMORY,   // an allocation failed; the message contains "not enough memory", like Lua's
    TPERF_INTERRUPTED, // the caller asked to stop
} tperf_status;

typedef struct tperf_error {
    char message[512]; // no trailing newline or full stop; truncated if longer
} tperf_error;

// Fills *error (may be NULL) and returns status.
tperf_status tperf_error_set(tperf_error *error, tperf_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Forwards a failure to the caller.
#define TPERF_TRY(expression)                                                                      \
    do {                                                                                           \
        tperf_status tperf_try_status = (expression);                                              \
        if (tperf_try_status != TPERF_OK) return tperf_try_status;                                 \
    } while (0)

#endif
