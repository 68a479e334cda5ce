// space.h: a search and its parts. Private to src/search.
#ifndef TPERF_SEARCH_SPACE_H
#define TPERF_SEARCH_SPACE_H

#include <stdatomic.h>

#include "grid/placements.h"
#include "search/best.h"

// A question, prepared.
typedef struct tp_topic {
    tp_question question;
    bool one_domain; // the machine is no more than one fast domain, which holds all of it
    const tp_divisors *divisors; // of the number of GPUs
} tp_topic;

// Neighbouring topics in which the axes of a network can be placed in the same ways: what a shape's layouts cost
// is the same for all of them.
typedef struct tp_place {
    size_t first, end;
} tp_place;

// What depends on how many stages share a domain: as many as a divisor of all GPUs.
typedef struct tp_slot {
    double hop;      // tp_hop_time
    int64_t hop_for; // the walk's stamp when it was timed
} tp_slot;

// The network's costs in one placement of its axes; timed when first needed.
typedef struct tp_costs {
    int64_t timed_for; // the scratch's shape_stamp
} tp_costs;

// The pipeline's times with those costs, whatever the ZeRO stage; worked out when first needed.
typedef struct tp_paced {
    int64_t paced_for; // the scratch's pace_stamp
    tp_pipeline_time time;
} tp_paced;

// What the replicas of one spot exchange; timed when first needed.
typedef struct tp_exchanged {
    int64_t timed_for; // the walk's stamp
    tp_exchange sections[TP_SECTIONS_MAX];
} tp_exchanged;

// What one worker needs while it walks one shape for one place; grows, and is used again.
typedef struct tp_scratch {
    size_t timed_capacity, costs_capacity, works_capacity, slots_capacity, exchanged_capacity,
        paced_capacity;
    tp_costs *timed;         // one a placement of the place's atlas
    tp_layer_cost *costs;    // placements x n_panels x sections
    tp_paced *paced;         // placements x n_panels
    tp_op_work *works;       // n_panels x ops, once a placement has been timed
    tp_slot *slots;          // one a divisor of all GPUs
    tp_exchanged *exchanged; // one a kind of exchange of the topic's book
    tp_atlas *atlases;       // one a place
    tp_book *books;          // one a topic
    int64_t stamp;           // changes whenever slots and exchanges have to be timed again
    int64_t shape_stamp;     // changes with the shape and the place
    int64_t pace_stamp;      // changes with these and the pipeline
    int64_t sizes_stamp;     // changes with the three below
    int strategy;            // of the shape walked last
    int64_t sizes[TP_AXES_MAX], demanded[TP_AXES_MAX]; // its sizes and placements
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
    tp_divisors *divisors;  // of every number of GPUs
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
