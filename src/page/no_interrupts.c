// no_interrupts.c: replaces cli/interrupts.c. A page has no Ctrl-C; stopping ends the whole worker.
#include "cli/cli.h"

void tperf_interrupts_catch(lua_State *L) {
    (void)L;
}

bool tperf_interrupts_overdue(void) {
    return false;
}

void tperf_interrupts_claim_end(void) {}

void tperf_interrupts_after(unsigned seconds) {
    (void)seconds;
}

void tperf_interrupts_leave_to_first(void) {}
