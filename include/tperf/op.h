// op.h: one kernel's counts, forward and backward. An op knows no time and no machine.
//
// One multiply, one add and one exponential are one FLOP each. Bytes are those that pass the HBM.
// Shapes are what one GPU sees. A collective is tagged with an axis, not with a size: the layer
// that the op joins knows the sizes. The formulas are those of arXiv 2410.00273 in the form of
// docs/model.md, generalised where a comment says so; "inner length - 1" additions are counted
// where the source counts them.
#ifndef TPERF_OP_H
#define TPERF_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "tperf/collective.h"

enum { TP_NAME_MAX = 24, TP_AXIS_NAME_MAX = 8, TP_COMMS_MAX = 4 };

typedef struct tp_comm {
    tp_collective kind;
    char axis[TP_AXIS_NAME_MAX]; // "tp", "cp" …
    int axis_index;              // its place among the layer's axes, set by tp_layer_join
    bool share;                  // bytes are one GPU's share of the vector; until it joins a layer
    double bytes;                // the full vector, see tperf/collective.h
} tp_comm;

enum { TP_KERNELS_MAX = 2 };

typedef struct tp_pass {
    double tensor_flops, vector_flops;
    int n_kernels;                     // 0: the pass has no shape that matters
    tp_kernel kernels[TP_KERNELS_MAX]; // one after the other
    double bytes;                      // HBM traffic
    double bytes_per_panel;            // further traffic for each SUMMA panel
    int n_comms;
    tp_comm comms[TP_COMMS_MAX]; // one after the other
} tp_pass;

typedef struct tp_op {
    char name[TP_NAME_MAX], block[TP_NAME_MAX];
    tp_dtype dtype; // which peaks apply
    tp_pass forward, backward;
    double weight_bytes; // on one GPU; gradients have as many
    double saved_bytes;  // activations kept for the backward pass
    bool panels;         // communicates panel by panel, overlapped with its own compute
    bool recomputed;     // the backward pass begins with the forward pass
} tp_op;

// Bytes of one entry of a dropout mask; tp_dtype_bytes has those of activations and weights.
enum { TP_MASK_BYTES = 1 };

// Y = X W. X is tokens x n_in, W is n_in x n_out. Saved: X.
// reduce_axis: W is cut by its rows, so Y is reduce-scattered over that axis ("" = not).
// grad_axis:   W is cut by its columns, so X's gradient is reduce-scattered over that axis.
typedef struct tp_linear {
    int64_t tokens, n_in, n_out;
    const char *reduce_axis, *grad_axis;
} tp_linear;
tp_status tp_op_linear(tp_op *op, const tp_linear *shape, tp_error *error);

// The same product on a grid of GPUs by SUMMA: X (tokens x n_in) and W (n_in x n_out) travel in
// panels. Shares: n_in_columns = n_in / columns of X, n_in_rows = n_in / rows of W; tokens and
// n_out are local.
typedef struct tp_summa {
    int64_t tokens, n_in, n_out, n_in_columns, n_in_rows;
    const char *columns_axis, *rows_axis;
} tp_summa;
tp_status tp_op_summa(tp_op *op, const tp_summa *shape, tp_error *error);

// The two attention products by SUMMA, of `heads` (all of them) for `batch` samples.
// scores: queries x keys; rows = queries / rows axis, head_dim cut by the columns axis.
typedef struct tp_summa_attention {
    int64_t batch, heads, queries, queries_rows, queries_columns, head_dim_columns;
    bool keep_scores;
    const char *columns_axis, *rows_axis;
} tp_summa_attention;
tp_status tp_op_summa_scores(tp_op *op, const tp_summa_attention *shape, tp_error *error);
tp_status tp_op_summa_attend(tp_op *op, const tp_summa_attention *shape, tp_error *error);

// A pass over `elements`, and over `parameters` shared by all of them. Counts are per element.
// grad_axis: the parameters are replicated over that axis, so their gradients are all-reduced.
typedef struct tp_elementwise {
    double elements;
    int64_t parameters;
    double forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes;
    bool recomputed;
    const char *grad_axis;
} tp_elementwise;
tp_status tp_op_elementwise(tp_op *op, const tp_elementwise *shape, tp_error *error);

// Softmax over `width` scores of each of `rows` rows, as a kernel of its own.
// sum_axis: the row is spread over that axis, so the row sums are all-reduced.
typedef struct tp_softmax {
    double rows;
    int64_t width;
    bool keep_output, recomputed;
    const char *sum_axis;
} tp_softmax;
tp_status tp_op_softmax(tp_op *op, const tp_softmax *shape, tp_error *error);

// Layer norm of `tokens` rows of `width`: mean 2, variance 3, normalise 2, scale and shift 2 FLOP.
// gather_axis: the rows are a shard; the result, gathered_tokens x width (0: all shards together),
//   is all-gathered for the next product, its gradient reduce-scattered.
// statistics_axis: a row is spread over that axis; the row statistics are all-reduced, and in the
//   backward pass grad_statistics elements.
// grad_axis: scale and shift are replicated over that axis.
typedef struct tp_norm {
    int64_t tokens, width, gathered_tokens;
    double grad_statistics;
    const char *gather_axis, *statistics_axis, *grad_axis;
} tp_norm;
tp_status tp_op_norm(tp_op *op, const tp_norm *shape, tp_error *error);

// Attention of `queries` local rows over `keys` rows, by `heads` local heads for `batch` samples.
// gather_axis: keys and values are spread over that axis and gathered before each pass,
//   their gradients reduce-scattered after.
// grad_reads_gathered: the backward pass reads the gathered keys and values, not the local (Q14).
typedef struct tp_attention {
    int64_t batch, heads, queries, keys, head_dim;
    bool keep_scores, recomputed, grad_reads_gathered;
    const char *gather_axis;
} tp_attention;
tp_status tp_op_scores(tp_op *op, const tp_attention *shape, tp_error *error);          // Q K^T
tp_status tp_op_attend(tp_op *op, const tp_attention *shape, tp_error *error);          // P V
tp_status tp_op_flash_attention(tp_op *op, const tp_attention *shape, tp_error *error); // fused

// Checks a finished op: every count finite and not negative.
tp_status tp_op_validate(const tp_op *op, tp_error *error);

#endif
