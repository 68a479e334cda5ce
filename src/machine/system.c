// system.c: see tperf/system.h.
#include "tperf/system.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "machine/numbers.h"

const char *const tperf_dtype_names[TPERF_DTYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16",
                                                          "bf16", "fp8",  "int8", "fp4"};

double tperf_dtype_bytes(tperf_dtype dtype) {
    static const double bytes[TPERF_DTYPE_COUNT + 1] = {
        [TPERF_FP64] = 8, [TPERF_FP32] = 4, [TPERF_TF32] = 4, [TPERF_FP16] = 2,
        [TPERF_BF16] = 2, [TPERF_FP8] = 1,  [TPERF_INT8] = 1, [TPERF_FP4] = 0.5,
    };
    return bytes[dtype];
}

static tperf_status check_peaks(const double *peaks, const char *unit, tperf_error *error) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        if (peaks[i] != 0 && !(peaks[i] >= TPERF_MIN_RATE && peaks[i] <= TPERF_MAX_RATE))
            return tperf_error_set(error, TPERF_INVALID,
                                   "accelerator.%s.%s is %g, not from %g to %g FLOP/s", unit,
                                   tperf_dtype_names[i], peaks[i], TPERF_MIN_RATE, TPERF_MAX_RATE);
    return TPERF_OK;
}

// Checks each number against its range; `prefix` precedes names in messages. An optional 0 means unknown.
static tperf_status check_numbers(const void *record, const tperf_system_number *numbers,
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

static tperf_status check_curve(const void *curve, const tperf_system_number *numbers,
                                const char *what, const char *name, tperf_error *error) {
    char path[96];
    snprintf(path, sizeof path, "%s%s.", what, name);
    return check_numbers(curve, numbers, path, error);
}

static tperf_status check_attention(const tperf_attention_curve *curve, const char *kind,
                                    const char *name, tperf_error *error) {
    TPERF_TRY(check_curve(curve, tperf_attention_numbers, kind, name, error));
    bool sound = curve->n_sizes <= TPERF_HEAD_SIZES_MAX;
    for (int i = 0; sound && i < curve->n_sizes; i++)
        sound = curve->head_size[i] >= 1 && curve->head_size[i] <= TPERF_MAX_ELEMENTS &&
                curve->efficiency[i] >= TPERF_MIN_PART && curve->efficiency[i] <= TPERF_MAX_PART &&
                curve->backward[i] >= TPERF_MIN_PART && curve->backward[i] <= 1 / TPERF_MIN_PART &&
                (i == 0 || curve->head_size[i] > curve->head_size[i - 1]);
    if (sound) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID,
                           "%s%s needs 1 to %d head sizes in rising order, and an efficiency of 0 "
                           "to %g for each and its backward pass",
                           kind, name, TPERF_HEAD_SIZES_MAX, TPERF_MAX_PART);
}

static tperf_status check_kernels(const tperf_system *system, tperf_error *error) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        const tperf_gemm_curve *gemm = &system->accelerator.gemm[i];
        const tperf_gemm_curve *narrow = &system->accelerator.experts4[i];
        const tperf_gemm_curve *experts = &system->accelerator.experts[i];
        const tperf_attention_curve *attention = &system->accelerator.attention[i];
        const tperf_attention_curve *flash2 = &system->accelerator.flash2[i];
        const tperf_decode_curve *decode = &system->accelerator.decode[i];
        if (gemm->efficiency != 0)
            TPERF_TRY(check_curve(gemm, tperf_gemm_numbers, "accelerator.compute_efficiency.gemm.",
                                  tperf_dtype_names[i], error));
        if (narrow->efficiency != 0)
            TPERF_TRY(check_curve(narrow, tperf_gemm_numbers,
                                  "accelerator.compute_efficiency.experts4.", tperf_dtype_names[i],
                                  error));
        if (experts->efficiency != 0)
            TPERF_TRY(check_curve(experts, tperf_gemm_numbers,
                                  "accelerator.compute_efficiency.experts.", tperf_dtype_names[i],
                                  error));
        if (attention->n_sizes != 0)
            TPERF_TRY(check_attention(attention, "accelerator.compute_efficiency.attention.",
                                      tperf_dtype_names[i], error));
        if (flash2->n_sizes != 0)
            TPERF_TRY(check_attention(flash2, "accelerator.compute_efficiency.flash2.",
                                      tperf_dtype_names[i], error));
        if (decode->efficiency != 0)
            TPERF_TRY(check_curve(decode, tperf_decode_numbers,
                                  "accelerator.compute_efficiency.decode.", tperf_dtype_names[i],
                                  error));
        bool curves = gemm->efficiency != 0 || narrow->efficiency != 0 ||
                      experts->efficiency != 0 || attention->n_sizes != 0 || flash2->n_sizes != 0 ||
                      decode->efficiency != 0;
        if (system->accelerator.units == 0 && curves)
            return tperf_error_set(error, TPERF_INVALID, "curves need accelerator.units");
    }
    if (system->accelerator.hbm.stream.efficiency != 0)
        TPERF_TRY(check_curve(&system->accelerator.hbm.stream, tperf_stream_numbers,
                              "accelerator.hbm.stream", "", error));
    return TPERF_OK;
}

static tperf_status check_curves(const tperf_system *system, tperf_error *error) {
    static const char *const links[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    TPERF_TRY(check_kernels(system, error));
    for (int i = 0; i < TPERF_LINK_CURVES; i++)
        if (system->network.fast.curves[i].large != 0)
            TPERF_TRY(check_curve(&system->network.fast.curves[i], tperf_link_numbers,
                                  "network.fast.efficiency.", links[i], error));
    if (system->network.fast.direct.one_shot != 0)
        TPERF_TRY(check_curve(&system->network.fast.direct, tperf_direct_numbers,
                              "network.fast.efficiency.direct", "", error));
    if (system->network.slow.curve.efficiency != 0)
        TPERF_TRY(check_curve(&system->network.slow.curve, tperf_slow_numbers,
                              "network.slow.efficiency", "", error));
    return TPERF_OK;
}

// Checks that a fraction of a peak is in (0, 1].
static tperf_status check_part(double value, const char *name, tperf_error *error) {
    if (value >= TPERF_MIN_PART && value <= 1) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "%s is %g, not from %g to 1", name, value,
                           TPERF_MIN_PART);
}

tperf_status tperf_system_validate(const tperf_system *system, tperf_error *error) {
    TPERF_TRY(check_peaks(system->accelerator.tensor, "tensor", error));
    TPERF_TRY(check_peaks(system->accelerator.vector, "vector", error));
    TPERF_TRY(check_numbers(system, tperf_system_numbers, "", error));
    TPERF_TRY(check_part(system->accelerator.compute_efficiency, "accelerator.compute_efficiency",
                         error));
    TPERF_TRY(check_part(system->network.fast.efficiency, "network.fast.efficiency", error));
    TPERF_TRY(check_part(system->network.slow.efficiency, "network.slow.efficiency", error));
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
        system->accelerator.experts4[i].sustained_after_s = TPERF_MIN_WAIT;
        system->accelerator.experts[i].sustained_after_s = TPERF_MIN_WAIT;
        system->accelerator.attention[i].sustained_after_s = TPERF_MIN_WAIT;
        system->accelerator.flash2[i].sustained_after_s = TPERF_MIN_WAIT;
    }
}

void tperf_system_flash(tperf_system *system, int64_t version) {
    int64_t before = system->accelerator.flash;
    if (version == 0 || version == before) return;
    system->accelerator.flash = version;
    double flash1 = system->accelerator.flash1 > 0 ? system->accelerator.flash1 : 1;
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        tperf_attention_curve *curve = &system->accelerator.attention[i];
        bool fresh = system->accelerator.flash2[i].n_sizes > 0;
        if (fresh) *curve = system->accelerator.flash2[i];
        double slower = version == 1 ? flash1 : 1;
        if (!fresh && before == 1) slower /= flash1;
        for (int j = 0; j < curve->n_sizes; j++)
            curve->efficiency[j] /= slower;
    }
}

// The curve for one query's attention to cached keys; NULL if there is none or there are more queries.
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
    const tperf_gemm_curve *gemm = &system->accelerator.gemm[dtype];
    if (!kernel->grouped) return gemm;
    bool narrow =
        kernel->second > 0 && kernel->second < 1 && tperf_dtype_bytes(dtype) > kernel->second;
    const tperf_gemm_curve *experts =
        narrow ? &system->accelerator.experts4[dtype] : &system->accelerator.experts[dtype];
    return experts->efficiency != 0 ? experts : gemm;
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
        .by_8 = system->accelerator.unaligned.by_8,
        .by_less = system->accelerator.unaligned.by_less,
        .uncut = system->accelerator.uncut,
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
            time->rest += tperf_system_stream_time(system, bytes, kernel->warm);
        }
    } else {
        if (attention->n_sizes == 0) return false;
        *time = tperf_attention_time(attention, &processor, kernel, backward);
    }
    time->setup += system->accelerator.launch_s;
    return true;
}

double tperf_system_stream_time(const tperf_system *system, double bytes, bool warm) {
    const tperf_stream_curve *curve = &system->accelerator.hbm.stream;
    double bandwidth = bandwidth_of(system, warm);
    if (curve->efficiency != 0) return tperf_stream_time(curve, bandwidth, bytes);
    return system->accelerator.launch_s + bytes / (bandwidth * system->accelerator.hbm.efficiency);
}
