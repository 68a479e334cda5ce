// plan.h: one training configuration: the time of an iteration and the memory of a GPU.
// Formulas: docs/model.md sections 5 and 6.
#ifndef TPERF_PLAN_H
#define TPERF_PLAN_H

#include "tperf/heap.h"
#include "tperf/network.h"

// A run of equal layers.
typedef struct tp_run {
    int kind; // section of the network
    int64_t layers;
} tp_run;

enum { TP_NO_LAYER = -1 };

// Stages of a pipeline that hold the same.
typedef struct tp_stage {
    int64_t layers[TP_KINDS_MAX]; // of each kind
    int leading;                  // kind of its first layer; TP_NO_LAYER: it has none
    bool first, last;             // holds the section `first` or `last`
    int64_t repeats;              // stages like this
    double in_flight;             // most micro-batches whose activations it keeps at a time
} tp_stage;

// Layers of a chunk that are recomputed where its others are not: the first `first` of them, or every `every`-th. They
// are sections of their own, `twin` behind those of the others.
typedef struct tp_picked {
    int twin; // 0: no layer differs
    int64_t first, every;
} tp_picked;

// The section of the layer of a chunk that is the at-th from 0.
static inline int tp_picked_kind(const tp_picked *picked, int kind, int64_t at) {
    bool is = picked->every > 0 ? (at + 1) % picked->every == 0 : at < picked->first;
    return is ? kind + picked->twin : kind;
}

// A way to run a model in a pipeline: how many stages, which layers on each, which schedule. The
// makespan of a schedule is that of its busiest stage and a bubble, linear in the times of one
// micro-batch's forward pass, backward pass and weight gradients on one device.
typedef struct tp_pipeline {
    int64_t pp, virtual_stages; // devices; stages (chunks of layers) on each
    int schedule;               // which of the caller's; orders candidates that are otherwise equal
    double bubble_forward, bubble_backward, bubble_weight_grad;
    double pairs,
        pairs_each; // overlapped passes on the way that decides: so many, and for each micro-batch
    int64_t min_microbatches, microbatch_multiple; // what the schedule demands
    double weight_copies;                          // 2: every stage lives on two devices
    bool
        bounds; // there is no closed form: only tp_iteration_least says anything; any of its passes may overlap
    bool placed; // the schedule runs the chunks on the devices that tp_pipeline_split gives them to
    bool folded; // chunks go down the devices and back up: the first has both ends
    double last_in_flight; // most micro-batches of which the section `last` keeps activations
    tp_picked picked;
    int64_t *dealt; // layers of each of pp x virtual_stages chunks; NULL: as evenly as they divide
    size_t n_stages;
    tp_stage *stages;
    size_t n_devices; // runs of devices that hold the same, in flight, too
    tp_stage *devices;
} tp_pipeline;

// Spreads the layers over pp x virtual_stages chunks as evenly as they divide; where they do not, the
// last chunk, the first, the last but one … have one layer fewer, as the ends also hold head and
// embedding. Chunk c is on device c mod pp or, folded, on the way back up from pp on. has_ends: networks have sections `first` or `last`.
// dealt, if the caller has set it, says how many each chunk has instead; chunks may be empty at the ends alone.
// in_flight[pp]: of every device. The pipeline's other fields are the caller's.
tp_status tp_pipeline_split(tp_pipeline *pipeline, const tp_heap *heap, const tp_run *runs,
                            size_t n_runs, bool has_ends, const double *in_flight, tp_error *error);
void tp_pipeline_release(tp_pipeline *pipeline);

// What each of n chunks of the layers holds, as tp_pipeline_split deals them out where the pipeline has as many.
void tp_pipeline_chunks(const tp_pipeline *pipeline, const tp_run *runs, size_t n_runs,
                        bool has_ends, int64_t n, tp_stage *chunks);

// The section whose exchange is the first that a stage waits for: its first layer's, or that of the end which is all it
// has.
static inline int tp_leading_section(const tp_stage *stage, const tp_network *network) {
    if (stage->leading != TP_NO_LAYER) return stage->leading;
    return network->n_kinds + (stage->first ? 0 : 1);
}

// Seconds of one micro-batch in a stage of a pipeline.
typedef struct tp_stage_time {
    double forward, backward, weight_grad;
    double host; // of both passes: for launches, beyond the time of their kernels
    double
        pair; // of a forward and a backward pass that overlap: one's collectives run beside the other's work
} tp_stage_time;

typedef struct tp_pipeline_time {
    const tp_stage *busiest;
    tp_stage_time busy, others; // of the busiest stage; of the other ones on average
} tp_pipeline_time;

// Bytes for every parameter, by what they hold; ZeRO stages (arXiv 1910.02054) shard over
// the data-parallel group: 1 optimizer, 2 gradients too, 3 weights too.
typedef struct tp_training {
    double kept_bytes;          // of one parameter between its uses (FSDP keeps 4 and gathers 2);
                                // 0: as the op has it
    double gradient_bytes;      // of one parameter, kept and reduced
    double optimizer_bytes;     // of one parameter of a layer: master copy and moments
    double end_optimizer_bytes; // of one parameter of the sections `first` and `last`
    double narrow_bytes;        // on top, of one parameter that its op has in fewer than 32 bits
    double recompute_layers;    // that are recomputed as one, from one input
    double workspace_bytes;     // of libraries, on every GPU
    double communicator_bytes;  // of every group that a GPU belongs to
    double
        data_overlap; // 0: data-parallel traffic waits for compute; 1: it hides as the software can
    double offloaded; // part of the optimizer's states that the host keeps and updates, in [0, 1]
    double
        iterations; // of Newton-Schulz, which orthogonalise each matrix's update (Muon); 0: none do
    double
        reshards; // 1: weights that ZeRO 3 gathered for a forward pass are let go after it; 0: stay
    double reserved; // part of the HBM that is kept free, in [0, 1)
} tp_training;

// One way to run a model on a machine. The axes of the grid that do not fold multiply to the number of GPUs.
typedef struct tp_candidate {
    int strategy; // which of the caller's strategies; orders candidates that are otherwise equal
    int variant;  // which of the caller's variants of the shape (recomputation …); likewise
    int64_t sizes[TP_AXES_MAX]; // of the grid's axes
    const tp_pipeline *pipeline;
    int64_t micro_batch;  // samples
    int64_t microbatches; // that each pipeline runs per iteration
    int zero;             // ZeRO stage
    tp_placement placement;
} tp_candidate;

// Whether every micro-batch gathers weights for its forward pass and reduces its gradients, or the first and the last one
// alone do: weights that ZeRO 3 does not let go stay, in a pipeline, until the last backward pass, and gradients are
// added up whole meanwhile (PyTorch's FSDP2 under its pipelines).
static inline bool tp_gathers_each(const tp_candidate *candidate, const tp_training *training) {
    return candidate->zero >= 3 && (training->reshards > 0 || candidate->pipeline->pp == 1);
}
static inline bool tp_reduces_each(const tp_candidate *candidate, const tp_training *training) {
    return candidate->zero >= 3 ? tp_gathers_each(candidate, training) : candidate->zero >= 2;
}

// What all candidates of one question share.
typedef struct tp_job {
    tp_platform on;
    const tp_training *training;
    int64_t global_batch; // samples per iteration
} tp_job;

// Bytes on one GPU. passing: what lives during one pass only; buffers: of libraries. host: in its host's memory.
typedef struct tp_memory {
    double weights, gradients, optimizer, activations, passing, buffers, total, host;
} tp_memory;

// Seconds of an iteration; the parts add up to time unless attention is recomputed under rules
// without recompute_counts_everywhere.
typedef struct tp_iteration {
    double time;
    double compute, memory, tensor_comm, data_comm, pipeline_comm, bubble;
    double host;      // beyond the GPU's own time, for launches
    double optimizer; // of its step
    double offload;   // that passes wait for activations on their way to or from the host
    double flops;     // on one GPU, on average
    // What the parts are made of.
    tp_pipeline_time pipeline;
    double hop;    // that every pass of a device takes longer for its messages, one a chunk
    double hidden; // of tensor_comm, by passes that overlap
    double each_forward, each_backward; // that a pass of every micro-batch waits for replicas
    const tp_stage *waiting;            // the stage that data_comm is of; NULL: none waits
    double pairs;                       // of passes that overlap, that `hidden` is of
} tp_iteration;

// The memory of the fullest GPU, and of each of the pipeline's n_devices; costs give bytes only, their times
// are not read.
tp_memory tp_memory_of(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                       const tp_layer_cost *costs);
void tp_memory_of_devices(const tp_candidate *candidate, const tp_job *job,
                          const tp_network *network, const tp_layer_cost *costs,
                          tp_memory *devices);

// Seconds of the optimizer's step on the GPU that has most to update: it reads and writes the state of each parameter of
// its shard, reads its gradient for the norm and for the update and clears it, and writes the weight.
// tp_optimizer_bytes: what it reads and writes. Of the states that the host keeps, the GPU sends their gradients, the
// host updates them at the speed of its memory, and sends the weights back: tp_optimizer_host, one after the other.
double tp_optimizer_bytes(const tp_candidate *candidate, const tp_job *job,
                          const tp_network *network, const tp_layer_cost *costs);
typedef struct tp_host_update {
    double bytes_out, bytes_in,
        bytes_updated;      // gradients, weights; read and written in the host's memory
    double out, in, update; // seconds
} tp_host_update;
// FLOPs of Newton-Schulz iterations on the GPU that has most of them, which works on its share of the matrices.
double tp_optimizer_flops(const tp_candidate *candidate, const tp_job *job,
                          const tp_network *network, const tp_layer_cost *costs);
// Seconds of them, at the part of the peak that kernels without a curve reach.
double tp_orthogonal_time(const tp_job *job, double flops);
tp_host_update tp_optimizer_host(const tp_candidate *candidate, const tp_job *job,
                                 const tp_network *network, const tp_layer_cost *costs);
double tp_optimizer_time(const tp_candidate *candidate, const tp_job *job,
                         const tp_network *network, const tp_layer_cost *costs);

// The time of a candidate, whole. Costs are those of every section, for the candidate's placement of the
// network's axes.
tp_iteration tp_iteration_of(const tp_candidate *candidate, const tp_job *job,
                             const tp_network *network, const tp_layer_cost *costs);

// Bytes that a chunk's forward pass leaves behind until its backward pass is done, and bytes that live while one of its
// passes runs. What a device holds at all times is in tp_memory's other parts.
typedef struct tp_chunk_memory {
    double saved, forward, backward;
} tp_chunk_memory;
tp_chunk_memory tp_chunk_memory_of(const tp_candidate *candidate, const tp_job *job,
                                   const tp_network *network, const tp_layer_cost *costs,
                                   const tp_stage *chunk);

// What a schedule is simulated with. A pass takes its kernels' time, what it waits for replicas in every micro-batch,
// and a hop for its message.
typedef struct tp_chunk_passes {
    tp_stage_time time;
    tp_chunk_memory memory;
} tp_chunk_passes;

// Seconds that a device waits for its replicas once: for weights before its first pass, for gradients after its last.
typedef struct tp_device_waits {
    double before, after;
} tp_device_waits;

// passes[n]: of chunks that tp_pipeline_chunks made; waits[pp]: of every device of the candidate's pipeline.
void tp_passes_of(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                  const tp_layer_cost *costs, const tp_stage *chunks, int64_t n,
                  tp_chunk_passes *passes, tp_device_waits *waits);

// The same in steps, each of which holds for many candidates of a search.

// How many layers of a section a stage holds; of the two ends 0 or 1.
double tp_stage_layers(const tp_stage *stage, int section, int n_kinds);

// host_s: see tp_software.
tp_stage_time tp_stage_time_of(const tp_stage *stage, const tp_network *network,
                               const tp_layer_cost *costs, double host_s);
tp_pipeline_time tp_pipeline_time_of(const tp_pipeline *pipeline, const tp_network *network,
                                     const tp_layer_cost *costs, double host_s);

// Seconds that the replicas of a layer take to gather its weights and to reduce its gradients.
typedef struct tp_exchange {
    double gather, reduce;
    double update; // seconds to gather whole matrices of updates for the optimizer's step
} tp_exchange;

// One collective among the replicas of a layer.
typedef struct tp_replica_comm {
    tp_collective kind;
    tp_group group;
    double bytes, seconds; // the full vector; of the collective by itself
    bool gathers,
        experts; // weights, for a pass (else reduces gradients); experts' (else all others')
} tp_replica_comm;
enum { TP_REPLICA_COMMS_MAX = 2 * (2 + TP_AXES_MAX) };

// What a layer of a section exchanges in a forward and a backward pass; how many collectives.
int tp_replica_comms_of(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                        const tp_layer_cost *costs, int section,
                        tp_replica_comm comms[TP_REPLICA_COMMS_MAX]);

// What of the exchanges of a section, or of a stage, nothing hides: of the gathers before forward passes, of the
// reductions beside backward ones. `first`: of the stage's first layer, whose exchange hides behind no pass when it is
// the first of an iteration to be gathered, and the last to be reduced.
typedef struct tp_exposure {
    double gather, reduce, first_gather, first_reduce;
    double update; // which nothing hides
} tp_exposure;
tp_exposure tp_exposure_of(const tp_exchange *exchange, const tp_layer_cost *cost,
                           const tp_job *job);
tp_exposure tp_stage_exposure(const tp_stage *stage, const tp_network *network,
                              const tp_exposure *sections);

// exchanges[n_kinds + 2]: every section's; they depend on the replicas' placement and on the ZeRO stage. Costs
// give bytes only.
void tp_exchange_times(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                       const tp_layer_cost *costs, tp_exchange *exchanges);

// Seconds of one activation's way to a stage in the same fast domain, and in another.
typedef struct tp_hop {
    double fast, slow;
} tp_hop;
tp_hop tp_hop_times(const tp_job *job, const tp_network *network);

// The average over the links between stages; depends on the placement of the stages.
double tp_hop_time(const tp_candidate *candidate, const tp_job *job, tp_hop hop);

// Equal to tp_iteration_of's time, to the last bit.
double tp_iteration_time(const tp_candidate *candidate, const tp_job *job,
                         const tp_network *network, const tp_layer_cost *costs,
                         const tp_pipeline_time *pipeline, const tp_exchange *exchanges, double hop,
                         double optimizer);

// A lower bound of what a simulation of the candidate's schedule takes, whatever its stages are like: no less than what
// the busiest device does and waits for, nor than the closed form if all chunks were as short as the shortest.
double tp_iteration_least(const tp_candidate *candidate, const tp_job *job,
                          const tp_network *network, const tp_layer_cost *costs,
                          const tp_exchange *exchanges, double hop, double optimizer);

// A lower bound of the iteration's time that holds for every placement of replicas and stages: layers, the bubble they make and the
// optimizer's step, no data-parallel or pipeline traffic.
double tp_iteration_bound(const tp_candidate *candidate, const tp_pipeline_time *pipeline,
                          double optimizer);

#endif
