// serve.h: requests through serving engines, as a discrete-event simulation.
// Time is a whole number of ticks (64 bits): a nanosecond each, unless the caller counts otherwise. Lengths are in
// tokens. Requests and replicas are numbered from 0. docs/serving.md has the rules.
#ifndef TPERF_SERVE_H
#define TPERF_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"
#include "tperf/heap.h"
#include "tperf/pool.h"
#include "tperf/record.h"

// --- the engine ---

typedef enum tperf_queue_policy {
    TPERF_QUEUE_FCFS,
    TPERF_QUEUE_PRIORITY, // smallest number first, then earliest arrival
} tperf_queue_policy;

typedef struct tperf_batch tperf_batch; // src/serve/batch.h

// Whether groups of layers that keep different tokens have blocks of their own.
typedef enum tperf_pooling {
    TPERF_POOLS_NOTHING,
    TPERF_POOLS_APART,  // windowed layers do, in a pool beside the others'
    TPERF_POOLS_SHARED, // all share the blocks of one pool
} tperf_pooling;

// The engine whose rules form a batch; docs/serving.md has them. Each is a file of src/serve/policy, whose name without
// `.c` it has after `tperf_scheduler_`.
typedef struct tperf_scheduler {
    const char *name; // "vllm": in profiles and scripts
    tperf_status (*schedule)(tperf_batch *batch);
    tperf_pooling pools;
    bool whole_prompts;  // no prompt is prefilled in chunks, unless asked for
    bool mixes;          // has a switch by which steps of prefills take the decodes along
    bool waits;          // may let prompts wait beside decodes for more of them
    bool keeps_states;   // its prefix cache keeps recurrent layers' states
    bool separate;       // decode attention is a kernel of its own beside prefills
    bool prefill_graphs; // CUDA graphs cover steps with prefills
} tperf_scheduler;

extern const tperf_scheduler tperf_scheduler_vllm_v1, tperf_scheduler_sglang,
    tperf_scheduler_tensorrt_llm;

// All of them, and NULL; and the one of a name, or NULL.
extern const tperf_scheduler *const tperf_schedulers[];
const tperf_scheduler *tperf_scheduler_named(const char *name);

typedef enum tperf_draft_method {
    TPERF_DRAFT_NONE,
    TPERF_DRAFT_NGRAM,
    TPERF_DRAFT_MODEL,
    TPERF_DRAFT_EAGLE,
} tperf_draft_method;

// A row for each setting (tperf/record.h), under the names of vLLM's V1 scheduler. SGLang calls max_num_batched_tokens
// chunked_prefill_size and max_num_seqs max_running_requests; TensorRT-LLM has max_num_tokens and max_batch_size.
#define TPERF_MEMBER_QUEUE_POLICY tperf_queue_policy
#define TPERF_TYPE_QUEUE_POLICY   TPERF_TYPE_INT32
#define TPERF_MEMBER_DRAFT_METHOD tperf_draft_method
#define TPERF_TYPE_DRAFT_METHOD   TPERF_TYPE_INT32
#define TPERF_COUNT(FIELD, member, name, doc)                                                      \
    FIELD(INT32, member, name, NULL, TPERF_REQUIRED, 0, INT32_MAX, doc)
// clang-format off
#define TPERF_DRAFTING(FIELD)                                                                      \
    FIELD(DRAFT_METHOD, method, "draft_method", NULL, TPERF_REQUIRED, 0, TPERF_DRAFT_EAGLE, "0: no drafts") \
    TPERF_COUNT(FIELD, tokens, "draft_tokens", "drafts after each step that produced a token")     \
    FIELD(NUMBER, acceptance, "acceptance", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY,           \
          "probability that a draft is accepted, if all before it are")
#define TPERF_ESTIMATE(FIELD)                                                                      \
    FIELD(NUMBER, first, "estimate_first", NULL, TPERF_REQUIRED, 0, 1,                             \
          "part of the running requests' remaining tokens for which room is kept")                 \
    FIELD(NUMBER, least, "estimate_least", NULL, TPERF_REQUIRED, 0, 1,                             \
          "to what part of it decodes take that ...")                                              \
    TPERF_COUNT(FIELD, steps, "estimate_steps", "... in so many steps; 0 means 1")                 \
    TPERF_COUNT(FIELD, longest, "estimate_longest", "tokens expected of an answer to come, at most") \
    TPERF_COUNT(FIELD, ahead, "estimate_ahead",                                                    \
                "after a retraction, the part is that which running answers have reached so many tokens on")
#define TPERF_POOLED(FIELD)                                                                        \
    TPERF_COUNT(FIELD, whole, "whole_groups", "groups that take as many blocks as the first")      \
    TPERF_COUNT(FIELD, windowed, "windowed_groups", "groups whose layers have a window")           \
    TPERF_COUNT(FIELD, window_blocks, "window_blocks", "the most that each of these takes")        \
    TPERF_COUNT(FIELD, states, "state_groups", "groups with a state per request: a block each")    \
    TPERF_COUNT(FIELD, apart, "apart",                                                             \
                "SGLang: blocks of a pool of the windowed groups' own; 0: all share one")          \
    TPERF_COUNT(FIELD, window, "window",                                                           \
                "keys that layers of the first group see: blocks before them are free; 0: all keys")
#define TPERF_ENGINE(FIELD)                                                                        \
    TPERF_COUNT(FIELD, max_num_seqs, "max_num_seqs", "requests running at a time, at least 1")     \
    TPERF_COUNT(FIELD, max_num_batched_tokens, "max_num_batched_tokens",                           \
                "a step's token budget, at least 1")                                               \
    TPERF_COUNT(FIELD, max_model_len, "max_model_len", "prompt and output together, at least 2")   \
    TPERF_COUNT(FIELD, block_size, "block_size", "tokens per block of the KV cache, at least 1")   \
    TPERF_COUNT(FIELD, num_blocks, "num_blocks",                                                   \
                "vLLM's num_gpu_blocks, one more than usable; 0: no limit")                        \
    TPERF_COUNT(FIELD, long_prefill_token_threshold, "long_prefill_token_threshold",               \
                "most tokens of a request in a step; 0: off")                                      \
    FIELD(FLAG, prefix_caching, "prefix_caching", NULL, TPERF_REQUIRED, 0, 1, "needs num_blocks")  \
    FIELD(FLAG, chunked_prefill, "chunked_prefill", NULL, TPERF_REQUIRED, 0, 1,                    \
          "else max_num_batched_tokens should be at least max_model_len")                          \
    FIELD(FLAG, mixed_chunk, "mixed_chunk", NULL, TPERF_REQUIRED, 0, 1,                            \
          "SGLang: steps of prefills take the decodes along")                                      \
    FIELD(FLAG, async_scheduling, "async_scheduling", NULL, TPERF_REQUIRED, 0, 1,                  \
          "a step's batch is formed when the previous step begins")                                \
    TPERF_COUNT(FIELD, receive_interval, "receive_interval",                                       \
                "steps between checks for new requests while some run; 0 means 1")                 \
    TPERF_COUNT(FIELD, batch_wait_steps, "batch_wait_steps",                                       \
                "TensorRT-LLM: steps that prompts wait for more of them while others decode ...")  \
    TPERF_COUNT(FIELD, batch_wait_tokens, "batch_wait_tokens",                                     \
                "... until a step would have this many tokens; 0: no wait")                        \
    FIELD(QUEUE_POLICY, policy, "policy", NULL, TPERF_REQUIRED, 0, TPERF_QUEUE_PRIORITY,           \
          "the order of waiting requests")
// clang-format on

// Speculative decoding. Of the drafts of a request's v-th verification (from 0), accepted[(request + v) % n_accepted]
// are accepted; without that pattern each one in turn is accepted with probability `acceptance`, until one is rejected.
// TPERF_DRAFT_MODEL looks `tokens` slots ahead in the cache; TPERF_DRAFT_EAGLE does likewise, and recomputes the last
// block of a cached prefix.
typedef struct tperf_drafting {
    TPERF_DRAFTING(TPERF_MEMBER)
    const int32_t *accepted;
    size_t n_accepted;
    uint64_t seed;
} tperf_drafting;

// Groups of layers that take blocks besides the first, in which each block_size tokens of a request take a block.
// Zeroed: there are none.
typedef struct tperf_pooled {
    TPERF_POOLED(TPERF_MEMBER)
} tperf_pooled;

// What SGLang's scheduler expects answers to need.
typedef struct tperf_estimate {
    TPERF_ESTIMATE(TPERF_MEMBER)
} tperf_estimate;

typedef struct tperf_engine {
    const tperf_scheduler *scheduler; // NULL: vLLM's. No row: it is code, which callers name
    TPERF_ENGINE(TPERF_MEMBER)
    tperf_estimate estimate; // SGLang's
    tperf_drafting drafting;
    tperf_pooled pooled;
} tperf_engine;

// --- the cost of a step ---

// The work of a step. A request with c tokens computed before the step and n scheduled in it decodes if it has an
// output and only its newest token (and drafts) is not computed yet; otherwise it prefills.
typedef struct tperf_step_work {
    int32_t decodes, prefills; // requests
    int64_t decode_tokens;     // including drafts
    int64_t prefill_tokens;    // including recomputed tokens of preempted requests
    int64_t decode_context;    // sum over decodes of c + n: keys read
    int64_t decode_window;     // sum over decodes of min(c + n, window); 0 without a window
    int64_t decode_longest;    // the largest c + n of a decode
    int64_t prefill_pairs;     // sum over prefills of n c + n (n + 1) / 2: query-key pairs
} tperf_step_work;

// One prefill's part of a step.
typedef struct tperf_prefill_chunk {
    int32_t tokens, before; // computed in the step; before it
} tperf_prefill_chunk;

#define TPERF_MOST_SHAPES 31
#define TPERF_LONGEST     (1 << 29) // tokens of a prompt, an answer, a window

// The duration of a step, in ticks: any function of the work, such as a line, a table or a priced step.
// chunks[work->prefills]: one per prefill. A step that computes anything takes at least one tick. Called from several
// threads.
typedef struct tperf_step_time {
    int64_t (*ticks)(const void *context, const tperf_step_work *work,
                     const tperf_prefill_chunk *chunks);
    // With pipeline stages: of the busiest stage, after which the next batch may begin; NULL: an even share.
    int64_t (*stage_ticks)(const void *context, const tperf_step_work *work,
                           const tperf_prefill_chunk *chunks);
    const void *context;
    // An engine that has just started: a step takes `compile` ticks longer the first time that its number of tokens is in
    // a piece between two of shapes[n_shapes], or above the last, and the first time that it is there as a multiple of
    // `even`. NULL: all kernels are compiled.
    const double *shapes;
    int32_t n_shapes, even;
    int64_t compile;
    int32_t window; // for decode_window: keys that windowed layers see; 0: no such layers
} tperf_step_time;

// --- a step on a line ---

#define TPERF_LINE(FIELD, member, doc)                                                             \
    FIELD(NUMBER, member, #member, "s", TPERF_REQUIRED, 0, TPERF_ANY, doc)
#define TPERF_STEP_LINE(FIELD)                                                                     \
    TPERF_LINE(FIELD, fixed, "of every step")                                                      \
    TPERF_LINE(FIELD, per_token, "of each of its tokens")                                          \
    TPERF_LINE(FIELD, per_context_token, "of each key that decodes read")                          \
    TPERF_LINE(FIELD, per_prefill_pair, "of each pair of a query and a key in prefills")

// Seconds of a step, linear in its work; and their ticks, for which seconds are first scaled.
typedef struct tperf_step_line {
    TPERF_STEP_LINE(TPERF_MEMBER)
} tperf_step_line;
extern const tperf_record tperf_step_line_record;

tperf_step_line tperf_step_line_in(const tperf_step_line *seconds, double ticks_per_second);
// A callback for tperf_step_time, with a tperf_step_line in ticks as the context.
int64_t tperf_step_line_ticks(const void *line, const tperf_step_work *work,
                              const tperf_prefill_chunk *chunks);

// --- a priced step, in tables ---

// y at ascending x: piecewise linear, extrapolated from the end pieces.
typedef struct tperf_line {
    int32_t n;
    const double *x, *y;
} tperf_line;

typedef struct tperf_step_grid {
    int32_t nx, ny;          // 0: empty
    const double *x, *y, *z; // z[nx][ny]
} tperf_step_grid;

#define TPERF_SECONDS(FIELD, member, name, doc)                                                    \
    FIELD(NUMBER, member, name, "s", TPERF_REQUIRED, 0, TPERF_ANY, doc)
// clang-format off
#define TPERF_WHOLE_CACHES(FIELD)                                                                  \
    TPERF_SECONDS(FIELD, key, "whole_key",                                                         \
                  "of a unit for a key, in all layers; 0: caches are cut evenly")                  \
    TPERF_SECONDS(FIELD, each, "whole_each", "of all units for a key that every query head reads") \
    FIELD(NUMBER, from, "whole_from", NULL, TPERF_REQUIRED, 0, TPERF_ANY,                          \
          "decodes, padded to a graph, from which on caches stay whole without prefills")          \
    FIELD(NUMBER, late, "whole_late", NULL, TPERF_REQUIRED, 0, 1,                                  \
          "part that shows of what the longest cache takes beyond one of mean length")
#define TPERF_STEP_TABLE(FIELD)                                                                    \
    FIELD(FLAG, separate, "separate", NULL, TPERF_REQUIRED, 0, 1,                                  \
          "attention of decodes is a kernel of its own in steps with prefills, too")               \
    FIELD(INT32, stages, "stages", NULL, TPERF_REQUIRED, 1, INT32_MAX,                             \
          "of a pipeline, which share the layers; the last has the rows")                          \
    TPERF_SECONDS(FIELD, send, "send", "between two stages, per batch ...")                        \
    TPERF_SECONDS(FIELD, send_token, "send_token", "... and per token")                            \
    TPERF_SECONDS(FIELD, host_step, "step", "added by the host, per step ...")                     \
    TPERF_SECONDS(FIELD, host_request, "request", "... per request in it ...")                     \
    TPERF_SECONDS(FIELD, host_token, "token", "... and per token")                                 \
    TPERF_SECONDS(FIELD, launch, "launch",                                                         \
                  "for the host to launch all kernels of a step without a graph")                  \
    FIELD(FLAG, eager_prefills, "eager_prefills", NULL, TPERF_REQUIRED, 0, 1,                      \
          "no graph covers a step with prefills; else only steps within the sizes of `graphs`")    \
    FIELD(INT32, window, "window", NULL, TPERF_REQUIRED, 0, TPERF_LONGEST, "tperf_step_time's")    \
    FIELD(INT32, even, "even", NULL, TPERF_REQUIRED, 1, INT32_MAX, "likewise")                     \
    FIELD(INT32, drafts, "drafts", NULL, 0, 0, INT32_MAX,                                          \
          "passes of what drafts, after each step; 0: drafts take no pass")                        \
    FIELD(NUMBER, draft_part, "draft_part", NULL, 0, 0, TPERF_ANY,                                 \
          "part of the layers' time that such a pass takes, beside the head")                      \
    TPERF_SECONDS(FIELD, compile, "compile", "likewise")
// clang-format on

// Decoding by kernels that leave caches whole (FlashAttention 2): a unit reads a cache alone, key by key, so that the
// longest may end last. In a step with prefills or drafts, every query head reads its cache by itself.
typedef struct tperf_whole_caches {
    TPERF_WHOLE_CACHES(TPERF_MEMBER)
} tperf_whole_caches;

// Seconds of an engine's step, priced from its model's workload: work that sees all tokens alike, the sampled rows, and
// attention, which depends on each request's length. docs/serving.md has the rules.
typedef struct tperf_step_table {
    // [n_graphs] numbers of tokens that smaller batches are padded to, ascending.
    const double *graphs;
    int32_t n_graphs;
    tperf_line decode_tokens, prefill_tokens; // seconds by tokens, as if all were of one kind
    tperf_line rows;                          // the final norm and head, by rows
    tperf_line
        encoders; // what reads no prompt but runs when one begins, by such prompts; n = 0: none
    tperf_step_grid decode, decode_window; // attention, by decodes and mean keys
    // By a prefill's tokens and those before: alone; among others.
    tperf_step_grid chunk, chunk_among;
    tperf_whole_caches whole;
    TPERF_STEP_TABLE(TPERF_MEMBER)
    double ticks_per_second;
} tperf_step_table;
extern const tperf_record tperf_step_table_record; // with the fields of `whole`

double tperf_step_table_seconds(const tperf_step_table *table, const tperf_step_work *work,
                                const tperf_prefill_chunk *chunks);
// Callbacks for tperf_step_time, with a tperf_step_table as the context.
int64_t tperf_step_table_ticks(const void *table, const tperf_step_work *work,
                               const tperf_prefill_chunk *chunks);
int64_t tperf_step_table_stage_ticks(const void *table, const tperf_step_work *work,
                                     const tperf_prefill_chunk *chunks);

// --- requests ---

// A piece of a prompt: the tokens 0 … tokens - 1 of a stream. Two tokens are equal if stream and offset are. The answer
// to request i is the stream TPERF_ANSWERS + i, so a later prompt may contain it.
typedef struct tperf_segment {
    int64_t stream;
    int32_t tokens;
} tperf_segment;

#define TPERF_ANSWERS 1000000

typedef struct tperf_requests {
    size_t n;                 // below 2^31
    int64_t *arrival;         // [n] from 0, in any order; written by a closed loop
    int32_t *prompt, *output; // [n] from 1 to TPERF_LONGEST
    int32_t *priority;        // [n]; NULL: all 0
    size_t *first_segment;    // [n + 1] into segments; none: a unique prompt. NULL: all are
    tperf_segment *segments;  // each request's add up to its prompt
} tperf_requests;

// Room for n requests without priorities and segments; release with tperf_requests_release. Requests of the caller's own
// arrays need neither.
tperf_status tperf_requests_init(tperf_requests *requests, const tperf_heap *heap, size_t n,
                                 tperf_error *error);
void tperf_requests_release(tperf_requests *requests);

// Gives groups of requests, in turn, a common prefix of so many tokens before their own prompts.
tperf_status tperf_requests_share(tperf_requests *requests, const tperf_heap *heap, int32_t tokens,
                                  int64_t groups, tperf_error *error);

// --- a run ---

typedef enum tperf_route_policy {
    TPERF_ROUTE_ROUND_ROBIN,  // the k-th arrival to replica k modulo replicas
    TPERF_ROUTE_LEAST_LOADED, // the fewest requests waiting and running; ties: the first
    TPERF_ROUTE_PREFIX,       // the longest cached prefix; ties: the least loaded
} tperf_route_policy;

// Identical engines. Each rank has its own queue and cache; `ranks` of them make a replica, whose steps begin together
// and last as long as the slowest (attention data parallelism: the ranks share their experts).
#define TPERF_SERVE_POOL(FIELD)                                                                    \
    TPERF_COUNT(FIELD, replicas, "replicas", "at least 1")                                         \
    TPERF_COUNT(FIELD, ranks, "ranks", "at least 1; 0 means 1")                                    \
    TPERF_COUNT(FIELD, stages, "stages", "of a pipeline, hence batches in flight; 0 means 1")

typedef struct tperf_serve_pool {
    TPERF_SERVE_POOL(TPERF_MEMBER)
    tperf_engine engine;
    tperf_step_time step_time;
} tperf_serve_pool;
extern const tperf_record tperf_serve_pool_record; // with the fields of its engine

// A pool that prefills for the main one: requests start here and move over, with their KV cache, once they have their
// first token. The transfer takes `ticks`, plus ticks_per_token for each prompt token.
typedef struct tperf_prefill_pool {
    tperf_serve_pool pool;
    double ticks, ticks_per_token;
} tperf_prefill_pool;

typedef struct tperf_serve_options {
    tperf_serve_pool pool;
    const tperf_prefill_pool *prefill; // NULL: the main pool prefills, too
    // Ticks of a request in a front end's event loop, and of each token of its prompt in the tokenizer beside it, before
    // it reaches an engine. The loop handles together what came while it was busy; the tokenizer reads one prompt after
    // another. Each replica has so many front ends (0: one), to which requests go in turn.
    double front_end, front_end_per_token;
    int32_t front_ends;
    tperf_route_policy routing; // requests from the prefill pool always go to the least loaded
    int32_t concurrency;        // closed loop: requests in flight; 0: open loop
    int64_t think;              // ticks from an answer to the next request
    bool keep_requests, keep_steps;
    const tperf_heap *heap; // the caller's; charged for the run and its results
    const atomic_int *stop; // nonzero: stop with TPERF_INTERRUPTED; may be NULL
} tperf_serve_options;

typedef struct tperf_request_detail {
    int64_t first_scheduled; // tick
    int64_t longest_gap;     // ticks between two steps that produced tokens
    int32_t preemptions;
    int32_t cached_tokens; // found in the prefix cache at first admission
    int32_t steps;         // that computed its tokens
} tperf_request_detail;

typedef struct tperf_step_record {
    int64_t start, duration;
    tperf_step_work work;
    int32_t replica, running, waiting; // lengths of the lists while the step runs
    int32_t preempted, free_blocks;    // free_blocks is -1 without a limit
} tperf_step_record;

// A sum of ticks: high * 2^64 + low. The clock of a run has 64 bits; many ranks are busy for longer together.
typedef struct tperf_tick_sum {
    uint64_t low, high;
} tperf_tick_sum;

double tperf_tick_sum_value(tperf_tick_sum sum);

typedef struct tperf_serve_totals {
    int64_t finished, rejected, steps, preemptions;
    int64_t prompt_tokens, output_tokens, cached_tokens; // of finished requests
    int64_t scheduled_tokens;
    tperf_tick_sum busy;         // in steps, summed over ranks (and batches in flight)
    tperf_tick_sum prefill_busy; // the same for the prefill pool
    int64_t first_arrival, end;  // of accepted requests: the last answer ends the run; 0, 0: none
    // Sum of the requests' times in the system, modulo 2^64. By Little's law this is the time integral of their number,
    // which the run checks.
    uint64_t residence;
} tperf_serve_totals;

// Empty if zeroed; may then be released.
typedef struct tperf_served {
    const tperf_heap *heap; // the heap of the run's options
    size_t n;
    int64_t *first_token, *last_token; // [n] ends of steps; -1: rejected
    int32_t *tokens;                   // [n] of the answer; 0: rejected
    tperf_request_detail *details;     // [n] or NULL
    tperf_step_record *steps;          // [n_steps], by start
    size_t n_steps;
    tperf_serve_totals totals;
} tperf_served;

// Runs the requests to the end, in at most a hundred bytes per request if neither requests nor steps are kept. Replicas
// that share no router state run on the pool's threads (NULL: the caller's); answers do not depend on them. Rejects a
// prompt of max_model_len or more, as vLLM does, and a request that would not fit into an empty cache. Checks at the
// end that no request and no block is lost. TPERF_INVALID also if requests preempt each other forever. On failure there
// is nothing to release.
tperf_status tperf_serve_run(const tperf_serve_options *options, tperf_requests *requests,
                             tperf_pool *pool, tperf_served *served, tperf_error *error);
void tperf_served_release(tperf_served *served);

// --- results ---

typedef struct tperf_latencies {
    // Quantiles interpolate linearly, as numpy's; NaN without values.
    double mean, p50, p90, p99;
} tperf_latencies;

typedef struct tperf_quantiles {
    double mean, p50, p90, p99;
    // Half of each one's 95 % interval, from sections of the run; NaN if the run is too short.
    tperf_latencies margin;
} tperf_quantiles;

typedef struct tperf_objective {
    double ttft, tpot, e2e; // ticks; infinite: no limit
} tperf_objective;

// What a run has of a steady state. Ramp-up lasts from the first arrival until engines that answer at once would be as
// full as ever, to 2 %: until t with E[min(R, t)] = 0.98 E[R], R being a request's time in an engine without the queue
// (its decoding, and the prefill of a prompt that does not wait): the mean number in service of M/G/infinity. Drain begins
// when no request waits for its first token any more. The middle lies between them.
typedef struct tperf_steadiness {
    double span;               // ticks from the first arrival to the last
    double residence, ramp_up; // ticks: the mean of R; of ramp-up
    double middle, drain;      // ticks; middle not positive: there is none
    double completed,
        tokens; // answers and their tokens in the middle, each answer evenly over its decoding
    // Ticks between the end of ramp-up and the last arrival but for as long as ramp-up: requests that come then find the
    // engines as full as ever, and leave them so. Not positive: there are none.
    double undisturbed;
} tperf_steadiness;

// The latencies of some of the requests.
typedef struct tperf_serve_figures {
    tperf_quantiles ttft, tpot,
        e2e; // ticks; tpot: (last - first token) / (tokens - 1) where tokens > 1
    int64_t finished, rejected;
    int64_t good; // finished within all limits
} tperf_serve_figures;

typedef struct tperf_serve_summary {
    tperf_quantiles ttft, tpot, e2e; // of all requests
    int64_t good;                    // of all requests
    tperf_serve_figures middle;      // of those that come while the run is undisturbed
    bool saturated;              // arrivals outran the engines: waits grew with the run's length
    tperf_steadiness steadiness; // all 0 without requests
} tperf_serve_summary;

tperf_status tperf_serve_summarize(const tperf_requests *requests, const tperf_served *served,
                                   const tperf_objective *objective, tperf_serve_summary *summary,
                                   tperf_error *error);

// --- load ---

typedef enum tperf_length_kind {
    TPERF_LENGTH_FIXED,       // a
    TPERF_LENGTH_UNIFORM,     // whole numbers from a to b
    TPERF_LENGTH_LOGNORMAL,   // median a; sigma b of the logarithm
    TPERF_LENGTH_EXPONENTIAL, // mean a; geometric once rounded
    TPERF_LENGTH_VALUES,      // one of `values`, equally likely
} tperf_length_kind;

typedef struct tperf_lengths {
    tperf_length_kind kind;
    double a, b;
    const int32_t *values;
    size_t n_values;
    int32_t least, most; // draws are rounded and clamped to these
} tperf_lengths;

typedef enum tperf_arrival_process {
    TPERF_ARRIVE_POISSON,
    TPERF_ARRIVE_GAMMA, // gaps with coefficient of variation cv
    TPERF_ARRIVE_UNIFORM,
} tperf_arrival_process;

typedef struct tperf_arrivals {
    tperf_arrival_process process;
    double cv;     // for gamma; above 0
    int32_t burst; // requests that arrive together, at least 1; the rate is unchanged
} tperf_arrivals;

// Random numbers depend only on the seed, their purpose and the request.
void tperf_draw_lengths(const tperf_lengths *lengths, uint64_t seed, uint64_t purpose, size_t n,
                        int32_t *out);

// Requests in a row: from tick `start` on, with a mean gap of `gap` ticks. fill: their n gaps span exactly n x gap.
typedef struct tperf_arrival_stage {
    size_t first, n; // number of the first request, how many
    int64_t start;
    double gap;
    bool fill;
} tperf_arrival_stage;

// Draws their arrivals. False if the clock would overflow.
bool tperf_draw_arrivals(const tperf_arrivals *arrivals, const tperf_arrival_stage *stage,
                         uint64_t seed, int64_t *out);

enum { TPERF_DRAW_PROMPT = 1, TPERF_DRAW_OUTPUT, TPERF_DRAW_ARRIVAL, TPERF_DRAW_ACCEPT };

#endif
