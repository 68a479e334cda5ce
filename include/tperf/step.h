// step.h: the tasks of a training step, each on the resources that it keeps busy.
// A pass of a chunk of layers is a row of kernels and collectives that wait for each other, with others beside them: what
// src/plan/iteration.c adds up to a pass's time, one by one, at the same prices. All passes of a chunk are alike, and so
// are all replicas and all GPUs of a group, so a step is told by one list of tasks a kind of chunk and pass, and by when
// the schedule runs the passes. Formulas: docs/model.md section 6.5.
#ifndef TPERF_STEP_H
#define TPERF_STEP_H

#include "tperf/plan.h"
#include "tperf/schedule.h"

typedef enum tp_task_kind {
    TP_TASK_KERNEL,
    TP_TASK_COLLECTIVE, // within a layer
    TP_TASK_MESSAGE,    // between stages
    TP_TASK_GATHER,     // of weights from the replicas
    TP_TASK_REDUCE, // of gradients among the replicas, and weights gathered again for the backward pass
    TP_TASK_LAUNCHES, // of a pass's kernels
    TP_TASK_OPTIMIZER,
    TP_TASK_OFFLOAD, // between the GPU's memory and the host's
    TP_TASK_KIND_COUNT
} tp_task_kind;

typedef enum tp_resource {
    TP_COMPUTE, // the GPU's multiprocessors and HBM
    TP_FAST,    // its port to the fast domain
    TP_NICS,
    TP_HOST,
    TP_COPY, // the copy engine, and its link to the host's memory
    TP_RESOURCE_COUNT
} tp_resource;

extern const char *const tp_task_names[TP_TASK_KIND_COUNT];
extern const char *const tp_resource_names[TP_RESOURCE_COUNT];

typedef enum tp_task_when { TP_EVERY_TIME, TP_FIRST_TIME, TP_LAST_TIME } tp_task_when;

typedef struct tp_task {
    tp_task_kind kind;
    unsigned resources; // bit r: keeps tp_resource r busy
    tp_task_when when;  // in the chunk's first or last pass of this kind alone
    bool beside;        // what comes after does not wait for it
    bool again;         // of a forward pass that the backward pass recomputes
    int section;        // of the network; -1: of the whole pass
    int64_t layer;      // of the chunk, from 0; -1: of no layer
    const tp_op *op;    // of a kernel or a collective
    const tp_comm *comm;
    double bytes;                 // of a collective's full vector, see tperf/collective.h
    double fast_bytes, nic_bytes; // that one GPU sends
    double seconds;               // that it takes by itself; less than stop - start where it shares
    double start, stop;           // from the start of the pass
} tp_task;

typedef struct tp_task_list {
    tp_task *tasks;
    size_t n, capacity;
    double length; // of the pass: what waits for it goes on then
} tp_task_list;

// Neighbouring layers of the model that one stage of a schedule runs.
typedef struct tp_chunk {
    tp_stage stage;   // as tp_pipeline_chunks makes it
    const int *kinds; // of its layers, in order
    int64_t n_layers;
    bool leads; // its first layer is the first of its device
} tp_chunk;

// What all lists of a step are made from. The pointers are the caller's and outlive it.
typedef struct tp_step {
    const tp_heap *heap;
    const tp_candidate *candidate;
    const tp_job *job;
    const tp_network *network;
    const tp_layer_cost *costs;
    tp_op_cost *prices; // [n_ops] of each op's own passes: recomputation apart
    tp_exposure exposures[TP_SECTIONS_MAX];
    double gather_bytes[TP_SECTIONS_MAX][2], reduce_bytes[TP_SECTIONS_MAX][2]; // fast, NIC
    double hop;
} tp_step;

tp_status tp_step_init(tp_step *step, const tp_heap *heap, const tp_candidate *candidate,
                       const tp_job *job, const tp_network *network, const tp_layer_cost *costs,
                       tp_error *error);
void tp_step_release(tp_step *step);

// The tasks of a pass of the chunk; its length is what tp_passes_of gives for the pass. The list is empty before; on
// failure nothing is left to release.
tp_status tp_step_pass(const tp_step *step, const tp_chunk *chunk, tp_pass_kind pass,
                       tp_task_list *list, tp_error *error);

// What a device waits for before its first pass and after its last one: lengths are those of tp_device_waits.
tp_status tp_step_before(const tp_step *step, const tp_stage *device, tp_task_list *list,
                         tp_error *error);
tp_status tp_step_after(const tp_step *step, const tp_stage *device, tp_task_list *list,
                        tp_error *error);

// The optimizer's step.
tp_status tp_step_optimizer(const tp_step *step, tp_task_list *list, tp_error *error);

void tp_task_list_release(tp_task_list *list);

#endif
