// evaluate.c: evaluates the placements of one pipeline, data-parallel size and ZeRO stage. See walk.h.
#include <string.h>

#include "search/walk.h"

static void cover_costs(const tperf_walk *w, const tperf_layer_cost *costs, tperf_cover *covers) {
    for (size_t i = 0; i < w->n_used; i++)
        covers[w->used[i]] = tperf_cover_of(&w->job, &costs[w->used[i]]);
}

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

// The workload's costs in a placement, for every number of panels; NULL: out of memory.
static const tperf_layer_cost *costs_of(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    size_t first = placed * w->shape->n_panels * w->n_sections;
    tperf_layer_cost *costs = &s->costs[first];
    if (s->timed[placed].timed_for == s->shape_stamp) return costs;
    tperf_placement placement;
    memcpy(placement.fast, tperf_walk_layouts(w)->placed[placed].fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        size_t at = i * w->n_sections;
        placement.panels = w->shape->panels[i];
        memcpy(&costs[at], w->bytes, w->n_sections * sizeof *costs);
        if (!add_times(w, &placement, i, &costs[at])) return NULL;
        cover_costs(w, &costs[at], &s->covers[first + at]);
    }
    s->timed[placed].timed_for = s->shape_stamp;
    return costs;
}

static const tperf_pipeline_time *pipeline_time(tperf_walk *w, size_t paced,
                                                const tperf_layer_cost *costs) {
    tperf_paced *p = &w->scratch->paced[paced];
    if (p->paced_for != w->scratch->pace_stamp)
        p->time = tperf_pipeline_time_of(w->partial.pipeline, w->pace.stages, w->workload, costs,
                                         &w->job);
    p->paced_for = w->scratch->pace_stamp;
    return &p->time;
}

static void place_at(tperf_walk *w, const tperf_placement_entry *entry) {
    w->partial.placement.fast[TPERF_AXIS_REPLICAS] = entry->replicas->gpus;
    w->partial.placement.fast[TPERF_AXIS_STAGES] = entry->stages->gpus;
}

static bool keep(tperf_walk *w, const tperf_placement_entry *entry, double throughput) {
    place_at(w, entry);
    tperf_found found = {throughput, w->memory, w->feasible, w->partial};
    const tperf_search_options *options = &w->search->options;
    if (!tperf_best_wants(&w->result->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->query_index, &found))
        return true;
    return tperf_best_keep(&w->result->best, &found);
}

static bool ruled_out(const tperf_walk *w, const tperf_pipeline_time *pipeline) {
    if (w->search->options.no_pruning || w->search->options.by_least) return false;
    tperf_parts bound = tperf_parts_of(&w->pace, pipeline, NULL, 0);
    return !tperf_best_admits(&w->result->best, (double)w->job.global_batch / tperf_whole(&bound));
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
    tperf_cached_hop *cached = &w->scratch->hops[entry->stages->index];
    if (cached->hop_for == w->scratch->hop_stamp) return cached->hop;
    place_at(w, entry);
    cached->hop_for = w->scratch->hop_stamp;
    return cached->hop = tperf_hop_time(&w->partial, &w->job, w->hop);
}

static double least_of(tperf_walk *w, const tperf_placement_entry *entry,
                       const tperf_layer_cost *costs) {
    place_at(w, entry);
    return tperf_iteration_least(&w->partial, &w->job, w->workload, costs,
                                 exchanges_of(w, entry->exchange), hop_of(w, entry),
                                 w->pace.optimizer);
}

// Times placements whose layers have these covers. simple: see tperf_holding_exposure.
TPERF_INLINED void time_placements(tperf_walk *w, const tperf_placement_entry *placements, size_t n,
                                   const tperf_cover *covers, const tperf_pipeline_time *pipeline,
                                   double *times, bool simple) {
    const bool gather_in_step = w->job.training->gather_in_step;
    for (size_t s = 0; s < n; s++) {
        const tperf_exchange *exchanges = exchanges_of(w, placements[s].exchange);
        for (size_t u = 0; u < w->n_used; u++) {
            size_t i = w->used[u];
            w->exposures[i] = tperf_exposure_of(&exchanges[i], &covers[i], w->buckets[i],
                                                gather_in_step, w->pace.optimizer);
        }
        tperf_waiting waiting = tperf_waiting_of(&w->pace, w->exposures, simple);
        tperf_parts parts = tperf_parts_of(&w->pace, pipeline, &waiting, hop_of(w, &placements[s]));
        times[s] = tperf_whole(&parts);
    }
}

static void time_all(tperf_walk *w, const tperf_placement_entry *placements, size_t n,
                     const tperf_layer_cost *costs, const tperf_pipeline_time *pipeline,
                     double *times) {
    const tperf_cover *covers = &w->scratch->covers[costs - w->scratch->costs];
    if (w->search->options.by_least)
        for (size_t i = 0; i < n; i++)
            times[i] = least_of(w, &placements[i], costs);
    else if (w->simple)
        time_placements(w, placements, n, covers, pipeline, times, true);
    else
        time_placements(w, placements, n, covers, pipeline, times, false);
}

// Evaluates placements with equal layer costs, for one number of panels.
static bool try_placements(tperf_walk *w, const tperf_placement_entry *placements, size_t n,
                           const tperf_layer_cost *costs, const tperf_pipeline_time *pipeline) {
    enum { AT_ONCE = 64 };
    double times[AT_ONCE], batch = (double)w->job.global_batch;
    w->result->evaluated += (int64_t)n;
    for (size_t from = 0; from < n; from += AT_ONCE) {
        size_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
        time_all(w, placements + from, some, costs, pipeline, times);
        for (size_t i = 0; i < some; i++) {
            double throughput = batch / times[i];
            if (tperf_best_admits(&w->result->best, throughput) &&
                !keep(w, &placements[from + i], throughput))
                return false;
        }
    }
    return true;
}

// Evaluates the placements [from, to), which have equal layer costs, for every number of panels.
static bool walk_placed(tperf_walk *w, size_t from, size_t to) {
    uint32_t placed = w->placements[from].placed;
    const tperf_layer_cost *costs = costs_of(w, placed);
    if (!costs) return false;
    memcpy(w->partial.placement.fast, tperf_walk_layouts(w)->placed[placed].fast,
           sizeof w->partial.placement.fast);
    for (size_t p = 0; p < w->shape->n_panels; p++, costs += w->n_sections) {
        const tperf_pipeline_time *pipeline =
            pipeline_time(w, placed * w->shape->n_panels + p, costs);
        if (ruled_out(w, pipeline)) continue;
        w->partial.placement.panels = w->shape->panels[p];
        if (!try_placements(w, &w->placements[from], to - from, costs, pipeline)) return false;
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
    for (size_t from = 0, to; from < w->n_placements; from = to) {
        for (to = from + 1;
             to < w->n_placements && w->placements[to].placed == w->placements[from].placed;)
            to++;
        if (!walk_placed(w, from, to)) return false;
    }
    return true;
}
