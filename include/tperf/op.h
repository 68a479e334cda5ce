// op.h: one kernel's counts, forward and backward. An op knows no time and no machine.
//
// One multiply, one add and one exponential are one FLOP each. Bytes are HBM traffic. Shapes are those that one GPU
// sees. A collective names an axis, not a size: the layer that the op joins knows the sizes. The formulas are those of
// arXiv 2410.00273 in the form of docs/model.md, generalised where a comment says so; "inner length - 1" additions are
// counted where the source counts them.
#ifndef TPERF_OP_H
#define TPERF_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "tperf/grid.h"

enum { TPERF_NAME_MAX = 24, TPERF_COMMS_MAX = 6, TPERF_MORE_KERNELS_MAX = 64 };

// How a collective overlaps the product whose input it gathers or whose result it reduces: the product is cut into
// chunks of rows.
typedef enum tperf_chunking {
    TPERF_UNCHUNKED,
    // One chunk per GPU of the group: the local shard needs no transfer; each other one arrives while a chunk is
    // multiplied.
    TPERF_RING,
    // Each chunk's result is reduced while the next chunk is multiplied; the last one's after all of them.
    TPERF_PIPELINE,
} tperf_chunking;
// The tensor that a product's collective carries, which a narrower precision makes smaller.
typedef enum tperf_carried {
    TPERF_CARRIES_OTHER,
    TPERF_CARRIES_INPUT,
    TPERF_CARRIES_OUTPUT_GRAD
} tperf_carried;

typedef struct tperf_comm {
    tperf_collective kind;
    tperf_carried carries;
    char axis[TPERF_AXIS_NAME_MAX]; // "tp", "cp" …
    int axis_index;                 // row in the grid, set by tperf_op_join
    unsigned inward; // axes whose GPUs lie between those of the group, as a mask; as well
    bool share;      // bytes are one GPU's share of the vector, until the op joins a layer
    bool beside;     // overlaps the op's own work: only the excess takes time
    bool own;        // in a backward pass: serves the gradients of the op's parameters
    double bytes;    // the full vector, see tperf/collective.h
    // For an all-to-all of tokens that sends each token once per domain; top_k 0: a plain collective.
    tperf_routing routing;
    double units;       // multiprocessors taken from concurrent kernels; 0: the software's default
    bool beside_chunks; // takes the accelerator's overlap_sms from a product in chunks beside it
    tperf_chunking chunking;
    bool exchanges; // dispatches tokens to their experts, or combines them
} tperf_comm;

// Whether it adds up the gradients of replicated parameters: once an iteration, after the last backward pass, as stacks
// accumulate gradients first (Megatron-LM, finalize_model_grads.py).
static inline bool tperf_comm_is_once(const tperf_comm *comm) {
    return comm->own && comm->kind == TPERF_ALL_REDUCE;
}

enum { TPERF_KERNELS_MAX = 2 };

typedef struct tperf_pass {
    double tensor_flops, vector_flops;
    double masked_flops;                     // of tensor_flops: of tiles that kernels skip
    int n_kernels;                           // 0: the pass has no shape that matters
    tperf_kernel kernels[TPERF_KERNELS_MAX]; // one after the other
    // Chunks of rows that the first kernel is cut into for its chunked collective; 0 or 1: not cut.
    int64_t chunks;
    double bytes;           // HBM traffic
    double host_bytes;      // to or from the host's memory, beside which nothing of the op runs
    double bytes_per_panel; // further traffic per SUMMA panel
    double routed;          // pairs of a token and an expert that it sorts
    bool absent;            // nothing runs: no gradient needs this backward pass
    int n_comms;
    tperf_comm comms[TPERF_COMMS_MAX]; // one after the other
} tperf_pass;

// Parts of a layer that training may recompute instead of keeping their outputs: Megatron-Core's recompute_modules.
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
    TPERF_MODULE_MOE_ROUTER,
    TPERF_MODULE_MLP_ACT,
    TPERF_MODULE_COUNT
} tperf_module;

// Names of the modules. Some may also keep their input in the host's memory: Megatron-Core's offload_modules.
extern const char *const tperf_module_names[TPERF_MODULE_COUNT];
// The shape of a product with weights, for tperf_op_narrow; rows = 0: the op is not one.
typedef struct tperf_product {
    double rows, n_in, n_out, used; // products (experts) whose weights are read
    double kept, scattered;         // rows of X, and of Y's gradient, before they are gathered
    double read_bytes;              // of weights in a forward pass in another precision; else 0
} tperf_product;
// The part of a backward pass, and of the kept activations, that the gradients of the op's own parameters need.
typedef struct tperf_own_gradients {
    int n_kernels; // the last ones of the pass
    double tensor_flops, vector_flops, bytes, host_bytes, saved_bytes;
} tperf_own_gradients;

// What a sequence keeps between the steps of decoding, on one GPU: bytes for each of its tokens, or for the last `window`
// of them (0: all); and whatever their number. Attention says `keys` that it reads, of key_bytes each, of all its batch,
// and a scan its state, unless the block says what is kept (`stated`).
typedef struct tperf_op_kept {
    double token, sequence, window, keys, key_bytes;
    bool stated;
} tperf_op_kept;

typedef struct tperf_op {
    char name[TPERF_NAME_MAX];
    char input[TPERF_NAME_MAX];     // ops whose inputs have one name keep it once; "": its own
    char shared_as[TPERF_NAME_MAX]; // ops of one name share one tensor; "": its weights are its own
    tperf_dtype dtype;              // of activations; selects the peaks of the vector units
    tperf_dtype matrix_dtype;       // in which the matrix units multiply
    tperf_pass forward, backward;
    double weight_bytes; // on one GPU
    double parameters;   // in these bytes; each has a gradient and optimizer state
    double borrowed;     // parameters that another op holds
    double copy_bytes;   // further copies of the weights, kept beside them between passes
    double gather_bytes; // bytes that replicas gather; 0: weight_bytes
    double step_bytes;   // read and written once per iteration to make these copies
    tperf_product product;
    double output_bytes; // its output, which its own backward pass reads and the next product keeps
    double weights_read; // bytes of weights that a forward pass of a product or a table reads
    double table_rows;   // of a table, on this GPU; else 0
    // Its weights are in the host's memory, with their gradients and optimizer state.
    bool on_host;
    // It says how its weights are stored, which no question's dtype or precision changes.
    bool own_format;
    bool sparse;  // of 4 weights that follow each other 2 are zero, which its forward pass skips
    bool frozen;  // its parameters are not trained
    bool stopped; // nothing below is trained: the input's gradient is not computed
    tperf_own_gradients own;
    bool attention; // its kernels are fused attention, for which software has its own factor
    // FLOPs of a forward pass as MFU counts them, of pairs that see each other, and of all pairs within the window; 0:
    // those of its kernels.
    double seen_flops, pair_flops;
    tperf_op_kept kept;
    bool single;   // its backward pass is one kernel, not one per gradient
    bool joined;   // a neighbour's call launches its kernels: the host makes no call for it
    int64_t calls; // of the host for each of its kernels, unless a graph holds them; 0: one
    int64_t backward_calls; // for the backward pass; 0: `calls` for each gradient
    bool looped;            // all but the first of them are PyTorch's alone, in a module's loop
    bool scattered;         // passes over rows in their experts' order: the HBM's scattered part
    bool chunkwise;         // kernels of a recurrence in chunks: the accelerator's chunkwise
    int64_t role;           // tperf_role, of a pass over elements
    double elements;        // of that pass
    bool norm;              // a norm, whose kernel may write its output in a narrower dtype
    bool expert;            // the weights are experts', spread by the expert axis
    bool adapter;           // added beside the model's own ops
    bool tied;              // the weights are the embedding's: copied only to other GPUs
    unsigned modules;       // bit m: part of tperf_module m
    double saved_bytes;     // activations kept for the backward pass
    double input_bytes;     // the part of saved_bytes that is the op's input, made by another op
    // Forward traffic that passes again or is free by then: it takes time but no memory.
    double repeated_bytes;
    double again_bytes; // saved activations made again before the backward pass, if recomputed
    // Live during one of its passes, beside what is kept; 0: derived from the forward traffic.
    double passing_bytes;
    double offload_bytes; // activations kept in the host's memory until the backward pass
    bool offloaded;       // those of the op are, even if other ops keep all that it needs
    // How often it runs in a pass, one after the other, or on average; 0: once. Counts and shapes are those of one run; what
    // is kept for the backward pass is of all of them.
    double times;
    bool panels;          // communicates panel by panel, overlapped with its own compute
    bool recomputed;      // the backward pass begins by repeating the forward pass
    double kept_part;     // fraction of the repeated kernels' work that is not done again
    bool fused;           // its forward pass is part of a neighbour's kernel: no launch of its own
    bool eager;           // the host launches it even where an engine replays graphs
    bool by_keys;         // its cost grows with the keys that its tokens see
    int64_t more_kernels; // beside its own, which a serving engine's host launches without graphs
} tperf_op;

// How often the op runs in a pass.
static inline double tperf_op_times(const tperf_op *op) {
    return op->times > 0 ? op->times : 1;
}

// Puts its weights into the host's memory: a forward pass reads this part of weights_read over the host's link, and a
// backward pass writes as much of gradients; that of a product reads the weights again.
void tperf_op_to_host(tperf_op *op, double part);

// The same op if another one keeps its input.
void tperf_op_borrow_input(tperf_op *op);

// An op of this name, without counts. The functions below add the counts of a kind to such an op, once.
tperf_op tperf_op_new(const char *name, tperf_dtype dtype);

// Y = X W + bias. X is tokens x n_in, W is n_in x n_out. Saved: X, unless another op keeps it. A product cut along W's
// columns takes a gathered X; one cut along its rows makes partial sums of Y.
//   gather_axis:       X lies in shards of `shard` tokens (0: all of them); they are gathered before each
//                      pass, and only the shard is kept (arXiv 2205.05198, section 4.2.2)
//   reduce_axis, sum_axis:           Y is reduce-scattered, all-reduced
//   grad_axis, grad_sum_axis:        X's gradient is reduce-scattered, all-reduced
//   overlap:           in the backward pass, the gather of X runs beside X's gradient and the reduction of that
//                      gradient beside W's (as in Megatron-LM)
//   output_grad_axis:  Y's gradient is a shard, gathered for the backward pass
//   scattered:         rows of Y's gradient on each GPU of output_grad_axis (0: all of them)
//   parameter_axis, bias_axis:       weights, or the bias alone, are replicated: gradients all-reduced
//   chunks:            > 1: in the forward pass X is gathered, and Y reduced, in a ring of this many chunks beside the
//                      product. pipelined (TransformerEngine's user buffers): Y in TPERF_PIPELINE_CHUNKS, each reduced
//                      on its own, and Y's gradient is gathered in a ring beside X's
// taps > 1: a convolution as a product: a row of X is the `taps` neighbours of a position, so n_in is taps x channels. X
// itself has `positions` (0: tokens) of n_in / taps features, which is what is read and kept. groups > 0: it is this
// many products side by side, of the rows, positions and channels of one group each; `tokens` and `positions` count
// those of all of them.
// sparse: of each 4 weights along n_in 2 are zero. The forward pass multiplies and stores the others, with 2 bits each
// that say which they are (arXiv 2104.08378, section 3); a backward pass is that of a whole product.
// experts > 0: this many products side by side, one per expert; `tokens` counts the rows of all of them and `active`
// the experts with any rows, whose weights are read (0: all).
typedef struct tperf_linear {
    int64_t tokens, n_in, n_out, shard, experts, scattered;
    double active;
    int64_t chunks, taps, positions, groups;
    bool bias, input_kept_elsewhere, tied, overlap, pipelined;
    bool weights_elsewhere; // another op on this GPU holds them: read, but not counted
    bool sparse;
    double weight_element; // bytes per weight; 0: the op's dtype
    const char *gather_axis, *reduce_axis, *sum_axis, *grad_axis, *grad_sum_axis, *output_grad_axis,
        *parameter_axis, *bias_axis;
} tperf_linear;
enum { TPERF_PIPELINE_CHUNKS = 4 }; // num_splits of TransformerEngine's "pipeline" method
tperf_status tperf_op_linear(tperf_op *op, const tperf_linear *shape, tperf_error *error);

// The same product on a grid of GPUs by SUMMA: X (tokens x n_in) and W (n_in x n_out) travel in panels. Local shares:
// n_in_columns = n_in / columns of X, n_in_rows = n_in / rows of W; tokens and n_out are local already.
typedef struct tperf_summa {
    int64_t tokens, n_in, n_out, n_in_columns, n_in_rows;
    bool bias, input_kept_elsewhere, tied; // as in tperf_linear
    // Its products take what the machine's curves say of their shapes, one kernel for each panel. The published model
    // has no curves.
    bool shaped;
    const char *columns_axis, *rows_axis, *bias_axis;
} tperf_summa;
tperf_status tperf_op_summa(tperf_op *op, const tperf_summa *shape, tperf_error *error);

// The two attention products by SUMMA, over all `heads` of `batch` samples. Scores: queries x keys; rows = queries /
// rows axis, head_dim cut by the columns axis.
typedef struct tperf_summa_attention {
    int64_t batch, heads, queries, queries_rows, queries_columns, head_dim_columns;
    bool keep_scores, shaped; // shaped: as in tperf_summa
    const char *columns_axis, *rows_axis;
} tperf_summa_attention;
tperf_status tperf_op_summa_scores(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error);
tperf_status tperf_op_summa_attend(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error);

// Passes that serving engines, and PyTorch without a compiler, run as other kernels.
typedef enum tperf_role {
    TPERF_ROLE_OTHER,
    TPERF_ROLE_RESIDUAL,
    TPERF_ROLE_ROTARY,
    TPERF_ROLE_GATE
} tperf_role;

// A pass over `elements`, with `parameters` shared by all of them. Counts are per element.
// grad_axis: the parameters are replicated over this axis: gradients are all-reduced.
// role: tperf_role.
typedef struct tperf_elementwise {
    double elements;
    int64_t parameters, role;
    double forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes, input_bytes,
        repeated_bytes;
    bool recomputed, fused, eager;
    const char *grad_axis;
} tperf_elementwise;
tperf_status tperf_op_elementwise(tperf_op *op, const tperf_elementwise *shape, tperf_error *error);

// Softmax over `width` scores in each of `rows` rows, as a separate kernel.
// sum_axis: each row is spread over this axis: row sums are all-reduced.
typedef struct tperf_softmax {
    double rows;
    int64_t width;
    bool keep_output, recomputed;
    const char *sum_axis;
} tperf_softmax;
tperf_status tperf_op_softmax(tperf_op *op, const tperf_softmax *shape, tperf_error *error);

// Layer norm of `tokens` rows of `width`: mean 2, variance 3, normalise 2, scale and shift 2 FLOP; or root mean square
// norm (arXiv 1910.07467): mean square 2, normalise 1, scale 1. Saved: the input. The backward pass reads the input and
// the gradient twice, for the gradients of the input and of the parameters.
// gather_axis: the rows are a shard; the result, gathered_tokens x width (0: all shards together),
//   is all-gathered for the next product, its gradient reduce-scattered.
// statistics_axis: each row is spread over this axis; the row statistics are all-reduced and, in the backward pass,
//   grad_statistics elements.
// grad_axis: scale and shift are replicated over this axis.
#define TPERF_NORM_WHOLE INT64_MIN
typedef struct tperf_norm {
    int64_t tokens, width, gathered_tokens;
    // Of scale (and shift); TPERF_NORM_WHOLE: one for every element of a row.
    int64_t parameters;
    double grad_statistics;
    bool root_mean_square, input_kept_elsewhere;
    const char *gather_axis, *statistics_axis, *grad_axis;
} tperf_norm;
tperf_status tperf_op_norm(tperf_op *op, const tperf_norm *shape, tperf_error *error);

// Attention of `queries` local rows over `keys` rows, by `heads` local heads for `batch` samples.
// gather_axis: keys and values are spread over this axis; they are gathered before each pass and their gradients
//   reduce-scattered after it.
// grad_reads_gathered: the backward pass reads the gathered keys and values, not the local ones (Q14).
typedef struct tperf_attention {
    int64_t batch, heads, queries, keys, head_dim;
    int64_t kv_heads; // gathered, then repeated for every head; 0: heads
    bool keep_scores, recomputed, grad_reads_gathered;
    const char *gather_axis;
} tperf_attention;
tperf_status tperf_op_scores(tperf_op *op, const tperf_attention *shape,
                             tperf_error *error); // Q K^T
tperf_status tperf_op_attend(tperf_op *op, const tperf_attention *shape, tperf_error *error); // P V
tperf_status tperf_op_flash_attention(tperf_op *op, const tperf_attention *shape,
                                      tperf_error *error); // fused

// Fused attention as training and serving run it (FlashAttention-2, arXiv 2307.08691, section 3): computes only the
// pairs of a query and a key that see each other.
//   queries    local rows, the last of the sequence; with `shards`, an even 1/shards of shards x queries rows
//   keys       the rows that they may see, cached ones included
//   causal     row i sees keys 1 … i; window: the last `window` of them (0: all)
//   pairs      of one head: sum over its rows of the keys seen, so causal attention over s rows has
//              s (s + 1) / 2, a window w < s has s w - w (w - 1) / 2
//   kv_heads   each shared by heads / kv_heads query heads; value_dim: of values and output (0: head_dim)
//   values_in_keys   values are part of the keys, read once (absorbed latent attention, arXiv 2405.04434, 2.1.2)
// Forward: Q K^T and P V, softmax 3 FLOP a pair, dropout 1. Backward: Q K^T and softmax again, then the
// gradients of P, V, Q, K. Traffic: Q, O of every head, K, V of every key-value head once, and 4 bytes of
// log-sum-exp a row. Saved: Q, K, V and those 4 bytes; O is the next product's input, which keeps it.
//   seen       the average number of keys that a row sees, where a sequence packs several documents that do not see
//   each
//              other (0: all of the above); causal kernels then run over documents of 2 seen - 1 rows
typedef struct tperf_fused_attention {
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim, window, shards;
    double seen;
    bool causal, dropout, values_in_keys, sinks;
    bool ring; // keys and values travel from GPU to GPU beside the kernels (arXiv 2310.01889)
    double kv_element;       // bytes per key or value element; 0: the op's dtype
    const char *gather_axis; // keys and values are spread over it, as in tperf_attention
} tperf_fused_attention;
tperf_status tperf_op_attention(tperf_op *op, const tperf_fused_attention *shape,
                                tperf_error *error);

// Looks up `tokens` rows of `width` in a table of which this GPU has `rows`; the GPUs of the axis add their rows, and
// the result is reduce-scattered or all-reduced (Megatron-LM, arXiv 1909.08053, section 3).
typedef struct tperf_embedding {
    int64_t tokens, rows, width;
    bool tied;
    double weight_element;
    const char *reduce_axis, *sum_axis;
} tperf_embedding;
tperf_status tperf_op_embedding(tperf_op *op, const tperf_embedding *shape, tperf_error *error);

// Cross-entropy of `tokens` rows of logits, of which this GPU has `vocab`. The axis reduces the row maxima, the
// targets' logits and the sums of exponentials, in fp32 (arXiv 1909.08053, section 3). A logit costs 4 FLOP forward
// (maximum, difference, exponential, sum) and 2 backward. Saved: the softmax in fp32 (arXiv 2205.05198, section 4.3: 4
// s b v).
typedef struct tperf_cross_entropy {
    int64_t tokens, vocab;
    const char *axis;
} tperf_cross_entropy;
tperf_status tperf_op_cross_entropy(tperf_op *op, const tperf_cross_entropy *shape,
                                    tperf_error *error);

// Scores every token for `experts` experts, normalises the scores (3 FLOP each), and picks the top_k (one comparison
// per score and pick). Saved: the scores in fp32, and the input unless another op keeps it.
typedef struct tperf_router {
    int64_t tokens, width, experts, top_k;
    bool bias, input_kept_elsewhere;
    const char *grad_axis; // the weights are replicated over this axis
} tperf_router;
tperf_status tperf_op_router(tperf_op *op, const tperf_router *shape, tperf_error *error);

// The state-space scan of Mamba-2 in chunks of q tokens as matrix products (arXiv 2405.21060, section 6): with G groups
// of state size N and H heads of size P, per token C B^T 2 q N G, its product with X 2 q P H, the chunk's state 2 N P H
// and the contribution of the previous state 2 N P H. Backward: twice as much, and C B^T and the states again. step:
// one token from the kept state (6 N P H vector FLOPs), which is read and written. Bytes: inputs and outputs,
// and between kernels the states of all chunks and C B^T (src/op/mixers.c). Saved: x, B, C and dt, as the convolution
// before it received them.
typedef struct tperf_scan {
    int64_t batch, seq, heads, head_dim, groups, state, chunk;
    bool step;
    double state_element; // bytes of a number of the kept state; 0: 4
} tperf_scan;
tperf_status tperf_op_scan(tperf_op *op, const tperf_scan *shape, tperf_error *error);

// A product with weights in another precision (lua/tperf/describe/precision.lua). Bytes are per number, with its share
// of a scale; 0 where they do not change.
//   number, weight     read by the matrix units: of X or Y's gradient, and of W
//   held, copies       of a weight between passes: the weight itself, and further copies
//   gathered, step     of a weight: gathered by replicas; read and written once per iteration
//   gather, grad_gather   the fraction of the bytes that gathers of X, and of Y's gradient, still move
//   keeps              X is kept unchanged; else the op that narrows it keeps it
//   made               other ops narrow the factors; else the product does, as in serving engines
//   wide_weight_grad   dW = X^T dY stays in the op's dtype
// The layer's input, which a recomputed op keeps, stays as it is. Fails for an op that is not a product, and for SUMMA.
typedef struct tperf_narrowing {
    tperf_dtype dtype;
    double number, weight, held, copies, gathered, step, gather, grad_gather;
    bool keeps, made, wide_weight_grad;
} tperf_narrowing;
tperf_status tperf_op_narrow(tperf_op *op, const tperf_narrowing *how, tperf_error *error);

// The op, not the next product, keeps this many bytes of its output, at most all of it.
void tperf_op_keep_output(tperf_op *op, double bytes);

// The same op under full recomputation (arXiv 2205.05198, section 5): it runs again before its backward pass and keeps
// `saved_bytes`, the input of the recomputed group, or nothing.
void tperf_op_recompute(tperf_op *op, double saved_bytes);

// Moves *count, at t = 0 of a line that has `at_one` at t = 1, to its t. False if it would not be exact.
bool tperf_on_line(double *count, double at_one, double t);

// Of ops that differ in their number of tokens alone, the one at t of the line through two, at t = 0 and t = 1. False if
// a count would not be exact. Whether the counts lie on a line at all is the caller's to find out.
bool tperf_op_on_line(tperf_op *made, const tperf_op *at_zero, const tperf_op *at_one, double t);

// The same op if the producer of the fraction `part` of its input is recomputed: the op does not keep that part, which
// is back in memory for its backward pass.
void tperf_op_drop_input(tperf_op *op, double part);

// The same op if the fraction `part` of its work is recomputed; it keeps `output_bytes` of the rest of its output.
void tperf_op_repeat(tperf_op *op, double part, double output_bytes);

// The same op if its kept activations, or only its input, wait for the backward pass in the host's memory.
void tperf_op_offload(tperf_op *op, bool input_alone);
// The op's parameters are not trained: only the input's gradient remains of the backward pass, and a product keeps no
// input for it (arXiv 2106.09685). Collectives that overlapped the removed product are exposed. element: new bytes per
// parameter; negative: unchanged. keeps_input: another op needs the input (fused attention needs its result).
void tperf_op_freeze(tperf_op *op, double element, bool keeps_input);

// Nothing upstream of the op is trained: only the parameters' gradients remain of the backward pass. Without parameters
// there is no backward pass, and nothing is kept for it.
void tperf_op_stop(tperf_op *op);

// FLOPs of a pass by which MFU is counted: 2 m n k of each product, those of attention's pairs (with all_pairs of pairs
// that the mask hides, too), whatever else runs on the matrix units. A backward pass counts at most twice the forward
// pass: what it computes again does not count.
typedef struct tperf_model_flops {
    double forward, backward;
} tperf_model_flops;
tperf_model_flops tperf_op_model_flops(const tperf_op *op, bool all_pairs);

// The same op if it runs so often in a pass: serial steps, an exit that not every token reaches, many equal messages.
void tperf_op_occur(tperf_op *op, double times);

// The same op whose weights another section holds, and an op that holds its weights and computes nothing.
void tperf_op_lend(tperf_op *op);
void tperf_op_hold_alone(tperf_op *op);

// Kernels that a serving engine's host launches for the op's forward pass where no graph holds them: its own, those
// beside, and one that narrows the input of a product in fewer bits.
int64_t tperf_op_served_kernels(const tperf_op *op);

// Checks a finished op: every count is finite and not negative.
tperf_status tperf_op_validate(const tperf_op *op, tperf_error *error);

#endif
