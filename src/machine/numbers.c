// numbers.c: see machine/numbers.h.
#include "machine/numbers.h"

#include "tperf/system.h"

#define OF_SYSTEM(name, unit, member, low, high, optional)                                         \
    { name, unit, offsetof(tperf_system, member), low, high, optional }
#define RATE(name, unit, member, optional)                                                         \
    OF_SYSTEM(name, unit, member, TPERF_MIN_RATE, TPERF_MAX_RATE, optional)
#define LATENCY(name, member) OF_SYSTEM(name, "s", member, 0, TPERF_MAX_WAIT, true)

const tperf_system_number tperf_system_numbers[] = {
    LATENCY("accelerator.launch", accelerator.launch_s),
    RATE("accelerator.hbm.bandwidth", "bytes/s", accelerator.hbm.bandwidth, false),
    RATE("accelerator.hbm.capacity", "bytes", accelerator.hbm.capacity, false),
    OF_SYSTEM("accelerator.hbm.efficiency", NULL, accelerator.hbm.efficiency, TPERF_MIN_PART, 1,
              false),
    RATE("accelerator.cache.bandwidth", "bytes/s", accelerator.cache.bandwidth, true),
    RATE("accelerator.cache.capacity", "bytes", accelerator.cache.capacity, true),
    LATENCY("accelerator.routing.setup", accelerator.routing.setup_s),
    LATENCY("accelerator.routing.pair", accelerator.routing.pair_s),
    OF_SYSTEM("accelerator.power", "W", accelerator.power_W, TPERF_MIN_PART, TPERF_MAX_RATE, true),
    OF_SYSTEM("accelerator.units", NULL, accelerator.units, 1, TPERF_MAX_ELEMENTS, true),
    OF_SYSTEM("accelerator.unaligned.by_8", NULL, accelerator.unaligned.by_8, TPERF_MIN_PART, 1,
              true),
    OF_SYSTEM("accelerator.unaligned.by_less", NULL, accelerator.unaligned.by_less, TPERF_MIN_PART,
              1, true),
    OF_SYSTEM("accelerator.converted", NULL, accelerator.converted, TPERF_MIN_PART, 1, true),
    OF_SYSTEM("accelerator.chunkwise", NULL, accelerator.chunkwise, TPERF_MIN_PART,
              TPERF_MAX_ELEMENTS, true),
    OF_SYSTEM("accelerator.unpack", NULL, accelerator.unpack, 0, TPERF_MAX_ELEMENTS, true),
    OF_SYSTEM("accelerator.flash1", NULL, accelerator.flash1, 1, TPERF_MAX_ELEMENTS, true),
    OF_SYSTEM("accelerator.overlap_sms", NULL, accelerator.overlap_sms, 0, TPERF_MAX_ELEMENTS,
              true),
    OF_SYSTEM("accelerator.whole_caches.uncut", NULL, accelerator.uncut, 0, TPERF_MAX_ELEMENTS,
              true),
    OF_SYSTEM("accelerator.hbm.scattered", NULL, accelerator.hbm.scattered, TPERF_MIN_PART, 1,
              true),
    RATE("network.fast.bandwidth", "bytes/s", network.fast.bandwidth, false),
    LATENCY("network.fast.latency", network.fast.latency_s),
    LATENCY("network.fast.start", network.fast.start_s),
    RATE("network.slow.bandwidth", "bytes/s", network.slow.bandwidth, false),
    LATENCY("network.slow.latency", network.slow.latency_s),
    LATENCY("network.slow.chain", network.slow.chain_s),
    OF_SYSTEM("network.slow.nics_per_gpu", NULL, network.slow.nics_per_gpu, TPERF_MIN_PART,
              TPERF_MAX_NICS, false),
    {0},
};

// Checks each number against its range; `prefix` precedes names in messages. An optional 0 means unknown.
tperf_status tperf_numbers_check(const void *record, const tperf_system_number *numbers,
                                 const char *prefix, tperf_error *error) {
    for (const tperf_system_number *n = numbers; n->name; n++) {
        double value = *(const double *)((const char *)record + n->offset);
        if (n->optional && value == 0) continue;
        if (!(value >= n->low && value <= n->high)) // also a NaN
            return tperf_error_set(error, TPERF_INVALID, "%s%s is %g, not from %g to %g", prefix,
                                   n->name, value, n->low, n->high);
    }
    return TPERF_OK;
}
