// inference.h: a model served by one replica: the time of a prompt and of every token after it, and
// the memory of a GPU. Formulas: docs/model.md section 10.
#ifndef TPERF_INFERENCE_H
#define TPERF_INFERENCE_H

#include "tperf/plan.h"

enum { TP_LENGTHS_MAX = TP_KINDS_MAX + 2 };

// An op of a decode step whose counts depend on how many keys the new token sees.
typedef struct tp_varying {
    int section;
    size_t op;
} tp_varying;

// One decode step of a micro-batch, laid out for several numbers of keys (tokens that the new one
// sees, itself included), ascending. Between two neighbours every count is affine in that number:
// attention grows with the cache until its window is full.
typedef struct tp_decode {
    int n;
    double keys[TP_LENGTHS_MAX];
    const tp_network *networks[TP_LENGTHS_MAX];
    size_t n_varying;
    tp_varying varying[];
} tp_decode;

// Fills the decode, which has room for as many varying ops as a network has ops. The networks must
// be alike but for their counts.
tp_status tp_decode_compare(tp_decode *decode, tp_error *error);

// The forward pass of an op with so many keys, which lie between the first and last laid out.
void tp_decode_pass(const tp_decode *decode, size_t op, double keys, tp_pass *pass);

// Values that are summed over steps. The first is the one that must be convex between two laid-out
// numbers of keys: the time.
enum { TP_STEP_VALUES = 8 };
typedef void (*tp_step)(const void *context, double keys, double values[TP_STEP_VALUES]);

// Adds up step(first) … step(last), `keys` ascending by 1, within [keys[0], keys[n - 1]] of the decode.
// Exact to 1e-7: a convex function that meets its chord at the middle is affine there, so a few
// evaluations suffice where times are maxima of affine functions; elsewhere intervals are halved
// until that holds.
void tp_decode_sum(const tp_decode *decode, double first, double last, tp_step step,
                   const void *context, double sum[TP_STEP_VALUES]);

// What one layer remembers of one sequence, on one GPU.
typedef struct tp_cache {
    double token_bytes; // of each token that is kept
    double most_tokens; // a window; 0: all are kept
    double state_bytes; // whatever the length
} tp_cache;

// What is served, by one replica of pp stages. Prompts are taken in `prefill_batch` at a time;
// `batch` sequences decode at a time, in `microbatches` of micro_batch (the last may be smaller, and is
// taken to be as large) that follow each other through the stages.
typedef struct tp_serving {
    tp_platform on;
    tp_placement placement;
    const tp_pipeline *pipeline; // one stage a device
    const tp_network *prefill; // of prefill_batch prompts
    const tp_decode *decode;   // of micro_batch sequences; NULL: no token but the first is wanted
    const tp_network *single;  // a step of one sequence with one key, for what it works on
    const tp_cache *caches;    // of each kind of layer
    int64_t batch, prefill_batch, micro_batch, microbatches;
    int64_t prompt, generate; // tokens
    double reserved;          // part of the HBM that is kept free
} tp_serving;

// Seconds; the parts add up to time.
typedef struct tp_phase {
    double time, compute, memory, tensor_comm, pipeline_comm, wait;
} tp_phase;

// Bytes on the GPU that is full first. buffers: what the widest op works on, and the residual stream.
typedef struct tp_serving_memory {
    double weights, cache, buffers, total;
} tp_serving_memory;

typedef struct tp_service {
    tp_phase prefill;             // prefill_batch prompts, from the first stage to the last
    tp_phase decode;              // all generate - 1 steps of every sequence
    double prefill_busiest;       // seconds of the busiest stage for prefill_batch prompts
    double first_step, last_step; // seconds
    tp_serving_memory memory;
    double
        cache_sequence; // bytes of one sequence on all GPUs of the pipeline together, one each stage
    double max_batch;   // the largest that fits; 0: not even one sequence
} tp_service;

tp_service tp_serve(const tp_serving *serving);

#endif
