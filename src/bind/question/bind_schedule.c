// bind_schedule.c: tperf.core.schedule(devices, stages, microbatches) -> a table of functions that fill an order,
// simulate it, and read the timeline. lua/tperf/describe/schedule/init.lua wraps it. The functions share one userdata,
// their first upvalue, so a call needs no lookup; the first argument of those that fill the order is the table itself
// (s:forward(…)), and is ignored.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "tperf/schedule.h"

typedef struct schedule {
    tperf_heap heap;
    tperf_order order;
    tperf_timeline timeline;
    bool simulated;
} schedule;

static schedule *self(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int collect(lua_State *L) {
    schedule *s = lua_touserdata(L, 1);
    tperf_order_release(&s->order);
    tperf_timeline_release(&s->timeline);
    s->simulated = false;
    return 0;
}

// Converts Lua's 1-based index.
static int64_t check_index(lua_State *L, int argument) {
    lua_Integer value = luaL_checkinteger(L, argument);
    return value > LUA_MININTEGER ? value - 1 : value;
}

static schedule *fillable(lua_State *L) {
    schedule *s = self(L);
    if (s->simulated) luaL_error(L, "the schedule is complete: nothing can be added to it");
    return s;
}

// A rejection returns nil and the reason; running out of memory raises.
static int refuse(lua_State *L, tperf_status status, const tperf_error *error) {
    if (status == TPERF_NO_MEMORY) return tperf_bind_raise(L, error);
    lua_pushnil(L);
    lua_pushstring(L, error->message);
    return 2;
}

static int hold(lua_State *L) {
    tperf_error error;
    schedule *s = fillable(L);
    int64_t device = check_index(L, 2), stage = check_index(L, 3);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_hold(&s->order, device, stage, &error);
    while (tperf_bind_try_again(L, status, &tried));
    return status == TPERF_OK ? 0 : tperf_bind_raise(L, &error);
}

static int add(lua_State *L, tperf_pass_kind pass) {
    tperf_error error;
    schedule *s = fillable(L);
    int64_t device = check_index(L, 2), stage = check_index(L, 3), microbatch = check_index(L, 4);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_add(&s->order, pass, device, stage, microbatch, &error);
    while (tperf_bind_try_again(L, status, &tried));
    return status == TPERF_OK ? 0 : tperf_bind_raise(L, &error);
}

static int forward(lua_State *L) {
    return add(L, TPERF_FORWARD);
}

static int backward(lua_State *L) {
    return add(L, TPERF_BACKWARD);
}

static int backward_input(lua_State *L) {
    return add(L, TPERF_BACKWARD_INPUT);
}

static int backward_weight(lua_State *L) {
    return add(L, TPERF_BACKWARD_WEIGHT);
}

static int overlapped(lua_State *L) {
    tperf_error error;
    schedule *s = fillable(L);
    int64_t at[5];
    for (int i = 0; i < 5; i++)
        at[i] = check_index(L, i + 2);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_add_pair(&s->order, at[0], (tperf_order_place){at[1], at[2]},
                                      (tperf_order_place){at[3], at[4]}, &error);
    while (tperf_bind_try_again(L, status, &tried));
    return status == TPERF_OK ? 0 : tperf_bind_raise(L, &error);
}

// A pass that is waited for: a number of an own pass, or a device and a position in its queue, each from 1 on.
static tperf_order_place_of place_of(lua_State *L, int argument) {
    if (lua_isnoneornil(L, argument + 1)) {
        int64_t own = check_index(L, argument);
        return (tperf_order_place_of){.own = own < INT32_MAX ? (int32_t)own : INT32_MAX};
    }
    int64_t device = check_index(L, argument), position = check_index(L, argument + 1);
    bool fits = device >= 0 && device < INT32_MAX && position >= 0 && position < INT32_MAX;
    return (tperf_order_place_of){.own = -1,
                                  .device = fits ? (int32_t)device : -1,
                                  .position = fits ? (int32_t)position : -1};
}

// own(device, time, busy) -> its number, from 1 on
static int own(lua_State *L) {
    tperf_error error;
    schedule *s = fillable(L);
    int64_t device = check_index(L, 1);
    double time = luaL_checknumber(L, 2);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_add_own(&s->order, device, time, lua_toboolean(L, 3), &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return tperf_bind_raise(L, &error);
    lua_pushinteger(L, s->order.n_own);
    return 1;
}

// wait(own, device, what[, position]): the own pass, or if it is nil the next pass of the device, starts after an own
// pass, or after the pass at a position of the device `what`
static int wait(lua_State *L) {
    tperf_error error;
    schedule *s = fillable(L);
    int64_t waits = lua_isnil(L, 1) ? -1 : check_index(L, 1);
    int64_t device = lua_isnil(L, 1) ? check_index(L, 2) : 0;
    tperf_order_place_of of = place_of(L, 3);
    luaL_argcheck(L, waits >= -1 && waits < INT32_MAX, 1, "no pass of its own kind");
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_wait(&s->order, (int32_t)waits, device, of, &error);
    while (tperf_bind_try_again(L, status, &tried));
    return status == TPERF_OK ? 0 : tperf_bind_raise(L, &error);
}

// length(device): passes in its queue so far
static int length(lua_State *L) {
    const schedule *s = self(L);
    int64_t device = check_index(L, 1);
    luaL_argcheck(L, device >= 0 && device < s->order.devices, 1, "no such device");
    lua_pushinteger(L, s->order.queues[device].count);
    return 1;
}

// Pushes the list of n numbers at index as an array in a userdata. false: a time that is not given.
static const double *push_list(lua_State *L, int index, int32_t n) {
    index = lua_absindex(L, index);
    luaL_checktype(L, index, LUA_TTABLE);
    double *values = lua_newuserdatauv(L, (size_t)n * sizeof *values, 0);
    for (int32_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, i + 1);
        values[i] = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : (double)NAN;
        lua_pop(L, 1);
    }
    return values;
}

// The list in field `name` of the table at index `table`, one number per stage or device; NULL if absent. Pushes one
// value.
static const double *check_list(lua_State *L, int table, const char *name, int32_t n) {
    if (tperf_bind_raw_field(L, table, name) == LUA_TNIL) return NULL;
    const double *values = push_list(L, -1, n);
    lua_replace(L, -2);
    return values;
}

static bool get_flag(lua_State *L, int table, const char *name) {
    tperf_bind_raw_field(L, table, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

// Sets field `name` of the table on top of the stack: one number of every device's summary, at this offset.
static void set_numbers(lua_State *L, const schedule *s, const char *name, size_t offset) {
    lua_createtable(L, s->order.devices, 0);
    for (int32_t d = 0; d < s->order.devices; d++) {
        lua_pushnumber(L, *(const double *)((const char *)&s->timeline.summary[d] + offset));
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, name);
}

static void set_integers(lua_State *L, const schedule *s, const char *name, size_t offset,
                         int32_t base) {
    lua_createtable(L, s->order.devices, 0);
    for (int32_t d = 0; d < s->order.devices; d++) {
        lua_pushinteger(L,
                        *(const int32_t *)((const char *)&s->timeline.summary[d] + offset) + base);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, name);
}

static void push_summary(lua_State *L, const schedule *s) {
    double longest = 0.0;
    for (int32_t d = 0; d < s->order.devices; d++) {
        const tperf_device_summary *summary = &s->timeline.summary[d];
        longest = fmax(longest, summary->last_stop - summary->first_start);
    }
    lua_createtable(L, 0, 10);
    set_numbers(L, s, "busy_time", offsetof(tperf_device_summary, busy));
    set_numbers(L, s, "last_stop", offsetof(tperf_device_summary, last_stop));
    set_numbers(L, s, "peak_memory", offsetof(tperf_device_summary, peak_memory));
    set_numbers(L, s, "fullest", offsetof(tperf_device_summary, fullest));
    set_integers(L, s, "peak_activations", offsetof(tperf_device_summary, peak_activations), 0);
    set_integers(L, s, "fullest_at", offsetof(tperf_device_summary, fullest_op), 1);
    tperf_fields_set(L, "makespan", s->timeline.makespan);
    tperf_fields_set(L, "ideal_time", s->timeline.ideal);
    tperf_fields_set(L, "longest_stage_time", longest);
    lua_pushinteger(L, s->order.count);
    lua_setfield(L, -2, "ops");
}

static const char *const pass_names[TPERF_PASS_COUNT] = {"forward", "backward", "backward_input",
                                                         "backward_weight"};

// Reads the first three arguments: times and memory, lists by stage of the pass names, and p2p.
static tperf_schedule_costs check_costs(lua_State *L, const schedule *s) {
    tperf_schedule_costs costs = {.p2p = luaL_checknumber(L, 3)};
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checkstack(L, 4 * TPERF_PASS_COUNT, NULL);
    for (int pass = 0; pass < TPERF_PASS_COUNT; pass++) {
        costs.time[pass] = check_list(L, 1, pass_names[pass], s->order.stages);
        luaL_argcheck(L, costs.time[pass], 1, "a list for every pass expected");
        costs.memory[pass] = check_list(L, 2, pass_names[pass], s->order.stages);
        luaL_argcheck(L, costs.memory[pass], 2, "a list for every pass expected");
    }
    return costs;
}

static tperf_status plan_by(schedule *s, const char *planner, const tperf_schedule_costs *costs,
                            const double *limits, tperf_error *error) {
    if (strcmp(planner, "zero_bubble") == 0)
        return tperf_order_zero_bubble(&s->order, costs, limits, error);
    if (strcmp(planner, "zbv") == 0) return tperf_order_zbv(&s->order, costs, limits, error);
    bool half = strcmp(planner, "v_half") == 0;
    return tperf_order_v_block(&s->order, half ? TPERF_V_HALF : TPERF_V_MIN, error);
}

// plan(times, memory, p2p, planner, limits) -> true, or nil and a message: fills the order with the planner
// "zero_bubble", "zbv", "v_half" or "v_min". times, memory: as for simulate; limits: of memory, by device, required
// only by the first.
static int plan(lua_State *L) {
    schedule *s = fillable(L);
    lua_settop(L, 5);
    const char *planner = luaL_checkstring(L, 4);
    tperf_schedule_costs costs = check_costs(L, s);
    const double *limits = lua_isnil(L, 5) ? NULL : push_list(L, 5, s->order.devices);
    luaL_argcheck(L, limits || strcmp(planner, "zero_bubble") != 0, 5, "a list expected");
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = plan_by(s, planner, &costs, limits, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return refuse(L, status, &error);
    lua_pushboolean(L, true);
    return 1;
}

// Reads argument 6 of simulate: { scale = { pass = list by micro-batch }, memory = list by micro-batch, speed = list by
// device, links = list by from * devices + to }, each optional.
static void read_factors(lua_State *L, const schedule *s, tperf_schedule_costs *costs) {
    luaL_checkstack(L, TPERF_PASS_COUNT + 4, NULL);
    costs->memory_scale = check_list(L, 6, "memory", s->order.microbatches);
    costs->speed = check_list(L, 6, "speed", s->order.devices);
    if (tperf_bind_raw_field(L, 6, "links") == LUA_TTABLE) {
        luaL_argcheck(L, s->order.devices < 1 << 15, 6, "too many devices for links of their own");
        costs->links = push_list(L, -1, s->order.devices * s->order.devices);
    }
    if (tperf_bind_raw_field(L, 6, "scale") != LUA_TTABLE) return;
    int scale = lua_gettop(L);
    for (int pass = 0; pass < TPERF_PASS_COUNT; pass++)
        costs->scale[pass] = check_list(L, scale, pass_names[pass], s->order.microbatches);
}

// simulate(times, memory, p2p, rules, passing, factors) -> summary, or nil and a message. times, memory and passing: lists
// by stage of the pass names. Optional: times.overlapped; times.ready, a list by device; passing; factors.
static int simulate(lua_State *L) {
    schedule *s = fillable(L);
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_settop(L, 6);
    tperf_schedule_costs costs = check_costs(L, s);
    tperf_schedule_rules rules = {
        .latency_within_device = get_flag(L, 4, "latency_within_device"),
        .latency_before_weight = get_flag(L, 4, "latency_before_weight"),
        .blocking_send = get_flag(L, 4, "blocking_send"),
        .pair_by_forward_stage = get_flag(L, 4, "pair_by_forward_stage"),
        .backward_before_forward = get_flag(L, 4, "backward_before_forward"),
        .ideal_by_whole_backward = get_flag(L, 4, "ideal_by_whole_backward"),
    };
    costs.overlapped = check_list(L, 1, "overlapped", s->order.stages);
    costs.ready = check_list(L, 1, "ready", s->order.devices);
    for (int pass = 0; pass < TPERF_PASS_COUNT && lua_istable(L, 5); pass++)
        costs.passing[pass] = check_list(L, 5, pass_names[pass], s->order.stages);
    if (lua_istable(L, 6)) read_factors(L, s, &costs);
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_timeline_init(&s->timeline, &s->order, &costs, &rules, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return refuse(L, status, &error);
    s->simulated = true;
    // The collector sees only the userdata's own bytes; report the others, in KiB.
    lua_gc(L, LUA_GCSTEP, (int)(s->order.count / 16));
    push_summary(L, s);
    return 1;
}

static const schedule *simulated(lua_State *L) {
    const schedule *s = self(L);
    if (!s->simulated) luaL_error(L, "the schedule has not been simulated");
    return s;
}

// find(pass, stage, microbatch) -> device, start, stop; nothing if there is no such op.
static int find(lua_State *L) {
    const schedule *s = simulated(L);
    lua_Integer pass = luaL_checkinteger(L, 1);
    int64_t stage = check_index(L, 2), microbatch = check_index(L, 3);
    if (stage < 0 || stage >= s->order.stages || microbatch < 0 ||
        microbatch >= s->order.microbatches)
        return 0;
    const tperf_cell *cell = &s->timeline.cells[stage * s->order.microbatches + microbatch];
    int32_t number = pass == TPERF_FORWARD           ? cell->forward
                     : pass == TPERF_BACKWARD_WEIGHT ? cell->weight
                                                     : cell->backward;
    if (number < 0) return 0;
    const tperf_order_op *op =
        &s->order.queues[cell->device].ops[number - s->timeline.first[cell->device]];
    if (op->pass != pass) return 0;
    lua_pushinteger(L, cell->device + 1);
    lua_pushnumber(L, s->timeline.start[number]);
    lua_pushnumber(L, s->timeline.stop[number]);
    return 3;
}

// at(device, position) -> pass, stage, microbatch, start, stop, pairing; nothing past the end.
static int at(lua_State *L) {
    const schedule *s = simulated(L);
    int64_t device = check_index(L, 1), position = check_index(L, 2);
    if (device < 0 || device >= s->order.devices || position < 0 ||
        position >= s->order.queues[device].count)
        return 0;
    const tperf_order_op *op = &s->order.queues[device].ops[position];
    int64_t number = s->timeline.first[device] + position;
    lua_pushinteger(L, op->pass);
    lua_pushinteger(L, op->stage + 1);
    lua_pushinteger(L, op->microbatch + 1);
    lua_pushnumber(L, s->timeline.start[number]);
    lua_pushnumber(L, s->timeline.stop[number]);
    lua_pushinteger(L, op->pairing);
    return 6;
}

// own_times(number) -> start, stop of a pass of its own kind
static int own_times(lua_State *L) {
    const schedule *s = simulated(L);
    int64_t number = check_index(L, 1);
    luaL_argcheck(L, number >= 0 && number < s->order.n_own, 1, "no such pass");
    lua_pushnumber(L, s->timeline.own_start[number]);
    lua_pushnumber(L, s->timeline.own_stop[number]);
    return 2;
}

static int new_schedule(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"hold", hold},
        {"forward", forward},
        {"backward", backward},
        {"backward_input", backward_input},
        {"backward_weight", backward_weight},
        {"overlapped", overlapped},
        {"own", own},
        {"wait", wait},
        {"length", length},
        {"own_times", own_times},
        {"plan", plan},
        {"simulate", simulate},
        {"find", find},
        {"at", at},
        {NULL, NULL},
    };
    lua_Integer devices = luaL_checkinteger(L, 1), stages = luaL_checkinteger(L, 2),
                microbatches = luaL_checkinteger(L, 3);
    luaL_newlibtable(L, functions);
    schedule *s = tperf_bind_new(L, sizeof *s, "tperf.schedule", collect);
    tperf_error error;
    s->heap = tperf_bind_heap(L);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_order_init(&s->order, &s->heap, devices, stages, microbatches, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return refuse(L, status, &error);
    luaL_setfuncs(L, functions, 1);
    return 1;
}

void tperf_bind_schedule(lua_State *L) {
    lua_pushcfunction(L, new_schedule);
}
