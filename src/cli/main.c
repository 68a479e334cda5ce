// main.c: the tperf program. (skeleton: `tperf run [--trust] SCRIPT [ARGS]`)
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"

int main(int argc, char **argv) {
    int first = 2;
    if (first < argc && strcmp(argv[first], "--trust") == 0) first++;
    if (argc < 2 || strcmp(argv[1], "run") != 0 || first >= argc) {
        fprintf(stderr, "usage: tperf run SCRIPT [ARGS]\n");
        return 2;
    }
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    tp_bind_open(L);
    lua_newtable(L);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - first);
    }
    lua_setglobal(L, "arg");
    int status = luaL_dofile(L, argv[first]);
    if (status != LUA_OK) fprintf(stderr, "tperf: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return status == LUA_OK ? 0 : 1;
}
