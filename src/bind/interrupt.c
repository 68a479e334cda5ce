// interrupt.c: see bind/interrupt.h. One process has one keyboard, hence the one global.
#include "bind/interrupt.h"

static atomic_int interrupted;

const atomic_int *tperf_interrupt_flag(void) {
    return &interrupted;
}

void tperf_interrupt_raise(void) {
    atomic_store(&interrupted, 1);
}

bool tperf_interrupt_take(void) {
    return atomic_exchange(&interrupted, 0) != 0;
}
