// arguments.c: a simulation refuses a C program's invalid options and requests, one fault at a time.
#include "base/test/unit.h"
#include "tperf/serve.h"

static int64_t step(const void *context, const tperf_step_work *work,
                    const tperf_prefill_chunk *chunks) {
    (void)work;
    (void)chunks;
    return *(const int64_t *)context;
}

// A valid question; each test breaks one thing.
static tperf_serve_options options;
static tperf_requests requests;
static int64_t ticks, arrival[2];
static int32_t prompt[2], output[2], accepted[1];
static size_t first_segment[3];
static tperf_segment segments[2];

static void set_sound(void) {
    options = (tperf_serve_options){
        .pool = {.engine = {.max_num_seqs = 4,
                            .max_num_batched_tokens = 32,
                            .max_model_len = 64,
                            .block_size = 4,
                            .num_blocks = 40,
                            .chunked_prefill = true,
                            .drafting = {.method = TPERF_DRAFT_NGRAM,
                                         .tokens = 2,
                                         .accepted = accepted,
                                         .n_accepted = 1}},
                 .step_time = {.ticks = step, .context = &ticks},
                 .replicas = 1},
        .heap = &tperf_heap_standard,
    };
    ticks = 1000;
    accepted[0] = 1;
    for (int i = 0; i < 2; i++) {
        arrival[i] = i;
        prompt[i] = output[i] = 8;
        segments[i] = (tperf_segment){i, 8};
        first_segment[i + 1] = (size_t)i + 1;
    }
    requests = (tperf_requests){2, arrival, prompt, output, NULL, first_segment, segments};
}

// Runs the broken question, and restores it.
static void refused(const char *reason) {
    tperf_served served;
    tperf_error error = {{0}};
    tperf_status status = tperf_serve_run(&options, &requests, NULL, &served, &error);
    CHECK(status == TPERF_INVALID);
    SAYS(reason, error.message);
    CHECK(!served.first_token && !served.steps); // nothing to release
    CHECK(tperf_serve_run(&options, &requests, NULL, &served, NULL) == TPERF_INVALID);
    set_sound();
}

static void refuse_engines(void) {
    set_sound();
    options.pool.engine.num_blocks = -1, refused("'num_blocks' must be at least 2");
    options.pool.engine.long_prefill_token_threshold = -1,
    refused("'long_prefill_token_threshold'");
    options.pool.engine.max_num_seqs = -1, refused("must be at least 1");
    options.pool.engine.max_num_batched_tokens = 0, refused("must be at least 1");
    options.pool.engine.max_model_len = 1, refused("'max_model_len' must be from 2");
    options.pool.engine.block_size = 0, refused("'block_size' must be from 1");
    options.pool.engine.drafting.tokens = 0, refused("'tokens' must be from 1");
    accepted[0] = -1, refused("'accepted' must not be negative");
    options.pool.engine.drafting.n_accepted = 0, options.pool.engine.drafting.acceptance = 2;
    refused("'acceptance' must be from 0 to 1");
    options.pool.replicas = 0, refused("'replicas' must be from 1");
    options.concurrency = -1, refused("'concurrency' and 'think' must not be negative");
    options.think = -1, refused("'concurrency' and 'think' must not be negative");
    options.pool.engine.chunked_prefill = false, options.pool.engine.max_num_batched_tokens = 4;
    refused("must take its prompt of 8 tokens whole");
}

static void refuse_requests(void) {
    set_sound();
    requests.n = INT32_MAX, refused("too many requests");
    prompt[1] = 0, refused("request 2: prompt and output must be from 1");
    output[1] = 0, refused("request 2: prompt and output must be from 1");
    prompt[1] = TPERF_LONGEST + 1, refused("request 2: prompt and output must be from 1");
    output[1] = TPERF_LONGEST + 1, refused("request 2: prompt and output must be from 1");
    arrival[1] = -1, refused("request 2: arrives before the time 0");
    segments[1].tokens = 0, refused("request 2: a segment needs a stream from 0 on");
    segments[1].stream = -1, refused("request 2: a segment needs a stream from 0 on");
    segments[1].tokens = 7, refused("request 2: its segments have 7 tokens, its prompt 8");
}

static void refuse_times(void) {
    set_sound();
    ticks = -1, refused("a step at tick 0 takes -1 ticks");
    ticks = INT64_MAX, refused("the clock ends at 2^63");
    ticks = INT64_MAX / 2, refused("the clock ends at 2^63");
    options.concurrency = 1, options.think = INT64_MAX,
    refused("a think time ends after the clock");
    // a prompt that prefix caching might shorten, but does not
    options.pool.engine.chunked_prefill = false, options.pool.engine.prefix_caching = true;
    options.pool.engine.max_num_batched_tokens = 4;
    refused("the scheduler can neither run nor preempt");
}

// A run polls the stop flag.
static void stop_when_asked(void) {
    set_sound();
    atomic_int stop = 0;
    tperf_served served;
    options.stop = &stop;
    options.pool.engine.num_blocks = 0, options.pool.engine.max_model_len = 10000;
    output[0] = output[1] = 9000;
    CHECK(tperf_serve_run(&options, &requests, NULL, &served, NULL) == TPERF_OK);
    tperf_served_release(&served);
    stop = 1;
    CHECK(tperf_serve_run(&options, &requests, NULL, &served, NULL) == TPERF_INTERRUPTED);
    set_sound();
}

// Every replica finds the same fault; the message is the first replica's, whichever worker ran it.
static void refuse_replicas(void) {
    set_sound();
    tperf_pool *pool = tperf_pool_new(2);
    for (int threads = 1; threads <= 2; threads++) {
        tperf_served served;
        tperf_error error;
        options.pool.replicas = 2;
        ticks = -1;
        tperf_status status =
            tperf_serve_run(&options, &requests, threads > 1 ? pool : NULL, &served, &error);
        CHECK(status == TPERF_INVALID);
        SAYS("at tick 0", error.message);
        set_sound();
    }
    tperf_pool_free(pool);
}

static void accept_the_sound(void) {
    set_sound();
    tperf_served served;
    tperf_error error = {{0}};
    CHECK(tperf_serve_run(&options, &requests, NULL, &served, &error) == TPERF_OK);
    SAME(2, served.totals.finished);
    tperf_served_release(&served);
}

UNIT_TESTS({"accept what is sound", accept_the_sound}, {"refuse engines", refuse_engines},
           {"refuse requests", refuse_requests},
           {"refuse times that leave the clock", refuse_times},
           {"refuse replicas in their order, whatever the threads", refuse_replicas},
           {"stop when asked", stop_when_asked})
