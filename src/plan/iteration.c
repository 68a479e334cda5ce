// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "tperf/plan.h"

static void add_time(tp_stage_time *sum, const tp_layer_cost *cost, double layers) {
    sum->forward += layers * cost->forward.time;
    sum->backward += layers * cost->backward.time;
    sum->weight_grad += layers * cost->weight_grad;
}

static tp_stage_time time_of_stage(const tp_stage *stage, const tp_network *network,
                                   const tp_layer_cost *costs) {
    tp_stage_time sum = {0, 0, 0};
    for (int kind = 0; kind < network->n_kinds; kind++)
        add_time(&sum, &costs[kind], (double)stage->layers[kind]);
    if (stage->first) add_time(&sum, &costs[network->n_kinds], 1);
    if (stage->last) add_time(&sum, &costs[network->n_kinds + 1], 1);
    return sum;
}

tp_pipeline_time tp_pipeline_time_of(const tp_pipeline *pipeline, const tp_network *network,
                                     const tp_layer_cost *costs) {
    const tp_stage *stages = pipeline->stages;
    tp_stage_time busy = time_of_stage(&stages[0], network, costs);
    if (pipeline->n_stages == 1) return (tp_pipeline_time){&stages[0], busy, busy};
    double repeats = (double)stages[0].repeats;
    tp_stage_time all = {repeats * busy.forward, repeats * busy.backward,
                         repeats * busy.weight_grad};
    const tp_stage *busiest = &stages[0];
    for (size_t i = 1; i < pipeline->n_stages; i++) {
        tp_stage_time s = time_of_stage(&stages[i], network, costs);
        repeats = (double)stages[i].repeats;
        all.forward += repeats * s.forward;
        all.backward += repeats * s.backward;
        all.weight_grad += repeats * s.weight_grad;
        if (s.forward + s.backward <= busy.forward + busy.backward) continue;
        busy = s;
        busiest = &stages[i];
    }
    double others = (double)pipeline->pp - 1;
    return (tp_pipeline_time){busiest,
                              busy,
                              {(all.forward - busy.forward) / others,
                               (all.backward - busy.backward) / others,
                               (all.weight_grad - busy.weight_grad) / others}};
}

// hop: seconds that each pass of a stage takes longer for its message.
static double bubble_of(const tp_pipeline *pipeline, const tp_stage_time *others, double hop) {
    return pipeline->bubble_forward * (others->forward + hop) +
           pipeline->bubble_backward * (others->backward + hop) +
           pipeline->bubble_weight_grad * others->weight_grad;
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

// A collective among replicas, ready for any number of bytes.
typedef struct exchanger {
    const tp_job *job;
    tp_collective kind;
    tp_group group;
    bool has_rate;
    tp_rate rate;
} exchanger;

static exchanger exchanger_of(const tp_job *job, tp_collective kind, tp_group group) {
    exchanger e = {.job = job, .kind = kind, .group = group};
    if (group.size > 1)
        e.has_rate = tp_collective_rate(job->system, job->rules, kind, group, &e.rate);
    return e;
}

static double exchange(const exchanger *e, double bytes) {
    if (!e->has_rate)
        return tp_collective_time(e->job->system, e->job->rules, e->kind, bytes, e->group);
    return bytes > 0 ? e->rate.latency_s + bytes * e->rate.per_byte_s : 0;
}

static bool has_experts(const tp_network *network, const tp_layer_cost *costs) {
    for (int i = 0; i < network->n_kinds + 2; i++)
        if (costs[i].experts.count > 0) return true;
    return false;
}

// Weights travel as they are kept, or cast to what is computed with where that is less; gradients are
// reduced in the precision that they are kept in.
static double gathered_bytes(const tp_training *t, const tp_weights *weights) {
    return t->kept_bytes > 0 ? fmin(t->kept_bytes * weights->count, weights->bytes)
                             : weights->bytes;
}

void tp_exchange_times(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                       const tp_layer_cost *costs, tp_exchange *exchanges) {
    replicas r = replicas_of(candidate, job, network);
    const tp_training *t = job->training;
    tp_collective reduction = candidate->zero ? TP_REDUCE_SCATTER : TP_ALL_REDUCE;
    exchanger gather = exchanger_of(job, TP_ALL_GATHER, r.dense);
    exchanger reduce = exchanger_of(job, reduction, r.dense);
    exchanger gather_experts = {0}, reduce_experts = {0};
    if (has_experts(network, costs)) {
        gather_experts = exchanger_of(job, TP_ALL_GATHER, r.expert);
        reduce_experts = exchanger_of(job, reduction, r.expert);
    }
    for (int i = 0; i < network->n_kinds + 2; i++) {
        tp_exchange *e = &exchanges[i];
        const tp_weights *weights = &costs[i].weights, *experts = &costs[i].experts;
        e->gather = candidate->zero ? exchange(&gather, gathered_bytes(t, weights)) : 0;
        e->reduce = exchange(&reduce, t->gradient_bytes * weights->count);
        if (experts->count > 0) {
            if (candidate->zero) e->gather += exchange(&gather_experts, gathered_bytes(t, experts));
            e->reduce += exchange(&reduce_experts, t->gradient_bytes * experts->count);
        }
        if (candidate->zero >= 3) e->reduce += e->gather; // the backward pass gathers again
    }
}

// Seconds of a section's exchanges in an iteration, all of them, and what remains where they hide behind
// the pass of the layer before.
typedef struct exposure {
    double whole, late;
} exposure;

static double beyond(double exchange_time, const tp_pass_cost *pass, const tp_job *job) {
    double window = pass->time;
    if (job->rules->data_overlap_excludes_comm) window -= pass->comm;
    window *= job->training->data_overlap;
    return exchange_time > window ? exchange_time - window : 0;
}

// Weights are gathered once, or for every micro-batch when they are sharded (ZeRO 3), gradients likewise (ZeRO 2).
static exposure expose(const tp_exchange *exchange, const tp_layer_cost *cost, const tp_job *job,
                       double gathers, double reductions) {
    return (exposure){
        gathers * exchange->gather + reductions * exchange->reduce,
        gathers * beyond(exchange->gather, &cost->forward, job) +
            reductions * beyond(exchange->reduce, &cost->backward, job),
    };
}

// Exposed time of the exchanges of a stage; its first layer has nothing before it.
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
                                 const tp_network *network, const tp_layer_cost *costs,
                                 const tp_exchange *exchanges) {
    exposure sections[TP_SECTIONS_MAX];
    double microbatches = (double)candidate->microbatches, worst = 0;
    double gathers = candidate->zero >= 3 ? microbatches : 1;
    double reductions = candidate->zero >= 2 ? microbatches : 1;
    for (int i = 0; i < network->n_kinds + 2; i++)
        sections[i] = expose(&exchanges[i], &costs[i], job, gathers, reductions);
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        double time = exposed_time(&candidate->pipeline->stages[i], network, sections);
        if (time > worst) worst = time;
    }
    return worst;
}

tp_hop tp_hop_times(const tp_job *job, const tp_network *network) {
    double bytes = network->boundary_bytes;
    return (tp_hop){
        tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 2}),
        tp_collective_time(job->system, job->rules, TP_SEND, bytes, (tp_group){2, 1}),
    };
}

double tp_hop_time(const tp_candidate *candidate, const tp_job *job, tp_hop hop) {
    int64_t pp = candidate->pipeline->pp;
    if (pp == 1) return 0;
    if (candidate->pp_fast == 1) return hop.slow;
    double links = (double)pp - 1;
    double slow_links = trunc((double)pp / (double)candidate->pp_fast - 1);
    double slow = job->rules->slow_pipeline_links_cost ? hop.slow : 0;
    return ((links - slow_links) * hop.fast + slow_links * slow) / links;
}

// The parts of an iteration that add up to its time.
typedef struct parts {
    double work, data_comm, pipeline_comm, bubble;
} parts;

static parts parts_of(const tp_candidate *candidate, const tp_job *job, const tp_network *network,
                      const tp_layer_cost *costs, const tp_pipeline_time *pipeline,
                      const tp_exchange *exchanges, double hop) {
    double microbatches = (double)candidate->microbatches;
    hop *= (double)candidate->pipeline->virtual_stages;
    return (parts){
        .work = microbatches * (pipeline->busy.forward + pipeline->busy.backward),
        .data_comm = data_parallel_time(candidate, job, network, costs, exchanges),
        .pipeline_comm = 2 * microbatches * hop,
        .bubble = bubble_of(candidate->pipeline, &pipeline->others, hop),
    };
}

static double whole(const parts *p) {
    return p->work + p->bubble + p->data_comm + p->pipeline_comm;
}

double tp_iteration_time(const tp_candidate *candidate, const tp_job *job,
                         const tp_network *network, const tp_layer_cost *costs,
                         const tp_pipeline_time *pipeline, const tp_exchange *exchanges,
                         double hop) {
    parts p = parts_of(candidate, job, network, costs, pipeline, exchanges, hop);
    return whole(&p);
}

double tp_iteration_bound(const tp_candidate *candidate, const tp_pipeline_time *pipeline) {
    // The terms come in the order of whole() and rounding is monotonic, so the bound holds to the last bit.
    parts p = {
        .work =
            (double)candidate->microbatches * (pipeline->busy.forward + pipeline->busy.backward),
        .bubble = bubble_of(candidate->pipeline, &pipeline->others, 0),
    };
    return whole(&p);
}

static void add_pass(tp_pass_cost *sum, const tp_pass_cost *part, double times) {
    sum->compute += times * part->compute;
    sum->exposed_memory += times * part->exposed_memory;
    sum->comm += times * part->comm;
}

// Seconds of compute, memory and collectives of one micro-batch in a stage, both passes; and its FLOPs.
static tp_pass_cost breakdown_of_stage(const tp_stage *stage, const tp_network *network,
                                       const tp_layer_cost *costs, double *flops) {
    tp_pass_cost sum = {0};
    *flops = 0;
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double layers = i < network->n_kinds    ? (double)stage->layers[i]
                        : i == network->n_kinds ? stage->first
                                                : stage->last;
        add_pass(&sum, &costs[i].forward, layers);
        add_pass(&sum, &costs[i].backward, layers);
        *flops += layers * costs[i].flops;
    }
    return sum;
}

static double average_flops(const tp_pipeline *pipeline, const tp_network *network,
                            const tp_layer_cost *costs) {
    double all = 0, flops;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        breakdown_of_stage(&pipeline->stages[i], network, costs, &flops);
        all += (double)pipeline->stages[i].repeats * flops;
    }
    return all / (double)pipeline->pp;
}

tp_iteration tp_iteration_of(const tp_candidate *candidate, const tp_job *job,
                             const tp_network *network, const tp_layer_cost *costs) {
    tp_pipeline_time pipeline = tp_pipeline_time_of(candidate->pipeline, network, costs);
    tp_exchange exchanges[TP_SECTIONS_MAX];
    tp_exchange_times(candidate, job, network, costs, exchanges);
    parts p = parts_of(candidate, job, network, costs, &pipeline, exchanges,
                       tp_hop_time(candidate, job, tp_hop_times(job, network)));
    double microbatches = (double)candidate->microbatches, flops;
    tp_pass_cost busy = breakdown_of_stage(pipeline.busiest, network, costs, &flops);
    return (tp_iteration){
        .time = whole(&p),
        .compute = microbatches * busy.compute,
        .memory = microbatches * busy.exposed_memory,
        .tensor_comm = microbatches * busy.comm,
        .data_comm = p.data_comm,
        .pipeline_comm = p.pipeline_comm,
        .bubble = p.bubble,
        .flops = microbatches * average_flops(candidate->pipeline, network, costs),
    };
}
