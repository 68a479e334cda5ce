// units.h: quantities as people write them ("900 GB/s", "80 GiB", "2.5 us", "400 Gb/s") and SI
// doubles. The only place where a prefix is known. A B is a byte and a b is a bit; k, M, G … are
// powers of 1000 and Ki, Mi, Gi … of 1024; a number without a unit is in the SI base unit.
#ifndef TPERF_UNITS_H
#define TPERF_UNITS_H

#include <stddef.h>

#include "tperf/error.h"

typedef enum tp_unit {
    TP_BYTES,
    TP_BYTES_PER_S,
    TP_FLOP,
    TP_FLOP_PER_S,
    TP_SECONDS,
    TP_WATTS,
    TP_JOULES,
    TP_HERTZ,
    TP_UNIT_COUNT
} tp_unit;

// "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J", "Hz", then NULL.
extern const char *const tp_unit_names[TP_UNIT_COUNT + 1];

// Reads all of text[0, size) as a quantity in `unit`: a decimal number, blanks, a unit. Refuses
// another dimension, anything after the unit, digit separators, NaN, infinities, overflow and
// underflow. The result is the double nearest to what was written for every decimal prefix.
tp_status tp_unit_parse(const char *text, size_t size, tp_unit unit, double *value,
                        tp_error *error);

#define TP_UNIT_TEXT 48 // bytes that hold any printed quantity

// Prints value with `digits` (1 … 15) significant digits and the prefix that leaves 1 to 3 of them
// before the point: 9e11 bytes/s with 4 is "900.0 GB/s". What is printed, read back and printed
// again is the same text.
void tp_unit_print(double value, tp_unit unit, int digits, char text[TP_UNIT_TEXT]);

#endif
