// replica.c: see replica.h.
#include "serve/replica.h"

void tperf_replica_reset(tperf_replica *replica, const tperf_engine *engine,
                         const tperf_requests *requests, const tperf_heap *heap) {
    replica->heap = heap;
    replica->engine = engine;
    replica->requests = requests;
    bool shares = requests->first_segment != NULL;
    tperf_blocks_reset(&replica->blocks, engine, engine->prefix_caching && shares, heap);
    tperf_waiting_reset(&replica->waiting, engine->policy == TPERF_QUEUE_PRIORITY, heap);
    replica->n_running = 0;
    replica->optimism = engine->estimate.first;
    replica->spare = -1;
    replica->formed = INT64_MAX;
    replica->since = 0;
    for (int32_t i = replica->n_sequences; i-- > 0;) {
        replica->sequences[i].request = replica->spare;
        tperf_sequence *s = &replica->sequences[i];
        s->holding.count = s->holding.gone = s->beside.count = s->beside.gone = s->apart = 0;
        replica->spare = i;
    }
}

void tperf_replica_release(tperf_replica *replica) {
    for (int32_t i = 0; i < replica->n_sequences; i++) {
        tperf_heap_free(replica->sequences[i].holding.ids);
        tperf_heap_free(replica->sequences[i].beside.ids);
    }
    tperf_heap_free(replica->sequences);
    tperf_heap_free(replica->running);
    tperf_heap_free(replica->chunks);
    tperf_waiting_release(&replica->waiting);
    tperf_blocks_release(&replica->blocks);
    *replica = (tperf_replica){0};
}

bool tperf_has_segments(const tperf_requests *requests, int32_t request) {
    const size_t *first = requests->first_segment;
    return first && first[request] < first[request + 1];
}

// Negative streams are private to a request.
void tperf_content_of(const tperf_requests *requests, int32_t request, tperf_content *content) {
    content->answer = (int64_t)TPERF_ANSWERS + request;
    content->whole = (tperf_segment){-1 - (int64_t)request, requests->prompt[request]};
    content->segments = &content->whole;
    content->n_segments = 1;
    if (!tperf_has_segments(requests, request)) return;
    const size_t *first = &requests->first_segment[request];
    content->segments = &requests->segments[first[0]];
    content->n_segments = first[1] - first[0];
}

static tperf_status grow_sequences(tperf_replica *replica, tperf_error *error) {
    int32_t capacity = 2 * replica->sequences_capacity + 16;
    tperf_sequence *sequences =
        tperf_heap_grow(replica->heap, replica->sequences, (size_t)capacity, sizeof *sequences);
    if (!sequences)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for running requests");
    replica->sequences = sequences;
    replica->sequences_capacity = capacity;
    return TPERF_OK;
}

tperf_status tperf_replica_new_sequence(tperf_replica *replica, int32_t request, int32_t *sequence,
                                        tperf_error *error) {
    const tperf_requests *requests = replica->requests;
    tperf_holding holding = {0}, beside = {0};
    if (replica->spare >= 0) {
        *sequence = replica->spare;
        holding = replica->sequences[*sequence].holding;
        beside = replica->sequences[*sequence].beside;
        replica->spare = replica->sequences[*sequence].request;
    } else {
        if (replica->n_sequences == replica->sequences_capacity)
            TPERF_TRY(grow_sequences(replica, error));
        *sequence = replica->n_sequences++;
    }
    int32_t prompt = requests->prompt[request];
    int32_t output = replica->prefills ? 1 : requests->output[request];
    int32_t longest = replica->engine->max_model_len, first = replica->continues ? 1 : 0;
    replica->sequences[*sequence] = (tperf_sequence){
        .request = request,
        .known = prompt + first,
        .prompt = prompt,
        .full = output > longest - prompt ? longest : prompt + output,
        .holding = holding,
        .beside = beside,
        .shared = tperf_has_segments(requests, request),
        .first_token = -1,
        .last_token = -1,
        .detail.first_scheduled = -1,
    };
    return TPERF_OK;
}

tperf_need tperf_sequence_lacks(const tperf_replica *replica, const tperf_sequence *s,
                                int64_t own) {
    if (own <= s->holding.count) return (tperf_need){0, 0};
    tperf_need beside = tperf_blocks_beside(replica->engine, own);
    return (tperf_need){own - s->holding.count + beside.pool - s->beside.count,
                        beside.apart - s->apart};
}

tperf_status tperf_sequence_hold(tperf_replica *replica, tperf_sequence *s, int64_t own,
                                 tperf_error *error) {
    tperf_need lacks = tperf_sequence_lacks(replica, s, own);
    int64_t more = own - s->holding.count;
    if (more <= 0) return TPERF_OK;
    s->apart += (int32_t)lacks.apart;
    replica->blocks.apart -= (int32_t)lacks.apart;
    TPERF_TRY(tperf_blocks_take(&replica->blocks, &s->holding, (int32_t)more, error));
    int32_t beside = (int32_t)(lacks.pool - more);
    return beside > 0 ? tperf_blocks_take(&replica->blocks, &s->beside, beside, error) : TPERF_OK;
}

void tperf_sequence_slide(tperf_replica *replica, tperf_sequence *s, int64_t tokens) {
    tperf_blocks_give_front(&replica->blocks, &s->holding,
                            tperf_blocks_unseen(replica->engine, tokens));
}

void tperf_sequence_give_back(tperf_replica *replica, tperf_sequence *s) {
    replica->blocks.apart += s->apart;
    s->apart = 0;
    tperf_blocks_give_back(&replica->blocks, &s->beside);
    tperf_blocks_give_back(&replica->blocks, &s->holding);
}

void tperf_replica_end_sequence(tperf_replica *replica, int32_t sequence) {
    tperf_sequence *s = &replica->sequences[sequence];
    tperf_sequence_give_back(replica, s);
    s->request = replica->spare;
    replica->spare = sequence;
}

void tperf_replica_receive(tperf_replica *replica, int64_t now) {
    const tperf_engine *engine = replica->engine;
    if (!engine->async_scheduling && engine->receive_interval <= 1) return;
    bool first = replica->formed == INT64_MAX;
    if (!first && ++replica->since < engine->receive_interval) return;
    replica->since = 0;
    replica->formed = now;
}

void tperf_replica_decoded(tperf_replica *replica, int64_t steps) {
    const tperf_estimate *e = &replica->engine->estimate;
    double least = e->first * e->least, fall = (e->first - least) / (e->steps > 1 ? e->steps : 1);
    for (int64_t i = 0; i < steps && replica->optimism > least; i++)
        replica->optimism -= fall;
    if (replica->optimism < least) replica->optimism = least;
}
