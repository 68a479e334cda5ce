// replica.h: one engine: its queue, what it runs, its blocks; and the policy that forms its next batch.
#ifndef TPERF_SERVE_REPLICA_H
#define TPERF_SERVE_REPLICA_H

#include "serve/blocks.h"
#include "serve/policy/waiting.h"

// A request that has run: running, or waiting again after a preemption.
typedef struct tperf_sequence {
    int32_t request;
    int32_t known;     // tokens of the prompt and of the answer so far
    int32_t computed;  // of them, in the KV cache (or scheduled)
    int32_t drafts;    // to be verified next
    int32_t scheduled; // tokens in the step under way, drafts included; 0: not in it
    int32_t verifying; // of them drafts
    int32_t prompt;
    int32_t full; // known tokens with which it ends
    tperf_holding holding;
    int32_t registered; // blocks whose content is known to the prefix cache
    int32_t cacheable;  // tokens whose full blocks are, or would be if anybody could ask for them
    bool shared;        // others may have the same tokens: the request has segments
    int32_t verifications;
    int32_t flying;                  // batches under way that it is in
    int64_t first_token, last_token; // -1: none yet
    tperf_request_detail detail;     // first_scheduled -1: not yet
} tperf_sequence;

typedef struct tperf_replica {
    const tperf_heap *heap;
    const tperf_engine *engine;
    const tperf_requests *requests;
    bool prefills;   // for others: a request ends with its first token
    bool continues;  // with requests that come computed, with their first token
    double optimism; // SGLang: the part of running answers' rest for which room is kept
    tperf_blocks blocks;
    tperf_waiting waiting;
    int32_t *running; // [n_running of capacity] sequences in order
    int32_t n_running, running_capacity;
    tperf_chunk *chunks;       // [running_capacity] of the prefills of the step under way
    tperf_sequence *sequences; // [capacity]; those without a request are chained through `request`
    int32_t n_sequences, sequences_capacity;
    int32_t spare;  // the first of them; -1: none
    int64_t formed; // ticks: who arrived later is not in the next batch, unless it were empty
    int32_t since;  // steps since then
    int32_t held;   // steps for which prompts have waited for others, see batch_wait_steps
} tperf_replica;

#define TPERF_OPTIMISM       0.7  // at the start
#define TPERF_OPTIMISM_LEAST 0.14 // the part of that which is left after TPERF_OPTIMISM_STEPS steps
#define TPERF_OPTIMISM_STEPS 600

void tperf_replica_reset(tperf_replica *replica, const tperf_engine *engine,
                         const tperf_requests *requests, const tperf_heap *heap);
void tperf_replica_release(tperf_replica *replica);

// Whether the request's tokens are told, so that others may have the same.
bool tperf_has_segments(const tperf_requests *requests, int32_t request);

// The content of a request. It may point into *content itself, which must stay where it is.
void tperf_content_of(const tperf_requests *requests, int32_t request, tperf_content *content);

// Makes a sequence of a request that never ran.
tperf_status tperf_replica_new_sequence(tperf_replica *replica, int32_t request, int32_t *sequence,
                                        tperf_error *error);

// Gives the blocks of a sequence back and forgets it; it is not running any more.
void tperf_replica_end_sequence(tperf_replica *replica, int32_t sequence);

// At the beginning of a step: who has come by now is known to a later batch, the next one or that after a few steps.
void tperf_replica_receive(tperf_replica *replica, int64_t now);

// So many steps of decodes alone, in which nobody was preempted, have been scheduled.
void tperf_replica_decoded(tperf_replica *replica, int64_t steps);

// The batch of the next step by the rules of the engine's scheduler: vLLM's V1 as of commit d0cd736caada (main, 9 March
// 2026), SGLang's, TensorRT-LLM's. Sets `scheduled` and `verifying` of the running sequences, whose order is the
// batch's, and counts those that it preempted. Schedules no event and reads no time; vLLM's reads no length of an
// answer. With async_scheduling it knows those only who had arrived by replica->formed, unless nobody runs.
tperf_status tperf_schedule(tperf_replica *replica, int32_t *preempted, tperf_error *error);

#endif
