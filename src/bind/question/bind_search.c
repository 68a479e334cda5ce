// bind_search.c: tperf.core.search: the search of tperf/search.h for lua/tperf/question/search/init.lua.
//   search.new(options, pipelines, questions, zero, dp, accept, threads) -> search
//     options: the fields of TPERF_SEARCH (tperf/search.h); questions: list of { job, gpus, global_batch, and to list what an earlier search did
//     not: after = the last of its `open`, reached = samples per second }; their jobs differ in the system alone and
//     have these pipelines
//     zero: list of ZeRO stages; dp: list or nil
//     accept: function(question, found) -> whether to keep it, or, with options.ranked, its rank; or nil
//   search:shapes(list) -> shapes   read once, for searches of the same pipelines; list: of series of shapes, which differ
//     in the micro-batch alone: { strategy, variant, micro_batches, workloads = by micro-batch, fitting = the number of
//     micro-batches that may fit, panels, fast, order }; those that do not are only counted. order: of ranks, positions
//     in the grid from 1: only the placement that it implies
//   search:walk(shapes)          or such a list; false when interrupted
//   search:fitting(workloads, micro_batches, from, own) -> the number of micro-batches, ascending, up to the first of
//                                  which neither it nor a larger one can fit; or nil and the position of the first, not
//                                  before `from`, whose workload it takes to know; own: layers are the script's
//   search:add(question, answer) takes what search:answer gave in another process, of other shapes; its found are a table
//   search:answer(question)      { candidates, feasible, evaluated, least, found = a list, best first, each item of which is
//                                  made into a table when it is read: found[i], #found; open: such a list of those to
//                                  simulate, by bound; kept: each has its `workload` }
//   search.threads() -> the number of processors; search.clock() -> seconds, for durations
//   search.interrupted() -> whether Ctrl-C was pressed; the caller honours it
//   search.pending() -> the same, if other code will honour it
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bind/base/processors.h"
#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/interrupt.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"
#include "bind/question/found_args.h"
#include "bind/shape_args.h"
#include "tperf/search.h"

static const char type_name[] = "tperf.search", pool_name[] = "tperf.pool";
static const char pool_slot[] =
    "tperf.pool.current"; // registry keys of types hold metatables: not pool_name

// Its user values: 1 the accept function, 2 its error, 3 the pipelines, 4 the list `dp`, 5 the pool, 6 a list of
// the shapes that were kept, 7 the questions.
typedef struct box {
    tperf_heap heap;
    tperf_search *search;
    tperf_pool *pool;
    lua_State *L; // of the current walk
    int self;     // the box's index on that stack
    bool failed;  // accept raised an error
    bool walking, answered;
    bool all_kept; // all shapes that were walked, and none were in another process
    size_t n_questions, n_kept;
    const tperf_pipeline *pipelines;
    int zero[4]; // ZeRO stages to try
} box;

static box *check_search(lua_State *L) {
    box *b = luaL_checkudata(L, 1, type_name);
    if (!b->search) tperf_bind_fail(L, "the search is closed");
    return b;
}

// Raises if called from a callback during a walk, or for a walk after the answer.
static box *check_idle(lua_State *L) {
    box *b = check_search(L);
    if (b->walking) tperf_bind_fail(L, "the search is under way");
    return b;
}

static int close_search(lua_State *L) {
    box *b = luaL_checkudata(L, 1, type_name);
    if (b->walking) tperf_bind_fail(L, "the search is under way");
    tperf_search_free(b->search);
    b->search = NULL;
    return 0;
}

static int close_pool(lua_State *L) {
    tperf_pool **pool = luaL_checkudata(L, 1, pool_name);
    tperf_pool_free(*pool);
    *pool = NULL;
    return 0;
}

// Pushes the pool's userdata.
static tperf_pool *new_pool(lua_State *L, int threads) {
    tperf_pool **slot = lua_newuserdatauv(L, sizeof *slot, 0);
    *slot = NULL;
    luaL_setmetatable(L, pool_name);
    *slot = tperf_pool_new(threads);
    if (!*slot) tperf_bind_fail(L, "not enough memory for %d threads", threads);
    return *slot;
}

void tperf_bind_end_threads(lua_State *L) {
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, pool_slot);
    lua_gc(L, LUA_GCCOLLECT);
}

// The state's pool with this many threads, created on demand; a different number replaces it.
static tperf_pool *get_pool(lua_State *L, int threads) {
    if (threads == 1) return new_pool(L, 1); // no threads to keep
    lua_getfield(L, LUA_REGISTRYINDEX, pool_slot);
    tperf_pool **slot = lua_touserdata(L, -1);
    if (slot && tperf_pool_threads(*slot) == threads)
        return *slot; // its userdata stays on the stack
    lua_pop(L, 1);
    tperf_pool *pool =
        new_pool(L, threads); // current searches keep the old one alive through their user value
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, pool_slot);
    return pool;
}

typedef struct proposal {
    const box *box;
    size_t question;
    const tperf_found *found;
} proposal;

// call_accept(proposal, search) -> the accept function's result
static int call_accept(lua_State *L) {
    const proposal *p = lua_touserdata(L, 1);
    lua_getiuservalue(L, 2, 1);
    lua_pushinteger(L, (lua_Integer)p->question + 1);
    tperf_bind_push_found(L, p->found, p->box->pipelines);
    lua_call(L, 2, 1);
    return 1;
}

// Called by the core on the thread of search:walk; an error, even of memory, must not jump over the core.
static bool accept_in_lua(void *context, size_t question, tperf_found *found) {
    box *b = context;
    lua_State *L = b->L;
    if (b->failed || *tperf_interrupt_flag()) return false; // the walk is about to end
    proposal p = {b, question, found};
    lua_pushcfunction(L, call_accept); // walk has left room on the stack
    lua_pushlightuserdata(L, &p);
    lua_pushvalue(L, b->self);
    b->failed = lua_pcall(L, 2, 1, 0) != LUA_OK;
    bool accepted = !b->failed && lua_toboolean(L, -1);
    if (accepted && lua_type(L, -1) == LUA_TNUMBER) found->rank = lua_tonumber(L, -1);
    if (found->rank != found->rank) accepted = false; // NaN has no place in an order
    if (b->failed)
        lua_setiuservalue(L, b->self, 2);
    else
        lua_pop(L, 1);
    return accepted;
}

// Reads from the question on top of the stack where to go on with the list of what is to be simulated. after: room for
// the candidate.
static void read_reached(lua_State *L, const tperf_search_options *o, tperf_found *after,
                         tperf_question *question) {
    question->after = NULL;
    tperf_bind_raw_field(L, -1, "reached");
    question->reached = luaL_optnumber(L, -1, 0);
    tperf_bind_raw_field(L, -2, "after");
    if (!lua_isnil(L, -1)) {
        tperf_bind_check_found(L, lua_gettop(L), o->pipelines, o->n_pipelines, after);
        question->after = after;
    }
    lua_pop(L, 2);
}

// Takes what all jobs of a search have in common from the first of them.
static void set_job(lua_State *L, const tperf_bind_job *job, bool first, tperf_search_options *o) {
    if (first) {
        o->rules = job->on->rules;
        o->software = job->on->software;
        o->training = job->training;
    }
    if (job->pipelines != o->pipelines ||
        memcmp(&job->on->rules, &o->rules, sizeof o->rules) != 0 ||
        memcmp(&job->on->software, &o->software, sizeof o->software) != 0 ||
        memcmp(&job->training, &o->training, sizeof o->training) != 0)
        tperf_bind_fail(L, "the questions of a search differ in more than their systems");
}

// Pushes the questions, followed by space for the candidates after which to go on.
static tperf_question *push_questions(lua_State *L, int index, size_t *n, tperf_search_options *o) {
    *n = tperf_bind_push_list(L, index, "the questions");
    lua_replace(L, index);
    size_t each = sizeof(tperf_question) + sizeof(tperf_found);
    tperf_question *questions = lua_newuserdatauv(L, (*n + 1) * each, 0);
    tperf_found *after = (tperf_found *)(questions + *n);
    for (size_t i = 0; i < *n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        luaL_checktype(L, -1, LUA_TTABLE);
        tperf_bind_raw_field(L, -1, "job");
        set_job(L, tperf_bind_check_job(L, lua_gettop(L)), i == 0, o);
        questions[i].system = tperf_bind_check_job(L, lua_gettop(L))->on->system;
        tperf_bind_raw_field(L, -2, "gpus");
        questions[i].gpus = luaL_checkinteger(L, -1);
        tperf_bind_raw_field(L, -3, "global_batch");
        questions[i].global_batch = luaL_checkinteger(L, -1);
        lua_pop(L, 3);
        read_reached(L, o, &after[i], &questions[i]);
        lua_pop(L, 1);
    }
    return questions;
}

// Reads the list of ZeRO stages at index.
static size_t read_zero(lua_State *L, int index, int zero[4]) {
    size_t n = tperf_bind_length(L, index, "the ZeRO stages");
    if (n < 1 || n > 4) tperf_bind_fail(L, "1 to 4 ZeRO stages, got %d", (int)n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        lua_Integer stage = luaL_checkinteger(L, -1);
        if (stage < 0 || stage > 3) tperf_bind_fail(L, "there is no ZeRO stage %d", (int)stage);
        zero[i] = (int)stage;
        lua_pop(L, 1);
    }
    return n;
}

static tperf_search_options read_options(lua_State *L, int index) {
    tperf_search_options options;
    tperf_record_read(L, index, &tperf_search_record, &options);
    options.stop = tperf_interrupt_flag();
    options.software = tperf_software_none;
    return options;
}

static int new_search(lua_State *L) {
    enum { OPTIONS = 1, PIPELINES, QUESTIONS, ZERO, DP, ACCEPT, THREADS };
    lua_settop(L, THREADS);
    lua_Integer threads = luaL_checkinteger(L, THREADS);
    luaL_argcheck(L, threads >= 1 && threads <= 1024, THREADS, "1 to 1024 threads");
    tperf_search_options core = read_options(L, OPTIONS);
    size_t n_questions;
    core.pipelines = tperf_bind_check_pipelines(L, PIPELINES, &core.n_pipelines);
    const tperf_question *questions = push_questions(L, QUESTIONS, &n_questions, &core);
    box *b = lua_newuserdatauv(L, sizeof *b, 7);
    int self = lua_gettop(L);
    memset(b, 0, sizeof *b);
    luaL_setmetatable(L, type_name);
    b->pipelines = core.pipelines;
    b->all_kept = true;
    lua_newtable(L);
    lua_setiuservalue(L, self, 6);
    lua_pushvalue(L, PIPELINES);
    lua_setiuservalue(L, self, 3);
    b->heap = tperf_bind_heap(L);
    core.heap = &b->heap;
    core.n_zero = read_zero(L, ZERO, b->zero);
    core.zero = b->zero;
    core.dp = tperf_bind_push_sizes(L, DP, &core.n_dp);
    lua_setiuservalue(L, self, 4);
    b->pool = get_pool(L, (int)threads);
    lua_setiuservalue(L, self, 5);
    if (!lua_isnil(L, ACCEPT)) {
        core.accept = accept_in_lua;
        core.accept_context = b;
        lua_pushvalue(L, ACCEPT);
        lua_setiuservalue(L, self, 1);
    }
    tperf_error error;
    lua_pushvalue(L, self - 1); // the questions
    lua_setiuservalue(L, self, 7);
    b->n_questions = n_questions;
    b->search = tperf_search_new(&core, questions, n_questions, b->pool, &error);
    if (!b->search) { // retry without garbage
        lua_gc(L, LUA_GCCOLLECT);
        b->search = tperf_search_new(&core, questions, n_questions, b->pool, &error);
    }
    if (!b->search) return tperf_bind_raise(L, &error);
    lua_settop(L, self);
    return 1;
}

// fitting(workloads, micro_batches, from, own, growth) -> number, or nil and the position of a micro-batch without a
// workload. own, growth: tperf_series' fixed and growth.
static int fitting(lua_State *L) {
    enum { SEARCH = 1, WORKLOADS, MICRO_BATCHES, FROM, OWN, GROWTH };
    const box *b = check_idle(L);
    luaL_checktype(L, WORKLOADS, LUA_TTABLE);
    lua_Integer i = luaL_checkinteger(L, FROM);
    tperf_series series = {.growth = luaL_checknumber(L, GROWTH), .fixed = lua_toboolean(L, OWN)};
    luaL_argcheck(L, i >= 1, FROM, "a position is needed");
    luaL_argcheck(L, series.growth >= 0 && series.growth <= 1, GROWTH,
                  "a part from 0 to 1 is needed");
    lua_settop(L, MICRO_BATCHES);
    lua_Integer n = (lua_Integer)tperf_bind_length(L, MICRO_BATCHES, "the micro-batches");
    lua_getiuservalue(L, SEARCH, 3);
    int64_t two[2];
    series.micro_batches = two;
    for (bool fits = true; fits && i <= n; i++) {
        for (series.n = 0; series.n < 2 && i + (lua_Integer)series.n <= n; series.n++)
            two[series.n] =
                tperf_bind_check_micro_batch(L, MICRO_BATCHES, i + (lua_Integer)series.n);
        if (lua_rawgeti(L, WORKLOADS, two[0]) == LUA_TNIL) {
            lua_pushinteger(L, i);
            return 2;
        }
        const tperf_workload *workload = tperf_bind_check_workload(L, -1);
        tperf_bind_check_kinds(L, MICRO_BATCHES + 1, workload);
        lua_pop(L, 1);
        fits = tperf_search_may_fit(b->search, &series, 0, workload);
    }
    lua_pushinteger(L, i - 1);
    return 1;
}

static int new_shapes(lua_State *L) {
    check_search(L);
    lua_settop(L, 2);
    lua_getiuservalue(L, 1, 3);
    tperf_bind_check_shapes(L, 2, 3);
    lua_settop(L, 2);
    return 1;
}

enum { MOST_KEPT = 4096 }; // shapes; each takes some 30 KiB with its workload

// Keeps the n shapes at index 2 alive, to which what is found refers, unless a search has too many.
static void keep_shapes(lua_State *L, box *b, size_t n) {
    bool room = n <= MOST_KEPT - b->n_kept;
    if (b->all_kept && !room) { // let go of those so far
        lua_newtable(L);
        lua_setiuservalue(L, 1, 6);
    }
    b->all_kept = b->all_kept && room;
    if (!b->all_kept) return;
    b->n_kept += n;
    lua_getiuservalue(L, 1, 6);
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
}

static int walk(lua_State *L) {
    box *b = check_idle(L);
    if (b->answered) return tperf_bind_fail(L, "the search has been answered");
    lua_settop(L, 2);
    lua_getiuservalue(L, 1, 3);
    const tperf_bind_shapes *all = tperf_bind_check_shapes(L, 2, 3);
    lua_settop(L, 2);
    keep_shapes(L, b, all->n);
    luaL_checkstack(L, 8, NULL);
    b->L = L;
    b->self = 1;
    b->walking = true;
    tperf_error error;
    tperf_status status = tperf_search_walk(b->search, all->of, all->n, &error);
    b->walking = false;
    if (b->failed) {
        lua_getiuservalue(L, 1, 2);
        return lua_error(L);
    }
    if (status != TPERF_OK && status != TPERF_INTERRUPTED) return tperf_bind_raise(L, &error);
    lua_pushboolean(L, status == TPERF_OK);
    return 1;
}

static size_t check_question(lua_State *L, const box *b) {
    lua_Integer question = luaL_checkinteger(L, 2);
    luaL_argcheck(L, question >= 1 && (size_t)question <= b->n_questions, 2, "no such question");
    return (size_t)question - 1;
}

static int add(lua_State *L) {
    box *b = check_idle(L);
    size_t question = check_question(L, b), n_pipelines;
    if (b->answered) return tperf_bind_fail(L, "the search has been answered");
    tperf_answer part;
    tperf_error error;
    b->all_kept = false;
    lua_settop(L, 3);
    lua_getiuservalue(L, 1, 3);
    const tperf_pipeline *pipelines = tperf_bind_check_pipelines(L, 4, &n_pipelines);
    tperf_bind_check_answer(L, 3, pipelines, n_pipelines, &part);
    if (tperf_search_add(b->search, question, &part, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    return 0;
}

static int answer(lua_State *L) {
    box *b = check_idle(L);
    size_t question = check_question(L, b);
    tperf_answer found;
    tperf_error error;
    b->answered = true;
    if (tperf_search_answer(b->search, question, &found, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    lua_getiuservalue(L, 1, 3);
    lua_getiuservalue(L, 1, 6);
    tperf_bind_push_answer(L, &found, b->pipelines);
    return 1;
}

// threads([root]): the processors that this process may use; root: a folder with another machine's /proc and /sys
static int threads(lua_State *L) {
    lua_pushinteger(L, tperf_processors(luaL_optstring(L, 1, ""), (tperf_sharing){1, false}));
    return 1;
}

// clock(): seconds of a monotonic clock, for durations
static int clock_seconds(lua_State *L) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    return 1;
}

static int interrupted(lua_State *L) {
    lua_pushboolean(L, tperf_interrupt_take());
    return 1;
}

static int pending(lua_State *L) {
    lua_pushboolean(L, *tperf_interrupt_flag() != 0);
    return 1;
}

static const luaL_Reg functions[] = {
    {"new", new_search},      {"interrupted", interrupted}, {"threads", threads},
    {"clock", clock_seconds}, {"pending", pending},         {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"fitting", fitting}, {"shapes", new_shapes}, {"walk", walk},
    {"add", add},         {"answer", answer},     {NULL, NULL},
};

static void new_type(lua_State *L, const char *name, lua_CFunction close) {
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, close);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__gc");
    lua_setfield(L, -2, "__close");
}

void tperf_bind_search(lua_State *L) {
    new_type(L, pool_name, close_pool);
    lua_pop(L, 1);
    tperf_bind_new_shapes_type(L);
    tperf_bind_new_found_type(L);
    new_type(L, type_name, close_search);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
}
