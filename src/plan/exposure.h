// exposure.h: the parts of an iteration in steps that are inlined where candidates are walked, so that the formulas
// stand once. Private to src/plan and src/search. See tperf/plan.h, docs/model.md section 6.
#ifndef TPERF_PLAN_EXPOSURE_H
#define TPERF_PLAN_EXPOSURE_H

#include "tperf/plan.h"

// What compilers find too large to inline, but pays only there.
#ifdef __GNUC__
#define TPERF_INLINED __attribute__((always_inline)) static inline
#else
#define TPERF_INLINED static inline
#endif

// The layers that a stage holds, by section, without sections that it has none of.
typedef struct tperf_holding {
    int n, leading; // tperf_leading_section
    bool
        covered; // a stage before it holds no less of each section and begins with the same: it waits no longer
    struct {
        int section;
        double layers;
    } parts[TPERF_SECTIONS_MAX];
} tperf_holding;

// sections: bit i: section i counts; what has neither ops nor weights adds nothing anywhere.
tperf_holding tperf_holding_of(const tperf_stage *stage, const tperf_workload *workload,
                               unsigned sections);
void tperf_holdings_of(const tperf_pipeline *pipeline, const tperf_workload *workload,
                       unsigned sections, tperf_holding *holdings);
enum { TPERF_ALL_SECTIONS = (1 << TPERF_SECTIONS_MAX) - 1 };

// What stage i of a pipeline holds: as known, or *own without.
static inline const tperf_holding *tperf_holding_at(const tperf_holding *known,
                                                    const tperf_pipeline *pipeline, size_t i,
                                                    const tperf_workload *workload,
                                                    tperf_holding *own) {
    if (known) return &known[i];
    *own = tperf_holding_of(&pipeline->stages[i], workload, TPERF_ALL_SECTIONS);
    return own;
}

// What hides a layer's exchanges with replicas: seconds of its passes beside which they run, and the part of
// an exchange's seconds that such a pass loses to it.
typedef struct tperf_cover {
    double forward, backward, slows_forward, slows_backward;
} tperf_cover;

// bucket: how many layers it holds.
TPERF_INLINED tperf_exposure tperf_exposure_of(const tperf_exchange *x, const tperf_cover *c,
                                               double bucket, bool gather_in_step,
                                               double optimizer) {
    double gather = tperf_exposed(x->gather, c->slows_forward * x->gather, c->forward);
    double reduce = tperf_exposed(x->reduce, c->slows_backward * x->reduce, c->backward);
    tperf_exposure e = {gather, reduce, x->gather - gather, x->reduce - reduce, 0, 0, x->update};
    e.first_gather = bucket * e.hidden_gather;
    e.first_reduce = bucket * e.hidden_reduce;
    if (gather_in_step)
        e.first_gather = e.first_gather - optimizer > 0 ? e.first_gather - optimizer : 0;
    return e;
}

// simple: no bucket of what leads a stage is larger than a layer and nothing is gathered for the optimizer's step. What leads a stage is then
// no more than what the stage hides.
TPERF_INLINED tperf_exposure tperf_holding_exposure(const tperf_holding *holding,
                                                    const tperf_exposure *sections, bool simple) {
    const tperf_exposure *first = &sections[holding->leading];
    tperf_exposure sum = {.first_gather = first->first_gather, .first_reduce = first->first_reduce};
    for (int i = 0; i < holding->n; i++) {
        const tperf_exposure *e = &sections[holding->parts[i].section];
        double layers = holding->parts[i].layers;
        sum.gather += layers * e->gather;
        sum.reduce += layers * e->reduce;
        if (simple) continue;
        sum.hidden_gather += layers * e->hidden_gather;
        sum.hidden_reduce += layers * e->hidden_reduce;
        sum.update += layers * e->update;
    }
    if (simple) return sum;
    if (!(sum.first_gather < sum.hidden_gather)) sum.first_gather = sum.hidden_gather;
    if (!(sum.first_reduce < sum.hidden_reduce)) sum.first_reduce = sum.hidden_reduce;
    return sum;
}

// What a candidate's placements share.
typedef struct tperf_pace {
    const tperf_pipeline *pipeline;
    const tperf_holding *stages; // of the pipeline's stages; may be NULL
    const tperf_workload *workload;
    double microbatches, chunks;
    bool gathers_each, reduces_each;
    double gathers,
        reduces; // of a chunk's exchanges in an iteration, for which nothing else is done meanwhile
    double optimizer;
} tperf_pace;

tperf_pace tperf_pace_of(const tperf_candidate *candidate, const tperf_training *training,
                         const tperf_workload *workload, double optimizer);

// Of the stage that waits longest for its replicas: seconds of an iteration, and of that what every micro-batch's
// passes wait.
typedef struct tperf_waiting {
    double time, each_forward, each_backward;
    const tperf_stage *stage;
} tperf_waiting;

// Weights are gathered once, or for every micro-batch when they are sharded (ZeRO 3), gradients likewise (ZeRO 2). What
// happens once is waited for by the first of a device's chunks alone: the weights of the others travel while it works,
// and so do their gradients, which are whole before its own.
TPERF_INLINED tperf_waiting tperf_waiting_of(const tperf_pace *pace, const tperf_exposure *sections,
                                             bool simple) {
    tperf_waiting worst = {0};
    for (size_t i = 0; i < pace->pipeline->n_stages; i++) {
        tperf_holding own;
        const tperf_holding *holding =
            tperf_holding_at(pace->stages, pace->pipeline, i, pace->workload, &own);
        if (holding->covered) continue;
        tperf_exposure e = tperf_holding_exposure(holding, sections, simple);
        double gather = pace->gathers * e.gather + e.first_gather;
        double reduce = pace->reduces * e.reduce + e.first_reduce + e.update;
        if (gather + reduce > worst.time)
            worst = (tperf_waiting){gather + reduce, pace->gathers_each ? e.gather : 0,
                                    pace->reduces_each ? e.reduce : 0, &pace->pipeline->stages[i]};
    }
    return worst;
}

// The parts of an iteration that add up to its time.
typedef struct tperf_parts {
    double work, data_comm, pipeline_comm, bubble, optimizer;
    double hidden; // of the work: collectives of overlapped passes
    double hop;    // that a pass of a device takes longer
} tperf_parts;

// hop: seconds that each pass of a stage takes longer for its message.
static inline double tperf_bubble_of(const tperf_pipeline *pipeline, double forward,
                                     double backward, double weight_grad, double hop) {
    return pipeline->bubble_forward * (forward + hop) +
           pipeline->bubble_backward * (backward + hop) +
           pipeline->bubble_weight_grad * weight_grad;
}

// What overlapped passes save against one after the other. A pair is of one chunk.
static inline double tperf_pairs_of(const tperf_pace *pace) {
    return pace->pipeline->pairs + pace->pipeline->pairs_each * pace->microbatches;
}

static inline double tperf_hidden_of(const tperf_pace *pace, const tperf_stage_time *busy) {
    double pairs = tperf_pairs_of(pace);
    if (pairs == 0) return 0;
    return pairs * (busy->forward + busy->backward - busy->pair) / pace->chunks;
}

// Without the messages between stages and the replicas' exchanges, if waiting is NULL: then a lower bound of every
// placement's, to the last bit, as terms are added in the same order and rounding is monotonic.
TPERF_INLINED tperf_parts tperf_parts_of(const tperf_pace *pace, const tperf_pipeline_time *time,
                                         const tperf_waiting *waiting, double hop) {
    const tperf_stage_time *busy = &time->busy, *others = &time->others;
    hop *= pace->chunks;
    return (tperf_parts){
        .work = pace->microbatches * (busy->forward + busy->backward),
        .data_comm = waiting ? waiting->time : 0,
        .pipeline_comm = 2 * pace->microbatches * hop,
        .bubble = tperf_bubble_of(
            pace->pipeline, others->forward + (waiting ? waiting->each_forward : 0),
            others->backward + (waiting ? waiting->each_backward : 0), others->weight_grad, hop),
        .optimizer = pace->optimizer,
        .hidden = tperf_hidden_of(pace, busy),
        .hop = hop,
    };
}

static inline double tperf_whole(const tperf_parts *p) {
    return p->work + p->bubble + p->data_comm + p->pipeline_comm + p->optimizer - p->hidden;
}

tperf_cover tperf_cover_of(const tperf_job *job, const tperf_layer_cost *cost);

// Layers of such a section that a bucket holds. Buckets are of whole ones' parameters: more than one may be part of a
// layer.
double tperf_layers_of_bucket(const tperf_candidate *candidate, const tperf_job *job,
                              const tperf_workload *workload, const tperf_layer_cost *cost);

// See tperf_exchange_times: the same of known groups of replicas. Costs give bytes only.
void tperf_exchange_times_among(const tperf_replicas *dense, const tperf_replicas *experts,
                                int zero, const tperf_job *job, const tperf_workload *workload,
                                const tperf_layer_cost *costs, tperf_exchange *exchanges);

// Seconds of a pipeline's stages with these costs of a layer of each section; stages: as tperf_pace has them.
tperf_pipeline_time tperf_pipeline_time_of(const tperf_pipeline *pipeline,
                                           const tperf_holding *stages,
                                           const tperf_workload *workload,
                                           const tperf_layer_cost *costs, const tperf_job *job);

#endif
