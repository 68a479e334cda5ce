// simulate.c: the start and stop of every pass of an order. Each device runs its queue until a pass needs a result that
// is not ready; the device then registers with the op that it waits for, and is woken when that op is done. Every op
// runs once and is waited for at most once per device's queue head, so the work is linear in the number of ops.
#include <math.h>
#include <string.h>

#include "schedule/cells.h"
#include "schedule/deadlock.h"

typedef struct simulation {
    const tperf_order *order;
    const tperf_schedule_costs *costs;
    const tperf_schedule_rules *rules;
    tperf_timeline *timeline;
    int32_t *next;     // [devices] the op at the head of the device's queue
    int32_t *waiter;   // [ops] the device that waits for the op, or -1
    int32_t *waiting;  // [devices] the next device that waits for the same op, or -1
    int32_t *runnable; // [devices] stack of devices to run
    int32_t count;
    tperf_error *error;
} simulation;

// Seconds from the end of a pass on one device until its result is on another.
static double transfer(const simulation *sim, int32_t from, int32_t to) {
    const double *links = sim->costs->links;
    if (!links) return sim->costs->p2p;
    return from == to ? 0.0 : links[(int64_t)from * sim->order->devices + to];
}

static double factor(const double *factors, int32_t at) {
    return factors ? factors[at] : 1.0;
}

// An op's dependency besides its queue; producer < 0: none.
typedef struct dependency {
    int32_t op, device;
    double gap;
} dependency;

static dependency data_dependency(const simulation *sim, const tperf_order_op *op, int32_t device) {
    dependency none = {-1, -1, 0.0};
    int32_t stage = op->stage, last = sim->order->stages - 1;
    if (op->pass == TPERF_BACKWARD_WEIGHT) {
        // It depends only on its own input gradient, which is earlier in the same queue.
        if (!sim->rules->latency_before_weight || stage == last) return none;
    } else if (op->pass == TPERF_FORWARD) {
        if (stage-- == 0) return none;
    } else if (stage++ == last) {
        return none;
    }
    const tperf_cell *cell = tperf_cell_at(sim->timeline, sim->order, stage, op->microbatch);
    bool local = cell->device == device && op->pass != TPERF_BACKWARD_WEIGHT;
    return (dependency){
        .op = op->pass == TPERF_FORWARD ? cell->forward : cell->backward,
        .device = cell->device,
        .gap =
            local && !sim->rules->latency_within_device ? 0.0 : transfer(sim, cell->device, device),
    };
}

// The device that receives this op's result if it runs its pass outside a pair; else -1.
static int32_t plain_receiver(const simulation *sim, const tperf_order_op *op) {
    if (op->pass == TPERF_BACKWARD_WEIGHT) return -1;
    bool forward = op->pass == TPERF_FORWARD;
    if (op->stage == (forward ? sim->order->stages - 1 : 0)) return -1;
    const tperf_cell *cell = tperf_cell_at(sim->timeline, sim->order,
                                           forward ? op->stage + 1 : op->stage - 1, op->microbatch);
    int32_t number = forward ? cell->forward : cell->backward;
    bool plain =
        tperf_op_at(sim->timeline, sim->order, cell->device, number)->pairing == TPERF_ALONE;
    return plain ? cell->device : -1;
}

// With blocking sends, the transfer separates two consecutive passes of the same kind and stage; where the kind
// changes, send and receive are combined and overlap with compute.
static double send_gap(const simulation *sim, const tperf_order_op *before,
                       const tperf_order_op *op, int32_t device) {
    if (!sim->rules->blocking_send) return 0.0;
    bool alike = before->pairing == TPERF_ALONE && op->pairing == TPERF_ALONE &&
                 (before->pass == TPERF_FORWARD) == (op->pass == TPERF_FORWARD) &&
                 before->stage == op->stage;
    int32_t receiver = alike ? plain_receiver(sim, before) : -1;
    return receiver >= 0 ? transfer(sim, device, receiver) : 0.0;
}

static double pair_time(const simulation *sim, const tperf_order_op *forward,
                        const tperf_order_op *backward) {
    const tperf_schedule_costs *costs = sim->costs;
    int32_t backward_stage = sim->rules->pair_by_forward_stage ? forward->stage : backward->stage;
    double f = factor(costs->scale[TPERF_FORWARD], forward->microbatch),
           b = factor(costs->scale[TPERF_BACKWARD], backward->microbatch);
    if (costs->overlapped)
        return 0.5 *
               (f * costs->overlapped[forward->stage] + b * costs->overlapped[backward_stage]);
    return f * costs->time[TPERF_FORWARD][forward->stage] +
           b * costs->time[TPERF_BACKWARD][backward_stage];
}

// Seconds of an entry of a queue, one op or a pair.
static double entry_time(const simulation *sim, const tperf_order_op *op, int32_t device) {
    const tperf_schedule_costs *costs = sim->costs;
    double time = op->pairing == TPERF_ALONE ? costs->time[op->pass][op->stage] *
                                                   factor(costs->scale[op->pass], op->microbatch)
                                             : pair_time(sim, op, op + 1);
    return time / factor(costs->speed, device);
}

static tperf_status no_link(const simulation *sim, int32_t from, int32_t to) {
    return tperf_error_set(sim->error, TPERF_INVALID,
                           "'p2p' has no time from device %d to device %d", from + 1, to + 1);
}

static tperf_status no_time(const simulation *sim, const tperf_order_op *op) {
    return tperf_error_set(sim->error, TPERF_INVALID, "no time is given for %s at stage %d",
                           op->pairing == TPERF_ALONE ? tperf_pass_name((tperf_pass_kind)op->pass)
                                                      : "an overlapped pair",
                           op->stage + 1);
}

static void wake(simulation *sim, int32_t op) {
    for (int32_t d = sim->waiter[op]; d >= 0; d = sim->waiting[d])
        sim->runnable[sim->count++] = d;
    sim->waiter[op] = -1;
}

// Runs the entry at the head of the device's queue (one op, or a pair), or leaves it waiting.
static tperf_status run_entry(simulation *sim, int32_t device, bool *waits) {
    tperf_timeline *timeline = sim->timeline;
    int32_t number = sim->next[device];
    const tperf_order_op *op = tperf_op_at(timeline, sim->order, device, number);
    int32_t size = op->pairing == TPERF_ALONE ? 1 : 2;
    double start = sim->costs->ready ? sim->costs->ready[device] : 0.0;

    for (int32_t i = 0; i < size; i++) {
        dependency need = data_dependency(sim, &op[i], device);
        if (need.op < 0) continue;
        if (need.op >= sim->next[need.device]) {
            sim->waiting[device] = sim->waiter[need.op];
            sim->waiter[need.op] = device;
            *waits = true;
            return TPERF_OK;
        }
        double ready = timeline->stop[need.op] + need.gap;
        if (isnan(need.gap)) return no_link(sim, need.device, device);
        if (ready > start) start = ready;
    }
    if (number > timeline->first[device]) {
        double ready = timeline->stop[number - 1] + send_gap(sim, op - 1, op, device);
        if (ready > start) start = ready;
    }
    double time = entry_time(sim, op, device);
    if (isnan(time)) return no_time(sim, op);
    for (int32_t i = 0; i < size; i++) {
        timeline->start[number + i] = start;
        timeline->stop[number + i] = start + time;
    }
    sim->next[device] = number + size;
    for (int32_t i = 0; i < size; i++)
        wake(sim, number + i);
    return TPERF_OK;
}

static tperf_status run_all(simulation *sim) {
    const int64_t *first = sim->timeline->first;
    int32_t devices = sim->order->devices;
    for (int32_t d = devices - 1; d >= 0; d--) {
        sim->next[d] = (int32_t)first[d];
        sim->runnable[sim->count++] = d;
    }
    while (sim->count > 0) {
        int32_t d = sim->runnable[--sim->count];
        bool waits = false;
        while (!waits && sim->next[d] < first[d + 1])
            TPERF_TRY(run_entry(sim, d, &waits));
    }
    // A device that still waits does so for a device that waits, too.
    tperf_deadlock_wait *waits = NULL;
    for (int32_t d = 0; d < devices; d++) {
        if (sim->next[d] == first[d + 1]) continue;
        waits = tperf_heap_zeroed(sim->order->heap, (size_t)devices, sizeof *waits);
        if (!waits)
            return tperf_error_set(sim->error, TPERF_NO_MEMORY,
                                   "not enough memory to name a deadlock");
        break;
    }
    if (!waits) return TPERF_OK;
    for (int32_t d = 0; d < devices; d++) {
        if (sim->next[d] == first[d + 1]) continue;
        const tperf_order_op *head = tperf_op_at(sim->timeline, sim->order, d, sim->next[d]);
        for (int32_t i = 0; i < (head->pairing == TPERF_ALONE ? 1 : 2); i++) {
            dependency need = data_dependency(sim, &head[i], d);
            if (need.op < 0 || need.op < sim->next[need.device]) continue;
            waits[d] = (tperf_deadlock_wait){
                .entry = &head[i],
                .producer = tperf_op_at(sim->timeline, sim->order, need.device, need.op),
                .producer_device = need.device,
            };
            break;
        }
    }
    tperf_status status = tperf_deadlock_error(waits, devices, sim->error);
    tperf_heap_free(waits);
    return status;
}

tperf_status tperf_simulate(tperf_timeline *timeline, const tperf_order *order,
                            const tperf_schedule_costs *costs, const tperf_schedule_rules *rules,
                            tperf_error *error) {
    size_t devices = (size_t)order->devices, ops = (size_t)order->count;
    int32_t *block = tperf_heap_new(order->heap, 3 * devices + ops, sizeof *block);
    if (!block)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory to simulate %lld passes",
                               (long long)order->count);
    simulation sim = {
        .order = order,
        .costs = costs,
        .rules = rules,
        .timeline = timeline,
        .next = block,
        .waiting = block + devices,
        .runnable = block + 2 * devices,
        .waiter = block + 3 * devices,
        .error = error,
    };
    memset(sim.waiter, -1, ops * sizeof *sim.waiter);
    tperf_status status = run_all(&sim);
    tperf_heap_free(block);
    return status;
}
