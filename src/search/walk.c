// walk.c: every candidate of one shape for one place: questions, pipelines, data-parallel sizes, ZeRO stages,
// placements, panels. docs/model.md section 7.1. Nothing is allocated per candidate.
#include <string.h>

#include "search/space.h"

typedef struct walk {
    tp_search *search;
    int worker;
    const tp_topic *topic;
    size_t topic_index;
    const tp_shape *shape;
    const tp_network *network;
    size_t n_sections;
    tp_job job;
    tp_scratch *scratch;
    tp_finds *finds;
    int64_t tensor_gpus;  // product of the axes that multiply the GPUs
    tp_candidate partial; // what the loops have fixed so far
    tp_memory memory;
    bool feasible, laid_out, worked_out;
    tp_hop hop;
    tp_layer_cost bytes[TP_SECTIONS_MAX]; // no times
} walk;

// Sizes are at most 2^31, and division of 32 bits is several times as fast as that of 64.
static bool divides(int64_t part, int64_t whole) {
    return (uint32_t)whole % (uint32_t)part == 0;
}

static bool room_for(walk *w, void **array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return true;
    size_t grown = n > 2 * *capacity ? n : 2 * *capacity;
    void *moved = tp_heap_grow(&w->search->heap.heap, *array, grown, size);
    if (!moved) return false;
    *array = moved;
    *capacity = grown;
    return true;
}

static bool add_layout(walk *w, const int64_t *fast, size_t rest) {
    tp_scratch *s = w->scratch;
    if (!room_for(w, (void **)&s->layouts, &s->layouts_capacity, s->n_layouts + 1,
                  sizeof *s->layouts))
        return false;
    tp_layout *layout = &s->layouts[s->n_layouts++];
    *layout = (tp_layout){.rest = (uint32_t)rest, .gradient_fast = 1};
    memcpy(layout->fast, fast, sizeof layout->fast);
    for (int i = 0; i < w->network->n_axes; i++)
        if (w->network->gradient_axes >> i & 1) layout->gradient_fast *= fast[i];
    return true;
}

// The part of the expert axis in one domain follows from dp's, inside which it lies: their greatest common
// divisor. It takes nothing from the domain by itself.
static bool lay_out_experts(walk *w, int axis, int64_t *fast, size_t rest,
                            bool (*next)(walk *, int, int64_t *, size_t)) {
    const tp_divisors *d = w->topic->divisors;
    for (size_t i = d->first[rest]; i < d->first[rest + 1]; i++) {
        fast[axis] = d->values[d->splits[i].left];
        if (w->network->sizes[axis] % fast[axis] == 0 && !next(w, axis + 1, fast, rest))
            return false;
    }
    return true;
}

// All ways to give axis `axis` and those after it a part of the divisor `rest` of the domain.
static bool lay_out(walk *w, int axis, int64_t *fast, size_t rest) {
    if (axis == w->network->n_axes) return add_layout(w, fast, rest);
    if (axis == w->network->expert_axis) return lay_out_experts(w, axis, fast, rest, lay_out);
    const tp_divisors *d = w->topic->divisors;
    int64_t size = w->network->sizes[axis], demanded = w->shape->fast[axis];
    for (size_t i = d->first[rest]; i < d->first[rest + 1]; i++) {
        fast[axis] = d->values[d->splits[i].left];
        if (size % fast[axis] != 0 || (demanded && demanded != fast[axis])) continue;
        if (!lay_out(w, axis + 1, fast, d->splits[i].right)) return false;
    }
    return true;
}

static bool lay_out_one_domain(walk *w) {
    int64_t fast[TP_AXES_MAX] = {0};
    for (int i = 0; i < w->network->n_axes; i++) {
        fast[i] = w->network->sizes[i];
        if (w->shape->fast[i] && w->shape->fast[i] != fast[i]) return true;
    }
    return add_layout(w, fast, 0);
}

static bool enumerate_layouts(walk *w) {
    tp_scratch *s = w->scratch;
    int64_t fast[TP_AXES_MAX] = {0};
    if (w->laid_out) return true;
    w->laid_out = true;
    s->n_layouts = 0;
    if (!(w->topic->one_domain ? lay_out_one_domain(w)
                               : lay_out(w, 0, fast, w->topic->divisors->n - 1)))
        return false;
    size_t n_costs = s->n_layouts * w->shape->n_panels * w->n_sections;
    if (!room_for(w, (void **)&s->costs, &s->costs_capacity, n_costs, sizeof *s->costs))
        return false;
    size_t n_works = w->shape->n_panels * w->network->n_ops;
    if (!room_for(w, (void **)&s->works, &s->works_capacity, n_works, sizeof *s->works))
        return false;
    const tp_divisors *d = w->topic->divisors;
    if (!room_for(w, (void **)&s->slots, &s->slots_capacity, d->n, sizeof *s->slots)) return false;
    int experts = w->network->expert_axis;
    for (size_t i = 0; i < d->n; i++)
        s->slots[i].experts_fast =
            experts < 0 ? 1 : tp_gcd(w->network->sizes[experts], d->values[i]);
    return true;
}

static void prepare_works(walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tp_network_work(w->network, w->job.system, w->job.rules, w->shape->panels[i],
                        &w->scratch->works[i * w->network->n_ops]);
    w->worked_out = true;
}

// The network's costs in a layout, for every number of panels.
static const tp_layer_cost *costs_of(walk *w, size_t layout_index) {
    tp_layout *layout = &w->scratch->layouts[layout_index];
    size_t stride = w->shape->n_panels * w->n_sections;
    tp_layer_cost *costs = &w->scratch->costs[layout_index * stride];
    if (layout->timed) return costs;
    prepare_works(w);
    tp_placement placement;
    memcpy(placement.fast, layout->fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        placement.panels = w->shape->panels[i];
        tp_network_time(w->network, w->job.system, w->job.rules, &placement,
                        &w->scratch->works[i * w->network->n_ops], &costs[i * w->n_sections]);
    }
    layout->timed = true;
    return costs;
}

static bool keep(walk *w, double throughput) {
    tp_found found = {throughput, w->memory.total, w->feasible, w->partial};
    const tp_search_options *options = &w->search->options;
    if (!tp_best_wants(&w->finds->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->topic_index, &found))
        return true;
    return tp_best_keep(&w->finds->best, &found);
}

static bool ruled_out(const walk *w, const tp_pipeline_time *pipeline) {
    if (w->search->options.no_pruning) return false;
    double bound = tp_iteration_bound(&w->partial, pipeline);
    return !tp_best_admits(&w->finds->best, (double)w->job.global_batch / bound);
}

// The exchanges between the replicas, of which `dp_index` is dp's part of a domain.
static const tp_exchange *exchanges_of(walk *w, const tp_layout *layout, size_t dp_index) {
    size_t index = dp_index;
    if (!w->topic->one_domain && layout->gradient_fast > 1)
        index = tp_divisors_index(w->topic->divisors, layout->gradient_fast * w->partial.dp_fast);
    tp_slot *slot = &w->scratch->slots[index];
    int experts = w->network->expert_axis;
    int64_t experts_fast = experts < 0 ? 1 : layout->fast[experts];
    if (slot->exchanges_for != experts_fast)
        tp_exchange_times(&w->partial, &w->job, w->network, w->bytes, slot->exchanges);
    slot->exchanges_for = experts_fast;
    return slot->exchanges;
}

static bool evaluate(walk *w, const tp_layout *layout, tp_split split, const tp_layer_cost *costs,
                     const tp_pipeline_time *pipeline) {
    w->finds->evaluated++;
    const tp_exchange *exchanges = exchanges_of(w, layout, split.left);
    double hop = w->scratch->slots[split.right].hop;
    double time =
        tp_iteration_time(&w->partial, &w->job, w->network, costs, pipeline, exchanges, hop);
    double throughput = (double)w->job.global_batch / time;
    if (!tp_best_admits(&w->finds->best, throughput)) return true;
    return keep(w, throughput);
}

// Whether dp and pp may take the two sides of a split of what a layout leaves of a domain.
static bool split_fits(const walk *w, const tp_layout *layout, tp_split split) {
    const tp_slot *dp = &w->scratch->slots[split.left], *pp = &w->scratch->slots[split.right];
    if (!dp->divides_dp || !pp->divides_pp) return false;
    int experts = w->network->expert_axis;
    return experts < 0 || layout->fast[experts] == dp->experts_fast;
}

static bool walk_splits(walk *w, const tp_layout *layout, const tp_layer_cost *costs,
                        const tp_pipeline_time *pipeline) {
    const tp_divisors *d = w->topic->divisors;
    if (w->topic->one_domain) {
        w->partial.dp_fast = w->partial.dp;
        w->partial.pp_fast = w->partial.pipeline->pp;
        return evaluate(w, layout, (tp_split){0, 0}, costs, pipeline);
    }
    for (size_t i = d->first[layout->rest]; i < d->first[layout->rest + 1]; i++) {
        if (!split_fits(w, layout, d->splits[i])) continue;
        w->partial.dp_fast = d->values[d->splits[i].left];
        w->partial.pp_fast = d->values[d->splits[i].right];
        if (!evaluate(w, layout, d->splits[i], costs, pipeline)) return false;
    }
    return true;
}

// Times the ways to the next stage; the exchanges are timed when first needed.
static void prepare_slots(walk *w) {
    const tp_divisors *d = w->topic->divisors;
    for (size_t i = 0; i < d->n; i++) {
        tp_slot *slot = &w->scratch->slots[i];
        slot->exchanges_for = 0;
        w->partial.pp_fast = w->topic->one_domain ? w->partial.pipeline->pp : d->values[i];
        if (slot->divides_pp) slot->hop = tp_hop_time(&w->partial, &w->job, w->hop);
    }
}

static bool walk_layouts(walk *w) {
    prepare_slots(w);
    for (size_t i = 0; i < w->scratch->n_layouts; i++) {
        const tp_layer_cost *costs = costs_of(w, i);
        const tp_layout *layout = &w->scratch->layouts[i];
        memcpy(w->partial.placement.fast, layout->fast, sizeof layout->fast);
        for (size_t p = 0; p < w->shape->n_panels; p++, costs += w->n_sections) {
            tp_pipeline_time pipeline = tp_pipeline_time_of(w->partial.pipeline, w->network, costs);
            if (ruled_out(w, &pipeline)) continue;
            w->partial.placement.panels = w->shape->panels[p];
            if (!walk_splits(w, layout, costs, &pipeline)) return false;
        }
    }
    return true;
}

// Finds which divisors divide the sizes at hand, and counts the placements.
static int64_t count_placements(walk *w) {
    const tp_divisors *d = w->topic->divisors;
    tp_scratch *s = w->scratch;
    int64_t dp = w->partial.dp, pp = w->partial.pipeline->pp;
    int64_t dp_fast = w->search->options.dp_fast, pp_fast = w->search->options.pp_fast;
    if (w->topic->one_domain) {
        s->slots[0].divides_pp = true;
        bool demanded = (!dp_fast || dp_fast == dp) && (!pp_fast || pp_fast == pp);
        return demanded ? (int64_t)s->n_layouts : 0;
    }
    for (size_t i = 0; i < d->n; i++) {
        int64_t value = d->values[i];
        s->slots[i].divides_dp = divides(value, dp) && (!dp_fast || dp_fast == value);
        s->slots[i].divides_pp = divides(value, pp) && (!pp_fast || pp_fast == value);
    }
    int64_t count = 0;
    for (size_t l = 0; l < s->n_layouts; l++) {
        const tp_layout *layout = &s->layouts[l];
        for (size_t i = d->first[layout->rest]; i < d->first[layout->rest + 1]; i++)
            count += split_fits(w, layout, d->splits[i]);
    }
    return count;
}

static void note_least(walk *w) {
    const tp_found *least = &w->finds->least;
    if (least->candidate.pipeline && w->memory.total > least->memory) return;
    tp_found found = {0, w->memory.total, w->feasible, w->partial};
    found.candidate.placement = (tp_placement){0};
    found.candidate.dp_fast = found.candidate.pp_fast = 0;
    if (tp_needs_less(&found, &w->finds->least)) w->finds->least = found;
}

static bool walk_sizes(walk *w) {
    const tp_search_options *options = &w->search->options;
    int64_t count = count_placements(w) * (int64_t)w->shape->n_panels;
    if (count == 0) return true;
    double capacity = w->job.system->accelerator.hbm.capacity * (1 - options->training.reserved);
    for (size_t z = 0; z < options->n_zero; z++) {
        w->partial.zero = options->zero[z];
        w->memory = tp_memory_of(&w->partial, &w->job, w->network, w->bytes);
        w->feasible = w->memory.total <= capacity;
        w->finds->candidates += count;
        if (w->shape->hopeless) continue;
        note_least(w);
        if (w->feasible) w->finds->feasible += count;
        if (options->memory_only) continue;
        if (!w->feasible && !options->keep_all && !options->infeasible_too) continue;
        if (!walk_layouts(w)) return false;
    }
    return true;
}

static bool allowed(const int64_t *sizes, size_t n, int64_t size) {
    if (!sizes) return true;
    for (size_t i = 0; i < n; i++)
        if (sizes[i] == size) return true;
    return false;
}

// Whether the sizes divide what they must and the schedule takes as many micro-batches; then they are set.
static bool set_sizes(walk *w, const tp_pipeline *pipeline, int64_t gpus) {
    if (pipeline->pp > gpus || !divides(pipeline->pp, gpus)) return false;
    int64_t dp = gpus / pipeline->pp, batch = w->job.global_batch;
    if (!divides(dp, batch) || !divides(w->shape->micro_batch, batch / dp)) return false;
    int experts = w->network->expert_axis;
    if (experts >= 0 &&
        (w->network->sizes[experts] > dp || !divides(w->network->sizes[experts], dp)))
        return false;
    int64_t microbatches = batch / dp / w->shape->micro_batch;
    if (microbatches < pipeline->min_microbatches ||
        microbatches % pipeline->microbatch_multiple != 0)
        return false;
    w->partial.pipeline = pipeline;
    w->partial.dp = dp;
    w->partial.microbatches = microbatches;
    return true;
}

static bool walk_pipelines(walk *w) {
    const tp_search_options *options = &w->search->options;
    int64_t gpus = w->topic->question.gpus / w->tensor_gpus;
    for (size_t i = 0; i < options->n_pipelines; i++) {
        const tp_pipeline *pipeline = &options->pipelines[i];
        if (tp_search_stopped(w->search)) return true;
        if (!set_sizes(w, pipeline, gpus)) continue;
        if (!allowed(options->dp, options->n_dp, w->partial.dp)) continue;
        if (!walk_sizes(w)) return false;
    }
    return true;
}

// The GPUs that the network's axes take together, the expert axis apart; 0 when they do not divide the topic's.
static int64_t gpus_of(const tp_network *network, int64_t gpus) {
    int64_t product = 1;
    for (int i = 0; i < network->n_axes; i++) {
        if (i == network->expert_axis) continue;
        if (network->sizes[i] > gpus / product) return 0;
        product *= network->sizes[i];
    }
    return gpus % product == 0 ? product : 0;
}

// Whether some pipeline and ZeRO stage leaves room for half of the activations.
static bool might_fit(const tp_search *search, const tp_topic *topic, const tp_shape *shape,
                      const tp_layer_cost *bytes) {
    const tp_search_options *options = &search->options;
    tp_job job = {&topic->question.system, &options->rules, &options->training,
                  topic->question.global_batch};
    int64_t tensor_gpus = gpus_of(shape->network, topic->question.gpus);
    double capacity = job.system->accelerator.hbm.capacity * (1 - options->training.reserved);
    if (!tensor_gpus) return false;
    int64_t gpus = topic->question.gpus / tensor_gpus;
    tp_candidate candidate = {.micro_batch = shape->micro_batch};
    memcpy(candidate.sizes, shape->network->sizes, sizeof candidate.sizes);
    for (size_t i = 0; i < options->n_pipelines; i++) {
        candidate.pipeline = &options->pipelines[i];
        if (gpus % candidate.pipeline->pp != 0) continue;
        candidate.dp = gpus / candidate.pipeline->pp;
        candidate.microbatches = job.global_batch / candidate.dp / candidate.micro_batch;
        for (size_t z = 0; z < options->n_zero; z++) {
            candidate.zero = options->zero[z];
            tp_memory m = tp_memory_of(&candidate, &job, shape->network, bytes);
            if (m.total - (m.activations + m.passing) / 2 <= capacity) return true;
        }
    }
    return false;
}

bool tp_search_hopeless(const tp_search *search, const tp_shape *shape) {
    if (search->options.keep_all || search->options.infeasible_too || search->options.no_pruning)
        return false;
    tp_layer_cost bytes[TP_SECTIONS_MAX];
    tp_network_bytes(shape->network, bytes);
    for (size_t i = 0; i < search->n_topics; i++)
        if (might_fit(search, &search->topics[i], shape, bytes)) return false;
    return true;
}

static bool walk_topic(walk *w, size_t topic_index) {
    const tp_topic *topic = &w->search->topics[topic_index];
    w->tensor_gpus = gpus_of(w->network, topic->question.gpus);
    w->job.global_batch = topic->question.global_batch;
    if (!w->tensor_gpus || !topic->filled) return true;
    if (w->job.global_batch % w->shape->micro_batch != 0) return true;
    w->topic = topic;
    w->topic_index = topic_index;
    w->finds = tp_search_finds(w->search, w->worker, topic_index);
    return enumerate_layouts(w) && walk_pipelines(w);
}

bool tp_walk_shape(tp_search *search, const tp_place *place, const tp_shape *shape, int worker) {
    const tp_network *network = shape->network;
    walk w = {
        .search = search,
        .worker = worker,
        .shape = shape,
        .network = network,
        .n_sections = (size_t)network->n_kinds + 2,
        .job = {.system = &search->topics[place->first].question.system,
                .rules = &search->options.rules,
                .training = &search->options.training},
        .scratch = &search->scratch[worker],
        .partial = {.strategy = shape->strategy,
                    .variant = shape->variant,
                    .micro_batch = shape->micro_batch},
    };
    memcpy(w.partial.sizes, network->sizes, sizeof w.partial.sizes);
    tp_network_bytes(network, w.bytes);
    w.hop = tp_hop_times(&w.job, network);
    for (size_t topic = place->first; topic < place->end; topic++)
        if (!walk_topic(&w, topic)) return false;
    return true;
}
