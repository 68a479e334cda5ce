// inference_memory.c: see inference_memory.h.
#include "plan/inference_memory.h"

#include <math.h>

#include "base/minmax.h"

// Bytes that the widest op of a section reads and writes besides weights.
static double widest(const tperf_workload *workload, int section) {
    double most = 0;
    for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section]; i++)
        most =
            tperf_larger(most, workload->ops[i]->forward.bytes - workload->ops[i]->repeated_bytes -
                                   workload->ops[i]->weight_bytes);
    return most;
}

// Buffers of a stage: the residual stream and the working set of its widest op.
static double buffers_of(const tperf_stage *stage, const tperf_workload *workload) {
    double most = 0;
    for (int kind = 0; kind < workload->n_kinds; kind++)
        if (stage->layers[kind]) most = tperf_larger(most, widest(workload, kind));
    if (stage->first) most = tperf_larger(most, widest(workload, workload->n_kinds));
    if (stage->last) most = tperf_larger(most, widest(workload, workload->n_kinds + 1));
    return workload->boundary_bytes + most;
}

// One stage's GPU holds weights + batch x cache + max(prompts, batch x step) bytes.
typedef struct layer_counts {
    double weights, cache, prompts, step;
} layer_counts;

static double total_of(const layer_counts *h, double batch) {
    return h->weights + batch * h->cache + fmax(h->prompts, batch * h->step);
}

static layer_counts holdings_of(const tperf_inference *s, const tperf_stage *stage,
                                const tperf_layer_cost *costs) {
    int n_kinds = s->prefill->n_kinds;
    double length = (double)(s->prompt + s->generate);
    layer_counts h = {.prompts = buffers_of(stage, s->prefill),
                      .step = buffers_of(stage, s->single)};
    for (int kind = 0; kind < n_kinds; kind++) {
        double layers = (double)stage->layers[kind];
        h.weights += layers * (costs[kind].weights.bytes + costs[kind].experts.bytes);
    }
    for (size_t i = 0; i < s->n_caches; i++) {
        const tperf_cache *c = &s->caches[i];
        double kept = c->most_tokens > 0 ? fmin(c->most_tokens, length) : length;
        h.cache += tperf_stage_layers(stage, (int)c->section, s->prefill) *
                   (kept * c->token_bytes + c->state_bytes);
    }
    for (int i = n_kinds + 2; i < s->prefill->n_sections; i++)
        if (tperf_stage_shares(stage, i, s->prefill))
            h.weights += costs[i].weights.bytes + costs[i].experts.bytes;
    const tperf_layer_cost *first = &costs[n_kinds], *last = &costs[n_kinds + 1];
    if (stage->first) h.weights += first->weights.bytes + first->experts.bytes;
    if (stage->last) h.weights += last->weights.bytes + last->experts.bytes;
    if (stage->first && stage->last) h.weights -= last->tied.bytes;
    return h;
}

// The largest batch with total_of <= room. Both arms of the maximum bound it; the last two lines correct a quotient
// that rounding moved across an integer.
static double largest_batch(const layer_counts *h, double room) {
    double left = room - h->weights, cached = left - h->prompts;
    cached = h->cache > 0 ? cached / h->cache : cached < 0 ? 0 : INFINITY;
    double batch = floor(fmin(cached, left / (h->cache + h->step)));
    if (total_of(h, batch + 1) <= room) batch++;
    if (total_of(h, batch) > room) batch--;
    return fmin(fmax(batch, 0), 9007199254740992.0); // 2^53
}

void tperf_inference_hold(const tperf_inference *s, tperf_inference_result *out) {
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_workload_bytes(s->prefill, costs);
    double room = s->on.system->accelerator.hbm.capacity * (1 - s->reserved);
    double batch = (double)s->batch;
    out->max_batch = INFINITY;
    for (size_t i = 0; i < s->pipeline->n_stages; i++) {
        const tperf_stage *stage = &s->pipeline->stages[i];
        layer_counts h = holdings_of(s, stage, costs);
        out->cache_sequence += h.cache * (double)stage->repeats;
        out->max_batch = fmin(out->max_batch, largest_batch(&h, room));
        tperf_inference_bytes m = {h.weights, batch * h.cache, fmax(h.prompts, batch * h.step),
                                   total_of(&h, batch)};
        if (m.total > out->memory.total) out->memory = m;
    }
}
