// curves.c: see curves.h; and which curve times a kernel. tperf/efficiency.h states the formulas.
#include "machine/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIELD(curve, name, unit, member, low, high)                                                \
    { name, unit, offsetof(tperf_##curve##_curve, member), low, high, false }
#define WAIT(curve, name, member) FIELD(curve, name, "s", member, 0, TPERF_MAX_WAIT)
#define PART(curve, name)         FIELD(curve, #name, NULL, name, TPERF_MIN_PART, 1)
#define ELEMENTS(curve, name)     FIELD(curve, #name, NULL, name, 0, TPERF_MAX_ELEMENTS)
#define SUSTAINED(curve)                                                                           \
    PART(curve, sustained),                                                                        \
        FIELD(curve, "sustained_after", "s", sustained_after_s, TPERF_MIN_WAIT, TPERF_MAX_WAIT)

static const tperf_system_number gemm_numbers[] = {
    FIELD(gemm, "efficiency", NULL, efficiency, TPERF_MIN_PART, TPERF_MAX_PART),
    ELEMENTS(gemm, tile_loss),
    ELEMENTS(gemm, depth),
    FIELD(gemm, "quantisation", NULL, quantisation, 0, 1),
    {"split", NULL, offsetof(tperf_gemm_curve, split), 1, 16, true},
    {"ramp", "s", offsetof(tperf_gemm_curve, ramp_s), 0, TPERF_MAX_WAIT, true},
    {"setup", "s", offsetof(tperf_gemm_curve, setup_s), 0, TPERF_MAX_WAIT, true},
    {"rows", NULL, offsetof(tperf_gemm_curve, rows), 16, 64, true},
    {"memory", NULL, offsetof(tperf_gemm_curve, memory), TPERF_MIN_PART, 1, true},
    SUSTAINED(gemm),
    {0},
};

static const tperf_system_number attention_numbers[] = {
    WAIT(attention, "setup", setup_s),
    ELEMENTS(attention, keys),
    FIELD(attention, "longest", NULL, longest, 0, 1e3),
    {"backward_keys", NULL, offsetof(tperf_attention_curve, backward_keys), 0, TPERF_MAX_ELEMENTS,
     true},
    {"tile", NULL, offsetof(tperf_attention_curve, tile), 0, TPERF_MAX_ELEMENTS, true},
    {"masked", NULL, offsetof(tperf_attention_curve, masked), 0, TPERF_MAX_PART, true},
    SUSTAINED(attention),
    {0},
};

static const tperf_system_number decode_numbers[] = {
    PART(decode, efficiency),
    WAIT(decode, "setup", setup_s),
    WAIT(decode, "block", block_s),
    WAIT(decode, "ramp", ramp_s),
    {"whole", NULL, offsetof(tperf_decode_curve, whole), 0, TPERF_MAX_RATE, true},
    {"pieces", NULL, offsetof(tperf_decode_curve, pieces), 0, 1024, true},
    {0},
};

static const tperf_system_number stream_numbers[] = {
    PART(stream, efficiency),
    WAIT(stream, "setup", setup_s),
    {0},
};

static const tperf_system_number link_numbers[] = {
    WAIT(link, "latency", latency_s),
    WAIT(link, "hop", hop_s),
    PART(link, small),
    WAIT(link, "extra", extra_s),
    PART(link, large),
    FIELD(link, "switch", "bytes", switch_bytes, 0, TPERF_MAX_RATE),
    {"growth", NULL, offsetof(tperf_link_curve, growth), -4, 4, true},
    {"in_network", NULL, offsetof(tperf_link_curve, in_network), 0, 1, true},
    {0},
};

static const tperf_system_number direct_numbers[] = {
    WAIT(direct, "latency", latency_s), WAIT(direct, "hop", hop_s), PART(direct, one_shot),
    WAIT(direct, "extra", extra_s),     PART(direct, two_shot),     {0},
};

static const tperf_system_number slow_numbers[] = {
    PART(slow, efficiency),   WAIT(slow, "latency", latency_s), WAIT(slow, "doubling", doubling_s),
    WAIT(slow, "hop", hop_s), WAIT(slow, "ramp", ramp_s),       {0},
};

#define ROW(at, called, of, member, key)                                                           \
    .place = at, .name = called, .kind = #of, .numbers = of##_numbers,                             \
    .offset = offsetof(tperf_curves, member), .size = sizeof(tperf_##of##_curve),                  \
    .exists = offsetof(tperf_##of##_curve, key)
#define KERNELS   "accelerator.compute_efficiency"
#define LINKS     "network.fast.efficiency"
#define SLOWS(of) .slows = true, .sustained = offsetof(tperf_##of##_curve, sustained_after_s)
#define GEMM(member)                                                                               \
    { ROW(KERNELS, #member, gemm, member, efficiency), .by_dtype = true, SLOWS(gemm) }
#define ATTENTION(member)                                                                          \
    {                                                                                              \
        ROW(KERNELS, #member, attention, member, n_sizes), .by_dtype = true, .heads = true,        \
                                                           SLOWS(attention)                        \
    }
#define LINK(name, index)                                                                          \
    { ROW(LINKS, name, link, link[index], large), .required = true }

const tperf_curve tperf_curve_rows[] = {
    GEMM(gemm),
    GEMM(experts4),
    GEMM(experts),
    ATTENTION(attention),
    ATTENTION(flash2),
    {ROW(KERNELS, "decode", decode, decode, efficiency), .by_dtype = true},
    {ROW("accelerator.hbm", "stream", stream, stream, efficiency)},
    LINK("all_reduce", TPERF_LINK_ALL_REDUCE),
    LINK("all_gather", TPERF_LINK_ALL_GATHER),
    LINK("reduce_scatter", TPERF_LINK_REDUCE_SCATTER),
    LINK("all_to_all", TPERF_LINK_ALL_TO_ALL),
    {ROW(LINKS, "direct", direct, direct, one_shot)},
    {ROW("network.slow", "efficiency", slow, slow, efficiency)},
    {0},
};

int tperf_curve_count(const tperf_curve *row) {
    return row->by_dtype ? TPERF_DTYPE_COUNT : 1;
}

void *tperf_curve_at(tperf_curves *curves, const tperf_curve *row, int i) {
    return (char *)curves + row->offset + (size_t)i * row->size;
}

static bool exists(const tperf_curve *row, const void *curve) {
    if (row->heads) return ((const tperf_attention_curve *)curve)->n_sizes != 0;
    return *(const double *)((const char *)curve + row->exists) != 0;
}

void tperf_curves_complete(tperf_curves *curves) {
    for (const tperf_curve *row = tperf_curve_rows; row->place; row++) {
        if (!row->by_dtype) continue;
        void *fp16 = tperf_curve_at(curves, row, TPERF_FP16);
        void *bf16 = tperf_curve_at(curves, row, TPERF_BF16);
        if (!exists(row, fp16)) memcpy(fp16, bf16, row->size);
        if (!exists(row, bf16)) memcpy(bf16, fp16, row->size);
    }
}

// --- checks ---

static tperf_status check_heads(const tperf_attention_curve *curve, const char *path,
                                tperf_error *error) {
    bool sound = curve->n_sizes <= TPERF_HEAD_SIZES_MAX;
    for (int i = 0; sound && i < curve->n_sizes; i++)
        sound = curve->head_size[i] >= 1 && curve->head_size[i] <= TPERF_MAX_ELEMENTS &&
                curve->efficiency[i] >= TPERF_MIN_PART && curve->efficiency[i] <= TPERF_MAX_PART &&
                curve->backward[i] >= TPERF_MIN_PART && curve->backward[i] <= 1 / TPERF_MIN_PART &&
                (i == 0 || curve->head_size[i] > curve->head_size[i - 1]);
    if (sound) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID,
                           "%s needs 1 to %d head sizes in rising order, and an efficiency of 0 "
                           "to %g for each and its backward pass",
                           path, TPERF_HEAD_SIZES_MAX, TPERF_MAX_PART);
}

static tperf_status check_curve(const tperf_system *system, const tperf_curve *row, int i,
                                tperf_error *error) {
    const char *curve = (const char *)&system->curves + row->offset + (size_t)i * row->size;
    char path[96], prefix[100];
    if (!exists(row, curve)) return TPERF_OK;
    snprintf(path, sizeof path, "%s.%s%s%s", row->place, row->name, row->by_dtype ? "." : "",
             row->by_dtype ? tperf_dtype_names[i] : "");
    snprintf(prefix, sizeof prefix, "%s.", path);
    TPERF_TRY(tperf_numbers_check(curve, row->numbers, prefix, error));
    if (row->heads) TPERF_TRY(check_heads((const tperf_attention_curve *)curve, path, error));
    if (row->by_dtype && system->accelerator.units == 0)
        return tperf_error_set(error, TPERF_INVALID, "curves need accelerator.units");
    return TPERF_OK;
}

tperf_status tperf_curves_check(const tperf_system *system, tperf_error *error) {
    for (const tperf_curve *row = tperf_curve_rows; row->place; row++)
        for (int i = 0; i < tperf_curve_count(row); i++)
            TPERF_TRY(check_curve(system, row, i, error));
    return TPERF_OK;
}

void tperf_system_sustain(tperf_system *system) {
    for (const tperf_curve *row = tperf_curve_rows; row->place; row++)
        for (int i = 0; row->slows && i < tperf_curve_count(row); i++) {
            char *curve = tperf_curve_at(&system->curves, row, i);
            *(double *)(curve + row->sustained) = TPERF_MIN_WAIT;
        }
}

// --- which curve times a kernel ---

// The curve for one query's attention to cached keys; NULL if there is none or there are more queries.
static const tperf_decode_curve *decode_curve(const tperf_system *system, tperf_dtype dtype,
                                              const tperf_kernel *kernel) {
    if (kernel->kind == TPERF_KERNEL_GEMM || kernel->m != 1) return NULL;
    bool bytes = kernel->second == 1 && tperf_dtype_bytes(dtype) != 1;
    const tperf_decode_curve *curve = &system->curves.decode[bytes ? TPERF_FP8 : dtype];
    if (curve->efficiency == 0) curve = &system->curves.decode[dtype];
    return curve->efficiency != 0 ? curve : NULL;
}

// Weights of 4 bits under wider activations have kernels of their own; the curve of plain products stands in for them.
static const tperf_gemm_curve *gemm_curve(const tperf_system *system, tperf_dtype dtype,
                                          const tperf_kernel *kernel) {
    const tperf_gemm_curve *gemm = &system->curves.gemm[dtype];
    if (!kernel->grouped) return gemm;
    bool narrow =
        kernel->second > 0 && kernel->second < 1 && tperf_dtype_bytes(dtype) > kernel->second;
    const tperf_gemm_curve *experts =
        narrow ? &system->curves.experts4[dtype] : &system->curves.experts[dtype];
    return experts->efficiency != 0 ? experts : gemm;
}

// Seconds to unpack a weight, which the vector units do.
static double unpack_time(const tperf_system *system) {
    double rate = system->accelerator.vector[TPERF_FP32];
    return rate > 0 ? system->accelerator.unpack / rate : 0;
}

static double bandwidth_of(const tperf_system *system, bool warm) {
    bool cached = warm && system->accelerator.cache.bandwidth > 0;
    return cached ? system->accelerator.cache.bandwidth : system->accelerator.hbm.bandwidth;
}

bool tperf_system_kernel_time(const tperf_system *system, tperf_dtype dtype,
                              const tperf_kernel *kernel, bool backward, tperf_kernel_time *time) {
    const tperf_decode_curve *decode = backward ? NULL : decode_curve(system, dtype, kernel);
    const tperf_attention_curve *attention = &system->curves.attention[dtype];
    const tperf_gemm_curve *gemm = gemm_curve(system, dtype, kernel);
    tperf_processor processor = {
        .peak = system->accelerator.tensor[dtype],
        .units = system->accelerator.units,
        .bandwidth = bandwidth_of(system, kernel->warm),
        .unpack_s = unpack_time(system),
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
            !kernel->made && processor.element < 2 && system->curves.stream.efficiency > 0;
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
    const tperf_stream_curve *curve = &system->curves.stream;
    double bandwidth = bandwidth_of(system, warm);
    if (curve->efficiency != 0) return tperf_stream_time(curve, bandwidth, bytes);
    return system->accelerator.launch_s + bytes / (bandwidth * system->accelerator.hbm.efficiency);
}
