// step.h: the tasks of a training step, each on the resources that it keeps busy.
// A pass of a chunk of layers is a chain of kernels and collectives, some of which overlap: the segments that the prices
// of its ops add up (tperf/price.h), layers being as long as their costs say (tperf/workload.h). All passes of a chunk
// are alike, as are all replicas and all GPUs of a group; so a step is one list of tasks per kind of chunk and pass,
// plus the schedule's times of the passes.
// Formulas: docs/model.md section 6.5.
#ifndef TPERF_STEP_H
#define TPERF_STEP_H

#include "tperf/plan.h"
#include "tperf/schedule.h"

typedef enum tperf_task_kind {
    TPERF_TASK_KERNEL,
    TPERF_TASK_COLLECTIVE, // within a layer; of a device after its last pass: of all its layers
    TPERF_TASK_MESSAGE,    // between stages
    TPERF_TASK_GATHER,     // of weights from the replicas
    TPERF_TASK_REDUCE, // gradients among replicas; also weights gathered again for the backward pass
    TPERF_TASK_LAUNCHES, // of a pass's kernels
    TPERF_TASK_OPTIMIZER,
    TPERF_TASK_OFFLOAD, // between the GPU's memory and the host's
    TPERF_TASK_KIND_COUNT
} tperf_task_kind;

typedef enum tperf_resource {
    TPERF_COMPUTE, // the GPU's multiprocessors and HBM
    TPERF_FAST,    // the GPU's port to the fast domain
    TPERF_NICS,
    TPERF_HOST,
    TPERF_COPY, // the copy engine, and its link to the host's memory
    TPERF_RESOURCE_COUNT
} tperf_resource;

extern const char *const tperf_task_names[TPERF_TASK_KIND_COUNT];
extern const char *const tperf_resource_names[TPERF_RESOURCE_COUNT];

typedef enum tperf_task_when {
    TPERF_EVERY_TIME,
    TPERF_FIRST_TIME,
    TPERF_LAST_TIME
} tperf_task_when;

typedef struct tperf_task {
    tperf_task_kind kind;
    unsigned resources;   // bit r: keeps tperf_resource r busy
    tperf_task_when when; // only in the chunk's first or last pass of this kind
    bool beside;          // the next task does not wait for it
    bool again;           // part of a forward pass that the backward pass recomputes
    int section;          // of the workload; -1: belongs to the whole pass
    int64_t layer;        // of the chunk, from 0; -1: belongs to no layer
    const tperf_op *op;   // of a kernel or a collective
    const tperf_comm *comm;
    double bytes;                         // of a collective's full vector, see tperf/collective.h
    double fast_bytes, nic_bytes;         // that one GPU sends
    double up_bytes[TPERF_TIERS_MAX - 2]; // through its part of the uplinks of further tiers
    double seconds;     // in isolation; less than stop - start if it shares a resource
    double start, stop; // relative to the start of the pass
} tperf_task;

typedef struct tperf_task_list {
    tperf_task *tasks;
    size_t n, capacity;
    double length; // of the pass: its successors start then
} tperf_task_list;

// Consecutive layers of the model that one stage of a schedule runs.
typedef struct tperf_chunk {
    tperf_stage stage; // as tperf_pipeline_chunks makes it
    const int *kinds;  // of its layers, in order
    int64_t n_layers;
    bool leads;          // its first layer is the first of its device
    bool enters, leaves; // it is the first, the last of the pipeline
} tperf_chunk;

// The inputs to all lists of a step. The plan's pointers are the caller's and must outlive it.
typedef struct tperf_step {
    const tperf_heap *heap;
    tperf_plan plan;
    tperf_op_cost *prices; // [n_ops] of each op's own passes, without recomputation
    tperf_exposure exposures[TPERF_SECTIONS_MAX];
    double updates[TPERF_SECTIONS_MAX];                                    // tperf_exchange.update
    tperf_route gathered[TPERF_SECTIONS_MAX], reduced[TPERF_SECTIONS_MAX]; // bytes
    tperf_message message;
} tperf_step;

tperf_status tperf_step_init(tperf_step *step, const tperf_heap *heap, const tperf_plan *plan,
                             tperf_error *error);
void tperf_step_release(tperf_step *step);

// The tasks of a pass of the chunk; list->length is what tperf_passes_of gives for the pass. The list must be empty; on
// failure there is nothing to release.
tperf_status tperf_step_pass(const tperf_step *step, const tperf_chunk *chunk, tperf_pass_kind pass,
                             tperf_task_list *list, tperf_error *error);

// The waits of a device before its first pass and after its last; the lengths are those of tperf_device_waits.
typedef struct tperf_device {
    const tperf_stage *stage; // all that it holds
    const tperf_stage *first; // its first chunk
} tperf_device;
tperf_status tperf_step_before(const tperf_step *step, const tperf_device *device,
                               tperf_task_list *list, tperf_error *error);
tperf_status tperf_step_after(const tperf_step *step, const tperf_device *device,
                              tperf_task_list *list, tperf_error *error);

// The tasks of the optimizer step.
tperf_status tperf_step_optimizer(const tperf_step *step, tperf_task_list *list,
                                  tperf_error *error);

void tperf_task_list_release(tperf_task_list *list);

#endif
