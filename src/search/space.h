// space.h: a search and its parts. Private to src/search.
#ifndef TPERF_SEARCH_SPACE_H
#define TPERF_SEARCH_SPACE_H

#include <stdatomic.h>

#include "search/best.h"
#include "search/divisors.h"

// A question, prepared.
typedef struct tp_topic {
    tp_question question;
    // GPUs of a fast domain that any candidate fills, all axes together; 0: no placement does
    // (Q16). A machine of no more than one domain is filled by every candidate.
    int64_t filled;
    bool one_domain;
    const tp_divisors *divisors; // of `filled`, with splits
} tp_topic;

// Neighbouring topics of one system in which the axes of a network can be placed in the same ways: what a
// shape's layouts cost is the same for all of them.
typedef struct tp_place {
    size_t first, end;
} tp_place;

// One way to place the network's axes; the network's costs with it are timed when first needed.
typedef struct tp_layout {
    int64_t fast[TP_AXES_MAX];
    int64_t gradient_fast; // product of those that gradients are reduced over, beside dp's
    uint32_t rest;         // the divisor that dp and pp have to fill
    bool timed;
} tp_layout;

// What depends on one divisor of what is filled, apart from the sizes at hand.
typedef struct tp_slot {
    int64_t experts_fast; // the expert axis's part when this is dp's
    bool divides_dp, divides_pp;
    double hop; // tp_hop_time when this is pp's part
    // tp_exchange_times when this is the replicas' part, dp's times that of the gradient axes
    int64_t exchanges_for; // the expert axis's part they hold for; 0: not timed
    tp_exchange exchanges[TP_SECTIONS_MAX];
} tp_slot;

// What one worker needs while it walks one shape for one place; grows, and is used again.
typedef struct tp_scratch {
    size_t n_layouts, layouts_capacity, costs_capacity, works_capacity, slots_capacity;
    tp_layout *layouts;
    tp_layer_cost *costs; // n_layouts x n_panels x sections
    tp_op_work *works;    // n_panels x ops, once a layout has been timed
    tp_slot *slots;       // one a divisor of what is filled
} tp_scratch;

// What one worker has found for one question.
typedef struct tp_finds {
    int64_t candidates, feasible, evaluated;
    tp_best best;
    tp_found least; // needs least memory of those laid out; no pipeline: none yet
} tp_finds;

struct tp_search {
    tp_search_options options;
    tp_shared_heap heap; // of everything below
    tp_pool *pool;       // may go before the search does
    size_t n_workers, n_topics, n_places, n_divisors;
    tp_topic *topics;
    tp_place *places;       // of all topics, in their order
    tp_divisors *divisors;  // of every `filled`
    tp_scratch *scratch;    // one a worker
    tp_finds *finds;        // workers x topics
    const tp_shape *shapes; // of the walk under way
    size_t n_shapes;
    atomic_bool out_of_memory;
};

static inline tp_finds *tp_search_finds(tp_search *search, int worker, size_t topic) {
    return &search->finds[(size_t)worker * search->n_topics + topic];
}

static inline bool tp_search_stopped(const tp_search *search) {
    return search->options.stop && atomic_load(search->options.stop);
}

// Walks one shape for the topics of one place. false: no memory.
bool tp_walk_shape(tp_search *search, const tp_place *place, const tp_shape *shape, int worker);

#endif
