// core.c: tperf.core, the C side of the library, and the searcher for the embedded Lua side.
#include <stdlib.h>
#include <string.h>

#include "bind/base/codec.h"
#include "bind/bind.h"
#include "bind/embedded.h"
#include "tperf/collective.h"

// The shared Lua library may be a different release from the compiler's; the text is then compiled here.
static int load_embedded(lua_State *L, const tperf_embedded *e) {
    if (e->code_size > 0 && strcmp(lua_ident, tperf_embedded_compiler) == 0)
        return luaL_loadbufferx(L, e->code, e->code_size, e->chunk, "b");
    return luaL_loadbufferx(L, e->text, e->size, e->chunk, "t");
}

// Upvalue: the index of each module, by name.
static int search_embedded(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TNUMBER) {
        lua_pushfstring(L, "no embedded module '%s'", name);
        return 1;
    }
    const tperf_embedded *e = &tperf_embedded_modules[lua_tointeger(L, -1)];
    if (load_embedded(L, e) != LUA_OK) return lua_error(L);
    return 1; // no file: its data are the program's (lua/tperf/base/roots.lua)
}

static void push_embedded_searcher(lua_State *L) {
    int count = 0;
    while (tperf_embedded_modules[count].module)
        count++;
    lua_createtable(L, 0, count); // at its final size: no rehash while it is filled
    for (lua_Integer i = 0; i < count; i++) {
        lua_pushinteger(L, i);
        lua_setfield(L, -2, tperf_embedded_modules[i].module);
    }
    lua_pushcclosure(L, search_embedded, 1);
}

// For development, TPERF_LUA_DIR puts the library's files of a source tree before the embedded text. Only those files
// come from there, and they come from nowhere else: a file tperf/x.lua in package.path, the user's folder, is not part
// of the library. Upvalues: package.searchpath, and the path.
static int search_tree(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    if (strncmp(name, "tperf", 5) != 0 || (name[5] != '\0' && name[5] != '.')) return 0;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) return 1;
    const char *path = lua_tostring(L, -2);
    if (luaL_loadfilex(L, path, "t") != LUA_OK) return lua_error(L);
    lua_pushstring(L, path);
    return 2;
}

static void push_tree_searcher(lua_State *L, const char *dir) {
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchpath");
    lua_remove(L, -2);
    lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", dir, dir);
    lua_pushcclosure(L, search_tree, 2);
}

// Inserts the searcher on top of the stack after package.preload.
static void add_searcher(lua_State *L) {
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 3);
}

// core.modules([prefix]): the names of the embedded modules, those that start with the prefix.
static int list_modules(lua_State *L) {
    size_t length;
    const char *prefix = luaL_optlstring(L, 1, "", &length);
    lua_newtable(L);
    for (lua_Integer i = 0, n = 0; tperf_embedded_modules[i].module; i++) {
        if (strncmp(tperf_embedded_modules[i].module, prefix, length) != 0) continue;
        lua_pushstring(L, tperf_embedded_modules[i].module);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static void push_modules(lua_State *L) {
    lua_pushcfunction(L, list_modules);
}

// core.files: the text of embedded data files, by path.
static void push_files(lua_State *L) {
    lua_newtable(L);
    for (const tperf_embedded_file *f = tperf_embedded_files; f->path; f++) {
        lua_pushlstring(L, f->text, f->size);
        lua_setfield(L, -2, f->path);
    }
}

// core.algorithms: the names of the algorithms of collectives.
static void push_algorithms(lua_State *L) {
    lua_newtable(L);
    for (int i = 0; tperf_algorithm_name(i); i++) {
        lua_pushstring(L, tperf_algorithm_name(i));
        lua_rawseti(L, -2, i + 1);
    }
}

static void push_codec(lua_State *L) {
    tperf_bind_codec(L);
    tperf_bind_rows(L);
}

// clang-format off
static const struct {
    const char *name;
    void (*push)(lua_State *L);
} fields[] = {
    {"resource", tperf_bind_resource},
    {"check_system", tperf_bind_system},
    {"codec", push_codec},
    {"seal_system", tperf_bind_seal_system},
    {"algorithms", push_algorithms},
    {"curves", tperf_bind_curves},
    {"at_size", tperf_bind_at_size},
    {"memory_parts", tperf_bind_memory_parts},
    {"time_parts", tperf_bind_time_parts},
    {"collective", tperf_bind_collective},
    {"routed_parts", tperf_bind_routed_parts},
    {"normal_below", tperf_bind_normal_below},
    {"locale", tperf_bind_locale},
    {"machine", tperf_bind_machine},
    {"decode", tperf_bind_decode},
    {"grid", tperf_bind_grid},
    {"block", tperf_bind_block},
    {"block_on_line", tperf_bind_block_on_line},
    {"workload", tperf_bind_workload},
    {"op", tperf_bind_op},
    {"pipelines", tperf_bind_pipelines},
    {"record", tperf_bind_records},
    {"reread", tperf_bind_reread},
    {"platform", tperf_bind_platforms},
    {"job", tperf_bind_jobs},
    {"keep", tperf_bind_keep},
    {"ranks", tperf_bind_ranks},
    {"search", tperf_bind_search},
    {"infer", tperf_bind_infer},
    {"steps_on_line", tperf_bind_steps_on_line},
    {"serve", tperf_bind_serve},
    {"schedulers", tperf_bind_schedulers},
    {"csv", tperf_bind_csv},
    {"units", tperf_bind_units},
    {"yaml", tperf_bind_yaml},
    {"modules", push_modules},
    {"files", push_files},
    {"is_terminal", tperf_bind_is_terminal},
    {"terminal_columns", tperf_bind_terminal_columns},
    {"clock", tperf_bind_clock},
    {"hidden", tperf_bind_hidden},
    {"schedule", tperf_bind_schedule},
    {"file", tperf_bind_file},
    {"store", tperf_bind_store},
#ifdef TPERF_FAULTS
    {"faults", tperf_bind_faults},
#endif
    {NULL, NULL},
};
// clang-format on

// Also the entry point of tperf/core.so, under the name that require looks up.
__attribute__((visibility("default"))) int luaopen_tperf_core(lua_State *L) {
    tperf_bind_open_heap(L); // first, so that it closes after all users of its memory
    lua_newtable(L);
    lua_pushliteral(L, TPERF_VERSION);
    lua_setfield(L, -2, "version");
    lua_pushstring(L, tperf_embedded_sources);
    lua_setfield(L, -2, "sources");
    for (size_t i = 0; fields[i].name; i++) {
        fields[i].push(L);
        lua_setfield(L, -2, fields[i].name);
    }
    return 1;
}

void tperf_bind_open(lua_State *L) {
    luaL_requiref(L, "tperf.core", luaopen_tperf_core, 0);
    lua_pop(L, 1);
    push_embedded_searcher(L);
    add_searcher(L);
    const char *dir = getenv("TPERF_LUA_DIR");
    if (!dir || !*dir) return;
    push_tree_searcher(L, dir);
    add_searcher(L);
}
