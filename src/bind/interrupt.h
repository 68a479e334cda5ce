// interrupt.h: Ctrl-C, between the program's signal handler and whatever runs long.
// A binding that starts long work passes tperf_interrupt_flag() to the core, which polls it and stops with what
// it has so far; the binding then calls tperf_interrupt_take() to say that the request was honoured. What nobody
// takes ends the script at its next instruction.
#ifndef TPERF_INTERRUPT_H
#define TPERF_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

// Nonzero while a request to stop is pending. Safe to read from any thread and from signal handlers.
const atomic_int *tperf_interrupt_flag(void);

// Asks the running work to stop. Async-signal-safe.
void tperf_interrupt_raise(void);

// Whether a request was pending; it no longer is.
bool tperf_interrupt_take(void);

#endif
