// bind_snapshot.c: tperf.core.resource.snapshot(table) -> snapshot, and unchanged(snapshot, table, name): whether the table
// still holds what it did, tables within it likewise. Every question asks so of its model and its system, of a few
// hundred fields: one walk through them finds them in the order that they were in, unless somebody has changed them.
#include <stdbool.h>
#include <string.h>

#include "bind/bind.h"

static const char type_name[] = "tperf.snapshot";

enum { DEEPEST = 100 }; // of tables within tables: one may be within itself

// A key or a value. What the garbage collector frees is kept alive in the snapshot's user value, so that nothing else
// can come to lie at its address.
typedef struct mark {
    int type;      // LUA_TNONE behind the last field of a table
    bool integral; // of a number
    union {
        const void *pointer;
        lua_Integer integer;
        lua_Number number;
    } is;
} mark;

typedef struct field {
    mark key, value; // the fields of a table follow it
} field;

typedef struct snapshot {
    size_t n;
    field fields[];
} snapshot;

static mark mark_of(lua_State *L, int index) {
    mark m = {.type = lua_type(L, index)};
    if (m.type == LUA_TBOOLEAN) {
        m.is.integer = lua_toboolean(L, index);
    } else if (m.type != LUA_TNUMBER) {
        m.is.pointer = lua_topointer(L, index);
    } else if (lua_isinteger(L, index)) {
        m.integral = true;
        m.is.integer = lua_tointeger(L, index);
    } else {
        m.is.number = lua_tonumber(L, index);
    }
    return m;
}

static bool is_still(lua_State *L, int index, const mark *m) {
    if (lua_type(L, index) != m->type) return false;
    if (m->type == LUA_TBOOLEAN) return lua_toboolean(L, index) == m->is.integer;
    if (m->type != LUA_TNUMBER) return lua_topointer(L, index) == m->is.pointer;
    if (m->integral != lua_isinteger(L, index)) return false;
    if (m->integral) return lua_tointeger(L, index) == m->is.integer;
    return lua_tonumber(L, index) == m->is.number;
}

// How many fields a table has, tables within it and the ends of all counted; 0: too deep.
static size_t count(lua_State *L, int table, int depth) {
    size_t n = 1;
    if (depth > DEEPEST) return 0;
    luaL_checkstack(L, 4, "tables within tables");
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        n++;
        if (!lua_istable(L, -1)) continue;
        size_t inner = count(L, lua_gettop(L), depth + 1);
        if (inner == 0) {
            lua_pop(L, 2);
            return 0;
        }
        n += inner;
    }
    return n;
}

// Keeps what is at `index` alive in the list at `kept`.
static void keep(lua_State *L, int index, int kept) {
    lua_pushvalue(L, index);
    lua_rawseti(L, kept, (lua_Integer)lua_rawlen(L, kept) + 1);
}

static void take(lua_State *L, int table, int kept, snapshot *s) {
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        int value = lua_gettop(L);
        s->fields[s->n++] = (field){mark_of(L, value - 1), mark_of(L, value)};
        if (lua_type(L, value - 1) != LUA_TNUMBER) keep(L, value - 1, kept);
        if (lua_istable(L, value))
            take(L, value, kept, s);
        else if (lua_type(L, value) != LUA_TNUMBER && !lua_isboolean(L, value))
            keep(L, value, kept);
    }
    s->fields[s->n++].key.type = LUA_TNONE;
}

// Nothing for a table that is too deep, which is never taken for unchanged.
static int new_snapshot(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    size_t n = count(L, 1, 0);
    snapshot *s = lua_newuserdatauv(L, sizeof *s + n * sizeof s->fields[0], 1);
    s->n = 0;
    luaL_setmetatable(L, type_name);
    if (n == 0) return 1;
    lua_newtable(L);
    take(L, 1, 3, s);
    lua_setiuservalue(L, 2, 1);
    return 1;
}

// Leaves the stack as it may be: the caller puts it right.
static bool is_unchanged(lua_State *L, int table, const field **next) {
    luaL_checkstack(L, 4, "tables within tables");
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        const field *f = (*next)++;
        if (!is_still(L, -2, &f->key)) return false;
        if (f->value.type == LUA_TTABLE) {
            if (!lua_istable(L, -1) || !is_unchanged(L, lua_gettop(L), next)) return false;
        } else if (!is_still(L, -1, &f->value)) {
            return false;
        }
    }
    return (*next)++->key.type == LUA_TNONE;
}

// The first field within the table at a name of the outermost one; NULL: there was none.
static const field *find_part(const snapshot *s, const void *name) {
    int depth = 0;
    for (const field *f = s->fields; f < s->fields + s->n; f++) {
        if (f->key.type == LUA_TNONE) {
            depth--;
        } else if (f->value.type == LUA_TTABLE) {
            if (depth == 0 && f->key.is.pointer == name) return f + 1;
            depth++;
        }
    }
    return NULL;
}

// unchanged(snapshot, table, name): of the table at that name alone, if one is given
static int unchanged(lua_State *L) {
    const snapshot *s = luaL_checkudata(L, 1, type_name);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    const field *next = s->n > 0 ? s->fields : NULL;
    int table = 2;
    if (next && !lua_isnil(L, 3)) {
        next = find_part(s, lua_topointer(L, 3));
        lua_pushvalue(L, 3);
        lua_rawget(L, 2);
        table = 4;
    }
    lua_pushboolean(L, next && lua_istable(L, table) && is_unchanged(L, table, &next));
    return 1;
}

void tperf_bind_snapshot(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pop(L, 1);
    lua_pushcfunction(L, new_snapshot);
    lua_setfield(L, -2, "snapshot");
    lua_pushcfunction(L, unchanged);
    lua_setfield(L, -2, "unchanged");
}
