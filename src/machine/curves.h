// curves.h: the curves of a system as data, for checks, bindings and the schema of system files.
#ifndef TPERF_MACHINE_CURVES_H
#define TPERF_MACHINE_CURVES_H

#include "machine/numbers.h"
#include "tperf/system.h"

// A curve of tperf_curves, or one for each dtype. A new one is a row, beside its formula and its struct.
typedef struct tperf_curve {
    // Where it stands in a system's file: the path of a table, and a field of that; and what kind of curve it is: those
    // of one kind have the same numbers. NULL ends a list.
    const char *place, *name, *kind;
    const tperf_system_number *numbers;
    size_t offset, size; // in tperf_curves; of one
    bool by_dtype;
    bool required; // where its table stands in place of a constant, it must be in it
    size_t
        exists; // of a double that is 0 if there is no curve; of attention, its number of head sizes
    bool heads; // a tperf_attention_curve, which has lists of numbers by head size too
    bool slows; // has `sustained_after_s`, at:
    size_t sustained;
} tperf_curve;

extern const tperf_curve tperf_curve_rows[];

// The number of dtypes that a row has curves for, and the i-th of them.
int tperf_curve_count(const tperf_curve *row);
void *tperf_curve_at(tperf_curves *curves, const tperf_curve *row, int i);

// The curves of fp16 and bf16 stand in for each other.
void tperf_curves_complete(tperf_curves *curves);

tperf_status tperf_curves_check(const tperf_system *system, tperf_error *error);

#endif
