// allocations.c: simulations with the n-th allocation failing, for every n: an error each time, and no leaks.
#include "base/test/unit.h"
#include "tperf/serve.h"

static unit_heap owner = {.allocations_left = -1};
static const tperf_heap heap = {unit_resize, &owner};

static int64_t step(const void *context, const tperf_step_work *work,
                    const tperf_prefill_chunk *chunks) {
    (void)context;
    (void)chunks;
    return 1000 + work->decode_tokens + work->prefill_tokens;
}

enum { REQUESTS = 60 };

static int64_t arrival[REQUESTS];
static int32_t prompt[REQUESTS], output[REQUESTS], priority[REQUESTS];
static size_t first_segment[REQUESTS + 1];
static tperf_segment segments[2 * REQUESTS];

static tperf_requests requests_of(int shared) {
    for (int i = 0; i < REQUESTS; i++) {
        arrival[i] = (REQUESTS - i) / 3 * 700; // unsorted
        prompt[i] = 20 + 7 * i % 50;
        output[i] = 5 + 11 * i % 40;
        priority[i] = i % 3;
        first_segment[i] = (size_t)(2 * i);
        segments[2 * i] = (tperf_segment){i % 4, 16};
        segments[2 * i + 1] = (tperf_segment){100 + i, prompt[i] - 16};
    }
    first_segment[REQUESTS] = 2 * REQUESTS;
    return (tperf_requests){
        REQUESTS, arrival, prompt, output, priority, shared ? first_segment : NULL, segments};
}

static tperf_status run(const tperf_serve_options *options, int shared, int64_t *preemptions) {
    tperf_requests requests = requests_of(shared);
    tperf_served served;
    tperf_serve_summary summary;
    tperf_objective objective = {1e9, 1e9, 1e9};
    tperf_error error;
    tperf_status status = tperf_serve_run(options, &requests, NULL, &served, &error);
    if (status == TPERF_OK)
        status = tperf_serve_summarize(&requests, &served, &objective, &summary, &error);
    *preemptions += served.totals.preemptions;
    tperf_served_release(&served);
    return status;
}

static void survive(void) {
    static const int32_t accepted[] = {0, 1, 2, 2, 1};
    const tperf_engine engine = {.max_num_seqs = 40,
                                 .max_num_batched_tokens = 64,
                                 .max_model_len = 200,
                                 .block_size = 8,
                                 .num_blocks = 60,
                                 .chunked_prefill = true};
    enum { OPTIONS = 7 };
    const tperf_serve_pool pool = {.engine = engine, .step_time = {.ticks = step}, .replicas = 1};
    tperf_serve_options options[OPTIONS] = {{.pool = pool, .heap = &heap}};
    for (int i = 1; i < OPTIONS; i++)
        options[i] = options[0];
    options[1].pool.engine.prefix_caching = true;
    options[1].keep_requests = options[1].keep_steps = true;
    options[2].pool.engine.policy = TPERF_QUEUE_PRIORITY;
    options[2].pool.engine.drafting = (tperf_drafting){
        .method = TPERF_DRAFT_EAGLE, .tokens = 2, .accepted = accepted, .n_accepted = 5};
    options[2].concurrency = 30;
    options[3].pool.engine.prefix_caching = true;
    options[3].pool.engine.num_blocks = 30;
    options[3].pool.replicas = 3;
    const tperf_prefill_pool prefill = {.pool = pool, .ticks = 100, .ticks_per_token = 3};
    options[4].prefill = &prefill;
    options[4].pool.ranks = 2;
    options[4].pool.engine.num_blocks = 30;
    options[4].keep_requests = true;
    options[5].pool.stages = 3;
    options[5].pool.engine.scheduler = &tperf_scheduler_sglang;
    options[5].pool.engine.prefix_caching = true;
    options[5].pool.engine.num_blocks = 30;
    options[6].pool.engine.scheduler = &tperf_scheduler_tensorrt_llm;
    options[6].front_end = 50;
    options[6].front_end_per_token = 3;
    options[6].front_ends = 2;
    long failures = 0;
    int64_t preemptions = 0;
    for (int i = 0; i < OPTIONS; i++) {
        for (long n = 0;; n++) {
            owner.allocations_left = n;
            tperf_status status = run(&options[i], i == 1 || i == 3 || i == 5, &preemptions);
            CHECK(owner.held == 0);
            CHECK(status == TPERF_OK || status == TPERF_NO_MEMORY);
            if (status == TPERF_OK) break;
            failures++;
        }
    }
    CHECK(failures > 60);
    CHECK(preemptions > 20); // requests preempt each other meanwhile
}

UNIT_TESTS({"survive each allocation that fails, and leak nothing", survive})
