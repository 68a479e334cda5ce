// bind_layer.c: tperf.core.layer(axes, sizes, gradient_axes, boundary_bytes, blocks) -> layer, the ops of one
// layer for one shape. axes: list of names; sizes: list of integers; gradient_axes: bit mask;
// blocks: list of { name =, op, op … }. Its methods:
//   layer:ops(system, rules, fast, panels)           list of records, as tperf.layer documents them
//   layer:iteration(system, rules, run)              record, as tperf.train documents it; run: see below
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "tperf/plan.h"

static const char type_name[] = "tperf.layer";

const tp_layer *tp_bind_check_layer(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

static size_t count_ops(lua_State *L, int blocks) {
    size_t count = 0;
    for (size_t b = 1; b <= lua_rawlen(L, blocks); b++) {
        if (lua_rawgeti(L, blocks, (lua_Integer)b) != LUA_TTABLE)
            tp_bind_fail(L, "block %d is not a list of ops", (int)b);
        count += lua_rawlen(L, -1);
        lua_pop(L, 1);
    }
    return count;
}

static void join_block(lua_State *L, tp_layer *layer) {
    int block = lua_gettop(L);
    lua_getfield(L, block, "name");
    const char *name = luaL_checkstring(L, -1);
    if (strlen(name) >= TP_NAME_MAX)
        tp_bind_fail(L, "the block name '%s' is longer than %d bytes", name, TP_NAME_MAX - 1);
    for (size_t i = 1; i <= lua_rawlen(L, block); i++) {
        lua_rawgeti(L, block, (lua_Integer)i);
        tp_error error;
        if (tp_layer_join(layer, tp_bind_check_op(L, -1), &error) != TP_OK)
            tp_bind_raise(L, &error);
        strcpy(layer->ops[layer->n_ops - 1].block, name);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_axes(lua_State *L, int names, int sizes, tp_layer *layer) {
    size_t n = tp_bind_check_sizes(L, sizes, layer->sizes, TP_AXES_MAX);
    layer->n_axes = (int)n;
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, names, (lua_Integer)i + 1);
        const char *name = luaL_checkstring(L, -1);
        if (strlen(name) >= TP_AXIS_NAME_MAX)
            tp_bind_fail(L, "the axis name '%s' is longer than %d bytes", name,
                         TP_AXIS_NAME_MAX - 1);
        strcpy(layer->axes[i], name);
        lua_pop(L, 1);
    }
}

static int new_layer(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 5, LUA_TTABLE);
    size_t n_ops = count_ops(L, 5);
    tp_layer *layer = lua_newuserdatauv(L, sizeof *layer + n_ops * sizeof layer->ops[0], 0);
    memset(layer, 0, sizeof *layer);
    luaL_setmetatable(L, type_name);
    read_axes(L, 1, 2, layer);
    layer->gradient_axes = (unsigned)luaL_checkinteger(L, 3);
    layer->boundary_bytes = luaL_checknumber(L, 4);
    for (size_t b = 1; b <= lua_rawlen(L, 5); b++) {
        lua_rawgeti(L, 5, (lua_Integer)b);
        join_block(L, layer);
        lua_pop(L, 1);
    }
    return 1;
}

static void set_number(lua_State *L, const char *name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void push_pass(lua_State *L, const tp_layer *layer, const tp_op *op, const tp_pass *pass,
                      const tp_pass_cost *cost, const tp_placement *placement,
                      const tp_system *system) {
    lua_createtable(L, 0, 9);
    set_number(L, "tensor_flops", pass->tensor_flops);
    set_number(L, "vector_flops", pass->vector_flops);
    set_number(L, "equivalent_flops", tp_pass_equivalent_flops(op, pass, system));
    double panels = op->panels ? (double)placement->panels : 1;
    set_number(L, "bytes", pass->bytes + panels * pass->bytes_per_panel);
    set_number(L, "time", cost->time);
    set_number(L, "compute_time", cost->compute);
    set_number(L, "exposed_memory_time", cost->exposed_memory);
    set_number(L, "comm_time", cost->comm);
    lua_createtable(L, pass->n_comms, 0);
    for (int i = 0; i < pass->n_comms; i++) {
        const tp_comm *comm = &pass->comms[i];
        lua_createtable(L, 0, 5);
        lua_pushstring(L, tp_collective_names[comm->kind]);
        lua_setfield(L, -2, "kind");
        lua_pushstring(L, comm->axis);
        lua_setfield(L, -2, "axis");
        set_number(L, "bytes", comm->bytes);
        lua_pushinteger(L, layer->sizes[comm->axis_index]);
        lua_setfield(L, -2, "gpus");
        lua_pushinteger(L, placement->fast[comm->axis_index]);
        lua_setfield(L, -2, "fast");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "comms");
}

static int layer_ops(lua_State *L) {
    const tp_layer *layer = tp_bind_check_layer(L, 1);
    tp_system system;
    tp_rules rules;
    tp_placement placement = {.panels = luaL_checkinteger(L, 5)};
    tp_bind_check_system(L, 2, &system);
    tp_bind_check_rules(L, 3, &rules);
    tp_bind_check_sizes(L, 4, placement.fast, TP_AXES_MAX);
    tp_error error;
    if (tp_layer_check_system(layer, &system, &error) != TP_OK) return tp_bind_raise(L, &error);
    lua_createtable(L, (int)layer->n_ops, 0);
    for (size_t i = 0; i < layer->n_ops; i++) {
        const tp_op *op = &layer->ops[i];
        tp_op_cost cost = tp_op_time(op, layer, &system, &rules, &placement);
        lua_createtable(L, 0, 7);
        lua_pushstring(L, op->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, op->block);
        lua_setfield(L, -2, "block");
        set_number(L, "weight_bytes", op->weight_bytes);
        set_number(L, "weight_grad_bytes", op->weight_bytes);
        set_number(L, "saved_bytes", op->saved_bytes);
        push_pass(L, layer, op, &op->forward, &cost.forward, &placement, &system);
        lua_setfield(L, -2, "forward");
        push_pass(L, layer, op, &op->backward, &cost.backward, &placement, &system);
        lua_setfield(L, -2, "backward");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

// The third argument of layer:iteration.
typedef struct run {
    int64_t layers, global_batch, dp, pp, micro_batch, panels, dp_fast, pp_fast;
} run;

static const tp_field run_fields[] = {
#define FIELD(name)                                                                                \
    { #name, TP_FIELD_INTEGER, offsetof(run, name), true }
    FIELD(layers), FIELD(global_batch), FIELD(dp),      FIELD(pp), FIELD(micro_batch),
    FIELD(panels), FIELD(dp_fast),      FIELD(pp_fast),
#undef FIELD
    {0},
};

static void push_iteration(lua_State *L, const tp_iteration *t, const tp_memory *m) {
    lua_createtable(L, 0, 8);
    set_number(L, "time", t->time);
    set_number(L, "flops_per_gpu", t->flops);
    lua_createtable(L, 0, 6);
    set_number(L, "compute", t->compute);
    set_number(L, "memory", t->memory);
    set_number(L, "tensor_comm", t->tensor_comm);
    set_number(L, "data_comm", t->data_comm);
    set_number(L, "pipeline_comm", t->pipeline_comm);
    set_number(L, "bubble", t->bubble);
    lua_setfield(L, -2, "breakdown");
    lua_createtable(L, 0, 5);
    set_number(L, "weights", m->weights);
    set_number(L, "gradients", m->gradients);
    set_number(L, "optimizer", m->optimizer);
    set_number(L, "activations", m->activations);
    set_number(L, "total", m->total);
    lua_setfield(L, -2, "memory");
}

// layer:iteration(system, rules, run, fast); run holds layers, global_batch, dp, pp, micro_batch, panels,
// dp_fast and pp_fast, checked by the caller to divide what they must.
static int layer_iteration(lua_State *L) {
    const tp_layer *layer = tp_bind_check_layer(L, 1);
    tp_system system;
    tp_rules rules;
    run r;
    tp_candidate candidate = {0};
    tp_bind_check_system(L, 2, &system);
    tp_bind_check_rules(L, 3, &rules);
    tp_fields_read(L, 4, "layer:iteration", run_fields, &r);
    tp_bind_check_sizes(L, 5, candidate.placement.fast, TP_AXES_MAX);
    tp_error error;
    if (tp_layer_check_system(layer, &system, &error) != TP_OK) return tp_bind_raise(L, &error);
    candidate.dp = r.dp;
    candidate.pp = r.pp;
    candidate.micro_batch = r.micro_batch;
    candidate.placement.panels = r.panels;
    candidate.dp_fast = r.dp_fast;
    candidate.pp_fast = r.pp_fast;
    memcpy(candidate.sizes, layer->sizes, sizeof candidate.sizes);
    tp_job job = {&system, &rules, r.layers, r.global_batch};
    tp_layer_cost cost = tp_layer_time(layer, &system, &rules, &candidate.placement);
    tp_iteration iteration = tp_iteration_of(&candidate, &job, layer, &cost);
    tp_memory memory = tp_memory_of(&candidate, &job, layer, &cost);
    push_iteration(L, &iteration, &memory);
    return 1;
}

static const luaL_Reg methods[] = {
    {"ops", layer_ops},
    {"iteration", layer_iteration},
    {NULL, NULL},
};

void tp_bind_layer(lua_State *L) {
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_layer);
}
