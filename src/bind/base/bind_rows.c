// bind_rows.c: rows by columns, so that many of them cost little to send and to read.
//   codec.pack(rows) -> bytes; rows: a list of tables with strings as keys, whose values codec.encode takes
//   codec.rows(bytes, metatable) -> a list of so many empty tables, with room for the rows' fields
//   codec.fill(rows, bytes): sets the fields of such tables, and then takes their metatables off; raises for malformed
//     bytes
//   codec.list(n) -> an empty table with room for a list of n values
//
// The bytes: the numbers of rows and of columns; for each column its key, a letter, and its values. d: a float each;
// =: one value, which all rows have; v: a value each, nil where a row lacks the key. Keys and values are those of
// bind_codec.c.
#include "bind/base/codec.h"
#include "bind/bind.h"

enum { ROWS = 1, MOST = 100000 }; // an argument; rows of one text

// --- packing ---

// Pushes the keys of the rows as a list.
static lua_Integer push_keys(lua_State *L, lua_Integer rows) {
    lua_Integer count = 0;
    lua_newtable(L);
    lua_newtable(L);
    int keys = lua_gettop(L) - 1, seen = keys + 1;
    for (lua_Integer i = 1; i <= rows; i++) {
        lua_rawgeti(L, ROWS, i);
        luaL_argcheck(L, lua_istable(L, -1), ROWS, "not a list of rows");
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING, ROWS, "a field without a name");
            lua_pushvalue(L, -2);
            if (lua_rawget(L, seen) == LUA_TNIL) {
                lua_pushvalue(L, -3);
                lua_rawseti(L, keys, ++count);
                lua_pushvalue(L, -3);
                lua_pushboolean(L, true);
                lua_rawset(L, seen);
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return count;
}

// Pushes the value of a row for the key at the index.
static int push_cell(lua_State *L, lua_Integer row, int key) {
    lua_rawgeti(L, ROWS, row);
    lua_pushvalue(L, key);
    int type = lua_rawget(L, -2);
    lua_remove(L, -2);
    return type;
}

// Whether two values have the same encoding; lua_rawequal alone takes 1 for 1.0, and 0.0 for -0.0.
static bool are_same(lua_State *L, int a, int b) {
    bool are_numbers = lua_type(L, a) == LUA_TNUMBER;
    return !lua_istable(L, a) && lua_rawequal(L, a, b) &&
           (!are_numbers || (lua_isinteger(L, a) && lua_isinteger(L, b)));
}

// How the column with the key on top of the stack is written.
static char letter_of(lua_State *L, lua_Integer rows) {
    int key = lua_gettop(L), first = key + 1;
    bool is_float = true, is_one = true;
    push_cell(L, 1, key);
    for (lua_Integer i = 1; i <= rows && (is_float || is_one); i++) {
        bool is_number = push_cell(L, i, key) == LUA_TNUMBER;
        is_float = is_float && is_number && !lua_isinteger(L, -1);
        is_one = is_one && are_same(L, first, -1);
        lua_pop(L, 1);
    }
    lua_settop(L, key);
    return is_float ? 'd' : is_one ? '=' : 'v';
}

// Writes the column with the key on top of the stack.
static void put_column(tperf_codec_writer *w, lua_Integer rows) {
    lua_State *L = w->L;
    int key = lua_gettop(L);
    char letter = letter_of(L, rows);
    tperf_codec_put_value(w);
    tperf_codec_put_letter(w, letter);
    for (lua_Integer i = 1; i <= (letter == '=' ? 1 : rows); i++) {
        push_cell(L, i, key);
        if (letter == 'd')
            tperf_codec_put_float(w, lua_tonumber(L, -1));
        else
            tperf_codec_put_value(w);
        lua_pop(L, 1);
    }
}

static int pack(lua_State *L) {
    tperf_codec_writer w;
    luaL_checktype(L, ROWS, LUA_TTABLE);
    lua_Integer rows = (lua_Integer)lua_rawlen(L, ROWS);
    luaL_argcheck(L, rows <= MOST, ROWS, "too many rows");
    lua_settop(L, ROWS);
    tperf_codec_begin(L, &w, TPERF_PLAIN, 0);
    lua_Integer columns = push_keys(L, rows);
    tperf_codec_put_count(&w, (uint64_t)rows);
    tperf_codec_put_count(&w, (uint64_t)columns);
    for (lua_Integer i = 1; i <= columns; i++) {
        lua_rawgeti(L, w.strings + 1, i);
        put_column(&w, rows);
        lua_pop(L, 1);
    }
    tperf_codec_finish(&w);
    return 1;
}

// --- unpacking ---

static int get_number(tperf_codec_reader *r, ptrdiff_t most) {
    uint64_t n = tperf_codec_get_count(r);
    if (n > (uint64_t)most) tperf_codec_spoilt(r);
    return (int)n;
}

// Pushes the next value of a column; `all`: the index of the one that all rows have.
static void push_value(tperf_codec_reader *r, char letter, int all) {
    if (letter == 'd')
        lua_pushnumber(r->L, tperf_codec_get_float(r));
    else if (letter == '=')
        lua_pushvalue(r->L, all);
    else
        tperf_codec_get_value(r);
}

// Reads a column into the rows, which lie on the stack from index `row`.
static void get_column(tperf_codec_reader *r, int row, int rows) {
    lua_State *L = r->L;
    tperf_codec_get_value(r);
    int key = lua_gettop(L);
    char letter = (char)tperf_codec_get_letter(r);
    if (lua_type(L, key) != LUA_TSTRING || (letter != 'd' && letter != '=' && letter != 'v'))
        tperf_codec_spoilt(r);
    if (letter == '=') tperf_codec_get_value(r);
    for (int i = 0; i < rows; i++) {
        lua_pushvalue(L, key);
        push_value(r, letter, key + 1);
        lua_rawset(L, row + i);
    }
    lua_settop(L, key - 1);
}

// Reads the numbers of rows and columns.
static int get_size(tperf_codec_reader *r, int *columns) {
    int rows = get_number(r, MOST);
    *columns = get_number(r, r->end - r->at);
    return rows;
}

static int blank_rows(lua_State *L) {
    tperf_codec_reader r;
    int columns;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    tperf_codec_open(L, &r, 1, 0);
    int rows = get_size(&r, &columns);
    lua_createtable(L, rows, 0);
    for (int i = 1; i <= rows; i++) {
        lua_createtable(L, 0, columns);
        lua_pushvalue(L, 2);
        lua_setmetatable(L, -2);
        lua_rawseti(L, -2, i);
    }
    return 1;
}

// Pushes the rows.
static void push_rows(lua_State *L, int rows) {
    luaL_argcheck(L, lua_rawlen(L, ROWS) == (size_t)rows, ROWS, "not as many rows");
    luaL_checkstack(L, rows + LUA_MINSTACK, "too many rows");
    for (int i = 1; i <= rows; i++) {
        lua_rawgeti(L, ROWS, i);
        luaL_argcheck(L, lua_istable(L, -1), ROWS, "not a list of rows");
    }
}

static int fill(lua_State *L) {
    tperf_codec_reader r;
    int columns;
    luaL_checktype(L, ROWS, LUA_TTABLE);
    lua_settop(L, 2);
    tperf_codec_open(L, &r, 2, 0);
    int rows = get_size(&r, &columns), first = lua_gettop(L) + 1;
    push_rows(L, rows);
    for (int i = 0; i < columns; i++)
        get_column(&r, first, rows);
    tperf_codec_close(&r);
    for (int i = 0; i < rows; i++) { // only now, so that none looks complete if memory runs out
        lua_pushnil(L);
        lua_setmetatable(L, first + i);
    }
    return 0;
}

static int list(lua_State *L) {
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0 && n <= INT32_MAX, 1, "too long");
    lua_createtable(L, (int)n, 0);
    return 1;
}

void tperf_bind_rows(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"pack", pack}, {"rows", blank_rows}, {"fill", fill}, {"list", list}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
