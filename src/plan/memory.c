// memory.c: what one GPU holds. See tperf/plan.h.
#include "tperf/plan.h"

// fp32 copy, momentum and variance of 4 bytes each, for every 2-byte weight.
static const double optimizer_bytes_per_weight_byte = 6;

tp_memory tp_memory_of(const tp_candidate *candidate, const tp_job *job, const tp_layer *layer,
                       const tp_layer_cost *cost) {
    double stage_layers = (double)(job->layers / candidate->pp);
    int64_t microbatches = tp_candidate_microbatches(candidate, job);
    // 1F1B: the first stage has as many micro-batches in flight as there are stages.
    double in_flight = (double)(candidate->pp < microbatches ? candidate->pp : microbatches);
    double shards = (double)candidate->dp;
    for (int i = 0; i < layer->n_axes; i++)
        if (layer->gradient_axes >> i & 1) shards *= (double)candidate->sizes[i];
    tp_memory memory = {
        .weights = stage_layers * cost->weight_bytes,
        .activations = stage_layers * in_flight * cost->saved_bytes,
    };
    memory.gradients = memory.weights;
    memory.optimizer = optimizer_bytes_per_weight_byte * memory.weights / shards;
    memory.total = memory.weights + memory.gradients + memory.optimizer + memory.activations;
    return memory;
}
