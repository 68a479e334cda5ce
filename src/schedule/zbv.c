// zbv.c: ZB-V (Qi et al., arXiv 2401.10241 v2 and 2405.15362): zero bubble on a V, two chunks per device, within 1F1B's
// memory. F1 goes down the devices (chunk 1) and F2 back up (chunk 2); B1 goes down (chunk 2) and B2 back up (chunk 1).
// The best of four variants, each refined by the bubbles it left.
#include <string.h>

#include "schedule/queue.h"

enum { F1, F2, B1, B2, FED, W1 = FED, W2, KINDS }; // W1 and W2 follow B1 and B2
static const int BEFORE[FED] = {-1, F1, F2, B1};

// Features that variants lack. In a plan: the bits of those that changed a decision.
enum { NO_FILL_B = 2, NO_FILL_F = 1, VARIANTS = 4 };

typedef struct planned_device {
    double clock, memory, bubble, approved;
    int32_t count[KINDS], passes, taken; // taken: of `due`
    double *end[FED];                    // [microbatches]
    uint8_t *due;                        // [2 microbatches] W1 or W2, first in, first out
    uint8_t *order;                      // [passes so far]
} planned_device;

typedef struct plan {
    planned_device *devices; // [P]
    int32_t P, M, variant, decided;
    bool refinable; // an approved bubble could change it
    double cost[KINDS], memory_change[KINDS], p2p, limit, largest_bubble, most_approved;
    tperf_error *error;
} plan;

static double later(double a, double b) {
    return a < b ? b : a;
}

static int32_t pending(const planned_device *d) {
    return d->count[B1] + d->count[B2] - d->taken;
}

// The device whose pass of the same kind comes first, or NULL.
static const planned_device *source(const plan *p, const planned_device *d, int kind) {
    if (kind == F2 || kind == B2) return d == p->devices + p->P - 1 ? NULL : d + 1;
    return d == p->devices ? NULL : d - 1;
}

static tperf_status no_room(const plan *p, const planned_device *d) {
    return tperf_error_set(p->error, TPERF_INVALID,
                           "zbv does not fit 'memory_limit' of %.15g on device %d", p->limit,
                           (int)(d - p->devices) + 1);
}

static bool has_room(const plan *p, const planned_device *d, int kind) {
    return tperf_within(d->memory + p->memory_change[kind], p->limit);
}

static void put_at(plan *p, planned_device *d, int kind, double arrival) {
    double end = d->clock + p->cost[kind], fin = later(end, arrival);
    if (d->count[F1] > 0) d->bubble += fin - end;
    p->largest_bubble = later(p->largest_bubble, d->bubble); // bubbles only grow
    d->clock = fin;
    d->memory += p->memory_change[kind];
    d->order[d->passes++] = (uint8_t)kind;
    d->count[kind]++;
}

static tperf_status put(plan *p, planned_device *d, int kind) {
    int32_t mb = d->count[kind];
    const planned_device *from = source(p, d, kind);
    if (!has_room(p, d, kind)) return no_room(p, d);
    if ((from && from->count[kind] <= mb) || (BEFORE[kind] >= 0 && d->count[BEFORE[kind]] <= mb))
        return tperf_error_set(
            p->error, TPERF_INVALID,
            "zbv finds no order within 'memory_limit' of %.15g: %s of micro-batch "
            "%d on device %d would come before what it needs",
            p->limit, kind <= F2 ? "forward" : "backward", mb + 1, (int)(d - p->devices) + 1);
    put_at(p, d, kind, from ? from->end[kind][mb] + p->p2p + p->cost[kind] : d->clock);
    d->end[kind][mb] = d->clock;
    if (kind >= B1) d->due[d->count[B1] + d->count[B2] - 1] = kind == B1 ? W1 : W2;
    return TPERF_OK;
}

// Backwards and weight gradients only free memory.
static void put_weight(plan *p, planned_device *d) {
    put_at(p, d, d->due[d->taken++], d->clock);
}

static bool fills(plan *p, int kind) {
    if (kind == B2) return true;
    int32_t without = kind == B1 ? NO_FILL_B : NO_FILL_F;
    p->decided |= without;
    return !(p->variant & without);
}

// Fills the time until the pass can start with weight gradients.
static void fill(plan *p, planned_device *d, int kind) {
    const planned_device *from = source(p, d, kind);
    if (!from) return;
    double end = d->count[kind] < from->count[kind] ? from->end[kind][d->count[kind]] : -1.0;
    double arrival = end + p->p2p;
    while (pending(d) > 0 && arrival >= d->clock + p->cost[W1])
        put_weight(p, d);
    if (pending(d) == 0) return;
    double allowed = later(p->largest_bubble, p->most_approved - d->approved);
    if (!(arrival - d->clock > allowed - d->bubble) || !fills(p, kind)) return;
    p->refinable = true;
    put_weight(p, d);
}

// Forwards down to the last device and back up, and more of them while the first device has time and memory.
static tperf_status first_forwards(plan *p) {
    planned_device *devices = p->devices;
    for (int32_t i = 0; i < p->P; i++)
        TPERF_TRY(put(p, &devices[i], F1));
    for (int32_t i = p->P - 1; i >= 0; i--) {
        planned_device *d = &devices[i];
        double room = p->memory_change[F1] * (2 + 2 * i);
        while (i < p->P - 1 && tperf_within(d->memory + room, p->limit) &&
               d->clock + p->cost[F1] <= d[1].end[F2][0] + p->p2p && d->count[F1] < p->M)
            for (int32_t j = 0; j <= i; j++)
                TPERF_TRY(put(p, &devices[j], F1));
        TPERF_TRY(put(p, d, F2));
    }
    return TPERF_OK;
}

static bool lags_behind(const plan *p, const planned_device *d, const planned_device *before) {
    return d->count[F1] + d->count[F2] < before->count[F1] + before->count[F2] ||
           (d->count[F2] <= before->count[F2] && before->count[F2] < p->M);
}

static tperf_status warm_up(plan *p) {
    TPERF_TRY(first_forwards(p));
    int kind = F1;
    for (int32_t i = 1; i < p->P; i++) {
        while (lags_behind(p, &p->devices[i], &p->devices[i - 1])) {
            for (int32_t j = p->P - 1; j >= i; j--)
                if (p->devices[j].count[kind] < p->M) TPERF_TRY(put(p, &p->devices[j], kind));
            kind = kind == F1 ? F2 : F1;
        }
    }
    return TPERF_OK;
}

static bool takes_second_backward(const plan *p, const planned_device *d) {
    if (d->count[B2] >= d->count[B1]) return false;
    const planned_device *after = source(p, d, B2);
    return !after || after->count[B2] > d->count[B2] || d->count[B1] == p->M;
}

// `second` has one element per device.
static tperf_status backwards(plan *p, bool *second) {
    for (int32_t i = 0; i < p->P; i++)
        second[i] = takes_second_backward(p, &p->devices[i]);
    for (int32_t i = p->P - 1; i >= 0; i--) {
        if (!second[i]) continue;
        fill(p, &p->devices[i], B2);
        TPERF_TRY(put(p, &p->devices[i], B2));
    }
    for (int32_t i = 0; i < p->P; i++) {
        if (second[i]) continue;
        fill(p, &p->devices[i], B1);
        TPERF_TRY(put(p, &p->devices[i], B1));
    }
    return TPERF_OK;
}

static bool has_input(const plan *p, const planned_device *d, int kind) {
    const planned_device *from = source(p, d, kind);
    return !from || from->count[kind] > d->count[kind];
}

static tperf_status forward(plan *p, planned_device *d) {
    if (d->count[F2] >= p->M) return TPERF_OK;
    int kind = F1;
    if (d->count[F2] < d->count[F1]) {
        if (has_input(p, d, F2))
            kind = F2;
        else if (d->count[F1] >= p->M || !has_input(p, d, F1))
            return TPERF_OK;
    }
    while (!has_room(p, d, kind) && pending(d) > 0)
        put_weight(p, d);
    fill(p, d, kind);
    return put(p, d, kind);
}

static tperf_status round_of_passes(plan *p, bool *scratch) {
    TPERF_TRY(backwards(p, scratch));
    for (int32_t i = 0; i < p->P; i++)
        TPERF_TRY(forward(p, &p->devices[i]));
    return TPERF_OK;
}

// Plans with the approved bubbles.
static tperf_status run(plan *p, bool *scratch) {
    p->largest_bubble = 0.0;
    p->most_approved = p->devices[0].approved;
    for (int32_t i = 0; i < p->P; i++) {
        planned_device *d = &p->devices[i];
        p->most_approved = later(p->most_approved, d->approved);
        d->clock = d->memory = d->bubble = 0.0;
        d->passes = d->taken = 0;
        memset(d->count, 0, sizeof d->count);
    }
    TPERF_TRY(warm_up(p));
    for (int64_t i = 0; i < 2 * (int64_t)p->M; i++)
        TPERF_TRY(round_of_passes(p, scratch));
    for (int32_t i = 0; i < p->P; i++)
        while (pending(&p->devices[i]) > 0)
            put_weight(p, &p->devices[i]);
    return TPERF_OK;
}

// The best order so far, and its largest bubble.
typedef struct best_order {
    uint8_t *order;
    size_t passes;
    double bubble; // less than 0: none yet
} best_order;

// Plans the variant, then replans with the last plan's bubbles as long as they shrink.
static tperf_status run_variant(plan *p, bool *scratch, best_order *best) {
    for (int32_t i = 0; i < p->P; i++)
        p->devices[i].approved = -1.0;
    p->decided = 0;
    p->refinable = false;
    bool again = true;
    for (double last = -1.0; again; last = p->largest_bubble) {
        TPERF_TRY(run(p, scratch));
        again = last < 0 ? p->refinable : p->largest_bubble < last;
        for (int32_t i = 0; i < p->P; i++)
            p->devices[i].approved = p->devices[i].bubble;
        if (best->bubble >= 0 && p->largest_bubble >= best->bubble) continue;
        best->bubble = p->largest_bubble;
        memcpy(best->order, p->devices[0].order, best->passes);
    }
    return TPERF_OK;
}

// A variant is skipped if its differing features changed no decision of an earlier one: it would repeat it.
static tperf_status run_variants(plan *p, bool *scratch, best_order *best) {
    int32_t decided[VARIANTS];
    for (p->variant = 0; p->variant < VARIANTS; p->variant++) {
        bool repeats = false;
        for (int32_t v = 0; v < p->variant; v++)
            repeats |= ((v ^ p->variant) & decided[v]) == 0;
        decided[p->variant] = VARIANTS - 1; // a skipped variant adds no information
        if (repeats) continue;
        TPERF_TRY(run_variant(p, scratch, best));
        decided[p->variant] = p->decided;
    }
    return TPERF_OK;
}

static tperf_status emit(tperf_order *order, const uint8_t *kinds, tperf_error *error) {
    static const tperf_pass_kind PASS[KINDS] = {TPERF_FORWARD,         TPERF_FORWARD,
                                                TPERF_BACKWARD_INPUT,  TPERF_BACKWARD_INPUT,
                                                TPERF_BACKWARD_WEIGHT, TPERF_BACKWARD_WEIGHT};
    static const bool UP[KINDS] = {[F2] = true, [B1] = true, [W1] = true};
    int64_t each = (int64_t)order->microbatches * KINDS;
    TPERF_TRY(tperf_order_reserve(order, each, error));
    for (int32_t d = 0; d < order->devices; d++) {
        tperf_queue *queue = &order->queues[d];
        int32_t count[KINDS] = {0};
        for (int64_t i = 0; i < each; i++) {
            int kind = *kinds++;
            int32_t stage = UP[kind] ? order->stages - 1 - d : d;
            tperf_order_append(order, queue, PASS[kind], TPERF_ALONE, stage, count[kind]++);
        }
    }
    return TPERF_OK;
}

// The mean of a list; exactly its value if all are equal.
static double mean(const double *list, int32_t n) {
    double sum = 0.0;
    bool same = true;
    for (int32_t i = 0; i < n; i++) {
        sum += list[i];
        same = same && list[i] == list[0];
    }
    return same ? list[0] : sum / n;
}

static void set_costs(plan *p, const tperf_schedule_costs *costs) {
    static const tperf_pass_kind PASS[KINDS / 2] = {TPERF_FORWARD, TPERF_BACKWARD_INPUT,
                                                    TPERF_BACKWARD_WEIGHT};
    for (int kind = 0; kind < KINDS; kind++) {
        p->cost[kind] = mean(costs->time[PASS[kind / 2]], 2 * p->P);
        p->memory_change[kind] = mean(costs->memory[PASS[kind / 2]], 2 * p->P);
    }
}

// Divides `ends` and `bytes` (orders, then pending weight gradients) among the devices.
static void set_devices(plan *p, double *ends, uint8_t *bytes) {
    size_t P = (size_t)p->P, M = (size_t)p->M;
    for (size_t i = 0; i < P; i++) {
        planned_device *d = &p->devices[i];
        for (size_t kind = 0; kind < FED; kind++)
            d->end[kind] = ends + M * (FED * i + kind);
        d->order = bytes + M * KINDS * i;
        d->due = bytes + M * (KINDS * P + 2 * i);
    }
}

tperf_status tperf_order_zbv(tperf_order *order, const tperf_schedule_costs *costs,
                             const double *limits, tperf_error *error) {
    if (order->stages != 2 * order->devices)
        return tperf_error_set(error, TPERF_INVALID, "zbv needs two stages per device");
    size_t P = (size_t)order->devices, cells = P * (size_t)order->microbatches;
    plan p = {.P = order->devices, .M = order->microbatches, .p2p = costs->p2p, .error = error};
    set_costs(&p, costs);
    p.limit = limits ? limits[0] : 2 * p.P * p.memory_change[F1];
    for (size_t i = 1; limits && i < P; i++)
        if (limits[i] < p.limit) p.limit = limits[i];
    p.devices = tperf_heap_new(order->heap, P, sizeof *p.devices);
    double *ends = tperf_heap_new(order->heap, cells, FED * sizeof *ends);
    uint8_t *bytes = tperf_heap_new(order->heap, cells, 2 * KINDS + 2);
    bool *scratch = tperf_heap_new(order->heap, P, sizeof *scratch);
    tperf_status status = TPERF_NO_MEMORY;
    if (p.devices && ends && bytes && scratch) {
        size_t passes = cells * KINDS;
        best_order best = {.order = bytes + cells * (KINDS + 2), .passes = passes, .bubble = -1.0};
        set_devices(&p, ends, bytes);
        status = run_variants(&p, scratch, &best);
        if (status == TPERF_OK) status = emit(order, best.order, error);
    } else {
        tperf_error_set(error, status, "not enough memory to plan %zu passes", cells * KINDS);
    }
    tperf_heap_free(p.devices);
    tperf_heap_free(ends);
    tperf_heap_free(bytes);
    tperf_heap_free(scratch);
    return status;
}
