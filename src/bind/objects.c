// objects.c: the bindings' objects in Lua: memory freed with its userdata, views and weak tables.
#include <string.h>

#include "bind/bind.h"

void *tperf_bind_new(lua_State *L, size_t size, const char *type, lua_CFunction release) {
    void *object = lua_newuserdatauv(L, size, 0);
    memset(object, 0, size);
    if (luaL_newmetatable(L, type)) {
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return object;
}

void tperf_bind_plain(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (luaL_getmetafield(L, index, "__plain") == LUA_TNIL) return;
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    lua_replace(L, index);
}

void tperf_bind_weak_table(lua_State *L, const void *key) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}
