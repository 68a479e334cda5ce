// schedule.h: pipeline orders and their simulation.
// An order gives every device a queue of passes; the simulator finds when each runs: the longest path over data
// dependencies (a stage needs its neighbour's result) and queue dependencies (a device does one thing at a time).
// Devices, stages and micro-batches are numbered from 0 here and from 1 in messages. Times may be in any one unit; so
// may memory.
#ifndef TPERF_SCHEDULE_H
#define TPERF_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "tperf/error.h"
#include "tperf/heap.h"

// A backward pass is either whole, or split into the gradient of the input, which the previous stage waits for, and the
// gradient of the weights, on which no pass depends.
typedef enum tperf_pass_kind {
    TPERF_FORWARD,
    TPERF_BACKWARD,
    TPERF_BACKWARD_INPUT,
    TPERF_BACKWARD_WEIGHT,
    TPERF_PASS_COUNT
} tperf_pass_kind;

// A forward and a whole backward may overlap: two neighbours in the queue with a common start and stop.
typedef enum tperf_pairing { TPERF_ALONE, TPERF_PAIR_FORWARD, TPERF_PAIR_BACKWARD } tperf_pairing;

typedef struct tperf_order_op {
    int32_t stage, microbatch;
    int32_t need;    // of further passes, see tperf_order_need; 0: none
    uint8_t pass;    // tperf_pass_kind
    uint8_t pairing; // tperf_pairing
} tperf_order_op;

typedef struct tperf_queue {
    tperf_order_op *ops;
    int32_t count, capacity;
} tperf_queue;

// A pass of another kind than those of tperf_pass_kind, such as an optimizer's step or a copy to the host. It starts when
// all that it needs has ended.
typedef struct tperf_own_pass {
    int32_t device;
    int32_t need; // of other passes; 0: none
    double time;
    bool busy; // it keeps the device itself busy, not a link or a host beside it
} tperf_own_pass;

// A pass that another one waits for: an own pass, or the entry at a position of a device's queue.
typedef struct tperf_order_place_of {
    int32_t own; // -1: a queue's
    int32_t device, position;
} tperf_order_place_of;

typedef struct tperf_order_need {
    tperf_order_place_of of;
    int32_t next; // the next one of the same pass, from 1 on; 0: none
} tperf_order_need;

// A zeroed order is empty and may be released.
typedef struct tperf_order {
    const tperf_heap *heap; // the caller's; charged for the order and its timeline
    int32_t devices, stages, microbatches;
    int64_t count;       // ops in all queues
    tperf_queue *queues; // [devices]
    uint8_t *holds;      // bit device * stages + stage: may run there; NULL: any may
    tperf_own_pass *own;
    int32_t n_own, own_capacity;
    tperf_order_need *needs;
    int32_t n_needs, needs_capacity;
    int32_t *
        waiting; // [devices] needs of the pass that is added next to the device's queue; NULL: of none
} tperf_order;

tperf_status tperf_order_init(tperf_order *order, const tperf_heap *heap, int64_t devices,
                              int64_t stages, int64_t microbatches, tperf_error *error);
void tperf_order_release(tperf_order *order);

// Declares that the device holds the stage's weights. Several devices may hold a stage. Until the first call any device
// may run any stage.
tperf_status tperf_order_hold(tperf_order *order, int64_t device, int64_t stage,
                              tperf_error *error);

// Append to the device's queue. Fail if a number is out of range or the device does not hold the stage.
tperf_status tperf_order_add(tperf_order *order, tperf_pass_kind pass, int64_t device,
                             int64_t stage, int64_t microbatch, tperf_error *error);
typedef struct tperf_order_place {
    int64_t stage, microbatch;
} tperf_order_place;
tperf_status tperf_order_add_pair(tperf_order *order, int64_t device, tperf_order_place forward,
                                  tperf_order_place backward, tperf_error *error);

// Adds a pass of another kind. Its number is order->n_own - 1.
tperf_status tperf_order_add_own(tperf_order *order, int64_t device, double time, bool busy,
                                 tperf_error *error);

// The own pass `own`, or if it is -1 the pass that is added next to the device's queue, starts after that one's end.
tperf_status tperf_order_wait(tperf_order *order, int32_t own, int64_t device,
                              tperf_order_place_of of, tperf_error *error);

// The costs of an op. Every array is [stages] unless it says otherwise.
typedef struct tperf_schedule_costs {
    const double *time[TPERF_PASS_COUNT]; // NaN: not given; an error if needed
    const double *overlapped;             // time of a pair; NULL: the sum of its halves
    const double *memory
        [TPERF_PASS_COUNT]; // change in the device's memory: growth (forward) or release after it
    // Live on the device only while the op runs; NULL: nothing.
    const double *passing[TPERF_PASS_COUNT];
    const double *ready; // [devices] when each device can begin; NULL: at 0
    double p2p;          // from the end of a stage's pass to its neighbour's start
    // Factors; NULL: 1. The planners below do not read them.
    const double *scale[TPERF_PASS_COUNT]; // [microbatches] of a pass's time
    const double *memory_scale;            // [microbatches] of memory, kept and live
    const double *speed;                   // [devices] of a device's work in a second
    const double *links; // [from * devices + to] in place of p2p; NaN: not given; NULL: p2p
} tperf_schedule_costs;

// Greedily planned orders, for an empty order. They read p2p and the costs of a forward, an input gradient and a weight
// gradient. Limits bound the memory that a device holds, in the unit of costs.memory; an order that exceeds them fails.

// One stage per device, the best of eight variants (arXiv 2401.10241). `limits`: [devices].
tperf_status tperf_order_zero_bubble(tperf_order *order, const tperf_schedule_costs *costs,
                                     const double *limits, tperf_error *error);

// Two stages per device in a V, with equal costs (the mean of all); the best of four variants, each refined by filling
// the bubbles that it left (arXiv 2401.10241 and 2405.15362). The smallest of `limits`, [devices], holds for all; NULL:
// two forwards per device.
tperf_status tperf_order_zbv(tperf_order *order, const tperf_schedule_costs *costs,
                             const double *limits, tperf_error *error);

// Two stages per device in a V, at about half or a third of 1F1B's memory (arXiv 2405.15362).
typedef enum tperf_v_block { TPERF_V_HALF, TPERF_V_MIN } tperf_v_block;
tperf_status tperf_order_v_block(tperf_order *order, tperf_v_block block, tperf_error *error);

// Modelling assumptions that differ; lua/tperf/describe/schedule/rules.lua documents the named sets.
typedef struct tperf_schedule_rules {
    bool latency_within_device;   // p2p applies between two stages on one device, too
    bool latency_before_weight;   // a weight gradient waits p2p after its own input gradient
                                  // (not on the last stage)
    bool blocking_send;           // p2p between two passes of a kind and stage if the first sends
    bool pair_by_forward_stage;   // a pair's time is looked up by its forward's stage only
    bool backward_before_forward; // a backward may be queued before its own forward
    bool ideal_by_whole_backward; // the ideal time counts whole backwards even if they are split
} tperf_schedule_rules;

typedef struct tperf_device_summary {
    double first_start, last_stop, busy;
    double peak_memory;       // in the unit of costs.memory, from 0
    int32_t peak_activations; // micro-batches of one stage: +1 after a forward, -1 after a whole
                              // backward or a weight gradient
    double fullest;           // peak memory while an op runs, including memory live only during it
    int32_t fullest_op;       // that op's index in the queue
} tperf_device_summary;

// Ops are numbered device by device, in queue order.
typedef struct tperf_cell {            // one micro-batch on one stage
    int32_t forward, backward, weight; // op numbers, -1: none; backward is whole or input only
    int32_t device;
} tperf_cell;

typedef struct tperf_timeline {
    int64_t *first;                // [devices + 1] number of each device's first op
    double *start, *stop;          // [ops]
    double *own_start, *own_stop;  // [own passes]
    tperf_cell *cells;             // [stage * microbatches + microbatch]
    tperf_device_summary *summary; // [devices]
    double makespan;               // from 0 to the last stop
    double ideal;                  // all the work divided evenly, overlapped passes counted once
} tperf_timeline;

// Checks the order (every forward has its backward and vice versa, once, on one device, in the right sequence) and
// simulates it. A deadlock is an error that names the cycle. Linear in the number of ops. On failure there is nothing
// to release.
tperf_status tperf_timeline_init(tperf_timeline *timeline, const tperf_order *order,
                                 const tperf_schedule_costs *costs,
                                 const tperf_schedule_rules *rules, tperf_error *error);
void tperf_timeline_release(tperf_timeline *timeline);

const char *tperf_pass_name(tperf_pass_kind pass); // "forward", "backward", "input backward" …

#endif
