// plan.h: one training configuration: the time of an iteration and the memory of a GPU.
// Formulas: docs/model.md sections 5 and 6.
#ifndef TPERF_PLAN_H
#define TPERF_PLAN_H

#include "tperf/heap.h"
#include "tperf/workload.h"

// A run of equal layers.
typedef struct tperf_run {
    int kind; // section of the workload
    int64_t layers;
} tperf_run;

// The layers of a model, in order. has_ends: workloads have sections `first` or `last`.
typedef struct tperf_model_layers {
    const tperf_run *runs;
    size_t n_runs;
    bool has_ends;
} tperf_model_layers;

enum { TPERF_NO_LAYER = -1 };

// Pipeline stages with the same contents.
typedef struct tperf_stage {
    int64_t layers[TPERF_KINDS_MAX]; // of each kind
    int leading;                     // kind of its first layer; TPERF_NO_LAYER: it has no layers
    bool first, last;                // holds the section `first`, `last`
    int64_t repeats;                 // number of such stages
    double in_flight;                // peak number of micro-batches whose activations it keeps
    size_t mirror; // of a pipeline's stages: the other one that its devices run, if each is on two
} tperf_stage;

// The layers of a chunk that are recomputed differently from the others: the first `first`, or every `every`-th. They
// are sections of their own, at an offset of `twin`.
typedef struct tperf_picked {
    int twin; // 0: no layer differs
    int64_t first, every;
} tperf_picked;

// The section of layer `at` (from 0) of a chunk.
static inline int tperf_picked_kind(const tperf_picked *picked, int kind, int64_t at) {
    bool is = picked->every > 0 ? (at + 1) % picked->every == 0 : at < picked->first;
    return is ? kind + picked->twin : kind;
}

// A way to run a model in a pipeline: the number of stages, the layers on each, the schedule. A schedule's makespan is
// that of its busiest stage plus a bubble, which is linear in one micro-batch's forward, backward and weight-gradient
// times on one device. A row for each number (tperf/record.h):
// clang-format off
#define TPERF_PIPELINE(FIELD)                                                                      \
    FIELD(INTEGER, pp, "pp", NULL, TPERF_REQUIRED, 1, TPERF_STAGES_MAX, "devices")                 \
    FIELD(INTEGER, virtual_stages, "virtual_stages", NULL, TPERF_REQUIRED, 1, TPERF_STAGES_MAX,    \
          "chunks of layers on each device")                                                       \
    FIELD(INT32, schedule, "schedule", NULL, TPERF_REQUIRED, INT32_MIN, INT32_MAX,                 \
          "the caller's number; orders candidates that are otherwise equal")                       \
    FIELD(NUMBER, bubble_forward, "bubble_forward", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,   \
          "forward passes of the other stages in the bubble")                                      \
    FIELD(NUMBER, bubble_backward, "bubble_backward", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY, \
          "backward passes, or of the input alone if they are split")                              \
    FIELD(NUMBER, bubble_weight_grad, "bubble_weight_grad", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY, \
          "weight gradients; below 0: they fill it")                                               \
    FIELD(NUMBER, split, "split", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,                     \
          "backward passes on the critical path that are split into their halves: this many")      \
    FIELD(NUMBER, split_each, "split_each", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,           \
          "and this many per micro-batch")                                                         \
    FIELD(NUMBER, pairs, "pairs", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,                     \
          "overlapped passes on the critical path: this many")                                     \
    FIELD(NUMBER, pairs_each, "pairs_each", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,           \
          "and this many per micro-batch")                                                         \
    FIELD(NUMBER, ways, "ways", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,                       \
          "messages on the critical path if each travels while its GPUs compute other passes; 0: they do not") \
    FIELD(INTEGER, min_microbatches, "min_microbatches", NULL, TPERF_REQUIRED, 1, TPERF_ANY,       \
          "that the schedule needs")                                                               \
    FIELD(INTEGER, microbatch_multiple, "microbatch_multiple", NULL, TPERF_REQUIRED, 1, TPERF_ANY, \
          "of which it needs a multiple")                                                          \
    FIELD(NUMBER, weight_copies, "weight_copies", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,     \
          "2: a device runs a stage for half of the micro-batches, and its mirror for those that enter at the other end") \
    FIELD(FLAG, bounds, "bounds", NULL, TPERF_REQUIRED, 0, 1,                                      \
          "no closed form: only tperf_iteration_least applies, and any passes may overlap")        \
    FIELD(FLAG, open, "open", NULL, TPERF_REQUIRED, 0, 1,                                          \
          "no closed form tells its time: it has none, or its chunks are too uneven for it")       \
    FIELD(FLAG, placed, "placed", NULL, TPERF_REQUIRED, 0, 1,                                      \
          "the schedule places chunks on devices as tperf_pipeline_split does")                    \
    FIELD(FLAG, folded, "folded", NULL, TPERF_REQUIRED, 0, 1,                                      \
          "chunks go down the devices and back up: device 0 has both ends")                        \
    FIELD(NUMBER, last_in_flight, "last_in_flight", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,   \
          "peak number of micro-batches whose activations the section `last` keeps")
// clang-format on

enum { TPERF_STAGES_MAX = 1 << 20 };

typedef struct tperf_pipeline {
    TPERF_PIPELINE(TPERF_MEMBER)
    tperf_picked picked;
    int64_t *chunk_layers; // [pp x virtual_stages] layers of each chunk; NULL: even
    size_t n_stages;
    tperf_stage *stages;
    size_t n_devices; // runs of devices with the same contents and in_flight
    tperf_stage *devices;
} tperf_pipeline;
extern const tperf_record tperf_pipeline_record;

// Spreads the layers over pp x virtual_stages chunks as evenly as possible. If they do not divide, the last chunk, the
// first, the last but one … get one layer fewer, since the ends also hold the head and the embedding. Chunk c is on
// device c mod pp; if folded, chunks from pp on go back up. chunk_layers, if the caller has set it, gives the layers of each
// chunk instead; only chunks at the ends may be empty.
// in_flight[pp]: per device. The pipeline's other fields are the caller's.
tperf_status tperf_pipeline_split(tperf_pipeline *pipeline, const tperf_heap *heap,
                                  const tperf_model_layers *layers, const double *in_flight,
                                  tperf_error *error);
void tperf_pipeline_release(tperf_pipeline *pipeline);

// Whether n stages can share the layers: only those at the ends may be without one.
bool tperf_may_split(const tperf_model_layers *layers, int64_t n);

// How much longer the longest of a pipeline's chunks takes than their mean, as a part of that; work: of a layer of each
// kind, in any unit. The model's ends do not count.
double tperf_pipeline_unevenness(const tperf_pipeline *pipeline, const tperf_model_layers *layers,
                                 const double *work);

// The contents of each of n chunks, as tperf_pipeline_split deals out the layers of a pipeline with n chunks.
void tperf_pipeline_chunks(const tperf_pipeline *pipeline, const tperf_model_layers *layers,
                           int64_t n, tperf_stage *chunks);

// Whether the schedule overlaps passes on the critical path.
static inline bool tperf_overlaps_passes(const tperf_pipeline *pipeline) {
    return pipeline->pairs != 0 || pipeline->pairs_each != 0;
}

// The section whose exchange a stage waits for first: its first layer's, or the end's if it has no layers.
static inline int tperf_leading_section(const tperf_stage *stage, const tperf_workload *workload) {
    if (stage->leading != TPERF_NO_LAYER) return stage->leading;
    return workload->n_kinds + (stage->first ? 0 : 1);
}

// Seconds of one micro-batch in one pipeline stage.
#define TPERF_STAGE_TIME(FIELD)                                                                    \
    TPERF_FIGURE(FIELD, forward, "forward", "s", "of the forward pass")                            \
    TPERF_FIGURE(FIELD, backward, "backward", "s", "of the whole backward pass")                   \
    TPERF_FIGURE(FIELD, input, "input", "s", "of the half that makes the input's gradient")        \
    TPERF_FIGURE(FIELD, weight, "weight", "s",                                                     \
                 "of the half that makes the weights': together at least the whole")               \
    TPERF_FIGURE(FIELD, host, "host", "s",                                                         \
                 "of launches in both whole passes, beyond the kernels' time")                     \
    TPERF_FIGURE(FIELD, pair, "pair", "s",                                                         \
                 "of a forward and a backward pass that overlap: collectives and copies of each "  \
                 "run beside the kernels of both")
typedef struct tperf_stage_time {
    TPERF_STAGE_TIME(TPERF_MEMBER)
} tperf_stage_time;
extern const tperf_record tperf_stage_time_record;

// Of the stage that takes longest, with what its device waits for the others; and the average of the others.
typedef struct tperf_pipeline_time {
    const tperf_stage *busiest;
    tperf_stage_time busy, others;
} tperf_pipeline_time;

// How a model is trained: bytes per parameter, by what they hold, and what a step does besides, a row for each
// (tperf/record.h). ZeRO stages (arXiv 1910.02054) shard over the data-parallel group: 1 optimizer state, 2 also
// gradients, 3 also weights.
// clang-format off
#define TPERF_TRAINING(FIELD)                                                                      \
    FIELD(NUMBER, kept_bytes, "kept_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,                 \
          "of a parameter between uses (FSDP keeps 4 bytes and gathers 2); 0: as the op has it")   \
    FIELD(NUMBER, gradient_bytes, "gradient_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,         \
          "of a parameter's gradient, kept and reduced")                                           \
    FIELD(FLAG, gradients_follow, "gradients_follow", NULL, 0, 0, 1,                               \
          "the optimizer owns the shards of gradients (DeepSpeed): what the host keeps of its state includes theirs") \
    FIELD(FLAG, gradients_replaced, "gradients_replaced", NULL, 0, 0, 1,                           \
          "under ZeRO 3 the optimizer's copy of the gradients, in optimizer_bytes, takes their place") \
    FIELD(NUMBER, bucket_bytes, "bucket_bytes", "bytes", 0, 0, TPERF_ANY,                          \
          "of its copy in buckets that replicas exchange; 0: they are the gradients")              \
    FIELD(NUMBER, optimizer_bytes, "optimizer_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,       \
          "of a layer's parameter: master copy and moments")                                       \
    FIELD(NUMBER, end_optimizer_bytes, "end_optimizer_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY, \
          "of a parameter of the sections `first` and `last`")                                     \
    FIELD(NUMBER, narrow_bytes, "narrow_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,             \
          "extra, of a parameter that its op has in fewer than 32 bits")                           \
    FIELD(NUMBER, recompute_layers, "recompute_layers", NULL, TPERF_REQUIRED, 1, TPERF_ANY,        \
          "layers recomputed together, from one input")                                            \
    FIELD(NUMBER, workspace_bytes, "workspace_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,       \
          "of libraries, on every GPU")                                                            \
    FIELD(NUMBER, communicator_bytes, "communicator_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY, \
          "of each group that a GPU belongs to")                                                   \
    FIELD(NUMBER, context_bytes, "context_bytes", "bytes", 0, 0, TPERF_ANY,                        \
          "of the GPU's context, with the libraries' kernels loaded")                              \
    FIELD(NUMBER, slack, "slack", NULL, 0, 0, TPERF_ANY,                                           \
          "part of what the allocator gives out that it reserves beyond it")                       \
    FIELD(FLAG, hide_experts, "hide_experts", NULL, 0, 0, 1,                                       \
          "overlapped passes hide each other's expert exchanges, and no other collective")         \
    FIELD(FLAG, delay_grads, "delay_grads", NULL, 0, 0, 1,                                         \
          "gradients of experts' weights are delayed until their exchange is under way")           \
    FIELD(FLAG, reduces_whole, "reduces_whole", NULL, 0, 0, 1,                                     \
          "replicas that shard the optimizer's state alone reduce whole gradients all the same")   \
    FIELD(NUMBER, broadcast_layers, "broadcast_layers", NULL, 0, 0, TPERF_ANY,                     \
          "the model's layers, if these replicas own whole matrices, which each owner broadcasts after the step " \
          "(InternEvo; PyTorch's ZeroRedundancyOptimizer), the largest part being the mean or the largest matrix; " \
          "0: they gather shards")                                                                 \
    FIELD(FLAG, overlap_p2p, "overlap_p2p", NULL, 0, 0, 1,                                         \
          "messages between the stages of interleaved pipelines travel during other passes")       \
    FIELD(NUMBER, data_overlap, "data_overlap", NULL, TPERF_REQUIRED, 0, 1,                        \
          "0: data-parallel traffic waits for compute; 1: it hides as well as the software allows") \
    FIELD(NUMBER, gather_overlap, "gather_overlap", NULL, -1, -TPERF_ANY, 1,                       \
          "part of a pass that weight gathers may overlap; below 0: as data_overlap and the software say") \
    FIELD(NUMBER, reduce_overlap, "reduce_overlap", NULL, -1, -TPERF_ANY, 1,                       \
          "the same of gradient reductions")                                                       \
    FIELD(NUMBER, bucket, "bucket", NULL, 0, 0, TPERF_ANY,                                         \
          "parameters in a bucket of either, at least; 0: bucketed by layer")                      \
    FIELD(NUMBER, bucket_each, "bucket_each", NULL, 0, 0, TPERF_ANY, "and at least this many per replica") \
    FIELD(FLAG, gather_in_step, "gather_in_step", NULL, 0, 0, 1,                                   \
          "the first bucket's weights are gathered during the optimizer step")                     \
    FIELD(NUMBER, offloaded, "offloaded", NULL, TPERF_REQUIRED, 0, 1,                              \
          "part of the optimizer state that the host keeps and updates")                           \
    FIELD(FLAG, weights_on_host, "weights_on_host", NULL, 0, 0, 1,                                 \
          "the host keeps the shards of ZeRO 3's weights, which are copied before they are gathered") \
    FIELD(NUMBER, iterations, "iterations", NULL, TPERF_REQUIRED, 0, TPERF_ANY,                    \
          "Newton-Schulz iterations that orthogonalise each matrix's update (Muon); 0: none")      \
    FIELD(NUMBER, reshards, "reshards", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,               \
          "above 0: weights gathered by ZeRO 3 for a forward pass are freed after it; else they stay") \
    FIELD(NUMBER, reserved, "reserved", NULL, TPERF_REQUIRED, 0, TPERF_BELOW(1),                   \
          "part of the HBM that is kept free, below 1")
// clang-format on

typedef struct tperf_training {
    TPERF_TRAINING(TPERF_MEMBER)
} tperf_training;
extern const tperf_record tperf_training_record;

// Adam in mixed precision: weights of 16 bits, gradients, moments and a copy of the weights of 32 (arXiv 1910.02054,
// section 3.1); 64 MiB for the libraries of products, 128 MiB for those of collectives,
// 1.5 GiB for the context, and 5 % that the allocator reserves beyond what it gives out; all traffic of replicas overlaps.
extern const tperf_training tperf_training_adam;

// How messages between stages lengthen passes. Sources: docs/model.md section 5.2.
typedef enum tperf_sending {
    TPERF_SENT_IN_PASSES,     // every pass by its message
    TPERF_SENT_BY_PAIRS,      // all but overlapped ones, in pipelines of two ways (DualPipe)
    TPERF_SENT_BESIDE_PAIRS,  // the same; overlapped ones by the host's calls for it
    TPERF_SENT_BESIDE_PASSES, // every pass by the host's calls; the next stage waits for the rest
} tperf_sending;

static inline tperf_sending tperf_sending_of(const tperf_pipeline *pipeline,
                                             const tperf_training *training) {
    if (pipeline->weight_copies > 1 || pipeline->folded) return TPERF_SENT_BY_PAIRS;
    if (!training->overlap_p2p || pipeline->virtual_stages == 1) return TPERF_SENT_IN_PASSES;
    if (tperf_overlaps_passes(pipeline)) return TPERF_SENT_BESIDE_PAIRS;
    return pipeline->ways > 0 ? TPERF_SENT_BESIDE_PASSES : TPERF_SENT_IN_PASSES;
}

// One way to run a model on a machine. The sizes of the grid's unfolded axes multiply to the number of GPUs.
typedef struct tperf_candidate {
    int strategy; // the caller's number; orders candidates that are otherwise equal
    int variant;  // the caller's variant of the shape (recomputation …); likewise
    int64_t sizes[TPERF_AXES_MAX]; // of the grid's axes
    const tperf_pipeline *pipeline;
    int64_t micro_batch;  // samples
    int64_t microbatches; // per pipeline and iteration
    int zero;             // ZeRO stage
    tperf_placement placement;
} tperf_candidate;

// What a candidate is made of, besides its workload, pipeline and placement. A row for each number (tperf/record.h):
// clang-format off
#define TPERF_CHOICE(FIELD)                                                                        \
    FIELD(INTEGER, global_batch, "global_batch", NULL, TPERF_REQUIRED, 1, TPERF_ANY,               \
          "samples per iteration")                                                                 \
    FIELD(INTEGER, dp, "dp", NULL, TPERF_REQUIRED, 1, 0x1p31, "replicas")                          \
    FIELD(INTEGER, micro_batch, "micro_batch", NULL, TPERF_REQUIRED, 1, TPERF_ANY, "samples")      \
    FIELD(INTEGER, panels, "panels", NULL, 1, 1, TPERF_ANY, "of SUMMA's products")                 \
    FIELD(INTEGER, zero, "zero", NULL, TPERF_REQUIRED, 0, 3, "ZeRO stage")
// clang-format on

typedef struct tperf_choice {
    TPERF_CHOICE(TPERF_MEMBER)
} tperf_choice;
extern const tperf_record tperf_choice_record;

// Fails unless a placement's parts divide the workload's own axes.
tperf_status tperf_placement_check(const tperf_placement *placement, const tperf_workload *workload,
                                   tperf_error *error);

// A candidate in this placement: `fast` GPUs of each of the grid's axes share a domain. Fails if the sizes do not divide,
// or if the batch leaves a replica without a micro-batch.
tperf_status tperf_candidate_init(tperf_candidate *candidate, const tperf_workload *workload,
                                  const tperf_pipeline *pipeline, const tperf_choice *choice,
                                  const int64_t *fast, tperf_error *error);

// Whether every micro-batch gathers weights for its forward pass and reduces its gradients, or only the first and the
// last one do: in a pipeline, weights that ZeRO 3 does not free stay until the last backward pass, and gradients
// accumulate unsharded (PyTorch's FSDP2 under its pipelines).
static inline bool tperf_gathers_each(const tperf_candidate *candidate,
                                      const tperf_training *training) {
    return candidate->zero >= 3 && (training->reshards > 0 || candidate->pipeline->pp == 1);
}
static inline bool tperf_reduces_each(const tperf_candidate *candidate,
                                      const tperf_training *training) {
    return candidate->zero >= 3 ? tperf_gathers_each(candidate, training) : candidate->zero >= 2;
}

// The inputs that all candidates of one question share.
typedef struct tperf_job {
    tperf_platform on;
    const tperf_training *training;
    int64_t global_batch; // samples per iteration
} tperf_job;

// A candidate with all that its time and memory depend on.
typedef struct tperf_plan {
    const tperf_candidate *candidate;
    const tperf_job *job;
    const tperf_workload *workload;
    const tperf_layer_cost *costs; // of every section, for the candidate's placement
} tperf_plan;

// The plan of a candidate, whose costs[n_sections] it fills. Fails if the system lacks a peak that an op needs. The
// arguments must outlive it.
tperf_status tperf_plan_init(tperf_plan *plan, const tperf_candidate *candidate,
                             const tperf_job *job, const tperf_workload *workload,
                             tperf_layer_cost *costs, tperf_error *error);

// The parts of a GPU's memory, in bytes, which add up to the total: PART(name, whether it is held all the time).
// passing lives during one pass; buffers are the libraries'; runtime is the GPU's context and what the allocator reserves
// and does not use.
#define TPERF_MEMORY_PARTS(PART)                                                                   \
    PART(weights, true)                                                                            \
    PART(gradients, true)                                                                          \
    PART(optimizer, true)                                                                          \
    PART(activations, false) PART(passing, false) PART(buffers, true) PART(runtime, true)

typedef struct tperf_memory {
#define PART(name, held) double name;
    TPERF_MEMORY_PARTS(PART)
#undef PART
    double total, host; // host: bytes in the host's memory, not part of the total
} tperf_memory;

// The parts of an iteration's time; always: where a part takes no time, too.
#define TPERF_TIME_PARTS(PART)                                                                     \
    PART(compute, true)                                                                            \
    PART(memory, true)                                                                             \
    PART(tensor_comm, true)                                                                        \
    PART(pipeline_comm, true)                                                                      \
    PART(data_comm, true)                                                                          \
    PART(bubble, true) PART(host, true) PART(optimizer, true) PART(offload, false)

// Details of the parts of an iteration.
#define TPERF_ITERATION_DETAILS(FIELD)                                                             \
    TPERF_FIGURE(FIELD, split, "split", NULL,                                                      \
                 "split backward passes, which have more waits for the host")                      \
    TPERF_FIGURE(FIELD, filling, "filling", "s", "of each weight gradient of the bubble")          \
    TPERF_FIGURE(FIELD, pairs, "pairs", NULL, "overlapped passes behind `hidden`")                 \
    TPERF_FIGURE(FIELD, hidden, "hidden", "s",                                                     \
                 "by overlapped passes, of collectives and of waits for the host")                 \
    TPERF_FIGURE(FIELD, hop, "hop", "s",                                                           \
                 "added to a device's passes of a micro-batch for their messages, one per chunk")  \
    TPERF_FIGURE(FIELD, messages, "messages_waited", NULL, "that passes wait for")                 \
    TPERF_FIGURE(FIELD, beside, "messages_beside", NULL, "beside passes")                          \
    TPERF_FIGURE(FIELD, late, "messages_late", "s", "by which steady passes get theirs late")      \
    TPERF_FIGURE(FIELD, each_forward, "each_forward", "s",                                         \
                 "that the other stages' forward passes wait for replicas, on average")            \
    TPERF_FIGURE(FIELD, each_backward, "each_backward", "s", "that their backward passes do")      \
    TPERF_FIGURE(FIELD, together, "together", "s",                                                 \
                 "that overlapped and split passes wait less for replicas than passes apart")

// Seconds of an iteration. The parts add up to `time` unless attention is recomputed without the rule
// recompute_counts_everywhere.
typedef struct tperf_iteration {
    double time;
    double compute, memory, tensor_comm, data_comm, pipeline_comm, bubble;
    double host;      // of launches, beyond the GPU's own time
    double optimizer; // of the optimizer step, with the host's launches that come once an iteration
    double offload;   // that passes wait for activations copied to or from the host
    double flops;     // per GPU, on average
    tperf_pipeline_time pipeline;
    // The stage that waits longest for the exchanges that come once an iteration; NULL: no stage waits.
    const tperf_stage *waiting;
    TPERF_ITERATION_DETAILS(TPERF_MEMBER)
} tperf_iteration;
extern const tperf_record tperf_iteration_record; // of its details

// The memory of the fullest GPU, and of each of the pipeline's n_devices. Of costs only the bytes are read.
tperf_memory tperf_memory_of(const tperf_plan *plan);
void tperf_memory_of_devices(const tperf_plan *plan, tperf_memory *devices);

// The optimizer step on the GPU with the largest shard: it reads and writes the state of each parameter, reads its
// gradient for the norm and for the update and clears it, and writes the weight. tperf_optimizer_bytes: HBM traffic.
// tperf_optimizer_host: for states kept on the host, the GPU sends their gradients, the host updates them at the speed
// of its memory, then sends the weights back. tperf_optimizer_time: seconds of all of it, and
// of the host's launches that come once an iteration.
double tperf_optimizer_bytes(const tperf_plan *plan);
#define TPERF_HOST_UPDATE(FIELD)                                                                   \
    TPERF_FIGURE(FIELD, bytes_out, "bytes_out", "bytes", "of gradients")                           \
    TPERF_FIGURE(FIELD, bytes_in, "bytes_in", "bytes", "of weights")                               \
    TPERF_FIGURE(FIELD, bytes_updated, "bytes_updated", "bytes", "through the host's memory")      \
    TPERF_FIGURE(FIELD, out, "out", "s", "of gradients to the host")                               \
    TPERF_FIGURE(FIELD, in, "back", "s", "of weights to the GPU")                                  \
    TPERF_FIGURE(FIELD, update, "update", "s", "of the host")
typedef struct tperf_host_update {
    TPERF_HOST_UPDATE(TPERF_MEMBER)
} tperf_host_update;
extern const tperf_record tperf_host_update_record;
// The Newton-Schulz iterations on the GPU with the most: its share of the matrices, their FLOPs, the host's calls for
// them, and seconds: at the compute efficiency of kernels without a curve, but no faster than the calls.
#define TPERF_ORTHOGONAL(FIELD)                                                                    \
    TPERF_FIGURE(FIELD, matrices, "matrices", NULL, "of the GPU's share")                          \
    TPERF_FIGURE(FIELD, flops, "flops", "FLOP", "of all iterations")                               \
    TPERF_FIGURE(FIELD, calls, "calls", NULL, "of the host")                                       \
    TPERF_FIGURE(FIELD, time, "time", "s", "of the longer of both")
typedef struct tperf_orthogonal {
    TPERF_ORTHOGONAL(TPERF_MEMBER)
} tperf_orthogonal;
extern const tperf_record tperf_orthogonal_record;
tperf_orthogonal tperf_orthogonal_of(const tperf_plan *plan);
tperf_host_update tperf_optimizer_host(const tperf_plan *plan);
double tperf_optimizer_time(const tperf_plan *plan);

// The whole time of a candidate.
tperf_iteration tperf_iteration_of(const tperf_plan *plan);

// Bytes that a chunk's forward pass keeps until its backward pass is done, and bytes live during one of its passes. A
// device's constant memory is in tperf_memory's other parts.
typedef struct tperf_chunk_memory {
    double saved, forward, backward;
} tperf_chunk_memory;
tperf_chunk_memory tperf_chunk_memory_of(const tperf_plan *plan, const tperf_stage *chunk);

// The inputs to a simulated schedule. A pass takes its kernels' time, its waits for replicas in every micro-batch, and
// what its message adds.
typedef struct tperf_chunk_passes {
    tperf_stage_time time;
    tperf_chunk_memory memory;
} tperf_chunk_passes;

// Seconds that a device waits for its replicas once: for weights before its first pass, for gradients after its last.
typedef struct tperf_device_waits {
    double before, after;
} tperf_device_waits;

// passes[n]: of the chunks from tperf_pipeline_chunks; waits[pp]: of every device of the candidate's pipeline; *way:
// tperf_message's.
void tperf_passes_of(const tperf_plan *plan, const tperf_stage *chunks, int64_t n,
                     tperf_chunk_passes *passes, tperf_device_waits *waits, double *way);

// The same in steps, each of which is shared by many candidates of a search.

// The number of a section's layers in a stage; 0 or 1 for the two ends and for weights that sections share.
double tperf_stage_layers(const tperf_stage *stage, int section, const tperf_workload *workload);

// Whether a stage holds a copy of the weights of this section, which others share.
bool tperf_stage_shares(const tperf_stage *stage, int section, const tperf_workload *workload);

// The number that one micro-batch passes in a device of a pipeline's stage, on average: of the stage and its mirror, if
// each is on two devices.
double tperf_layers_passed(const tperf_pipeline *pipeline, const tperf_stage *stage, int section,
                           const tperf_workload *workload);

tperf_stage_time tperf_stage_time_of(const tperf_stage *stage, const tperf_workload *workload,
                                     const tperf_layer_cost *costs, const tperf_job *job);

// Seconds that the replicas of a layer take to gather its weights and reduce its gradients.
typedef struct tperf_exchange {
    double gather, reduce;
    double again;  // the part of `reduce` that gathers the weights once more
    double update; // seconds to gather whole update matrices for the optimizer step
} tperf_exchange;

// Stages may hold copies of one tensor, whose gradients they add up once an iteration: the ends of a pipeline a table,
// other stages the weights that sections share.
typedef struct tperf_joint {
    tperf_group group; // stages with a copy; size 1: nothing to add up
    double bytes;      // of the gradients
} tperf_joint;

// Of an end or of shared weights (section >= n_kinds). together: stages in a fast domain.
tperf_joint tperf_joint_of(const tperf_job *job, const tperf_workload *workload,
                           const tperf_layer_cost *costs, const tperf_candidate *candidate,
                           int section, int64_t together);
double tperf_joint_time(const tperf_job *job, tperf_joint joint);

// The same seconds of a candidate's pipeline.
double tperf_joint_time_of(const tperf_plan *plan, int section);
static inline bool tperf_ends_apart(const tperf_pipeline *pipeline) {
    return pipeline->pp > 1 && !pipeline->folded && pipeline->weight_copies == 1;
}

// One collective among the replicas of a layer.
typedef struct tperf_replica_comm {
    tperf_collective kind;
    tperf_group group;
    double bytes, seconds; // the full vector; of the collective in isolation
    // Collectives that this is, one after the other; below 1: the layer's part of one for several layers.
    double parts;
    // gathers: weights for a pass, else reduces gradients. experts: experts' weights, else all others.
    bool gathers, experts;
} tperf_replica_comm;
enum { TPERF_REPLICA_COMMS_MAX = 2 * (2 + TPERF_AXES_MAX) };

// Lists the collectives of a section's layer in a forward and a backward pass; returns their number.
int tperf_replica_comms_of(const tperf_plan *plan, int section,
                           tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX]);

// The exposed part of a section's or stage's exchanges: gathers before forward passes, reductions beside backward ones;
// and the hidden part. `first`: exposed once per iteration because no pass precedes the first gather or follows the
// last reduction. For a section that leads its stage it is the section's own hidden part, or that of one bucket
// (Megatron-LM's --ddp-bucket-size); for a stage, at most all that the stage hides.
typedef struct tperf_exposure {
    double gather, reduce, hidden_gather, hidden_reduce, first_gather, first_reduce;
    // If the backward pass is split: weights gathered again are late for the input's gradient, reductions overlap the
    // weights'. again: seconds of the former, hidden or not.
    double late_input, late_weight, again;
    double update; // never hidden
    double links;  // seconds of both passes' collectives, which these exchanges do not overlap
} tperf_exposure;

// The fraction of a pass that an exchange with replicas may overlap, from tperf_training's gather_overlap or
// reduce_overlap.
double tperf_window(const tperf_job *job, double overlap);

// sections[n_sections]. optimizer: seconds of the optimizer step.
void tperf_exposures_of(const tperf_plan *plan, const tperf_exchange *exchanges, double optimizer,
                        tperf_exposure *sections);
tperf_exposure tperf_stage_exposure(const tperf_stage *stage, const tperf_workload *workload,
                                    const tperf_exposure *sections);

// exchanges[n_sections]: one per section; they depend on the replicas' placement and the ZeRO stage. Of costs only the
// bytes are read.
void tperf_exchange_times(const tperf_plan *plan, tperf_exchange *exchanges);

// Seconds to send one activation, or a GPU's part of it, to a stage in the same fast domain, and in another; to gather
// the parts again; and of the host's calls for it.
typedef struct tperf_hop {
    double fast, slow, gather, host;
    // In a network of more tiers: its system, the GPUs of a stage of one replica, and the seconds to another unit of each.
    const tperf_system *system; // NULL: of two
    int64_t own;
    double up[TPERF_TIERS_MAX - 2];
} tperf_hop;
tperf_hop tperf_hop_times(const tperf_job *job, const tperf_workload *workload);

// The GPUs that gather the parts of a message: they fill fast domains before the pipeline's stages do.
tperf_group tperf_hop_group(const tperf_job *job, const tperf_workload *workload);

// Links between the pp stages of a pipeline, of dp, that lead to another unit of a tier, however far inward that they
// lead. `fast` stages share a domain. Beyond it, and within it, stages lie outside all other axes.
double tperf_hop_links(const tperf_hop *hop, double pp, double fast, double dp,
                       const tperf_tier *tier);

// The average over the links between stages, which depends on their placement.
double tperf_hop_time(const tperf_candidate *candidate, const tperf_job *job, tperf_hop hop);

// What a hop adds to a pass, and to an overlapped pair; the part between the end of a pass and the start of the next
// stage's, while both devices compute.
typedef struct tperf_message {
    double alone, pair, way;
} tperf_message;
tperf_message tperf_message_of(const tperf_pipeline *pipeline, const tperf_job *job, double hop);

// A lower bound on the simulated time of the candidate's schedule, however uneven its stages: the larger of what the
// busiest device computes and waits for, and the closed form with all chunks as short as the shortest.
double tperf_iteration_least(const tperf_plan *plan, const tperf_exchange *exchanges, double hop,
                             double optimizer);

#endif
