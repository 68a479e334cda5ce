// bind_snapshot.c: tperf.core.resource.snapshot(table) -> snapshot, and unchanged(snapshot, table, name): whether the
// table is unchanged since, nested tables included. Every question checks its model and its system this way, a few
// hundred fields each: one walk finds the fields in their previous order, unless they have changed.
#include <stdbool.h>
#include <string.h>

#include "bind/bind.h"

static const char type_name[] = "tperf.snapshot";

enum { DEEPEST = 100 }; // nesting limit: a table may contain itself

// A key or a value. The snapshot's user value keeps collectable objects alive, so that no other object can reuse their
// address.
typedef struct mark {
    int type;      // LUA_TNONE after a table's last field
    bool integral; // of a number
    union {
        const void *pointer;
        lua_Integer integer;
        lua_Number number;
    } is;
} mark;

typedef struct field {
    mark key, value; // a table's fields follow it
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

// The number of fields of a table, including nested tables and end marks; 0: nested too deep.
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

// Keeps the value at `index` alive in the list at `kept`.
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

// Returns nothing for a table that is nested too deep; it always counts as changed.
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

// May leave extra values on the stack; the caller resets it.
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

// The first field within the nested table at `name` of the outermost one; NULL if there is none.
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

// unchanged(snapshot, table, name): compares only the table at that name, if given
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
