// system.c: see tperf/system.h.
#include "tperf/system.h"

#include <stdbool.h>
#include <stddef.h>

#include "machine/curves.h"

const char *const tperf_dtype_names[TPERF_DTYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16",
                                                          "bf16", "fp8",  "int8", "fp4"};

double tperf_dtype_bytes(tperf_dtype dtype) {
    static const double bytes[TPERF_DTYPE_COUNT + 1] = {
        [TPERF_FP64] = 8, [TPERF_FP32] = 4, [TPERF_TF32] = 4, [TPERF_FP16] = 2,
        [TPERF_BF16] = 2, [TPERF_FP8] = 1,  [TPERF_INT8] = 1, [TPERF_FP4] = 0.5,
    };
    return bytes[dtype];
}

#define MAX_NICS 1e3

#define FIELD(path, low, high, zero)                                                               \
    { #path, offsetof(tperf_system, path), low, high, zero }

static const struct {
    const char *field;
    size_t offset;
    double low, high;
    int zero; // zero is fine: none, or unknown
} ranges[] = {
    FIELD(accelerator.compute_efficiency, TPERF_MIN_PART, 1, 0),
    FIELD(accelerator.launch_s, 0, TPERF_MAX_WAIT, 1),
    FIELD(accelerator.hbm.bandwidth, TPERF_MIN_RATE, TPERF_MAX_RATE, 0),
    FIELD(accelerator.hbm.capacity, TPERF_MIN_RATE, TPERF_MAX_RATE, 0),
    FIELD(accelerator.hbm.efficiency, TPERF_MIN_PART, 1, 0),
    FIELD(accelerator.cache.bandwidth, TPERF_MIN_RATE, TPERF_MAX_RATE, 1),
    FIELD(accelerator.cache.capacity, TPERF_MIN_RATE, TPERF_MAX_RATE, 1),
    FIELD(accelerator.routing.setup_s, 0, TPERF_MAX_WAIT, 1),
    FIELD(accelerator.routing.pair_s, 0, TPERF_MAX_WAIT, 1),
    FIELD(accelerator.power_W, TPERF_MIN_PART, TPERF_MAX_RATE, 1),
    FIELD(network.fast.bandwidth, TPERF_MIN_RATE, TPERF_MAX_RATE, 0),
    FIELD(network.fast.efficiency, TPERF_MIN_PART, 1, 0),
    FIELD(network.fast.latency_s, 0, TPERF_MAX_WAIT, 1),
    FIELD(network.slow.bandwidth, TPERF_MIN_RATE, TPERF_MAX_RATE, 0),
    FIELD(network.slow.efficiency, TPERF_MIN_PART, 1, 0),
    FIELD(network.slow.latency_s, 0, TPERF_MAX_WAIT, 1),
    FIELD(network.slow.nics_per_gpu, TPERF_MIN_PART, MAX_NICS, 0),
};

static tperf_status check_peaks(const double *peaks, const char *unit, tperf_error *error) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        if (peaks[i] != 0 && !(peaks[i] >= TPERF_MIN_RATE && peaks[i] <= TPERF_MAX_RATE))
            return tperf_error_set(error, TPERF_INVALID,
                                   "accelerator.%s.%s is %g, not from %g to %g FLOP/s", unit,
                                   tperf_dtype_names[i], peaks[i], TPERF_MIN_RATE, TPERF_MAX_RATE);
    return TPERF_OK;
}

static tperf_status check_curve(const void *curve, const tperf_curve_field *fields,
                                const char *what, const char *name, tperf_error *error) {
    for (const tperf_curve_field *f = fields; f->name; f++) {
        double value = *(const double *)((const char *)curve + f->offset);
        if (!(value >= f->low && value <= f->high))
            return tperf_error_set(error, TPERF_INVALID, "%s%s.%s is %g, not from %g to %g", what,
                                   name, f->name, value, f->low, f->high);
    }
    return TPERF_OK;
}

static tperf_status check_attention(const tperf_attention_curve *curve, const char *name,
                                    tperf_error *error) {
    TPERF_TRY(check_curve(curve, tperf_attention_fields,
                          "accelerator.compute_efficiency.attention.", name, error));
    bool sound = curve->n_sizes <= TPERF_HEAD_SIZES_MAX;
    for (int i = 0; sound && i < curve->n_sizes; i++)
        sound = curve->head_size[i] >= 1 && curve->head_size[i] <= TPERF_MAX_ELEMENTS &&
                curve->efficiency[i] >= TPERF_MIN_PART && curve->efficiency[i] <= TPERF_MAX_PART &&
                (i == 0 || curve->head_size[i] > curve->head_size[i - 1]);
    if (sound) return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "accelerator.compute_efficiency.attention.%s needs 1 to %d head sizes in "
        "rising order, and an efficiency of 0 to %g for each",
        name, TPERF_HEAD_SIZES_MAX, TPERF_MAX_PART);
}

static tperf_status check_kernels(const tperf_system *system, tperf_error *error) {
    double units = system->accelerator.units;
    if (units != 0 && !(units >= 1 && units <= TPERF_MAX_ELEMENTS))
        return tperf_error_set(error, TPERF_INVALID, "accelerator.units is %g, not from 1 to %g",
                               units, TPERF_MAX_ELEMENTS);
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        const tperf_gemm_curve *gemm = &system->accelerator.gemm[i];
        const tperf_attention_curve *attention = &system->accelerator.attention[i];
        const tperf_decode_curve *decode = &system->accelerator.decode[i];
        if (gemm->efficiency != 0)
            TPERF_TRY(check_curve(gemm, tperf_gemm_fields, "accelerator.compute_efficiency.gemm.",
                                  tperf_dtype_names[i], error));
        if (attention->n_sizes != 0)
            TPERF_TRY(check_attention(attention, tperf_dtype_names[i], error));
        if (decode->efficiency != 0)
            TPERF_TRY(check_curve(decode, tperf_decode_fields,
                                  "accelerator.compute_efficiency.decode.", tperf_dtype_names[i],
                                  error));
        bool curves = gemm->efficiency != 0 || attention->n_sizes != 0 || decode->efficiency != 0;
        if (units == 0 && curves)
            return tperf_error_set(error, TPERF_INVALID, "curves need accelerator.units");
    }
    if (system->accelerator.hbm.stream.efficiency != 0)
        TPERF_TRY(check_curve(&system->accelerator.hbm.stream, tperf_stream_fields,
                              "accelerator.hbm.stream", "", error));
    return TPERF_OK;
}

static tperf_status check_curves(const tperf_system *system, tperf_error *error) {
    static const char *const links[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    TPERF_TRY(check_kernels(system, error));
    for (int i = 0; i < TPERF_LINK_CURVES; i++)
        if (system->network.fast.curves[i].large != 0)
            TPERF_TRY(check_curve(&system->network.fast.curves[i], tperf_link_fields,
                                  "network.fast.efficiency.", links[i], error));
    if (system->network.fast.direct.one_shot != 0)
        TPERF_TRY(check_curve(&system->network.fast.direct, tperf_direct_fields,
                              "network.fast.efficiency.direct", "", error));
    if (system->network.slow.curve.efficiency != 0)
        TPERF_TRY(check_curve(&system->network.slow.curve, tperf_slow_fields,
                              "network.slow.efficiency", "", error));
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
        system->accelerator.gemm[i].sustained_after_s = TPERF_MIN_WAIT;
        system->accelerator.attention[i].sustained_after_s = TPERF_MIN_WAIT;
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

static double bandwidth_of(const tperf_system *system, bool warm) {
    bool cached = warm && system->accelerator.cache.bandwidth > 0;
    return cached ? system->accelerator.cache.bandwidth : system->accelerator.hbm.bandwidth;
}

bool tperf_system_kernel_time(const tperf_system *system, tperf_dtype dtype,
                              const tperf_kernel *kernel, bool backward, tperf_kernel_time *time) {
    const tperf_decode_curve *decode = backward ? NULL : decode_curve(system, dtype, kernel);
    const tperf_attention_curve *attention = &system->accelerator.attention[dtype];
    const tperf_gemm_curve *gemm = &system->accelerator.gemm[dtype];
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
