// bind_network.c: tperf.core.network: the ops of a model for one shape.
//   network(axes, sizes, gradient_axes, expert_axis, boundary_bytes, sections) -> network
//     axes: list of names; sizes: list of integers; gradient_axes: bit mask; expert_axis: its place, 0: none;
//     sections: list of lists of blocks { name =, op, op … }: each kind of layer, then first, then last
//   network:ops(section, system, rules, fast, panels, serves, software)   list of records, as tperf.layer documents them
//   #network   how many ops it has
//   network:iteration(system, rules, training, pipelines, run, fast, software)   record, as tperf.train documents it
//   network:passes(system, rules, training, pipelines, run, fast, software, stages)   what a schedule of so many stages is
//     simulated with: { forward =, backward_input =, backward_weight =, overlapped =, memory = lists by stage, ready =,
//     after = lists by device }
//   network:predictor(system, rules, training, pipelines, run, fast) -> predictor
//   predictor:seconds(software)        of the iteration, as network:iteration has it
//   network:devices(the same)          list of what the devices of the pipeline hold, its `stages`
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.network", predictor_name[] = "tperf.predictor";

const tp_network *tp_bind_check_network(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

// Pushes a copy of the block on the top of the stack: its ops and its name; how many ops.
static size_t copy_block(lua_State *L) {
    int block = lua_gettop(L);
    size_t n = tp_bind_push_list(L, block, "a block");
    if (tp_bind_raw_field(L, block, "name") != LUA_TSTRING)
        tp_bind_fail(L, "a block lacks its name");
    lua_setfield(L, -2, "name");
    return n;
}

// Pushes a copy of the list of sections, down to the ops: what is counted is what is joined. How many ops.
static size_t copy_sections(lua_State *L, int index) {
    size_t count = 0, n = tp_bind_push_list(L, index, "the sections");
    int sections = lua_gettop(L);
    for (size_t s = 1; s <= n; s++) {
        lua_rawgeti(L, sections, (lua_Integer)s);
        size_t blocks = tp_bind_push_list(L, -1, "a section");
        for (size_t b = 1; b <= blocks; b++) {
            lua_rawgeti(L, -1, (lua_Integer)b);
            count += copy_block(L);
            lua_rawseti(L, -3, (lua_Integer)b);
            lua_pop(L, 1);
        }
        lua_rawseti(L, sections, (lua_Integer)s);
        lua_pop(L, 1);
    }
    return count;
}

// Joins the ops of the copied block at the top of the stack.
static void join_block(lua_State *L, tp_network *network) {
    int block = lua_gettop(L);
    lua_getfield(L, block, "name");
    const char *name = lua_tostring(L, -1);
    if (strlen(name) >= TP_NAME_MAX)
        tp_bind_fail(L, "the block name '%s' is longer than %d bytes", name, TP_NAME_MAX - 1);
    for (size_t i = 1; i <= lua_rawlen(L, block); i++) {
        lua_rawgeti(L, block, (lua_Integer)i);
        tp_error error;
        if (tp_network_join(network, tp_bind_check_op(L, -1), &error) != TP_OK)
            tp_bind_raise(L, &error);
        strcpy(network->ops[network->n_ops - 1].block, name);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void join_sections(lua_State *L, int sections, tp_network *network) {
    size_t n = lua_rawlen(L, sections);
    if (n < 3 || n > TP_SECTIONS_MAX)
        tp_bind_fail(L, "a model needs 1 to %d kinds of layers, got %d", TP_KINDS_MAX, (int)n - 2);
    network->n_kinds = (int)n - 2;
    for (size_t s = 1; s <= n; s++) {
        lua_rawgeti(L, sections, (lua_Integer)s);
        for (size_t b = 1; b <= lua_rawlen(L, -1); b++) {
            lua_rawgeti(L, -1, (lua_Integer)b);
            join_block(L, network);
            lua_pop(L, 1);
        }
        network->section_end[s - 1] = network->n_ops;
        lua_pop(L, 1);
    }
}

static void read_axes(lua_State *L, int names, int sizes, tp_network *network) {
    size_t n = tp_bind_check_sizes(L, sizes, network->sizes, TP_AXES_MAX);
    network->n_axes = (int)n;
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, names, (lua_Integer)i + 1);
        const char *name = luaL_checkstring(L, -1);
        if (strlen(name) >= TP_AXIS_NAME_MAX)
            tp_bind_fail(L, "the axis name '%s' is longer than %d bytes", name,
                         TP_AXIS_NAME_MAX - 1);
        strcpy(network->axes[i], name);
        lua_pop(L, 1);
    }
}

static int new_network(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 6);
    size_t n_ops = copy_sections(L, 6);
    tp_network *network = lua_newuserdatauv(L, sizeof *network + n_ops * sizeof network->ops[0], 0);
    memset(network, 0, sizeof *network);
    network->capacity = n_ops;
    luaL_setmetatable(L, type_name);
    read_axes(L, 1, 2, network);
    network->gradient_axes = (unsigned)luaL_checkinteger(L, 3);
    lua_Integer experts = luaL_checkinteger(L, 4);
    luaL_argcheck(L, experts >= 0 && experts <= network->n_axes, 4, "no such axis");
    network->expert_axis = (int)experts - 1;
    network->boundary_bytes = luaL_checknumber(L, 5);
    join_sections(L, 7, network);
    return 1;
}

static void push_pass(lua_State *L, const tp_network *network, const tp_op *op, const tp_pass *pass,
                      const tp_pass_cost *cost, const tp_placement *placement,
                      const tp_system *system) {
    lua_createtable(L, 0, 9);
    tp_fields_set(L, "tensor_flops", pass->tensor_flops);
    tp_fields_set(L, "vector_flops", pass->vector_flops);
    tp_fields_set(L, "equivalent_flops", tp_pass_equivalent_flops(op, pass, system));
    double panels = op->panels ? (double)placement->panels : 1;
    tp_fields_set(L, "bytes", pass->bytes + panels * pass->bytes_per_panel);
    tp_fields_set(L, "time", cost->time);
    tp_fields_set(L, "compute_time", cost->compute);
    tp_fields_set(L, "exposed_memory_time", cost->exposed_memory);
    tp_fields_set(L, "comm_time", cost->comm);
    lua_createtable(L, pass->n_comms, 0);
    for (int i = 0; i < pass->n_comms; i++) {
        const tp_comm *comm = &pass->comms[i];
        lua_createtable(L, 0, 5);
        lua_pushstring(L, tp_collective_names[comm->kind]);
        lua_setfield(L, -2, "kind");
        lua_pushstring(L, comm->axis);
        lua_setfield(L, -2, "axis");
        tp_fields_set(L, "bytes", comm->bytes);
        lua_pushinteger(L, network->sizes[comm->axis_index]);
        lua_setfield(L, -2, "gpus");
        lua_pushinteger(L, placement->fast[comm->axis_index]);
        lua_setfield(L, -2, "fast");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "comms");
}

static void push_op(lua_State *L, const tp_network *network, const tp_op *op,
                    const tp_op_cost *cost, const tp_placement *placement,
                    const tp_system *system) {
    lua_createtable(L, 0, 8);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, op->block);
    lua_setfield(L, -2, "block");
    tp_fields_set(L, "weight_bytes", op->weight_bytes);
    tp_fields_set(L, "weight_grad_bytes", op->weight_bytes);
    tp_fields_set(L, "saved_bytes", op->saved_bytes);
    push_pass(L, network, op, &op->forward, &cost->forward, placement, system);
    lua_setfield(L, -2, "forward");
    push_pass(L, network, op, &op->backward, &cost->backward, placement, system);
    lua_setfield(L, -2, "backward");
}

static int network_ops(lua_State *L) {
    const tp_network *network = tp_bind_check_network(L, 1);
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 1 && number <= network->n_kinds + 2, 2, "no such section");
    int section = (int)number - 1;
    tp_system system;
    tp_rules rules;
    tp_software software;
    tp_placement placement = {.panels = luaL_checkinteger(L, 6)};
    tp_bind_check_system(L, 3, &system);
    system.serves = lua_toboolean(L, 7);
    tp_bind_check_rules(L, 4, &rules);
    tp_bind_check_software(L, 8, &software, &system);
    tp_platform on = {&system, &rules, &software};
    tp_bind_check_placement(L, 5, network, &placement);
    tp_error error;
    if (tp_network_check_system(network, &system, &error) != TP_OK) return tp_bind_raise(L, &error);
    size_t begin = tp_section_begin(network, section);
    lua_newtable(L);
    for (size_t i = begin; i < network->section_end[section]; i++) {
        const tp_op *op = &network->ops[i];
        tp_op_work work = tp_op_work_of(op, &on, placement.panels);
        tp_op_cost cost = tp_op_cost_of(op, &work, &on, network->sizes, &placement);
        push_op(L, network, op, &cost, &placement, &system);
        lua_rawseti(L, -2, (lua_Integer)(i - begin) + 1);
    }
    return 1;
}

// The fifth argument of network:iteration.
typedef struct run {
    int64_t global_batch, dp, pipeline, micro_batch, panels, zero, dp_fast, pp_fast;
} run;

static const tp_field run_fields[] = {
#define FIELD(name)                                                                                \
    { #name, TP_FIELD_INTEGER, offsetof(run, name), true }
    FIELD(global_batch),
    FIELD(dp),
    FIELD(pipeline),
    FIELD(micro_batch),
    FIELD(panels),
    FIELD(zero),
    FIELD(dp_fast),
    FIELD(pp_fast),
#undef FIELD
    {0},
};

static void push_memory(lua_State *L, const tp_memory *m) {
    lua_createtable(L, 0, 7);
    tp_fields_set(L, "weights", m->weights);
    tp_fields_set(L, "gradients", m->gradients);
    tp_fields_set(L, "optimizer", m->optimizer);
    tp_fields_set(L, "activations", m->activations);
    tp_fields_set(L, "passing", m->passing);
    tp_fields_set(L, "buffers", m->buffers);
    tp_fields_set(L, "total", m->total);
}

static void push_breakdown(lua_State *L, const tp_iteration *t) {
    lua_createtable(L, 0, 6);
    tp_fields_set(L, "compute", t->compute);
    tp_fields_set(L, "memory", t->memory);
    tp_fields_set(L, "tensor_comm", t->tensor_comm);
    tp_fields_set(L, "data_comm", t->data_comm);
    tp_fields_set(L, "pipeline_comm", t->pipeline_comm);
    tp_fields_set(L, "bubble", t->bubble);
    tp_fields_set(L, "host", t->host);
    tp_fields_set(L, "optimizer", t->optimizer);
}

static void push_device(lua_State *L, const tp_stage *device, int n_kinds,
                        const tp_memory *memory) {
    int64_t layers = 0;
    for (int kind = 0; kind < n_kinds; kind++)
        layers += device->layers[kind];
    lua_createtable(L, 0, 6);
    lua_pushinteger(L, layers);
    lua_setfield(L, -2, "layers");
    lua_pushinteger(L, device->repeats);
    lua_setfield(L, -2, "repeats");
    tp_fields_set(L, "in_flight", device->in_flight);
    lua_pushboolean(L, device->first);
    lua_setfield(L, -2, "first");
    lua_pushboolean(L, device->last);
    lua_setfield(L, -2, "last");
    push_memory(L, memory);
    lua_setfield(L, -2, "memory");
}

// Whether sizes are such that nothing divides by zero or overflows; that they divide what they must is the caller's.
static bool is_sound(const run *r, const tp_pipeline *pipeline) {
    return r->dp >= 1 && r->micro_batch >= 1 && r->panels >= 1 && r->dp_fast >= 1 &&
           r->dp_fast <= r->dp && r->pp_fast >= 1 && r->pp_fast <= pipeline->pp && r->zero >= 0 &&
           r->zero <= 3 && r->global_batch / r->micro_batch >= r->dp;
}

static void read_candidate(lua_State *L, int run_index, int fast_index, const tp_network *network,
                           int pipelines_index, tp_candidate *candidate, tp_job *job) {
    run r;
    tp_fields_read(L, run_index, "network:iteration", run_fields, &r);
    size_t n;
    const tp_pipeline *pipelines = tp_bind_check_pipelines(L, pipelines_index, &n);
    if (r.pipeline < 1 || (size_t)r.pipeline > n) tp_bind_fail(L, "no such pipeline");
    candidate->pipeline = &pipelines[r.pipeline - 1];
    if (!is_sound(&r, candidate->pipeline))
        tp_bind_fail(L, "sizes must be at least 1 and lie in what they divide");
    tp_bind_check_kinds(L, pipelines_index, network);
    candidate->placement.panels = r.panels;
    tp_bind_check_placement(L, fast_index, network, &candidate->placement);
    candidate->dp = r.dp;
    candidate->micro_batch = r.micro_batch;
    candidate->microbatches = r.global_batch / r.dp / r.micro_batch;
    candidate->zero = (int)r.zero;
    candidate->dp_fast = r.dp_fast;
    candidate->pp_fast = r.pp_fast;
    memcpy(candidate->sizes, network->sizes, sizeof candidate->sizes);
    job->global_batch = r.global_batch;
}

// What network:iteration and network:devices are asked about.
typedef struct setting {
    tp_system system;
    tp_rules rules;
    tp_software software;
    tp_training training;
    tp_candidate candidate;
    tp_job job;
} setting;

// The caller has checked that the run's sizes divide what they must.
static const tp_network *read_setting(lua_State *L, setting *s) {
    const tp_network *network = tp_bind_check_network(L, 1);
    memset(s, 0, sizeof *s);
    s->job = (tp_job){{&s->system, &s->rules, &s->software}, &s->training, 0};
    tp_bind_check_system(L, 2, &s->system);
    tp_bind_check_software(L, 8, &s->software, &s->system);
    tp_bind_check_rules(L, 3, &s->rules);
    tp_bind_check_training(L, 4, &s->training);
    read_candidate(L, 6, 7, network, 5, &s->candidate, &s->job);
    return network;
}

static int network_iteration(lua_State *L) {
    setting s;
    const tp_network *network = read_setting(L, &s);
    tp_error error;
    if (tp_network_check_system(network, &s.system, &error) != TP_OK)
        return tp_bind_raise(L, &error);
    tp_layer_cost costs[TP_SECTIONS_MAX];
    tp_network_time(network, &s.job.on, &s.candidate.placement, NULL, costs);
    tp_iteration iteration = tp_iteration_of(&s.candidate, &s.job, network, costs);
    tp_memory memory = tp_memory_of(&s.candidate, &s.job, network, costs);
    lua_createtable(L, 0, 24);
    tp_fields_set(L, "time", iteration.time);
    tp_fields_set(L, "flops_per_gpu", iteration.flops);
    push_breakdown(L, &iteration);
    lua_setfield(L, -2, "breakdown");
    push_memory(L, &memory);
    lua_setfield(L, -2, "memory");
    return 1;
}

// The table's list `name` gets `value` as number i.
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

static void push_passes(lua_State *L, const tp_chunk_passes *passes, int64_t n,
                        const tp_device_waits *waits, int64_t pp) {
    lua_createtable(L, 0, 7);
    for (int64_t i = 0; i < n; i++) {
        const tp_stage_time *t = &passes[i].time;
        set_item(L, "forward", i + 1, t->forward);
        set_item(L, "backward_input", i + 1, t->backward - t->weight_grad);
        set_item(L, "backward_weight", i + 1, t->weight_grad);
        set_item(L, "overlapped", i + 1, t->pair);
        set_item(L, "memory", i + 1, passes[i].saved_bytes);
    }
    for (int64_t i = 0; i < pp; i++) {
        set_item(L, "ready", i + 1, waits[i].before);
        set_item(L, "after", i + 1, waits[i].after);
    }
}

static int network_passes(lua_State *L) {
    setting s;
    const tp_network *network = read_setting(L, &s);
    int64_t n = luaL_checkinteger(L, 9), pp = s.candidate.pipeline->pp, layers = 0;
    size_t n_runs;
    bool has_ends;
    const tp_run *runs = tp_bind_pipeline_runs(L, 5, &n_runs, &has_ends);
    for (size_t i = 0; i < n_runs; i++)
        layers += runs[i].layers;
    luaL_argcheck(L, n >= 1 && n <= layers, 9, "no stage may be without layers");
    tp_stage *chunks = lua_newuserdatauv(L, (size_t)n * sizeof *chunks, 0);
    tp_chunk_passes *passes = lua_newuserdatauv(L, (size_t)n * sizeof *passes, 0);
    tp_device_waits *waits = lua_newuserdatauv(L, (size_t)pp * sizeof *waits, 0);
    tp_layer_cost costs[TP_SECTIONS_MAX];
    tp_pipeline_chunks(runs, n_runs, has_ends, n, chunks);
    tp_network_time(network, &s.job.on, &s.candidate.placement, NULL, costs);
    tp_passes_of(&s.candidate, &s.job, network, costs, chunks, n, passes, waits);
    push_passes(L, passes, n, waits, pp);
    return 1;
}

// An iteration, but for the software that runs it. Its user value keeps the network and the pipelines alive.
typedef struct predictor {
    setting setting;
    const tp_network *network;
    tp_op_work works[];
} predictor;

static int new_predictor(lua_State *L) {
    lua_settop(L, 7);
    lua_pushnil(L); // where read_setting looks for software
    const tp_network *network = tp_bind_check_network(L, 1);
    predictor *p = lua_newuserdatauv(L, sizeof *p + network->n_ops * sizeof p->works[0], 1);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, 5);
    lua_rawseti(L, -2, 2);
    lua_setiuservalue(L, -2, 1);
    p->network = read_setting(L, &p->setting);
    tp_error error;
    if (tp_network_check_system(network, &p->setting.system, &error) != TP_OK)
        return tp_bind_raise(L, &error);
    tp_system_sustain(&p->setting.system);
    tp_network_work(network, &p->setting.job.on, p->setting.candidate.placement.panels, p->works);
    luaL_setmetatable(L, predictor_name);
    return 1;
}

static int predictor_seconds(lua_State *L) {
    predictor *p = luaL_checkudata(L, 1, predictor_name);
    setting *s = &p->setting;
    luaL_checktype(L, 2, LUA_TTABLE);
    tp_bind_check_software(L, 2, &s->software, &s->system);
    tp_layer_cost costs[TP_SECTIONS_MAX];
    tp_network_time(p->network, &s->job.on, &s->candidate.placement, p->works, costs);
    lua_pushnumber(L, tp_iteration_of(&s->candidate, &s->job, p->network, costs).time);
    return 1;
}

static int network_devices(lua_State *L) {
    setting s;
    const tp_network *network = read_setting(L, &s);
    tp_layer_cost costs[TP_SECTIONS_MAX];
    tp_network_bytes(network, costs);
    const tp_pipeline *pipeline = s.candidate.pipeline;
    tp_memory *memory = lua_newuserdatauv(L, pipeline->n_devices * sizeof *memory, 0);
    tp_memory_of_devices(&s.candidate, &s.job, network, costs, memory);
    lua_createtable(L, (int)pipeline->n_devices, 0);
    for (size_t i = 0; i < pipeline->n_devices; i++) {
        push_device(L, &pipeline->devices[i], network->n_kinds, &memory[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int count_of_ops(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tp_bind_check_network(L, 1)->n_ops);
    return 1;
}

static const luaL_Reg methods[] = {
    {"ops", network_ops},         {"iteration", network_iteration}, {"passes", network_passes},
    {"predictor", new_predictor}, {"devices", network_devices},     {NULL, NULL},
};

void tp_bind_network(lua_State *L) {
    static const luaL_Reg predictor_methods[] = {{"seconds", predictor_seconds}, {NULL, NULL}};
    luaL_newmetatable(L, predictor_name);
    luaL_newlib(L, predictor_methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, count_of_ops);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_network);
}
