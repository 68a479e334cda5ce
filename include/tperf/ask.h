// ask.h: questions and answers as JSON, from C and from languages that call C. Everything that tperf answers can be
// asked so (docs/ask.md); the other headers are the core alone, which describes models by structs. In libtperf.so,
// which holds the Lua library.
#ifndef TPERF_ASK_H
#define TPERF_ASK_H

#include "tperf/error.h"

#if defined __GNUC__
#define TPERF_EXPORT __attribute__((visibility("default")))
#else
#define TPERF_EXPORT
#endif

typedef struct tperf_handle tperf_handle;

// A handle keeps what its questions have in common. Each is used by one thread at a time; threads have their own.
// data: the folder that holds models, systems, software and kernels; NULL: TPERF_PATH, or tperf's installation.
// NULL, with *error filled (may be NULL), if memory is out or the folder holds no data.
TPERF_EXPORT tperf_handle *tperf_open(const char *data, tperf_error *error);

// Answers a question with a line of JSON without its end, which tperf_free releases. Errors of a question are answers:
// { "error": { … } }. With *line NULL, TPERF_NO_MEMORY if memory is out for the answer itself, and TPERF_INTERRUPTED if it
// was cancelled.
TPERF_EXPORT tperf_status tperf_ask(tperf_handle *handle, const char *question, char **line);

// Ends the question that a handle answers, within milliseconds; without one, nothing. For any thread and signal handler.
// What the handle kept is lost.
TPERF_EXPORT void tperf_cancel(tperf_handle *handle);

// How far the question under way is, for any thread: of *total so many are *done; *total is 0 if that is not known, both
// are 0 if nothing is.
TPERF_EXPORT void tperf_progress(tperf_handle *handle, long *done, long *total);

TPERF_EXPORT void tperf_free(char *line);            // NULL is fine
TPERF_EXPORT void tperf_close(tperf_handle *handle); // NULL is fine

#endif
