// bind_snapshot.c: tperf.core.resource.snapshot(table) -> snapshot, and unchanged(snapshot, table, name): whether the
// table is unchanged since, nested tables included. Every question checks its model and its system this way, a few
// hundred fields each: one walk finds the fields in their previous order, unless they have changed.
#include <stdbool.h>
#include <string.h>

#include "bind/bind.h"

static const char type_name[] = "tperf.snapshot";

enum { DEEPEST = 100 }; // nesting limit: a table may contain itself

// A key or a value: the address of a collectable object, or a number or boolean. The snapshot's user value keeps the
// objects alive, so that no other object can reuse their address.
typedef struct mark {
    const void *pointer; // NULL: a number, a boolean, or nil after a table's last field
    signed char type;    // LUA_TNIL, LUA_TBOOLEAN, LUA_TNUMBER or that of the object
    bool integral;       // of a number
    union {
        lua_Integer integer;
        lua_Number number;
    } is;
} mark;

typedef struct field {
    mark key, value; // a table's fields follow it
    size_t after;    // of a table: the number of the first field after its own
} field;

typedef struct snapshot {
    int depth; // of nested tables
    size_t n;
    field fields[];
} snapshot;

static mark mark_of(lua_State *L, int index) {
    mark m = {.pointer = lua_topointer(L, index), .type = (signed char)lua_type(L, index)};
    if (m.type == LUA_TBOOLEAN) {
        m.is.integer = lua_toboolean(L, index);
    } else if (m.type == LUA_TNUMBER) {
        m.integral = lua_isinteger(L, index);
        if (m.integral)
            m.is.integer = lua_tointeger(L, index);
        else
            m.is.number = lua_tonumber(L, index);
    }
    return m;
}

// Asks Lua as little as it can: this runs for every field at every question.
static bool is_still(lua_State *L, int index, const mark *m) {
    const void *pointer = lua_topointer(L, index);
    if (pointer != m->pointer) return false;
    if (pointer) return true;
    if (m->type == LUA_TBOOLEAN)
        return lua_isboolean(L, index) && lua_toboolean(L, index) == m->is.integer;
    int is_number;
    if (m->integral)
        return lua_tointegerx(L, index, &is_number) == m->is.integer && lua_isinteger(L, index);
    return lua_tonumberx(L, index, &is_number) == m->is.number && is_number &&
           !lua_isinteger(L, index);
}

// The number of fields of a table, including nested tables and end marks; 0: nested too deep. Raises *deepest to the
// depth of what is in it.
static size_t count(lua_State *L, int table, int depth, int *deepest) {
    size_t n = 1;
    if (depth > DEEPEST) return 0;
    if (depth > *deepest) *deepest = depth;
    luaL_checkstack(L, 4, "tables within tables");
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        n++;
        if (!lua_istable(L, -1)) continue;
        size_t inner = count(L, lua_gettop(L), depth + 1, deepest);
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
        field *f = &s->fields[s->n++];
        *f = (field){.key = mark_of(L, value - 1), .value = mark_of(L, value)};
        if (f->key.pointer) keep(L, value - 1, kept);
        if (lua_istable(L, value))
            take(L, value, kept, s);
        else if (f->value.pointer)
            keep(L, value, kept);
        f->after = s->n;
    }
    s->fields[s->n++] = (field){.key.type = LUA_TNIL};
}

// Returns nothing for a table that is nested too deep; it always counts as changed.
static int new_snapshot(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    int depth = 0;
    size_t n = count(L, 1, 0, &depth);
    snapshot *s = lua_newuserdatauv(L, sizeof *s + n * sizeof s->fields[0], 1);
    s->n = 0;
    s->depth = depth;
    luaL_setmetatable(L, type_name);
    if (n == 0) return 1;
    lua_newtable(L);
    take(L, 1, 3, s);
    lua_setiuservalue(L, 2, 1);
    return 1;
}

// May leave extra values on the stack; the caller resets it.
static bool is_unchanged(lua_State *L, int table, const field **next) {
    for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 1)) {
        const field *f = (*next)++;
        if (!is_still(L, table + 1, &f->key) || !is_still(L, table + 2, &f->value)) return false;
        if (f->value.type == LUA_TTABLE && !is_unchanged(L, table + 2, next)) return false;
    }
    return (*next)++->key.type == LUA_TNIL;
}

// The first field within the nested table at `name` of the outermost one; NULL if there is none.
static const field *find_part(const snapshot *s, const void *name) {
    for (const field *f = s->fields; f->key.type != LUA_TNIL; f = s->fields + f->after)
        if (f->key.pointer == name && f->value.type == LUA_TTABLE) return f + 1;
    return NULL;
}

// unchanged(snapshot, table, name): compares only the table at that name, if given
static int unchanged(lua_State *L) {
    const snapshot *s = luaL_checkudata(L, 1, type_name);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    // A table that is nested deeper than before differs where that begins. Few need more than every function has.
    luaL_checkstack(L, 2 * (s->depth + 2), "tables within tables");
    const field *next = s->n > 0 ? s->fields : NULL;
    int table = 3;
    if (next && !lua_isnil(L, 3)) {
        next = find_part(s, lua_topointer(L, 3));
        lua_rawget(L, 2); // in place of the name
    } else {
        lua_pushvalue(L, 2);
        lua_replace(L, 3);
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
