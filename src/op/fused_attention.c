// fused_attention.c: attention over the query-key pairs that see each other, see tperf/op.h. Letters: H heads x batch,
// G key-value heads x batch, r local query rows, k keys, d and v the sizes of a key and a value, n pairs.
#include <math.h>

#include "op/counts.h"

static tperf_status check_shape(const tperf_fused_attention *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "batch", shape->batch));
    TPERF_TRY(tperf_size_check(error, "heads", shape->heads));
    TPERF_TRY(tperf_size_check(error, "kv_heads", shape->kv_heads));
    TPERF_TRY(tperf_size_check(error, "queries", shape->queries));
    TPERF_TRY(tperf_size_check(error, "keys", shape->keys));
    TPERF_TRY(tperf_size_check(error, "head_dim", shape->head_dim));
    TPERF_TRY(tperf_size_check(error, "value_dim", shape->value_dim));
    TPERF_TRY(tperf_size_check(error, "window", shape->window));
    if (!(shape->seen == 0 || (shape->seen >= 1 && shape->seen <= (double)shape->keys)))
        return tperf_error_set(error, TPERF_INVALID,
                               "'seen' must be from 1 to the %lld keys, got %g",
                               (long long)shape->keys, shape->seen);
    if (shape->kv_heads && shape->heads % shape->kv_heads != 0)
        return tperf_error_set(error, TPERF_INVALID, "'kv_heads' (%lld) must divide 'heads' (%lld)",
                               (long long)shape->kv_heads, (long long)shape->heads);
    if (shape->shards < 1)
        return tperf_error_set(error, TPERF_INVALID, "'shards' must be at least 1, got %lld",
                               (long long)shape->shards);
    if (shape->causal && (double)shape->queries * (double)shape->shards > (double)shape->keys)
        return tperf_error_set(
            error, TPERF_INVALID,
            "causal attention has at least as many keys as queries: %lld queries on "
            "each of %lld shards, %lld keys",
            (long long)shape->queries, (long long)shape->shards, (long long)shape->keys);
    return TPERF_OK;
}

// The sum of min(i, w) for i = 1 … n.
static double seen_up_to(double n, double w) {
    double inside = fmin(n, w);
    return inside * (inside + 1) / 2 + fmax(n - w, 0) * w;
}

// The pairs that see each other within a window; 0: all.
static double pairs_within(const tperf_fused_attention *shape, int64_t window) {
    double k = (double)shape->keys, r = (double)shape->queries, shards = (double)shape->shards;
    double w = window ? fmin((double)window, k) : k;
    if (shape->seen > 0) return r * fmin(shape->seen, w);
    if (!shape->causal) return r * w;
    return (seen_up_to(k, w) - seen_up_to(k - r * shards, w)) / shards;
}

static double pairs_of(const tperf_fused_attention *shape) {
    return pairs_within(shape, shape->window);
}

// Rows that see each other: one document of a packed sequence, or all rows.
static double document_of(const tperf_fused_attention *shape) {
    double rows = (double)shape->queries;
    if (shape->seen == 0) return rows;
    return fmin(shape->causal ? 2 * shape->seen - 1 : shape->seen, rows);
}

// Keys that at least one row sees.
static double keys_touched(const tperf_fused_attention *shape) {
    double k = (double)shape->keys, rows = (double)shape->queries * (double)shape->shards;
    return shape->window ? fmin(k, rows + (double)shape->window - 1) : k;
}

// Kernel shapes, for systems whose efficiency depends on them. Rows without a triangular mask see their average number
// of keys; with a window, half of the rows in a block of 128 mask keys at both ends, not at one.
static void shape_kernels(tperf_op *op, const tperf_fused_attention *shape, tperf_kernel kernel) {
    double pairs = pairs_of(shape), rows = (double)shape->queries;
    bool triangle = shape->causal && !shape->window && shape->shards == 1;
    kernel.kind = triangle ? TPERF_KERNEL_ATTENTION_CAUSAL : TPERF_KERNEL_ATTENTION;
    kernel.m = rows;
    kernel.n = triangle || rows == 0 ? (double)shape->keys : pairs / rows;
    if (triangle && shape->seen > 0 && rows > 0) {
        kernel.m = kernel.n = document_of(shape);
        kernel.batch *= rows / kernel.m;
    }
    if (shape->window && rows > 1) {
        kernel.n = fmin(kernel.n + fmin(rows, 128) / 2, (double)shape->keys);
        kernel.masked = fmax(pairs_within(shape, 0) / rows - kernel.n, 0);
    }
    op->forward.kernels[op->forward.n_kernels++] = kernel;
    op->backward.kernels[op->backward.n_kernels++] = kernel;
}

tperf_status tperf_op_attention(tperf_op *op, const tperf_fused_attention *shape,
                                tperf_error *error) {
    TPERF_TRY(check_shape(shape, error));
    op->attention = op->by_keys = true;
    double kv_heads = (double)(shape->kv_heads ? shape->kv_heads : shape->heads);
    double H = (double)shape->batch * (double)shape->heads, G = (double)shape->batch * kv_heads;
    double d = (double)shape->head_dim, r = (double)shape->queries, k = keys_touched(shape);
    double v = shape->value_dim ? (double)shape->value_dim : d, n = pairs_of(shape);
    double element = tperf_dtype_bytes(op->dtype), drop = shape->dropout;
    double kv_element = shape->kv_element > 0 ? shape->kv_element : element;
    double kv_width = shape->values_in_keys ? d : d + v;
    double summed = shape->seen > 0 ? r : k; // rows of keys whose gradients are summed over queries
    double scores = n * (2 * d - 1), attend = v * (2 * n - r);
    op->forward.tensor_flops = H * (scores + attend);
    op->forward.vector_flops = H * ((3 + drop) * n - r);
    double all = (double)shape->keys;
    if (shape->window) all = fmin(all, (double)shape->window);
    op->seen_flops = 2 * H * n * (d + v);
    op->pair_flops = 2 * H * r * all * (d + v);
    op->kept = (tperf_op_kept){.keys = (double)shape->keys,
                               .key_bytes = kv_element * G * kv_width,
                               .window = (double)shape->window};
    // dQ, dK; dV; scores again and the gradient of P
    op->backward.tensor_flops =
        H * (d * (4 * n - r - summed) + v * (2 * n - summed) + scores + n * (2 * v - 1));
    op->backward.vector_flops = H * ((7 + 2 * drop) * n - 2 * r);
    op->forward.bytes = element * H * r * (d + v) + kv_element * G * k * kv_width + 4 * H * r;
    op->backward.bytes =
        2 * (element * H * r * (d + v) + kv_element * G * k * kv_width + 4 * H * r);
    op->input_bytes = element * (H * r * d + G * r * kv_width);
    op->saved_bytes = op->input_bytes + 4 * H * r;
    op->output_bytes = element * H * r * v;
    tperf_op_hold(op, shape->sinks ? (double)shape->heads : 0, element);
    shape_kernels(op, shape,
                  (tperf_kernel){.batch = H,
                                 .k = (d + v) / 2,
                                 .second = kv_element,
                                 .shared = H * element * (d + v) / (G * kv_element * kv_width)});
    double gathered = element * G * (double)shape->keys * kv_width;
    tperf_pass_communicate(&op->forward, TPERF_ALL_GATHER, shape->gather_axis, gathered);
    tperf_pass_communicate(&op->backward, TPERF_ALL_GATHER, shape->gather_axis, gathered);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE_SCATTER, shape->gather_axis, gathered);
    for (int i = 0; shape->ring && i < op->forward.n_comms; i++)
        op->forward.comms[i].beside = true;
    for (int i = 0; shape->ring && i < op->backward.n_comms; i++)
        op->backward.comms[i].beside = true;
    return TPERF_OK;
}
