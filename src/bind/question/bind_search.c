// bind_search.c: tperf.core.search: the search of tperf/search.h for lua/tperf/question/search/init.lua.
//   search.new(options, rules, training, pipelines, questions, zero, dp, accept, software) -> search
//     options: see option_fields; questions: list of { system, gpus, global_batch };
//     zero: list of ZeRO stages; dp: list or nil
//     accept: function(question, found) -> boolean, or nil
//   search:shapes(list) -> shapes   read once, for searches of the same pipelines; list: of { strategy, variant, workload,
//     micro_batch, panels, fast, cannot_fit }
//   search:walk(shapes)          or such a list; false when interrupted
//   search:cannot_fit(workload, micro_batch, times)   whether neither a shape of this micro-batch nor of a larger one can
//                                  fit if it holds `times` the activations of the workload
//   search:add(question, answer) takes what search:answer gave in another process, of other shapes
//   search:answer(question)      { candidates, feasible, evaluated, found, found … }
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
#include "bind/found_args.h"
#include "bind/interrupt.h"
#include "bind/model_args.h"
#include "tperf/search.h"

static const char type_name[] = "tperf.search", pool_name[] = "tperf.pool";
static const char shapes_name[] = "tperf.shapes";
static const char pool_slot[] =
    "tperf.pool.current"; // registry keys of types hold metatables: not pool_name

// Its user values: 1 the accept function, 2 its error.
typedef struct box {
    tperf_heap heap;
    tperf_search *search;
    tperf_pool *pool;
    lua_State *L; // of the current walk
    int self;     // the box's index on that stack
    bool failed;  // accept raised an error
    bool walking, answered;
    size_t n_questions;
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
static bool accept_in_lua(void *context, size_t question, const tperf_found *found) {
    box *b = context;
    lua_State *L = b->L;
    if (b->failed || *tperf_interrupt_flag()) return false; // the walk is about to end
    proposal p = {b, question, found};
    lua_pushcfunction(L, call_accept); // walk has left room on the stack
    lua_pushlightuserdata(L, &p);
    lua_pushvalue(L, b->self);
    b->failed = lua_pcall(L, 2, 1, 0) != LUA_OK;
    bool accepted = !b->failed && lua_toboolean(L, -1);
    if (b->failed)
        lua_setiuservalue(L, b->self, 2);
    else
        lua_pop(L, 1);
    return accepted;
}

typedef struct options {
    int64_t top, threads, replicas_fast, stages_fast;
    bool keep_all, infeasible_too, no_pruning, by_least, memory_only;
} options;

static const tperf_field option_fields[] = {
    {"top", TPERF_FIELD_INTEGER, offsetof(options, top), true},
    {"threads", TPERF_FIELD_INTEGER, offsetof(options, threads), true},
    {"replicas_fast", TPERF_FIELD_INTEGER, offsetof(options, replicas_fast), false},
    {"stages_fast", TPERF_FIELD_INTEGER, offsetof(options, stages_fast), false},
    {"keep_all", TPERF_FIELD_FLAG, offsetof(options, keep_all), false},
    {"infeasible_too", TPERF_FIELD_FLAG, offsetof(options, infeasible_too), false},
    {"no_pruning", TPERF_FIELD_FLAG, offsetof(options, no_pruning), false},
    {"by_least", TPERF_FIELD_FLAG, offsetof(options, by_least), false},
    {"memory_only", TPERF_FIELD_FLAG, offsetof(options, memory_only), false},
    {0},
};

// Pushes a list of integers as a userdata array, or returns NULL and pushes nil.
static const int64_t *push_list(lua_State *L, int index, size_t *n) {
    *n = 0;
    if (lua_isnoneornil(L, index)) {
        lua_pushnil(L);
        return NULL;
    }
    size_t length = tperf_bind_push_list(L, index, "a list of sizes");
    int64_t *list = lua_newuserdatauv(L, (length + 1) * sizeof *list, 0);
    lua_insert(L, -2);
    *n = tperf_bind_check_sizes(L, -1, list, length);
    lua_pop(L, 1);
    return list;
}

static tperf_question *push_questions(lua_State *L, int index, int software_index, size_t *n,
                                      tperf_software *software) {
    *n = tperf_bind_push_list(L, index, "the questions");
    lua_replace(L, index);
    tperf_question *questions = lua_newuserdatauv(L, (*n + 1) * sizeof *questions, 0);
    for (size_t i = 0; i < *n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        luaL_checktype(L, -1, LUA_TTABLE);
        tperf_bind_raw_field(L, -1, "system");
        tperf_bind_check_system(L, lua_gettop(L), &questions[i].system);
        tperf_bind_check_software(L, software_index, software, &questions[i].system);
        tperf_bind_raw_field(L, -2, "gpus");
        questions[i].gpus = luaL_checkinteger(L, -1);
        tperf_bind_raw_field(L, -3, "global_batch");
        questions[i].global_batch = luaL_checkinteger(L, -1);
        lua_pop(L, 4);
    }
    return questions;
}

// Reads the list of ZeRO stages at index.
static size_t read_zero(lua_State *L, int index, int zero[4]) {
    luaL_checktype(L, index, LUA_TTABLE);
    size_t n = lua_rawlen(L, index);
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

// new(options, rules, training, pipelines, questions, zero, dp, accept, software)
static int new_search(lua_State *L) {
    lua_settop(L, 9);
    options given = {0};
    tperf_fields_read(L, 1, "search", option_fields, &given);
    if (given.top < 1 || given.threads < 1 || given.threads > 1024)
        return tperf_bind_fail(L, "'top' must be at least 1, 'threads' from 1 to 1024");
    tperf_search_options core = {
        .top = (size_t)given.top,
        .keep_all = given.keep_all,
        .infeasible_too = given.infeasible_too,
        .no_pruning = given.no_pruning,
        .by_least = given.by_least,
        .memory_only = given.memory_only,
        .replicas_fast = given.replicas_fast,
        .stages_fast = given.stages_fast,
        .stop = tperf_interrupt_flag(),
        .software = tperf_software_none,
    };
    tperf_bind_check_rules(L, 2, &core.rules);
    size_t n_questions;
    tperf_bind_check_training(L, 3, &core.training);
    core.pipelines = tperf_bind_check_pipelines(L, 4, &core.n_pipelines);
    const tperf_question *questions = push_questions(L, 5, 9, &n_questions, &core.software);
    box *b = lua_newuserdatauv(L, sizeof *b, 5);
    int self = lua_gettop(L);
    memset(b, 0, sizeof *b);
    luaL_setmetatable(L, type_name);
    b->pipelines = core.pipelines;
    lua_pushvalue(L, 4);
    lua_setiuservalue(L, self, 3);
    b->heap = tperf_bind_heap(L);
    core.heap = &b->heap;
    core.n_zero = read_zero(L, 6, b->zero);
    core.zero = b->zero;
    core.dp = push_list(L, 7, &core.n_dp);
    lua_setiuservalue(L, self, 4);
    b->pool = get_pool(L, (int)given.threads);
    lua_setiuservalue(L, self, 5);
    if (!lua_isnil(L, 8)) {
        core.accept = accept_in_lua;
        core.accept_context = b;
        lua_pushvalue(L, 8);
        lua_setiuservalue(L, self, 1);
    }
    tperf_error error;
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

// Reads the required placements of the workload's axes from the list on top of the stack; nil: none.
static void read_demanded(lua_State *L, tperf_shape *shape) {
    if (lua_isnil(L, -1)) return;
    if (!lua_istable(L, -1))
        tperf_bind_fail(L, "'fast' must be a list, got %s", luaL_typename(L, -1));
    for (int i = TPERF_AXIS_OWN; i < shape->workload->grid.n; i++) {
        lua_rawgeti(L, -1, i - TPERF_AXIS_OWN + 1);
        shape->fast[i] = luaL_optinteger(L, -1, 0);
        lua_pop(L, 1);
    }
}

// Appends the value on top of the stack to the list at `kept`, and pops it.
static void keep_alive(lua_State *L, int kept) {
    lua_rawseti(L, kept, (lua_Integer)lua_rawlen(L, kept) + 1);
}

static int64_t check_micro_batch(lua_State *L, int index) {
    lua_Integer micro_batch = luaL_checkinteger(L, index);
    if (micro_batch < 1) tperf_bind_fail(L, "a shape needs a micro-batch of at least 1");
    return micro_batch;
}

// Reads the panels on top of the stack, which the list at `kept` then keeps alive.
static void read_panels(lua_State *L, int kept, tperf_shape *shape) {
    static const int64_t one = 1;
    if (lua_istable(L, -1) && lua_rawlen(L, -1) == 1) { // most strategies have no panels
        lua_rawgeti(L, -1, 1);
        shape->n_panels = lua_isinteger(L, -1) && lua_tointeger(L, -1) == one;
        lua_pop(L, 1);
        shape->panels = &one;
        if (shape->n_panels) return;
    }
    shape->panels = push_list(L, -1, &shape->n_panels);
    if (shape->n_panels < 1) tperf_bind_fail(L, "a shape needs a number of panels");
    keep_alive(L, kept);
}

// Reads the shape on top of the stack. The workload and the panels that it borrows are added to the list at `kept`.
static void read_shape(lua_State *L, int kept, tperf_shape *shape) {
    int at = lua_gettop(L);
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_checkstack(L, 10, NULL);
    memset(shape, 0, sizeof *shape);
    tperf_bind_raw_field(L, at, "strategy");
    shape->strategy = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at, "variant");
    shape->variant = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at, "cannot_fit");
    shape->cannot_fit = lua_toboolean(L, -1);
    tperf_bind_raw_field(L, at, "micro_batch");
    shape->micro_batch = check_micro_batch(L, -1);
    tperf_bind_raw_field(L, at, "workload");
    shape->workload = tperf_bind_check_workload(L, -1);
    lua_getiuservalue(L, 1, 3);
    tperf_bind_check_kinds(L, -1, shape->workload);
    lua_pop(L, 1);
    keep_alive(L, kept);
    tperf_bind_raw_field(L, at, "fast");
    read_demanded(L, shape);
    tperf_bind_raw_field(L, at, "panels");
    read_panels(L, kept, shape);
    lua_settop(L, at);
}

static int cannot_fit(lua_State *L) {
    box *b = check_idle(L);
    tperf_shape shape = {.workload = tperf_bind_check_workload(L, 2),
                         .micro_batch = check_micro_batch(L, 3)};
    double times = luaL_checknumber(L, 4);
    lua_getiuservalue(L, 1, 3);
    tperf_bind_check_kinds(L, -1, shape.workload);
    lua_pushboolean(L, tperf_search_cannot_fit(b->search, &shape, times));
    return 1;
}

// Its user value: what the shapes borrow.
typedef struct shapes {
    size_t n;
    tperf_shape of[];
} shapes;

// Leaves its userdata on the stack.
static const shapes *push_shapes(lua_State *L, int index) {
    size_t n = tperf_bind_push_list(L, index, "the shapes");
    int list = lua_gettop(L);
    shapes *read = lua_newuserdatauv(L, sizeof *read + n * sizeof read->of[0], 1);
    luaL_setmetatable(L, shapes_name);
    read->n = 0;
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, list + 1, 1);
    for (; read->n < n; read->n++) {
        lua_rawgeti(L, list, (lua_Integer)read->n + 1);
        read_shape(L, list + 2, &read->of[read->n]);
        lua_pop(L, 1);
    }
    lua_settop(L, list + 1);
    return read;
}

static int new_shapes(lua_State *L) {
    check_search(L);
    lua_settop(L, 2);
    push_shapes(L, 2);
    return 1;
}

// The shapes at index 2, which another search may have read.
static const shapes *check_shapes(lua_State *L) {
    const shapes *known = luaL_testudata(L, 2, shapes_name);
    if (!known) return push_shapes(L, 2);
    lua_getiuservalue(L, 1, 3);
    for (size_t i = 0; i < known->n; i++)
        tperf_bind_check_kinds(L, -1, known->of[i].workload);
    lua_pop(L, 1);
    return known;
}

static int walk(lua_State *L) {
    box *b = check_idle(L);
    if (b->answered) return tperf_bind_fail(L, "the search has been answered");
    lua_settop(L, 2);
    const shapes *all = check_shapes(L);
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
    lua_createtable(L, found.n_found < INT_MAX ? (int)found.n_found : 0, 3);
    lua_pushinteger(L, found.candidates);
    lua_setfield(L, -2, "candidates");
    lua_pushinteger(L, found.feasible);
    lua_setfield(L, -2, "feasible");
    lua_pushinteger(L, found.evaluated);
    lua_setfield(L, -2, "evaluated");
    if (found.least) {
        tperf_bind_push_found(L, found.least, b->pipelines);
        lua_setfield(L, -2, "least");
    }
    for (size_t i = 0; i < found.n_found; i++) {
        tperf_bind_push_found(L, &found.found[i], b->pipelines);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

// threads([root]): the processors that this process may use; root: a folder with another machine's /proc and /sys
static int threads(lua_State *L) {
    lua_pushinteger(L, tperf_processors(luaL_optstring(L, 1, "")));
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
    {"cannot_fit", cannot_fit}, {"shapes", new_shapes}, {"walk", walk}, {"add", add},
    {"answer", answer},         {NULL, NULL},
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
    luaL_newmetatable(L, shapes_name);
    lua_pop(L, 1);
    new_type(L, type_name, close_search);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
}
