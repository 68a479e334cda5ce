// bind_workload.c: tperf.core.workload: the ops of a model for one shape.
//   workload(grid, sizes, boundary_bytes, sections) -> workload
//     sizes: list of integers, of the grid's own axes; sections: list of lists of blocks { name =, op, op … }: each
//         kind
//     of layer, then first, then last
//   workload:ops(section, system, rules, fast, panels, serves, software)   list of records, as tperf.layer documents
//       them
//   #workload   the number of its ops
//   and the methods of bind_iteration.c
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/setting.h"

static const char type_name[] = "tperf.workload";

const tperf_workload *tperf_bind_check_workload(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

// Pushes a copy of the block on top of the stack: its ops and its name; returns the number of ops.
static size_t copy_block(lua_State *L) {
    int block = lua_gettop(L);
    size_t n = tperf_bind_push_list(L, block, "a block");
    if (tperf_bind_raw_field(L, block, "name") != LUA_TSTRING)
        tperf_bind_fail(L, "a block lacks its name");
    lua_setfield(L, -2, "name");
    return n;
}

// Pushes a deep copy of the list of sections, so that the ops counted are the ops joined; returns their number.
static size_t copy_sections(lua_State *L, int index) {
    size_t count = 0, n = tperf_bind_push_list(L, index, "the sections");
    int sections = lua_gettop(L);
    for (size_t s = 1; s <= n; s++) {
        lua_rawgeti(L, sections, (lua_Integer)s);
        size_t blocks = tperf_bind_push_list(L, -1, "a section");
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
static void join_block(lua_State *L, tperf_workload *workload) {
    int block = lua_gettop(L);
    lua_getfield(L, block, "name");
    const char *name = lua_tostring(L, -1);
    if (strlen(name) >= TPERF_NAME_MAX)
        tperf_bind_fail(L, "the block name '%s' is longer than %d bytes", name, TPERF_NAME_MAX - 1);
    for (size_t i = 1; i <= lua_rawlen(L, block); i++) {
        lua_rawgeti(L, block, (lua_Integer)i);
        tperf_error error;
        if (tperf_workload_join(workload, tperf_bind_check_op(L, -1), &error) != TPERF_OK)
            tperf_bind_raise(L, &error);
        strcpy(workload->ops[workload->n_ops - 1].block, name);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void join_sections(lua_State *L, int sections, tperf_workload *workload) {
    size_t n = lua_rawlen(L, sections);
    if (n < 3 || n > TPERF_SECTIONS_MAX)
        tperf_bind_fail(L, "a model needs 1 to %d kinds of layers, got %d", TPERF_KINDS_MAX,
                        (int)n - 2);
    workload->n_kinds = (int)n - 2;
    for (size_t s = 1; s <= n; s++) {
        lua_rawgeti(L, sections, (lua_Integer)s);
        for (size_t b = 1; b <= lua_rawlen(L, -1); b++) {
            lua_rawgeti(L, -1, (lua_Integer)b);
            join_block(L, workload);
            lua_pop(L, 1);
        }
        workload->section_end[s - 1] = workload->n_ops;
        lua_pop(L, 1);
    }
}

static int new_workload(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    lua_settop(L, 4);
    size_t n_ops = copy_sections(L, 4);
    tperf_workload *workload =
        lua_newuserdatauv(L, sizeof *workload + n_ops * sizeof workload->ops[0], 1);
    memset(workload, 0, sizeof *workload);
    workload->capacity = n_ops;
    luaL_setmetatable(L, type_name);
    workload->grid = *grid;
    tperf_bind_check_own_sizes(L, 2, grid, workload->sizes);
    workload->boundary_bytes = luaL_checknumber(L, 3);
    join_sections(L, 5, workload);
    return 1;
}

static void push_pass(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                      const tperf_pass *pass, const tperf_pass_cost *cost,
                      const tperf_placement *placement, const tperf_platform *on) {
    lua_createtable(L, 0, 9);
    tperf_fields_set(L, "tensor_flops", pass->tensor_flops);
    tperf_fields_set(L, "vector_flops", pass->vector_flops);
    tperf_fields_set(L, "equivalent_flops", tperf_pass_equivalent_flops(op, pass, on->system));
    double panels = op->panels ? (double)placement->panels : 1;
    tperf_fields_set(L, "bytes", pass->bytes + panels * pass->bytes_per_panel);
    tperf_fields_set(L, "time", cost->time);
    tperf_fields_set(L, "compute_time", cost->compute);
    tperf_fields_set(L, "exposed_memory_time", cost->exposed_memory);
    tperf_fields_set(L, "comm_time", cost->comm);
    lua_createtable(L, pass->n_comms, 0);
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        tperf_bind_push_op_comm(L, workload, op, comm, on, placement);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "comms");
}

static void push_op(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                    const tperf_op_cost *cost, const tperf_placement *placement,
                    const tperf_platform *on) {
    lua_createtable(L, 0, 8);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, op->block);
    lua_setfield(L, -2, "block");
    tperf_fields_set(L, "weight_bytes", op->weight_bytes + op->copy_bytes);
    bool narrow = op->product.read_bytes > 0; // gradients stay in the op's dtype
    double gradients = narrow ? op->parameters * tperf_dtype_bytes(op->dtype) : op->weight_bytes;
    tperf_fields_set(L, "weight_grad_bytes", op->frozen ? 0 : gradients);
    tperf_fields_set(L, "saved_bytes", op->saved_bytes);
    push_pass(L, workload, op, &op->forward, &cost->forward, placement, on);
    lua_setfield(L, -2, "forward");
    push_pass(L, workload, op, &op->backward, &cost->backward, placement, on);
    lua_setfield(L, -2, "backward");
}

static int workload_ops(lua_State *L) {
    const tperf_workload *workload = tperf_bind_check_workload(L, 1);
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 1 && number <= workload->n_kinds + 2, 2, "no such section");
    int section = (int)number - 1;
    tperf_system system;
    tperf_rules rules;
    tperf_software software;
    tperf_placement placement = {.panels = luaL_checkinteger(L, 6)};
    tperf_bind_check_system(L, 3, &system);
    system.serves = lua_toboolean(L, 7);
    tperf_bind_check_rules(L, 4, &rules);
    tperf_bind_check_software(L, 8, &software, &system);
    tperf_platform on = {&system, &rules, &software};
    tperf_bind_check_placement(L, 5, workload, &placement);
    tperf_error error;
    if (tperf_workload_check_system(workload, &system, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    size_t begin = tperf_section_begin(workload, section);
    lua_newtable(L);
    for (size_t i = begin; i < workload->section_end[section]; i++) {
        const tperf_op *op = &workload->ops[i];
        tperf_op_work work = tperf_op_work_of(op, &on, placement.panels);
        tperf_op_cost cost = tperf_op_cost_of(op, &work, &on, workload->sizes, &placement);
        push_op(L, workload, op, &cost, &placement, &on);
        lua_rawseti(L, -2, (lua_Integer)(i - begin) + 1);
    }
    return 1;
}

static int count_of_ops(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tperf_bind_check_workload(L, 1)->n_ops);
    return 1;
}

static const luaL_Reg methods[] = {{"ops", workload_ops}, {NULL, NULL}};

void tperf_bind_workload(lua_State *L) {
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    tperf_bind_iteration(L);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, count_of_ops);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_workload);
}
