// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "tperf/plan.h"

static void add_pass(tp_pass_cost *sum, const tp_pass_cost *part, double times) {
    sum->compute += times * part->compute;
    sum->exposed_memory += times * part->exposed_memory;
    sum->comm += times * part->comm;
    sum->time += times * part->time;
}

static void add_cost(tp_stage_cost *sum, const tp_layer_cost *cost, double layers) {
    add_pass(&sum->forward, &cost->forward, layers);
    add_pass(&sum->backward, &cost->backward, layers);
    sum->weight_grad += layers * cost->weight_grad;
    sum->flops += layers * cost->flops;
}

static tp_stage_cost cost_of_stage(const tp_stage *stage, const tp_network *network,
                                   const tp_layer_cost *costs) {
    tp_stage_cost sum = {0};
    for (int kind = 0; kind < network->n_kinds; kind++)
        if (stage->layers[kind]) add_cost(&sum, &costs[kind], (double)stage->layers[kind]);
    if (stage->first) add_cost(&sum, &costs[network->n_kinds], 1);
    if (stage->last) add_cost(&sum, &costs[network->n_kinds + 1], 1);
    return sum;
}

tp_pipeline_cost tp_pipeline_time(const tp_pipeline *pipeline, const tp_network *network,
                                  const tp_layer_cost *costs) {
    tp_pipeline_cost p = {.busiest = cost_of_stage(&pipeline->stages[0], network, costs)};
    p.forward = p.busiest.forward.time;
    p.backward = p.busiest.backward.time;
    p.weight_grad = p.busiest.weight_grad;
    p.flops = p.busiest.flops;
    if (pipeline->n_stages == 1) return p;
    double forward = 0, backward = 0, weight_grad = 0, flops = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        tp_stage_cost s = cost_of_stage(&pipeline->stages[i], network, costs);
        double repeats = (double)pipeline->stages[i].repeats;
        forward += repeats * s.forward.time;
        backward += repeats * s.backward.time;
        weight_grad += repeats * s.weight_grad;
        flops += repeats * s.flops;
        if (s.forward.time + s.backward.time > p.busiest.forward.time + p.busiest.backward.time)
            p.busiest = s;
    }
    double others = (double)pipeline->pp - 1;
    p.forward = (forward - p.busiest.forward.time) / others;
    p.backward = (backward - p.busiest.backward.time) / others;
    p.weight_grad = (weight_grad - p.busiest.weight_grad) / others;
    p.flops = flops / (double)pipeline->pp;
    return p;
}

// hop: seconds that each pass of a stage takes longer for its message.
static double bubble_of(const tp_pipeline *pipeline, const tp_pipeline_cost *cost, double hop) {
    return pipeline->bubble_forward * (cost->forward + hop) +
           pipeline->bubble_backward * (cost->backward + hop) +
           pipeline->bubble_weight_grad * cost->weight_grad;
}

// The collectives that gather a layer's weights and reduce its gradients, among all replicas.
typedef struct replicas {
    tp_group dense, expert;
    const tp_job *job;
} replicas;

static replicas replicas_of(const tp_candidate *candidate, const tp_job *job,
                            const tp_network *network) {
    replicas r = {{candidate->dp, candidate->dp_fast}, {0, 0}, job};
    for (int i = 0; i < network->n_axes; i++) {
        if (!(network->gradient_axes >> i & 1)) continue;
        r.dense.size *= candidate->sizes[i];
        r.dense.fast *= candidate->placement.fast[i];
    }
    r.expert = r.dense;
    if (network->expert_axis >= 0) {
        r.expert.size /= candidate->sizes[network->expert_axis];
        r.expert.fast /= candidate->placement.fast[network->expert_axis];
    }
    return r;
}

static double exchange(const replicas *r, tp_collective kind, const tp_layer_cost *cost,
                       double ratio) {
    double time = tp_collective_time(r->job->system, r->job->rules, kind,
                                     ratio * cost->weight_bytes, r->dense);
    if (cost->expert_bytes > 0)
        time += tp_collective_time(r->job->system, r->job->rules, kind, ratio * cost->expert_bytes,
                                   r->expert);
    return time;
}

// A layer's exchange hides behind the pass of the layer before.
typedef struct exposure {
    double whole, late; // seconds; what remains when hidden
} exposure;

static exposure expose(double exchange_time, const tp_pass_cost *pass, const tp_job *job) {
    double window = pass->time;
    if (job->rules->data_overlap_excludes_comm) window -= pass->comm;
    return (exposure){exchange_time, fmax(exchange_time - window, 0)};
}

// Exposed time of the exchanges around one pass of every layer of a stage; the first has nothing before it.
static double exposed_time(const tp_stage *stage, const tp_network *network,
                           const exposure *sections) {
    double time = sections[stage->leading].whole - sections[stage->leading].late;
    for (int kind = 0; kind < network->n_kinds; kind++)
        time += (double)stage->layers[kind] * sections[kind].late;
    if (stage->first) time += sections[network->n_kinds].late;
    if (stage->last) time += sections[network->n_kinds + 1].late;
    return time;
}

static double data_parallel_time(const tp_candidate *candidate, const tp_job *job,
                                 const tp_network *network, const tp_layer_cost *costs) {
    replicas r = replicas_of(candidate, job, network);
    if (r.dense.size == 1 && r.expert.size == 1) return 0;
    exposure forward[TP_SECTIONS_MAX], backward[TP_SECTIONS_MAX];
    // Gradients are reduced in the precision that they are kept in.
    double ratio = job->training->gradient_bytes / job->training->weight_bytes;
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double gather = candidate->zero ? exchange(&r, TP_ALL_GATHER, &costs[i], 1) : 0;
        double reduce =
            exchange(&r, candidate->zero ? TP_REDUCE_SCATTER : TP_ALL_REDUCE, &costs[i], ratio);
        if (candidate->zero >= 3) reduce += gather; // the backward pass gathers weights again
        forward[i] = expose(gather, &costs[i].forward, job);
        backward[i] = expose(reduce, &costs[i].backward, job);
    }
    double microbatches = (double)tp_candidate_microbatches(candidate, job), worst = 0;
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        const tp_stage *stage = &candidate->pipeline->stages[i];
        double time =
            exposed_time(stage, network, forward) * (candidate->zero >= 3 ? microbatches : 1) +
            exposed_time(stage, network, backward) * (candidate->zero >= 2 ? microbatches : 1);
        worst = fmax(worst, time);
    }
    return worst;
}

// One activation to the next stage, averaged over the links between stages.
static double hop_time(const tp_candidate *candidate, const tp_job *job, double bytes) {
    int64_t pp = candidate->pipeline->pp;
    if (pp == 1) return 0;
    double slow = 0;
    if (candidate->pp_fast == 1 || job->rules->slow_pipeline_links_cost)
        slow = tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 1});
    if (candidate->pp_fast == 1) return slow;
    double links = (double)pp - 1;
    double slow_links = trunc((double)pp / (double)candidate->pp_fast - 1);
    double fast = tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 2});
    return ((links - slow_links) * fast + slow_links * slow) / links;
}

tp_iteration tp_iteration_of(const tp_candidate *candidate, const tp_job *job,
                             const tp_network *network, const tp_layer_cost *costs,
                             const tp_pipeline_cost *cost) {
    const tp_pipeline *pipeline = candidate->pipeline;
    double microbatches = (double)tp_candidate_microbatches(candidate, job);
    const tp_pass_cost *forward = &cost->busiest.forward, *backward = &cost->busiest.backward;
    double work = microbatches * (forward->time + backward->time);
    double hop =
        (double)pipeline->virtual_stages * hop_time(candidate, job, network->boundary_bytes);
    tp_iteration iteration = {
        .compute = microbatches * (forward->compute + backward->compute),
        .memory = microbatches * (forward->exposed_memory + backward->exposed_memory),
        .tensor_comm = microbatches * (forward->comm + backward->comm),
        .data_comm = data_parallel_time(candidate, job, network, costs),
        .pipeline_comm = 2 * microbatches * hop,
        .bubble = bubble_of(pipeline, cost, hop),
        .flops = microbatches * cost->flops,
    };
    iteration.time = work + iteration.data_comm + iteration.pipeline_comm + iteration.bubble;
    return iteration;
}

double tp_iteration_bound(const tp_candidate *candidate, const tp_job *job,
                          const tp_pipeline_cost *cost) {
    // The terms come in the order of tp_iteration_of and rounding is monotonic, so the bound holds to the
    // last bit.
    double microbatches = (double)tp_candidate_microbatches(candidate, job);
    double work = microbatches * (cost->busiest.forward.time + cost->busiest.backward.time);
    return work + bubble_of(candidate->pipeline, cost, 0);
}
