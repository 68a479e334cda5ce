// evaluate.c: evaluates the placements of one pipeline, data-parallel size and ZeRO stage. See walk.h.
#include <float.h>
#include <math.h>
#include <string.h>

#include "plan/passes.h"
#include "search/walk.h"

static void prepare_works(tperf_walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tperf_workload_work(w->workload, &w->job.on, w->shape->panels[i],
                            &w->scratch->works[i * w->workload->n_ops]);
    w->worked_out = true;
}

// Adds the times in a placement, for the i-th number of panels, to the costs; false: out of memory.
static bool add_times(tperf_walk *w, const tperf_placement *placement, size_t i, tperf_rates *rates,
                      tperf_layer_cost *costs) {
    tperf_scratch *s = w->scratch;
    tperf_platform on = {w->query->priced_as, w->job.on.rules, w->job.on.software, rates};
    if (!w->shares_prices) {
        prepare_works(w);
        on.system = w->job.on.system;
        tperf_workload_add_times(w->workload, &on, placement, &s->works[i * w->workload->n_ops],
                                 costs);
        return true;
    }
    const tperf_either_price *const *prices =
        tperf_prices_of(&s->prices, &w->search->heap.heap, w->workload, &on, placement);
    if (prices) tperf_workload_add_prices(w->workload, &w->job.on, prices, costs);
    return prices != NULL;
}

static void add_cost(const tperf_walk *w, const tperf_layer_cost *costs, size_t at) {
    tperf_scratch *s = w->scratch;
    for (size_t u = 0; u < w->n_used; u++) {
        const tperf_layer_cost *cost = &costs[w->used[u]];
        s->layers[at + w->used[u]] = tperf_layer_time_of(&w->job, cost);
        s->covers[at + w->used[u]] = tperf_cover_of(&w->job, cost, w->query->one_domain);
    }
}

// Computes what the layers cost in a placement, for every number of panels. False if out of memory.
static bool price(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (s->timed[placed].timed_for == s->shape_stamp) return true;
    tperf_placement placement;
    tperf_rates rates;
    memset(rates.known, 0, sizeof rates.known);
    memcpy(placement.fast, tperf_walk_layouts(w)->placed[placed].fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        size_t at = (placed * w->shape->n_panels + i) * w->n_sections;
        tperf_layer_cost *costs = &s->costs[w->search->options.by_least ? at : 0];
        placement.panels = w->shape->panels[i];
        memcpy(costs, w->bytes, w->n_sections * sizeof *costs);
        if (!add_times(w, &placement, i, &rates, costs)) return false;
        add_cost(w, costs, at);
    }
    s->timed[placed].timed_for = s->shape_stamp;
    return true;
}

// Computes the pipeline's times in a placement of the axes, for every number of panels. False if out of memory.
static bool pace(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (!price(w, placed)) return false;
    for (size_t p = 0; p < w->shape->n_panels; p++) {
        size_t i = placed * w->shape->n_panels + p;
        tperf_pipeline_time time =
            tperf_pipeline_time_of(w->partial.pipeline, w->pace.stages, w->workload,
                                   &s->layers[i * w->n_sections], &w->job);
        w->paced[i] = (tperf_known_pace){s->pace_stamp, tperf_paced_of(&time)};
    }
    return true;
}

static void place_at(tperf_walk *w, const tperf_placement_entry *entry) {
    int64_t *fast = w->partial.placement.fast;
    memcpy(fast, tperf_walk_layouts(w)->placed[entry->placed].fast,
           sizeof w->partial.placement.fast);
    fast[TPERF_AXIS_REPLICAS] = entry->replicas;
    fast[TPERF_AXIS_STAGES] = entry->stages;
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

static inline bool ruled_out(const tperf_walk *w, const tperf_paced *paced, double hidden) {
    if (w->search->options.no_pruning || w->search->options.by_least) return false;
    tperf_waiting none = tperf_no_waiting();
    tperf_parts bound = tperf_parts_of(&w->pace, paced, hidden, &none, tperf_lanes_of(0));
    tperf_lanes least = tperf_whole(&bound);
    return TPERF_LANE(least, 0) > w->latest;
}

static const tperf_exchange *exchange(tperf_walk *w, uint32_t index) {
    tperf_exchanged *e =
        &w->scratch->exchanged[w->query_index].of[index * w->search->options.n_zero + w->zero];
    const tperf_exchange_groups *groups = &tperf_walk_cached_placements(w)->exchanges[index];
    tperf_exchange_times_among(&groups->dense, &groups->experts, w->partial.zero, &w->job,
                               w->workload, w->bytes, e->sections);
    e->timed_for = w->scratch->weights_stamp;
    return e->sections;
}

// The exchanges of the current query and ZeRO stage.
typedef struct exchanges {
    const tperf_exchanged *of;
    size_t n_zero;
    int64_t stamp;
} exchanges;

static inline exchanges known_exchanges(const tperf_walk *w) {
    return (exchanges){w->scratch->exchanged[w->query_index].of + w->zero,
                       w->search->options.n_zero, w->scratch->weights_stamp};
}

static inline const tperf_exchange *exchanges_of(tperf_walk *w, const exchanges *known,
                                                 uint32_t index) {
    const tperf_exchanged *e = &known->of[index * known->n_zero];
    return e->timed_for == known->stamp ? e->sections : exchange(w, index);
}

static inline const tperf_cached_hop *hop_of(tperf_walk *w, const tperf_placement_entry *entry) {
    tperf_cached_hop *cached = &w->scratch->hops[entry->hop];
    if (cached->hop_for == w->scratch->hop_stamp) return cached;
    cached->hop_for = w->scratch->hop_stamp;
    cached->hop = tperf_hop_among((double)w->partial.pipeline->pp, entry->stages, w->hop,
                                  w->job.on.rules->slow_pipeline_links_cost);
    cached->tied = tperf_tied_time(&w->job, w->workload, w->bytes,
                                   tperf_ends_of(w->partial.pipeline, entry->stages));
    return cached;
}

static double least_of(tperf_walk *w, const tperf_placement_entry *entry,
                       const tperf_layer_cost *costs) {
    exchanges known = known_exchanges(w);
    place_at(w, entry);
    return tperf_iteration_least(&w->partial, &w->job, w->workload, costs,
                                 exchanges_of(w, &known, entry->exchange), hop_of(w, entry)->hop,
                                 w->pace.optimizer);
}

// Two placements' exchanges of a section, as the layers' passes expose them.
TPERF_INLINED tperf_exposures expose(const tperf_walk *w, const tperf_exchange *x,
                                     const tperf_exchange *y, const tperf_cover *cover,
                                     double bucket) {
    tperf_exchanging both = {tperf_lanes_from(x->gather, y->gather),
                             tperf_lanes_from(x->reduce, y->reduce),
                             tperf_lanes_from(x->update, y->update)};
    return tperf_exposures_at(&both, cover, bucket, w->job.training->gather_in_step,
                              w->pace.optimizer);
}

// The same, as the pipeline's stages wait for them. simple: see tperf_holding_exposures. lone: the only stage that
// counts, if it holds only one section; otherwise NULL.
TPERF_INLINED tperf_waiting wait_for(const tperf_walk *w, const tperf_exchange *x,
                                     const tperf_exchange *y, const tperf_cover *covers,
                                     tperf_lanes tied, bool simple, const tperf_holding *lone) {
    if (lone) {
        size_t i = w->used[0];
        tperf_exposures only = expose(w, &x[i], &y[i], &covers[i], w->buckets[i]);
        tperf_holding holding = {.n = 1, .parts = {{.layers = lone->parts[0].layers}}};
        tperf_waiting waiting = tperf_no_waiting();
        tperf_wait_longer(&waiting, &w->pace, &holding, NULL, 0, &only, simple);
        tperf_wait_each(&waiting, &w->pace);
        return waiting;
    }
    tperf_exposures exposures[TPERF_SECTIONS_MAX];
    for (size_t u = 0; u < w->n_used; u++) {
        size_t i = w->used[u];
        exposures[i] = expose(w, &x[i], &y[i], &covers[i], w->buckets[i]);
        if ((int)i >= w->workload->n_kinds) exposures[i].update += tied;
    }
    return tperf_waiting_of(&w->pace, exposures, simple, NULL);
}

// Times placements with equal layer costs, for one number of panels, TPERF_LANES at once. covers: of their layers.
TPERF_INLINED bool time_entries(tperf_walk *w, const tperf_placement_entry *entries, size_t n,
                                const tperf_cover *covers, const tperf_paced *paced, double hidden,
                                bool simple, const tperf_holding *lone) {
    const exchanges known = known_exchanges(w);
    bool apart = tperf_ends_apart(w->partial.pipeline);
    for (size_t from = 0; from < n; from += TPERF_LANES) {
        bool second = TPERF_LANES > 1 && from + 1 < n;
        const tperf_placement_entry *a = &entries[from], *b = a + second;
        const tperf_exchange *x = exchanges_of(w, &known, a->exchange);
        const tperf_exchange *y = exchanges_of(w, &known, b->exchange);
        const tperf_cached_hop *of_a = hop_of(w, a), *of_b = hop_of(w, b);
        tperf_lanes hop = tperf_lanes_from(of_a->hop, of_b->hop);
        tperf_lanes tied = apart ? tperf_lanes_from(of_a->tied, of_b->tied) : tperf_lanes_of(0);
        tperf_waiting waiting = wait_for(w, x, y, covers, tied, simple, lone);
        tperf_parts parts = tperf_parts_of(&w->pace, paced, hidden, &waiting, hop);
        tperf_lanes times = tperf_whole(&parts);
        if (!(TPERF_LANE(times, 0) > w->latest) && !keep(w, a, TPERF_LANE(times, 0))) return false;
        if (!second || TPERF_LANE(times, TPERF_LANES - 1) > w->latest) continue;
        if (!keep(w, b, TPERF_LANE(times, TPERF_LANES - 1))) return false;
    }
    return true;
}

static bool time_least(tperf_walk *w, const tperf_placement_entry *entries, size_t n,
                       const tperf_layer_cost *costs) {
    for (size_t i = 0; i < n; i++)
        if (!keep(w, &entries[i], least_of(w, &entries[i], costs))) return false;
    return true;
}

// Evaluates the placements of a run, for every number of panels. entries: the run's n ones.
static inline bool walk_run(tperf_walk *w, const tperf_placement_entry *entries, size_t n) {
    size_t i = entries->placed * w->shape->n_panels;
    if (w->paced[i].known_for != w->scratch->pace_stamp && !pace(w, entries->placed)) return false;
    for (size_t p = 0; p < w->shape->n_panels; p++, i++) {
        size_t at = i * w->n_sections;
        const tperf_cover *covers = &w->scratch->covers[at];
        const tperf_paced *paced = &w->paced[i].paced;
        double hidden = tperf_hidden_of(&w->pace, paced);
        if (ruled_out(w, paced, hidden)) continue;
        tperf_pace_times(&w->pace, &w->scratch->layers[at], paced);
        w->partial.placement.panels = w->shape->panels[p];
        w->result->evaluated += (int64_t)n;
        bool done = w->search->options.by_least ? time_least(w, entries, n, &w->scratch->costs[at])
                    : !w->simple ? time_entries(w, entries, n, covers, paced, hidden, false, NULL)
                    : w->lone    ? time_entries(w, entries, n, covers, paced, hidden, true, w->lone)
                                 : time_entries(w, entries, n, covers, paced, hidden, true, NULL);
        if (!done) return false;
    }
    return true;
}

// The only stage whose wait counts, if all have one section; otherwise NULL.
static const tperf_holding *lone_stage(const tperf_walk *w) {
    const tperf_holding *lone = NULL;
    if (w->n_used != 1 || w->partial.pipeline->weight_copies > 1) return NULL;
    for (size_t i = 0; i < w->partial.pipeline->n_stages; i++) {
        const tperf_holding *stage = &w->pace.stages[i];
        if (stage->covered) continue;
        if (lone || stage->n != 1 || (size_t)stage->leading != w->used[0]) return NULL;
        lone = stage;
    }
    return lone;
}

// Like tperf_optimizer_time.
static double optimizer_time(tperf_walk *w) {
    const tperf_training *t = w->job.training;
    if (t->offloaded > 0 || t->iterations > 0)
        return tperf_optimizer_time(&w->partial, &w->job, w->workload, w->bytes);
    double calls = tperf_step_calls_time(&w->job.on);
    if (w->job.on.software->optimizer == 0) return calls;
    return tperf_update_time(&w->job,
                             tperf_stock_updated(&w->scratch->stock, tperf_walk_contents(w),
                                                 &w->partial, &w->sharing, t, w->workload)) +
           calls;
}

bool tperf_walk_placements(tperf_walk *w) {
    const tperf_search *search = w->search;
    size_t pipeline = (size_t)(w->partial.pipeline - search->options.pipelines);
    w->pace = tperf_pace_of(&w->partial, &w->job, w->workload, optimizer_time(w));
    w->pace.stages = &w->scratch->holdings.of[search->first_stage[pipeline]];
    note_latest(w);
    w->lone = lone_stage(w);
    const tperf_placement_cache *known = tperf_walk_cached_placements(w);
    size_t from = w->list->begin;
    for (size_t r = w->list->first_run; r < w->list->end_run; from = known->runs[r++].end)
        if (!walk_run(w, &known->placements[from], known->runs[r].end - from)) return false;
    return true;
}
