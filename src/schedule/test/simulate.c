// simulate.c: simulated schedules against closed forms.
#include "base/test/unit.h"
#include "tperf/schedule.h"

enum { MOST_DEVICES = 8 };

// One stage a device; d forwards ahead, then one of each (1F1B, arXiv 2006.09503), or all forwards first (GPipe).
static void fill(tperf_order *order, int64_t devices, int64_t microbatches, bool all_first) {
    tperf_error error;
    CHECK(tperf_order_init(order, &tperf_heap_standard, devices, devices, microbatches, &error) ==
          TPERF_OK);
    for (int64_t d = 0; d < devices; d++) {
        int64_t ahead = all_first ? microbatches : devices - 1 - d, next = 0;
        if (ahead > microbatches) ahead = microbatches;
        for (; next < ahead; next++)
            tperf_order_add(order, TPERF_FORWARD, d, d, next, &error);
        for (int64_t back = 0; back < microbatches; back++) {
            if (next < microbatches) tperf_order_add(order, TPERF_FORWARD, d, d, next++, &error);
            CHECK(tperf_order_add(order, TPERF_BACKWARD, d, d, back, &error) == TPERF_OK);
        }
    }
}

static const double forward[] = {2, 2, 2, 2, 2, 2, 2, 2}, backward[] = {5, 5, 5, 5, 5, 5, 5, 5},
                    grows[] = {1, 1, 1, 1, 1, 1, 1, 1},
                    shrinks[] = {-1, -1, -1, -1, -1, -1, -1, -1};

static tperf_schedule_costs costs_of(double p2p) {
    return (tperf_schedule_costs){.time = {[TPERF_FORWARD] = forward, [TPERF_BACKWARD] = backward},
                                  .memory = {[TPERF_FORWARD] = grows, [TPERF_BACKWARD] = shrinks},
                                  .p2p = p2p};
}

static tperf_timeline simulate(const tperf_order *order, double p2p) {
    const tperf_schedule_costs costs = costs_of(p2p);
    const tperf_schedule_rules rules = {0};
    tperf_timeline timeline;
    tperf_error error;
    CHECK(tperf_timeline_init(&timeline, order, &costs, &rules, &error) == TPERF_OK);
    return timeline;
}

// Both take (P + M - 1)(F + B): arXiv 2104.04473, section 2.2. 1F1B keeps min(P - d, M) micro-batches, GPipe all.
static void closed_forms(void) {
    for (int64_t P = 1; P <= MOST_DEVICES; P++)
        for (int64_t M = 1; M <= 20; M += 3)
            for (int all_first = 0; all_first <= 1; all_first++) {
                tperf_order order = {0};
                fill(&order, P, M, all_first);
                tperf_timeline timeline = simulate(&order, 0);
                SAME((P + M - 1) * 7, timeline.makespan);
                SAME(M * 7, timeline.ideal);
                for (int64_t d = 0; d < P; d++) {
                    int64_t kept = all_first || M < P - d ? M : P - d;
                    SAME(kept, timeline.summary[d].peak_activations);
                    SAME(kept, timeline.summary[d].peak_memory);
                    SAME(M * 7, timeline.summary[d].busy);
                }
                tperf_timeline_release(&timeline);
                tperf_order_release(&order);
            }
}

// GPipe's first forward and last backward each cross P - 1 links.
static void messages(void) {
    tperf_order order = {0};
    fill(&order, 4, 6, true);
    tperf_timeline timeline = simulate(&order, 0.5);
    SAME((4 + 6 - 1) * 7 + 2 * 3 * 0.5, timeline.makespan);
    tperf_timeline_release(&timeline);
    tperf_order_release(&order);
}

static void faults(void) {
    const tperf_schedule_costs costs = costs_of(0);
    const tperf_schedule_rules rules = {0};
    tperf_timeline timeline;
    tperf_order order = {0};
    tperf_error error;
    CHECK(tperf_order_init(&order, &tperf_heap_standard, 2, 2, 2, &error) == TPERF_OK);
    REFUSES("3", tperf_order_add(&order, TPERF_FORWARD, 2, 0, 0, &error));
    // Device 1 wants micro-batch 2 first, device 2 wants micro-batch 1's backward before device 1 sends it.
    tperf_order_add(&order, TPERF_FORWARD, 0, 0, 0, &error);
    tperf_order_add(&order, TPERF_BACKWARD, 0, 0, 0, &error);
    tperf_order_add(&order, TPERF_FORWARD, 0, 0, 1, &error);
    tperf_order_add(&order, TPERF_BACKWARD, 0, 0, 1, &error);
    tperf_order_add(&order, TPERF_FORWARD, 1, 1, 1, &error);
    tperf_order_add(&order, TPERF_BACKWARD, 1, 1, 1, &error);
    tperf_order_add(&order, TPERF_FORWARD, 1, 1, 0, &error);
    tperf_order_add(&order, TPERF_BACKWARD, 1, 1, 0, &error);
    REFUSES("deadlock", tperf_timeline_init(&timeline, &order, &costs, &rules, &error));
    tperf_order_release(&order);
    CHECK(tperf_order_init(&order, &tperf_heap_standard, 1, 1, 1, &error) == TPERF_OK);
    tperf_order_add(&order, TPERF_FORWARD, 0, 0, 0, &error);
    CHECK(tperf_timeline_init(&timeline, &order, &costs, &rules, &error) == TPERF_INVALID);
    tperf_order_release(&order);
}

// With an input's gradient as long as a weight's and as a forward pass, and room for twice the micro-batches of 1F1B, a
// planned order leaves almost no bubble (arXiv 2401.10241, ZB-H2).
static void zero_bubble(void) {
    enum { P = 4, M = 16 };
    static const double limits[] = {2 * P, 2 * P, 2 * P, 2 * P}, none[] = {0, 0, 0, 0};
    const tperf_schedule_costs costs = {.time = {[TPERF_FORWARD] = grows,
                                                 [TPERF_BACKWARD_INPUT] = grows,
                                                 [TPERF_BACKWARD_WEIGHT] = grows},
                                        .memory = {[TPERF_FORWARD] = grows,
                                                   [TPERF_BACKWARD_INPUT] = none,
                                                   [TPERF_BACKWARD_WEIGHT] = shrinks}};
    const tperf_schedule_rules rules = {0};
    tperf_order order = {0};
    tperf_timeline timeline;
    tperf_error error;
    CHECK(tperf_order_init(&order, &tperf_heap_standard, P, P, M, &error) == TPERF_OK);
    CHECK(tperf_order_zero_bubble(&order, &costs, limits, &error) == TPERF_OK);
    CHECK(tperf_timeline_init(&timeline, &order, &costs, &rules, &error) == TPERF_OK);
    SAME(3 * M, timeline.ideal);
    CHECK(timeline.makespan >=
          timeline.ideal + P - 1); // the last device waits for the first forward
    CHECK(timeline.makespan <= timeline.ideal + 2 * (P - 1));
    for (int d = 0; d < P; d++)
        CHECK(timeline.summary[d].peak_memory <= limits[d]);
    tperf_timeline_release(&timeline);
    tperf_order_release(&order);
}

UNIT_TESTS({"1F1B and GPipe take their closed forms", closed_forms},
           {"messages delay the critical path", messages},
           {"orders that cannot run are refused", faults},
           {"a planned order fills the bubble within its memory", zero_bubble})
