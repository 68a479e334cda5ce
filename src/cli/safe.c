// safe.c: what scripts get in place of standard functions that could run very long inside one C call, where
// no hook sees them, or run code where no hook works. Each checks and then calls the standard function (its
// upvalue) in its own frame, so that messages keep the caller's position.
#include <lauxlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MOST_ELEMENTS = 1 << 24 };

static int standard(lua_State *L) {
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static int charge_elements(lua_State *L, lua_Integer count) {
    if (count > MOST_ELEMENTS)
        return luaL_error(L, "more than %d elements in one call (--trust lifts this)",
                          (int)MOST_ELEMENTS);
    if (count > 0) tp_limits_charge(L, (uint64_t)count);
    return 0;
}

// A length that the standard function will find again: no __len that may answer differently.
static void check_length(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL)
        luaL_error(L, "the table has a __len metamethod (--trust lifts this)");
    size_t length = lua_rawlen(L, 1);
    charge_elements(L, length > (size_t)MOST_ELEMENTS ? MOST_ELEMENTS + 1 : (lua_Integer)length);
}

// table.insert, remove, sort
static int safe_whole(lua_State *L) {
    check_length(L);
    return standard(L);
}

static int safe_concat(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 4);
    lua_Integer first = luaL_optinteger(L, 3, 1),
                last = lua_isnil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);
    if (last > first) charge_elements(L, first < 0 && last > MOST_ELEMENTS ? last : last - first);
    lua_pushinteger(L, last);
    lua_replace(L, 4);
    return standard(L);
}

static int safe_move(lua_State *L) {
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
    if (last >= first) charge_elements(L, first < 0 && last > MOST_ELEMENTS ? last : last - first);
    return standard(L);
}

// The standard one loops n times even over nothing.
static int safe_rep(lua_State *L) {
    size_t length, separator = 0;
    luaL_checklstring(L, 1, &length);
    luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &separator);
    if (length + separator > 0) return standard(L);
    lua_pushliteral(L, "");
    return 1;
}

// A finalizer runs with hooks off: one that loops could not be stopped.
static int safe_setmetatable(lua_State *L) {
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L,
                              "__gc is not available to scripts (use __close; --trust lifts this)");
        lua_pop(L, 1);
    }
    return standard(L);
}

// Adds name = f, with the standard library's function as its upvalue, to the table on top.
static void add(lua_State *L, const char *library, const char *name, lua_CFunction f) {
    lua_getglobal(L, library);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

void tp_safe_push(lua_State *L) {
    lua_newtable(L);
    add(L, "_G", "setmetatable", safe_setmetatable);
    add(L, "string", "rep", safe_rep);
    add(L, "table", "concat", safe_concat);
    add(L, "table", "insert", safe_whole);
    add(L, "table", "move", safe_move);
    add(L, "table", "remove", safe_whole);
    add(L, "table", "sort", safe_whole);
    tp_pattern_add(L);
}
