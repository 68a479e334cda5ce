// bind_serve.c: tperf.core.serve(settings, pool, prefill or nil, requests or nil, load or nil) -> record: the
// simulation of tperf/serve.h for lua/tperf/question/serve/init.lua. settings: see SETTINGS, times in seconds; pool,
// prefill: { scheduler =, its name, engine =, see tperf_serve_pool_record, line =, TPERF_STEP_LINE, accepted =, list of numbers
// of accepted drafts, or nil, steps =, tables of a priced step, which replace the line }; requests: see
// bind/serve_args.h; load: drawn lengths if there are no requests, and stages of arrivals. Times are returned in seconds.
#include <math.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/interrupt.h"
#include "bind/question/serve_args.h"

// A row for each setting of a run (tperf/record.h).
#define SECONDS(FIELD, member, initial, below)                                                     \
    FIELD(NUMBER, member, #member, "s", initial, 0, below, "")
#define SETTINGS(FIELD)                                                                            \
    FIELD(INTEGER, seed, "seed", NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY, "")                  \
    FIELD(INT32, routing, "routing", NULL, TPERF_REQUIRED, 0, TPERF_ROUTE_PREFIX, "")              \
    FIELD(INT32, concurrency, "concurrency", NULL, TPERF_REQUIRED, 0, INT32_MAX, "")               \
    FIELD(INT32, threads, "threads", NULL, TPERF_REQUIRED, 1, 1024, "")                            \
    FIELD(INT32, keep, "keep", NULL, TPERF_REQUIRED, 0, KEEP_STEPS, "")                            \
    SECONDS(FIELD, think, TPERF_REQUIRED, TPERF_ANY)                                               \
    SECONDS(FIELD, front_end, TPERF_REQUIRED, TPERF_BELOW(1e6))                                    \
    SECONDS(FIELD, front_end_token, TPERF_REQUIRED, TPERF_BELOW(1))                                \
    FIELD(INT32, front_ends, "front_ends", NULL, 1, 1, 1024, "")                                   \
    SECONDS(FIELD, ttft, INFINITY, INFINITY)                                                       \
    SECONDS(FIELD, tpot, INFINITY, INFINITY)                                                       \
    SECONDS(FIELD, e2e, INFINITY, INFINITY)                                                        \
    SECONDS(FIELD, transfer, 0, TPERF_BELOW(1e6))                                                  \
    SECONDS(FIELD, transfer_token, 0, TPERF_BELOW(1e3))

enum { KEEP_NOTHING, KEEP_REQUESTS, KEEP_STEPS };

typedef struct settings {
    SETTINGS(TPERF_MEMBER)
} settings;
#define FIELD(...) TPERF_FIELD(settings, __VA_ARGS__),
static const tperf_record_field setting_fields[] = {SETTINGS(FIELD){0}};
#undef FIELD
static const tperf_record setting_record = {"tperf.serve", sizeof(settings), setting_fields};

// One pool, and the data of its step time.
typedef struct pool_data {
    tperf_serve_pool pool;
    tperf_step_line step; // seconds, later ticks
    tperf_step_table table;
} pool_data;

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

static const tperf_scheduler *read_scheduler(lua_State *L, int index) {
    bool named = tperf_bind_raw_field(L, index, "scheduler") == LUA_TSTRING;
    const tperf_scheduler *scheduler = named ? tperf_scheduler_named(lua_tostring(L, -1)) : NULL;
    if (!scheduler)
        tperf_bind_fail(L, "tperf.serve: 'scheduler' must be the name of one, got %s",
                        luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
    return scheduler;
}

// Reads the pool of the table at index.
static void read_pool(lua_State *L, int index, pool_data *data) {
    tperf_bind_raw_field(L, index, "engine");
    tperf_record_read(L, -1, &tperf_serve_pool_record, &data->pool);
    data->pool.engine.scheduler = read_scheduler(L, index);
    tperf_bind_raw_field(L, index, "line");
    tperf_record_read(L, -1, &tperf_step_line_record, &data->step);
    lua_pop(L, 2);
}

// Fills in what depends on the time scale: the arrays of the table at index stay on the stack; the pool's step time
// points into *data.
static void scale_pool(lua_State *L, int index, uint64_t seed, double ticks_per_second,
                       pool_data *data) {
    tperf_serve_pool *pool = &data->pool;
    data->step = tperf_step_line_in(&data->step, ticks_per_second);
    pool->step_time = (tperf_step_time){.ticks = tperf_step_line_ticks, .context = &data->step};
    pool->engine.drafting.seed = seed;
    if (tperf_bind_raw_field(L, index, "steps") == LUA_TTABLE)
        tperf_serve_read_table(L, lua_gettop(L), ticks_per_second, &data->table, &pool->step_time);
    if (tperf_bind_raw_field(L, index, "accepted") == LUA_TTABLE) {
        tperf_drafting *drafting = &pool->engine.drafting;
        drafting->accepted = tperf_serve_read_integers(L, lua_gettop(L), "accepted", 0, INT32_MAX,
                                                       &drafting->n_accepted);
    }
}

static void set_options(const settings *s, const tperf_serve_box *box, int64_t think,
                        tperf_serve_options *options) {
    *options = (tperf_serve_options){
        .front_end = s->front_end * box->ticks_per_second,
        .front_end_per_token = s->front_end_token * box->ticks_per_second,
        .front_ends = s->front_ends,
        .routing = (tperf_route_policy)s->routing,
        .concurrency = s->concurrency,
        .think = think,
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
static double ticks_per_second(const settings *s, const tperf_step_line *step,
                               const tperf_serve_box *box, bool drawn) {
    const double nano = 1e9;
    bool whole = !drawn && is_whole(s->think) && is_whole(step->fixed) &&
                 is_whole(step->per_token) && is_whole(step->per_context_token) &&
                 is_whole(step->per_prefill_pair) && s->front_end_token == 0 &&
                 is_whole(s->front_end) && s->transfer == 0 && s->transfer_token == 0;
    for (size_t i = 0; whole && box->seconds && i < box->requests.n; i++)
        whole = is_whole(box->seconds[i]);
    return whole ? 1 : nano;
}

// Reads all requests, and sets the time scale. given: the caller's line gives a step's duration.
static void read_all_requests(lua_State *L, const settings *s, const tperf_step_line *step,
                              bool given, tperf_serve_box *box) {
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
    set_time(L, "first_scheduled", box, d->first_scheduled);
    set_time(L, "first_token", box, served->first_token[i]);
    set_time(L, "last_token", box, served->last_token[i]);
    set_time(L, "longest_gap", box, d->longest_gap);
}

static void push_step(lua_State *L, const tperf_serve_box *box, const tperf_step_record *step) {
    lua_createtable(L, 0, 13);
    set_time(L, "start", box, step->start);
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
                          const tperf_quantiles *q) {
    if (isnan(q->mean)) return;
    lua_createtable(L, 0, 5);
    tperf_fields_set(L, "mean", q->mean / box->ticks_per_second);
    tperf_fields_set(L, "p50", q->p50 / box->ticks_per_second);
    tperf_fields_set(L, "p90", q->p90 / box->ticks_per_second);
    tperf_fields_set(L, "p99", q->p99 / box->ticks_per_second);
    lua_createtable(L, 0, 4);
    set_margin(L, "mean", q->margin.mean, box->ticks_per_second);
    set_margin(L, "p50", q->margin.p50, box->ticks_per_second);
    set_margin(L, "p90", q->margin.p90, box->ticks_per_second);
    set_margin(L, "p99", q->margin.p99, box->ticks_per_second);
    lua_setfield(L, -2, "margin");
    lua_setfield(L, -2, name);
}

static void set_latencies(lua_State *L, const tperf_serve_box *box, const tperf_quantiles *ttft,
                          const tperf_quantiles *tpot, const tperf_quantiles *e2e) {
    set_quantiles(L, "ttft", box, ttft);
    set_quantiles(L, "tpot", box, tpot);
    set_quantiles(L, "e2e", box, e2e);
}

static void set_middle(lua_State *L, const tperf_serve_box *box, const tperf_serve_figures *f) {
    lua_createtable(L, 0, 6);
    set_integer(L, "finished", f->finished);
    set_integer(L, "rejected", f->rejected);
    set_integer(L, "good", f->good);
    set_latencies(L, box, &f->ttft, &f->tpot, &f->e2e);
    lua_setfield(L, -2, "middle");
}

static void set_steadiness(lua_State *L, const tperf_serve_box *box, const tperf_steadiness *s) {
    lua_createtable(L, 0, 8);
    tperf_fields_set(L, "span", s->span / box->ticks_per_second);
    tperf_fields_set(L, "residence", s->residence / box->ticks_per_second);
    tperf_fields_set(L, "ramp_up", s->ramp_up / box->ticks_per_second);
    tperf_fields_set(L, "middle", s->middle / box->ticks_per_second);
    tperf_fields_set(L, "drain", s->drain / box->ticks_per_second);
    tperf_fields_set(L, "undisturbed", s->undisturbed / box->ticks_per_second);
    tperf_fields_set(L, "completed", s->completed);
    tperf_fields_set(L, "tokens", s->tokens);
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
    set_time(L, "duration", box, t->finished > 0 ? t->end - t->first_arrival : 0);
    lua_pushboolean(L, summary->saturated && options->concurrency == 0);
    lua_setfield(L, -2, "saturated");
    set_steadiness(L, box, &summary->steadiness);
    set_latencies(L, box, &summary->ttft, &summary->tpot, &summary->e2e);
    set_middle(L, box, &summary->middle);
    set_kept(L, box, options);
}

// --- the call ---

static bool has_steps(lua_State *L, int index) {
    bool has = tperf_bind_raw_field(L, index, "steps") == LUA_TTABLE;
    lua_pop(L, 1);
    return has;
}

static int serve(lua_State *L) {
    enum { SETTINGS_AT = 1, POOL, PREFILL, ARGUMENTS = 5 };
    lua_settop(L, ARGUMENTS);
    luaL_checktype(L, POOL, LUA_TTABLE);
    settings s;
    pool_data main, first;
    tperf_record_read(L, SETTINGS_AT, &setting_record, &s);
    read_pool(L, POOL, &main);
    bool split = lua_istable(L, PREFILL);
    if (split) read_pool(L, PREFILL, &first);
    tperf_serve_box *box = tperf_serve_box_new(L);
    int self = lua_gettop(L);
    read_all_requests(L, &s, &main.step, !has_steps(L, POOL) && !split && main.pool.stages <= 1,
                      box);
    double scale = box->ticks_per_second;
    tperf_serve_options options;
    tperf_prefill_pool prefill = {.ticks = s.transfer * scale,
                                  .ticks_per_token = s.transfer_token * scale};
    set_options(&s, box, tperf_serve_ticks(L, box, s.think), &options);
    scale_pool(L, POOL, (uint64_t)s.seed, scale, &main);
    options.pool = main.pool;
    if (split) {
        scale_pool(L, PREFILL, (uint64_t)s.seed, scale, &first);
        prefill.pool = first.pool;
        options.prefill = &prefill;
    }
    if (s.threads > 1 && options.pool.replicas > 1) box->pool = tperf_pool_new(s.threads);
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_serve_run(&options, &box->requests, box->pool, &box->served, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return tperf_bind_fail(L, "tperf.serve: %s", error.message);
    tperf_objective objective = {s.ttft * scale, s.tpot * scale, s.e2e * scale};
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
