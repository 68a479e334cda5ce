// bind_csv.c: tperf.core.csv.record(text, at, columns): a record of comma-separated values (RFC 4180).
//
// Returns its fields by the names in `columns`, "" for those that it lacks, or as a list without that argument; how
// many it has, 0 for an empty line; the line ends within them; and where the next record begins. nil, a message and the
// line ends before: the text is no such record.
#include <string.h>

#include "bind/bind.h"

enum { TEXT = 1, AT, COLUMNS, ROW, FEW = 32 };

typedef struct reader {
    lua_State *L;
    const char *at, *end;
    lua_Integer lines;
    const char *wrong; // a message
} reader;

// The quote that ends a field; NULL: there is none. A doubled quote stands for one.
static const char *closing_quote(const char *at, const char *end, bool *doubled) {
    for (const char *quote; (quote = memchr(at, '"', (size_t)(end - at))); at = quote + 2) {
        if (quote + 1 == end || quote[1] != '"') return quote;
        *doubled = true;
    }
    return NULL;
}

static void push_with_doubled(lua_State *L, const char *from, const char *to) {
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    for (; from < to; from++) {
        luaL_addchar(&out, *from);
        if (*from == '"') from++;
    }
    luaL_pushresult(&out);
}

// Pushes the field, or sets `wrong`.
static void push_quoted(reader *r) {
    bool doubled = false;
    const char *from = r->at + 1, *to = closing_quote(from, r->end, &doubled);
    if (!to) {
        r->wrong = "a quoted field has no end";
        return;
    }
    if (doubled)
        push_with_doubled(r->L, from, to);
    else
        lua_pushlstring(r->L, from, (size_t)(to - from));
    for (const char *p = from; (p = memchr(p, '\n', (size_t)(to - p))); p++)
        r->lines++;
    r->at = to + 1;
    if (r->at < r->end && *r->at != ',' && *r->at != '\r' && *r->at != '\n')
        r->wrong = "a quoted field does not end where a comma or a line end is";
}

static void push_field(reader *r) {
    if (r->at < r->end && *r->at == '"') {
        push_quoted(r);
        return;
    }
    const char *from = r->at;
    while (r->at < r->end && *r->at != ',' && *r->at != '\r' && *r->at != '\n')
        r->at++;
    lua_pushlstring(r->L, from, (size_t)(r->at - from));
}

// Sets a field of the row to the value on top of the stack.
static void set_field(lua_State *L, lua_Integer i, lua_Integer columns) {
    if (!lua_istable(L, COLUMNS)) {
        lua_rawseti(L, ROW, i);
    } else if (i > columns) {
        lua_pop(L, 1);
    } else {
        lua_rawgeti(L, COLUMNS, i);
        lua_insert(L, -2);
        lua_rawset(L, ROW);
    }
}

static void skip_line_end(reader *r) {
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end && *r->at == '\n') r->at++;
}

static int fail(const reader *r) {
    lua_pushnil(r->L);
    lua_pushstring(r->L, r->wrong);
    lua_pushinteger(r->L, r->lines);
    return 3;
}

static int record(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, TEXT, &size);
    lua_Integer at = luaL_checkinteger(L, AT), fields = 0, columns = 0;
    luaL_argcheck(L, at >= 1 && (lua_Unsigned)at <= size, AT, "beyond the text");
    lua_settop(L, COLUMNS);
    if (lua_istable(L, COLUMNS)) columns = (lua_Integer)lua_rawlen(L, COLUMNS);
    lua_createtable(L, columns ? 0 : FEW, columns && columns < 4096 ? (int)columns + 1 : 0);
    reader r = {.L = L, .at = text + at - 1, .end = text + size};
    bool goes_on, is_empty;
    do {
        push_field(&r);
        if (r.wrong) return fail(&r);
        is_empty = lua_rawlen(L, -1) == 0;
        set_field(L, ++fields, columns);
        goes_on = r.at < r.end && *r.at == ',';
        if (goes_on) r.at++;
    } while (goes_on);
    skip_line_end(&r);
    for (lua_Integer i = fields + 1; i <= columns; i++) {
        lua_pushliteral(L, "");
        set_field(L, i, columns);
    }
    lua_pushinteger(L, fields == 1 && is_empty ? 0 : fields);
    lua_pushinteger(L, r.lines);
    lua_pushinteger(L, r.at - text + 1);
    return 4;
}

void tperf_bind_csv(lua_State *L) {
    static const luaL_Reg functions[] = {{"record", record}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
