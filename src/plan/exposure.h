// exposure.h: the steps of an iteration's formula, inlined where candidates are walked so that each stands only once.
// Private to src/plan and src/search. See tperf/plan.h, docs/model.md section 6.
#ifndef TPERF_PLAN_EXPOSURE_H
#define TPERF_PLAN_EXPOSURE_H

#include "tperf/plan.h"

// Compilers consider these too large to inline; the search is faster if they are.
#ifdef __GNUC__
#define TPERF_INLINED __attribute__((always_inline)) static inline
#else
#define TPERF_INLINED static inline
#endif

// The layers of a stage by section, without empty sections.
typedef struct tperf_holding {
    int n, leading; // tperf_leading_section
    // An earlier stage holds at least as much of each section and begins with the same one: this one waits no longer.
    bool covered;
    struct {
        int section;
        double layers;
    } parts[TPERF_SECTIONS_MAX];
} tperf_holding;

// Bit i of `sections`: section i counts. A section with neither ops nor weights costs nothing.
tperf_holding tperf_holding_of(const tperf_stage *stage, const tperf_workload *workload,
                               unsigned sections);
void tperf_holdings_of(const tperf_pipeline *pipeline, const tperf_workload *workload,
                       unsigned sections, tperf_holding *holdings);
enum { TPERF_ALL_SECTIONS = (1 << TPERF_SECTIONS_MAX) - 1 };

// The holding of stage i: known[i], or computed into *own if known is NULL.
static inline const tperf_holding *tperf_holding_at(const tperf_holding *known,
                                                    const tperf_pipeline *pipeline, size_t i,
                                                    const tperf_workload *workload,
                                                    tperf_holding *own) {
    if (known) return &known[i];
    *own = tperf_holding_of(&pipeline->stages[i], workload, TPERF_ALL_SECTIONS);
    return own;
}

// The cover of a layer's exchanges with replicas: seconds of its passes that they may overlap, and the fraction of an
// exchange's seconds by which it slows such a pass.
typedef struct tperf_cover {
    double forward, backward, slows_forward, slows_backward;
} tperf_cover;

// bucket: the number of layers in a bucket.
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

// simple: no bucket of a section that leads a stage exceeds one layer, and nothing is gathered for the optimizer
// step; the leading part is then at most what the stage hides.
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

// Shared by all placements of a candidate.
typedef struct tperf_pace {
    const tperf_pipeline *pipeline;
    const tperf_holding *stages; // of the pipeline's stages; may be NULL
    const tperf_workload *workload;
    double microbatches, chunks;
    bool gathers_each, reduces_each;
    // Exposed exchanges of a chunk per iteration: gathers, reductions.
    double gathers, reduces;
    double optimizer;
} tperf_pace;

tperf_pace tperf_pace_of(const tperf_candidate *candidate, const tperf_training *training,
                         const tperf_workload *workload, double optimizer);

// The stage that waits longest for its replicas: seconds per iteration, and the part that every micro-batch's passes
// wait.
typedef struct tperf_waiting {
    double time, each_forward, each_backward;
    const tperf_stage *stage;
} tperf_waiting;

// Weights are gathered once, or for every micro-batch if they are sharded (ZeRO 3); likewise gradients (ZeRO 2). Only a
// device's first chunk waits for a single exchange: the other chunks' weights travel while it works, and their
// gradients are complete before its own.
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
    double hop;    // added to each of a device's passes
} tperf_parts;

// hop: seconds added to each pass of a stage for its message.
static inline double tperf_bubble_of(const tperf_pipeline *pipeline, double forward,
                                     double backward, double weight_grad, double hop) {
    return pipeline->bubble_forward * (forward + hop) +
           pipeline->bubble_backward * (backward + hop) +
           pipeline->bubble_weight_grad * weight_grad;
}

// The number of overlapped pairs. A pair belongs to one chunk.
static inline double tperf_pairs_of(const tperf_pace *pace) {
    return pace->pipeline->pairs + pace->pipeline->pairs_each * pace->microbatches;
}

static inline double tperf_hidden_of(const tperf_pace *pace, const tperf_stage_time *busy) {
    double pairs = tperf_pairs_of(pace);
    if (pairs == 0) return 0;
    return pairs * (busy->forward + busy->backward - busy->pair) / pace->chunks;
}

// If waiting is NULL, without messages between stages and exchanges with replicas: a lower bound for every placement,
// to the last bit, since terms are added in the same order and rounding is monotonic.
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

// The number of layers of a section in one bucket. Buckets are sized in unsharded parameters: it may be below one.
double tperf_layers_of_bucket(const tperf_candidate *candidate, const tperf_job *job,
                              const tperf_workload *workload, const tperf_layer_cost *cost);

// Like tperf_exchange_times, for known groups of replicas. Of costs only the bytes are read.
void tperf_exchange_times_among(const tperf_replicas *dense, const tperf_replicas *experts,
                                int zero, const tperf_job *job, const tperf_workload *workload,
                                const tperf_layer_cost *costs, tperf_exchange *exchanges);

// Seconds of a pipeline's stages for these layer costs; stages: as in tperf_pace.
tperf_pipeline_time tperf_pipeline_time_of(const tperf_pipeline *pipeline,
                                           const tperf_holding *stages,
                                           const tperf_workload *workload,
                                           const tperf_layer_cost *costs, const tperf_job *job);

#endif
