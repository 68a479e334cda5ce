// record.h: the records that cross between C and its callers, each one list of fields. A list is a macro, such as
// TPERF_SOFTWARE of tperf/price.h, with a row for each field:
//   FIELD(type, member, name, unit, initial, low, high, doc)
// type: NUMBER, INTEGER, INT32 or FLAG; name: as scripts and data files have it; unit: NULL without; initial: the value
// where nothing is given, or TPERF_REQUIRED; low, high: its bounds, both included. The struct's members, defaults, checks,
// readers, writers and documentation follow from it: a field is its row and what it does.
#ifndef TPERF_RECORD_H
#define TPERF_RECORD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"

typedef enum tperf_field_type {
    TPERF_TYPE_NUMBER,  // double
    TPERF_TYPE_INTEGER, // int64_t
    TPERF_TYPE_INT32,   // int32_t, int or an enum
    TPERF_TYPE_FLAG,    // bool
} tperf_field_type;

typedef struct tperf_record_field {
    const char *name, *unit, *doc; // name: NULL ends a list
    tperf_field_type type;
    size_t offset;
    double initial, low, high; // initial: NaN: must be given
} tperf_record_field;

typedef struct tperf_record {
    const char *name; // of what it is, for messages
    size_t size;
    const tperf_record_field *fields;
} tperf_record;

#define TPERF_REQUIRED ((double)NAN)
#define TPERF_ANY      DBL_MAX               // no upper bound
#define TPERF_BELOW(x) ((x) * (1 - 0x1p-53)) // the largest number below x

// A number that the core computes, as a row.
#define TPERF_FIGURE(FIELD, member, name, unit, doc)                                               \
    FIELD(NUMBER, member, name, unit, 0, -TPERF_ANY, TPERF_ANY, doc)

// A member of a struct from its row.
#define TPERF_MEMBER(type, member, ...) TPERF_MEMBER_##type member;
#define TPERF_MEMBER_NUMBER             double
#define TPERF_MEMBER_INTEGER            int64_t
#define TPERF_MEMBER_INT32              int32_t
#define TPERF_MEMBER_FLAG               bool

// A field of a list from its row; `of`: the struct.
#define TPERF_FIELD(of, type, member, name, unit, initial, low, high, doc)                         \
    { name, unit, doc, TPERF_TYPE_##type, offsetof(of, member), initial, low, high }

// Sets every field to its initial value, 0 if it must be given, and all else to 0.
void tperf_record_init(const tperf_record *record, void *of);

double tperf_record_get(const tperf_record_field *field, const void *of);

// Fails if a field is not a number within its bounds.
tperf_status tperf_record_check(const tperf_record *record, const void *of, tperf_error *error);

#endif
