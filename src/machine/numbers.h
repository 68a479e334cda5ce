// numbers.h: the numbers of a system as data, for checks, bindings and documentation.
#ifndef TPERF_MACHINE_NUMBERS_H
#define TPERF_MACHINE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tperf/error.h"

// Far beyond any machine, yet small enough that every product and sum stays finite.
#define TPERF_MIN_RATE 1.0 // FLOP/s, bytes/s, bytes
#define TPERF_MAX_RATE 1e24
#define TPERF_MIN_PART 1e-6 // an efficiency, NICs per GPU
#define TPERF_MAX_PART                                                                             \
    10.0 // of a peak, in a fitted curve: clocks may boost beyond the vendor's figure
#define TPERF_MIN_WAIT     1e-12 // seconds
#define TPERF_MAX_WAIT     1e3
#define TPERF_MAX_NICS     1e3
#define TPERF_MAX_ELEMENTS 1e9 // of a matrix or a head; units of a chip

typedef struct tperf_system_number {
    const char *name; // as in data files; for a system, its path; NULL ends a list
    const char *unit; // "s", "bytes"; NULL: dimensionless
    size_t offset;    // of a double in the struct
    double low, high; // valid range
    bool optional;    // 0 if not given
} tperf_system_number;

// Numbers of tperf_system, except curves and those of the host.
extern const tperf_system_number tperf_system_numbers[];

// Checks each number against its range; `prefix` precedes names in messages. An optional 0 means unknown.
tperf_status tperf_numbers_check(const void *record, const tperf_system_number *numbers,
                                 const char *prefix, tperf_error *error);

#endif
