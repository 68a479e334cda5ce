// narrow.c: a product with weights in another precision, see tperf/op.h. Letters as in linear.c.
#include <math.h>
#include <stddef.h>

#include "op/counts.h"

// Factors are read in their narrow form, results written in the op's dtype. dX = dY W^T reads dY and W; dW = X^T dY
// reads X and dY, in the op's dtype if it stays wide.
static void count_bytes(tperf_op *op, const tperf_narrowing *how) {
    const tperf_product *p = &op->product;
    double wide = tperf_dtype_bytes(op->dtype), X = p->rows * p->n_in, Y = p->rows * p->n_out;
    double W = p->used * p->n_in * p->n_out, number = how->number > 0 ? how->number : wide;
    double weight = how->weight > 0 ? how->weight : wide;
    double last = how->wide_weight_grad ? wide : number;
    op->product.read_bytes = weight * W;
    op->forward.bytes = number * X + wide * Y + weight * W;
    double input_grad = op->stopped ? 0 : number * Y + weight * W + wide * X;
    double weight_grad = op->frozen ? 0 : last * (X + Y) + wide * W;
    if (!op->backward.absent) op->backward.bytes = input_grad + weight_grad;
    if (!op->on_host) return;
    op->forward.host_bytes = op->weights_read = weight * W;
    if (op->backward.host_bytes > 0)
        op->backward.host_bytes = weight * W; // frozen: it reads them again
}

static void narrow_kernels(tperf_op *op, const tperf_narrowing *how) {
    double second = how->made ? 0 : how->weight;
    op->forward.kernels[0].second = op->sparse ? 2 * second : second; // of a weight that is kept
    op->forward.kernels[0].made = how->made;
    for (int i = 0; i < op->backward.n_kernels; i++)
        op->backward.kernels[i].made = how->made;
    int last = op->backward.n_kernels -
               1; // the product that makes the weights' gradient, if they have one
    if (last >= 0 && !op->frozen) op->backward.kernels[last].wide = how->wide_weight_grad;
    if (last >= 0 && !op->stopped) op->backward.kernels[0].second = second;
}

static void narrow_gathers(tperf_pass *pass, const tperf_narrowing *how) {
    for (int i = 0; i < pass->n_comms; i++) {
        tperf_comm *comm = &pass->comms[i];
        if (comm->kind != TPERF_ALL_GATHER || comm->carries == TPERF_CARRIES_OTHER) continue;
        double part = comm->carries == TPERF_CARRIES_INPUT ? how->gather : how->grad_gather;
        if (part > 0) comm->bytes *= part;
    }
}

// A table of vectors that are looked up: its rows are read in their narrow form.
static void narrow_table(tperf_op *op, const tperf_narrowing *how) {
    double read = op->weights_read * how->weight / tperf_dtype_bytes(op->dtype);
    op->forward.bytes += read - op->weights_read;
    op->weights_read = read;
    op->weight_bytes = how->held * op->parameters;
}

static tperf_status check(const tperf_op *op, const tperf_narrowing *how, tperf_error *error) {
    if (op->product.rows == 0 && op->table_rows == 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "op '%s' is no product with weights and no table", op->name);
    const double counts[] = {how->number,   how->weight, how->held,   how->copies,
                             how->gathered, how->step,   how->gather, how->grad_gather};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(counts[i] >= 0 && counts[i] <= 64))
            return tperf_error_set(error, TPERF_INVALID,
                                   "op '%s': %g bytes of a number, not 0 to 64", op->name,
                                   counts[i]);
    return TPERF_OK;
}

// The same of a product, which may be sparse.
static tperf_narrowing of_product(const tperf_op *op, const tperf_narrowing *given) {
    tperf_narrowing how = *given;
    if (how.weight > 0) how.weight = tperf_stored_weight(op->sparse, how.weight);
    if (how.held > 0) how.held = tperf_stored_weight(op->sparse, how.held);
    return how;
}

tperf_status tperf_op_narrow(tperf_op *op, const tperf_narrowing *given, tperf_error *error) {
    TPERF_TRY(check(op, given, error));
    const tperf_narrowing own = of_product(op, given), *how = &own;
    if (op->table_rows > 0) {
        narrow_table(op, how);
        return TPERF_OK;
    }
    op->matrix_dtype = how->dtype;
    if (how->number > 0 || how->weight > 0) count_bytes(op, how);
    narrow_kernels(op, how);
    narrow_gathers(&op->forward, how);
    narrow_gathers(&op->backward, how);
    double weights = op->parameters;
    if (how->held > 0) op->weight_bytes = how->held * weights;
    op->copy_bytes = how->copies * weights;
    op->gather_bytes = how->gathered * weights;
    op->step_bytes = how->step * weights;
    if (how->keeps) return TPERF_OK;
    op->again_bytes = op->offload_bytes = op->input_bytes = 0;
    if (!op->recomputed) op->saved_bytes = 0;
    return TPERF_OK;
}

void tperf_op_keep_output(tperf_op *op, double bytes) {
    double *kept = op->recomputed  ? &op->again_bytes
                   : op->offloaded ? &op->offload_bytes
                                   : &op->saved_bytes;
    *kept += fmin(bytes, op->output_bytes);
    op->output_bytes = 0;
}
