// inference.h: a model served by one replica: the time of a prompt and of every token after it, and
// the memory of a GPU. Formulas: docs/model.md section 10.
#ifndef TPERF_INFERENCE_H
#define TPERF_INFERENCE_H

#include "tperf/plan.h"

enum { TPERF_LENGTHS_MAX = TPERF_KINDS_MAX + 2 };

// An op of a decode step whose counts depend on how many keys the new token sees.
typedef struct tperf_varying {
    int section;
    size_t op;
} tperf_varying;

// One decode step of a micro-batch, laid out for several numbers of keys (tokens that the new one
// sees, itself included), ascending. Between two neighbours every count is affine in that number:
// attention grows with the cache until its window is full.
typedef struct tperf_decode {
    int n;
    double keys[TPERF_LENGTHS_MAX];
    const tperf_workload *networks[TPERF_LENGTHS_MAX];
    size_t n_varying;
    tperf_varying varying[];
} tperf_decode;

// Fills the decode, which has room for as many varying ops as a network has ops. The networks must
// be alike but for their counts.
tperf_status tperf_decode_compare(tperf_decode *decode, tperf_error *error);

// The forward pass of an op with so many keys, which lie between the first and last laid out.
void tperf_decode_pass(const tperf_decode *decode, size_t op, double keys, tperf_pass *pass);

// Values that are summed over steps, at a number of keys that need not be whole. The first is the one
// that must be convex between two laid-out numbers of keys: the time.
enum { TPERF_STEP_VALUES = 8 };
typedef void (*tperf_step)(const void *context, double keys, double values[TPERF_STEP_VALUES]);

// Adds up step(first) … step(last), `keys` ascending by 1, within [keys[0], keys[n - 1]] of the decode.
// Exact to 1e-7: a convex function that meets its chord at the middle is affine there, so a few
// evaluations suffice where times are maxima of affine functions. Elsewhere intervals are halved until a
// polynomial through five points meets four more between them, which a closed form sums.
void tperf_decode_sum(const tperf_decode *decode, double first, double last, tperf_step step,
                      const void *context, double sum[TPERF_STEP_VALUES]);

// What one layer remembers of one sequence, on one GPU.
typedef struct tperf_cache {
    double token_bytes; // of each token that is kept
    double most_tokens; // a window; 0: all are kept
    double state_bytes; // whatever the length
} tperf_cache;

// What is served, by one replica of pp stages. Prompts are taken in `prefill_batch` at a time;
// `batch` sequences decode at a time, in `microbatches` of micro_batch (the last may be smaller, and is
// taken to be as large) that follow each other through the stages.
typedef struct tperf_serving {
    tperf_platform on;
    tperf_placement placement;
    const tperf_pipeline *pipeline; // one stage a device
    const tperf_workload *prefill;  // of prefill_batch prompts
    const tperf_decode *decode; // of micro_batch sequences; NULL: no token but the first is wanted
    const tperf_workload *single; // a step of one sequence with one key, for what it works on
    const tperf_cache *caches;    // of each kind of layer
    int64_t batch, prefill_batch, micro_batch, microbatches;
    int64_t prompt, generate; // tokens
    double reserved;          // part of the HBM that is kept free
} tperf_serving;

// Seconds; the parts add up to time.
typedef struct tperf_phase {
    double time, compute, memory, tensor_comm, pipeline_comm, wait;
} tperf_phase;

// Bytes on the GPU that is full first. buffers: what the widest op works on, and the residual stream.
typedef struct tperf_serving_memory {
    double weights, cache, buffers, total;
} tperf_serving_memory;

typedef struct tperf_service {
    tperf_phase prefill;          // prefill_batch prompts, from the first stage to the last
    tperf_phase decode;           // all generate - 1 steps of every sequence
    double prefill_busiest;       // seconds of the busiest stage for prefill_batch prompts
    double first_step, last_step; // seconds
    tperf_serving_memory memory;
    double
        cache_sequence; // bytes of one sequence on all GPUs of the pipeline together, one each stage
    double max_batch;   // the largest that fits; 0: not even one sequence
} tperf_service;

tperf_service tperf_serve(const tperf_serving *serving);

#endif
