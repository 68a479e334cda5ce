// deadlock.c: see schedule/deadlock.h.
#include "schedule/deadlock.h"

#include <stdio.h>

enum { NAMED = 4 }; // links of a long cycle that are named

static int write_op(char *text, size_t size, const tperf_order_op *op) {
    return snprintf(text, size, "%s of micro-batch %d at stage %d",
                    tperf_pass_name((tperf_pass_kind)op->pass), op->microbatch + 1, op->stage + 1);
}

tperf_status tperf_deadlock_error(const tperf_deadlock_wait *waits, int32_t devices,
                                  tperf_error *error) {
    int32_t start = 0;
    while (!waits[start].producer)
        start++;
    for (int32_t i = 0; i < devices; i++) // enough steps to reach a cycle
        start = waits[start].producer_device;
    int32_t length = 0;
    for (int32_t d = start; length == 0 || d != start; d = waits[d].producer_device)
        length++;

    char text[sizeof error->message];
    size_t used = 0;
    int32_t d = start;
    for (int32_t i = 0; i < length && i < NAMED; i++, d = waits[d].producer_device) {
        char entry[80], producer[80];
        write_op(entry, sizeof entry, waits[d].entry);
        write_op(producer, sizeof producer, waits[d].producer);
        int written = snprintf(text + used, sizeof text - used, "%sdevice %d, at %s, waits for %s",
                               i == 0 ? "" : "; ", d + 1, entry, producer);
        if ((size_t)written >= sizeof text - used) break;
        used += (size_t)written;
    }
    text[used] = '\0';
    if (length > NAMED)
        return tperf_error_set(error, TPERF_INVALID, "deadlock: %s; and so on around %d devices",
                               text, length);
    return tperf_error_set(error, TPERF_INVALID, "deadlock: %s, which is behind in its queue",
                           text);
}
