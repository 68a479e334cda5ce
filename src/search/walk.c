// walk.c: every candidate of one shape for one question: pipeline and data-parallel sizes,
// placements, panels. docs/model.md section 7.1. Nothing is allocated per candidate.
#include <stdlib.h>
#include <string.h>

#include "search/space.h"

typedef struct walk {
    tp_search *search;
    const tp_topic *topic;
    size_t topic_index;
    const tp_shape *shape;
    const tp_layer *layer;
    tp_job job;
    tp_scratch *scratch;
    tp_finds *finds;
    int64_t tensor_gpus;  // product of the layer's axes
    tp_candidate partial; // what the loops have fixed so far
    tp_memory memory;
    tp_layer_cost bytes; // of the layer, no times
} walk;

static bool room_for(void **array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return true;
    size_t grown = n > 2 * *capacity ? n : 2 * *capacity;
    void *moved = realloc(*array, grown * size);
    if (!moved) return false;
    *array = moved;
    *capacity = grown;
    return true;
}

static bool add_layout(walk *w, const int64_t *fast, size_t rest) {
    tp_scratch *s = w->scratch;
    if (!room_for((void **)&s->layouts, &s->layouts_capacity, s->n_layouts + 1, sizeof *s->layouts))
        return false;
    tp_layout *layout = &s->layouts[s->n_layouts++];
    *layout = (tp_layout){.rest = (uint32_t)rest};
    memcpy(layout->fast, fast, sizeof layout->fast);
    return true;
}

// All ways to give axis `axis` and those after it a part of the divisor `rest` of the domain.
static bool lay_out(walk *w, int axis, int64_t *fast, size_t rest) {
    if (axis == w->layer->n_axes) return add_layout(w, fast, rest);
    const tp_divisors *d = w->topic->divisors;
    int64_t size = w->layer->sizes[axis], demanded = w->shape->fast[axis];
    for (size_t i = d->first[rest]; i < d->first[rest + 1]; i++) {
        fast[axis] = d->values[d->splits[i].left];
        if (size % fast[axis] != 0 || (demanded && demanded != fast[axis])) continue;
        if (!lay_out(w, axis + 1, fast, d->splits[i].right)) return false;
    }
    return true;
}

static bool enumerate_layouts(walk *w) {
    tp_scratch *s = w->scratch;
    int64_t fast[TP_AXES_MAX] = {0};
    s->n_layouts = 0;
    if (w->topic->one_domain) {
        for (int i = 0; i < w->layer->n_axes; i++) {
            fast[i] = w->layer->sizes[i];
            if (w->shape->fast[i] && w->shape->fast[i] != fast[i]) return true;
        }
        if (!add_layout(w, fast, 0)) return false;
    } else if (!lay_out(w, 0, fast, w->topic->divisors->n - 1)) {
        return false;
    }
    if (!room_for((void **)&s->costs, &s->costs_capacity, s->n_layouts * w->shape->n_panels,
                  sizeof *s->costs))
        return false;
    size_t n = w->topic->divisors->n;
    if (n > s->divisors_capacity) {
        free(s->divides_dp);
        free(s->divides_pp);
        free(s->layouts_with_rest);
        s->divides_dp = malloc(n * sizeof *s->divides_dp);
        s->divides_pp = malloc(n * sizeof *s->divides_pp);
        s->layouts_with_rest = malloc(n * sizeof *s->layouts_with_rest);
        s->divisors_capacity = n;
        if (!s->divides_dp || !s->divides_pp || !s->layouts_with_rest) return false;
    }
    memset(s->layouts_with_rest, 0, n * sizeof *s->layouts_with_rest);
    for (size_t i = 0; i < s->n_layouts; i++)
        s->layouts_with_rest[s->layouts[i].rest]++;
    return true;
}

static const tp_layer_cost *costs_of(walk *w, size_t layout_index) {
    tp_layout *layout = &w->scratch->layouts[layout_index];
    tp_layer_cost *costs = &w->scratch->costs[layout_index * w->shape->n_panels];
    if (layout->timed) return costs;
    tp_placement placement;
    memcpy(placement.fast, layout->fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        placement.panels = w->shape->panels[i];
        costs[i] = tp_layer_time(w->layer, w->job.system, w->job.rules, &placement);
    }
    layout->timed = true;
    return costs;
}

static bool keep(walk *w, double throughput, bool feasible) {
    tp_found found = {throughput, w->memory.total, feasible, w->partial};
    const tp_search_options *options = &w->search->options;
    if (!tp_best_wants(&w->finds->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->topic_index, &found))
        return true;
    return tp_best_keep(&w->finds->best, &found);
}

// No candidate with this layer cost can be faster: the layers' work and the bubble it makes alone.
// Rounding is monotonic and the terms come in the order of tp_iteration_of, so this holds to the
// last bit.
static bool ruled_out(const walk *w, const tp_layer_cost *cost) {
    if (w->search->options.no_pruning) return false;
    double microbatches = (double)tp_candidate_microbatches(&w->partial, &w->job);
    double work = microbatches * (double)(w->job.layers / w->partial.pp) *
                  (cost->forward.time + cost->backward.time);
    double bubble = ((double)w->partial.pp - 1) * work / microbatches;
    return !tp_best_admits(&w->finds->best, (double)w->job.global_batch / (work + bubble));
}

static bool evaluate(walk *w, const tp_layer_cost *cost, bool feasible) {
    w->finds->evaluated++;
    tp_iteration iteration = tp_iteration_of(&w->partial, &w->job, w->layer, cost);
    double throughput = (double)w->job.global_batch / iteration.time;
    if (!tp_best_admits(&w->finds->best, throughput)) return true;
    return keep(w, throughput, feasible);
}

// Whether dp and pp may take the two sides of a split of what the layer's axes leave of a domain.
static bool split_fits(const walk *w, tp_split split) {
    return w->scratch->divides_dp[split.left] && w->scratch->divides_pp[split.right];
}

static bool walk_layout(walk *w, size_t index, bool feasible) {
    const tp_layout *layout = &w->scratch->layouts[index];
    const tp_divisors *d = w->topic->divisors;
    const tp_layer_cost *costs = costs_of(w, index);
    memcpy(w->partial.placement.fast, layout->fast, sizeof layout->fast);
    for (size_t p = 0; p < w->shape->n_panels; p++) {
        if (ruled_out(w, &costs[p])) continue;
        w->partial.placement.panels = w->shape->panels[p];
        if (w->topic->one_domain) {
            w->partial.dp_fast = w->partial.dp;
            w->partial.pp_fast = w->partial.pp;
            if (!evaluate(w, &costs[p], feasible)) return false;
            continue;
        }
        for (size_t i = d->first[layout->rest]; i < d->first[layout->rest + 1]; i++) {
            if (!split_fits(w, d->splits[i])) continue;
            w->partial.dp_fast = d->values[d->splits[i].left];
            w->partial.pp_fast = d->values[d->splits[i].right];
            if (!evaluate(w, &costs[p], feasible)) return false;
        }
    }
    return true;
}

// Fills divides_dp and divides_pp for the sizes at hand, and counts the placements.
static int64_t count_placements(walk *w) {
    const tp_divisors *d = w->topic->divisors;
    tp_scratch *s = w->scratch;
    int64_t dp_fast = w->search->options.dp_fast, pp_fast = w->search->options.pp_fast;
    if (w->topic->one_domain) {
        bool demanded =
            (!dp_fast || dp_fast == w->partial.dp) && (!pp_fast || pp_fast == w->partial.pp);
        return demanded ? (int64_t)s->n_layouts : 0;
    }
    for (size_t i = 0; i < d->n; i++) {
        int64_t value = d->values[i];
        s->divides_dp[i] = w->partial.dp % value == 0 && (!dp_fast || dp_fast == value);
        s->divides_pp[i] = w->partial.pp % value == 0 && (!pp_fast || pp_fast == value);
    }
    int64_t count = 0;
    for (size_t rest = 0; rest < d->n; rest++) {
        if (!s->layouts_with_rest[rest]) continue;
        int64_t fitting = 0;
        for (size_t i = d->first[rest]; i < d->first[rest + 1]; i++)
            fitting += split_fits(w, d->splits[i]);
        count += fitting * s->layouts_with_rest[rest];
    }
    return count;
}

static bool walk_sizes(walk *w) {
    const tp_search_options *options = &w->search->options;
    int64_t count = count_placements(w) * (int64_t)w->shape->n_panels;
    if (count == 0) return true;
    w->memory = tp_memory_of(&w->partial, &w->job, w->layer, &w->bytes);
    bool feasible = w->memory.total <= w->job.system->accelerator.hbm.capacity;
    w->finds->candidates += count;
    if (feasible) w->finds->feasible += count;
    if (!feasible && !options->keep_all && !options->infeasible_too) return true;
    for (size_t i = 0; i < w->scratch->n_layouts; i++)
        if (!walk_layout(w, i, feasible)) return false;
    return true;
}

static bool allowed(const int64_t *sizes, size_t n, int64_t size) {
    if (!sizes) return true;
    for (size_t i = 0; i < n; i++)
        if (sizes[i] == size) return true;
    return false;
}

static bool walk_pipelines(walk *w) {
    const tp_search_options *options = &w->search->options;
    const tp_divisors *pipelines = &w->search->layer_divisors;
    int64_t gpus = w->topic->question.gpus / w->tensor_gpus;
    int64_t batch = w->job.global_batch;
    for (size_t i = 0; i < pipelines->n && pipelines->values[i] <= gpus; i++) {
        if (tp_search_stopped(w->search)) return true;
        int64_t pp = pipelines->values[i], dp = gpus / pp;
        if (gpus % pp != 0 || batch % dp != 0 || batch / dp % w->shape->micro_batch != 0) continue;
        if (!allowed(options->pp, options->n_pp, pp) || !allowed(options->dp, options->n_dp, dp))
            continue;
        w->partial.pp = pp;
        w->partial.dp = dp;
        if (!walk_sizes(w)) return false;
    }
    return true;
}

bool tp_walk_shape(tp_search *search, size_t topic_index, const tp_shape *shape, int worker) {
    const tp_topic *topic = &search->topics[topic_index];
    const tp_layer *layer = shape->layer;
    int64_t gpus = topic->question.gpus, tensor_gpus = 1;
    for (int i = 0; i < layer->n_axes; i++) {
        if (layer->sizes[i] > gpus / tensor_gpus) return true;
        tensor_gpus *= layer->sizes[i];
    }
    if (gpus % tensor_gpus != 0 || !topic->filled) return true;
    if (topic->question.global_batch % shape->micro_batch != 0) return true;
    walk w = {
        .search = search,
        .topic = topic,
        .topic_index = topic_index,
        .shape = shape,
        .layer = layer,
        .job = {&topic->question.system, &search->options.rules, search->options.layers,
                topic->question.global_batch},
        .scratch = &search->scratch[worker],
        .finds = tp_search_finds(search, worker, topic_index),
        .tensor_gpus = tensor_gpus,
        .partial = {.strategy = shape->strategy, .micro_batch = shape->micro_batch},
        .bytes = tp_layer_bytes(layer),
    };
    memcpy(w.partial.sizes, layer->sizes, sizeof w.partial.sizes);
    return enumerate_layouts(&w) && walk_pipelines(&w);
}
