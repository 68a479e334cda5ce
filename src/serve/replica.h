// replica.h: one engine: its queue, running requests and blocks, and the policy that forms its next batch.
#ifndef TPERF_SERVE_REPLICA_H
#define TPERF_SERVE_REPLICA_H

#include "serve/blocks.h"
#include "serve/waiting.h"

// A request that has been scheduled: running, or waiting again after a preemption.
typedef struct tperf_sequence {
    int32_t request;
    int32_t known;     // tokens of the prompt and the answer so far
    int32_t computed;  // the part of them in the KV cache (or scheduled)
    int32_t drafts;    // to be verified next
    int32_t scheduled; // tokens in the current step, drafts included; 0: none
    int32_t verifying; // the drafts among them
    int32_t prompt;
    int32_t full;          // known tokens at which it ends
    tperf_holding holding; // the blocks of its tokens
    tperf_holding beside;  // and those of groups beside the first
    int32_t apart;         // of those, in the windowed groups' own pool
    int32_t registered;    // blocks in the prefix cache
    int32_t
        cacheable; // tokens whose full blocks are cached, or would be if any request could ask for them
    bool shared; // others may have the same tokens: the request has segments
    int32_t verifications;
    int32_t flying;                  // batches in flight that contain it
    int64_t first_token, last_token; // -1: none yet
    tperf_request_detail detail;     // first_scheduled -1: not yet
} tperf_sequence;

typedef struct tperf_replica {
    const tperf_heap *heap;
    const tperf_engine *engine;
    const tperf_requests *requests;
    bool prefills;   // belongs to the prefill pool: a request ends with its first token
    bool continues;  // its requests come from a prefill pool, with their first token
    double optimism; // SGLang: fraction of running answers' remaining tokens to keep room for
    tperf_blocks blocks;
    tperf_waiting waiting;
    int32_t *running; // [n_running of capacity] sequences in order
    int32_t n_running, running_capacity;
    tperf_prefill_chunk *chunks; // [running_capacity] the prefills of the current step
    tperf_sequence *sequences;   // [capacity]; free ones are chained through `request`
    int32_t n_sequences, sequences_capacity;
    int32_t spare;  // the first free one; -1: none
    int64_t formed; // ticks: later arrivals are not in the next batch, unless it would be empty
    int32_t since;  // steps since then
    int32_t held;   // steps that prompts have waited, see batch_wait_steps
} tperf_replica;

void tperf_replica_reset(tperf_replica *replica, const tperf_engine *engine,
                         const tperf_requests *requests, const tperf_heap *heap);
void tperf_replica_release(tperf_replica *replica);

// Whether the request's tokens are given by segments, so that others may have the same.
bool tperf_has_segments(const tperf_requests *requests, int32_t request);

// The content of a request. It may point into *content itself, which must stay where it is.
void tperf_content_of(const tperf_requests *requests, int32_t request, tperf_content *content);

// Creates the sequence of a request that has never run.
tperf_status tperf_replica_new_sequence(tperf_replica *replica, int32_t request, int32_t *sequence,
                                        tperf_error *error);

// The blocks that a sequence lacks to have `own` for its tokens, with those of groups beside the first.
tperf_need tperf_sequence_lacks(const tperf_replica *replica, const tperf_sequence *s, int64_t own);

// Takes them; the caller has checked that they are free.
tperf_status tperf_sequence_hold(tperf_replica *replica, tperf_sequence *s, int64_t own,
                                 tperf_error *error);

// Returns the blocks that no layer sees any more once its first `tokens` tokens are computed.
void tperf_sequence_slide(tperf_replica *replica, tperf_sequence *s, int64_t tokens);

// Returns all its blocks.
void tperf_sequence_give_back(tperf_replica *replica, tperf_sequence *s);

// Frees a sequence and its blocks; it must not be running.
void tperf_replica_end_sequence(tperf_replica *replica, int32_t sequence);

// At the start of a step: admits arrivals so far to a later batch, the next one or one after receive_interval steps.
void tperf_replica_receive(tperf_replica *replica, int64_t now);

// Records `steps` scheduled steps of decodes only, without preemptions.
void tperf_replica_decoded(tperf_replica *replica, int64_t steps);

// The engine's scheduler.
const tperf_scheduler *tperf_scheduler_of(const tperf_engine *engine);

// Forms the next step's batch by the rules of the engine's scheduler: vLLM's V1 as of commit d0cd736caada (main, 9
// March 2026), SGLang's, TensorRT-LLM's. Sets `scheduled` and `verifying` of the running sequences, which are in the
// batch's order, and counts preemptions. Schedules no event and reads no time; vLLM's does not read answer lengths.
// With async_scheduling it sees only requests that arrived by replica->formed, unless none runs.
tperf_status tperf_schedule(tperf_replica *replica, int32_t *preempted, tperf_error *error);

#endif
