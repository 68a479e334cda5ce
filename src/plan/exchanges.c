// exchanges.c: the collectives among replicas: gathers of weights, reductions of gradients. See tperf/plan.h.
#include <math.h>

#include "plan/exposure.h"

// A collective among replicas, prepared for any number of bytes.
typedef struct exchanger {
    const tperf_job *job;
    tperf_collective kind;
    tperf_group group;
    bool has_rate;
    tperf_rate rate;
    double parts;  // collectives one after the other, each of an equal part
    double copied; // bytes that come from the host first
} exchanger;

static exchanger exchanger_of(const tperf_job *job, tperf_collective kind, tperf_group group) {
    exchanger e = {.job = job, .kind = kind, .group = group, .parts = 1};
    if (group.size > 1)
        e.has_rate = tperf_collective_rate(job->on.system, job->on.rules, kind, group, &e.rate);
    return e;
}

static double exchange(const exchanger *e, double bytes) {
    double part = bytes / e->parts;
    double copy = e->copied > 0 ? tperf_copy_time(e->job->on.system, e->copied) : 0;
    if (!e->has_rate)
        return copy + e->parts * tperf_collective_time(e->job->on.system, e->job->on.rules, e->kind,
                                                       part, e->group);
    return copy + (bytes > 0 ? e->parts * (e->rate.latency_s + part * e->rate.per_byte_s) : 0);
}

// The collectives that gather weights and reduce gradients among the GPUs with copies of them.
typedef struct exchangers {
    int zero; // stage
    exchanger gather, reduce;
    double owners; // among which a layer's matrices are dealt out; 0: each has a shard of all
    int n_copies;
    exchanger copies[TPERF_AXES_MAX];
    double bytes[TPERF_AXES_MAX]; // fraction of the gradient's bytes
} exchangers;

static void make_exchangers(exchangers *e, const tperf_replicas *r, int zero, int64_t stages,
                            const tperf_job *job) {
    e->zero = zero;
    double layers = job->training->broadcast_layers / (double)stages;
    e->owners = zero == 1 && layers > 0 ? (double)r->shards.size / layers : 0;
    e->gather = exchanger_of(job, e->owners > 0 ? TPERF_BROADCAST : TPERF_ALL_GATHER, r->shards);
    bool whole = zero == 0 || (zero == 1 && job->training->reduces_whole);
    e->reduce = exchanger_of(job, whole ? TPERF_ALL_REDUCE : TPERF_REDUCE_SCATTER, r->shards);
    e->n_copies = (int)r->n_copies;
    for (int i = 0; i < e->n_copies; i++) {
        e->copies[i] = exchanger_of(job, TPERF_ALL_REDUCE, r->copies[i].group);
        e->bytes[i] = r->copies[i].bytes / (zero ? (double)r->shards.size : 1);
    }
}

static tperf_replicas replicas_of(const tperf_plan *plan, bool experts) {
    const tperf_candidate *candidate = plan->candidate;
    return tperf_grid_replicas(&plan->workload->grid, candidate->sizes, candidate->placement.fast,
                               experts);
}

// Weights travel as they are kept, or cast to the compute dtype if that is smaller; gradients are reduced in the
// precision in which they are kept. Frozen weights travel if they are sharded, but not after an optimizer step, which
// leaves them unchanged.
static double gathered_bytes(const tperf_training *t, const tperf_weights *weights, int zero) {
    double trained = weights->gathered;
    if (t->kept_bytes > 0) trained = fmin(t->kept_bytes * weights->count, trained);
    return trained + (zero >= 3 ? weights->frozen : 0);
}

// Bytes of a GPU's shard of weights that are kept on the host, which are copied as they are kept
// (torch.distributed.fsdp, CPUOffloadPolicy).
static double shard_bytes(const tperf_training *t, const tperf_weights *weights, double shards) {
    double trained = t->kept_bytes > 0 ? t->kept_bytes * weights->count : weights->gathered;
    return (trained + weights->frozen) / shards;
}

static bool has_experts(const tperf_workload *workload, const tperf_layer_cost *costs) {
    for (int i = 0; i < workload->n_sections; i++)
        if (costs[i].experts.bytes > 0) return true;
    return false;
}

// Adds one collective to the visitor's result.
typedef void visitor(void *result, const exchanger *e, double bytes, bool gathers, bool experts);

// Visits the collectives of one set of weights.
TPERF_INLINED void visit_comms(const exchangers *x, const tperf_weights *weights, bool experts,
                               visitor *visit, void *result) {
    const tperf_training *t = x->reduce.job->training;
    if (x->zero) {
        exchanger gather = x->gather;
        if (x->owners > 0) gather.parts = fmin(fmax(weights->matrices, 1), x->owners);
        if (t->weights_on_host)
            gather.copied = shard_bytes(t, weights, fmax((double)gather.group.size, 1));
        visit(result, &gather, gathered_bytes(t, weights, x->zero), true, experts);
    }
    double gradients = t->gradient_bytes * weights->count;
    visit(result, &x->reduce, gradients, false, experts);
    for (int i = 0; i < x->n_copies; i++)
        visit(result, &x->copies[i], gradients * x->bytes[i], false, experts);
}

// Those of one layer of a section.
TPERF_INLINED void visit_layer(const exchangers *dense, const exchangers *expert,
                               const tperf_layer_cost *cost, visitor *visit, void *result) {
    visit_comms(dense, &cost->weights, false, visit, result);
    if (cost->experts.bytes > 0) visit_comms(expert, &cost->experts, true, visit, result);
}

typedef struct comm_list {
    tperf_replica_comm *comms;
    int n;
} comm_list;

static void append(void *result, const exchanger *e, double bytes, bool gathers, bool experts) {
    comm_list *list = result;
    list->comms[list->n++] = (tperf_replica_comm){
        .kind = e->kind,
        .group = e->group,
        .bytes = bytes,
        .seconds = exchange(e, bytes),
        .parts = e->parts,
        .gathers = gathers,
        .experts = experts,
    };
}

static void add_seconds(void *result, const exchanger *e, double bytes, bool gathers,
                        bool experts) {
    (void)experts;
    tperf_exchange *sum = result;
    *(gathers ? &sum->gather : &sum->reduce) += exchange(e, bytes);
}

int tperf_replica_comms_of(const tperf_plan *plan, int section,
                           tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX]) {
    tperf_replicas copies = replicas_of(plan, false), experts = replicas_of(plan, true);
    const tperf_candidate *candidate = plan->candidate;
    exchangers dense, expert;
    make_exchangers(&dense, &copies, candidate->zero, candidate->pipeline->pp, plan->job);
    make_exchangers(&expert, &experts, candidate->zero, candidate->pipeline->pp, plan->job);
    comm_list list = {comms, 0};
    visit_layer(&dense, &expert, &plan->costs[section], append, &list);
    return list.n;
}

// A matrix is orthogonalised whole: replicas that shard its state gather its update in 16 bits (arXiv 2502.16982,
// section 2.3), unless one of them owns all of it. Embedding and head are excluded.
static double update_time(int zero, const tperf_job *job, const exchangers *dense,
                          const exchangers *expert, const tperf_layer_cost *cost, bool is_layer) {
    enum { UPDATE_BYTES = 2 };
    if (job->training->iterations == 0 || zero == 0 || !is_layer || dense->owners > 0) return 0;
    double seconds = exchange(&dense->gather, UPDATE_BYTES * cost->weights.count);
    if (cost->experts.count > 0)
        seconds += exchange(&expert->gather, UPDATE_BYTES * cost->experts.count);
    return seconds;
}

static bool has_weights(const tperf_layer_cost *cost) {
    const tperf_weights *w = &cost->weights;
    return w->count > 0 || w->gathered > 0 || w->frozen > 0 || cost->experts.bytes > 0;
}

void tperf_exchange_times_among(const tperf_among *among, const tperf_job *job,
                                const tperf_workload *workload, const tperf_layer_cost *costs,
                                tperf_exchange *exchanges) {
    exchangers dense, expert;
    int zero = among->zero;
    make_exchangers(&dense, among->dense, zero, among->stages, job);
    if (has_experts(workload, costs))
        make_exchangers(&expert, among->experts, zero, among->stages, job);
    for (int i = 0; i < workload->n_sections; i++) {
        tperf_exchange e = {0};
        exchanges[i] = e;
        if (!has_weights(&costs[i])) continue;
        visit_layer(&dense, &expert, &costs[i], add_seconds, &e);
        e.update = update_time(zero, job, &dense, &expert, &costs[i],
                               i != workload->n_kinds && i != workload->n_kinds + 1);
        if (zero >= 3 && job->training->reshards > 0) e.again = e.gather;
        e.reduce += e.again;
        exchanges[i] = e;
    }
}

// Devices with a copy of shared weights.
static int64_t sharing_devices(const tperf_pipeline *pipeline, const tperf_workload *workload,
                               int section) {
    int64_t count = 0;
    for (size_t i = 0; i < pipeline->n_devices; i++)
        if (tperf_stage_shares(&pipeline->devices[i], section, workload))
            count += pipeline->devices[i].repeats;
    return count;
}

// Domains from one to another of GPUs that are so many stages apart: stages lie outside all other axes. Where two of a
// group share a unit, it has room for both and what lies between.
static int64_t domains_between(const tperf_job *job, const tperf_workload *workload,
                               const tperf_candidate *candidate, double stages) {
    if (job->on.system->network.n_tiers == 0) return 1;
    double own = (double)tperf_grid_own_gpus(&workload->grid, workload->sizes, INT64_MAX);
    double gpus = own * (double)candidate->sizes[TPERF_AXIS_REPLICAS] * stages;
    return (int64_t)fmax(gpus / (double)job->on.system->network.fast.domain, 1);
}

tperf_joint tperf_joint_of(const tperf_job *job, const tperf_workload *workload,
                           const tperf_layer_cost *costs, const tperf_candidate *candidate,
                           int section, int64_t together) {
    const tperf_pipeline *pipeline = candidate->pipeline;
    double rate = job->training->gradient_bytes;
    if (section < workload->n_kinds + 2) {
        if (!tperf_ends_apart(pipeline)) return (tperf_joint){.group = {1, 1, 1, 1}};
        int64_t far = domains_between(job, workload, candidate, (double)(pipeline->pp - 1) / 2);
        return (tperf_joint){{2, together == pipeline->pp ? 2 : 1, 1, far},
                             rate * costs[workload->n_kinds + 1].tied.count};
    }
    int64_t copies = sharing_devices(pipeline, workload, section);
    if (copies < 2) return (tperf_joint){.group = {1, 1, 1, 1}};
    int64_t near = tperf_gcd(copies, together == pipeline->pp ? copies : together);
    int64_t far =
        domains_between(job, workload, candidate, (double)(pipeline->pp * near) / (double)copies);
    return (tperf_joint){{copies, near, 1, far},
                         rate * (costs[section].weights.count + costs[section].experts.count)};
}

double tperf_joint_time(const tperf_job *job, tperf_joint joint) {
    if (joint.group.size < 2) return 0;
    return tperf_collective_time(job->on.system, job->on.rules, TPERF_ALL_REDUCE, joint.bytes,
                                 joint.group);
}

double tperf_joint_time_of(const tperf_plan *plan, int section) {
    const tperf_candidate *candidate = plan->candidate;
    return tperf_joint_time(plan->job,
                            tperf_joint_of(plan->job, plan->workload, plan->costs, candidate,
                                           section, candidate->placement.fast[TPERF_AXIS_STAGES]));
}

void tperf_exchange_times(const tperf_plan *plan, tperf_exchange *exchanges) {
    tperf_replicas copies = replicas_of(plan, false), experts = replicas_of(plan, true);
    const tperf_among among = {&copies, &experts, plan->candidate->zero,
                               plan->candidate->pipeline->pp};
    tperf_exchange_times_among(&among, plan->job, plan->workload, plan->costs, exchanges);
}
