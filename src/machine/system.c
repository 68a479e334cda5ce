// system.c: see tperf/system.h.
#include "tperf/system.h"

#include <stddef.h>

const char *const tp_dtype_names[TP_DTYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16",
                                                    "bf16", "fp8",  "int8", "fp4"};

// Far beyond any machine, and far enough from the ends of a double for every product and sum to
// stay finite.
#define MIN_RATE 1.0 // FLOP/s, bytes/s, bytes
#define MAX_RATE 1e24
#define MIN_PART 1e-6 // an efficiency, NICs per GPU
#define MAX_NICS 1e3
#define MAX_WAIT 1e3 // seconds

#define FIELD(path, low, high, zero)                                                               \
    { #path, offsetof(tp_system, path), low, high, zero }

static const struct {
    const char *field;
    size_t offset;
    double low, high;
    int zero; // zero is fine: none, or unknown
} ranges[] = {
    FIELD(accelerator.compute_efficiency, MIN_PART, 1, 0),
    FIELD(accelerator.launch_s, 0, MAX_WAIT, 1),
    FIELD(accelerator.hbm.bandwidth, MIN_RATE, MAX_RATE, 0),
    FIELD(accelerator.hbm.capacity, MIN_RATE, MAX_RATE, 0),
    FIELD(accelerator.hbm.efficiency, MIN_PART, 1, 0),
    FIELD(accelerator.power_W, MIN_PART, MAX_RATE, 1),
    FIELD(network.fast.bandwidth, MIN_RATE, MAX_RATE, 0),
    FIELD(network.fast.efficiency, MIN_PART, 1, 0),
    FIELD(network.fast.latency_s, 0, MAX_WAIT, 1),
    FIELD(network.slow.bandwidth, MIN_RATE, MAX_RATE, 0),
    FIELD(network.slow.efficiency, MIN_PART, 1, 0),
    FIELD(network.slow.latency_s, 0, MAX_WAIT, 1),
    FIELD(network.slow.nics_per_gpu, MIN_PART, MAX_NICS, 0),
};

static tp_status check_peaks(const double *peaks, const char *unit, tp_error *error) {
    for (int i = 0; i < TP_DTYPE_COUNT; i++)
        if (peaks[i] != 0 && !(peaks[i] >= MIN_RATE && peaks[i] <= MAX_RATE))
            return tp_error_set(error, TP_INVALID,
                                "accelerator.%s.%s is %g, not from %g to %g FLOP/s", unit,
                                tp_dtype_names[i], peaks[i], MIN_RATE, MAX_RATE);
    return TP_OK;
}

tp_status tp_system_validate(const tp_system *system, tp_error *error) {
    TP_TRY(check_peaks(system->accelerator.tensor, "tensor", error));
    TP_TRY(check_peaks(system->accelerator.vector, "vector", error));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double value = *(const double *)((const char *)system + ranges[i].offset);
        if (value == 0 && ranges[i].zero) continue;
        if (!(value >= ranges[i].low && value <= ranges[i].high)) // also a NaN
            return tp_error_set(error, TP_INVALID, "%s is %g, not from %g to %g", ranges[i].field,
                                value, ranges[i].low, ranges[i].high);
    }
    int64_t domain = system->network.fast.domain;
    if (domain < 1 || domain > INT64_C(1) << 31)
        return tp_error_set(error, TP_INVALID,
                            "network.fast.domain is %lld, not from 1 to 2^31 GPUs",
                            (long long)domain);
    return TP_OK;
}
