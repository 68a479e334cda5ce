// system.c: see tperf/system.h.
#include "tperf/system.h"

#include <stdbool.h>
#include <stddef.h>

const char *const tperf_dtype_names[TPERF_DTYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16",
                                                          "bf16", "fp8",  "int8", "fp4"};

double tperf_dtype_bytes(tperf_dtype dtype) {
    static const double bytes[TPERF_DTYPE_COUNT + 1] = {
        [TPERF_FP64] = 8, [TPERF_FP32] = 4, [TPERF_TF32] = 4, [TPERF_FP16] = 2,
        [TPERF_BF16] = 2, [TPERF_FP8] = 1,  [TPERF_INT8] = 1, [TPERF_FP4] = 0.5,
    };
    return bytes[dtype];
}

// Far beyond any machine, and far enough from the ends of a double for every product and sum to
// stay finite.
#define MIN_RATE     1.0 // FLOP/s, bytes/s, bytes
#define MAX_RATE     1e24
#define MIN_PART     1e-6 // an efficiency, NICs per GPU
#define MAX_NICS     1e3
#define MAX_WAIT     1e3 // seconds
#define MIN_WAIT     1e-12
#define MAX_PART     10.0 // of a peak, in a fitted curve: a clock may boost beyond the vendor's
#define MAX_ELEMENTS 1e9  // of a matrix, a head; units of a chip

#define FIELD(path, low, high, zero)                                                               \
    { #path, offsetof(tperf_system, path), low, high, zero }

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
    FIELD(accelerator.cache.bandwidth, MIN_RATE, MAX_RATE, 1),
    FIELD(accelerator.cache.capacity, MIN_RATE, MAX_RATE, 1),
    FIELD(accelerator.routing.setup_s, 0, MAX_WAIT, 1),
    FIELD(accelerator.routing.pair_s, 0, MAX_WAIT, 1),
    FIELD(accelerator.power_W, MIN_PART, MAX_RATE, 1),
    FIELD(network.fast.bandwidth, MIN_RATE, MAX_RATE, 0),
    FIELD(network.fast.efficiency, MIN_PART, 1, 0),
    FIELD(network.fast.latency_s, 0, MAX_WAIT, 1),
    FIELD(network.slow.bandwidth, MIN_RATE, MAX_RATE, 0),
    FIELD(network.slow.efficiency, MIN_PART, 1, 0),
    FIELD(network.slow.latency_s, 0, MAX_WAIT, 1),
    FIELD(network.slow.nics_per_gpu, MIN_PART, MAX_NICS, 0),
};

static tperf_status check_peaks(const double *peaks, const char *unit, tperf_error *error) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        if (peaks[i] != 0 && !(peaks[i] >= MIN_RATE && peaks[i] <= MAX_RATE))
            return tperf_error_set(error, TPERF_INVALID,
                                   "accelerator.%s.%s is %g, not from %g to %g FLOP/s", unit,
                                   tperf_dtype_names[i], peaks[i], MIN_RATE, MAX_RATE);
    return TPERF_OK;
}

// The number at `offset` of a curve lies from low to high. How long a wait, which part of a
// peak, how many elements, an exponent.
typedef struct range {
    const char *field;
    size_t offset;
    double low, high;
} range;

#define RANGE(curve, path, low, high)                                                              \
    { #path, offsetof(tperf_##curve##_curve, path), low, high }

static const range gemm_ranges[] = {
    RANGE(gemm, efficiency, MIN_PART, MAX_PART),
    RANGE(gemm, tile_loss, 0, MAX_ELEMENTS),
    RANGE(gemm, depth, 0, MAX_ELEMENTS),
    RANGE(gemm, quantisation, 0, 1),
    RANGE(gemm, sustained, MIN_PART, 1),
    RANGE(gemm, sustained_after_s, MIN_WAIT, MAX_WAIT),
    RANGE(gemm, split, 0, 16),
    RANGE(gemm, ramp_s, 0, MAX_WAIT),
    RANGE(gemm, setup_s, 0, MAX_WAIT),
    RANGE(gemm, rows, 0, 64),
    RANGE(gemm, memory, 0, 1),
};

static const range attention_ranges[] = {
    RANGE(attention, setup_s, 0, MAX_WAIT),
    RANGE(attention, keys, 0, MAX_ELEMENTS),
    RANGE(attention, longest, 0, 1e3),
    RANGE(attention, sustained, MIN_PART, 1),
    RANGE(attention, backward, MIN_PART, 1 / MIN_PART),
    RANGE(attention, sustained_after_s, MIN_WAIT, MAX_WAIT),
};

static const range decode_ranges[] = {
    RANGE(decode, efficiency, MIN_PART, 1),
    RANGE(decode, setup_s, 0, MAX_WAIT),
    RANGE(decode, block_s, 0, MAX_WAIT),
    RANGE(decode, ramp_s, 0, MAX_WAIT),
    RANGE(decode, whole, 0, 1),
};

static const range stream_ranges[] = {
    RANGE(stream, efficiency, MIN_PART, 1),
    RANGE(stream, setup_s, 0, MAX_WAIT),
};

static const range link_ranges[] = {
    RANGE(link, latency_s, 0, MAX_WAIT), RANGE(link, hop_s, 0, MAX_WAIT),
    RANGE(link, small, MIN_PART, 1),     RANGE(link, extra_s, 0, MAX_WAIT),
    RANGE(link, large, MIN_PART, 1),     RANGE(link, switch_bytes, 0, MAX_RATE),
    RANGE(link, growth, -4, 4),          RANGE(link, in_network, 0, 1),
};

static const range direct_ranges[] = {
    RANGE(direct, latency_s, 0, MAX_WAIT), RANGE(direct, hop_s, 0, MAX_WAIT),
    RANGE(direct, one_shot, MIN_PART, 1),  RANGE(direct, extra_s, 0, MAX_WAIT),
    RANGE(direct, two_shot, MIN_PART, 1),
};

static const range slow_ranges[] = {
    RANGE(slow, efficiency, MIN_PART, 1), RANGE(slow, latency_s, 0, MAX_WAIT),
    RANGE(slow, doubling_s, 0, MAX_WAIT), RANGE(slow, hop_s, 0, MAX_WAIT),
    RANGE(slow, ramp_s, 0, MAX_WAIT),
};

#define CHECK(curve, ranges, what, name)                                                           \
    TPERF_TRY(check_ranges(curve, ranges, sizeof ranges / sizeof *ranges, what, name, error))

static tperf_status check_ranges(const void *curve, const range *list, size_t n, const char *what,
                                 const char *name, tperf_error *error) {
    for (size_t i = 0; i < n; i++) {
        double value = *(const double *)((const char *)curve + list[i].offset);
        if (!(value >= list[i].low && value <= list[i].high))
            return tperf_error_set(error, TPERF_INVALID, "%s%s.%s is %g, not from %g to %g", what,
                                   name, list[i].field, value, list[i].low, list[i].high);
    }
    return TPERF_OK;
}

static tperf_status check_attention(const tperf_attention_curve *curve, const char *name,
                                    tperf_error *error) {
    CHECK(curve, attention_ranges, "accelerator.compute_efficiency.attention.", name);
    bool sound = curve->n_sizes <= TPERF_HEAD_SIZES_MAX;
    for (int i = 0; sound && i < curve->n_sizes; i++)
        sound = curve->head_size[i] >= 1 && curve->head_size[i] <= MAX_ELEMENTS &&
                curve->efficiency[i] >= MIN_PART && curve->efficiency[i] <= MAX_PART &&
                (i == 0 || curve->head_size[i] > curve->head_size[i - 1]);
    if (sound) return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "accelerator.compute_efficiency.attention.%s needs 1 to %d head sizes in "
        "rising order, and an efficiency of 0 to %g for each",
        name, TPERF_HEAD_SIZES_MAX, MAX_PART);
}

static tperf_status check_kernels(const tperf_system *system, tperf_error *error) {
    double units = system->accelerator.units;
    if (units != 0 && !(units >= 1 && units <= MAX_ELEMENTS))
        return tperf_error_set(error, TPERF_INVALID, "accelerator.units is %g, not from 1 to %g",
                               units, MAX_ELEMENTS);
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        const tperf_gemm_curve *gemm = &system->accelerator.gemm[i];
        const tperf_gemm_curve *experts = &system->accelerator.experts4[i];
        const tperf_attention_curve *attention = &system->accelerator.attention[i];
        const tperf_decode_curve *decode = &system->accelerator.decode[i];
        if (gemm->efficiency != 0)
            CHECK(gemm, gemm_ranges, "accelerator.compute_efficiency.gemm.", tperf_dtype_names[i]);
        if (experts->efficiency != 0)
            CHECK(experts, gemm_ranges, "accelerator.compute_efficiency.experts4.",
                  tperf_dtype_names[i]);
        if (attention->n_sizes != 0)
            TPERF_TRY(check_attention(attention, tperf_dtype_names[i], error));
        if (decode->efficiency != 0)
            CHECK(decode, decode_ranges, "accelerator.compute_efficiency.decode.",
                  tperf_dtype_names[i]);
        bool curves = gemm->efficiency != 0 || experts->efficiency != 0 ||
                      attention->n_sizes != 0 || decode->efficiency != 0;
        if (units == 0 && curves)
            return tperf_error_set(error, TPERF_INVALID, "curves need accelerator.units");
    }
    if (system->accelerator.hbm.stream.efficiency != 0)
        CHECK(&system->accelerator.hbm.stream, stream_ranges, "accelerator.hbm.stream", "");
    return TPERF_OK;
}

static tperf_status check_curves(const tperf_system *system, tperf_error *error) {
    static const char *const links[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    TPERF_TRY(check_kernels(system, error));
    for (int i = 0; i < TPERF_LINK_CURVES; i++)
        if (system->network.fast.curves[i].large != 0)
            CHECK(&system->network.fast.curves[i], link_ranges, "network.fast.efficiency.",
                  links[i]);
    if (system->network.fast.direct.one_shot != 0)
        CHECK(&system->network.fast.direct, direct_ranges, "network.fast.efficiency.direct", "");
    if (system->network.slow.curve.efficiency != 0)
        CHECK(&system->network.slow.curve, slow_ranges, "network.slow.efficiency", "");
    return TPERF_OK;
}

tperf_status tperf_system_validate(const tperf_system *system, tperf_error *error) {
    TPERF_TRY(check_peaks(system->accelerator.tensor, "tensor", error));
    TPERF_TRY(check_peaks(system->accelerator.vector, "vector", error));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double value = *(const double *)((const char *)system + ranges[i].offset);
        if (value == 0 && ranges[i].zero) continue;
        if (!(value >= ranges[i].low && value <= ranges[i].high)) // also a NaN
            return tperf_error_set(error, TPERF_INVALID, "%s is %g, not from %g to %g",
                                   ranges[i].field, value, ranges[i].low, ranges[i].high);
    }
    TPERF_TRY(check_curves(system, error));
    int64_t domain = system->network.fast.domain;
    if (domain < 1 || domain > INT64_C(1) << 31)
        return tperf_error_set(error, TPERF_INVALID,
                               "network.fast.domain is %lld, not from 1 to 2^31 GPUs",
                               (long long)domain);
    return TPERF_OK;
}

void tperf_system_sustain(tperf_system *system) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        system->accelerator.gemm[i].sustained_after_s = MIN_WAIT;
        system->accelerator.experts4[i].sustained_after_s = MIN_WAIT;
        system->accelerator.attention[i].sustained_after_s = MIN_WAIT;
    }
}

// The curve of one query's attention to cached keys; NULL: there is none, or there are more queries.
static const tperf_decode_curve *decode_curve(const tperf_system *system, tperf_dtype dtype,
                                              const tperf_kernel *kernel) {
    if (kernel->kind == TPERF_KERNEL_GEMM || kernel->m != 1) return NULL;
    bool bytes = kernel->second == 1 && tperf_dtype_bytes(dtype) != 1;
    const tperf_decode_curve *curve = &system->accelerator.decode[bytes ? TPERF_FP8 : dtype];
    if (curve->efficiency == 0) curve = &system->accelerator.decode[dtype];
    return curve->efficiency != 0 ? curve : NULL;
}

// Weights of 4 bits under wider activations have kernels of their own; the curve of plain products stands in for them.
static const tperf_gemm_curve *gemm_curve(const tperf_system *system, tperf_dtype dtype,
                                          const tperf_kernel *kernel) {
    const tperf_gemm_curve *experts = &system->accelerator.experts4[dtype];
    bool narrow = kernel->grouped && kernel->second == 0.5 && tperf_dtype_bytes(dtype) > 0.5;
    return narrow && experts->efficiency != 0 ? experts : &system->accelerator.gemm[dtype];
}

static double bandwidth_of(const tperf_system *system, bool warm) {
    bool cached = warm && system->accelerator.cache.bandwidth > 0;
    return cached ? system->accelerator.cache.bandwidth : system->accelerator.hbm.bandwidth;
}

bool tperf_system_kernel_time(const tperf_system *system, tperf_dtype dtype,
                              const tperf_kernel *kernel, bool backward, tperf_kernel_time *time) {
    const tperf_decode_curve *decode = backward ? NULL : decode_curve(system, dtype, kernel);
    const tperf_attention_curve *attention = &system->accelerator.attention[dtype];
    const tperf_gemm_curve *gemm = gemm_curve(system, dtype, kernel);
    tperf_processor processor = {
        .peak = system->accelerator.tensor[dtype],
        .units = system->accelerator.units,
        .bandwidth = bandwidth_of(system, kernel->warm),
        .element = tperf_dtype_bytes(dtype),
    };
    if (!decode) processor.bandwidth *= system->accelerator.hbm.efficiency;
    if (decode) {
        *time = tperf_decode_time(decode, attention, &processor, kernel);
    } else if (kernel->kind == TPERF_KERNEL_GEMM) {
        if (gemm->efficiency == 0) return false;
        bool narrow =
            !kernel->made && processor.element < 2 && system->accelerator.hbm.stream.efficiency > 0;
        processor.quantised = narrow || kernel->made;
        *time = tperf_gemm_time(gemm, &processor, kernel);
        if (narrow) {
            double bytes = (2 + processor.element) * kernel->batch * kernel->m * kernel->k;
            time->exposed_memory += tperf_system_stream_time(system, bytes, kernel->warm);
        }
    } else {
        if (attention->n_sizes == 0) return false;
        *time = tperf_attention_time(attention, &processor, kernel, backward);
    }
    time->compute += system->accelerator.launch_s;
    return true;
}

double tperf_system_stream_time(const tperf_system *system, double bytes, bool warm) {
    const tperf_stream_curve *curve = &system->accelerator.hbm.stream;
    double bandwidth = bandwidth_of(system, warm);
    if (curve->efficiency != 0) return tperf_stream_time(curve, bandwidth, bytes);
    return system->accelerator.launch_s + bytes / (bandwidth * system->accelerator.hbm.efficiency);
}
