// mixers.c: the expert router, and the state-space scan.
#include "op/counts.h"

enum { FP32_BYTES = 4 };

// How often the scan's kernels (state-spaces/mamba 2.2, ssd_combined.py) read or write, in fp32, every chunk's state
// and C B^T of its token pairs. Forward: states written, passed on (read, written), read; C B^T written, read.
// Backward: states written and passed on again; their gradients written; both read to pass the gradients on, both
// written; those gradients read for x and for B, the states for C; C B^T written, read twice, its gradient written,
// read for B and C.
enum { STATES_FORWARD = 4, STATES_BACKWARD = 11, PAIRS_FORWARD = 2, PAIRS_BACKWARD = 6 };

tperf_status tperf_op_router(tperf_op *op, const tperf_router *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "top_k", shape->top_k));
    tperf_linear scores = {.tokens = shape->tokens,
                           .n_in = shape->width,
                           .n_out = shape->experts,
                           .bias = shape->bias,
                           .input_kept_elsewhere = shape->input_kept_elsewhere,
                           .parameter_axis = shape->grad_axis};
    TPERF_TRY(tperf_op_linear(op, &scores, error));
    op->product = (tperf_product){0}; // its scores keep their precision
    if (op->dtype == TPERF_FP32) {    // no matrix units: PyTorch multiplies 32 bits as such
        op->forward.vector_flops += op->forward.tensor_flops;
        op->backward.vector_flops += op->backward.tensor_flops;
        op->forward.tensor_flops = op->backward.tensor_flops = 0;
    }
    double n = (double)shape->tokens * (double)shape->experts, k = (double)shape->top_k;
    op->forward.vector_flops += (3 + k) * n;
    op->backward.vector_flops += 4 * n;
    op->forward.bytes += FP32_BYTES * n;
    op->backward.bytes += FP32_BYTES * n;
    op->saved_bytes += FP32_BYTES * n;
    return TPERF_OK;
}

static tperf_status check_scan(const tperf_scan *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "batch", shape->batch));
    TPERF_TRY(tperf_size_check(error, "seq", shape->seq));
    TPERF_TRY(tperf_size_check(error, "heads", shape->heads));
    TPERF_TRY(tperf_size_check(error, "head_dim", shape->head_dim));
    TPERF_TRY(tperf_size_check(error, "groups", shape->groups));
    TPERF_TRY(tperf_size_check(error, "state", shape->state));
    if (shape->chunk > 0) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "'chunk' must be at least 1, got %lld",
                           (long long)shape->chunk);
}

tperf_status tperf_op_scan(tperf_op *op, const tperf_scan *shape, tperf_error *error) {
    TPERF_TRY(check_scan(shape, error));
    int64_t chunk = shape->chunk < shape->seq ? shape->chunk : shape->seq;
    double tokens = (double)shape->batch * (double)shape->seq, q = (double)chunk;
    double H = (double)shape->heads, P = (double)shape->head_dim;
    double G = (double)shape->groups, N = (double)shape->state;
    double element = tperf_dtype_bytes(op->dtype), width = H * P + 2 * G * N + H; // x, B, C, dt
    op->forward.bytes = element * tokens * (width + H * P);
    op->backward.bytes = element * tokens * 2 * (width + H * P);
    op->saved_bytes = element * tokens * width;
    if (shape->step) {
        op->forward.vector_flops = 6 * tokens * H * N * P;
        double kept = shape->state_element > 0 ? shape->state_element : FP32_BYTES;
        op->kept.sequence = kept * (double)shape->batch * H * N * P;
        op->forward.bytes += 2 * op->kept.sequence;
        return TPERF_OK;
    }
    double states = FP32_BYTES * tokens * H * N * P / q, pairs = FP32_BYTES * tokens * q * G;
    op->forward.bytes += STATES_FORWARD * states + PAIRS_FORWARD * pairs;
    op->repeated_bytes =
        (STATES_FORWARD - 2) * states + (PAIRS_FORWARD - 1) * pairs; // passed on between chunks
    op->backward.bytes += STATES_BACKWARD * states + PAIRS_BACKWARD * pairs;
    double scores = 2 * q * N * G, state = 2 * N * P * H;
    double pairs_flops = 2 * q * P * H, forward = tokens * (scores + pairs_flops + 2 * state);
    op->chunkwise = true;
    op->forward.tensor_flops = forward;
    op->forward.masked_flops = tokens * pairs_flops / 2;
    op->backward.masked_flops = 2 * op->forward.masked_flops;
    op->backward.tensor_flops = 2 * forward + tokens * (scores + state);
    // decay factors of the chunk's pairs, and one state carried per chunk
    op->forward.vector_flops = tokens * (2 * q * H + 2 * H * N * P / q);
    op->backward.vector_flops = 2 * op->forward.vector_flops;
    return TPERF_OK;
}
