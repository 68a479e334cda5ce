// evaluate.c: evaluates the placements of one pipeline, data-parallel size and ZeRO stage. See walk.h.
#include <float.h>
#include <math.h>
#include <string.h>

#include "search/walk.h"

static void prepare_works(tperf_walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tperf_workload_work(w->workload, &w->job.on, w->shape->panels[i],
                            &w->scratch->works[i * w->workload->n_ops]);
    w->worked_out = true;
}

// Adds the times in a placement, for the i-th number of panels, to the costs; false: out of memory.
static bool add_times(tperf_walk *w, const tperf_placement *placement, size_t i,
                      tperf_layer_cost *costs) {
    tperf_scratch *s = w->scratch;
    if (!w->shares_prices) {
        prepare_works(w);
        tperf_workload_add_times(w->workload, &w->job.on, placement,
                                 &s->works[i * w->workload->n_ops], costs);
        return true;
    }
    const tperf_op_price *const *prices =
        tperf_prices_of(&s->prices, &w->search->heap.heap, w->workload, &w->job.on, placement);
    if (prices) tperf_workload_add_prices(w->workload, &w->job.on, prices, costs);
    return prices != NULL;
}

static void add_cost(const tperf_walk *w, const tperf_layer_cost *costs, size_t at) {
    tperf_scratch *s = w->scratch;
    for (size_t u = 0; u < w->n_used; u++) {
        const tperf_layer_cost *cost = &costs[w->used[u]];
        s->layers[at + w->used[u]] = tperf_layer_time_of(&w->job, cost);
        s->covers[at + w->used[u]] = tperf_cover_of(&w->job, cost);
    }
}

// Computes what the layers cost in a placement, for every number of panels. False if out of memory.
static bool price(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (s->timed[placed].timed_for == s->shape_stamp) return true;
    tperf_placement placement;
    memcpy(placement.fast, tperf_walk_layouts(w)->placed[placed].fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        size_t at = (placed * w->shape->n_panels + i) * w->n_sections;
        tperf_layer_cost *costs = &s->costs[w->search->options.by_least ? at : 0];
        placement.panels = w->shape->panels[i];
        memcpy(costs, w->bytes, w->n_sections * sizeof *costs);
        if (!add_times(w, &placement, i, costs)) return false;
        add_cost(w, costs, at);
    }
    s->timed[placed].timed_for = s->shape_stamp;
    return true;
}

static inline const tperf_placement_run *runs_of(const tperf_walk *w) {
    return &tperf_walk_cached_placements(w)->runs[w->list->first_run];
}

static inline size_t n_runs(const tperf_walk *w) {
    return w->list->end_run - w->list->first_run;
}

// Computes the pipeline's times in all placements, unless they are known from a pipeline alike. False if out of memory.
static bool pace(tperf_walk *w) {
    tperf_scratch *s = w->scratch;
    const tperf_search *search = w->search;
    const tperf_pipeline *pipeline = w->partial.pipeline;
    tperf_paced_for now = {s->shape_stamp, w->query_index,
                           search->alike[pipeline - search->options.pipelines]};
    tperf_paced_for *before = &s->paced_for;
    if (before->shape == now.shape && before->query == now.query && before->alike == now.alike)
        return true;
    const tperf_placement_run *runs = runs_of(w);
    tperf_pipeline_time *paced = s->paced;
    for (size_t r = 0; r < n_runs(w); r++) {
        if (!price(w, runs[r].placed)) return false;
        size_t at = runs[r].placed * w->shape->n_panels * w->n_sections;
        for (size_t p = 0; p < w->shape->n_panels; p++, at += w->n_sections)
            *paced++ = tperf_pipeline_time_of(pipeline, w->pace.stages, w->workload, &s->layers[at],
                                              &w->job);
    }
    *before = now;
    return true;
}

static void place_at(tperf_walk *w, const tperf_placement_entry *entry) {
    w->partial.placement.fast[TPERF_AXIS_REPLICAS] = entry->replicas;
    w->partial.placement.fast[TPERF_AXIS_STAGES] = entry->stages;
}

// A time above `latest` gives a lower throughput than the worst of the best, however its quotient rounds.
static void note_latest(tperf_walk *w) {
    const tperf_best *best = &w->result->best;
    w->latest = best->n < best->limit ? INFINITY
                                      : (double)w->job.global_batch / best->found[0].throughput *
                                            (1 + 4 * DBL_EPSILON);
}

static bool keep(tperf_walk *w, const tperf_placement_entry *entry, double time) {
    double throughput = (double)w->job.global_batch / time;
    if (!tperf_best_admits(&w->result->best, throughput)) return true;
    place_at(w, entry);
    tperf_found found = {throughput, w->memory, w->feasible, w->partial};
    const tperf_search_options *options = &w->search->options;
    if (!tperf_best_wants(&w->result->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->query_index, &found))
        return true;
    bool kept = tperf_best_keep(&w->result->best, &found);
    note_latest(w);
    return kept;
}

static bool ruled_out(const tperf_walk *w, const tperf_pipeline_time *time, double hidden) {
    if (w->search->options.no_pruning || w->search->options.by_least) return false;
    tperf_lanes none = tperf_lanes_of(0);
    tperf_parts bound =
        tperf_parts_of(&w->pace, time, hidden, &(tperf_waiting){none, none, none}, none);
    tperf_lanes least = tperf_whole(&bound);
    return TPERF_LANE(least, 0) > w->latest;
}

static inline const tperf_exchange *exchanges_of(tperf_walk *w, uint32_t index) {
    tperf_exchanged *e =
        &w->scratch->exchanged[w->query_index].of[index * w->search->options.n_zero + w->zero];
    if (e->timed_for == w->scratch->weights_stamp) return e->sections;
    const tperf_exchange_groups *groups = &tperf_walk_cached_placements(w)->exchanges[index];
    tperf_exchange_times_among(&groups->dense, &groups->experts, w->partial.zero, &w->job,
                               w->workload, w->bytes, e->sections);
    e->timed_for = w->scratch->weights_stamp;
    return e->sections;
}

static inline double hop_of(tperf_walk *w, const tperf_placement_entry *entry) {
    tperf_cached_hop *cached = &w->scratch->hops[entry->hop];
    if (cached->hop_for == w->scratch->hop_stamp) return cached->hop;
    cached->hop_for = w->scratch->hop_stamp;
    return cached->hop = tperf_hop_among((double)w->partial.pipeline->pp, entry->stages, w->hop,
                                         w->job.on.rules->slow_pipeline_links_cost);
}

static double least_of(tperf_walk *w, const tperf_placement_entry *entry,
                       const tperf_layer_cost *costs) {
    place_at(w, entry);
    return tperf_iteration_least(&w->partial, &w->job, w->workload, costs,
                                 exchanges_of(w, entry->exchange), hop_of(w, entry),
                                 w->pace.optimizer);
}

// Times up to TPERF_LANES placements whose layers have these covers. simple: see tperf_holding_exposures.
TPERF_INLINED tperf_lanes time_lanes(tperf_walk *w, const tperf_placement_entry *entries, size_t n,
                                     const tperf_cover *covers, const tperf_pipeline_time *pipeline,
                                     double hidden, bool simple) {
    const bool gather_in_step = w->job.training->gather_in_step;
    const tperf_placement_entry *a = &entries[0], *b = &entries[n > 1 ? 1 : 0];
    const tperf_exchange *x = exchanges_of(w, a->exchange), *y = exchanges_of(w, b->exchange);
    tperf_lanes hop = tperf_lanes_from(hop_of(w, a), hop_of(w, b));
    tperf_exposures exposures[TPERF_SECTIONS_MAX];
    for (size_t u = 0; u < w->n_used; u++) {
        size_t i = w->used[u];
        tperf_exchanging both = {tperf_lanes_from(x[i].gather, y[i].gather),
                                 tperf_lanes_from(x[i].reduce, y[i].reduce),
                                 tperf_lanes_from(x[i].update, y[i].update)};
        exposures[i] =
            tperf_exposures_at(&both, &covers[i], w->buckets[i], gather_in_step, w->pace.optimizer);
        if (simple) exposures[i].update = tperf_lanes_of(0);
    }
    tperf_waiting waiting = tperf_waiting_of(&w->pace, exposures, simple, NULL);
    tperf_parts parts = tperf_parts_of(&w->pace, pipeline, hidden, &waiting, hop);
    return tperf_whole(&parts);
}

static inline tperf_lanes time_placements(tperf_walk *w, const tperf_placement_entry *entries,
                                          size_t n, size_t at, const tperf_pipeline_time *pipeline,
                                          double hidden) {
    const tperf_cover *covers = &w->scratch->covers[at];
    if (w->simple) return time_lanes(w, entries, n, covers, pipeline, hidden, true);
    return time_lanes(w, entries, n, covers, pipeline, hidden, false);
}

// Evaluates placements with equal layer costs, for one number of panels. at: index of their first section's times.
static bool try_placements(tperf_walk *w, const tperf_placement_entry *entries, size_t n, size_t at,
                           const tperf_pipeline_time *pipeline, double hidden) {
    w->result->evaluated += (int64_t)n;
    if (w->search->options.by_least) {
        for (size_t i = 0; i < n; i++)
            if (!keep(w, &entries[i], least_of(w, &entries[i], &w->scratch->costs[at])))
                return false;
        return true;
    }
    for (size_t from = 0; from < n; from += TPERF_LANES) {
        tperf_lanes times = time_placements(w, entries + from, n - from, at, pipeline, hidden);
        for (size_t l = 0; l < TPERF_LANES && l < n - from; l++) {
            double time = TPERF_LANE(times, l);
            if (!(time > w->latest) && !keep(w, &entries[from + l], time)) return false;
        }
    }
    return true;
}

// Evaluates the placements of a run, for every number of panels. entries: the run's n ones.
static bool walk_run(tperf_walk *w, const tperf_placement_entry *entries, size_t n,
                     const tperf_pipeline_time *paced) {
    uint32_t placed = entries->placed;
    size_t at = placed * w->shape->n_panels * w->n_sections;
    memcpy(w->partial.placement.fast, tperf_walk_layouts(w)->placed[placed].fast,
           sizeof w->partial.placement.fast);
    for (size_t p = 0; p < w->shape->n_panels; p++, at += w->n_sections) {
        double hidden = tperf_hidden_of(&w->pace, &paced[p].busy);
        if (ruled_out(w, &paced[p], hidden)) continue;
        w->partial.placement.panels = w->shape->panels[p];
        if (!try_placements(w, entries, n, at, &paced[p], hidden)) return false;
    }
    return true;
}

// Like tperf_optimizer_time.
static double optimizer_time(tperf_walk *w) {
    const tperf_training *t = w->job.training;
    if (t->offloaded > 0 || t->iterations > 0)
        return tperf_optimizer_time(&w->partial, &w->job, w->workload, w->bytes);
    if (w->job.on.software->optimizer == 0) return 0;
    return tperf_update_time(&w->job,
                             tperf_stock_updated(&w->scratch->stock, tperf_walk_contents(w),
                                                 &w->partial, &w->sharing, t, w->workload));
}

bool tperf_walk_placements(tperf_walk *w) {
    const tperf_search *search = w->search;
    size_t pipeline = (size_t)(w->partial.pipeline - search->options.pipelines);
    w->pace = tperf_pace_of(&w->partial, w->job.training, w->workload, optimizer_time(w));
    w->pace.stages = &w->scratch->holdings.of[search->first_stage[pipeline]];
    if (!pace(w)) return false;
    note_latest(w);
    const tperf_placement_run *runs = runs_of(w);
    const tperf_placement_entry *entries = tperf_walk_cached_placements(w)->placements;
    size_t from = w->list->begin;
    for (size_t r = 0; r < n_runs(w); from = runs[r++].end)
        if (!walk_run(w, &entries[from], runs[r].end - from,
                      &w->scratch->paced[r * w->shape->n_panels]))
            return false;
    return true;
}
