// interrupt.h: passes Ctrl-C from the program's signal handler to long-running work. A binding passes
// tperf_interrupt_flag() to the core, which polls it and stops with its results so far; the binding then calls
// tperf_interrupt_take() to confirm. A request that is never taken ends the script at its next instruction. The library
// for other programs has a flag for each of its handles.
#ifndef TPERF_INTERRUPT_H
#define TPERF_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

// Has this thread look at a flag of its own from now on; NULL: at that of the process again.
void tperf_interrupt_use(atomic_int *own);

// Nonzero while a request to stop is pending. Safe to read from any thread and from signal handlers.
const atomic_int *tperf_interrupt_flag(void);

// Asks the running work to stop. Async-signal-safe.
void tperf_interrupt_raise(void);

// Whether a request was pending; clears it.
bool tperf_interrupt_take(void);

#endif
