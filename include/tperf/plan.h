// plan.h: one training configuration: the time of an iteration and the memory of a GPU.
// Formulas: docs/model.md sections 5 and 6. All layers are equal and the stages hold as many each;
// the pipeline runs 1F1B.
#ifndef TPERF_PLAN_H
#define TPERF_PLAN_H

#include "tperf/layer.h"

// One way to run a model on a machine. The layer's axes x dp x pp is the number of GPUs.
typedef struct tp_candidate {
    int strategy; // which of the caller's strategies; orders candidates that are otherwise equal
    int64_t dp, sizes[TP_AXES_MAX], pp;
    int64_t micro_batch; // samples
    tp_placement placement;
    int64_t dp_fast, pp_fast; // GPUs of that axis in one fast domain
} tp_candidate;

// What all candidates of one question share.
typedef struct tp_job {
    const tp_system *system;
    const tp_rules *rules;
    int64_t layers;       // of the model
    int64_t global_batch; // samples per iteration
} tp_job;

// Bytes on the GPU that holds most.
typedef struct tp_memory {
    double weights, gradients, optimizer, activations, total;
} tp_memory;

// Seconds of an iteration; the parts add up to time unless attention is recomputed under rules
// without recompute_counts_everywhere.
typedef struct tp_iteration {
    double time;
    double compute, memory, tensor_comm, data_comm, pipeline_comm, bubble;
    double flops; // on one GPU
} tp_iteration;

// Micro-batches that each pipeline runs per iteration. The candidate divides the job's batch.
int64_t tp_candidate_microbatches(const tp_candidate *candidate, const tp_job *job);

// The layer's cost gives its bytes only; its times are not read.
tp_memory tp_memory_of(const tp_candidate *candidate, const tp_job *job, const tp_layer *layer,
                       const tp_layer_cost *cost);

tp_iteration tp_iteration_of(const tp_candidate *candidate, const tp_job *job,
                             const tp_layer *layer, const tp_layer_cost *cost);

#endif
