// no_store.c: replaces src/io/store.c and src/bind/base/bind_store.c: a page has no databases.
#include "bind/bind.h"
#include "io/store.h"

bool tperf_store_make(int at, const char *name, const void *bytes, size_t size) {
    (void)at, (void)name, (void)bytes, (void)size;
    return false;
}

int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size) {
    (void)sql, (void)bytes;
    *size = 0;
    return 1;
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
