// units.h: converts between quantities as people write them ("900 GB/s", "80 GiB", "2.5 us", "400 Gb/s") and SI
// doubles. No other file knows prefixes. A B is a byte and a b is a bit; k, M, G … are powers of 1000 and Ki, Mi, Gi …
// of 1024; a number without a unit is in the SI base unit.
#ifndef TPERF_UNITS_H
#define TPERF_UNITS_H

#include <stddef.h>

#include "tperf/error.h"

typedef enum tperf_unit {
    TPERF_BYTES,
    TPERF_BYTES_PER_S,
    TPERF_FLOP,
    TPERF_FLOP_PER_S,
    TPERF_SECONDS,
    TPERF_WATTS,
    TPERF_JOULES,
    TPERF_HERTZ,
    TPERF_UNIT_COUNT
} tperf_unit;

// "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J", "Hz", then NULL.
extern const char *const tperf_unit_names[TPERF_UNIT_COUNT + 1];

// Parses all of text[0, size) as a quantity in `unit`: a decimal number, blanks, a unit. Fails on another dimension,
// text after the unit, digit separators, NaN, infinities, overflow and underflow. For decimal prefixes the result is
// the double nearest to the text.
tperf_status tperf_unit_parse(const char *text, size_t size, tperf_unit unit, double *value,
                              tperf_error *error);

#define TPERF_UNIT_TEXT 48 // large enough for any printed quantity

// Prints value with `digits` (1 … 15) significant digits and the prefix that leaves 1 to 3 of them before the point:
// 9e11 bytes/s with 4 is "900.0 GB/s". Printing is stable: parsing the text and printing it again gives the same text.
void tperf_unit_print(double value, tperf_unit unit, int digits, char text[TPERF_UNIT_TEXT]);

#endif
