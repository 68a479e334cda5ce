// space.h: a search and its parts. Private to src/search.
#ifndef TPERF_SEARCH_SPACE_H
#define TPERF_SEARCH_SPACE_H

#include <stdatomic.h>

#include "search/best.h"
#include "search/divisors.h"

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

// One way to place the network's axes; the network's costs with it are timed when first needed.
typedef struct tp_layout {
    int64_t fast[TP_AXES_MAX];
    int64_t gradient_fast; // product of those that gradients are reduced over, beside dp's
    int64_t room;          // GPUs of a domain that are left for each of them
    int64_t step; // the smallest factor by which one of them could grow; INT64_MAX: none can
    bool timed;
} tp_layout;

// A layout with the parts of dp and pp.
typedef struct tp_spot {
    uint32_t layout; // its index
    const tp_part *dp, *pp;
} tp_spot;

// The spots of one number of pipeline stages, which decides dp.
typedef struct tp_spots {
    int64_t pp;
    size_t begin, end; // in the book's spots
} tp_spots;

// The spots that a topic has for one set of sizes: those of all its shapes, whatever their micro-batch.
typedef struct tp_book {
    int64_t sizes_stamp; // the scratch's when they were found
    size_t n_lists, n_spots, lists_capacity, spots_capacity;
    tp_spots *lists;
    tp_spot *spots; // by layout within a list
} tp_book;

// What depends on how many GPUs of a group share a domain, which is a divisor of all GPUs.
typedef struct tp_slot {
    double hop;      // tp_hop_time when these are pp's
    int64_t hop_for; // the walk's stamp when it was timed
    int64_t
        exchanges_for; // likewise; tp_exchange_times when these are the replicas', dp's times the gradient axes'
    int64_t experts_fast; // of the expert axis, that the exchanges were timed for
    tp_exchange exchanges[TP_SECTIONS_MAX];
} tp_slot;

// What one worker needs while it walks one shape for one place; grows, and is used again.
typedef struct tp_scratch {
    size_t n_layouts, layouts_capacity, costs_capacity, works_capacity, slots_capacity;
    tp_layout *layouts;
    tp_layer_cost *costs; // n_layouts x n_panels x sections
    tp_op_work *works;    // n_panels x ops, once a layout has been timed
    tp_slot *slots;       // one a divisor of all GPUs
    tp_book *books;       // one a topic
    int64_t stamp;        // changes whenever slots have to be timed again
    int64_t sizes_stamp;  // changes with the three below
    int strategy;         // of the shape walked last
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
