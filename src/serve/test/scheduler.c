// scheduler.c: small runs, counted by hand. Every step takes 100 ticks.
#include "base/test/unit.h"
#include "tperf/serve.h"

enum { MOST = 8 };

static int64_t hundred(const void *context, const tperf_step_work *work,
                       const tperf_prefill_chunk *chunks) {
    (void)context;
    (void)work;
    (void)chunks;
    return 100;
}

// A run of up to MOST requests that arrive at the times, with the prompts and outputs.
typedef struct trial {
    tperf_serve_options options;
    int64_t arrival[MOST];
    int32_t prompt[MOST], output[MOST];
    size_t first_segment[MOST + 1];
    tperf_segment segments[2 * MOST];
    tperf_requests requests;
    tperf_served served;
} trial;

static void prepare(trial *t, size_t n) {
    *t = (trial){.options = {.pool = {.replicas = 1,
                                      .engine = {.max_num_seqs = 8,
                                                 .max_num_batched_tokens = 4,
                                                 .max_model_len = 1000,
                                                 .block_size = 4,
                                                 .chunked_prefill = true},
                                      .step_time = {.ticks = hundred}},
                             .keep_requests = true,
                             .keep_steps = true,
                             .heap = &tperf_heap_standard}};
    t->requests =
        (tperf_requests){.n = n, .arrival = t->arrival, .prompt = t->prompt, .output = t->output};
}

static void run(trial *t) {
    tperf_error error = {{0}};
    CHECK(tperf_serve_run(&t->options, &t->requests, NULL, &t->served, &error) == TPERF_OK);
    SAYS("", error.message);
}

// A prompt of 10 takes steps of 4, 4 and 2 tokens, the third of which makes the first of 3 answers.
static void chunks(void) {
    trial t;
    prepare(&t, 1);
    t.prompt[0] = 10;
    t.output[0] = 3;
    run(&t);
    SAME(300, t.served.first_token[0]);
    SAME(500, t.served.last_token[0]);
    SAME(5, t.served.totals.steps);
    SAME(500, t.served.totals.end);
    SAME(10 + 2, t.served.totals.scheduled_tokens);
    SAME(500, tperf_tick_sum_value(t.served.totals.busy));
    SAME(4, t.served.steps[0].work.prefill_tokens);
    SAME(4 * 4 + 4 * 5 / 2, t.served.steps[1].work.prefill_pairs); // 4 tokens after 4
    SAME(11, t.served.steps[3].work.decode_context);
    tperf_served_release(&t.served);
}

// Of 4 tokens a step, a decode takes one, and the prompt of 7 behind it the other three: 3 + 3 + 1.
static void mixed_steps(void) {
    trial t;
    prepare(&t, 2);
    t.prompt[0] = 4, t.output[0] = 5;
    t.prompt[1] = 7, t.output[1] = 1;
    t.arrival[1] = 50;
    run(&t);
    SAME(100, t.served.first_token[0]);
    SAME(500, t.served.last_token[0]);
    SAME(400, t.served.first_token[1]);
    SAME(100, t.served.details[1].first_scheduled);
    SAME(400 - 50 + 500, t.served.totals.residence);
    tperf_served_release(&t.served);
}

// One runs at a time: the others wait in turn.
static void queues(void) {
    trial t;
    prepare(&t, 3);
    t.options.pool.engine.max_num_seqs = 1;
    for (int i = 0; i < 3; i++)
        t.prompt[i] = 4, t.output[i] = 2;
    run(&t);
    for (int i = 0; i < 3; i++) {
        SAME(100 + 200 * i, t.served.first_token[i]);
        SAME(200 + 200 * i, t.served.last_token[i]);
    }
    tperf_served_release(&t.served);
}

// The most urgent first, whichever came first.
static void priorities(void) {
    static int32_t priority[] = {2, 0, 1};
    trial t;
    prepare(&t, 3);
    t.options.pool.engine.max_num_seqs = 1;
    t.options.pool.engine.policy = TPERF_QUEUE_PRIORITY;
    t.requests.priority = priority;
    for (int i = 0; i < 3; i++)
        t.prompt[i] = 4, t.output[i] = 1;
    run(&t);
    SAME(300, t.served.last_token[0]);
    SAME(100, t.served.last_token[1]);
    SAME(200, t.served.last_token[2]);
    tperf_served_release(&t.served);
}

// 4 usable blocks of 4 tokens: two prompts of 8 fill them; the second of the two is preempted when the first needs a fifth.
static void preemption(void) {
    trial t;
    prepare(&t, 2);
    t.options.pool.engine.num_blocks = 5;
    t.options.pool.engine.max_num_batched_tokens = 16;
    for (int i = 0; i < 2; i++)
        t.prompt[i] = 8, t.output[i] = 3;
    run(&t);
    SAME(1, t.served.totals.preemptions);
    SAME(0, t.served.details[0].preemptions);
    SAME(100, t.served.first_token[1]);
    SAME(300, t.served.last_token[0]);
    SAME(500,
         t.served.last_token[1]); // starts again after the first: one step with its token, one more
    tperf_served_release(&t.served);
}

// The second of two equal prompts of 9 finds the blocks of its first 8 tokens.
static void prefixes(void) {
    trial t;
    prepare(&t, 2);
    t.options.pool.engine.num_blocks = 100;
    t.options.pool.engine.prefix_caching = true;
    t.options.pool.engine.max_num_batched_tokens = 16;
    t.requests.first_segment = t.first_segment;
    t.requests.segments = t.segments;
    for (int i = 0; i < 2; i++) {
        t.prompt[i] = 9, t.output[i] = 1;
        t.segments[i] = (tperf_segment){7, 9};
        t.first_segment[i + 1] = (size_t)i + 1;
    }
    t.arrival[1] = 1000;
    run(&t);
    SAME(0, t.served.details[0].cached_tokens);
    SAME(8, t.served.details[1].cached_tokens);
    SAME(1, t.served.steps[1].work.prefill_tokens);
    tperf_served_release(&t.served);
}

// Two at a time, each 200 ticks and 50 of thought.
static void closed_loop(void) {
    trial t;
    prepare(&t, 6);
    t.options.concurrency = 2;
    t.options.think = 50;
    t.options.pool.engine.max_num_batched_tokens = 16;
    for (int i = 0; i < 6; i++)
        t.prompt[i] = 4, t.output[i] = 2;
    run(&t);
    SAME(0, t.arrival[1]);
    SAME(250, t.arrival[2]);
    SAME(500, t.arrival[5]);
    SAME(700, t.served.totals.end);
    tperf_served_release(&t.served);
}

static void lines(void) {
    const tperf_step_line seconds = {1e-3, 2e-6, 3e-9, 4e-12};
    const tperf_step_line line = tperf_step_line_in(&seconds, 1e9);
    const tperf_step_work work = {
        .decode_tokens = 3, .prefill_tokens = 7, .decode_context = 1000, .prefill_pairs = 1000000};
    SAME(1000000 + 10 * 2000 + 3000 + 4000, tperf_step_line_ticks(&line, &work, NULL));
}

static void shared_prefixes(void) {
    tperf_requests requests;
    tperf_error error;
    CHECK(tperf_requests_init(&requests, &tperf_heap_standard, 3, &error) == TPERF_OK);
    for (int i = 0; i < 3; i++)
        requests.prompt[i] = 10 + i;
    CHECK(tperf_requests_share(&requests, &tperf_heap_standard, 5, 2, &error) == TPERF_OK);
    SAME(17, requests.prompt[2]);
    SAME(6, requests.first_segment[3]);
    SAME(requests.segments[0].stream, requests.segments[4].stream); // of groups in turn
    CHECK(requests.segments[0].stream != requests.segments[2].stream);
    SAME(12, requests.segments[5].tokens);
    REFUSES("a prefix has 1", tperf_requests_share(&requests, &tperf_heap_standard, 0, 1, &error));
    tperf_requests_release(&requests);
}

UNIT_TESTS({"a prompt is prefilled in chunks", chunks},
           {"decodes and a prompt share a step's tokens", mixed_steps},
           {"requests wait in turn", queues}, {"the most urgent comes first", priorities},
           {"without blocks the last is preempted", preemption},
           {"a prefix is found in the cache", prefixes},
           {"a closed loop sends as answers leave", closed_loop},
           {"a step on a line adds up its work", lines},
           {"groups of requests share a prefix", shared_prefixes})
