// bind_resource.c: tperf.core.resource, what finding data files needs of the operating system:
//   prefix: where `make install` puts things; executable: this program's path, or nil;
//   entries(directory) -> the names in it, in no order, or nil when it cannot be read.
#include <dirent.h>
#include <unistd.h>

#include "bind/bind.h"

static int close_directory(lua_State *L) {
    DIR **directory = lua_touserdata(L, 1);
    if (*directory) closedir(*directory);
    *directory = NULL;
    return 0;
}

static int entries(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    DIR **directory =
        lua_newuserdatauv(L, sizeof *directory, 0); // closed by its __gc if an error comes
    *directory = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_directory);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    *directory = opendir(path);
    if (!*directory) return 0;
    lua_newtable(L);
    lua_Integer count = 0;
    for (struct dirent *entry; (entry = readdir(*directory));) {
        lua_pushstring(L, entry->d_name);
        lua_rawseti(L, -2, ++count);
    }
    closedir(*directory);
    *directory = NULL;
    return 1;
}

void tp_bind_resource(lua_State *L) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    lua_newtable(L);
    lua_pushliteral(L, TPERF_PREFIX);
    lua_setfield(L, -2, "prefix");
    if (length > 0 && (size_t)length < sizeof path) {
        lua_pushlstring(L, path, (size_t)length);
        lua_setfield(L, -2, "executable");
    }
    lua_pushcfunction(L, entries);
    lua_setfield(L, -2, "entries");
}
