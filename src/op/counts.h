// counts.h: helpers shared by the op kernels. Private to src/op.
#ifndef TPERF_OP_COUNTS_H
#define TPERF_OP_COUNTS_H

#include "tperf/op.h"

// Fails if a size is negative, naming the field.
tperf_status tperf_size_check(tperf_error *error, const char *field, int64_t size);

// Adds a collective if the axis is named and there is anything to send.
void tperf_pass_communicate(tperf_pass *pass, tperf_collective kind, const char *axis,
                            double bytes);

// The same for gradients of the op's own parameters.
void tperf_pass_communicate_own(tperf_pass *pass, tperf_collective kind, const char *axis,
                                double bytes);

// Bytes per weight of a product, stored in `weight` bytes each: of a sparse one those of half of them, with 2 bits each
// that say where they stand.
static inline double tperf_stored_weight(bool sparse, double weight) {
    static const double PLACE = 0.25;
    return sparse ? (weight + PLACE) / 2 : weight;
}

// Gives the op `parameters` parameters of `element` bytes each.
void tperf_op_hold(tperf_op *op, double parameters, double element);

// Adds the shape of the pass's next kernel on the matrix units.
void tperf_pass_kernel(tperf_pass *pass, tperf_kernel_kind kind, double batch, double m, double n,
                       double k);

#endif
