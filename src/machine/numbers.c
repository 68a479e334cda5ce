// numbers.c: see machine/numbers.h.
#include "machine/numbers.h"

#include "tperf/system.h"

#define FIELD(curve, name, unit, member, low, high)                                                \
    { name, unit, offsetof(tperf_##curve##_curve, member), low, high, false }
#define WAIT(curve, name, member) FIELD(curve, name, "s", member, 0, TPERF_MAX_WAIT)
#define PART(curve, name)         FIELD(curve, #name, NULL, name, TPERF_MIN_PART, 1)
#define ELEMENTS(curve, name)     FIELD(curve, #name, NULL, name, 0, TPERF_MAX_ELEMENTS)
#define SUSTAINED(curve)                                                                           \
    PART(curve, sustained),                                                                        \
        FIELD(curve, "sustained_after", "s", sustained_after_s, TPERF_MIN_WAIT, TPERF_MAX_WAIT)

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
    OF_SYSTEM("accelerator.flash1", NULL, accelerator.flash1, 1, TPERF_MAX_ELEMENTS, true),
    OF_SYSTEM("accelerator.overlap_sms", NULL, accelerator.overlap_sms, 0, TPERF_MAX_ELEMENTS,
              true),
    OF_SYSTEM("accelerator.whole_caches.uncut", NULL, accelerator.uncut, 0, TPERF_MAX_ELEMENTS,
              true),
    OF_SYSTEM("accelerator.hbm.scattered", NULL, accelerator.hbm.scattered, TPERF_MIN_PART, 1,
              true),
    RATE("network.fast.bandwidth", "bytes/s", network.fast.bandwidth, false),
    LATENCY("network.fast.latency", network.fast.latency_s),
    RATE("network.slow.bandwidth", "bytes/s", network.slow.bandwidth, false),
    LATENCY("network.slow.latency", network.slow.latency_s),
    LATENCY("network.slow.chain", network.slow.chain_s),
    OF_SYSTEM("network.slow.nics_per_gpu", NULL, network.slow.nics_per_gpu, TPERF_MIN_PART,
              TPERF_MAX_NICS, false),
    {0},
};

const tperf_system_number tperf_gemm_numbers[] = {
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

const tperf_system_number tperf_attention_numbers[] = {
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

const tperf_system_number tperf_decode_numbers[] = {
    PART(decode, efficiency),
    WAIT(decode, "setup", setup_s),
    WAIT(decode, "block", block_s),
    WAIT(decode, "ramp", ramp_s),
    {"whole", NULL, offsetof(tperf_decode_curve, whole), 0, TPERF_MAX_RATE, true},
    {"pieces", NULL, offsetof(tperf_decode_curve, pieces), 0, 1024, true},
    {0},
};

const tperf_system_number tperf_stream_numbers[] = {
    PART(stream, efficiency),
    WAIT(stream, "setup", setup_s),
    {0},
};

const tperf_system_number tperf_link_numbers[] = {
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

const tperf_system_number tperf_direct_numbers[] = {
    WAIT(direct, "latency", latency_s), WAIT(direct, "hop", hop_s), PART(direct, one_shot),
    WAIT(direct, "extra", extra_s),     PART(direct, two_shot),     {0},
};

const tperf_system_number tperf_slow_numbers[] = {
    PART(slow, efficiency),   WAIT(slow, "latency", latency_s), WAIT(slow, "doubling", doubling_s),
    WAIT(slow, "hop", hop_s), WAIT(slow, "ramp", ramp_s),       {0},
};
