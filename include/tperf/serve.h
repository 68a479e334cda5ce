// serve.h: requests through serving engines, as a discrete-event simulation.
// Time is a whole number of ticks (64 bits): a nanosecond each, unless the caller counts otherwise. Lengths
// are tokens. Requests and replicas are numbered from 0. docs/serving.md tells the rules.
#ifndef TPERF_SERVE_H
#define TPERF_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"
#include "tperf/heap.h"
#include "tperf/pool.h"

// --- the engine ---

typedef enum tperf_queue_policy {
    TPERF_QUEUE_FCFS,
    TPERF_QUEUE_PRIORITY, // the smaller number first, then the earlier arrival
} tperf_queue_policy;

// Which engine's rules form a batch; docs/serving.md has them.
typedef enum tperf_scheduler {
    TPERF_SCHEDULER_VLLM, // V1: no phases, a budget of tokens
    TPERF_SCHEDULER_SGLANG, // steps of prefills alone, which come first, or of decodes; room is estimated
    TPERF_SCHEDULER_TENSORRT_LLM, // in-flight batching that never evicts: room for the whole answer is reserved
} tperf_scheduler;

typedef enum tperf_draft_method {
    TPERF_DRAFT_NONE,
    TPERF_DRAFT_NGRAM,
    TPERF_DRAFT_MODEL, // looks `tokens` slots ahead in the cache
    TPERF_DRAFT_EAGLE, // so does it, and it recomputes the last block of a cached prefix
} tperf_draft_method;

// Speculative decoding. Of the drafts of a request's v-th verification (from 0), accepted[(request + v) %
// n_accepted] are right; without that pattern each is, one after the other, with probability `acceptance`,
// until one is wrong.
typedef struct tperf_drafting {
    tperf_draft_method method;
    int32_t tokens; // drafts after each step that gave a token
    const int32_t *accepted;
    size_t n_accepted;
    double acceptance;
    uint64_t seed;
} tperf_drafting;

// The settings of vLLM's V1 scheduler, under its names. SGLang calls max_num_batched_tokens chunked_prefill_size and
// max_num_seqs max_running_requests; TensorRT-LLM has max_num_tokens and max_batch_size.
typedef struct tperf_engine {
    tperf_scheduler scheduler;
    int32_t max_num_seqs;                 // requests that run at a time, at least 1
    int32_t max_num_batched_tokens;       // the budget of a step, at least 1
    int32_t max_model_len;                // prompt and output together, at least 2
    int32_t block_size;                   // tokens of a block of the KV cache, at least 1
    int32_t num_blocks;                   // vLLM's num_gpu_blocks: usable is one less; 0: no limit
    int32_t long_prefill_token_threshold; // most tokens of a request in a step; 0: off
    bool prefix_caching;                  // needs num_blocks
    bool chunked_prefill;      // else max_num_batched_tokens should be at least max_model_len
    bool async_scheduling;     // a step's batch is formed when the step before it begins
    int32_t receive_interval;  // steps between two looks for new requests while some run; 0 is 1
    int32_t batch_wait_steps;  // TensorRT-LLM: for so many, prompts wait beside decodes ...
    int32_t batch_wait_tokens; // ... until a step would have as many tokens; 0: at once
    tperf_queue_policy policy;
    tperf_drafting drafting;
} tperf_engine;

// --- what a step costs ---

// What a step computes. For a request with c tokens computed before the step and n scheduled in it: it
// decodes when it has an output and only its newest token (and drafts) is not computed yet; else it prefills.
typedef struct tperf_step_work {
    int32_t decodes, prefills; // requests
    int64_t decode_tokens;     // drafts included
    int64_t prefill_tokens;    // tokens that a preempted request computes again included
    int64_t decode_context;    // sum over decodes of c + n: keys that are read
    int64_t decode_window;     // the same of min(c + n, window); 0 without a window
    int64_t prefill_pairs; // sum over prefills of n c + n (n + 1) / 2: pairs of a query and a key
} tperf_step_work;

// What a step computes of one prefill.
typedef struct tperf_chunk {
    int32_t tokens, before; // in the step; computed before it
} tperf_chunk;

// The ticks of a step. Anything that maps work to ticks may stand here: a line, a table, a priced step.
// chunks[work->prefills]: of each prefill. A step that computes something takes one tick at least. Called from
// several threads.
typedef struct tperf_step_time {
    int64_t (*ticks)(const void *context, const tperf_step_work *work, const tperf_chunk *chunks);
    // With pipeline stages: of the busiest one, after which the next batch may begin; NULL: an even part.
    int64_t (*stage_ticks)(const void *context, const tperf_step_work *work,
                           const tperf_chunk *chunks);
    const void *context;
    int32_t window; // of layers that see so many keys at most, for decode_window; 0: there are none
} tperf_step_time;

// --- a priced step, in tables ---

// y at ascending x: straight between, and beyond the ends as in the piece next to it.
typedef struct tperf_line {
    int32_t n;
    const double *x, *y;
} tperf_line;

typedef struct tperf_step_grid {
    int32_t nx, ny;          // 0: there is none
    const double *x, *y, *z; // z[nx][ny]
} tperf_step_grid;

// Seconds of a step of one engine, as prices of its model's workload: of what sees all tokens alike, of the rows that
// are sampled, and of attention, which sees each request's own length. docs/serving.md has the rules.
typedef struct tperf_step_table {
    const double
        *graphs; // [n_graphs] numbers of tokens that a smaller batch is padded to, ascending
    int32_t n_graphs;
    tperf_line decode_tokens, prefill_tokens; // seconds by tokens, were all of one sort
    tperf_line rows;                          // of the final norm, the head, by rows
    tperf_step_grid decode, decode_window;    // of attention, by decodes and mean keys
    tperf_step_grid chunk,
        chunk_among;         // by a prefill's tokens and those before: alone; beside others
    bool separate;           // attention of decodes is a kernel of its own, also beside prefills
    int32_t stages;          // of a pipeline, which share the layers; the last one has the rows
    double send, send_token; // seconds between two stages: of a batch, and for each token
    double host_step, host_request, host_token; // seconds that the host adds
    double launch; // seconds in which the host launches all kernels of a step that no graph holds
    bool
        eager_prefills; // no graph holds a step with prefills; else those of more tokens than graphs
    double ticks_per_second;
} tperf_step_table;

double tperf_step_table_seconds(const tperf_step_table *table, const tperf_step_work *work,
                                const tperf_chunk *chunks);
// For tperf_step_time, with a tperf_step_table as the context.
int64_t tperf_step_table_ticks(const void *table, const tperf_step_work *work,
                               const tperf_chunk *chunks);
int64_t tperf_step_table_stage_ticks(const void *table, const tperf_step_work *work,
                                     const tperf_chunk *chunks);

// --- requests ---

// A piece of a prompt: the tokens 0 … tokens - 1 of a stream. Two tokens are equal where stream and offset are.
// The answer to request i is the stream TPERF_ANSWERS + i, so that a later prompt may contain it.
typedef struct tperf_segment {
    int64_t stream;
    int32_t tokens;
} tperf_segment;

#define TPERF_ANSWERS 1000000
#define TPERF_LONGEST (1 << 29)

typedef struct tperf_requests {
    size_t n;                 // below 2^31
    int64_t *arrival;         // [n] from 0, in any order; a closed loop writes them
    int32_t *prompt, *output; // [n] from 1 to TPERF_LONGEST
    int32_t *priority;        // [n]; NULL: all 0
    size_t *first_segment;    // [n + 1] into segments; none: a prompt of its own. NULL: all are
    tperf_segment *segments;  // those of a request add up to its prompt
} tperf_requests;

// --- a run ---

typedef enum tperf_routing {
    TPERF_ROUTE_ROUND_ROBIN,  // the k-th arrival to replica k modulo replicas
    TPERF_ROUTE_LEAST_LOADED, // the fewest requests waiting and running; the first of several
    TPERF_ROUTE_PREFIX,       // the longest cached prefix; of several, the least loaded
} tperf_routing;

// Engines of one sort. A rank has its own queue and cache; `ranks` of them make a replica, whose steps begin together
// and last as long as the slowest (attention data parallelism: the ranks share their experts).
typedef struct tperf_serve_pool {
    tperf_engine engine;
    tperf_step_time step_time;
    int32_t replicas, ranks; // at least 1; 0 ranks are 1
    int32_t stages;          // of a pipeline, so many batches under way; 0 is 1
} tperf_serve_pool;

// What prefills for the other pool: requests come here first, and go over with their keys and values when they have
// their first token. The transfer takes `ticks`, and ticks_per_token for each token of the prompt.
typedef struct tperf_prefill_pool {
    tperf_serve_pool pool;
    double ticks, ticks_per_token;
} tperf_prefill_pool;

typedef struct tperf_serve_options {
    tperf_serve_pool pool;
    const tperf_prefill_pool *prefill; // NULL: the pool prefills, too
    double
        front_end_per_token; // ticks before a request reaches an engine, for each token of its prompt
    tperf_routing routing;   // a request that comes from the prefill pool goes to the least loaded
    int32_t concurrency;     // closed loop: requests in flight; 0: open loop
    int64_t think;           // ticks from an answer to the next request
    bool keep_requests, keep_steps;
    const tperf_heap *heap; // the caller's: pays for the run and what it keeps
    const atomic_int *stop; // nonzero: give up with TPERF_INTERRUPTED; may be NULL
} tperf_serve_options;

typedef struct tperf_request_detail {
    int64_t first_scheduled, longest_gap; // ticks; the gap between two steps that gave tokens
    int32_t preemptions, cached_tokens;   // found in the prefix cache when first admitted
    int32_t steps;                        // that computed tokens of it
} tperf_request_detail;

typedef struct tperf_step_record {
    int64_t start, duration;
    tperf_step_work work;
    int32_t replica, running, waiting; // as long as the lists are while the step runs
    int32_t preempted, free_blocks;    // -1 where blocks have no limit
} tperf_step_record;

typedef struct tperf_serve_totals {
    int64_t finished, rejected, steps, preemptions;
    int64_t prompt_tokens, output_tokens, cached_tokens; // of finished requests
    int64_t scheduled_tokens,
        busy;             // busy: ticks in steps, summed over ranks (and batches under way)
    int64_t prefill_busy; // that of the prefill pool
    int64_t first_arrival,
        end; // of the accepted requests: first arrival and last answer; 0, 0: none
    uint64_t
        residence; // sum of their times in the system, modulo 2^64: by Little's law, the time integral
                   // of their number, which the run checks
} tperf_serve_totals;

// A zeroed one is empty and may be released.
typedef struct tperf_served {
    const tperf_heap *heap; // that of the run's options
    size_t n;
    int64_t *first_token, *last_token; // [n] ends of steps; -1: rejected
    int32_t *tokens;                   // [n] of the answer; 0: rejected
    tperf_request_detail *details;     // [n] or NULL
    tperf_step_record *steps;          // [n_steps], by start
    size_t n_steps;
    tperf_serve_totals totals;
} tperf_served;

// Runs the requests to the end, in memory of a hundred bytes a request at most where neither requests nor
// steps are kept. Replicas that do not share a router's state run on the pool's threads (NULL: the
// caller's); answers do not depend on them. Rejects a prompt of max_model_len or more, as vLLM does, and
// what would not fit into an empty cache. Checks at the end that no request and no block is lost.
// TPERF_INVALID also when requests preempt one another for ever. On failure nothing is left to release.
tperf_status tperf_serve_run(const tperf_serve_options *options, tperf_requests *requests,
                             tperf_pool *pool, tperf_served *served, tperf_error *error);
void tperf_served_release(tperf_served *served);

// --- what comes of it ---

typedef struct tperf_latencies {
    double mean, p50, p90,
        p99; // quantiles linear between two values, as numpy's; NaN when there are none
} tperf_latencies;

typedef struct tperf_quantiles {
    double mean, p50, p90, p99;
    tperf_latencies
        margin; // half of each one's 95 % interval, by sections of the run; NaN where it is too short
} tperf_quantiles;

typedef struct tperf_objective {
    double ttft, tpot, e2e; // ticks; infinite: no limit
} tperf_objective;

typedef struct tperf_serve_summary {
    tperf_quantiles ttft, tpot,
        e2e;        // ticks; tpot: (last - first token) / (tokens - 1) where tokens > 1
    int64_t good;   // requests that kept all limits
    bool saturated; // arrivals outran the engines, so that waits grew with the run's length
} tperf_serve_summary;

tperf_status tperf_serve_summarize(const tperf_requests *requests, const tperf_served *served,
                                   const tperf_objective *objective, tperf_serve_summary *summary,
                                   tperf_error *error);

// --- load ---

typedef enum tperf_length_kind {
    TPERF_LENGTH_FIXED,       // a
    TPERF_LENGTH_UNIFORM,     // whole numbers from a to b
    TPERF_LENGTH_LOGNORMAL,   // median a, sigma b of the logarithm
    TPERF_LENGTH_EXPONENTIAL, // mean a; as whole numbers it is geometric
    TPERF_LENGTH_VALUES,      // each of `values` as likely
} tperf_length_kind;

typedef struct tperf_lengths {
    tperf_length_kind kind;
    double a, b;
    const int32_t *values;
    size_t n_values;
    int32_t least, most; // what is drawn is rounded and kept within
} tperf_lengths;

typedef enum tperf_arrival_process {
    TPERF_ARRIVE_POISSON,
    TPERF_ARRIVE_GAMMA, // gaps of that coefficient of variation
    TPERF_ARRIVE_UNIFORM,
} tperf_arrival_process;

typedef struct tperf_arrivals {
    tperf_arrival_process process;
    double cv;     // of gamma: above 0
    int32_t burst; // requests that come at once, at least 1; the rate stays
} tperf_arrivals;

// Random numbers depend on the seed, on what they are for and on the request, on nothing else.
void tperf_draw_lengths(const tperf_lengths *lengths, uint64_t seed, uint64_t purpose, size_t n,
                        int32_t *out);

// Arrivals of the n requests from number `first` on, after tick `start`, with a mean gap of `gap` ticks;
// where `fill` is set they are stretched so that n gaps fill n x gap exactly. False when the clock would
// overflow.
bool tperf_draw_arrivals(const tperf_arrivals *arrivals, uint64_t seed, int64_t start, double gap,
                         bool fill, size_t first, size_t n, int64_t *out);

enum { TPERF_DRAW_PROMPT = 1, TPERF_DRAW_OUTPUT, TPERF_DRAW_ARRIVAL, TPERF_DRAW_ACCEPT };

#endif
