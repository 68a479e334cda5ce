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
    double optimizer;     // seconds of its step
    const tp_spot *spots; // of dp and pp
    size_t n_spots;
    bool feasible, laid_out, worked_out;
    tp_hop hop;
    tp_layer_cost bytes[TP_SECTIONS_MAX]; // no times
} walk;

// Sizes are at most 2^31, and division of 32 bits is several times as fast as that of 64.
static bool divides(int64_t part, int64_t whole) {
    return (uint32_t)whole % (uint32_t)part == 0;
}

static int64_t domain_of(const walk *w) {
    return w->topic->question.system.network.fast.domain;
}

// Whether a placement has to fill the domain (Q16).
static bool must_fill(const walk *w) {
    return !w->topic->one_domain && !w->job.on.rules->placements_may_underfill;
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

static int64_t smallest_prime_factor(int64_t n) {
    for (int64_t factor = 2; factor <= n / factor; factor++)
        if (divides(factor, n)) return factor;
    return n;
}

// The smallest factor by which one of the parts that a layout gives to axes could grow. The expert axis follows dp.
static int64_t smallest_step(const walk *w, const int64_t *fast) {
    int64_t step = INT64_MAX;
    for (int i = 0; i < w->network->n_axes; i++) {
        int64_t rest = w->network->sizes[i] / fast[i];
        if (i == w->network->expert_axis || w->shape->fast[i] || rest == 1) continue;
        int64_t factor = smallest_prime_factor(rest);
        if (factor < step) step = factor;
    }
    return step;
}

static bool add_layout(walk *w, const int64_t *fast, int64_t room) {
    tp_scratch *s = w->scratch;
    if (!room_for(w, (void **)&s->layouts, &s->layouts_capacity, s->n_layouts + 1,
                  sizeof *s->layouts))
        return false;
    tp_layout *layout = &s->layouts[s->n_layouts++];
    *layout = (tp_layout){.room = room, .gradient_fast = 1, .step = smallest_step(w, fast)};
    memcpy(layout->fast, fast, sizeof layout->fast);
    for (int i = 0; i < w->network->n_axes; i++)
        if (w->network->gradient_axes >> i & 1) layout->gradient_fast *= fast[i];
    return true;
}

// All ways to give axis `axis` and those after it a part of a domain of which there is room for `room` GPUs, for each
// of those that the axes before have. The expert axis lies inside dp, so it takes nothing by itself.
static bool lay_out(walk *w, int axis, int64_t *fast, int64_t room) {
    if (axis == w->network->n_axes) return add_layout(w, fast, room);
    bool experts = axis == w->network->expert_axis;
    const tp_divisors *d = w->topic->divisors;
    int64_t size = w->network->sizes[axis], demanded = experts ? 0 : w->shape->fast[axis];
    for (size_t i = 0; i < d->n && d->values[i] <= room && d->values[i] <= size; i++) {
        int64_t part = d->values[i];
        if (!divides(part, size) || (demanded && demanded != part)) continue;
        if (!experts && must_fill(w) && !divides(part, room)) continue;
        fast[axis] = part;
        if (!lay_out(w, axis + 1, fast, experts ? room : room / part)) return false;
    }
    return true;
}

static bool lay_out_one_domain(walk *w) {
    int64_t fast[TP_AXES_MAX] = {0};
    for (int i = 0; i < w->network->n_axes; i++) {
        fast[i] = w->network->sizes[i];
        if (w->shape->fast[i] && w->shape->fast[i] != fast[i]) return true;
    }
    return add_layout(w, fast, domain_of(w) / w->tensor_gpus);
}

static bool room_for_slots(walk *w) {
    tp_scratch *s = w->scratch;
    size_t known = s->slots_capacity;
    if (!room_for(w, (void **)&s->slots, &s->slots_capacity, w->topic->divisors->n,
                  sizeof *s->slots))
        return false;
    memset(s->slots + known, 0, (s->slots_capacity - known) * sizeof *s->slots);
    return true;
}

static bool enumerate_layouts(walk *w) {
    tp_scratch *s = w->scratch;
    int64_t fast[TP_AXES_MAX] = {0};
    if (!room_for_slots(w)) return false;
    if (w->laid_out) return true;
    w->laid_out = true;
    s->n_layouts = 0;
    if (!(w->topic->one_domain ? lay_out_one_domain(w) : lay_out(w, 0, fast, domain_of(w))))
        return false;
    size_t n_costs = s->n_layouts * w->shape->n_panels * w->n_sections;
    if (!room_for(w, (void **)&s->costs, &s->costs_capacity, n_costs, sizeof *s->costs))
        return false;
    size_t n_works = w->shape->n_panels * w->network->n_ops;
    return room_for(w, (void **)&s->works, &s->works_capacity, n_works, sizeof *s->works);
}

static void prepare_works(walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tp_network_work(w->network, &w->job.on, w->shape->panels[i],
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
        tp_network_time(w->network, &w->job.on, &placement,
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
    if (w->search->options.no_pruning || w->search->options.by_least) return false;
    double bound = tp_iteration_bound(&w->partial, pipeline, w->optimizer);
    return !tp_best_admits(&w->finds->best, (double)w->job.global_batch / bound);
}

// The exchanges between the replicas, of which `fast` share a domain.
static const tp_exchange *exchanges_of(walk *w, const tp_layout *layout, const tp_part *dp) {
    size_t index = dp->index;
    if (layout->gradient_fast > 1)
        index = tp_divisors_index(w->topic->divisors, layout->gradient_fast * dp->gpus);
    tp_slot *slot = &w->scratch->slots[index];
    int experts = w->network->expert_axis;
    int64_t experts_fast = experts < 0 ? 1 : layout->fast[experts];
    if (slot->exchanges_for == w->scratch->stamp && slot->experts_fast == experts_fast)
        return slot->exchanges;
    tp_exchange_times(&w->partial, &w->job, w->network, w->bytes, slot->exchanges);
    slot->exchanges_for = w->scratch->stamp;
    slot->experts_fast = experts_fast;
    return slot->exchanges;
}

static double hop_of(walk *w, const tp_part *pp) {
    tp_slot *slot = &w->scratch->slots[pp->index];
    if (slot->hop_for != w->scratch->stamp) slot->hop = tp_hop_time(&w->partial, &w->job, w->hop);
    slot->hop_for = w->scratch->stamp;
    return slot->hop;
}

static bool evaluate(walk *w, const tp_spot *spot, const tp_layer_cost *costs,
                     const tp_pipeline_time *pipeline) {
    w->finds->evaluated++;
    w->partial.dp_fast = spot->dp->gpus;
    w->partial.pp_fast = spot->pp->gpus;
    const tp_exchange *exchanges = exchanges_of(w, &w->scratch->layouts[spot->layout], spot->dp);
    double hop = hop_of(w, spot->pp);
    double time = w->search->options.by_least
                      ? tp_iteration_least(&w->partial, &w->job, w->network, costs, exchanges, hop,
                                           w->optimizer)
                      : tp_iteration_time(&w->partial, &w->job, w->network, costs, pipeline,
                                          exchanges, hop, w->optimizer);
    double throughput = (double)w->job.global_batch / time;
    if (!tp_best_admits(&w->finds->best, throughput)) return true;
    return keep(w, throughput);
}

// The spots [from, to) of one layout, with every number of panels.
static bool walk_layout(walk *w, size_t from, size_t to) {
    uint32_t index = w->spots[from].layout;
    const tp_layer_cost *costs = costs_of(w, index);
    const tp_layout *layout = &w->scratch->layouts[index];
    memcpy(w->partial.placement.fast, layout->fast, sizeof layout->fast);
    for (size_t p = 0; p < w->shape->n_panels; p++, costs += w->n_sections) {
        tp_pipeline_time pipeline =
            tp_pipeline_time_of(w->partial.pipeline, w->network, costs, w->job.on.software->host_s);
        if (ruled_out(w, &pipeline)) continue;
        w->partial.placement.panels = w->shape->panels[p];
        for (size_t i = from; i < to; i++)
            if (!evaluate(w, &w->spots[i], costs, &pipeline)) return false;
    }
    return true;
}

static bool walk_spots(walk *w) {
    w->scratch->stamp++;
    w->optimizer = tp_optimizer_time(&w->partial, &w->job, w->network, w->bytes);
    for (size_t from = 0, to; from < w->n_spots; from = to) {
        for (to = from + 1; to < w->n_spots && w->spots[to].layout == w->spots[from].layout;)
            to++;
        if (!walk_layout(w, from, to)) return false;
    }
    return true;
}

// Whether the expert axis, which lies inside dp, has the part that it has in the layout.
static bool suits_experts(const walk *w, const tp_layout *layout, const tp_part *dp) {
    int experts = w->network->expert_axis;
    return experts < 0 || layout->fast[experts] == tp_gcd(w->network->sizes[experts], dp->gpus);
}

static tp_book *book_of(const walk *w) {
    return &w->scratch->books[w->topic_index];
}

static bool add_spot(walk *w, uint32_t layout, const tp_part *dp, const tp_part *pp) {
    tp_book *book = book_of(w);
    if (!suits_experts(w, &w->scratch->layouts[layout], dp)) return true;
    if (!room_for(w, (void **)&book->spots, &book->spots_capacity, book->n_spots + 1,
                  sizeof *book->spots))
        return false;
    book->spots[book->n_spots++] = (tp_spot){layout, dp, pp};
    return true;
}

// The parts that an axis of `size` GPUs may have.
typedef struct parts {
    const tp_part *begin, *end;
    bool demanded; // there is one; a larger one is out of the question
} parts;

static parts parts_of(const walk *w, int64_t size, int64_t demanded) {
    const tp_divisors *d = w->topic->divisors;
    size_t i = tp_divisors_index(d, size);
    parts p = {d->parts + d->first[i], d->parts + d->first[i + 1], demanded != 0};
    if (!demanded) return p;
    while (p.begin < p.end && p.begin->gpus != demanded)
        p.begin++;
    if (p.begin < p.end) p.end = p.begin + 1;
    return p;
}

// The parts of dp that share a domain with a layout and a part of pp: no axis could have a larger part. Under the
// published rules the domain is full (Q16).
static bool add_spots_for(walk *w, uint32_t index, const parts *dp, const parts *pps,
                          const tp_part *pp) {
    const tp_layout *layout = &w->scratch->layouts[index];
    uint32_t room = (uint32_t)layout->room, left = room / pp->gpus;
    bool full = must_fill(w);
    if (full && left * pp->gpus != room) return true;
    for (const tp_part *d = dp->end; d-- > dp->begin;) {
        if (d->gpus > left) continue;
        if (d->gpus <= left / layout->step || (full && d->gpus < left)) break;
        bool larger =
            (d->next <= left && !dp->demanded) || (pp->next <= room / d->gpus && !pps->demanded);
        if (larger && !full) continue;
        if (!add_spot(w, index, d, pp)) return false;
    }
    return true;
}

// Adds the list of all placements of the sizes at hand. NULL: no memory.
static const tp_spots *add_spots(walk *w) {
    const tp_search_options *options = &w->search->options;
    int64_t dp = w->partial.dp, pp = w->partial.pipeline->pp;
    parts dps = parts_of(w, dp, options->dp_fast), pps = parts_of(w, pp, options->pp_fast);
    tp_book *book = book_of(w);
    size_t begin = book->n_spots;
    for (uint32_t i = 0; i < w->scratch->n_layouts; i++)
        for (const tp_part *p = pps.begin; p < pps.end && p->gpus <= w->scratch->layouts[i].room;
             p++)
            if (!add_spots_for(w, i, &dps, &pps, p)) return NULL;
    if (!room_for(w, (void **)&book->lists, &book->lists_capacity, book->n_lists + 1,
                  sizeof *book->lists))
        return NULL;
    book->lists[book->n_lists] = (tp_spots){pp, begin, book->n_spots};
    return &book->lists[book->n_lists++];
}

// All placements of the sizes at hand. false: no memory.
static bool find_spots(walk *w) {
    tp_book *book = book_of(w);
    const tp_spots *list = NULL;
    if (book->sizes_stamp != w->scratch->sizes_stamp) book->n_lists = book->n_spots = 0;
    book->sizes_stamp = w->scratch->sizes_stamp;
    for (size_t i = 0; !list && i < book->n_lists; i++)
        if (book->lists[i].pp == w->partial.pipeline->pp) list = &book->lists[i];
    if (!list) list = add_spots(w);
    if (!list) return false;
    w->spots = book->spots + list->begin;
    w->n_spots = list->end - list->begin;
    return true;
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
    if (!find_spots(w)) return false;
    int64_t count = (int64_t)(w->n_spots * w->shape->n_panels);
    if (count == 0) return true;
    double capacity = w->job.on.system->accelerator.hbm.capacity * (1 - options->training.reserved);
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
        if (!walk_spots(w)) return false;
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
    tp_job job = {{&topic->question.system, &options->rules, &options->software},
                  &options->training,
                  topic->question.global_batch};
    int64_t tensor_gpus = gpus_of(shape->network, topic->question.gpus);
    double capacity = job.on.system->accelerator.hbm.capacity * (1 - options->training.reserved);
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
    if (!w->tensor_gpus) return true;
    if (w->job.global_batch % w->shape->micro_batch != 0) return true;
    w->topic = topic;
    w->topic_index = topic_index;
    w->finds = tp_search_finds(w->search, w->worker, topic_index);
    return enumerate_layouts(w) && walk_pipelines(w);
}

// Spots found for other sizes are none for these.
static void note_sizes(tp_scratch *scratch, const tp_shape *shape) {
    const int64_t *sizes = shape->network->sizes;
    size_t size = sizeof scratch->sizes;
    if (scratch->sizes_stamp && scratch->strategy == shape->strategy &&
        memcmp(scratch->sizes, sizes, size) == 0 &&
        memcmp(scratch->demanded, shape->fast, size) == 0)
        return;
    scratch->strategy = shape->strategy;
    memcpy(scratch->sizes, sizes, size);
    memcpy(scratch->demanded, shape->fast, size);
    scratch->sizes_stamp++;
}

bool tp_walk_shape(tp_search *search, const tp_place *place, const tp_shape *shape, int worker) {
    const tp_network *network = shape->network;
    walk w = {
        .search = search,
        .worker = worker,
        .shape = shape,
        .network = network,
        .n_sections = (size_t)network->n_kinds + 2,
        .job = {.on = {&search->topics[place->first].question.system, &search->options.rules,
                       &search->options.software},
                .training = &search->options.training},
        .scratch = &search->scratch[worker],
        .partial = {.strategy = shape->strategy,
                    .variant = shape->variant,
                    .micro_batch = shape->micro_batch},
    };
    memcpy(w.partial.sizes, network->sizes, sizeof w.partial.sizes);
    note_sizes(w.scratch, shape);
    tp_network_bytes(network, w.bytes);
    w.hop = tp_hop_times(&w.job, network);
    for (size_t topic = place->first; topic < place->end; topic++)
        if (!walk_topic(&w, topic)) return false;
    return true;
}
