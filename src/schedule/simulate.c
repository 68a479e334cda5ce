// simulate.c: when every pass of an order starts and stops.
// Each device runs its queue until a pass needs a result that is not there yet; the device is then
// left at the op it waits for and woken when that is done. Every op is run once and waited for at
// most once per device queue head, so the work is linear in the number of ops.
#include <math.h>
#include <string.h>

#include "schedule/cells.h"
#include "schedule/deadlock.h"

typedef struct simulation {
    const tp_order *order;
    const tp_schedule_costs *costs;
    const tp_schedule_rules *rules;
    tp_timeline *timeline;
    int32_t *next;     // [devices] the op at the head of the device's queue
    int32_t *waiter;   // [ops] the device that waits for the op, or -1
    int32_t *waiting;  // [devices] the next device that waits for the same op, or -1
    int32_t *runnable; // [devices] stack of devices to run
    int32_t count;
    tp_error *error;
} simulation;

// What an op waits for besides its queue: producer < 0 when nothing.
typedef struct dependency {
    int32_t op, device;
    double gap;
} dependency;

static dependency data_dependency(const simulation *sim, const tp_order_op *op, int32_t device) {
    dependency none = {-1, -1, 0.0};
    int32_t stage = op->stage, last = sim->order->stages - 1;
    if (op->pass == TP_BACKWARD_WEIGHT) {
        // Its own input gradient is earlier in the same queue, which is all it needs.
        if (!sim->rules->latency_before_weight || stage == last) return none;
    } else if (op->pass == TP_FORWARD) {
        if (stage-- == 0) return none;
    } else if (stage++ == last) {
        return none;
    }
    const tp_cell *cell = tp_cell_at(sim->timeline, sim->order, stage, op->microbatch);
    bool local = cell->device == device && op->pass != TP_BACKWARD_WEIGHT;
    return (dependency){
        .op = op->pass == TP_FORWARD ? cell->forward : cell->backward,
        .device = cell->device,
        .gap = local && !sim->rules->latency_within_device ? 0.0 : sim->costs->p2p,
    };
}

// Does the neighbour that takes this op's result run it outside a pair?
static bool has_plain_receiver(const simulation *sim, const tp_order_op *op) {
    if (op->pass == TP_BACKWARD_WEIGHT) return false;
    bool forward = op->pass == TP_FORWARD;
    if (op->stage == (forward ? sim->order->stages - 1 : 0)) return false;
    const tp_cell *cell = tp_cell_at(sim->timeline, sim->order,
                                     forward ? op->stage + 1 : op->stage - 1, op->microbatch);
    int32_t number = forward ? cell->forward : cell->backward;
    return tp_op_at(sim->timeline, sim->order, cell->device, number)->pairing == TP_ALONE;
}

// With blocking sends, two passes of one kind and stage in a row have the transfer between them;
// where the kind changes, sending and receiving go together and overlap with the work.
static double send_gap(const simulation *sim, const tp_order_op *before, const tp_order_op *op) {
    if (!sim->rules->blocking_send) return 0.0;
    bool alike = before->pairing == TP_ALONE && op->pairing == TP_ALONE &&
                 (before->pass == TP_FORWARD) == (op->pass == TP_FORWARD) &&
                 before->stage == op->stage;
    return alike && has_plain_receiver(sim, before) ? sim->costs->p2p : 0.0;
}

static double pair_time(const simulation *sim, int32_t forward_stage, int32_t backward_stage) {
    const tp_schedule_costs *costs = sim->costs;
    if (sim->rules->pair_by_forward_stage) backward_stage = forward_stage;
    if (costs->overlapped)
        return 0.5 * (costs->overlapped[forward_stage] + costs->overlapped[backward_stage]);
    return costs->time[TP_FORWARD][forward_stage] + costs->time[TP_BACKWARD][backward_stage];
}

static tp_status no_time(const simulation *sim, const tp_order_op *op) {
    return tp_error_set(sim->error, TP_INVALID, "no time is given for %s at stage %d",
                        op->pairing == TP_ALONE ? tp_pass_name((tp_pass_kind)op->pass)
                                                : "an overlapped pair",
                        op->stage + 1);
}

static void wake(simulation *sim, int32_t op) {
    for (int32_t d = sim->waiter[op]; d >= 0; d = sim->waiting[d])
        sim->runnable[sim->count++] = d;
    sim->waiter[op] = -1;
}

// Runs the entry at the head of the device's queue (one op, or a pair), or leaves it waiting.
static tp_status run_entry(simulation *sim, int32_t device, bool *waits) {
    tp_timeline *timeline = sim->timeline;
    int32_t number = sim->next[device];
    const tp_order_op *op = tp_op_at(timeline, sim->order, device, number);
    int32_t size = op->pairing == TP_ALONE ? 1 : 2;
    double start = sim->costs->ready ? sim->costs->ready[device] : 0.0;

    for (int32_t i = 0; i < size; i++) {
        dependency need = data_dependency(sim, &op[i], device);
        if (need.op < 0) continue;
        if (need.op >= sim->next[need.device]) {
            sim->waiting[device] = sim->waiter[need.op];
            sim->waiter[need.op] = device;
            *waits = true;
            return TP_OK;
        }
        double ready = timeline->stop[need.op] + need.gap;
        if (ready > start) start = ready;
    }
    if (number > timeline->first[device]) {
        double ready = timeline->stop[number - 1] + send_gap(sim, op - 1, op);
        if (ready > start) start = ready;
    }
    double time =
        size == 1 ? sim->costs->time[op->pass][op->stage] : pair_time(sim, op->stage, op[1].stage);
    if (isnan(time)) return no_time(sim, op);
    for (int32_t i = 0; i < size; i++) {
        timeline->start[number + i] = start;
        timeline->stop[number + i] = start + time;
    }
    sim->next[device] = number + size;
    for (int32_t i = 0; i < size; i++)
        wake(sim, number + i);
    return TP_OK;
}

static tp_status run_all(simulation *sim) {
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
            TP_TRY(run_entry(sim, d, &waits));
    }
    // Whoever still waits does so for a device that waits too.
    tp_deadlock_wait *waits = NULL;
    for (int32_t d = 0; d < devices; d++) {
        if (sim->next[d] == first[d + 1]) continue;
        waits = tp_heap_zeroed(sim->order->heap, (size_t)devices, sizeof *waits);
        if (!waits)
            return tp_error_set(sim->error, TP_NO_MEMORY, "not enough memory to name a deadlock");
        break;
    }
    if (!waits) return TP_OK;
    for (int32_t d = 0; d < devices; d++) {
        if (sim->next[d] == first[d + 1]) continue;
        const tp_order_op *head = tp_op_at(sim->timeline, sim->order, d, sim->next[d]);
        for (int32_t i = 0; i < (head->pairing == TP_ALONE ? 1 : 2); i++) {
            dependency need = data_dependency(sim, &head[i], d);
            if (need.op < 0 || need.op < sim->next[need.device]) continue;
            waits[d] = (tp_deadlock_wait){
                .entry = &head[i],
                .producer = tp_op_at(sim->timeline, sim->order, need.device, need.op),
                .producer_device = need.device,
            };
            break;
        }
    }
    tp_status status = tp_deadlock_error(waits, devices, sim->error);
    tp_heap_free(waits);
    return status;
}

tp_status tp_simulate(tp_timeline *timeline, const tp_order *order, const tp_schedule_costs *costs,
                      const tp_schedule_rules *rules, tp_error *error) {
    size_t devices = (size_t)order->devices, ops = (size_t)order->count;
    int32_t *block = tp_heap_new(order->heap, 3 * devices + ops, sizeof *block);
    if (!block)
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory to simulate %lld passes",
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
    tp_status status = run_all(&sim);
    tp_heap_free(block);
    return status;
}
