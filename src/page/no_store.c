// no_store.c: replaces src/io/store.c and src/bind/base/bind_store.c: a page has no databases.
#include <errno.h>
#include <unistd.h>

#include "bind/bind.h"
#include "io/store.h"

bool tperf_bind_make_place(lua_State *L, int at, const char *path, const char *bytes, size_t size) {
    (void)path, (void)bytes, (void)size;
    close(at);
    lua_pushnil(L);
    errno = ENOSYS;
    return false;
}

void tperf_store_use_heap(const tperf_heap *heap) {
    (void)heap;
}

void tperf_store_ask(bool (*must_stop)(uint64_t steps)) {
    (void)must_stop;
}

static int refuse(lua_State *L) {
    return tperf_bind_fail(L, "the page keeps no databases: run tperf itself");
}

void tperf_bind_store(lua_State *L) {
    static const luaL_Reg methods[] = {{"__index", refuse}, {NULL, NULL}};
    lua_newtable(L);
    luaL_newlib(L, methods);
    lua_setmetatable(L, -2);
}
