// bind_serve.c: tperf.core.serve(settings, pool, prefill or nil, requests or nil, load or nil) -> record: the
// simulation of tperf/serve.h for lua/tperf/question/serve/init.lua. settings: see setting_fields, times in seconds;
// pool, prefill: { engine =, see pool_fields, accepted =, list of numbers of accepted drafts, or nil, steps =, tables
// of a priced step, which replace engine's four figures }; requests: see bind/serve_args.h; load: drawn lengths if
// there are no requests, and stages of arrivals. Times are returned in seconds.
#include <math.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/interrupt.h"
#include "bind/question/serve_args.h"

// seconds = fixed + per_token tokens + per_context_token keys + per_prefill_pair pairs; here in ticks.
typedef struct line {
    double fixed, per_token, per_context_token, per_prefill_pair;
} line;

typedef struct settings {
    int64_t seed, routing, concurrency, threads, keep;
    double think, front_end, front_end_token, ttft, tpot, e2e, transfer, transfer_token;
} settings;

#define FIELD(kind, name)                                                                          \
    { #name, TPERF_FIELD_##kind, offsetof(settings, name), true }
static const tperf_field setting_fields[] = {
    FIELD(INTEGER, seed),
    FIELD(INTEGER, routing),
    FIELD(INTEGER, concurrency),
    FIELD(INTEGER, threads),
    FIELD(INTEGER, keep),
    FIELD(NUMBER, think),
    FIELD(NUMBER, front_end),
    FIELD(NUMBER, front_end_token),
    {"ttft", TPERF_FIELD_NUMBER, offsetof(settings, ttft), false},
    {"tpot", TPERF_FIELD_NUMBER, offsetof(settings, tpot), false},
    {"e2e", TPERF_FIELD_NUMBER, offsetof(settings, e2e), false},
    {"transfer", TPERF_FIELD_NUMBER, offsetof(settings, transfer), false},
    {"transfer_token", TPERF_FIELD_NUMBER, offsetof(settings, transfer_token), false},
    {0},
};
#undef FIELD

enum { KEEP_NOTHING, KEEP_REQUESTS, KEEP_STEPS };

// One pool, and the data of its step time.
typedef struct pool_settings {
    const char *scheduler;
    int64_t max_num_seqs, max_num_batched_tokens, max_model_len, block_size, num_blocks;
    int64_t long_prefill_token_threshold, draft_method, draft_tokens, replicas, ranks, stages;
    int64_t receive_interval, batch_wait_steps, batch_wait_tokens;
    int64_t whole_groups, windowed_groups, window_blocks, state_groups, apart, window;
    bool prefix_caching, chunked_prefill, mixed_chunk, priority, async_scheduling;
    int64_t estimate_steps, estimate_longest, estimate_ahead;
    double acceptance, estimate_first, estimate_least;
    line step;
    tperf_step_table table;
} pool_settings;

#define FIELD(kind, name)                                                                          \
    { #name, TPERF_FIELD_##kind, offsetof(pool_settings, name), true }
static const tperf_field pool_fields[] = {
    FIELD(TEXT, scheduler),
    FIELD(INTEGER, max_num_seqs),
    FIELD(INTEGER, max_num_batched_tokens),
    FIELD(INTEGER, max_model_len),
    FIELD(INTEGER, block_size),
    FIELD(INTEGER, num_blocks),
    FIELD(INTEGER, long_prefill_token_threshold),
    FIELD(INTEGER, draft_method),
    FIELD(INTEGER, draft_tokens),
    FIELD(INTEGER, replicas),
    FIELD(INTEGER, ranks),
    FIELD(INTEGER, stages),
    FIELD(INTEGER, receive_interval),
    FIELD(INTEGER, batch_wait_steps),
    FIELD(INTEGER, batch_wait_tokens),
    FIELD(INTEGER, whole_groups),
    FIELD(INTEGER, windowed_groups),
    FIELD(INTEGER, window_blocks),
    FIELD(INTEGER, state_groups),
    FIELD(INTEGER, apart),
    FIELD(INTEGER, window),
    FIELD(FLAG, prefix_caching),
    FIELD(FLAG, chunked_prefill),
    FIELD(FLAG, mixed_chunk),
    FIELD(FLAG, priority),
    FIELD(FLAG, async_scheduling),
    FIELD(NUMBER, acceptance),
    FIELD(NUMBER, estimate_first),
    FIELD(NUMBER, estimate_least),
    FIELD(INTEGER, estimate_steps),
    FIELD(INTEGER, estimate_longest),
    FIELD(INTEGER, estimate_ahead),
    {"fixed", TPERF_FIELD_NUMBER, offsetof(pool_settings, step.fixed), true},
    {"per_token", TPERF_FIELD_NUMBER, offsetof(pool_settings, step.per_token), true},
    {"per_context_token", TPERF_FIELD_NUMBER, offsetof(pool_settings, step.per_context_token),
     true},
    {"per_prefill_pair", TPERF_FIELD_NUMBER, offsetof(pool_settings, step.per_prefill_pair), true},
    {0},
};
#undef FIELD

// core.schedulers: a list of { name, pools = "nothing", "apart" or "shared", whole_prompts, mixes … }: tperf_scheduler.
void tperf_bind_schedulers(lua_State *L) {
    static const char *const pools[] = {"nothing", "apart", "shared"};
    lua_newtable(L);
    for (int i = 0; tperf_schedulers[i]; i++) {
        const tperf_scheduler *s = tperf_schedulers[i];
        const struct {
            const char *name;
            bool value;
        } traits[] = {
            {"whole_prompts", s->whole_prompts},
            {"mixes", s->mixes},
            {"waits", s->waits},
            {"keeps_states", s->keeps_states},
            {"separate", s->separate},
            {"prefill_graphs", s->prefill_graphs},
        };
        lua_newtable(L);
        lua_pushstring(L, s->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, pools[s->pools]);
        lua_setfield(L, -2, "pools");
        for (size_t k = 0; k < sizeof traits / sizeof *traits; k++) {
            lua_pushboolean(L, traits[k].value);
            lua_setfield(L, -2, traits[k].name);
        }
        lua_rawseti(L, -2, i + 1);
    }
}

// --- input ---

static int64_t ticks_of_step(const void *context, const tperf_step_work *work,
                             const tperf_prefill_chunk *chunks) {
    (void)chunks;
    const line *l = context;
    double ticks = l->fixed + l->per_token * (double)(work->decode_tokens + work->prefill_tokens) +
                   l->per_context_token * (double)work->decode_context +
                   l->per_prefill_pair * (double)work->prefill_pairs;
    return ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX;
}

static int32_t narrow(lua_State *L, int64_t value, const char *name) {
    if (value < 0 || value > INT32_MAX)
        tperf_bind_fail(L, "tperf.serve: '%s' is out of range", name);
    return (int32_t)value;
}

static void read_settings(lua_State *L, int index, settings *s) {
    s->ttft = s->tpot = s->e2e = INFINITY;
    tperf_fields_read(L, index, "tperf.serve", setting_fields, s);
    if (s->routing < TPERF_ROUTE_ROUND_ROBIN || s->routing > TPERF_ROUTE_PREFIX || s->threads < 1 ||
        s->threads > 1024 || s->think < 0 || !(s->front_end >= 0 && s->front_end < 1e6) ||
        !(s->front_end_token >= 0 && s->front_end_token < 1) ||
        !(s->transfer >= 0 && s->transfer < 1e6) ||
        !(s->transfer_token >= 0 && s->transfer_token < 1e3))
        tperf_bind_fail(L, "tperf.serve: a setting is out of range");
}

static void read_pool(lua_State *L, int index, pool_settings *s) {
    tperf_bind_raw_field(L, index, "engine");
    tperf_fields_read(L, -1, "tperf.serve", pool_fields, s);
    lua_pop(L, 1);
    const line *l = &s->step;
    if (!(l->fixed >= 0 && l->per_token >= 0 && l->per_context_token >= 0 &&
          l->per_prefill_pair >= 0))
        tperf_bind_fail(L, "tperf.serve: 'step_time' must not be negative");
    if (!(s->estimate_first >= 0 && s->estimate_least >= 0 && s->estimate_first <= 1 &&
          s->estimate_least <= 1))
        tperf_bind_fail(L, "tperf.serve: an estimate must be a part, from 0 to 1");
    if (s->draft_method < TPERF_DRAFT_NONE || s->draft_method > TPERF_DRAFT_EAGLE ||
        !tperf_scheduler_named(s->scheduler))
        tperf_bind_fail(L, "tperf.serve: a setting is out of range");
}

static tperf_engine engine_of(lua_State *L, const settings *all, const pool_settings *s) {
    return (tperf_engine){
        .scheduler = tperf_scheduler_named(s->scheduler),
        .max_num_seqs = narrow(L, s->max_num_seqs, "max_num_seqs"),
        .max_num_batched_tokens = narrow(L, s->max_num_batched_tokens, "max_num_batched_tokens"),
        .max_model_len = narrow(L, s->max_model_len, "max_model_len"),
        .block_size = narrow(L, s->block_size, "block_size"),
        .num_blocks = narrow(L, s->num_blocks, "num_blocks"),
        .long_prefill_token_threshold =
            narrow(L, s->long_prefill_token_threshold, "long_prefill_token_threshold"),
        .prefix_caching = s->prefix_caching,
        .chunked_prefill = s->chunked_prefill,
        .mixed_chunk = s->mixed_chunk,
        .async_scheduling = s->async_scheduling,
        .receive_interval = narrow(L, s->receive_interval, "receive_interval"),
        .batch_wait_steps = narrow(L, s->batch_wait_steps, "batch_wait_steps"),
        .batch_wait_tokens = narrow(L, s->batch_wait_tokens, "batch_wait_tokens"),
        .policy = s->priority ? TPERF_QUEUE_PRIORITY : TPERF_QUEUE_FCFS,
        .estimate = {.first = s->estimate_first,
                     .least = s->estimate_least,
                     .steps = narrow(L, s->estimate_steps, "estimate_steps"),
                     .longest = narrow(L, s->estimate_longest, "estimate_longest"),
                     .ahead = narrow(L, s->estimate_ahead, "estimate_ahead")},
        .drafting = {.method = (tperf_draft_method)s->draft_method,
                     .tokens = narrow(L, s->draft_tokens, "tokens"),
                     .acceptance = s->acceptance,
                     .seed = (uint64_t)all->seed},
        .pooled = {.whole = narrow(L, s->whole_groups, "whole_groups"),
                   .windowed = narrow(L, s->windowed_groups, "windowed_groups"),
                   .window_blocks = narrow(L, s->window_blocks, "window_blocks"),
                   .states = narrow(L, s->state_groups, "state_groups"),
                   .apart = narrow(L, s->apart, "apart"),
                   .window = narrow(L, s->window, "window")},
    };
}

// Reads the pool of the table at index, whose arrays stay on the stack; its step time points into *s.
static void set_pool(lua_State *L, int index, const settings *all, double ticks_per_second,
                     pool_settings *s, tperf_serve_pool *pool) {
    *pool = (tperf_serve_pool){
        .engine = engine_of(L, all, s),
        .step_time = {.ticks = ticks_of_step, .context = &s->step},
        .replicas = narrow(L, s->replicas, "replicas"),
        .ranks = narrow(L, s->ranks, "ranks"),
        .stages = narrow(L, s->stages, "pp"),
    };
    s->step.fixed *= ticks_per_second;
    s->step.per_token *= ticks_per_second;
    s->step.per_context_token *= ticks_per_second;
    s->step.per_prefill_pair *= ticks_per_second;
    if (tperf_bind_raw_field(L, index, "steps") == LUA_TTABLE)
        tperf_serve_read_table(L, lua_gettop(L), ticks_per_second, &s->table, &pool->step_time);
    if (tperf_bind_raw_field(L, index, "accepted") == LUA_TTABLE) {
        tperf_drafting *drafting = &pool->engine.drafting;
        drafting->accepted = tperf_serve_read_integers(L, lua_gettop(L), "accepted", 0, INT32_MAX,
                                                       &drafting->n_accepted);
    }
}

static void set_options(const settings *s, const tperf_serve_box *box, int64_t think,
                        tperf_serve_options *options) {
    *options = (tperf_serve_options){
        .front_end_per_token = s->front_end_token * box->ticks_per_second,
        .routing = (tperf_route_policy)s->routing,
        .concurrency = (int32_t)s->concurrency,
        .think = think + (int64_t)box->front_end,
        .keep_requests = s->keep >= KEEP_REQUESTS,
        .keep_steps = s->keep >= KEEP_STEPS,
        .heap = &box->heap,
        .stop = tperf_interrupt_flag(),
    };
}

static bool is_whole(double x) {
    return x == floor(x);
}

// If every given time is a whole number of seconds, ticks of a second lose nothing and reach further.
static double ticks_per_second(const settings *s, const line *step, const tperf_serve_box *box,
                               bool drawn) {
    const double nano = 1e9;
    bool whole = !drawn && is_whole(s->think) && is_whole(step->fixed) &&
                 is_whole(step->per_token) && is_whole(step->per_context_token) &&
                 is_whole(step->per_prefill_pair) && s->front_end_token == 0 && s->transfer == 0 &&
                 s->transfer_token == 0;
    for (size_t i = 0; whole && box->seconds && i < box->requests.n; i++)
        whole = is_whole(box->seconds[i]);
    return whole ? 1 : nano;
}

// Reads all requests, and sets the time scale. given: the caller's line gives a step's duration.
static void read_all_requests(lua_State *L, const settings *s, const line *step, bool given,
                              tperf_serve_box *box) {
    enum { REQUESTS = 4, LOAD };
    uint64_t seed = (uint64_t)s->seed;
    bool drawn_arrivals = false;
    if (!lua_isnil(L, LOAD)) {
        drawn_arrivals = lua_getfield(L, LOAD, "stages") == LUA_TTABLE;
        lua_pop(L, 1);
    }
    if (lua_isnil(L, REQUESTS))
        tperf_serve_draw_lengths(L, LOAD, seed, box);
    else
        tperf_serve_read_requests(L, REQUESTS, !drawn_arrivals && s->concurrency == 0, box);
    box->ticks_per_second = ticks_per_second(s, step, box, drawn_arrivals || !given);
    box->front_end = (double)tperf_serve_ticks(L, box, s->front_end);
    if (drawn_arrivals) tperf_serve_draw_arrivals(L, LOAD, seed, box);
    for (size_t i = 0; box->seconds && i < box->requests.n; i++)
        box->requests.arrival[i] = tperf_serve_ticks(L, box, box->seconds[i]);
    tperf_heap_free(box->seconds);
    box->seconds = NULL;
}

// --- output ---

static void set_integer(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_time(lua_State *L, const char *name, const tperf_serve_box *box, int64_t ticks) {
    tperf_fields_set(L, name, (double)ticks / box->ticks_per_second);
}

static void set_sum(lua_State *L, const char *name, const tperf_serve_box *box,
                    tperf_tick_sum sum) {
    tperf_fields_set(L, name, tperf_tick_sum_value(sum) / box->ticks_per_second);
}

// The front end delays every request equally, so the engine runs as without it, only later: adding the delay converts
// the engine's time to the client's.
static void set_moment(lua_State *L, const char *name, const tperf_serve_box *box, int64_t ticks) {
    tperf_fields_set(L, name, ((double)ticks + box->front_end) / box->ticks_per_second);
}

static void push_request(lua_State *L, const tperf_serve_box *box, size_t i) {
    const tperf_served *served = &box->served;
    const tperf_request_detail *d = &served->details[i];
    bool finished = served->tokens[i] > 0;
    lua_createtable(L, 0, 10);
    lua_pushstring(L, finished ? "finished" : "rejected");
    lua_setfield(L, -2, "status");
    set_time(L, "arrival", box, box->requests.arrival[i]);
    set_integer(L, "tokens", served->tokens[i]);
    set_integer(L, "preemptions", d->preemptions);
    set_integer(L, "cached_tokens", d->cached_tokens);
    set_integer(L, "steps", d->steps);
    if (!finished) return;
    set_moment(L, "first_scheduled", box, d->first_scheduled);
    set_moment(L, "first_token", box, served->first_token[i]);
    set_moment(L, "last_token", box, served->last_token[i]);
    set_time(L, "longest_gap", box, d->longest_gap);
}

static void push_step(lua_State *L, const tperf_serve_box *box, const tperf_step_record *step) {
    lua_createtable(L, 0, 13);
    set_moment(L, "start", box, step->start);
    set_time(L, "duration", box, step->duration);
    set_integer(L, "replica", step->replica + 1);
    set_integer(L, "running", step->running);
    set_integer(L, "waiting", step->waiting);
    set_integer(L, "prefills", step->work.prefills);
    set_integer(L, "decodes", step->work.decodes);
    set_integer(L, "prefill_tokens", step->work.prefill_tokens);
    set_integer(L, "decode_tokens", step->work.decode_tokens);
    set_integer(L, "decode_context", step->work.decode_context);
    set_integer(L, "prefill_pairs", step->work.prefill_pairs);
    set_integer(L, "preempted", step->preempted);
    if (step->free_blocks >= 0) set_integer(L, "free_blocks", step->free_blocks);
}

static void set_kept(lua_State *L, const tperf_serve_box *box, const tperf_serve_options *options) {
    const tperf_served *served = &box->served;
    if (options->keep_requests) {
        lua_createtable(L, (int)served->n, 0);
        for (size_t i = 0; i < served->n; i++) {
            push_request(L, box, i);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        lua_setfield(L, -2, "requests");
    }
    if (options->keep_steps) {
        lua_createtable(L, served->n_steps < INT32_MAX ? (int)served->n_steps : 0, 0);
        for (size_t i = 0; i < served->n_steps; i++) {
            push_step(L, box, &served->steps[i]);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        lua_setfield(L, -2, "steps");
    }
}

static void set_margin(lua_State *L, const char *name, double ticks, double ticks_per_second) {
    if (!isnan(ticks)) tperf_fields_set(L, name, ticks / ticks_per_second);
}

static void set_quantiles(lua_State *L, const char *name, const tperf_serve_box *box,
                          const tperf_quantiles *q, double more) {
    if (isnan(q->mean)) return;
    lua_createtable(L, 0, 5);
    tperf_fields_set(L, "mean", (q->mean + more) / box->ticks_per_second);
    tperf_fields_set(L, "p50", (q->p50 + more) / box->ticks_per_second);
    tperf_fields_set(L, "p90", (q->p90 + more) / box->ticks_per_second);
    tperf_fields_set(L, "p99", (q->p99 + more) / box->ticks_per_second);
    lua_createtable(L, 0, 4);
    set_margin(L, "mean", q->margin.mean, box->ticks_per_second);
    set_margin(L, "p50", q->margin.p50, box->ticks_per_second);
    set_margin(L, "p90", q->margin.p90, box->ticks_per_second);
    set_margin(L, "p99", q->margin.p99, box->ticks_per_second);
    lua_setfield(L, -2, "margin");
    lua_setfield(L, -2, name);
}

static void set_steadiness(lua_State *L, const tperf_serve_box *box, const tperf_steadiness *s) {
    lua_createtable(L, 0, 4);
    tperf_fields_set(L, "span", s->span / box->ticks_per_second);
    tperf_fields_set(L, "residence", s->residence / box->ticks_per_second);
    tperf_fields_set(L, "middle", s->middle / box->ticks_per_second);
    tperf_fields_set(L, "completed", s->completed);
    lua_setfield(L, -2, "steadiness");
}

static void push_answer(lua_State *L, const tperf_serve_box *box,
                        const tperf_serve_options *options, const tperf_serve_summary *summary) {
    const tperf_serve_totals *t = &box->served.totals;
    lua_createtable(L, 0, 24);
    set_integer(L, "finished", t->finished);
    set_integer(L, "rejected", t->rejected);
    set_integer(L, "good", summary->good);
    set_integer(L, "preemptions", t->preemptions);
    set_integer(L, "prompt_tokens", t->prompt_tokens);
    set_integer(L, "output_tokens", t->output_tokens);
    set_integer(L, "cached_tokens", t->cached_tokens);
    set_integer(L, "scheduled_tokens", t->scheduled_tokens);
    set_integer(L, "step_count", t->steps);
    set_sum(L, "busy", box, t->busy);
    set_sum(L, "prefill_busy", box, t->prefill_busy);
    if (t->finished > 0)
        set_moment(L, "duration", box, t->end - t->first_arrival);
    else
        set_time(L, "duration", box, 0);
    lua_pushboolean(L, summary->saturated && options->concurrency == 0);
    lua_setfield(L, -2, "saturated");
    set_steadiness(L, box, &summary->steadiness);
    set_quantiles(L, "ttft", box, &summary->ttft, box->front_end);
    set_quantiles(L, "tpot", box, &summary->tpot, 0);
    set_quantiles(L, "e2e", box, &summary->e2e, box->front_end);
    set_kept(L, box, options);
}

// --- the call ---

static bool has_steps(lua_State *L, int index) {
    bool has = tperf_bind_raw_field(L, index, "steps") == LUA_TTABLE;
    lua_pop(L, 1);
    return has;
}

static int serve(lua_State *L) {
    enum { SETTINGS = 1, POOL, PREFILL, ARGUMENTS = 5 };
    lua_settop(L, ARGUMENTS);
    luaL_checktype(L, POOL, LUA_TTABLE);
    settings s = {0};
    pool_settings pool = {0}, first = {0};
    read_settings(L, SETTINGS, &s);
    narrow(L, s.concurrency, "concurrency");
    read_pool(L, POOL, &pool);
    bool split = lua_istable(L, PREFILL);
    if (split) read_pool(L, PREFILL, &first);
    tperf_serve_box *box = tperf_serve_box_new(L);
    int self = lua_gettop(L);
    read_all_requests(L, &s, &pool.step, !has_steps(L, POOL) && !split && pool.stages <= 1, box);
    double scale = box->ticks_per_second;
    tperf_serve_options options;
    tperf_prefill_pool prefill = {.ticks = s.transfer * scale,
                                  .ticks_per_token = s.transfer_token * scale};
    set_options(&s, box, tperf_serve_ticks(L, box, s.think), &options);
    set_pool(L, POOL, &s, scale, &pool, &options.pool);
    if (split) {
        set_pool(L, PREFILL, &s, scale, &first, &prefill.pool);
        options.prefill = &prefill;
    }
    if (s.threads > 1 && options.pool.replicas > 1) box->pool = tperf_pool_new((int)s.threads);
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_serve_run(&options, &box->requests, box->pool, &box->served, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return tperf_bind_fail(L, "tperf.serve: %s", error.message);
    tperf_objective objective = {s.ttft * scale - box->front_end, s.tpot * scale,
                                 s.e2e * scale - box->front_end};
    tperf_serve_summary summary;
    if (tperf_serve_summarize(&box->requests, &box->served, &objective, &summary, &error) !=
        TPERF_OK)
        return tperf_bind_fail(L, "tperf.serve: %s", error.message);
    push_answer(L, box, &options, &summary);
    tperf_serve_box_close(lua_touserdata(L, self));
    return 1;
}

void tperf_bind_serve(lua_State *L) {
    lua_pushcfunction(L, serve);
}
