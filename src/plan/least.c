// least.c: a lower bound on an iteration, however uneven its stages. See tperf/plan.h and docs/model.md section 6.5.
#include <math.h>

#include "plan/exposure.h"

// Times of a candidate's passes, including waits and hops as in tperf_passes_of; of a stage, or of the shortest chunk.
typedef struct passes {
    double forward, backward, input, weight, pair;
} passes;

typedef struct bound {
    const tperf_plan *plan;
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    tperf_message message;
} bound;

// The passes of a stage of `chunks` chunks.
static passes passes_of(const bound *b, const tperf_stage *stage, double chunks) {
    tperf_stage_time t =
        tperf_stage_time_of(stage, b->plan->workload, b->plan->costs, b->plan->job);
    tperf_exposure e = tperf_stage_exposure(stage, b->plan->workload, b->sections);
    tperf_each each = tperf_each_of(b->plan->candidate, b->plan->job);
    double alone = chunks * b->message.alone;
    tperf_wait_each(&t, &each, &e);
    return (passes){t.forward + alone, t.backward + alone, t.input + alone, t.weight,
                    t.pair + chunks * b->message.pair};
}

static passes lesser(passes a, passes b) {
    return (passes){fmin(a.forward, b.forward), fmin(a.backward, b.backward),
                    fmin(a.input, b.input), fmin(a.weight, b.weight), fmin(a.pair, b.pair)};
}

// The shortest chunk possible: the fewest layers that even division gives any chunk, each as short as the shortest
// kind.
static passes least_chunk(const bound *b) {
    const tperf_pipeline *p = b->plan->candidate->pipeline;
    int64_t layers = 0;
    bool present[TPERF_KINDS_MAX] = {false};
    passes least = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};
    for (size_t i = 0; i < p->n_devices; i++) {
        if (p->virtual_stages == 1) least = lesser(least, passes_of(b, &p->devices[i], 1));
        for (int kind = 0; kind < b->plan->workload->n_kinds; kind++) {
            layers += p->devices[i].repeats * p->devices[i].layers[kind];
            present[kind] = present[kind] || p->devices[i].layers[kind] > 0;
        }
    }
    int64_t fewest = layers / (p->pp * p->virtual_stages);
    for (int64_t c = 0; p->chunk_layers && c < p->pp * p->virtual_stages; c++)
        if (p->chunk_layers[c] < fewest) fewest = p->chunk_layers[c];
    for (int kind = 0; kind < b->plan->workload->n_kinds && p->virtual_stages > 1; kind++) {
        if (!present[kind]) continue;
        tperf_stage chunk = {.leading = kind};
        chunk.layers[kind] = fewest;
        least = lesser(least, passes_of(b, &chunk, 1));
    }
    // Each part may come from a different chunk; the closed form holds where a pair takes no longer than both halves.
    least.pair = fmin(least.pair, least.forward + least.backward);
    return least;
}

// The schedule's closed form with every chunk the shortest: no pass is shorter, so nothing can end sooner. Messages that
// come too late for steady passes may be hidden where chunks are longer.
static double all_least(const bound *b, passes t) {
    const tperf_pipeline *p = b->plan->candidate->pipeline;
    double chunks = (double)p->virtual_stages, m = (double)b->plan->candidate->microbatches;
    double pairs = p->bounds ? m * chunks : p->pairs + p->pairs_each * m;
    double all = m * chunks - pairs, split = tperf_split_of(p, m);
    // A weight gradient that fills a bubble may count for less: a bound all the same, where it shortens the time.
    return (all + chunks * p->bubble_forward) * t.forward + (all - split) * t.backward +
           split * (t.input + t.weight) +
           chunks * p->bubble_backward * (split > 0 ? t.input : t.backward) +
           chunks * p->bubble_weight_grad * t.weight + pairs * t.pair + p->ways * b->message.way;
}

// A device's own work: its passes one after the other or, if the schedule overlaps any, all overlapped. A pair of two
// chunks takes the average of theirs, so either half may appear to cost half of its own pair.
static double own_work(const bound *b, const tperf_stage *device) {
    const tperf_pipeline *p = b->plan->candidate->pipeline;
    passes t = passes_of(b, device, (double)p->virtual_stages);
    double m = (double)b->plan->candidate->microbatches;
    if (!p->bounds && !tperf_overlaps_passes(p)) return m * (t.forward + t.backward);
    if (!p->bounds && p->virtual_stages == 1 && p->weight_copies == 1)
        return m * fmin(t.pair, t.forward + t.backward);
    return m * (fmin(t.forward, t.pair / 2) + fmin(t.backward, t.pair / 2));
}

// What a device waits for the exchange of weights and gradients, before its first pass and after its last.
typedef struct ends {
    double before, after;
} ends;

static ends ends_of(const bound *b, const tperf_stage *device) {
    // Of several chunks, the first may have hardly any layers that wait.
    bool several = b->plan->candidate->pipeline->virtual_stages > 1;
    tperf_exposure e = tperf_stage_exposure(device, b->plan->workload, b->sections);
    tperf_each each = tperf_each_of(b->plan->candidate, b->plan->job);
    return (ends){e.first_gather + (each.gathers || several ? 0 : e.gather),
                  e.first_reduce + e.update + (each.reduces || several ? 0 : e.reduce)};
}

// The forward pass of a device's first chunk. Before the first micro-batch arrives at a device, each one before it runs
// that pass, alone: no backward pass can have begun.
static double first_forward(const bound *b, const tperf_stage *device, const passes *shortest) {
    return b->plan->candidate->pipeline->virtual_stages == 1 ? passes_of(b, device, 1).forward
                                                             : shortest->forward;
}

double tperf_iteration_least(const tperf_plan *plan, const tperf_exchange *exchanges, double hop,
                             double optimizer) {
    const tperf_pipeline *p = plan->candidate->pipeline;
    bound b = {.plan = plan, .message = tperf_message_of(p, plan->job, hop)};
    double busiest = 0, sum = 0, least_wait = INFINITY, filled = 0;
    tperf_exposures_of(plan, exchanges, optimizer, b.sections);
    passes shortest = least_chunk(&b);
    for (size_t i = 0; i < p->n_devices; i++) {
        const tperf_stage *device = &p->devices[i];
        ends wait = ends_of(&b, device);
        double own = own_work(&b, device), forward = first_forward(&b, device, &shortest);
        filled += (double)(device->repeats - 1) * forward;
        least_wait = fmin(least_wait, wait.before + wait.after);
        busiest = fmax(busiest, fmax(wait.before, filled) + own + wait.after);
        sum += (double)device->repeats * own;
        filled += forward;
    }
    // If chunks may be on other devices than tperf_pipeline_split's, some device has at least the average work.
    double alone = p->placed ? busiest : sum / (double)p->pp + least_wait;
    double least = fmax(alone, p->pp > 1 ? all_least(&b, shortest) + least_wait : 0);
    return (least + optimizer) * (1 - 1e-12); // margin for rounding
}
