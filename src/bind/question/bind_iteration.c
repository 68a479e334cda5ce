// bind_iteration.c: methods of a candidate (candidate.h): its time and memory by closed forms, see tperf/plan.h.
//   candidate:passes(stages)   { forward =, backward_input =, backward_weight =, overlapped =, memory =,
//     passing_forward =, passing_backward = lists by stage, ready =, after = lists by device, way = }
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"

static const char predictor_name[] = "tperf.predictor";

static void push_memory(lua_State *L, const tperf_memory *m) {
    lua_createtable(L, 0, 7);
#define PART(name, held) tperf_fields_set(L, #name, m->name);
    TPERF_MEMORY_PARTS(PART)
#undef PART
    tperf_fields_set(L, "total", m->total);
}

static void push_breakdown(lua_State *L, const tperf_iteration *t) {
    lua_createtable(L, 0, 9);
#define PART(name, always)                                                                         \
    if (always || t->name > 0) tperf_fields_set(L, #name, t->name);
    TPERF_TIME_PARTS(PART)
#undef PART
}

static void push_device(lua_State *L, const tperf_stage *device, int n_kinds,
                        const tperf_memory *memory) {
    int64_t layers = 0;
    lua_createtable(L, 0, 7);
    lua_createtable(L, n_kinds, 0);
    for (int kind = 0; kind < n_kinds; kind++) {
        layers += device->layers[kind];
        lua_pushinteger(L, device->layers[kind]);
        lua_rawseti(L, -2, kind + 1);
    }
    lua_setfield(L, -2, "kinds");
    lua_pushinteger(L, layers);
    lua_setfield(L, -2, "layers");
    lua_pushinteger(L, device->repeats);
    lua_setfield(L, -2, "repeats");
    tperf_fields_set(L, "in_flight", device->in_flight);
    lua_pushboolean(L, device->first);
    lua_setfield(L, -2, "first");
    lua_pushboolean(L, device->last);
    lua_setfield(L, -2, "last");
    push_memory(L, memory);
    lua_setfield(L, -2, "memory");
}

// Seconds of an iteration by the formulas only, at the clock of kernels timed in isolation; at most the iteration's: a
// stack that was fitted to be faster than these wastes nothing.
static double time_without_waste(lua_State *L, const tperf_bind_candidate *c, double time) {
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_job bare = c->job;
    bare.on =
        (tperf_platform){&c->of->on->described, &c->of->on->rules, &tperf_software_none, NULL};
    tperf_bind_costs(L, c, &bare.on, costs);
    const tperf_plan plan = {&c->candidate, &bare, c->workload, costs};
    return fmin(tperf_iteration_of(&plan).time, time);
}

// Of a configuration: more than a table of 32 holds, as much as one of 64 does.
enum { USUAL_FIELDS = 64, MOST_FIELDS = 4096 };

int tperf_bind_candidate_time(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    lua_Integer fields = luaL_optinteger(L, 2, USUAL_FIELDS);
    luaL_argcheck(L, fields >= 0 && fields <= MOST_FIELDS, 2, "no number of fields");
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    const tperf_plan plan = tperf_bind_plan(L, costs);
    tperf_iteration iteration = tperf_iteration_of(&plan);
    tperf_memory memory = tperf_memory_of(&plan);
    lua_createtable(L, 0, (int)fields);
    tperf_fields_set(L, "time", iteration.time);
    tperf_fields_set(L, "time_without_waste",
                     c->of->on->has_software ? time_without_waste(L, c, iteration.time)
                                             : iteration.time);
    tperf_fields_set(L, "flops_per_gpu", iteration.flops);
    push_breakdown(L, &iteration);
    lua_setfield(L, -2, "breakdown");
    push_memory(L, &memory);
    lua_setfield(L, -2, "memory");
    if (memory.host > 0) tperf_fields_set(L, "host_memory", memory.host);
    return 1;
}

// Sets item i of the table's list `name`.
static void set_item(lua_State *L, const char *name, int64_t i, double value) {
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, name);
    }
    lua_pushnumber(L, value);
    lua_rawseti(L, -2, i);
    lua_pop(L, 1);
}

static void push_passes(lua_State *L, const tperf_chunk_passes *passes, int64_t n,
                        const tperf_device_waits *waits, int64_t pp, double way) {
    lua_createtable(L, 0, 10);
    tperf_fields_set(L, "way", way);
    for (int64_t i = 0; i < n; i++) {
        const tperf_stage_time *t = &passes[i].time;
        set_item(L, "forward", i + 1, t->forward);
        set_item(L, "backward", i + 1, t->backward);
        set_item(L, "backward_input", i + 1, t->input);
        set_item(L, "backward_weight", i + 1, t->weight);
        set_item(L, "overlapped", i + 1, t->pair);
        set_item(L, "memory", i + 1, passes[i].memory.saved);
        set_item(L, "passing_forward", i + 1, passes[i].memory.forward);
        set_item(L, "passing_backward", i + 1, passes[i].memory.backward);
    }
    for (int64_t i = 0; i < pp; i++) {
        set_item(L, "ready", i + 1, waits[i].before);
        set_item(L, "after", i + 1, waits[i].after);
    }
}

int tperf_bind_candidate_passes(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    const tperf_pipeline *pipeline = c->candidate.pipeline;
    int64_t n = luaL_checkinteger(L, 2), pp = pipeline->pp;
    const tperf_model_layers *layers =
        tperf_bind_pipeline_layers(L, tperf_bind_push_pipelines(L, 1));
    luaL_argcheck(L, tperf_may_split(layers, n), 2, "no stage may be without layers");
    tperf_stage *chunks = lua_newuserdatauv(L, (size_t)n * sizeof *chunks, 0);
    tperf_chunk_passes *passes = lua_newuserdatauv(L, (size_t)n * sizeof *passes, 0);
    tperf_device_waits *waits = lua_newuserdatauv(L, (size_t)pp * sizeof *waits, 0);
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_pipeline_chunks(pipeline, layers, n, chunks);
    const tperf_plan plan = tperf_bind_plan(L, costs);
    double way;
    tperf_passes_of(&plan, chunks, n, passes, waits, &way);
    push_passes(L, passes, n, waits, pp, way);
    return 1;
}

// A candidate's time as a function of its software. Its user value keeps the candidate alive.
typedef struct predictor {
    const tperf_bind_candidate *of;
    tperf_system system;
    tperf_software software;
    tperf_job job; // points to the fields above
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX];
    tperf_op_work works[];
} predictor;

// What the ops of a candidate do depends on the software's attention alone.
int tperf_bind_candidate_predictor(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    const tperf_workload *workload = c->workload;
    lua_settop(L, 1);
    predictor *p = lua_newuserdatauv(L, sizeof *p + workload->n_ops * sizeof p->works[0], 1);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    p->of = c;
    p->system = c->of->on->described;
    p->software = tperf_software_none;
    p->software.flash = c->of->on->software.flash;
    p->job = c->job;
    p->job.on = (tperf_platform){&p->system, &c->of->on->rules, &p->software, NULL};
    tperf_error error;
    if (tperf_workload_check_system(workload, &p->system, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    tperf_system_run(&p->system, &p->software);
    tperf_workload_work(workload, &p->job.on, c->candidate.placement.panels, p->works);
    tperf_workload_bytes(workload, p->bytes);
    luaL_setmetatable(L, predictor_name);
    return 1;
}

static int predictor_seconds(lua_State *L) {
    predictor *p = luaL_checkudata(L, 1, predictor_name);
    const tperf_bind_candidate *c = p->of;
    tperf_bind_check_software(L, 2, &p->software);
    tperf_system_run(&p->system, &p->software);
    p->software.gradient_bytes = c->of->training.gradient_bytes;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    memcpy(costs, p->bytes, (size_t)(c->workload->n_sections) * sizeof *costs);
    tperf_workload_add_times(c->workload, &p->job.on, &c->candidate.placement, p->works, costs);
    const tperf_plan plan = {&c->candidate, &p->job, c->workload, costs};
    lua_pushnumber(L, tperf_iteration_of(&plan).time);
    return 1;
}

int tperf_bind_candidate_stages(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_workload_bytes(c->workload, costs);
    const tperf_pipeline *pipeline = c->candidate.pipeline;
    tperf_memory *memory = lua_newuserdatauv(L, pipeline->n_devices * sizeof *memory, 0);
    const tperf_plan plan = {&c->candidate, &c->job, c->workload, costs};
    tperf_memory_of_devices(&plan, memory);
    lua_createtable(L, (int)pipeline->n_devices, 0);
    int64_t first = 1;
    for (size_t i = 0; i < pipeline->n_devices; i++) {
        push_device(L, &pipeline->devices[i], c->workload->n_kinds, &memory[i]);
        lua_pushinteger(L, first);
        lua_setfield(L, -2, "device");
        first += pipeline->devices[i].repeats;
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

// Appends { name, held } to the list on top of the stack.
static void push_part(lua_State *L, const char *name, bool held) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, held);
    lua_setfield(L, -2, "held");
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
}

void tperf_bind_memory_parts(lua_State *L) {
    lua_newtable(L);
#define PART(name, held) push_part(L, #name, held);
    TPERF_MEMORY_PARTS(PART)
#undef PART
}

void tperf_bind_time_parts(lua_State *L) {
    lua_newtable(L);
#define PART(name, always)                                                                         \
    lua_pushliteral(L, #name);                                                                     \
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
    TPERF_TIME_PARTS(PART)
    PART(straggling, false) // which lua/tperf/question/configuration.lua adds
#undef PART
}

void tperf_bind_predictors(lua_State *L) {
    static const luaL_Reg methods[] = {{"seconds", predictor_seconds}, {NULL, NULL}};
    luaL_newmetatable(L, predictor_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
