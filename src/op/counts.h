// counts.h: what the op kernels share. Private to src/op.
#ifndef TPERF_OP_COUNTS_H
#define TPERF_OP_COUNTS_H

#include "tperf/op.h"

// Refuses a negative size, by the field's name.
tperf_status tperf_size_check(tperf_error *error, const char *field, int64_t size);

// Adds a collective when the axis is named and there is anything to send.
void tperf_pass_communicate(tperf_pass *pass, tperf_collective kind, const char *axis,
                            double bytes);

// The same for the gradients of the op's parameters.
void tperf_pass_communicate_own(tperf_pass *pass, tperf_collective kind, const char *axis,
                                double bytes);

// Gives the op so many parameters, of `element` bytes each.
void tperf_op_hold(tperf_op *op, double parameters, double element);

// Tells the shape of the pass's next kernel on the matrix units.
void tperf_pass_kernel(tperf_pass *pass, tperf_kernel_kind kind, double batch, double m, double n,
                       double k);

#endif
