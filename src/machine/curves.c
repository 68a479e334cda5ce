// curves.c: see machine/curves.h.
#include "machine/curves.h"

#include "tperf/efficiency.h"

#define FIELD(curve, name, unit, member, low, high)                                                \
    { name, unit, offsetof(tperf_##curve##_curve, member), low, high, false }
#define WAIT(curve, name, member) FIELD(curve, name, "s", member, 0, TPERF_MAX_WAIT)
#define PART(curve, name)         FIELD(curve, #name, NULL, name, TPERF_MIN_PART, 1)
#define ELEMENTS(curve, name)     FIELD(curve, #name, NULL, name, 0, TPERF_MAX_ELEMENTS)
#define SUSTAINED(curve)                                                                           \
    PART(curve, sustained),                                                                        \
        FIELD(curve, "sustained_after", "s", sustained_after_s, TPERF_MIN_WAIT, TPERF_MAX_WAIT)

const tperf_curve_field tperf_gemm_fields[] = {
    FIELD(gemm, "efficiency", NULL, efficiency, TPERF_MIN_PART, TPERF_MAX_PART),
    ELEMENTS(gemm, tile_loss),
    ELEMENTS(gemm, depth),
    FIELD(gemm, "quantisation", NULL, quantisation, 0, 1),
    SUSTAINED(gemm),
    {0},
};

const tperf_curve_field tperf_attention_fields[] = {
    WAIT(attention, "setup", setup_s),
    ELEMENTS(attention, keys),
    FIELD(attention, "longest", NULL, longest, 0, 1e3),
    FIELD(attention, "backward", NULL, backward, TPERF_MIN_PART, 1 / TPERF_MIN_PART),
    SUSTAINED(attention),
    {0},
};

const tperf_curve_field tperf_decode_fields[] = {
    PART(decode, efficiency),
    WAIT(decode, "setup", setup_s),
    WAIT(decode, "block", block_s),
    WAIT(decode, "ramp", ramp_s),
    {0},
};

const tperf_curve_field tperf_stream_fields[] = {
    PART(stream, efficiency),
    WAIT(stream, "setup", setup_s),
    {0},
};

const tperf_curve_field tperf_link_fields[] = {
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

const tperf_curve_field tperf_direct_fields[] = {
    WAIT(direct, "latency", latency_s), WAIT(direct, "hop", hop_s), PART(direct, one_shot),
    WAIT(direct, "extra", extra_s),     PART(direct, two_shot),     {0},
};

const tperf_curve_field tperf_slow_fields[] = {
    PART(slow, efficiency),   WAIT(slow, "latency", latency_s), WAIT(slow, "doubling", doubling_s),
    WAIT(slow, "hop", hop_s), WAIT(slow, "ramp", ramp_s),       {0},
};
