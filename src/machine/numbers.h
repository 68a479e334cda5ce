// numbers.h: the numbers of a system and its curves as data: what checks, reads and describes them goes through these.
#ifndef TPERF_MACHINE_NUMBERS_H
#define TPERF_MACHINE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

// Far beyond any machine, and far enough from the ends of a double for every product and sum to stay finite.
#define TPERF_MIN_RATE     1.0 // FLOP/s, bytes/s, bytes
#define TPERF_MAX_RATE     1e24
#define TPERF_MIN_PART     1e-6 // an efficiency, NICs per GPU
#define TPERF_MAX_PART     10.0 // of a peak, in a fitted curve: a clock may boost beyond the vendor's
#define TPERF_MIN_WAIT     1e-12 // seconds
#define TPERF_MAX_WAIT     1e3
#define TPERF_MAX_NICS     1e3
#define TPERF_MAX_ELEMENTS 1e9 // of a matrix, a head; units of a chip

typedef struct tperf_system_number {
    const char *name; // as data files have it, of a system the path; NULL ends a list
    const char *unit; // "s", "bytes"; NULL: a number
    size_t offset;    // of a double in the struct
    double low, high; // it lies between
    bool optional;    // 0 where nothing is said
} tperf_system_number;

// Of tperf_system, but for what may be a curve, and the host's.
extern const tperf_system_number tperf_system_numbers[];

// Of the structs of these names in tperf/efficiency.h; head sizes and their efficiencies are not among attention's.
extern const tperf_system_number tperf_gemm_numbers[], tperf_attention_numbers[],
    tperf_decode_numbers[], tperf_stream_numbers[], tperf_link_numbers[], tperf_direct_numbers[],
    tperf_slow_numbers[];

#endif
