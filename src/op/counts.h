// counts.h: what the op kernels share. Private to src/op.
#ifndef TPERF_OP_COUNTS_H
#define TPERF_OP_COUNTS_H

#include "tperf/op.h"

// Refuses a negative size, by the field's name.
tp_status tp_size_check(tp_error *error, const char *field, int64_t size);

// Adds a collective when the axis is named and there is anything to send.
void tp_pass_communicate(tp_pass *pass, tp_collective kind, const char *axis, double bytes);

// The same for the gradients of the op's parameters.
void tp_pass_communicate_own(tp_pass *pass, tp_collective kind, const char *axis, double bytes);

// Gives the op so many parameters, of `element` bytes each.
void tp_op_hold(tp_op *op, double parameters, double element);

// Tells the shape of the pass's next kernel on the matrix units.
void tp_pass_kernel(tp_pass *pass, tp_kernel_kind kind, double batch, double m, double n, double k);

#endif
