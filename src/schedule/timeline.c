// timeline.c: an order's timeline and its summary per device.
#include <math.h>
#include <string.h>

#include "schedule/cells.h"

void tperf_timeline_release(tperf_timeline *timeline) {
    tperf_heap_free(timeline->first);
    tperf_heap_free(timeline->start);
    tperf_heap_free(timeline->stop);
    tperf_heap_free(timeline->own_start);
    tperf_heap_free(timeline->own_stop);
    tperf_heap_free(timeline->cells);
    tperf_heap_free(timeline->summary);
    memset(timeline, 0, sizeof *timeline);
}

static tperf_status reserve(tperf_timeline *timeline, const tperf_order *order,
                            tperf_error *error) {
    size_t devices = (size_t)order->devices, ops = (size_t)order->count;
    size_t cells = (size_t)order->stages * (size_t)order->microbatches;
    const tperf_heap *heap = order->heap;
    timeline->first = tperf_heap_new(heap, devices + 1, sizeof *timeline->first);
    timeline->start = tperf_heap_new(heap, ops, sizeof *timeline->start);
    timeline->stop = tperf_heap_new(heap, ops, sizeof *timeline->stop);
    timeline->cells = tperf_heap_new(heap, cells, sizeof *timeline->cells);
    timeline->summary = tperf_heap_zeroed(heap, devices, sizeof *timeline->summary);
    bool has_own = order->n_own > 0;
    if (has_own) {
        timeline->own_start = tperf_heap_new(heap, (size_t)order->n_own, sizeof(double));
        timeline->own_stop = tperf_heap_new(heap, (size_t)order->n_own, sizeof(double));
    }
    if (timeline->first && (!has_own || (timeline->own_start && timeline->own_stop)) &&
        timeline->start && timeline->stop && timeline->cells && timeline->summary)
        return TPERF_OK;
    return tperf_error_set(error, TPERF_NO_MEMORY,
                           "not enough memory for the timeline of %lld passes",
                           (long long)order->count);
}

static double memory_of(const tperf_schedule_costs *costs, const double *of_stage,
                        const tperf_order_op *op) {
    double scale = costs->memory_scale ? costs->memory_scale[op->microbatch] : 1.0;
    return scale * of_stage[op->stage];
}

static double passing_of(const tperf_schedule_costs *costs, const tperf_order_op *op) {
    return costs->passing[op->pass] ? memory_of(costs, costs->passing[op->pass], op) : 0.0;
}

// The memory of a device while an entry of its queue (one op or a pair) runs, from `level` before it: a forward takes
// its memory when it starts, a backward frees it when it stops.
static double level_during(const tperf_schedule_costs *costs, const tperf_order_op *op,
                           double level) {
    double passing = 0.0;
    for (int i = 0; i < (op->pairing == TPERF_ALONE ? 1 : 2); i++) {
        level += fmax(memory_of(costs, costs->memory[op[i].pass], &op[i]), 0.0);
        passing = fmax(passing, passing_of(costs, &op[i]));
    }
    return level + passing;
}

static void summarize_device(tperf_timeline *timeline, const tperf_order *order,
                             const tperf_schedule_costs *costs, int32_t device) {
    const tperf_queue *queue = &order->queues[device];
    tperf_device_summary *summary = &timeline->summary[device];
    int64_t first = timeline->first[device];
    if (queue->count == 0) return;
    summary->first_start = timeline->start[first];
    summary->last_stop = timeline->stop[first + queue->count - 1];
    double memory = 0.0;
    int32_t activations = 0;
    for (int32_t i = 0; i < queue->count; i++) {
        const tperf_order_op *op = &queue->ops[i];
        if (op->pairing != TPERF_PAIR_BACKWARD)
            summary->busy += timeline->stop[first + i] - timeline->start[first + i];
        if (op->pairing != TPERF_PAIR_BACKWARD) {
            double during = level_during(costs, op, memory);
            if (during > summary->fullest) {
                summary->fullest = during;
                summary->fullest_op = i;
            }
        }
        memory += memory_of(costs, costs->memory[op->pass], op);
        if (op->pass == TPERF_FORWARD) activations++;
        if (op->pass == TPERF_BACKWARD || op->pass == TPERF_BACKWARD_WEIGHT) activations--;
        if (memory > summary->peak_memory) summary->peak_memory = memory;
        if (activations > summary->peak_activations) summary->peak_activations = activations;
    }
}

static double mean_scale(const tperf_schedule_costs *costs, const tperf_order *order,
                         tperf_pass_kind pass) {
    if (!costs->scale[pass]) return 1.0;
    double sum = 0.0;
    for (int32_t m = 0; m < order->microbatches; m++)
        sum += costs->scale[pass][m];
    return sum / order->microbatches;
}

// All the work divided evenly: as it ran, with overlapped passes counted once, or as the rules say.
static double ideal_time(const tperf_timeline *timeline, const tperf_order *order,
                         const tperf_schedule_costs *costs, const tperf_schedule_rules *rules) {
    double work = 0.0;
    if (rules->ideal_by_whole_backward) {
        for (int32_t s = 0; s < order->stages; s++) {
            work += costs->time[TPERF_FORWARD][s] * mean_scale(costs, order, TPERF_FORWARD);
            work += costs->time[TPERF_BACKWARD][s] * mean_scale(costs, order, TPERF_BACKWARD);
        }
        return work * order->microbatches / order->devices;
    }
    for (int32_t d = 0; d < order->devices; d++)
        work += timeline->summary[d].busy;
    return work / order->devices;
}

static tperf_status summarize(tperf_timeline *timeline, const tperf_order *order,
                              const tperf_schedule_costs *costs, const tperf_schedule_rules *rules,
                              tperf_error *error) {
    for (int32_t d = 0; d < order->devices; d++) {
        summarize_device(timeline, order, costs, d);
        if (timeline->summary[d].last_stop > timeline->makespan)
            timeline->makespan = timeline->summary[d].last_stop;
    }
    for (int32_t i = 0; i < order->n_own; i++) {
        tperf_device_summary *summary = &timeline->summary[order->own[i].device];
        summary->last_stop = fmax(summary->last_stop, timeline->own_stop[i]);
        timeline->makespan = fmax(timeline->makespan, timeline->own_stop[i]);
        if (order->own[i].busy) summary->busy += order->own[i].time;
    }
    timeline->ideal = ideal_time(timeline, order, costs, rules);
    if (isfinite(timeline->makespan) && isnan(timeline->ideal))
        return tperf_error_set(error, TPERF_INVALID,
                               "the bubble needs a time for forward and backward at every stage");
    if (!isfinite(timeline->makespan) || !isfinite(timeline->ideal))
        return tperf_error_set(error, TPERF_INVALID,
                               "the times are too large: their sum overflows");
    return TPERF_OK;
}

tperf_status tperf_timeline_init(tperf_timeline *timeline, const tperf_order *order,
                                 const tperf_schedule_costs *costs,
                                 const tperf_schedule_rules *rules, tperf_error *error) {
    memset(timeline, 0, sizeof *timeline);
    tperf_status status = reserve(timeline, order, error);
    if (status == TPERF_OK) status = tperf_cells_fill(timeline, order, rules, error);
    if (status == TPERF_OK) status = tperf_simulate(timeline, order, costs, rules, error);
    if (status == TPERF_OK) status = summarize(timeline, order, costs, rules, error);
    if (status != TPERF_OK) tperf_timeline_release(timeline);
    return status;
}
