// bind_given.c: ops whose counts are given directly, and their collectives:
//   op.given { name =, forward = { … } … }   fields as in tperf.op.custom; nil: not an op, whose checks say why
//   op:communicate(…)                        see bind_op.c
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/describe/op_kinds.h"
#include "bind/fields.h"
#include "bind/model_args.h"

// Parameters of an all-to-all that sends a token once per domain, documented in lua/tperf/describe/op/init.lua.
static const tperf_field routing_fields[] = {
    {"experts", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.experts), true},
    {"top_k", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.top_k), true},
    {"groups", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.groups), false},
    {"top_groups", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.top_groups), false},
    {"relayed", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.relayed), false},
    {"passed", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.passed), false},
    {"ports", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.ports), false},
    {"doubling", TPERF_FIELD_NUMBER, offsetof(tperf_comm, routing.doubling_s), false},
    {"units", TPERF_FIELD_NUMBER, offsetof(tperf_comm, units), false},
    {0},
};

static void read_routing(lua_State *L, int index, const tperf_op *op, tperf_comm *comm) {
    if (lua_isnoneornil(L, index)) return;
    tperf_fields_read(L, index, "once", routing_fields, comm);
    const char *fault = tperf_routing_fault(&comm->routing);
    const tperf_routing *routing = &comm->routing;
    if (!fault && !(comm->units >= 0 && routing->relayed >= 0 && routing->passed >= 0 &&
                    routing->doubling_s >= 0))
        fault = "'units', 'relayed', 'passed' and 'doubling' must not be negative";
    if (!fault && !(comm->routing.ports >= 0 && comm->routing.ports <= 1))
        fault = "'ports' must be from 0 to 1";
    if (!fault && routing->doubling_s > 0 && routing->ports == 0)
        fault = "'doubling' needs 'ports'";
    if (!fault && comm->kind != TPERF_ALL_TO_ALL) fault = "only an all_to_all has it";
    if (fault) tperf_bind_fail(L, "op '%s': once: %s", op->name, fault);
}

int tperf_bind_communicate(lua_State *L) {
    static const char *const passes[] = {"forward", "backward", NULL};
    tperf_op *op = luaL_checkudata(L, 1, TPERF_BIND_OP);
    tperf_pass *pass = luaL_checkoption(L, 2, NULL, passes) ? &op->backward : &op->forward;
    tperf_collective kind = (tperf_collective)luaL_checkoption(L, 3, NULL, tperf_collective_names);
    const char *axis = luaL_checkstring(L, 4);
    double bytes = luaL_checknumber(L, 5);
    if (strlen(axis) == 0 || strlen(axis) >= TPERF_AXIS_NAME_MAX)
        tperf_bind_fail(L, "op '%s': an axis has a name of 1 to %d bytes, not '%s'", op->name,
                        TPERF_AXIS_NAME_MAX - 1, axis);
    if (!isfinite(bytes) || bytes < 0)
        tperf_bind_fail(L, "op '%s': a collective of %f bytes", op->name, bytes);
    if (pass->n_comms == TPERF_COMMS_MAX)
        tperf_bind_fail(L, "op '%s': more than %d collectives in a pass", op->name,
                        TPERF_COMMS_MAX);
    tperf_comm comm = {
        .kind = kind, .bytes = bytes, .share = lua_toboolean(L, 6), .beside = lua_toboolean(L, 7)};
    strcpy(comm.axis, axis);
    read_routing(L, 8, op, &comm);
    comm.exchanges = lua_toboolean(L, 9);
    pass->comms[pass->n_comms++] = comm;
    lua_settop(L, 1);
    return 1;
}

typedef struct cached {
    double token, sequence;
    int64_t window;
} cached;

void tperf_bind_set_kept(lua_State *L, int index, const char *what, tperf_op *op) {
    static const tperf_field fields[] = {
        {"token", TPERF_FIELD_NUMBER, offsetof(cached, token), false},
        {"sequence", TPERF_FIELD_NUMBER, offsetof(cached, sequence), false},
        {"window", TPERF_FIELD_INTEGER, offsetof(cached, window), false},
        {0},
    };
    cached k = {0};
    tperf_fields_read(L, index, what, fields, &k);
    if (!(k.token >= 0 && k.sequence >= 0 && k.window >= 0))
        tperf_bind_fail(L, "%s: bytes and windows must not be negative", what);
    op->kept = (tperf_op_kept){
        .token = k.token, .sequence = k.sequence, .window = (double)k.window, .stated = true};
}

void tperf_bind_read_keeps(lua_State *L, int index, const char *what, tperf_op *op) {
    int top = lua_gettop(L);
    if (tperf_bind_raw_field(L, index, "keeps") != LUA_TNIL)
        tperf_bind_set_kept(L, top + 1, lua_pushfstring(L, "%s '%s': 'keeps'", what, op->name), op);
    lua_settop(L, top);
}

#define GIVEN(name, kind, member)                                                                  \
    { name, TPERF_FIELD_##kind, offsetof(tperf_op_arguments, member), false }

static const tperf_field given_fields[] = {
    GIVEN("name", TEXT, name),
    GIVEN("dtype", TEXT, dtype),
    {"forward", TPERF_FIELD_ANY, 0, false},
    {"backward", TPERF_FIELD_ANY, 0, false},
    GIVEN("weight_bytes", NUMBER, custom.weight_bytes),
    GIVEN("saved_bytes", NUMBER, custom.saved_bytes),
    GIVEN("repeated_bytes", NUMBER, custom.repeated_bytes),
    GIVEN("routed", NUMBER, custom.forward.routed),
    GIVEN("expert", FLAG, custom.expert),
    GIVEN("by_keys", FLAG, custom.by_keys),
    GIVEN("shared_as", TEXT, shared_as),
    {"keeps", TPERF_FIELD_ANY, 0, false},
    {0},
};

static const tperf_field pass_fields[] = {
    {"tensor_flops", TPERF_FIELD_NUMBER, offsetof(tperf_pass, tensor_flops), false},
    {"vector_flops", TPERF_FIELD_NUMBER, offsetof(tperf_pass, vector_flops), false},
    {"bytes", TPERF_FIELD_NUMBER, offsetof(tperf_pass, bytes), false},
    {"comms", TPERF_FIELD_ANY, 0, false},
    {0},
};

typedef struct given_comm {
    const char *kind, *axis;
    tperf_comm comm;
} given_comm;

static const tperf_field comm_fields[] = {
    {"kind", TPERF_FIELD_TEXT, offsetof(given_comm, kind), true},
    {"axis", TPERF_FIELD_TEXT, offsetof(given_comm, axis), true},
    {"bytes", TPERF_FIELD_NUMBER, offsetof(given_comm, comm.bytes), true},
    {"share", TPERF_FIELD_FLAG, offsetof(given_comm, comm.share), false},
    {"beside", TPERF_FIELD_FLAG, offsetof(given_comm, comm.beside), false},
    {"exchanges", TPERF_FIELD_FLAG, offsetof(given_comm, comm.exchanges), false},
    {"once", TPERF_FIELD_ANY, 0, false},
    {0},
};

// The index of a name; -1: none.
static int index_of(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}

// Reads the collective at the top of the stack.
static bool read_comm(lua_State *L, const tperf_op *op, tperf_comm *out) {
    given_comm given = {0};
    if (!tperf_fields_try(L, -1, comm_fields, &given)) return false;
    int kind = index_of(given.kind, tperf_collective_names, TPERF_COLLECTIVE_COUNT);
    size_t length = strlen(given.axis);
    if (kind < 0 || length == 0 || length >= TPERF_AXIS_NAME_MAX || given.comm.bytes < 0)
        return false;
    if (kind == TPERF_ALL_TO_ALL && given.comm.share) return false;
    *out = given.comm;
    out->kind = (tperf_collective)kind;
    strcpy(out->axis, given.axis);
    tperf_bind_raw_field(L, -1, "once");
    read_routing(L, lua_gettop(L), op, out);
    lua_pop(L, 1);
    return true;
}

// Reads the list of collectives at the top of the stack.
static bool read_comms(lua_State *L, const tperf_op *op, tperf_pass *pass) {
    if (!lua_istable(L, -1)) return false;
    int list = lua_gettop(L), members = 0;
    lua_Unsigned n = lua_rawlen(L, list);
    if (n > TPERF_COMMS_MAX) return false;
    for (lua_pushnil(L); lua_next(L, list); lua_pop(L, 1))
        members++;
    if ((lua_Unsigned)members != n) return false;
    for (; pass->n_comms < (int)n; pass->n_comms++) {
        lua_rawgeti(L, list, pass->n_comms + 1);
        bool sound = read_comm(L, op, &pass->comms[pass->n_comms]);
        lua_pop(L, 1);
        if (!sound) return false;
    }
    return true;
}

// Reads the pass `name` of the table at 1.
static bool read_pass(lua_State *L, const char *name, const tperf_op *op, tperf_pass *pass) {
    if (tperf_bind_raw_field(L, 1, name) == LUA_TNIL) return true;
    if (!tperf_fields_try(L, -1, pass_fields, pass)) return false;
    if (pass->tensor_flops < 0 || pass->vector_flops < 0 || pass->bytes < 0) return false;
    return tperf_bind_raw_field(L, -1, "comms") == LUA_TNIL || read_comms(L, op, pass);
}

static bool read_given(lua_State *L, tperf_op *op) {
    tperf_op_arguments a = {.name = "custom", .dtype = "bf16"};
    if (!tperf_fields_try(L, 1, given_fields, &a)) return false;
    int dtype = index_of(a.dtype, tperf_dtype_names, TPERF_DTYPE_COUNT);
    const tperf_op *c = &a.custom;
    size_t length = strlen(a.name);
    if (dtype < 0 || length == 0 || length >= TPERF_NAME_MAX || c->forward.routed < 0) return false;
    if (c->weight_bytes < 0 || c->saved_bytes < 0 || c->repeated_bytes < 0) return false;
    if (a.shared_as && strlen(a.shared_as) >= TPERF_NAME_MAX) return false;
    strcpy(op->name, a.name);
    strcpy(op->shared_as, a.shared_as ? a.shared_as : "");
    op->dtype = op->matrix_dtype = (tperf_dtype)dtype;
    if (!read_pass(L, "forward", op, &a.custom.forward)) return false;
    lua_settop(L, 2);
    if (!read_pass(L, "backward", op, &a.custom.backward)) return false;
    lua_settop(L, 2);
    tperf_error error;
    tperf_bind_read_keeps(L, 1, "op.custom", op);
    return tperf_op_count_custom(op, &a, &error) == TPERF_OK &&
           tperf_op_validate(op, &error) == TPERF_OK;
}

int tperf_bind_given_op(lua_State *L) {
    lua_settop(L, 1);
    tperf_op *op = lua_newuserdatauv(L, sizeof *op, 0);
    memset(op, 0, sizeof *op);
    luaL_setmetatable(L, TPERF_BIND_OP);
    if (!read_given(L, op)) lua_pushnil(L);
    return 1;
}
