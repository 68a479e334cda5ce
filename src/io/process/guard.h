// guard.h: removes a temporary folder when the process ends, however it ends: a small process waits for the end of this
// one, which also a kill brings.
#ifndef TPERF_GUARD_H
#define TPERF_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct tperf_guard {
    volatile sig_atomic_t on;
    int line; // its closing tells the guard that this process has ended
    pid_t process;
} tperf_guard;

#define TPERF_GUARD_NONE                                                                           \
    { 0, -1, 0 }

// Starts the guard of a folder, an absolute path; false with errno.
bool tperf_guard_start(tperf_guard *guard, const char *folder);

// Has the guard, if it is on, remove the folder now, and waits for that. Async-signal-safe; preserves errno.
void tperf_guard_end(tperf_guard *guard);

#endif
