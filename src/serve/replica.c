// replica.c: see replica.h.
#include "serve/replica.h"

void tp_replica_reset(tp_replica *replica, const tp_engine *engine, const tp_requests *requests,
                      const tp_heap *heap) {
    replica->heap = heap;
    replica->engine = engine;
    replica->requests = requests;
    tp_blocks_reset(&replica->blocks, engine, heap);
    tp_waiting_reset(&replica->waiting, engine->policy == TP_QUEUE_PRIORITY, heap);
    replica->n_running = 0;
    replica->optimism = TP_OPTIMISM;
    replica->spare = -1;
    replica->formed = INT64_MAX;
    replica->since = 0;
    for (int32_t i = replica->n_sequences; i-- > 0;) {
        replica->sequences[i].request = replica->spare;
        replica->sequences[i].holding.count = 0;
        replica->spare = i;
    }
}

void tp_replica_release(tp_replica *replica) {
    for (int32_t i = 0; i < replica->n_sequences; i++)
        tp_heap_free(replica->sequences[i].holding.ids);
    tp_heap_free(replica->sequences);
    tp_heap_free(replica->running);
    tp_heap_free(replica->chunks);
    tp_waiting_release(&replica->waiting);
    tp_blocks_release(&replica->blocks);
    *replica = (tp_replica){0};
}

bool tp_has_segments(const tp_requests *requests, int32_t request) {
    const size_t *first = requests->first_segment;
    return first && first[request] < first[request + 1];
}

// Streams below 0 belong to nobody else.
void tp_content_of(const tp_requests *requests, int32_t request, tp_content *content) {
    content->answer = (int64_t)TP_ANSWERS + request;
    content->whole = (tp_segment){-1 - (int64_t)request, requests->prompt[request]};
    content->segments = &content->whole;
    content->n_segments = 1;
    if (!tp_has_segments(requests, request)) return;
    const size_t *first = &requests->first_segment[request];
    content->segments = &requests->segments[first[0]];
    content->n_segments = first[1] - first[0];
}

static tp_status grow_sequences(tp_replica *replica, tp_error *error) {
    int32_t capacity = 2 * replica->sequences_capacity + 16;
    tp_sequence *sequences =
        tp_heap_grow(replica->heap, replica->sequences, (size_t)capacity, sizeof *sequences);
    if (!sequences)
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for running requests");
    replica->sequences = sequences;
    replica->sequences_capacity = capacity;
    return TP_OK;
}

tp_status tp_replica_new_sequence(tp_replica *replica, int32_t request, int32_t *sequence,
                                  tp_error *error) {
    const tp_requests *requests = replica->requests;
    tp_holding holding = {0};
    if (replica->spare >= 0) {
        *sequence = replica->spare;
        holding = replica->sequences[*sequence].holding;
        replica->spare = replica->sequences[*sequence].request;
    } else {
        if (replica->n_sequences == replica->sequences_capacity)
            TP_TRY(grow_sequences(replica, error));
        *sequence = replica->n_sequences++;
    }
    int32_t prompt = requests->prompt[request];
    int32_t output = replica->prefills ? 1 : requests->output[request];
    int32_t longest = replica->engine->max_model_len, first = replica->continues ? 1 : 0;
    replica->sequences[*sequence] = (tp_sequence){
        .request = request,
        .known = prompt + first,
        .prompt = prompt,
        .full = output > longest - prompt ? longest : prompt + output,
        .holding = holding,
        .shared = tp_has_segments(requests, request),
        .first_token = -1,
        .last_token = -1,
        .detail.first_scheduled = -1,
    };
    return TP_OK;
}

void tp_replica_end_sequence(tp_replica *replica, int32_t sequence) {
    tp_sequence *s = &replica->sequences[sequence];
    tp_blocks_give_back(&replica->blocks, &s->holding);
    s->request = replica->spare;
    replica->spare = sequence;
}

void tp_replica_receive(tp_replica *replica, int64_t now) {
    const tp_engine *engine = replica->engine;
    if (!engine->async_scheduling && engine->receive_interval <= 1) return;
    bool first = replica->formed == INT64_MAX;
    if (!first && ++replica->since < engine->receive_interval) return;
    replica->since = 0;
    replica->formed = now;
}

void tp_replica_decoded(tp_replica *replica, int64_t steps) {
    double least = TP_OPTIMISM * TP_OPTIMISM_LEAST;
    for (int64_t i = 0; i < steps && replica->optimism > least; i++)
        replica->optimism -= (TP_OPTIMISM - least) / TP_OPTIMISM_STEPS;
    if (replica->optimism < least) replica->optimism = least;
}
