// stock.c: see stock.h.
#include "search/stock.h"

#include <string.h>

// A stage, and what else of its pipeline its contents depend on.
typedef struct part {
    const tperf_stage *stage;
    const tperf_pipeline *pipeline;
} part;

static bool same_weights(part a, part b) {
    return memcmp(a.stage->layers, b.stage->layers, sizeof a.stage->layers) == 0 &&
           a.stage->first == b.stage->first && a.stage->last == b.stage->last &&
           a.pipeline->weight_copies == b.pipeline->weight_copies;
}

static bool same_activations(part a, part b) {
    return same_weights(a, b) && a.pipeline->virtual_stages == b.pipeline->virtual_stages;
}

enum { RECENT = 64 }; // different contents compared: neighbours are alike

// The index of a part's contents among the n known ones, or of its own.
static uint32_t index_of(part *known, size_t *n, part one, bool (*same)(part, part)) {
    for (size_t i = *n; i-- > 0 && *n - i <= RECENT;)
        if (same(known[i], one)) return (uint32_t)i;
    known[*n] = one;
    return (uint32_t)(*n)++;
}

bool tperf_contents_init(tperf_contents *c, const tperf_heap *heap, const tperf_pipeline *pipelines,
                         size_t n_pipelines, size_t n_stages) {
    part *weights = tperf_heap_new(heap, n_stages + 1, sizeof *weights);
    part *activations = tperf_heap_new(heap, n_stages + 1, sizeof *activations);
    *c = (tperf_contents){.of = tperf_heap_new(heap, n_stages + 1, sizeof *c->of)};
    struct tperf_content *of = c->of;
    bool done = weights && activations && of;
    for (size_t i = 0; done && i < n_pipelines; i++)
        for (size_t j = 0; j < pipelines[i].n_stages; j++) {
            part one = {&pipelines[i].stages[j], &pipelines[i]};
            *of++ = (struct tperf_content){
                index_of(weights, &c->n_weights, one, same_weights),
                index_of(activations, &c->n_activations, one, same_activations),
                one.stage->in_flight};
        }
    tperf_heap_free(weights);
    tperf_heap_free(activations);
    return done;
}

void tperf_contents_release(tperf_contents *contents) {
    tperf_heap_free(contents->of);
}

bool tperf_stock_init(tperf_stock *s, const tperf_heap *heap, const tperf_contents *contents) {
    s->weights = tperf_heap_zeroed(heap, contents->n_weights + 1, sizeof *s->weights);
    s->activations = tperf_heap_zeroed(heap, contents->n_activations + 1, sizeof *s->activations);
    return s->weights && s->activations;
}

void tperf_stock_release(tperf_stock *stock) {
    tperf_heap_free(stock->weights);
    tperf_heap_free(stock->activations);
}

static bool same_layer_weights(const tperf_layer_cost *a, const tperf_layer_cost *b) {
    return memcmp(&a->weights, &b->weights, sizeof a->weights) == 0 &&
           memcmp(&a->experts, &b->experts, sizeof a->experts) == 0 &&
           memcmp(&a->tied, &b->tied, sizeof a->tied) == 0;
}

void tperf_stock_take(tperf_stock *s, const tperf_workload *workload,
                      const tperf_layer_cost *bytes) {
    size_t n = (size_t)workload->n_sections, size = n * sizeof *bytes;
    bool same_weights = s->bytes_stamp && s->n_kinds == workload->n_kinds &&
                        memcmp(s->holders, workload->holders, sizeof s->holders) == 0;
    if (same_weights && memcmp(s->bytes, bytes, size) == 0) return;
    for (size_t i = 0; i < n; i++)
        same_weights = same_weights && same_layer_weights(&s->bytes[i], &bytes[i]);
    memcpy(s->bytes, bytes, size);
    s->n_kinds = workload->n_kinds;
    memcpy(s->holders, workload->holders, sizeof s->holders);
    s->experts = tperf_has_experts(workload, bytes);
    s->bytes_stamp++;
    if (!same_weights) s->weights_stamp++;
}

static const tperf_stage_weights *
weights_of(tperf_stock *s, uint32_t index, const tperf_stage *stage, const tperf_pipeline *pipeline,
           const tperf_training *training, const tperf_workload *workload) {
    tperf_known_weights *known = &s->weights[index];
    if (known->known_for != s->weights_stamp)
        known->held =
            tperf_stage_weights_of(stage, pipeline->weight_copies, training, workload, s->bytes);
    known->known_for = s->weights_stamp;
    return &known->held;
}

static const tperf_stage_activations *activations_of(tperf_stock *s, uint32_t index,
                                                     const tperf_stage *stage,
                                                     const tperf_pipeline *pipeline,
                                                     const tperf_training *training,
                                                     const tperf_workload *workload) {
    tperf_known_activations *known = &s->activations[index];
    if (known->known_for != s->bytes_stamp)
        known->held = tperf_stage_activations_of(stage, pipeline->weight_copies,
                                                 (double)pipeline->virtual_stages, training,
                                                 workload, s->bytes);
    known->known_for = s->bytes_stamp;
    return &known->held;
}

tperf_memory tperf_stock_memory(tperf_stock *stock, const struct tperf_content *contents,
                                const tperf_candidate *candidate, const tperf_sharing *sharing,
                                const tperf_training *training, const tperf_workload *workload) {
    const tperf_pipeline *p = candidate->pipeline;
    tperf_memory fullest = {0};
    for (size_t i = 0; i < p->n_stages; i++) {
        const tperf_stage_weights *w =
            weights_of(stock, contents[i].weights, &p->stages[i], p, training, workload);
        const tperf_stage_activations *a =
            activations_of(stock, contents[i].activations, &p->stages[i], p, training, workload);
        tperf_memory m = tperf_memory_at(w, a, contents[i].in_flight, sharing, training);
        if (m.total > fullest.total) fullest = m;
    }
    return fullest;
}

double tperf_stock_updated(tperf_stock *stock, const struct tperf_content *contents,
                           const tperf_candidate *candidate, const tperf_sharing *sharing,
                           const tperf_training *training, const tperf_workload *workload) {
    const tperf_pipeline *p = candidate->pipeline;
    double most = 0;
    for (size_t i = 0; i < p->n_stages; i++) {
        const tperf_stage_weights *w =
            weights_of(stock, contents[i].weights, &p->stages[i], p, training, workload);
        double bytes = tperf_updated_bytes(w->updated, w->steps, sharing);
        if (bytes > most) most = bytes;
    }
    return most;
}
