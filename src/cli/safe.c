// safe.c: replacements for standard functions that could run very long inside one C call, where hooks do not run, or
// that run code where hooks do not work. Each charges for its work, or checks, and then calls the standard function
// (its upvalue) in its own frame, so that messages keep the caller's position. Long strings and large tables are
// charged when they are allocated (limits.c).
#include <lauxlib.h>
#include <lualib.h>
#include <stdbool.h>
#include <string.h>

#include "bind/bind.h"
#include "cli/cli.h"

enum { MOST_ELEMENTS = 1 << 24, BYTES_PER_STEP = 8, COROUTINE_STEPS = 1000 };

static int standard(lua_State *L) {
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static void charge_bytes(lua_State *L, size_t bytes) {
    if (bytes >= BYTES_PER_STEP) tperf_limits_charge(L, bytes / BYTES_PER_STEP);
}

static void charge_elements(lua_State *L, lua_Unsigned count) {
    if (count > MOST_ELEMENTS)
        luaL_error(L, "more than %d elements in one call (--trust lifts this)", (int)MOST_ELEMENTS);
    tperf_limits_charge(L, count);
}

// The number of integers from first to last, capped at MOST_ELEMENTS + 1.
static lua_Unsigned count_between(lua_Integer first, lua_Integer last) {
    if (first > last) return 0;
    lua_Unsigned steps = (lua_Unsigned)last - (lua_Unsigned)first;
    return steps < MOST_ELEMENTS ? steps + 1 : MOST_ELEMENTS + 1;
}

// For functions that read every byte of their strings: string.upper, format, pack, tonumber …
static void charge_texts(lua_State *L) {
    size_t bytes = 0;
    for (int i = lua_gettop(L); i > 0; i--)
        if (lua_type(L, i) == LUA_TSTRING) bytes += lua_rawlen(L, i);
    charge_bytes(L, bytes);
}

static int safe_texts(lua_State *L) {
    charge_texts(L);
    return standard(L);
}

// For functions that take time in proportion to their results: string.byte, string.unpack, table.unpack.
static int safe_results(lua_State *L) {
    int count = standard(L);
    tperf_limits_charge(L, (uint64_t)count);
    return count;
}

// The format of string.unpack and packsize may be long, too.
static int safe_unpack(lua_State *L) {
    if (lua_type(L, 1) == LUA_TSTRING) charge_bytes(L, lua_rawlen(L, 1));
    return safe_results(L);
}

// Resolves position i of a string of this length; a negative one counts from its end.
static lua_Integer from_start(lua_Integer i, size_t length) {
    if (i >= 0) return i;
    return 0u - (size_t)i > length ? 0 : (lua_Integer)length + i + 1;
}

// utf8.len(s, i = 1, j = -1), utf8.codepoint(s, i = 1, j = i)
static int safe_range(lua_State *L) {
    size_t length;
    luaL_checklstring(L, 1, &length);
    lua_Integer first = from_start(luaL_optinteger(L, 2, 1), length);
    lua_Integer last = from_start(
        luaL_optinteger(L, 3, lua_toboolean(L, lua_upvalueindex(2)) ? -1 : first), length);
    if (last > (lua_Integer)length) last = (lua_Integer)length;
    if (first < 1) first = 1;
    if (last >= first) charge_bytes(L, (size_t)(last - first) + 1);
    return standard(L);
}

// utf8.offset(s, n, i): its result tells how far it went.
static int safe_offset(lua_State *L) {
    size_t length;
    luaL_checklstring(L, 1, &length);
    lua_Integer n = luaL_checkinteger(L, 2);
    lua_Integer from =
        from_start(luaL_optinteger(L, 3, n > 0 ? 1 : (lua_Integer)length + 1), length);
    int count = standard(L);
    lua_Integer to = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : n > 0 ? (lua_Integer)length : 1;
    charge_bytes(L, (size_t)(to > from ? to - from : from - to));
    return count;
}

// The iterator of utf8.codes skips continuation bytes.
static int codes_next(lua_State *L) {
    size_t length, passed = 0;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_Integer at = luaL_checkinteger(L, 2);
    for (lua_Unsigned i = (lua_Unsigned)at; i < length && (text[i] & 0xC0) == 0x80; i++)
        passed++;
    charge_bytes(L, passed);
    return standard(L);
}

static int safe_codes(lua_State *L) {
    int count = standard(L); // iterator, string, 0
    lua_pushvalue(L, -count);
    lua_pushcclosure(L, codes_next, 1);
    lua_replace(L, -count - 1);
    return count;
}

// The length that the standard function will find, too: a __len metamethod could answer differently, but for that of
// the library's objects (lua/tperf/base/object/frozen.lua).
static lua_Unsigned check_length(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (luaL_getmetafield(L, 1, "__plain") != LUA_TNIL) return (lua_Unsigned)luaL_len(L, 1);
    if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL)
        luaL_error(L, "the table has a __len metamethod (--trust lifts this)");
    return lua_rawlen(L, 1);
}

// table.insert(t, [position,] value), table.remove(t [, position]): moves everything after the position.
static int safe_shift(lua_State *L) {
    lua_Unsigned length = check_length(L);
    bool inserts = lua_toboolean(L, lua_upvalueindex(2));
    bool at_end = inserts ? lua_gettop(L) < 3 : lua_isnoneornil(L, 2);
    lua_Integer position = at_end ? 0 : luaL_checkinteger(L, 2);
    if (!at_end && position >= 0) charge_elements(L, count_between(position, (lua_Integer)length));
    return standard(L);
}

// table.sort: about n log n comparisons, of strings byte by byte.
static int safe_sort(lua_State *L) {
    lua_Unsigned length = check_length(L), rounds = 1;
    charge_elements(L, length);
    for (lua_Unsigned n = length; n > 1; n /= 2)
        rounds++;
    size_t bytes = 0;
    for (lua_Unsigned i = 1; i <= length; i++) {
        if (lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING) bytes += lua_rawlen(L, -1);
        lua_pop(L, 1);
    }
    tperf_limits_charge(L, rounds * (length + bytes / BYTES_PER_STEP));
    return standard(L);
}

static int safe_concat(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 4);
    lua_Integer first = luaL_optinteger(L, 3, 1),
                last = lua_isnil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);
    charge_elements(L, count_between(first, last));
    lua_pushinteger(L, last);
    lua_replace(L, 4);
    return standard(L);
}

static int safe_move(lua_State *L) {
    charge_elements(L, count_between(luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)));
    return standard(L);
}

// charge(steps): for functions that the sandbox itself wraps
static int charge(lua_State *L) {
    lua_Number steps = luaL_checknumber(L, 1);
    if (steps >= 1) tperf_limits_charge(L, (uint64_t)(steps < 1e15 ? steps : 1e15));
    return 0;
}

// The standard function loops n times even over an empty string.
static int safe_rep(lua_State *L) {
    size_t length, separator = 0;
    luaL_checklstring(L, 1, &length);
    luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &separator);
    if (length + separator > 0) return standard(L);
    lua_pushliteral(L, "");
    return 1;
}

// Finds the fields of the first argument that wait (lua/tperf/base/lazy), so that no function sees it without them.
static void settle(lua_State *L) {
    if (!lua_istable(L, 1) || luaL_getmetafield(L, 1, "__settle") == LUA_TNIL) return;
    lua_pushvalue(L, 1);
    lua_call(L, 1, 0);
}

static int safe_raw(lua_State *L) {
    settle(L);
    return safe_texts(L); // keys are compared
}

// A coroutine counts its instructions from 0, and may end before its first event (limits.c).
static int safe_coroutine(lua_State *L) {
    tperf_limits_charge(L, COROUTINE_STEPS);
    int count = standard(L);
    lua_State *thread = lua_tothread(L, -1);
    if (!thread && lua_getupvalue(L, -1, 1)) { // of coroutine.wrap
        thread = lua_tothread(L, -1);
        lua_pop(L, 1);
    }
    if (thread) tperf_limits_new_thread(thread);
    return count;
}

static const char own_metatables; // registry key of a weak table: the metatables set by scripts

// The metatables of the library's objects are private: scripts see false.
static int safe_getmetatable(lua_State *L) {
    settle(L);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return 1;
    standard(L);
    if (!lua_istable(L, -1)) return 1;
    tperf_bind_weak_table(L, &own_metatables);
    lua_pushvalue(L, -2);
    if (lua_rawget(L, -2) == LUA_TNIL)
        lua_pushboolean(L, false);
    else
        lua_settop(L, -3);
    return 1;
}

// Finalizers run without hooks: one that loops could not be stopped.
static int safe_setmetatable(lua_State *L) {
    settle(L);
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L,
                              "__gc is not available to scripts (use __close; --trust lifts this)");
        lua_pop(L, 1);
        tperf_bind_weak_table(L, &own_metatables);
        lua_pushvalue(L, 2);
        lua_pushboolean(L, true);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
    return standard(L);
}

typedef struct replacement {
    const char *library, *name;
    lua_CFunction function;
    bool flag; // its second upvalue
} replacement;

static const replacement replacements[] = {
    {LUA_GNAME, "getmetatable", safe_getmetatable, false},
    {LUA_GNAME, "rawequal", safe_texts, false},
    {LUA_GNAME, "rawget", safe_raw, false},
    {LUA_GNAME, "rawset", safe_raw, false},
    {LUA_GNAME, "setmetatable", safe_setmetatable, false},
    {LUA_GNAME, "tonumber", safe_texts, false},
    {LUA_COLIBNAME, "create", safe_coroutine, false},
    {LUA_COLIBNAME, "wrap", safe_coroutine, false},
    {LUA_STRLIBNAME, "byte", safe_results, false},
    {LUA_STRLIBNAME, "format", safe_texts, false},
    {LUA_STRLIBNAME, "lower", safe_texts, false},
    {LUA_STRLIBNAME, "pack", safe_texts, false},
    {LUA_STRLIBNAME, "packsize", safe_texts, false},
    {LUA_STRLIBNAME, "rep", safe_rep, false},
    {LUA_STRLIBNAME, "reverse", safe_texts, false},
    {LUA_STRLIBNAME, "unpack", safe_unpack, false},
    {LUA_STRLIBNAME, "upper", safe_texts, false},
    {LUA_TABLIBNAME, "concat", safe_concat, false},
    {LUA_TABLIBNAME, "insert", safe_shift, true},
    {LUA_TABLIBNAME, "move", safe_move, false},
    {LUA_TABLIBNAME, "remove", safe_shift, false},
    {LUA_TABLIBNAME, "sort", safe_sort, false},
    {LUA_TABLIBNAME, "unpack", safe_results, false},
    {LUA_UTF8LIBNAME, "codepoint", safe_range, false},
    {LUA_UTF8LIBNAME, "codes", safe_codes, false},
    {LUA_UTF8LIBNAME, "len", safe_range, true},
    {LUA_UTF8LIBNAME, "offset", safe_offset, false},
    {NULL, NULL, NULL, false},
};

// Adds library[name] = function to the table on top, with the standard function as its first upvalue.
static void add(lua_State *L, const replacement *r) {
    luaL_getsubtable(L, -1, r->library);
    lua_getglobal(L, r->library);
    lua_getfield(L, -1, r->name);
    lua_remove(L, -2);
    lua_pushboolean(L, r->flag);
    lua_pushcclosure(L, r->function, 2);
    lua_setfield(L, -2, r->name);
    lua_pop(L, 1);
}

// charging(f): f, charged for the bytes of its strings; for functions that may have been replaced in Lua (recorder.lua).
static int call_charged(lua_State *L) {
    charge_texts(L);
    if (lua_iscfunction(L, lua_upvalueindex(1))) return standard(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

// The same for functions that write to their first argument, a file, or to the one that io.output (the second upvalue)
// returns: a file has a largest size.
static int call_writing(lua_State *L) {
    enum { LONGEST_NUMBER = 64 };
    size_t bytes = 0;
    for (int i = lua_gettop(L); i > 0; i--) {
        if (lua_type(L, i) == LUA_TSTRING) bytes += lua_rawlen(L, i);
        if (lua_type(L, i) == LUA_TNUMBER) bytes += LONGEST_NUMBER;
    }
    const luaL_Stream *stream = luaL_testudata(L, 1, LUA_FILEHANDLE);
    if (!lua_isnil(L, lua_upvalueindex(2))) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_call(L, 0, 1);
        stream = luaL_testudata(L, -1, LUA_FILEHANDLE);
        lua_pop(L, 1); // io.output keeps it
    }
    bool fits = !stream || !stream->closef || tperf_output_fits(stream->f, bytes);
    return fits ? call_charged(L) : luaL_fileresult(L, 0, NULL);
}

// writing(f [, output]): f, charged and bounded in this way.
static int writing(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_pushcclosure(L, call_writing, 2);
    return 1;
}

static int charging(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_pushcclosure(L, call_charged, 1);
    return 1;
}

bool tperf_safe_replaces(lua_CFunction function) {
    for (const replacement *r = replacements; r->name; r++)
        if (r->function == function) return true;
    return function == codes_next;
}

void tperf_safe_push(lua_State *L) {
    lua_newtable(L);
    for (const replacement *r = replacements; r->name; r++)
        add(L, r);
    lua_getfield(L, -1, LUA_STRLIBNAME);
    tperf_pattern_add(L);
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {
        {"charge", charge}, {"charging", charging}, {"writing", writing}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
