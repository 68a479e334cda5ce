// bind_resource.c: tperf.core.resource: operating-system queries for data files, and fast table operations:
//   prefix: the installation prefix of `make install`; executable: this program's path, or nil;
//   host(): the name of this machine, or nil;
//   entries(directory) -> its names in no order, or nil if it cannot be read;
//   make_folder(path): true, also if it is there already; or nil and a message; scripts without --trust get their own
//     version;
//   words(table, names): some of a table's fields as text, see below;
//   infinite(table): the first name, in order, of those whose value is an infinite number or none; nil without any;
//   same(a, b): whether two tables have equal fields, nested tables included;
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bind/bind.h"
#include "io/process/executable.h"

static int close_directory(lua_State *L) {
    DIR **directory = lua_touserdata(L, 1);
    if (*directory) closedir(*directory);
    *directory = NULL;
    return 0;
}

static int entries(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    DIR **directory = lua_newuserdatauv(L, sizeof *directory, 0); // closed by its __gc on an error
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

// stamp(path): a file's modification time, size and inode number; nothing if it does not exist.
static int stamp(lua_State *L) {
    struct stat file;
    if (stat(luaL_checkstring(L, 1), &file) != 0) return 0;
#ifdef __APPLE__
    const struct timespec changed = file.st_mtimespec;
#else
    const struct timespec changed = file.st_mtim;
#endif
    lua_pushinteger(L, (lua_Integer)changed.tv_sec * 1000000000 + changed.tv_nsec);
    lua_pushinteger(L, (lua_Integer)file.st_size);
    lua_pushinteger(L, (lua_Integer)file.st_ino);
    return 3;
}

static int make_folder(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    struct stat info;
    if (mkdir(path, 0777) != 0) {
        int error = errno;
        if (error != EEXIST || stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
            lua_pushnil(L);
            lua_pushfstring(L, "cannot make the folder '%s': %s (name another folder)", path,
                            error == EEXIST ? "a file has that name" : strerror(error));
            return 2;
        }
    }
    lua_pushboolean(L, true);
    return 1;
}

enum { DEEPEST = 100 }; // nesting limit: a table may contain itself

// Whether the table at `b` has the same fields as that at `a`.
static bool same_fields(lua_State *L, int a, int b, int depth) {
    lua_Integer more = 0; // fields of a that b lacks
    if (depth > DEEPEST) return false;
    luaL_checkstack(L, 8, "tables within tables");
    lua_pushnil(L);
    while (lua_next(L, a)) {
        lua_pushvalue(L, -2);
        lua_rawget(L, b);
        int top = lua_gettop(L);
        bool same = lua_rawequal(L, top - 1, top);
        if (!same && lua_istable(L, top - 1) && lua_istable(L, top))
            same = same_fields(L, top - 1, top, depth + 1);
        if (!same) {
            lua_pop(L, 3);
            return false;
        }
        lua_pop(L, 2);
        more++;
    }
    lua_pushnil(L);
    for (; lua_next(L, b); lua_pop(L, 1))
        more--;
    return more == 0;
}

static void add_word(lua_State *L, int index, luaL_Buffer *out) {
    int type = lua_type(L, index);
    luaL_addchar(out,
                 (char)('a' + type + (type == LUA_TNUMBER && lua_isinteger(L, index) ? 20 : 0)));
    if (type == LUA_TBOOLEAN) {
        luaL_addchar(out, lua_toboolean(L, index) ? '1' : '0');
    } else if (type == LUA_TNUMBER && lua_isinteger(L, index)) {
        lua_Integer value = lua_tointeger(L, index);
        luaL_addlstring(out, (const char *)&value, sizeof value);
    } else if (type == LUA_TNUMBER) {
        lua_Number value = lua_tonumber(L, index);
        luaL_addlstring(out, (const char *)&value, sizeof value);
    } else if (type == LUA_TSTRING) {
        size_t size;
        const char *text = lua_tolstring(L, index, &size);
        luaL_addlstring(out, (const char *)&size, sizeof size);
        luaL_addlstring(out, text, size);
    }
}

static int same(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_pushboolean(L, same_fields(L, 1, 2, 0));
    return 1;
}

// sized(n) -> an empty table with preallocated room for n fields.
static int sized(lua_State *L) {
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0 && n <= 4096, 1, "a few fields are meant");
    lua_createtable(L, 0, (int)n);
    return 1;
}

static int infinite(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushnil(L); // the first name so far
    for (lua_pushnil(L); lua_next(L, 1); lua_settop(L, 3)) {
        if (lua_type(L, 4) != LUA_TNUMBER || isfinite(lua_tonumber(L, 4))) continue;
        if (lua_type(L, 3) != LUA_TSTRING) continue;
        if (!lua_isnil(L, 2) && !lua_compare(L, 3, 2, LUA_OPLT)) continue;
        lua_pushvalue(L, 3);
        lua_replace(L, 2);
    }
    lua_settop(L, 2);
    return 1;
}

enum { MOST_BYTES = 1000, MOST_DEPTH = 3 }; // of the text of a table; tables within tables

typedef struct writer {
    size_t n;
    char bytes[MOST_BYTES];
} writer;

static bool write_bytes(writer *t, const void *bytes, size_t size) {
    if (size > MOST_BYTES - t->n) return false;
    memcpy(t->bytes + t->n, bytes, size);
    t->n += size;
    return true;
}

// Writes a boolean, a number or a string; false: it is something else, or there is no room.
static bool write_scalar(lua_State *L, int index, writer *t) {
    char type = (char)lua_type(L, index);
    if (type == LUA_TSTRING) {
        size_t size;
        const char *text = lua_tolstring(L, index, &size);
        return write_bytes(t, &type, 1) && write_bytes(t, &size, sizeof size) &&
               write_bytes(t, text, size);
    }
    if (type == LUA_TBOOLEAN) {
        char is = (char)lua_toboolean(L, index);
        return write_bytes(t, &type, 1) && write_bytes(t, &is, 1);
    }
    if (type != LUA_TNUMBER) return false;
    if (lua_isinteger(L, index)) {
        lua_Integer value = lua_tointeger(L, index);
        return write_bytes(t, "i", 1) && write_bytes(t, &value, sizeof value);
    }
    lua_Number value = lua_tonumber(L, index);
    return write_bytes(t, &type, 1) && write_bytes(t, &value, sizeof value);
}

// Writes the fields of a table in its own order; false: it has something else, or there is no room.
static bool write_fields(lua_State *L, int table, int depth, writer *t) {
    luaL_checkstack(L, 4, "tables within tables");
    for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 1)) {
        if (!write_scalar(L, table + 1, t)) return false;
        if (!lua_istable(L, table + 2)) {
            if (!write_scalar(L, table + 2, t)) return false;
        } else if (depth == 0 || lua_getmetatable(L, table + 2) || !write_bytes(t, "{", 1) ||
                   !write_fields(L, table + 2, depth - 1, t) || !write_bytes(t, "}", 1)) {
            return false;
        }
    }
    return true;
}

enum { MOST_WORDS = 200 };

// Puts a text in place of the plain table on top of the stack; false: it is none, too long, or has functions, metatables
// or tables nested too deep.
static bool replace_with_text(lua_State *L) {
    writer t;
    int table = lua_gettop(L);
    t.n = 0;
    if (!lua_istable(L, table) || lua_getmetatable(L, table) ||
        !write_fields(L, table, MOST_DEPTH, &t))
        return false;
    lua_settop(L, table - 1);
    lua_pushlstring(L, t.bytes, t.n);
    return true;
}

// words(table, names): the values of these fields as text, distinct for distinct values; nil if one is not a number,
// string, boolean or plain table of such.
static int words(lua_State *L) {
    bool was_table[MOST_WORDS];
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    luaL_Buffer out;
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    luaL_argcheck(L, n <= MOST_WORDS, 2, "too many names");
    luaL_checkstack(L, (int)n + 4, "words");
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        int type = lua_rawget(L, 1);
        was_table[i] = type == LUA_TTABLE;
        if (type != LUA_TNIL && type != LUA_TBOOLEAN && type != LUA_TNUMBER &&
            type != LUA_TSTRING && !replace_with_text(L))
            return 0;
    }
    luaL_buffinit(L, &out);
    for (int i = 0; i < n; i++) {
        if (was_table[i]) luaL_addchar(&out, '{');
        add_word(L, 3 + i, &out);
    }
    luaL_pushresult(&out);
    return 1;
}

static int host(lua_State *L) {
    struct utsname system;
    if (uname(&system) != 0) return 0;
    lua_pushstring(L, system.nodename);
    return 1;
}

void tperf_bind_resource(lua_State *L) {
    char path[4096];
    lua_newtable(L);
    lua_pushliteral(L, TPERF_PREFIX);
    lua_setfield(L, -2, "prefix");
    if (tperf_executable(path, sizeof path)) {
        lua_pushstring(L, path);
        lua_setfield(L, -2, "executable");
    }
    lua_pushcfunction(L, host);
    lua_setfield(L, -2, "host");
    lua_pushcfunction(L, entries);
    lua_setfield(L, -2, "entries");
    lua_pushcfunction(L, make_folder);
    lua_setfield(L, -2, "make_folder");
    lua_pushcfunction(L, stamp);
    lua_setfield(L, -2, "stamp");
    lua_pushcfunction(L, same);
    lua_setfield(L, -2, "same");
    lua_pushcfunction(L, sized);
    lua_setfield(L, -2, "sized");
    lua_pushcfunction(L, words);
    lua_setfield(L, -2, "words");
    lua_pushcfunction(L, infinite);
    lua_setfield(L, -2, "infinite");
}
