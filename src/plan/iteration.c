// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "tperf/plan.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

// Seconds of a pass of a stage: the GPU's, or the host's that launches its kernels one by one.
static double longer(const tperf_pass_cost *pass, double host_s) {
    double host = host_s * pass->launches;
    return pass->time > host ? pass->time : host;
}

double tperf_stage_layers(const tperf_stage *stage, int section, int n_kinds) {
    return section < n_kinds    ? (double)stage->layers[section]
           : section == n_kinds ? stage->first
                                : stage->last;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

// What a forward and a backward pass of a layer save beside each other, if each one's exchanges with experts run beside
// the other's kernels, as Megatron-LM pairs them (megatron/core/models/common/model_chunk_schedule_plan.py).
static double hidden_exchanges(const tperf_expert_cost *e, bool delay_grads) {
    double grad = delay_grads ? e->inside_grad : 0;
    return smaller(e->combine[1], e->outside[0]) + smaller(e->dispatch[0], e->inside[1] - grad) +
           smaller(e->dispatch[1], e->inside[0] + grad) + smaller(e->combine[0], e->outside[1]);
}

// A forward and a backward pass of a stage beside each other, no shorter than either. Where all collectives hide, those
// of both passes run beside the kernels of both, which they slow.
static double pair_of(const tperf_stage_time *t, const tperf_pass_cost *both, double hidden,
                      const tperf_job *job) {
    double one_by_one = t->forward + t->backward, longest = larger(t->forward, t->backward);
    if (job->training->hide_experts)
        return larger(longest,
                      larger(one_by_one - hidden, job->on.software->host_s * both->launches));
    return larger(longest, larger(one_by_one - both->comm + both->slowing, both->comm));
}

tperf_stage_time tperf_stage_time_of(const tperf_stage *stage, const tperf_workload *network,
                                     const tperf_layer_cost *costs, const tperf_job *job) {
    tperf_pass_cost forward = {0}, backward = {0}, both = {0};
    double weight_grad = 0, hidden = 0, host_s = job->on.software->host_s;
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double layers = tperf_stage_layers(stage, i, network->n_kinds);
        if (layers == 0) continue;
        const tperf_pass_cost *f = &costs[i].forward, *b = &costs[i].backward;
        forward.time += layers * f->time;
        backward.time += layers * b->time;
        weight_grad += layers * costs[i].weight_grad;
        forward.launches += layers * f->launches;
        backward.launches += layers * b->launches;
        both.comm += layers * (f->comm + b->comm);
        both.slowing += layers * (f->slowing + b->slowing);
        if (job->training->hide_experts)
            hidden += layers * hidden_exchanges(&costs[i].exchange, job->training->delay_grads);
    }
    both.launches = forward.launches + backward.launches;
    tperf_stage_time t = {longer(&forward, host_s), longer(&backward, host_s), weight_grad, 0, 0};
    t.host = t.forward - forward.time + (t.backward - backward.time);
    t.pair = pair_of(&t, &both, hidden, job);
    return t;
}

tperf_pipeline_time tperf_pipeline_time_of(const tperf_pipeline *pipeline,
                                           const tperf_workload *network,
                                           const tperf_layer_cost *costs, const tperf_job *job) {
    const tperf_stage *stages = pipeline->stages;
    tperf_stage_time busy = tperf_stage_time_of(&stages[0], network, costs, job);
    if (pipeline->n_stages == 1) return (tperf_pipeline_time){&stages[0], busy, busy};
    double repeats = (double)stages[0].repeats;
    tperf_stage_time all = {repeats * busy.forward, repeats * busy.backward,
                            repeats * busy.weight_grad, 0, 0};
    const tperf_stage *busiest = &stages[0];
    for (size_t i = 1; i < pipeline->n_stages; i++) {
        tperf_stage_time s = tperf_stage_time_of(&stages[i], network, costs, job);
        repeats = (double)stages[i].repeats;
        all.forward += repeats * s.forward;
        all.backward += repeats * s.backward;
        all.weight_grad += repeats * s.weight_grad;
        if (s.forward + s.backward <= busy.forward + busy.backward) continue;
        busy = s;
        busiest = &stages[i];
    }
    double others = (double)pipeline->pp - 1;
    return (tperf_pipeline_time){busiest,
                                 busy,
                                 {(all.forward - busy.forward) / others,
                                  (all.backward - busy.backward) / others,
                                  (all.weight_grad - busy.weight_grad) / others, 0, 0}};
}

// hop: seconds that each pass of a stage takes longer for its message.
static double bubble_of(const tperf_pipeline *pipeline, const tperf_stage_time *others,
                        double hop) {
    return pipeline->bubble_forward * (others->forward + hop) +
           pipeline->bubble_backward * (others->backward + hop) +
           pipeline->bubble_weight_grad * others->weight_grad;
}

// A collective among replicas, ready for any number of bytes.
typedef struct exchanger {
    const tperf_job *job;
    tperf_collective kind;
    tperf_group group;
    bool has_rate;
    tperf_rate rate;
} exchanger;

static exchanger exchanger_of(const tperf_job *job, tperf_collective kind, tperf_group group) {
    exchanger e = {.job = job, .kind = kind, .group = group};
    if (group.size > 1)
        e.has_rate = tperf_collective_rate(job->on.system, job->on.rules, kind, group, &e.rate);
    return e;
}

static double exchange(const exchanger *e, double bytes) {
    if (!e->has_rate)
        return tperf_collective_time(e->job->on.system, e->job->on.rules, e->kind, bytes, e->group);
    return bytes > 0 ? e->rate.latency_s + bytes * e->rate.per_byte_s : 0;
}

// What gathers weights and reduces gradients among the GPUs that hold copies of them.
typedef struct exchangers {
    exchanger gather, reduce;
    int n_copies;
    exchanger copies[TPERF_AXES_MAX];
    double bytes[TPERF_AXES_MAX]; // for each of a shard's gradients
} exchangers;

static exchangers exchangers_of(const tperf_candidate *candidate, const tperf_job *job,
                                const tperf_workload *network, bool experts) {
    tperf_replicas r =
        tperf_grid_replicas(&network->grid, candidate->sizes, candidate->placement.fast, experts);
    tperf_collective reduction = candidate->zero ? TPERF_REDUCE_SCATTER : TPERF_ALL_REDUCE;
    exchangers e = {exchanger_of(job, TPERF_ALL_GATHER, r.shards),
                    exchanger_of(job, reduction, r.shards),
                    (int)r.n_copies,
                    {{0}},
                    {0}};
    for (int i = 0; i < r.n_copies; i++) {
        e.copies[i] = exchanger_of(job, TPERF_ALL_REDUCE, r.copies[i].group);
        e.bytes[i] = r.copies[i].bytes / (candidate->zero ? (double)r.shards.size : 1);
    }
    return e;
}

// Weights travel as they are kept, or cast to what is computed with where that is less; gradients are
// reduced in the precision that they are kept in. Frozen weights travel where they are sharded, but not after a step that
// leaves them as they are.
static double gathered_bytes(const tperf_training *t, const tperf_weights *weights, int zero) {
    double trained = weights->gathered;
    if (t->kept_bytes > 0) trained = fmin(t->kept_bytes * weights->count, trained);
    return trained + (zero >= 3 ? weights->frozen : 0);
}

static bool has_experts(const tperf_workload *network, const tperf_layer_cost *costs) {
    for (int i = 0; i < network->n_kinds + 2; i++)
        if (costs[i].experts.bytes > 0) return true;
    return false;
}

static tperf_replica_comm comm_of(const exchanger *e, double bytes, bool gathers, bool experts) {
    return (tperf_replica_comm){e->kind, e->group, bytes, exchange(e, bytes), gathers, experts};
}

// Adds the collectives of weights that are exchanged alike; how many there are then.
static int add_comms(const exchangers *x, const tperf_candidate *candidate, const tperf_training *t,
                     const tperf_weights *weights, bool experts, tperf_replica_comm *comms, int n) {
    if (candidate->zero)
        comms[n++] =
            comm_of(&x->gather, gathered_bytes(t, weights, candidate->zero), true, experts);
    double gradients = t->gradient_bytes * weights->count;
    comms[n++] = comm_of(&x->reduce, gradients, false, experts);
    for (int i = 0; i < x->n_copies; i++)
        comms[n++] = comm_of(&x->copies[i], gradients * x->bytes[i], false, experts);
    return n;
}

// The collectives of one layer of a section.
static int comms_of(const exchangers *dense, const exchangers *expert,
                    const tperf_candidate *candidate, const tperf_job *job,
                    const tperf_layer_cost *cost, tperf_replica_comm *comms) {
    const tperf_training *t = job->training;
    int n = add_comms(dense, candidate, t, &cost->weights, false, comms, 0);
    return cost->experts.bytes > 0 ? add_comms(expert, candidate, t, &cost->experts, true, comms, n)
                                   : n;
}

int tperf_replica_comms_of(const tperf_candidate *candidate, const tperf_job *job,
                           const tperf_workload *network, const tperf_layer_cost *costs,
                           int section, tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX]) {
    exchangers dense = exchangers_of(candidate, job, network, false);
    exchangers expert = exchangers_of(candidate, job, network, true);
    return comms_of(&dense, &expert, candidate, job, &costs[section], comms);
}

// A matrix is orthogonalised whole: replicas that share its state out gather its update in 16 bits (arXiv 2502.16982,
// section 2.3). Embedding and head are not.
static double update_time(const tperf_candidate *candidate, const tperf_job *job,
                          const exchangers *dense, const exchangers *expert,
                          const tperf_layer_cost *cost, bool is_layer) {
    enum { UPDATE_BYTES = 2 };
    if (job->training->iterations == 0 || candidate->zero == 0 || !is_layer) return 0;
    double seconds = exchange(&dense->gather, UPDATE_BYTES * cost->weights.count);
    if (cost->experts.count > 0)
        seconds += exchange(&expert->gather, UPDATE_BYTES * cost->experts.count);
    return seconds;
}

void tperf_exchange_times(const tperf_candidate *candidate, const tperf_job *job,
                          const tperf_workload *network, const tperf_layer_cost *costs,
                          tperf_exchange *exchanges) {
    exchangers dense = exchangers_of(candidate, job, network, false), expert = {0};
    if (has_experts(network, costs)) expert = exchangers_of(candidate, job, network, true);
    for (int i = 0; i < network->n_kinds + 2; i++) {
        tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX];
        int n = comms_of(&dense, &expert, candidate, job, &costs[i], comms);
        tperf_exchange e = {0};
        for (int c = 0; c < n; c++)
            *(comms[c].gathers ? &e.gather : &e.reduce) += comms[c].seconds;
        // the backward pass gathers again
        e.update = update_time(candidate, job, &dense, &expert, &costs[i], i < network->n_kinds);
        if (candidate->zero >= 3 && job->training->reshards > 0) e.reduce += e.gather;
        exchanges[i] = e;
    }
}

// overlap: the part of the pass beside which the exchange runs; below 0: as the software has it.
static double beyond(double exchange_time, const tperf_pass_cost *pass, const tperf_job *job,
                     double overlap) {
    double window = pass->time;
    if (job->on.rules->data_overlap_excludes_comm) window -= pass->comm;
    window *= tperf_window(job, overlap);
    double slowing = window > 0 ? tperf_comm_share(&(tperf_comm){0}, &job->on) * exchange_time : 0;
    return tperf_exposed(exchange_time, slowing, window);
}

double tperf_window(const tperf_job *job, double overlap) {
    return overlap < 0 ? job->training->data_overlap * job->on.software->overlap : overlap;
}

// Layers of such a section that a bucket holds. Buckets are of whole ones' parameters: more than one may be part of a
// layer.
static double layers_of_bucket(const tperf_candidate *candidate, const tperf_job *job,
                               const tperf_workload *network, const tperf_layer_cost *cost) {
    const tperf_training *t = job->training;
    double all = cost->weights.count + cost->experts.count;
    if (!(t->bucket > 0) || !(all > 0)) return 1;
    double replicas = (double)tperf_grid_shards(&network->grid, candidate->sizes, false);
    return larger(t->bucket, t->bucket_each * replicas) / all;
}

void tperf_exposures_of(const tperf_candidate *candidate, const tperf_job *job,
                        const tperf_workload *network, const tperf_layer_cost *costs,
                        const tperf_exchange *exchanges, double optimizer,
                        tperf_exposure *sections) {
    const tperf_training *t = job->training;
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double gather = beyond(exchanges[i].gather, &costs[i].forward, job, t->gather_overlap);
        double reduce = beyond(exchanges[i].reduce, &costs[i].backward, job, t->reduce_overlap);
        double bucket = layers_of_bucket(candidate, job, network, &costs[i]);
        tperf_exposure e = {
            gather, reduce, exchanges[i].gather - gather, exchanges[i].reduce - reduce,
            0,      0,      exchanges[i].update};
        e.first_gather = bucket * e.hidden_gather;
        e.first_reduce = bucket * e.hidden_reduce;
        if (t->gather_in_step) e.first_gather = larger(e.first_gather - optimizer, 0);
        sections[i] = e;
    }
}

tperf_exposure tperf_stage_exposure(const tperf_stage *stage, const tperf_workload *network,
                                    const tperf_exposure *sections) {
    const tperf_exposure *first = &sections[tperf_leading_section(stage, network)];
    tperf_exposure sum = {0};
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double layers = tperf_stage_layers(stage, i, network->n_kinds);
        sum.gather += layers * sections[i].gather;
        sum.reduce += layers * sections[i].reduce;
        sum.hidden_gather += layers * sections[i].hidden_gather;
        sum.hidden_reduce += layers * sections[i].hidden_reduce;
        sum.update += layers * sections[i].update;
    }
    sum.first_gather = smaller(first->first_gather, sum.hidden_gather);
    sum.first_reduce = smaller(first->first_reduce, sum.hidden_reduce);
    return sum;
}

// Of the stage that waits longest for its replicas: seconds of an iteration, and of that what every micro-batch's
// passes wait.
typedef struct waiting {
    double time, each_forward, each_backward;
    const tperf_stage *stage;
} waiting;

// Weights are gathered once, or for every micro-batch when they are sharded (ZeRO 3), gradients likewise (ZeRO 2). What
// happens once is waited for by the first of a device's chunks alone: the weights of the others travel while it works,
// and so do their gradients, which are whole before its own.
static waiting waiting_of(const tperf_candidate *candidate, const tperf_job *job,
                          const tperf_workload *network, const tperf_layer_cost *costs,
                          const tperf_exchange *exchanges, double optimizer) {
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    double microbatches = (double)candidate->microbatches;
    double chunks = (double)candidate->pipeline->virtual_stages;
    bool gathers_each = tperf_gathers_each(candidate, job->training);
    bool reduces_each = tperf_reduces_each(candidate, job->training);
    waiting worst = {0};
    tperf_exposures_of(candidate, job, network, costs, exchanges, optimizer, sections);
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        tperf_exposure e = tperf_stage_exposure(&candidate->pipeline->stages[i], network, sections);
        double gather = (gathers_each ? microbatches : 1 / chunks) * e.gather + e.first_gather;
        double reduce =
            (reduces_each ? microbatches : 1 / chunks) * e.reduce + e.first_reduce + e.update;
        if (gather + reduce > worst.time)
            worst = (waiting){gather + reduce, gathers_each ? e.gather : 0,
                              reduces_each ? e.reduce : 0, &candidate->pipeline->stages[i]};
    }
    return worst;
}

tperf_hop tperf_hop_times(const tperf_job *job, const tperf_workload *network) {
    double bytes = network->boundary_bytes;
    return (tperf_hop){tperf_send_time(&job->on, bytes, true),
                       tperf_send_time(&job->on, bytes, false)};
}

double tperf_hop_time(const tperf_candidate *candidate, const tperf_job *job, tperf_hop hop) {
    int64_t pp = candidate->pipeline->pp;
    if (pp == 1) return 0;
    int64_t fast = candidate->placement.fast[TPERF_AXIS_STAGES];
    if (fast == 1) return hop.slow;
    double links = (double)pp - 1;
    double slow_links = trunc((double)pp / (double)fast - 1);
    double slow = job->on.rules->slow_pipeline_links_cost ? hop.slow : 0;
    return ((links - slow_links) * hop.fast + slow_links * slow) / links;
}

// The parts of an iteration that add up to its time.
typedef struct parts {
    double work, data_comm, pipeline_comm, bubble, optimizer;
    double hidden; // of the work: collectives of overlapped passes
    double hop;
    waiting waits;
} parts;

// What overlapped passes save against one after the other. A pair is of one chunk.
static double pairs_of(const tperf_candidate *candidate) {
    const tperf_pipeline *p = candidate->pipeline;
    return p->pairs + p->pairs_each * (double)candidate->microbatches;
}

static double hidden_of(const tperf_candidate *candidate, const tperf_stage_time *busy) {
    const tperf_pipeline *p = candidate->pipeline;
    double pairs = pairs_of(candidate);
    if (pairs == 0) return 0;
    return pairs * (busy->forward + busy->backward - busy->pair) / (double)p->virtual_stages;
}

static parts parts_of(const tperf_candidate *candidate, const tperf_job *job,
                      const tperf_workload *network, const tperf_layer_cost *costs,
                      const tperf_pipeline_time *pipeline, const tperf_exchange *exchanges,
                      double hop, double optimizer) {
    double microbatches = (double)candidate->microbatches;
    hop *= (double)candidate->pipeline->virtual_stages;
    waiting data = waiting_of(candidate, job, network, costs, exchanges, optimizer);
    tperf_stage_time others = pipeline->others;
    others.forward += data.each_forward;
    others.backward += data.each_backward;
    return (parts){
        .work = microbatches * (pipeline->busy.forward + pipeline->busy.backward),
        .data_comm = data.time,
        .pipeline_comm = 2 * microbatches * hop,
        .bubble = bubble_of(candidate->pipeline, &others, hop),
        .optimizer = optimizer,
        .hidden = hidden_of(candidate, &pipeline->busy),
        .hop = hop,
        .waits = data,
    };
}

static double whole(const parts *p) {
    return p->work + p->bubble + p->data_comm + p->pipeline_comm + p->optimizer - p->hidden;
}

double tperf_iteration_time(const tperf_candidate *candidate, const tperf_job *job,
                            const tperf_workload *network, const tperf_layer_cost *costs,
                            const tperf_pipeline_time *pipeline, const tperf_exchange *exchanges,
                            double hop, double optimizer) {
    parts p = parts_of(candidate, job, network, costs, pipeline, exchanges, hop, optimizer);
    return whole(&p);
}

double tperf_iteration_bound(const tperf_candidate *candidate, const tperf_pipeline_time *pipeline,
                             double optimizer) {
    // The terms come in the order of whole() and rounding is monotonic, so the bound holds to the last bit.
    parts p = {
        .work =
            (double)candidate->microbatches * (pipeline->busy.forward + pipeline->busy.backward),
        .bubble = bubble_of(candidate->pipeline, &pipeline->others, 0),
        .optimizer = optimizer,
        .hidden = hidden_of(candidate, &pipeline->busy),
    };
    return whole(&p);
}

// Seconds of compute, memory and collectives of one micro-batch in a stage, both passes; and its FLOPs.
static tperf_pass_cost breakdown_of_stage(const tperf_stage *stage, const tperf_workload *network,
                                          const tperf_layer_cost *costs, double *flops) {
    tperf_pass_cost sum = {0};
    *flops = 0;
    for (int i = 0; i < network->n_kinds + 2; i++) {
        double layers = tperf_stage_layers(stage, i, network->n_kinds);
        tperf_pass_cost_add(&sum, &costs[i].forward, layers);
        tperf_pass_cost_add(&sum, &costs[i].backward, layers);
        *flops += layers * costs[i].flops;
    }
    return sum;
}

static double average_flops(const tperf_pipeline *pipeline, const tperf_workload *network,
                            const tperf_layer_cost *costs) {
    double all = 0, flops;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        breakdown_of_stage(&pipeline->stages[i], network, costs, &flops);
        all += (double)pipeline->stages[i].repeats * flops;
    }
    return all / (double)pipeline->pp;
}

tperf_iteration tperf_iteration_of(const tperf_candidate *candidate, const tperf_job *job,
                                   const tperf_workload *network, const tperf_layer_cost *costs) {
    tperf_pipeline_time pipeline = tperf_pipeline_time_of(candidate->pipeline, network, costs, job);
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exchange_times(candidate, job, network, costs, exchanges);
    parts p = parts_of(candidate, job, network, costs, &pipeline, exchanges,
                       tperf_hop_time(candidate, job, tperf_hop_times(job, network)),
                       tperf_optimizer_time(candidate, job, network, costs));
    double microbatches = (double)candidate->microbatches, flops;
    tperf_pass_cost busy = breakdown_of_stage(pipeline.busiest, network, costs, &flops);
    return (tperf_iteration){
        .time = whole(&p),
        .compute = microbatches * busy.compute,
        .memory = microbatches * busy.exposed_memory,
        .tensor_comm = microbatches * busy.comm - p.hidden,
        .data_comm = p.data_comm,
        .pipeline_comm = p.pipeline_comm,
        .bubble = p.bubble,
        .host = microbatches * pipeline.busy.host,
        .optimizer = p.optimizer,
        .offload = microbatches * busy.offload,
        .flops = microbatches * average_flops(candidate->pipeline, network, costs),
        .pipeline = pipeline,
        .hop = p.hop,
        .hidden = p.hidden,
        .each_forward = p.waits.each_forward,
        .each_backward = p.waits.each_backward,
        .waiting = p.waits.stage,
        .pairs = pairs_of(candidate),
    };
}

void tperf_passes_of(const tperf_candidate *candidate, const tperf_job *job,
                     const tperf_workload *network, const tperf_layer_cost *costs,
                     const tperf_stage *chunks, int64_t n, tperf_chunk_passes *passes,
                     tperf_device_waits *waits) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    double hop = tperf_hop_time(candidate, job, tperf_hop_times(job, network));
    bool gathers_each = tperf_gathers_each(candidate, job->training);
    bool reduces_each = tperf_reduces_each(candidate, job->training);
    tperf_exchange_times(candidate, job, network, costs, exchanges);
    tperf_exposures_of(candidate, job, network, costs, exchanges,
                       tperf_optimizer_time(candidate, job, network, costs), sections);
    for (int64_t c = 0; c < n; c++) {
        tperf_stage_time t = tperf_stage_time_of(&chunks[c], network, costs, job);
        tperf_exposure e = tperf_stage_exposure(&chunks[c], network, sections);
        double forward = hop + (gathers_each ? e.gather : 0);
        double backward = hop + (reduces_each ? e.reduce : 0);
        passes[c] =
            (tperf_chunk_passes){{t.forward + forward, t.backward + backward, t.weight_grad, t.host,
                                  t.pair + forward + backward},
                                 tperf_chunk_memory_of(candidate, job, network, costs, &chunks[c])};
    }
    int64_t device = 0;
    double each = (double)candidate->pipeline->virtual_stages;
    for (size_t i = 0; i < candidate->pipeline->n_devices; i++) {
        const tperf_stage *stage = &candidate->pipeline->devices[i];
        tperf_exposure e = tperf_stage_exposure(stage, network, sections);
        for (int64_t r = 0; r < stage->repeats; r++)
            waits[device++] = (tperf_device_waits){
                e.first_gather + (gathers_each ? 0 : e.gather / each),
                e.first_reduce + e.update + (reduces_each ? 0 : e.reduce / each)};
    }
}
