// memory.c: what one GPU holds. See tperf/plan.h.
#include <math.h>

#include "tperf/plan.h"

// Weight bytes of a stage, spread like the rest or over the expert axis, and saved bytes.
typedef struct holdings {
    double weights, experts, saved;
} holdings;

static void hold(holdings *h, const tp_layer_cost *cost, double layers) {
    h->weights += layers * cost->weight_bytes;
    h->experts += layers * cost->expert_bytes;
    h->saved += layers * cost->saved_bytes;
}

static holdings holdings_of(const tp_stage *stage, const tp_network *network,
                            const tp_layer_cost *costs) {
    holdings h = {0};
    for (int kind = 0; kind < network->n_kinds; kind++)
        hold(&h, &costs[kind], (double)stage->layers[kind]);
    if (stage->first) hold(&h, &costs[network->n_kinds], 1);
    if (stage->last) hold(&h, &costs[network->n_kinds + 1], 1);
    if (stage->first && stage->last) h.weights -= costs[network->n_kinds + 1].tied_bytes;
    return h;
}

// The bytes of a tensor as large as the weights but with `ratio` bytes to one of them, sharded or not.
static double spread(holdings h, double ratio, double shards, double expert_shards) {
    return ratio * h.weights / shards + ratio * h.experts / expert_shards;
}

static tp_memory stage_memory(const tp_candidate *candidate, const tp_job *job, holdings h,
                              double in_flight, double shards, double expert_shards) {
    const tp_training *t = job->training;
    double copies = candidate->pipeline->weight_copies;
    h.weights *= copies;
    h.experts *= copies;
    bool split_gradients = candidate->zero >= 2, split_weights = candidate->zero >= 3;
    bool split_optimizer = candidate->zero >= 1;
    tp_memory m = {
        .weights = spread(h, 1, split_weights ? shards : 1, split_weights ? expert_shards : 1),
        .gradients = spread(h, t->gradient_bytes / t->weight_bytes, split_gradients ? shards : 1,
                            split_gradients ? expert_shards : 1),
        .optimizer = spread(h, t->optimizer_bytes / t->weight_bytes, split_optimizer ? shards : 1,
                            split_optimizer ? expert_shards : 1),
        .activations = in_flight * h.saved,
    };
    m.total = m.weights + m.gradients + m.optimizer + m.activations;
    return m;
}

tp_memory tp_memory_of(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                       const tp_layer_cost *costs, tp_memory *per_stage) {
    const tp_pipeline *pipeline = candidate->pipeline;
    double microbatches = (double)candidate->microbatches;
    double shards = (double)candidate->dp;
    for (int i = 0; i < network->n_axes; i++)
        if (network->gradient_axes >> i & 1) shards *= (double)candidate->sizes[i];
    double expert_shards = shards;
    if (network->expert_axis >= 0) expert_shards /= (double)candidate->sizes[network->expert_axis];
    tp_memory fullest = {0};
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const tp_stage *stage = &pipeline->stages[i];
        tp_memory m = stage_memory(candidate, job, holdings_of(stage, network, costs),
                                   fmin(stage->in_flight, microbatches), shards, expert_shards);
        if (m.total > fullest.total) fullest = m;
        if (per_stage) per_stage[i] = m;
    }
    return fullest;
}
