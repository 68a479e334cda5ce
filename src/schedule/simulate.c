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
    int32_t *next; // [devices] the op at the head of the device's queue
    // Those that wait are devices, and after them own passes; what they wait for is ops, and after them own passes.
    int32_t *waiter;   // by what is waited for: who waits for it, or -1
    int32_t *waiting;  // by who waits: the next that waits for the same, or -1
    int32_t *runnable; // stack of those to run
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

static void wait_for(simulation *sim, int32_t who, int32_t what) {
    sim->waiting[who] = sim->waiter[what];
    sim->waiter[what] = who;
}

// Whether all needs of a list are met: then *start is no earlier than their ends. Else `who` waits for one of them.
static bool needs_met(simulation *sim, int32_t need, int32_t who, double *start) {
    const tperf_order *order = sim->order;
    const tperf_timeline *timeline = sim->timeline;
    for (; need > 0; need = order->needs[need - 1].next) {
        tperf_order_place_of of = order->needs[need - 1].of;
        int32_t what = of.own >= 0 ? (int32_t)order->count + of.own
                                   : (int32_t)timeline->first[of.device] + of.position;
        bool done = of.own >= 0 ? !isnan(timeline->own_stop[of.own]) : what < sim->next[of.device];
        if (!done) {
            wait_for(sim, who, what);
            return false;
        }
        *start = fmax(*start, of.own >= 0 ? timeline->own_stop[of.own] : timeline->stop[what]);
    }
    return true;
}

static void run_own(simulation *sim, int32_t number) {
    const tperf_own_pass *own = &sim->order->own[number];
    double start = sim->costs->ready ? sim->costs->ready[own->device] : 0.0;
    if (!needs_met(sim, own->need, sim->order->devices + number, &start)) return;
    sim->timeline->own_start[number] = start;
    sim->timeline->own_stop[number] = start + own->time;
    wake(sim, (int32_t)sim->order->count + number);
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
            wait_for(sim, device, need.op);
            *waits = true;
            return TPERF_OK;
        }
        double ready = timeline->stop[need.op] + need.gap;
        if (isnan(need.gap)) return no_link(sim, need.device, device);
        if (ready > start) start = ready;
    }
    if (op->need && !needs_met(sim, op->need, device, &start)) {
        *waits = true;
        return TPERF_OK;
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

// What a device at the head of its queue waits for, among the passes of other devices.
static tperf_deadlock_wait wait_of(const simulation *sim, int32_t device) {
    const tperf_order_op *head = tperf_op_at(sim->timeline, sim->order, device, sim->next[device]);
    for (int32_t i = 0; i < (head->pairing == TPERF_ALONE ? 1 : 2); i++) {
        dependency need = data_dependency(sim, &head[i], device);
        if (need.op < 0 || need.op < sim->next[need.device]) continue;
        return (tperf_deadlock_wait){
            .entry = &head[i],
            .producer = tperf_op_at(sim->timeline, sim->order, need.device, need.op),
            .producer_device = need.device,
        };
    }
    return (tperf_deadlock_wait){0};
}

// A device that still waits does so for one that waits, too, or for a pass of another kind that does.
static tperf_status deadlock(const simulation *sim, int32_t device) {
    const int64_t *first = sim->timeline->first;
    int32_t devices = sim->order->devices;
    if (sim->order->n_own > 0) {
        const tperf_order_op *op =
            tperf_op_at(sim->timeline, sim->order, device, sim->next[device]);
        return tperf_error_set(sim->error, TPERF_INVALID,
                               "deadlock: device %d, at %s of micro-batch %d at stage %d, and "
                               "what it waits for wait for each other",
                               device + 1, tperf_pass_name((tperf_pass_kind)op->pass),
                               op->microbatch + 1, op->stage + 1);
    }
    tperf_deadlock_wait *waits =
        tperf_heap_zeroed(sim->order->heap, (size_t)devices, sizeof *waits);
    if (!waits)
        return tperf_error_set(sim->error, TPERF_NO_MEMORY, "not enough memory to name a deadlock");
    for (int32_t d = 0; d < devices; d++)
        if (sim->next[d] != first[d + 1]) waits[d] = wait_of(sim, d);
    tperf_status status = tperf_deadlock_error(waits, devices, sim->error);
    tperf_heap_free(waits);
    return status;
}

static tperf_status run_all(simulation *sim) {
    const int64_t *first = sim->timeline->first;
    int32_t devices = sim->order->devices;
    for (int32_t i = sim->order->n_own - 1; i >= 0; i--) {
        sim->timeline->own_start[i] = sim->timeline->own_stop[i] = NAN;
        sim->runnable[sim->count++] = devices + i;
    }
    for (int32_t d = devices - 1; d >= 0; d--) {
        sim->next[d] = (int32_t)first[d];
        sim->runnable[sim->count++] = d;
    }
    while (sim->count > 0) {
        int32_t d = sim->runnable[--sim->count];
        bool waits = false;
        if (d >= devices) {
            run_own(sim, d - devices);
            continue;
        }
        while (!waits && sim->next[d] < first[d + 1])
            TPERF_TRY(run_entry(sim, d, &waits));
    }
    for (int32_t d = 0; d < devices; d++)
        if (sim->next[d] != first[d + 1]) return deadlock(sim, d);
    for (int32_t i = 0; i < sim->order->n_own; i++)
        if (isnan(sim->timeline->own_stop[i]))
            return tperf_error_set(sim->error, TPERF_INVALID,
                                   "deadlock: passes of the schedule's own kinds, one of them on "
                                   "device %d, wait for each other",
                                   sim->order->own[i].device + 1);
    return TPERF_OK;
}

tperf_status tperf_simulate(tperf_timeline *timeline, const tperf_order *order,
                            const tperf_schedule_costs *costs, const tperf_schedule_rules *rules,
                            tperf_error *error) {
    size_t devices = (size_t)order->devices, own = (size_t)order->n_own,
           ops = (size_t)order->count + own;
    if (ops > INT32_MAX)
        return tperf_error_set(error, TPERF_INVALID, "a schedule has at most %d passes", INT32_MAX);
    int32_t *block = tperf_heap_new(order->heap, 3 * devices + 2 * own + ops, sizeof *block);
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
        .runnable = block + 2 * devices + own,
        .waiter = block + 3 * devices + 2 * own,
        .error = error,
    };
    memset(sim.waiter, -1, ops * sizeof *sim.waiter);
    tperf_status status = run_all(&sim);
    tperf_heap_free(block);
    return status;
}
