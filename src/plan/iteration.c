// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "tperf/plan.h"

int64_t tp_candidate_microbatches(const tp_candidate *candidate, const tp_job *job) {
    return job->global_batch / candidate->dp / candidate->micro_batch;
}

// Gathering one layer's weights, or scattering its gradients, hidden behind the layer before. The
// first layer's has nothing before it.
static double data_parallel_time(const tp_candidate *candidate, const tp_job *job,
                                 const tp_layer *layer, const tp_layer_cost *cost,
                                 double stage_layers) {
    tp_group group = {candidate->dp, candidate->dp_fast};
    for (int i = 0; i < layer->n_axes; i++) {
        if (!(layer->gradient_axes >> i & 1)) continue;
        group.size *= candidate->sizes[i];
        group.fast *= candidate->placement.fast[i];
    }
    double gather =
        tp_collective_time(job->system, job->rules, TP_ALL_GATHER, cost->weight_bytes, group);
    double scatter =
        tp_collective_time(job->system, job->rules, TP_REDUCE_SCATTER, cost->weight_bytes, group);
    double forward = cost->forward.time, backward = cost->backward.time;
    if (job->rules->data_overlap_excludes_comm) {
        forward -= cost->forward.comm;
        backward -= cost->backward.comm;
    }
    return gather + fmax(gather - forward, 0) * (stage_layers - 1) +   // weights
           scatter + fmax(scatter - backward, 0) * (stage_layers - 1); // gradients
}

// One activation to the next stage, averaged over the links between stages.
static double hop_time(const tp_candidate *candidate, const tp_job *job, double bytes) {
    if (candidate->pp == 1) return 0;
    double slow = 0;
    if (candidate->pp_fast == 1 || job->rules->slow_pipeline_links_cost)
        slow = tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 1});
    if (candidate->pp_fast == 1) return slow;
    double links = (double)candidate->pp - 1;
    double slow_links = trunc((double)candidate->pp / (double)candidate->pp_fast - 1);
    double fast = tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 2});
    return ((links - slow_links) * fast + slow_links * slow) / links;
}

tp_iteration tp_iteration_of(const tp_candidate *candidate, const tp_job *job,
                             const tp_layer *layer, const tp_layer_cost *cost) {
    double stage_layers = (double)(job->layers / candidate->pp);
    double microbatches = (double)tp_candidate_microbatches(candidate, job);
    double repeats = microbatches * stage_layers;
    double work = repeats * (cost->forward.time + cost->backward.time);
    tp_iteration iteration = {
        .compute = repeats * (cost->forward.compute + cost->backward.compute),
        .memory = repeats * (cost->forward.exposed_memory + cost->backward.exposed_memory),
        .tensor_comm = repeats * (cost->forward.comm + cost->backward.comm),
        .data_comm = data_parallel_time(candidate, job, layer, cost, stage_layers),
        .pipeline_comm = 2 * microbatches * hop_time(candidate, job, cost->boundary_bytes),
        .flops = repeats * cost->flops,
    };
    iteration.bubble =
        ((double)candidate->pp - 1) * (work + iteration.pipeline_comm) / microbatches;
    iteration.time = work + iteration.data_comm + iteration.pipeline_comm + iteration.bubble;
    return iteration;
}
