// inference.h: a model served by one replica: the time of a prompt and of each token after it, and the memory of a GPU.
// Formulas: docs/model.md section 10.
#ifndef TPERF_INFERENCE_H
#define TPERF_INFERENCE_H

#include "tperf/plan.h"

enum { TPERF_LENGTHS_MAX = 1 << 16 }; // layouts of a decode step

// A decode step's op whose counts depend on the number of keys that the new token sees.
typedef struct tperf_varying {
    int section;
    size_t op;
} tperf_varying;

// Steps that have the same ops, whose counts may differ: most models have one form, a block that does more in every
// 64th step has two.
typedef struct tperf_decode_form {
    const tperf_workload *workload; // the first layout of this form
    size_t n_varying;
    const tperf_varying *varying;
} tperf_decode_form;

// One decode step of a micro-batch, laid out for several ascending numbers of keys (tokens that the new one sees,
// itself included). Between two neighbours every count is affine in that number, if they are of one form; if not, they
// are neighbouring steps.
typedef struct tperf_decode {
    int n, n_forms;
    double *keys;
    const tperf_workload **workloads;
    int *form_of; // of each layout
    tperf_decode_form *forms;
} tperf_decode;

// Finds the forms of a decode with keys and workloads; form_of and forms have room for n each. *varying is the number
// of ops that tperf_decode_compare needs room for. Fails if layouts are not of one model, or are of different forms and
// not of neighbouring steps.
tperf_status tperf_decode_find_forms(tperf_decode *decode, size_t *varying, tperf_error *error);

// Fills in the ops that vary, into the room for them.
void tperf_decode_compare(tperf_decode *decode, tperf_varying *room);

// Whether all forward passes of a step lie on the line between those of two others, to 1e-7 of each count, `part` of the
// way: they have the same ops, and the first has part 0, the last part 1.
bool tperf_decode_on_line(const tperf_workload *first, const tperf_workload *last, double part,
                          const tperf_workload *step);

// The form of the step with this many keys.
int tperf_decode_form_at(const tperf_decode *decode, double keys);

// The forward pass of an op of this step's form, between the first and last layout.
void tperf_decode_pass(const tperf_decode *decode, size_t op, double keys, tperf_pass *pass);

// Values that are summed over steps, at a number of keys that need not be whole. The first is the one
// that must be convex between two laid-out numbers of keys: the time.
enum { TPERF_STEP_VALUES = 7 }; // at most
typedef void (*tperf_step_function)(const void *context, double keys, double *values);
typedef struct tperf_step_values {
    tperf_step_function of;
    const void *context;
    int n;
} tperf_step_values;

// Adds up the values of steps first … last, `keys` ascending by 1, within [keys[0], keys[n - 1]] of the decode.
// Exact to 1e-7: a convex function that meets its chord at the middle is affine there, so a few
// evaluations suffice where times are maxima of affine functions. Elsewhere intervals are halved until a
// polynomial through five points meets four more between them, which a closed form sums.
void tperf_decode_sum(const tperf_decode *decode, double first, double last,
                      const tperf_step_values *values, double *sum);

// A part of what one layer of a section keeps of one sequence, on one GPU: a layer may have several. A row for each number
// (tperf/record.h).
enum { TPERF_CACHES_MAX = 256 };
#define TPERF_CACHE(FIELD)                                                                         \
    FIELD(INTEGER, section, "section", NULL, TPERF_REQUIRED, 0, TPERF_ANY,                         \
          "a kind of layer, or an end")                                                            \
    FIELD(NUMBER, token_bytes, "token_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,               \
          "per token kept")                                                                        \
    FIELD(NUMBER, most_tokens, "most_tokens", NULL, TPERF_REQUIRED, 0, TPERF_ANY,                  \
          "the window; 0: keeps all tokens")                                                       \
    FIELD(NUMBER, state_bytes, "state_bytes", "bytes", TPERF_REQUIRED, 0, TPERF_ANY,               \
          "independent of the length")
typedef struct tperf_cache {
    TPERF_CACHE(TPERF_MEMBER)
} tperf_cache;
extern const tperf_record tperf_cache_record;

// Memory for what the ops of one question's workloads cost on its machine, which all placements share.
typedef struct tperf_inference_scratch tperf_inference_scratch;

#define TPERF_COUNTED(FIELD, member, doc)                                                          \
    FIELD(INTEGER, member, #member, NULL, TPERF_REQUIRED, 1, TPERF_ANY, doc)
#define TPERF_INFERENCE(FIELD)                                                                     \
    TPERF_COUNTED(FIELD, batch, "sequences that decode at a time")                                 \
    TPERF_COUNTED(FIELD, prefill_batch, "prompts that are prefilled at a time")                    \
    TPERF_COUNTED(FIELD, micro_batch, "sequences that go through the stages together")             \
    TPERF_COUNTED(FIELD, microbatches, "that follow each other")                                   \
    TPERF_COUNTED(FIELD, prompt, "tokens")                                                         \
    TPERF_COUNTED(FIELD, generate, "tokens")                                                       \
    FIELD(NUMBER, reserved, "reserved", NULL, TPERF_REQUIRED, 0, TPERF_BELOW(1),                   \
          "part of the HBM that is kept free")

// A model served by one replica of pp stages. Prompts are prefilled `prefill_batch` at a time; `batch` sequences decode
// at a time, in `microbatches` of micro_batch that follow each other through the stages (a smaller last one is priced
// as a full one).
typedef struct tperf_inference {
    tperf_platform on;
    const tperf_placement *placements; // to choose from
    size_t n_placements;
    const tperf_pipeline *pipeline; // one stage per device
    const tperf_workload *prefill;  // prefill_batch prompts
    const tperf_decode *decode;     // micro_batch sequences; NULL: only the first token is wanted
    const tperf_workload *single;   // a step of one sequence with one key, for its working memory
    const tperf_cache *caches;      // [n_caches]
    size_t n_caches;
    TPERF_INFERENCE(TPERF_MEMBER)
    tperf_inference_scratch *scratch; // tperf_inference_scratch_size bytes, all 0
} tperf_inference;
extern const tperf_record tperf_inference_record;

#define TPERF_PHASE(FIELD)                                                                         \
    TPERF_FIGURE(FIELD, time, "time", "s", "the sum of the others")                                \
    TPERF_FIGURE(FIELD, compute, "compute", "s", "at the compute peaks, launches included")        \
    TPERF_FIGURE(FIELD, memory, "memory", "s", "of exposed HBM traffic")                           \
    TPERF_FIGURE(FIELD, tensor_comm, "tensor_comm", "s", "of collectives within layers")           \
    TPERF_FIGURE(FIELD, pipeline_comm, "pipeline_comm", "s", "of messages between stages")         \
    TPERF_FIGURE(FIELD, wait, "wait", "s", "for the busiest stage")
typedef struct tperf_phase {
    TPERF_PHASE(TPERF_MEMBER)
} tperf_phase;
extern const tperf_record tperf_phase_record;

// On the fullest GPU.
#define TPERF_INFERENCE_BYTES(FIELD)                                                               \
    TPERF_FIGURE(FIELD, weights, "weights", "bytes", "of its layers")                              \
    TPERF_FIGURE(FIELD, cache, "cache", "bytes", "of all sequences")                               \
    TPERF_FIGURE(FIELD, buffers, "buffers", "bytes",                                               \
                 "the working set of the widest op, and the residual stream")                      \
    TPERF_FIGURE(FIELD, total, "total", "bytes", "the sum of the others")
typedef struct tperf_inference_bytes {
    TPERF_INFERENCE_BYTES(TPERF_MEMBER)
} tperf_inference_bytes;
extern const tperf_record tperf_inference_bytes_record;

typedef struct tperf_inference_result {
    size_t placement;             // the one with the least latency, the first of several
    tperf_phase prefill;          // prefill_batch prompts, from the first stage to the last
    tperf_phase decode;           // all generate - 1 steps of every sequence
    double prefill_busiest;       // seconds of the busiest stage, for prefill_batch prompts
    double first_step, last_step; // seconds
    tperf_inference_bytes memory;
    // Bytes of one sequence on one GPU of every stage together.
    double cache_sequence;
    double max_batch; // the largest batch that fits; 0: not even one sequence does
} tperf_inference_result;

size_t tperf_inference_scratch_size(const tperf_inference *serving);

tperf_inference_result tperf_infer(const tperf_inference *serving);

#endif
