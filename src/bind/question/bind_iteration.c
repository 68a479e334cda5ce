// bind_iteration.c: methods of a workload: the iteration of one way to run it, see tperf/plan.h.
//   workload:iteration(system, rules, training, pipelines, run, fast, software, fields)   record, as tperf.train documents
//     it, with room for so many fields, as many as most configurations of a search have unless given
//   workload:passes(system, rules, training, pipelines, run, fast, software, stages)   what a schedule of so many stages is
//     simulated with: { forward =, backward_input =, backward_weight =, overlapped =, memory =, passing_forward =, passing_backward = lists by stage, ready =,
//     after = lists by device }
//   workload:predictor(system, rules, training, pipelines, run, fast) -> predictor
//   predictor:seconds(software)        of the iteration, as workload:iteration has it
//   workload:devices(the same)          list of what the devices of the pipeline hold, its `stages`
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/setting.h"

static const char predictor_name[] = "tperf.predictor";

// The fifth argument of workload:iteration.
typedef struct run {
    int64_t global_batch, dp, pipeline, micro_batch, panels, zero;
} run;

static const tperf_field run_fields[] = {
#define FIELD(name)                                                                                \
    { #name, TPERF_FIELD_INTEGER, offsetof(run, name), true }
    FIELD(global_batch),
    FIELD(dp),
    FIELD(pipeline),
    FIELD(micro_batch),
    FIELD(panels),
    FIELD(zero),
#undef FIELD
    {0},
};

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

// Whether the sizes avoid division by zero and overflow; the caller checks divisibility.
static bool is_sound(const run *r) {
    return r->dp >= 1 && r->micro_batch >= 1 && r->panels >= 1 && r->zero >= 0 && r->zero <= 3 &&
           r->global_batch / r->micro_batch >= r->dp && r->dp <= (int64_t)1 << 31;
}

static bool has_part(const tperf_candidate *candidate, int axis) {
    int64_t part = candidate->placement.fast[axis];
    return part <= candidate->sizes[axis] && candidate->sizes[axis] % part == 0;
}

static void read_candidate(lua_State *L, int run_index, int fast_index,
                           const tperf_workload *workload, int pipelines_index,
                           tperf_candidate *candidate, tperf_job *job) {
    run r;
    tperf_fields_read(L, run_index, "workload:iteration", run_fields, &r);
    size_t n;
    const tperf_pipeline *pipelines = tperf_bind_check_pipelines(L, pipelines_index, &n);
    if (r.pipeline < 1 || (size_t)r.pipeline > n) tperf_bind_fail(L, "no such pipeline");
    candidate->pipeline = &pipelines[r.pipeline - 1];
    if (!is_sound(&r)) tperf_bind_fail(L, "sizes must be at least 1 and lie in what they divide");
    tperf_bind_check_kinds(L, pipelines_index, workload);
    candidate->placement.panels = r.panels;
    tperf_bind_check_placement(L, fast_index, workload, &candidate->placement);
    memcpy(candidate->sizes, workload->sizes, sizeof candidate->sizes);
    candidate->sizes[TPERF_AXIS_REPLICAS] = r.dp;
    candidate->sizes[TPERF_AXIS_STAGES] = candidate->pipeline->pp;
    candidate->micro_batch = r.micro_batch;
    candidate->zero = (int)r.zero;
    int64_t own = tperf_grid_own_gpus(&workload->grid, workload->sizes, (int64_t)1 << 31);
    if (!own || own > ((int64_t)1 << 31) / r.dp || !has_part(candidate, TPERF_AXIS_REPLICAS) ||
        !has_part(candidate, TPERF_AXIS_STAGES) ||
        !tperf_grid_folds(&workload->grid, candidate->sizes))
        tperf_bind_fail(L, "sizes must be at least 1 and lie in what they divide");
    int64_t ways = r.dp * tperf_grid_own_batch(&workload->grid, workload->sizes);
    if (r.global_batch / r.micro_batch < ways)
        tperf_bind_fail(L, "a batch of %I is too small for %I replicas",
                        (LUAI_UACINT)r.global_batch, (LUAI_UACINT)ways);
    candidate->microbatches = r.global_batch / ways / r.micro_batch;
    job->global_batch = r.global_batch;
}

// The caller has checked that the run's sizes divide.
const tperf_workload *tperf_bind_read_setting(lua_State *L, tperf_setting *s) {
    const tperf_workload *workload = tperf_bind_check_workload(L, 1);
    memset(s, 0, sizeof *s);
    s->job = (tperf_job){{&s->system, &s->rules, &s->software, NULL}, &s->training, 0};
    tperf_bind_check_system(L, 2, &s->system);
    tperf_bind_check_software(L, 8, &s->software, &s->system);
    tperf_bind_check_rules(L, 3, &s->rules);
    tperf_bind_check_training(L, 4, &s->training);
    read_candidate(L, 6, 7, workload, 5, &s->candidate, &s->job);
    return workload;
}

// Layer costs of a workload on a platform and placement, cached for the last two requests, with and without software.
// Configurations that differ only in replicas, stages or batch share them.
typedef struct priced {
    bool known;
    tperf_system system;
    tperf_rules rules;
    tperf_software software;
    tperf_placement placement;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
} priced;

// The cache of the workload at index 1, which owns it.
static priced *priced_of(lua_State *L) {
    if (lua_getiuservalue(L, 1, 1) != LUA_TUSERDATA) {
        lua_pop(L, 1);
        memset(lua_newuserdatauv(L, 2 * sizeof(priced), 0), 0, 2 * sizeof(priced));
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, 1, 1);
    }
    priced *all = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return all;
}

static bool is_priced(const priced *p, const tperf_setting *s, const tperf_placement *placement) {
    return p->known && memcmp(&p->system, s->job.on.system, sizeof p->system) == 0 &&
           memcmp(&p->rules, s->job.on.rules, sizeof p->rules) == 0 &&
           memcmp(&p->software, s->job.on.software, sizeof p->software) == 0 &&
           memcmp(&p->placement, placement, sizeof p->placement) == 0;
}

// Raises unless the system has every peak that the workload's ops need.
static tperf_iteration iteration_of(lua_State *L, const tperf_workload *workload,
                                    const tperf_setting *s, tperf_layer_cost *costs) {
    const tperf_placement *placement = &s->candidate.placement;
    priced *p = priced_of(L) + (s->job.on.software == &tperf_software_none);
    if (!is_priced(p, s, placement)) {
        tperf_error error;
        p->known = false;
        if (tperf_workload_check_system(workload, &s->system, &error) != TPERF_OK)
            tperf_bind_raise(L, &error);
        tperf_workload_time(workload, &s->job.on, placement, NULL, p->costs);
        p->system = *s->job.on.system;
        p->rules = *s->job.on.rules;
        p->software = *s->job.on.software;
        p->placement = *placement;
        p->known = true;
    }
    memcpy(costs, p->costs, (size_t)(workload->n_kinds + 2) * sizeof *costs);
    return tperf_iteration_of(&s->candidate, &s->job, workload, costs);
}

// Seconds of an iteration by the formulas only, at the clock of kernels timed in isolation; at most the iteration's: a
// stack that was fitted to be faster than these wastes nothing.
static double time_without_waste(lua_State *L, const tperf_workload *workload,
                                 const tperf_setting *s, double time) {
    tperf_setting bare = *s;
    bare.job.on = (tperf_platform){&bare.system, &bare.rules, &tperf_software_none, NULL};
    bare.job.training = &bare.training;
    tperf_bind_check_system(L, 2, &bare.system);
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    return fmin(iteration_of(L, workload, &bare, costs).time, time);
}

// Of a configuration: more than a table of 32 holds, as much as one of 64 does.
enum { USUAL_FIELDS = 64, MOST_FIELDS = 4096 };

static int workload_iteration(lua_State *L) {
    tperf_setting s;
    const tperf_workload *workload = tperf_bind_read_setting(L, &s);
    lua_Integer fields = luaL_optinteger(L, 9, USUAL_FIELDS);
    luaL_argcheck(L, fields >= 0 && fields <= MOST_FIELDS, 9, "no number of fields");
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_iteration iteration = iteration_of(L, workload, &s, costs);
    tperf_memory memory = tperf_memory_of(&s.candidate, &s.job, workload, costs);
    lua_createtable(L, 0, (int)fields);
    tperf_fields_set(L, "time", iteration.time);
    tperf_fields_set(L, "time_without_waste",
                     lua_isnoneornil(L, 8) ? iteration.time
                                           : time_without_waste(L, workload, &s, iteration.time));
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

static int workload_passes(lua_State *L) {
    tperf_setting s;
    const tperf_workload *workload = tperf_bind_read_setting(L, &s);
    int64_t n = luaL_checkinteger(L, 9), pp = s.candidate.pipeline->pp, layers = 0;
    size_t n_runs;
    bool has_ends;
    const tperf_run *runs = tperf_bind_pipeline_runs(L, 5, &n_runs, &has_ends);
    for (size_t i = 0; i < n_runs; i++)
        layers += runs[i].layers;
    luaL_argcheck(L, n >= 1 && n <= layers + (has_ends && n > 2 ? 2 : 0), 9,
                  "no stage may be without layers");
    tperf_stage *chunks = lua_newuserdatauv(L, (size_t)n * sizeof *chunks, 0);
    tperf_chunk_passes *passes = lua_newuserdatauv(L, (size_t)n * sizeof *passes, 0);
    tperf_device_waits *waits = lua_newuserdatauv(L, (size_t)pp * sizeof *waits, 0);
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_pipeline_chunks(s.candidate.pipeline, runs, n_runs, has_ends, n, chunks);
    tperf_workload_time(workload, &s.job.on, &s.candidate.placement, NULL, costs);
    double way;
    tperf_passes_of(&s.candidate, &s.job, workload, costs, chunks, n, passes, waits, &way);
    push_passes(L, passes, n, waits, pp, way);
    return 1;
}

// An iteration without its software. Its user value keeps the workload and the pipelines alive.
typedef struct predictor {
    tperf_setting setting;
    const tperf_workload *workload;
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX];
    tperf_op_work works[];
} predictor;

// The last argument: which FlashAttention fused attention is (tperf_software), which decides works.
static int new_predictor(lua_State *L) {
    int64_t flash = luaL_optinteger(L, 8, 0);
    lua_settop(L, 7);
    lua_pushnil(L); // software's place in tperf_bind_read_setting
    const tperf_workload *workload = tperf_bind_check_workload(L, 1);
    predictor *p = lua_newuserdatauv(L, sizeof *p + workload->n_ops * sizeof p->works[0], 1);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, 5);
    lua_rawseti(L, -2, 2);
    lua_setiuservalue(L, -2, 1);
    p->workload = tperf_bind_read_setting(L, &p->setting);
    tperf_error error;
    if (tperf_workload_check_system(workload, &p->setting.system, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    tperf_system_sustain(&p->setting.system);
    tperf_system_flash(&p->setting.system, flash);
    tperf_workload_work(workload, &p->setting.job.on, p->setting.candidate.placement.panels,
                        p->works);
    tperf_workload_bytes(workload, p->bytes);
    luaL_setmetatable(L, predictor_name);
    return 1;
}

static int predictor_seconds(lua_State *L) {
    predictor *p = luaL_checkudata(L, 1, predictor_name);
    tperf_setting *s = &p->setting;
    luaL_checktype(L, 2, LUA_TTABLE);
    tperf_bind_check_software(L, 2, &s->software, &s->system);
    s->software.gradient_bytes = s->training.gradient_bytes;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    memcpy(costs, p->bytes, (size_t)(p->workload->n_kinds + 2) * sizeof *costs);
    tperf_workload_add_times(p->workload, &s->job.on, &s->candidate.placement, p->works, costs);
    lua_pushnumber(L, tperf_iteration_of(&s->candidate, &s->job, p->workload, costs).time);
    return 1;
}

static int workload_devices(lua_State *L) {
    tperf_setting s;
    const tperf_workload *workload = tperf_bind_read_setting(L, &s);
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_workload_bytes(workload, costs);
    const tperf_pipeline *pipeline = s.candidate.pipeline;
    tperf_memory *memory = lua_newuserdatauv(L, pipeline->n_devices * sizeof *memory, 0);
    tperf_memory_of_devices(&s.candidate, &s.job, workload, costs, memory);
    lua_createtable(L, (int)pipeline->n_devices, 0);
    for (size_t i = 0; i < pipeline->n_devices; i++) {
        push_device(L, &pipeline->devices[i], workload->n_kinds, &memory[i]);
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

static const luaL_Reg methods[] = {
    {"iteration", workload_iteration},
    {"passes", workload_passes},
    {"predictor", new_predictor},
    {"devices", workload_devices},
    {NULL, NULL},
};

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

void tperf_bind_iteration(lua_State *L) {
    static const luaL_Reg predictor_methods[] = {{"seconds", predictor_seconds}, {NULL, NULL}};
    luaL_newmetatable(L, predictor_name);
    luaL_newlib(L, predictor_methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_setfuncs(L, methods, 0);
    tperf_bind_step(L);
    tperf_bind_audit(L);
    tperf_bind_place(L);
}
