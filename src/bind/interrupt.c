// interrupt.c: see bind/interrupt.h. One process has one keyboard, hence the one global.
#include "bind/interrupt.h"

static atomic_int interrupted;
#ifdef __EMSCRIPTEN__
static atomic_int
    *own_flag; // the page has one thread, and its engine sets up no storage of threads
#else
static _Thread_local atomic_int *own_flag;
#endif

static atomic_int *flag(void) {
    return own_flag ? own_flag : &interrupted;
}

void tperf_interrupt_use(atomic_int *own) {
    own_flag = own;
}

const atomic_int *tperf_interrupt_flag(void) {
    return flag();
}

void tperf_interrupt_raise(void) {
    atomic_store(&interrupted, 1);
}

bool tperf_interrupt_take(void) {
    return atomic_exchange(flag(), 0) != 0;
}
