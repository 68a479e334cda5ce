// bind_line.c: core.op.on_line and core.op.equal: lists of ops that differ in the number of tokens alone.
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

// The op at a position of the list at `list`, which stays on the stack.
static const tperf_op *op_at(lua_State *L, int list, lua_Unsigned i) {
    lua_rawgeti(L, list, (lua_Integer)i);
    return tperf_bind_check_op(L, -1);
}

// on_line(a, b, t) -> list: the ops at t of the line through those of a (t = 0) and b (t = 1), see tperf_op_on_line; nil
// if a count would not be exact
int tperf_bind_ops_on_line(lua_State *L) {
    double t = luaL_checknumber(L, 3);
    size_t n = tperf_bind_length(L, 1, "the ops");
    lua_settop(L, 3);
    if (tperf_bind_length(L, 2, "the ops") != n) return 0;
    lua_createtable(L, (int)n, 1);
    for (size_t i = 1; i <= n; i++) {
        const tperf_op *a = op_at(L, 1, i), *b = op_at(L, 2, i);
        tperf_op *made = lua_newuserdatauv(L, sizeof *made, 0);
        luaL_setmetatable(L, TPERF_BIND_OP);
        if (!tperf_op_on_line(made, a, b, t)) return 0;
        lua_rawseti(L, 4, (lua_Integer)i);
        lua_settop(L, 4);
    }
    return 1;
}

// equal(a, b) -> boolean: whether two lists have the same ops
int tperf_bind_ops_equal(lua_State *L) {
    size_t n = tperf_bind_length(L, 1, "the ops");
    bool equal = tperf_bind_length(L, 2, "the ops") == n;
    for (size_t i = 1; equal && i <= n; i++) {
        const tperf_op *a = op_at(L, 1, i), *b = op_at(L, 2, i);
        equal = memcmp(a, b, sizeof *a) ==
                0; // they were zeroed before they were filled in: so are the gaps
        lua_pop(L, 2);
    }
    lua_pushboolean(L, equal);
    return 1;
}
