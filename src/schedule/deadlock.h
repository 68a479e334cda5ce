// deadlock.h: explains why devices wait for each other. Private to src/schedule.
#ifndef TPERF_SCHEDULE_DEADLOCK_H
#define TPERF_SCHEDULE_DEADLOCK_H

#include "tperf/schedule.h"

// The head of a device's queue waits for another device's op. A finished device has producer NULL.
typedef struct tperf_deadlock_wait {
    const tperf_order_op *entry, *producer;
    int32_t producer_device;
} tperf_deadlock_wait;

// Names a cycle among the waits. One exists, since every producer's device waits, too.
tperf_status tperf_deadlock_error(const tperf_deadlock_wait *waits, int32_t devices,
                                  tperf_error *error);

#endif
