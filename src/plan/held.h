// held.h: a GPU's memory in steps. What a stage holds before replicas share it is the same for all sizes, ZeRO stages
// and numbers of micro-batches, and for every pipeline with such a stage; the rest is a few sums, inlined where
// candidates are walked. Private to src/plan and src/search. See docs/memory.md for the sources.
#ifndef TPERF_PLAN_HELD_H
#define TPERF_PLAN_HELD_H

#include "base/minmax.h"
#include "tperf/plan.h"

// An amount of weights, before replicas share it. owned: the part in the largest matrix, if one replica owns all of that
// under ZeRO 1 (tperf_training.broadcast_layers).
typedef struct tperf_amount {
    double dense, experts, owned;
} tperf_amount;

// A stage's weights, of all their copies.
typedef struct tperf_stage_weights {
    tperf_amount kept, gathered, gradients, optimizer; // bytes
    tperf_amount buckets;                              // bytes of copies of gradients
    tperf_amount updated;                              // that the optimizer step moves
    double copies, steps;                              // bytes, see tperf_weights; never shared
    // Bytes of the largest layer and its gradients, whole: [weights count, not only gradients][experts count].
    double whole[2][2];
} tperf_stage_weights;

// A stage's activation bytes: per micro-batch in flight; of the section `last`; recomputed; of one pass; both on the
// host.
typedef struct tperf_stage_activations {
    double saved, last_saved, again, work, host, last_host;
} tperf_stage_activations;

// How the stages of a candidate share their weights, and what all of them hold.
typedef struct tperf_sharing {
    int zero;
    double microbatches;
    double shards, expert_shards; // parts into which ZeRO cuts a weight
    bool reduced;                 // tperf_reduces_each
    double last_in_flight;
    bool counts_passing;      // the rule memory_counts_passing
    double messages, buffers; // bytes
    double communicators;     // bytes of the buffers that are not the allocator's
} tperf_sharing;

// Whether some weights are spread as experts.
bool tperf_has_experts(const tperf_workload *workload, const tperf_layer_cost *costs);

// Of costs only the bytes are read. copies: the pipeline's weight_copies.
tperf_stage_weights tperf_stage_weights_of(const tperf_stage *stage, double copies,
                                           const tperf_training *training,
                                           const tperf_workload *workload,
                                           const tperf_layer_cost *costs);

// chunks: the pipeline's virtual_stages.
tperf_stage_activations tperf_stage_activations_of(const tperf_stage *stage, double copies,
                                                   double chunks, const tperf_training *training,
                                                   const tperf_workload *workload,
                                                   const tperf_layer_cost *costs);

// experts: tperf_has_experts of the costs.
tperf_sharing tperf_sharing_of(const tperf_candidate *candidate, const tperf_job *job,
                               const tperf_workload *workload, bool experts);

// The same for known numbers of parts.
tperf_sharing tperf_sharing_among(const tperf_candidate *candidate, const tperf_job *job,
                                  const tperf_workload *workload, int64_t shards,
                                  int64_t expert_shards);

// The same for the candidate's other ZeRO stages.
static inline void tperf_sharing_at(tperf_sharing *s, const tperf_candidate *candidate,
                                    const tperf_training *training) {
    s->zero = candidate->zero;
    s->reduced = tperf_reduces_each(candidate, training);
}

static inline double tperf_share(tperf_amount amount, const tperf_sharing *s, bool sharded) {
    if (!sharded) return amount.dense + amount.experts;
    double dense = amount.dense / s->shards;
    if (s->zero == 1) dense = tperf_larger(dense, amount.owned);
    return amount.experts > 0 ? dense + amount.experts / s->expert_shards : dense;
}

// Bytes that the optimizer step moves on a GPU.
static inline double tperf_updated_bytes(tperf_amount updated, double steps,
                                         const tperf_sharing *s) {
    return tperf_share(updated, s, s->zero >= 1) + steps;
}

// Seconds in which the optimizer step moves these bytes; software->optimizer is not 0.
static inline double tperf_update_time(const tperf_job *job, double bytes) {
    return bytes / (job->on.software->optimizer * job->on.system->accelerator.hbm.bandwidth);
}

// The current layer and the prefetched one are whole, as are one layer's gradients (torch.distributed.fsdp,
// BackwardPrefetch.BACKWARD_PRE); if only gradients are sharded, only these.
static inline double tperf_whole_layers(const tperf_stage_weights *w, const tperf_sharing *s,
                                        const tperf_training *t) {
    bool weights = s->zero >= 3 && t->reshards > 0;
    if (s->zero < 2 || s->shards == 1 || !(weights || s->reduced)) return 0;
    return w->whole[weights][s->expert_shards > 1];
}

// PyTorch's DistributedDataParallel has a place for every gradient in its buckets.
static inline double tperf_buckets(const tperf_stage_weights *w, const tperf_sharing *s) {
    return s->shards > 1 ? tperf_share(w->buckets, s, false) : 0;
}

// The part of the gradients that stays on the GPU between passes: where the optimizer owns their shards, the host has
// them with its part of the optimizer's state.
static inline double tperf_gradients_here(const tperf_sharing *s, const tperf_training *t) {
    if (s->zero >= 3 && t->gradients_replaced) return 0;
    return t->gradients_follow && s->reduced ? 1 - t->offloaded : 1;
}

// in_flight: the stage's.
static inline tperf_memory tperf_memory_at(const tperf_stage_weights *w,
                                           const tperf_stage_activations *a, double in_flight,
                                           const tperf_sharing *s, const tperf_training *t) {
    tperf_memory m = {
        .weights = tperf_share(w->kept, s, s->zero >= 3) + w->copies,
        .gradients = tperf_gradients_here(s, t) * tperf_share(w->gradients, s, s->reduced) +
                     tperf_buckets(w, s),
        .optimizer = tperf_share(w->optimizer, s, s->zero >= 1),
        .activations = tperf_smaller(in_flight, s->microbatches) * a->saved +
                       tperf_smaller(s->last_in_flight, s->microbatches) * a->last_saved,
        .host = tperf_smaller(in_flight, s->microbatches) * a->host +
                tperf_smaller(s->last_in_flight, s->microbatches) * a->last_host,
    };
    if (t->weights_on_host) {
        m.host += m.weights - w->copies;
        m.weights = w->copies;
    }
    if (s->zero >= 3 && t->reshards == 0 && s->shards > 1)
        m.weights += tperf_share(w->gathered, s, false);
    if (t->gradients_follow && s->reduced && !(s->zero >= 3 && t->gradients_replaced))
        m.host += t->offloaded * tperf_share(w->gradients, s, true);
    m.host += t->offloaded * m.optimizer;
    m.optimizer -= t->offloaded * m.optimizer;
    if (s->counts_passing)
        m.passing = a->again + a->work + tperf_whole_layers(w, s, t) + s->messages;
    m.buffers = s->buffers;
    if (s->counts_passing) {
        double allocated = m.weights + m.gradients + m.optimizer + m.activations + m.passing +
                           m.buffers - s->communicators;
        m.runtime = t->context_bytes + t->slack * allocated;
    }
#define PART(name, held) m.total += m.name;
    TPERF_MEMORY_PARTS(PART)
#undef PART
    return m;
}

#endif
