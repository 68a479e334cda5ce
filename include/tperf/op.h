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

#include "tperf/grid.h"

enum { TPERF_NAME_MAX = 24, TPERF_COMMS_MAX = 6 };

// How a collective runs beside the product whose input it brings or whose result it takes away, the product cut into
// chunks of rows for it.
typedef enum tperf_chunking {
    TPERF_UNCHUNKED,
    TPERF_RING, // one chunk a GPU of the group: its own shard travels no way, each other one while a chunk is multiplied
    TPERF_PIPELINE, // each chunk's result is reduced while the next chunk is multiplied: the last one's when all is done
} tperf_chunking;
// What a collective of a product carries, which other precisions make smaller.
typedef enum tperf_carried {
    TPERF_CARRIES_OTHER,
    TPERF_CARRIES_INPUT,
    TPERF_CARRIES_OUTPUT_GRAD
} tperf_carried;

typedef struct tperf_comm {
    tperf_collective kind;
    tperf_carried carries;
    char axis[TPERF_AXIS_NAME_MAX]; // "tp", "cp" …
    int axis_index;                 // its row in the grid, set by tperf_workload_join
    bool share;   // bytes are one GPU's share of the vector; until it joins a layer
    bool beside;  // runs beside the op's own work: only what exceeds that takes time
    bool own;     // of a backward pass: for the gradients of the op's parameters
    double bytes; // the full vector, see tperf/collective.h
    tperf_routing
        routing; // of an all-to-all of tokens, that sends each once to a domain; top_k 0: a plain one
    double units; // multiprocessors that it takes from kernels beside it; 0: as the software says
    tperf_chunking chunking;
    bool exchanges; // takes tokens to their experts, or back
} tperf_comm;

enum { TPERF_KERNELS_MAX = 2 };

typedef struct tperf_pass {
    double tensor_flops, vector_flops;
    int n_kernels;                           // 0: the pass has no shape that matters
    tperf_kernel kernels[TPERF_KERNELS_MAX]; // one after the other
    int64_t
        chunks; // of rows into which the first kernel is cut for its chunked collective; 0 or 1: none
    double bytes;           // HBM traffic
    double bytes_per_panel; // further traffic for each SUMMA panel
    double routed;          // pairs of a token and an expert that it sorts
    bool absent;            // nothing runs: a backward pass that no gradient needs
    int n_comms;
    tperf_comm comms[TPERF_COMMS_MAX]; // one after the other
} tperf_pass;

// Parts of a layer that training may run again instead of keeping what they make: Megatron-Core's recompute_modules.
typedef enum tperf_module {
    TPERF_MODULE_CORE_ATTN,
    TPERF_MODULE_MOE_ACT,
    TPERF_MODULE_LAYERNORM,
    TPERF_MODULE_MLA_UP_PROJ,
    TPERF_MODULE_MLP,
    TPERF_MODULE_MOE,
    TPERF_MODULE_SHARED_EXPERTS,
    TPERF_MODULE_ATTN_NORM,
    TPERF_MODULE_MLP_NORM,
    TPERF_MODULE_QKV_LINEAR,
    TPERF_MODULE_ATTN_PROJ,
    TPERF_MODULE_EXPERT_FC1,
    TPERF_MODULE_COUNT
} tperf_module;

// Parts of a layer, of which some may also be told to keep their input in the host's memory: Megatron-Core's
// offload_modules.
extern const char *const tperf_module_names[TPERF_MODULE_COUNT];
// The shape of a product with weights, for tperf_op_narrow; rows = 0: the op is none.
typedef struct tperf_product {
    double rows, n_in, n_out, used; // used: products (experts) whose weights are read
    double kept, scattered;         // rows of X, and of Y's gradient, before they are gathered
    double read_bytes; // of weights in a forward pass, of a product in another precision; else 0
} tperf_product;
// Part of a backward pass, and of what is kept for it: what the gradients of the op's parameters take.
typedef struct tperf_own_gradients {
    int n_kernels; // the last ones of the pass
    double tensor_flops, vector_flops, bytes, saved_bytes;
} tperf_own_gradients;

typedef struct tperf_op {
    char name[TPERF_NAME_MAX], block[TPERF_NAME_MAX];
    tperf_dtype dtype;        // of activations; which peaks of the vector units apply
    tperf_dtype matrix_dtype; // in which the matrix units multiply
    tperf_pass forward, backward;
    double weight_bytes; // on one GPU
    double parameters;   // that these bytes hold: of each there is a gradient, and optimizer state
    double copy_bytes;   // further copies of the weights, which lie beside them between passes
    double gather_bytes; // what replicas gather of them, where that is not weight_bytes (0: it is)
    double step_bytes;   // read and written once an iteration, to make these copies
    tperf_product product;
    double output_bytes; // of its output, which its backward pass reads and the next product keeps
    bool frozen;         // its parameters are not trained
    bool stopped;        // nothing below is trained: the gradient of the input is not computed
    tperf_own_gradients own;
    bool attention;     // its kernels are attention's, which software runs at a pace of its own
    bool single;        // its backward pass is one kernel, not one for each gradient
    bool norm;          // a norm, whose kernel may write its output in fewer bits
    bool expert;        // the weights are those of experts, which the expert axis spreads
    bool tied;          // the weights are those of the embedding: a copy of its own only elsewhere
    unsigned modules;   // bit m: part of tperf_module m
    double saved_bytes; // activations kept for the backward pass
    double input_bytes; // of these, what another op made: its input
    double
        repeated_bytes; // of the forward pass's, what passes again or is free by then: takes time, no room
    double again_bytes; // and those made again for it, if recomputed
    double
        passing_bytes; // what its passes hold beside what is kept; 0: as its forward traffic has it
    double offload_bytes; // activations that the host's memory keeps until the backward pass
    bool panels;          // communicates panel by panel, overlapped with its own compute
    bool recomputed;      // the backward pass begins with the forward pass
    double kept_part;     // of what that makes: so much of its kernels' work is not done again
    bool fused;           // its forward pass is part of a neighbour's kernel: no launch of its own
    bool eager;           // the host launches it, even where an engine replays graphs
} tperf_op;

// Y = X W + bias. X is tokens x n_in, W is n_in x n_out. Saved: X, unless another op keeps it.
// A product cut by W's columns takes a gathered X; one cut by its rows makes partial sums of Y.
//   gather_axis:       X lies in shards of `shard` tokens (0: all of them); they are gathered before each
//                      pass, and only the shard is kept (arXiv 2205.05198, section 4.2.2)
//   reduce_axis, sum_axis:           Y is reduce-scattered, all-reduced
//   grad_axis, grad_sum_axis:        X's gradient is reduce-scattered, all-reduced
//   overlap:           in the backward pass, gathering X and reducing its gradient run beside the products (as
//                      in Megatron-LM: the one beside X's gradient, the other beside W's)
//   output_grad_axis:  Y's gradient is a shard, gathered for the backward pass
//   scattered:         rows of Y's gradient on each GPU of output_grad_axis (0: all of them)
//   parameter_axis, bias_axis:       weights, or the bias alone, are replicated: gradients all-reduced
//   chunks:            > 1: in the forward pass X is gathered, and Y reduced, in a ring of so many chunks beside the
//                      product. pipelined (TransformerEngine's user buffers): Y in TPERF_PIPELINE_CHUNKS, each reduced by itself;
//                      and Y's gradient is gathered in a ring beside X's
// experts > 0: as many products side by side, of experts; `tokens` counts the rows of all of them and
// `active` how many have any rows, so that their weights are read (0: all).
typedef struct tperf_linear {
    int64_t tokens, n_in, n_out, shard, experts, scattered;
    double active;
    int64_t chunks;
    bool bias, input_kept_elsewhere, tied, overlap, pipelined;
    bool weights_elsewhere; // another op of this GPU has them: they are read, but not counted
    double weight_element;  // bytes of one weight; 0: the op's dtype
    const char *gather_axis, *reduce_axis, *sum_axis, *grad_axis, *grad_sum_axis, *output_grad_axis,
        *parameter_axis, *bias_axis;
} tperf_linear;
enum { TPERF_PIPELINE_CHUNKS = 4 }; // num_splits of its method "pipeline"
tperf_status tperf_op_linear(tperf_op *op, const tperf_linear *shape, tperf_error *error);

// The same product on a grid of GPUs by SUMMA: X (tokens x n_in) and W (n_in x n_out) travel in
// panels. Shares: n_in_columns = n_in / columns of X, n_in_rows = n_in / rows of W; tokens and
// n_out are local.
typedef struct tperf_summa {
    int64_t tokens, n_in, n_out, n_in_columns, n_in_rows;
    bool bias, input_kept_elsewhere, tied; // as in tperf_linear
    const char *columns_axis, *rows_axis, *bias_axis;
} tperf_summa;
tperf_status tperf_op_summa(tperf_op *op, const tperf_summa *shape, tperf_error *error);

// The two attention products by SUMMA, of `heads` (all of them) for `batch` samples.
// scores: queries x keys; rows = queries / rows axis, head_dim cut by the columns axis.
typedef struct tperf_summa_attention {
    int64_t batch, heads, queries, queries_rows, queries_columns, head_dim_columns;
    bool keep_scores;
    const char *columns_axis, *rows_axis;
} tperf_summa_attention;
tperf_status tperf_op_summa_scores(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error);
tperf_status tperf_op_summa_attend(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error);

// A pass over `elements`, and over `parameters` shared by all of them. Counts are per element.
// grad_axis: the parameters are replicated over that axis, so their gradients are all-reduced.
typedef struct tperf_elementwise {
    double elements;
    int64_t parameters;
    double forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes, input_bytes,
        repeated_bytes;
    bool recomputed, fused, eager;
    const char *grad_axis;
} tperf_elementwise;
tperf_status tperf_op_elementwise(tperf_op *op, const tperf_elementwise *shape, tperf_error *error);

// Softmax over `width` scores of each of `rows` rows, as a kernel of its own.
// sum_axis: the row is spread over that axis, so the row sums are all-reduced.
typedef struct tperf_softmax {
    double rows;
    int64_t width;
    bool keep_output, recomputed;
    const char *sum_axis;
} tperf_softmax;
tperf_status tperf_op_softmax(tperf_op *op, const tperf_softmax *shape, tperf_error *error);

// Layer norm of `tokens` rows of `width`: mean 2, variance 3, normalise 2, scale and shift 2 FLOP; or root
// mean square norm (arXiv 1910.07467): mean square 2, normalise 1, scale 1. Saved: the input.
// The backward pass reads the input and the gradient twice, for the input's and the parameters' gradients.
// gather_axis: the rows are a shard; the result, gathered_tokens x width (0: all shards together),
//   is all-gathered for the next product, its gradient reduce-scattered.
// statistics_axis: a row is spread over that axis; the row statistics are all-reduced, and in the
//   backward pass grad_statistics elements.
// grad_axis: scale and shift are replicated over that axis.
#define TPERF_NORM_WHOLE INT64_MIN
typedef struct tperf_norm {
    int64_t tokens, width, gathered_tokens;
    int64_t
        parameters; // scale (and shift); TPERF_NORM_WHOLE: one of each for every element of a row
    double grad_statistics;
    bool root_mean_square, input_kept_elsewhere;
    const char *gather_axis, *statistics_axis, *grad_axis;
} tperf_norm;
tperf_status tperf_op_norm(tperf_op *op, const tperf_norm *shape, tperf_error *error);

// Attention of `queries` local rows over `keys` rows, by `heads` local heads for `batch` samples.
// gather_axis: keys and values are spread over that axis and gathered before each pass,
//   their gradients reduce-scattered after.
// grad_reads_gathered: the backward pass reads the gathered keys and values, not the local (Q14).
typedef struct tperf_attention {
    int64_t batch, heads, queries, keys, head_dim;
    int64_t kv_heads; // that are gathered, and then repeated for every head; 0: heads
    bool keep_scores, recomputed, grad_reads_gathered;
    const char *gather_axis;
} tperf_attention;
tperf_status tperf_op_scores(tperf_op *op, const tperf_attention *shape,
                             tperf_error *error); // Q K^T
tperf_status tperf_op_attend(tperf_op *op, const tperf_attention *shape, tperf_error *error); // P V
tperf_status tperf_op_flash_attention(tperf_op *op, const tperf_attention *shape,
                                      tperf_error *error); // fused

// Fused attention as training and serving run it (FlashAttention-2, arXiv 2307.08691, section 3): only the
// pairs of a query and a key that see each other are computed.
//   queries    local rows, the last of the sequence unless `shards` says that they are an even 1/shards of
//              shards x queries rows; keys: the rows they may see, cached ones included
//   causal     row i sees keys 1 … i; window: the last `window` of them (0: all)
//   pairs      of one head: sum over its rows of the keys seen, so causal attention over s rows has
//              s (s + 1) / 2, a window w < s has s w - w (w - 1) / 2
//   kv_heads   shared by heads / kv_heads queries each; value_dim: of values and output (0: head_dim)
//   values_in_keys   values are part of the keys, read once (absorbed latent attention, arXiv 2405.04434, 2.1.2)
// Forward: Q K^T and P V, softmax 3 FLOP a pair, dropout 1. Backward: Q K^T and softmax again, then the
// gradients of P, V, Q, K. Traffic: Q, O of every head, K, V of every key-value head once, and 4 bytes of
// log-sum-exp a row. Saved: Q, K, V and those 4 bytes; O is the next product's input, which keeps it.
//   seen       keys that a row sees on average, where a sequence is several documents that do not see each other (0: all
//              of the above); causal kernels then run over documents of 2 seen - 1 rows
typedef struct tperf_fused_attention {
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim, window, shards;
    double seen;
    bool causal, dropout, values_in_keys, sinks;
    bool ring;         // keys and values pass from GPU to GPU beside the kernels (arXiv 2310.01889)
    double kv_element; // bytes of one key or value element; 0: the op's dtype
    const char *gather_axis; // keys and values are spread over it, as in tperf_attention
} tperf_fused_attention;
tperf_status tperf_op_attention(tperf_op *op, const tperf_fused_attention *shape,
                                tperf_error *error);

// Looks `tokens` rows of `width` up in a table of which this GPU has `rows`; each GPU of the axis adds
// what it has, and the result is reduce-scattered or all-reduced (Megatron-LM, arXiv 1909.08053, section 3).
typedef struct tperf_embedding {
    int64_t tokens, rows, width;
    bool tied;
    double weight_element;
    const char *reduce_axis, *sum_axis;
} tperf_embedding;
tperf_status tperf_op_embedding(tperf_op *op, const tperf_embedding *shape, tperf_error *error);

// Cross-entropy of `tokens` rows of logits, of which this GPU has `vocab`; over the axis go the row maxima,
// the targets' logits and the sums of exponentials, in fp32 (arXiv 1909.08053, section 3).
// A logit costs 4 FLOP forward (maximum, difference, exponential, sum), 2 backward. Saved: the softmax in
// fp32 (arXiv 2205.05198, section 4.3: 4 s b v).
typedef struct tperf_cross_entropy {
    int64_t tokens, vocab;
    const char *axis;
} tperf_cross_entropy;
tperf_status tperf_op_cross_entropy(tperf_op *op, const tperf_cross_entropy *shape,
                                    tperf_error *error);

// Scores every token for `experts` experts, normalises the scores (3 FLOP each), and picks top_k of them
// (one comparison a score and pick). Saved: the scores in fp32, and the input unless another op keeps it.
typedef struct tperf_router {
    int64_t tokens, width, experts, top_k;
    bool bias, input_kept_elsewhere;
    const char *grad_axis; // the weights are replicated over it
} tperf_router;
tperf_status tperf_op_router(tperf_op *op, const tperf_router *shape, tperf_error *error);

// The state-space scan of Mamba-2 in chunks of q tokens as matrix products (arXiv 2405.21060, section 6):
// with G groups of state size N, H heads of size P, per token C B^T 2 q N G, its product with X 2 q P H,
// the chunk's state 2 N P H and what the state before it adds 2 N P H. Backward: twice as much, and C B^T
// and the states again. step: one token from the state kept (6 N P H vector FLOPs), which is read
// and written in fp32. Bytes: its inputs and outputs, the states of all chunks and C B^T between
// its kernels (src/op/mixers.c). Saved: x, B, C and dt, as the convolution before it got them.
typedef struct tperf_scan {
    int64_t batch, seq, heads, head_dim, groups, state, chunk;
    bool step;
} tperf_scan;
tperf_status tperf_op_scan(tperf_op *op, const tperf_scan *shape, tperf_error *error);

// A product with weights in another precision (lua/tperf/describe/precision.lua). Bytes are those of one number, its share of a
// scale included; 0 where they stay.
//   number, weight     that the matrix units read of X or Y's gradient, and of W
//   held, copies       of a weight between passes: as it lies, and of further copies
//   gathered, step     of a weight: that replicas gather; that are read and written once an iteration
//   gather, grad_gather   part of the bytes of X's, and of Y's gradient's, gathers that is left
//   keeps              X is kept as it was; else who narrows it keeps it
//   made               other ops narrow the factors; else the product does, as engines for serving do
//   wide_weight_grad   dW = X^T dY stays in the op's dtype
// The layer's input, which a recomputed op keeps, stays as it is. Refuses an op that is no product, or by SUMMA.
typedef struct tperf_narrowing {
    tperf_dtype dtype;
    double number, weight, held, copies, gathered, step, gather, grad_gather;
    bool keeps, made, wide_weight_grad;
} tperf_narrowing;
tperf_status tperf_op_narrow(tperf_op *op, const tperf_narrowing *how, tperf_error *error);

// The op keeps so many bytes of its output, too, at most all, which the next product did.
void tperf_op_keep_output(tperf_op *op, double bytes);

// The same op in full recomputation (arXiv 2205.05198, section 5): runs again before its backward pass
// and keeps `saved_bytes`, the input of what is recomputed together, or nothing.
void tperf_op_recompute(tperf_op *op, double saved_bytes);

// The same op where what makes that part of its input, in [0, 1], runs again: it does not keep it, but it comes back for
// its backward pass.
void tperf_op_drop_input(tperf_op *op, double part);

// The same op where a part of its work, in [0, 1], is done again, and `output_bytes` of the rest of its output stay.
void tperf_op_repeat(tperf_op *op, double part, double output_bytes);

// The same op where what it keeps, or of that its input alone, waits for the backward pass in the host's memory.
void tperf_op_offload(tperf_op *op, bool input_alone);
// The op's parameters are not trained: of the backward pass the gradient of the input remains, and a product keeps no
// input for it (arXiv 2106.09685). What ran beside the product that is gone hides behind nothing. element: bytes that
// each parameter is kept in from now on; negative: as before. keeps_input: another op needs it (fused attention its
// result).
void tperf_op_freeze(tperf_op *op, double element, bool keeps_input);

// Nothing that the op's input comes from is trained: of the backward pass the gradients of the parameters remain.
// Without any there is no such pass, and nothing is kept for it.
void tperf_op_stop(tperf_op *op);

// Checks a finished op: every count finite and not negative.
tperf_status tperf_op_validate(const tperf_op *op, tperf_error *error);

#endif
