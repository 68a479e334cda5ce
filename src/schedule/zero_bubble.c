// zero_bubble.c: the memory-limited zero-bubble scheduler of Qi et al. 2024 (arXiv 2401.10241). A greedy order: one
// forward and one backward per stage and round, and weight gradients where they fit into bubbles or free memory. Takes
// the best of eight variants; one whose features changed no decision of an earlier plan would repeat it, and is
// skipped.
#include <string.h>

#include "schedule/queue.h"

// Features that variants lack. In a plan: the bits of those that changed a decision.
enum { NO_BUBBLE = 4, NO_PRIORITY = 2, NO_GREED = 1, VARIANTS = 8 };

enum { F, B, W, PASSES };
static const tperf_pass_kind KIND[PASSES] = {TPERF_FORWARD, TPERF_BACKWARD_INPUT,
                                             TPERF_BACKWARD_WEIGHT};

typedef struct planned_stage {
    double cost[PASSES], memory_change[PASSES], limit;
    double clock, memory, bubble;
    int32_t count[PASSES];
    double *end[W]; // [microbatches] of F and B
    uint8_t *order; // [passes so far]
} planned_stage;

typedef struct plan {
    planned_stage *stages; // [P]
    int32_t P, M, variant, decided;
    double p2p, largest_bubble;
    tperf_error *error;
} plan;

static double later(double a, double b) {
    return a < b ? b : a;
}

static int32_t pending(const planned_stage *s) {
    return s->count[B] - s->count[W];
}

// The variant's choice: `with` the feature, or `without` it.
static bool choose(plan *p, int32_t feature, bool with, bool without) {
    if (with != without) p->decided |= feature;
    return p->variant & feature ? without : with;
}

static void put_at(plan *p, planned_stage *s, int pass, double arrival) {
    double end = s->clock + s->cost[pass], fin = later(end, arrival);
    if (s->count[F] > 0) s->bubble += fin - end;
    p->largest_bubble = later(p->largest_bubble, s->bubble); // bubbles only grow
    s->clock = fin;
    s->memory += s->memory_change[pass];
    s->order[s->count[F] + s->count[B] + s->count[W]] = (uint8_t)pass;
    if (pass != W) s->end[pass][s->count[pass]] = fin;
    s->count[pass]++;
}

static void put_weight(plan *p, planned_stage *s) {
    put_at(p, s, W, s->clock);
}

// The stage that a pass depends on, or NULL.
static const planned_stage *source(const plan *p, const planned_stage *s, int pass) {
    if (pass == F) return s == p->stages ? NULL : s - 1;
    return s == p->stages + p->P - 1 ? NULL : s + 1;
}

static void put(plan *p, planned_stage *s, int pass) {
    const planned_stage *from = source(p, s, pass);
    double arrival = from ? from->end[pass][s->count[pass]] + p->p2p + s->cost[pass] : s->clock;
    put_at(p, s, pass, arrival);
}

// Runs weight gradients until a forward fits into memory.
static tperf_status fit(plan *p, planned_stage *s) {
    double change = s->memory_change[F];
    while (!tperf_within(s->memory + change, s->limit)) {
        if (pending(s) <= 0)
            return tperf_error_set(p->error, TPERF_INVALID,
                                   "'memory_limit' of %.15g on device %d is too little for the "
                                   "schedule: it holds %.15g and needs %.15g more",
                                   s->limit, (int)(s - p->stages) + 1, s->memory, change);
        put_weight(p, s);
    }
    return TPERF_OK;
}

// Fills the time until the pass can start with weight gradients.
static void fill(plan *p, planned_stage *s, int pass) {
    const planned_stage *from = source(p, s, pass);
    if (!from) return;
    double arrival = from->end[pass][s->count[pass]] + p->p2p;
    while (pending(s) > 0 && s->clock + s->cost[W] <= arrival)
        put_weight(p, s);
    if (pending(s) <= 0 || s->clock >= arrival) return;
    bool too_long = arrival - s->clock > p->largest_bubble - s->bubble;
    if (choose(p, NO_GREED, true, too_long)) put_weight(p, s);
}

// The number of forwards, beyond the first, before the stage's first backward, which can start at `arrival`.
static int32_t forwards_ahead(plan *p, const planned_stage *s, double arrival, double *clock) {
    int32_t extra = 0;
    double held = s->memory;
    *clock = s->clock;
    if (s == p->stages + p->P - 1) return 0;
    while (s->count[F] + extra < p->M && tperf_within(held + s->memory_change[F], s->limit)) {
        bool ends_late = *clock + s->cost[F] > arrival, starts_late = *clock >= arrival;
        if (choose(p, NO_BUBBLE, ends_late, starts_late)) break;
        *clock += s->cost[F];
        held += s->memory_change[F];
        extra++;
    }
    *clock = later(*clock, arrival);
    return extra;
}

// `extra` has one element per stage.
static void warm_up(plan *p, int32_t *extra) {
    planned_stage *stages = p->stages;
    for (int32_t j = 0; j < p->P; j++)
        put(p, &stages[j], F);
    double clock = 0;
    for (int32_t j = p->P - 1; j >= 0; j--) {
        extra[j] = forwards_ahead(p, &stages[j], clock + p->p2p, &clock);
        clock += stages[j].cost[B];
    }
    for (int32_t j = 1; j < p->P; j++) {
        if (extra[j] > extra[j - 1]) extra[j] = extra[j - 1];
        if (extra[j] > 0 && extra[j] == extra[j - 1] && stages[j].count[F] + extra[j] < p->M)
            extra[j]--;
    }
    for (int32_t j = 0; j < p->P; j++)
        for (int32_t i = 0; i < extra[j]; i++)
            put(p, &stages[j], F);
    for (int32_t j = p->P - 1; j >= 0; j--)
        put(p, &stages[j], B);
}

// Whether a forward fits before the next stage's backward arrives, or the bubble would grow without it.
static bool forward_pays(const plan *p, const planned_stage *s) {
    const planned_stage *after = s + 1;
    double next_backward = after->clock + after->cost[F] + after->cost[B] + p->p2p;
    if (s->clock >= next_backward) return false;
    double weights = 0.0, held = s->memory + s->memory_change[F];
    for (int32_t left = pending(s); !tperf_within(held, s->limit) && left > 0; left--) {
        weights += s->cost[W];
        held += s->memory_change[W];
    }
    if (s->clock + s->cost[F] + weights <= next_backward) return true;
    return next_backward - s->clock > p->largest_bubble - s->bubble;
}

static bool needs_forward(plan *p, const planned_stage *s) {
    if (s->count[F] == p->M) return false;
    bool optional = s != p->stages + p->P - 1 && s->count[F] >= s[1].count[F] + 2;
    return !optional || choose(p, NO_PRIORITY, forward_pays(p, s), true);
}

// `runs` has one element per stage.
static tperf_status forwards(plan *p, int32_t *runs) {
    for (int32_t j = 0; j < p->P; j++)
        runs[j] = needs_forward(p, &p->stages[j]);
    for (int32_t j = p->P - 2; j >= 0; j--)
        runs[j] = runs[j] && runs[j + 1];
    for (int32_t j = 0; j < p->P; j++) {
        if (!runs[j]) continue;
        TPERF_TRY(fit(p, &p->stages[j]));
        fill(p, &p->stages[j], F);
        put(p, &p->stages[j], F);
    }
    return TPERF_OK;
}

// Needs no room: it only frees memory, and what a stage holds has fitted before.
static void backwards(plan *p) {
    for (int32_t j = p->P - 1; j >= 0; j--) {
        planned_stage *s = &p->stages[j];
        fill(p, s, B);
        while (j == 0 && s->count[F] == p->M && pending(s) > 0)
            put_weight(p, s);
        put(p, s, B);
    }
}

static tperf_status run(plan *p, int32_t *scratch) {
    for (int32_t j = 0; j < p->P; j++) {
        planned_stage *s = &p->stages[j];
        s->clock = s->memory = s->bubble = 0.0;
        memset(s->count, 0, sizeof s->count);
    }
    p->largest_bubble = 0.0;
    p->decided = 0;
    warm_up(p, scratch);
    for (int32_t i = 1; i < p->M; i++) {
        TPERF_TRY(forwards(p, scratch));
        backwards(p);
    }
    for (int32_t j = 0; j < p->P; j++)
        while (p->stages[j].count[W] < p->M)
            put_weight(p, &p->stages[j]);
    return TPERF_OK;
}

static double longest_stage(const plan *p) {
    double longest = 0.0;
    for (const planned_stage *s = p->stages; s < p->stages + p->P; s++)
        longest = later(longest, s->clock - s->end[F][0] + s->cost[F]);
    return longest;
}

static tperf_status run_variants(plan *p, int32_t *scratch, uint8_t *best) {
    int32_t decided[VARIANTS];
    double least = 0.0;
    size_t passes = (size_t)p->P * (size_t)p->M * PASSES;
    uint8_t *orders =
        p->stages[0].order; // of this plan; one block for all stages, as is the best order
    for (p->variant = 0; p->variant < VARIANTS; p->variant++) {
        bool repeats = false;
        for (int32_t v = 0; v < p->variant; v++)
            repeats |= ((v ^ p->variant) & decided[v]) == 0;
        decided[p->variant] = VARIANTS - 1; // a skipped variant adds no information
        if (repeats) continue;
        TPERF_TRY(run(p, scratch));
        decided[p->variant] = p->decided;
        double longest = longest_stage(p);
        if (p->variant > 0 && longest >= least) continue;
        least = longest;
        memcpy(best, orders, passes);
    }
    return TPERF_OK;
}

static tperf_status emit(tperf_order *order, const uint8_t *passes, tperf_error *error) {
    int64_t each = (int64_t)order->microbatches * PASSES;
    TPERF_TRY(tperf_order_reserve(order, each, error));
    for (int32_t d = 0; d < order->devices; d++) {
        tperf_queue *queue = &order->queues[d];
        int32_t count[PASSES] = {0};
        for (int64_t i = 0; i < each; i++) {
            int pass = *passes++;
            tperf_order_append(order, queue, KIND[pass], TPERF_ALONE, d, count[pass]++);
        }
    }
    return TPERF_OK;
}

// Divides `ends` and `orders` among the stages.
static void set_stages(plan *p, const tperf_schedule_costs *costs, const double *limits,
                       double *ends, uint8_t *orders) {
    size_t M = (size_t)p->M;
    for (int32_t j = 0; j < p->P; j++) {
        planned_stage *s = &p->stages[j];
        for (int pass = 0; pass < PASSES; pass++) {
            s->cost[pass] = costs->time[KIND[pass]][j];
            s->memory_change[pass] = costs->memory[KIND[pass]][j];
        }
        s->limit = limits[j];
        s->end[F] = ends + M * 2 * (size_t)j;
        s->end[B] = s->end[F] + M;
        s->order = orders + M * PASSES * (size_t)j;
    }
}

tperf_status tperf_order_zero_bubble(tperf_order *order, const tperf_schedule_costs *costs,
                                     const double *limits, tperf_error *error) {
    if (order->stages != order->devices)
        return tperf_error_set(error, TPERF_INVALID, "zero bubble needs one stage per device");
    size_t P = (size_t)order->devices, passes = P * (size_t)order->microbatches * PASSES;
    plan p = {.P = order->devices, .M = order->microbatches, .p2p = costs->p2p, .error = error};
    p.stages = tperf_heap_new(order->heap, P, sizeof *p.stages);
    double *ends = tperf_heap_new(order->heap, passes / PASSES * 2, sizeof *ends);
    uint8_t *orders = tperf_heap_new(order->heap, passes, 2); // two: the second is the best one
    int32_t *scratch = tperf_heap_new(order->heap, P, sizeof *scratch);
    tperf_status status = TPERF_NO_MEMORY;
    if (p.stages && ends && orders && scratch) {
        uint8_t *best = orders + passes;
        set_stages(&p, costs, limits, ends, orders);
        status = run_variants(&p, scratch, best);
        if (status == TPERF_OK) status = emit(order, best, error);
    } else {
        tperf_error_set(error, status, "not enough memory to plan %zu passes", passes);
    }
    tperf_heap_free(p.stages);
    tperf_heap_free(ends);
    tperf_heap_free(orders);
    tperf_heap_free(scratch);
    return status;
}
