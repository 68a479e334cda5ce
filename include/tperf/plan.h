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

enum { TPERF_NO_LAYER = -1 };

// Stages of a pipeline that hold the same.
typedef struct tperf_stage {
    int64_t layers[TPERF_KINDS_MAX]; // of each kind
    int leading;                     // kind of its first layer; TPERF_NO_LAYER: it has none
    bool first, last;                // holds the section `first` or `last`
    int64_t repeats;                 // stages like this
    double in_flight;                // most micro-batches whose activations it keeps at a time
} tperf_stage;

// Layers of a chunk that are recomputed where its others are not: the first `first` of them, or every `every`-th. They
// are sections of their own, `twin` behind those of the others.
typedef struct tperf_picked {
    int twin; // 0: no layer differs
    int64_t first, every;
} tperf_picked;

// The section of the layer of a chunk that is the at-th from 0.
static inline int tperf_picked_kind(const tperf_picked *picked, int kind, int64_t at) {
    bool is = picked->every > 0 ? (at + 1) % picked->every == 0 : at < picked->first;
    return is ? kind + picked->twin : kind;
}

// A way to run a model in a pipeline: how many stages, which layers on each, which schedule. The
// makespan of a schedule is that of its busiest stage and a bubble, linear in the times of one
// micro-batch's forward pass, backward pass and weight gradients on one device.
typedef struct tperf_pipeline {
    int64_t pp, virtual_stages; // devices; stages (chunks of layers) on each
    int schedule;               // which of the caller's; orders candidates that are otherwise equal
    double bubble_forward, bubble_backward, bubble_weight_grad;
    double pairs,
        pairs_each; // overlapped passes on the way that decides: so many, and for each micro-batch
    int64_t min_microbatches, microbatch_multiple; // what the schedule demands
    double weight_copies;                          // 2: every stage lives on two devices
    bool
        bounds; // there is no closed form: only tperf_iteration_least says anything; any of its passes may overlap
    bool
        placed; // the schedule runs the chunks on the devices that tperf_pipeline_split gives them to
    bool folded;           // chunks go down the devices and back up: the first has both ends
    double last_in_flight; // most micro-batches of which the section `last` keeps activations
    tperf_picked picked;
    int64_t *dealt; // layers of each of pp x virtual_stages chunks; NULL: as evenly as they divide
    size_t n_stages;
    tperf_stage *stages;
    size_t n_devices; // runs of devices that hold the same, in flight, too
    tperf_stage *devices;
} tperf_pipeline;

// Spreads the layers over pp x virtual_stages chunks as evenly as they divide; where they do not, the
// last chunk, the first, the last but one … have one layer fewer, as the ends also hold head and
// embedding. Chunk c is on device c mod pp or, folded, on the way back up from pp on. has_ends: workloads have sections `first` or `last`.
// dealt, if the caller has set it, says how many each chunk has instead; chunks may be empty at the ends alone.
// in_flight[pp]: of every device. The pipeline's other fields are the caller's.
tperf_status tperf_pipeline_split(tperf_pipeline *pipeline, const tperf_heap *heap,
                                  const tperf_run *runs, size_t n_runs, bool has_ends,
                                  const double *in_flight, tperf_error *error);
void tperf_pipeline_release(tperf_pipeline *pipeline);

// What each of n chunks of the layers holds, as tperf_pipeline_split deals them out where the pipeline has as many.
void tperf_pipeline_chunks(const tperf_pipeline *pipeline, const tperf_run *runs, size_t n_runs,
                           bool has_ends, int64_t n, tperf_stage *chunks);

// The section whose exchange is the first that a stage waits for: its first layer's, or that of the end which is all it
// has.
static inline int tperf_leading_section(const tperf_stage *stage, const tperf_workload *workload) {
    if (stage->leading != TPERF_NO_LAYER) return stage->leading;
    return workload->n_kinds + (stage->first ? 0 : 1);
}

// Seconds of one micro-batch in a stage of a pipeline.
typedef struct tperf_stage_time {
    double forward, backward, weight_grad;
    double host; // of both passes: for launches, beyond the time of their kernels
    double
        pair; // of a forward and a backward pass that overlap: one's collectives run beside the other's work
} tperf_stage_time;

typedef struct tperf_pipeline_time {
    const tperf_stage *busiest;
    tperf_stage_time busy, others; // of the busiest stage; of the other ones on average
} tperf_pipeline_time;

// Bytes for every parameter, by what they hold; ZeRO stages (arXiv 1910.02054) shard over
// the data-parallel group: 1 optimizer, 2 gradients too, 3 weights too.
typedef struct tperf_training {
    double kept_bytes;          // of one parameter between its uses (FSDP keeps 4 and gathers 2);
                                // 0: as the op has it
    double gradient_bytes;      // of one parameter, kept and reduced
    double optimizer_bytes;     // of one parameter of a layer: master copy and moments
    double end_optimizer_bytes; // of one parameter of the sections `first` and `last`
    double narrow_bytes;        // on top, of one parameter that its op has in fewer than 32 bits
    double recompute_layers;    // that are recomputed as one, from one input
    double workspace_bytes;     // of libraries, on every GPU
    double communicator_bytes;  // of every group that a GPU belongs to
    bool
        hide_experts; // passes that overlap hide each other's exchanges with experts, and no other collective
    bool delay_grads; // of experts' weights, until their exchange is under way
    double
        data_overlap; // 0: data-parallel traffic waits for compute; 1: it hides as the software can
    // The same of gathers of weights and reductions of gradients: the part of a pass beside which they run; below 0: as
    // data_overlap and the software say.
    double gather_overlap, reduce_overlap;
    // Parameters of a bucket, in which both travel: at least so many, and so many for each replica; 0: by layers.
    double bucket, bucket_each;
    bool gather_in_step; // the first bucket's weights travel beside the optimizer's step
    double offloaded; // part of the optimizer's states that the host keeps and updates, in [0, 1]
    double
        iterations; // of Newton-Schulz, which orthogonalise each matrix's update (Muon); 0: none do
    double
        reshards; // 1: weights that ZeRO 3 gathered for a forward pass are let go after it; 0: stay
    double reserved; // part of the HBM that is kept free, in [0, 1)
} tperf_training;

// One way to run a model on a machine. The axes of the grid that do not fold multiply to the number of GPUs.
typedef struct tperf_candidate {
    int strategy; // which of the caller's strategies; orders candidates that are otherwise equal
    int variant;  // which of the caller's variants of the shape (recomputation …); likewise
    int64_t sizes[TPERF_AXES_MAX]; // of the grid's axes
    const tperf_pipeline *pipeline;
    int64_t micro_batch;  // samples
    int64_t microbatches; // that each pipeline runs per iteration
    int zero;             // ZeRO stage
    tperf_placement placement;
} tperf_candidate;

// Whether every micro-batch gathers weights for its forward pass and reduces its gradients, or the first and the last one
// alone do: weights that ZeRO 3 does not let go stay, in a pipeline, until the last backward pass, and gradients are
// added up whole meanwhile (PyTorch's FSDP2 under its pipelines).
static inline bool tperf_gathers_each(const tperf_candidate *candidate,
                                      const tperf_training *training) {
    return candidate->zero >= 3 && (training->reshards > 0 || candidate->pipeline->pp == 1);
}
static inline bool tperf_reduces_each(const tperf_candidate *candidate,
                                      const tperf_training *training) {
    return candidate->zero >= 3 ? tperf_gathers_each(candidate, training) : candidate->zero >= 2;
}

// What all candidates of one question share.
typedef struct tperf_job {
    tperf_platform on;
    const tperf_training *training;
    int64_t global_batch; // samples per iteration
} tperf_job;

// Bytes on one GPU. passing: what lives during one pass only; buffers: of libraries. host: in its host's memory.
typedef struct tperf_memory {
    double weights, gradients, optimizer, activations, passing, buffers, total, host;
} tperf_memory;

// Seconds of an iteration; the parts add up to time unless attention is recomputed under rules
// without recompute_counts_everywhere.
typedef struct tperf_iteration {
    double time;
    double compute, memory, tensor_comm, data_comm, pipeline_comm, bubble;
    double host;      // beyond the GPU's own time, for launches
    double optimizer; // of its step
    double offload;   // that passes wait for activations on their way to or from the host
    double flops;     // on one GPU, on average
    // What the parts are made of.
    tperf_pipeline_time pipeline;
    double hop;    // that every pass of a device takes longer for its messages, one a chunk
    double hidden; // of tensor_comm, by passes that overlap
    double each_forward, each_backward; // that a pass of every micro-batch waits for replicas
    const tperf_stage *waiting;         // the stage that data_comm is of; NULL: none waits
    double pairs;                       // of passes that overlap, that `hidden` is of
} tperf_iteration;

// The memory of the fullest GPU, and of each of the pipeline's n_devices; costs give bytes only, their times
// are not read.
tperf_memory tperf_memory_of(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs);
void tperf_memory_of_devices(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs,
                             tperf_memory *devices);

// Seconds of the optimizer's step on the GPU that has most to update: it reads and writes the state of each parameter of
// its shard, reads its gradient for the norm and for the update and clears it, and writes the weight.
// tperf_optimizer_bytes: what it reads and writes. Of the states that the host keeps, the GPU sends their gradients, the
// host updates them at the speed of its memory, and sends the weights back: tperf_optimizer_host, one after the other.
double tperf_optimizer_bytes(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs);
typedef struct tperf_host_update {
    double bytes_out, bytes_in,
        bytes_updated;      // gradients, weights; read and written in the host's memory
    double out, in, update; // seconds
} tperf_host_update;
// FLOPs of Newton-Schulz iterations on the GPU that has most of them, which works on its share of the matrices.
double tperf_optimizer_flops(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs);
// Seconds of them, at the part of the peak that kernels without a curve reach.
double tperf_orthogonal_time(const tperf_job *job, double flops);
tperf_host_update tperf_optimizer_host(const tperf_candidate *candidate, const tperf_job *job,
                                       const tperf_workload *workload,
                                       const tperf_layer_cost *costs);
double tperf_optimizer_time(const tperf_candidate *candidate, const tperf_job *job,
                            const tperf_workload *workload, const tperf_layer_cost *costs);

// The time of a candidate, whole. Costs are those of every section, for the candidate's placement of the
// workload's axes.
tperf_iteration tperf_iteration_of(const tperf_candidate *candidate, const tperf_job *job,
                                   const tperf_workload *workload, const tperf_layer_cost *costs);

// Bytes that a chunk's forward pass leaves behind until its backward pass is done, and bytes that live while one of its
// passes runs. What a device holds at all times is in tperf_memory's other parts.
typedef struct tperf_chunk_memory {
    double saved, forward, backward;
} tperf_chunk_memory;
tperf_chunk_memory tperf_chunk_memory_of(const tperf_candidate *candidate, const tperf_job *job,
                                         const tperf_workload *workload,
                                         const tperf_layer_cost *costs, const tperf_stage *chunk);

// What a schedule is simulated with. A pass takes its kernels' time, what it waits for replicas in every micro-batch,
// and a hop for its message.
typedef struct tperf_chunk_passes {
    tperf_stage_time time;
    tperf_chunk_memory memory;
} tperf_chunk_passes;

// Seconds that a device waits for its replicas once: for weights before its first pass, for gradients after its last.
typedef struct tperf_device_waits {
    double before, after;
} tperf_device_waits;

// passes[n]: of chunks that tperf_pipeline_chunks made; waits[pp]: of every device of the candidate's pipeline.
void tperf_passes_of(const tperf_candidate *candidate, const tperf_job *job,
                     const tperf_workload *workload, const tperf_layer_cost *costs,
                     const tperf_stage *chunks, int64_t n, tperf_chunk_passes *passes,
                     tperf_device_waits *waits);

// The same in steps, each of which holds for many candidates of a search.

// How many layers of a section a stage holds; of the two ends 0 or 1.
double tperf_stage_layers(const tperf_stage *stage, int section, int n_kinds);

tperf_stage_time tperf_stage_time_of(const tperf_stage *stage, const tperf_workload *workload,
                                     const tperf_layer_cost *costs, const tperf_job *job);

// Seconds that the replicas of a layer take to gather its weights and to reduce its gradients.
typedef struct tperf_exchange {
    double gather, reduce;
    double update; // seconds to gather whole matrices of updates for the optimizer's step
} tperf_exchange;

// One collective among the replicas of a layer.
typedef struct tperf_replica_comm {
    tperf_collective kind;
    tperf_group group;
    double bytes, seconds; // the full vector; of the collective by itself
    bool gathers,
        experts; // weights, for a pass (else reduces gradients); experts' (else all others')
} tperf_replica_comm;
enum { TPERF_REPLICA_COMMS_MAX = 2 * (2 + TPERF_AXES_MAX) };

// What a layer of a section exchanges in a forward and a backward pass; how many collectives.
int tperf_replica_comms_of(const tperf_candidate *candidate, const tperf_job *job,
                           const tperf_workload *workload, const tperf_layer_cost *costs,
                           int section, tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX]);

// What of the exchanges of a section, or of a stage, nothing hides: of the gathers before forward passes, of the
// reductions beside backward ones; and what passes hide. `first`: what is waited for once in an iteration, because it
// hides behind no pass, when it is the first to be gathered, the last to be reduced: of a section, if it leads its stage,
// its own hidden part, or that of a bucket (Megatron-LM's --ddp-bucket-size); of a stage no more than all of it hides.
typedef struct tperf_exposure {
    double gather, reduce, hidden_gather, hidden_reduce, first_gather, first_reduce;
    double update; // which nothing hides
} tperf_exposure;

// The part of a pass beside which an exchange with replicas runs, from tperf_training's gather_overlap or reduce_overlap.
double tperf_window(const tperf_job *job, double overlap);

// sections[n_kinds + 2]. optimizer: seconds of its step.
void tperf_exposures_of(const tperf_candidate *candidate, const tperf_job *job,
                        const tperf_workload *workload, const tperf_layer_cost *costs,
                        const tperf_exchange *exchanges, double optimizer,
                        tperf_exposure *sections);
tperf_exposure tperf_stage_exposure(const tperf_stage *stage, const tperf_workload *workload,
                                    const tperf_exposure *sections);

// exchanges[n_kinds + 2]: every section's; they depend on the replicas' placement and on the ZeRO stage. Costs
// give bytes only.
void tperf_exchange_times(const tperf_candidate *candidate, const tperf_job *job,
                          const tperf_workload *workload, const tperf_layer_cost *costs,
                          tperf_exchange *exchanges);

// Seconds of one activation's way to a stage in the same fast domain, and in another.
typedef struct tperf_hop {
    double fast, slow;
} tperf_hop;
tperf_hop tperf_hop_times(const tperf_job *job, const tperf_workload *workload);

// The average over the links between stages; depends on the placement of the stages.
double tperf_hop_time(const tperf_candidate *candidate, const tperf_job *job, tperf_hop hop);

// A lower bound of what a simulation of the candidate's schedule takes, whatever its stages are like: no less than what
// the busiest device does and waits for, nor than the closed form if all chunks were as short as the shortest.
double tperf_iteration_least(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs,
                             const tperf_exchange *exchanges, double hop, double optimizer);

#endif
