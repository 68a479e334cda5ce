// pattern_lib.c: string.find, match, gmatch and gsub, using the matcher with a budget.
#include <lauxlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/pattern/pattern.h"

enum { ITEMS_ON_STACK = 40, ITEM_STEPS = 32, BYTES_PER_STEP = 8 };

typedef struct search {
    tperf_pattern pattern;
    tperf_match match;
    tperf_pattern_item few[ITEMS_ON_STACK];
} search;

static void charge(void *context, uint64_t steps) {
    tperf_limits_charge(context, steps);
}

// Compiles the pattern at argument p for the text at argument t; a long pattern's items are a userdata, which is
// pushed.
static void search_init(lua_State *L, search *s, int t, int p, bool anchors) {
    size_t text_length, length;
    const char *text = luaL_checklstring(L, t, &text_length),
               *pattern = luaL_checklstring(L, p, &length);
    s->pattern.items = s->few;
    if (length >= ITEMS_ON_STACK) tperf_limits_charge(L, ITEM_STEPS * length);
    if (length >= ITEMS_ON_STACK)
        s->pattern.items = lua_newuserdatauv(L, (length + 1) * sizeof *s->few, 0);
    const char *error = tperf_pattern_compile(&s->pattern, pattern, length, anchors);
    if (error) luaL_error(L, "%s", error);
    s->match.pattern = &s->pattern;
    s->match.text = text;
    s->match.end = text + text_length;
    s->match.steps = 0;
    s->match.charge = charge;
    s->match.context = L;
}

// Pushes capture i; without captures in the pattern, number 0 is the whole match.
static void push_capture(lua_State *L, const search *s, int i, const char *start, const char *end) {
    const tperf_capture *capture = &s->match.captures[i];
    if (s->pattern.captures == 0)
        lua_pushlstring(L, start, (size_t)(end - start));
    else if (s->pattern.position[i])
        lua_pushinteger(L, capture->start - s->match.text + 1);
    else
        lua_pushlstring(L, capture->start, capture->length);
}

static int push_captures(lua_State *L, const search *s, const char *start, const char *end,
                         bool whole) {
    int count = s->pattern.captures == 0 && whole ? 1 : s->pattern.captures;
    luaL_checkstack(L, count, "too many captures");
    for (int i = 0; i < count; i++)
        push_capture(L, s, i, start, end);
    return count;
}

// The 0-based start from the optional argument i; -1 if it is past the end.
static ptrdiff_t start_of(lua_State *L, int i, size_t length) {
    lua_Integer init = luaL_optinteger(L, i, 1);
    if (init < 0) init = init < -(lua_Integer)length ? 1 : (lua_Integer)length + init + 1;
    if (init == 0) init = 1;
    return init > (lua_Integer)length + 1 ? -1 : (ptrdiff_t)init - 1;
}

static int find_plain(lua_State *L, const char *text, size_t length, ptrdiff_t from) {
    size_t wanted_length;
    const char *wanted = lua_tolstring(L, 2, &wanted_length);
    const char *found = memmem(text + from, length - (size_t)from, wanted, wanted_length);
    size_t passed = found ? (size_t)(found - text - from) : length - (size_t)from;
    tperf_limits_charge(L, (passed + wanted_length) / BYTES_PER_STEP);
    if (!found) return lua_pushnil(L), 1;
    lua_pushinteger(L, found - text + 1);
    lua_pushinteger(L, found - text + (lua_Integer)wanted_length);
    return 2;
}

static int find_or_match(lua_State *L, bool find) {
    size_t length, pattern_length;
    const char *text = luaL_checklstring(L, 1, &length),
               *pattern = luaL_checklstring(L, 2, &pattern_length);
    ptrdiff_t from = start_of(L, 3, length);
    if (from < 0) return lua_pushnil(L), 1;
    bool plain = lua_toboolean(L, 4) ||
                 (strlen(pattern) == pattern_length && !strpbrk(pattern, "^$*+?.([%-"));
    if (find && plain) return find_plain(L, text, length, from);
    search s;
    search_init(L, &s, 1, 2, true);
    for (const char *start = text + from; start <= s.match.end; start++) {
        const char *end = tperf_pattern_match(&s.match, start);
        if (!end && s.pattern.anchored) break;
        if (!end) continue;
        if (!find) return push_captures(L, &s, start, end, true);
        lua_pushinteger(L, start - text + 1);
        lua_pushinteger(L, end - text);
        return 2 + push_captures(L, &s, start, end, false);
    }
    return lua_pushnil(L), 1;
}

static int pattern_find(lua_State *L) {
    return find_or_match(L, true);
}

static int pattern_match(lua_State *L) {
    return find_or_match(L, false);
}

typedef struct gmatch {
    search search;
    const char *at, *last_end; // a match at the end of the previous one may not be empty
} gmatch;

static int gmatch_next(lua_State *L) {
    gmatch *g = lua_touserdata(L, lua_upvalueindex(3));
    g->search.match.context = L; // the calling coroutine
    for (; g->at <= g->search.match.end; g->at++) {
        const char *start = g->at, *end = tperf_pattern_match(&g->search.match, start);
        if (!end || end == g->last_end) continue;
        g->at = g->last_end = end;
        return push_captures(L, &g->search, start, end, true);
    }
    return 0;
}

static int pattern_gmatch(lua_State *L) {
    size_t length;
    luaL_checklstring(L, 1, &length);
    luaL_checkstring(L, 2);
    ptrdiff_t from = start_of(L, 3, length);
    lua_settop(L, 2);
    gmatch *g = lua_newuserdatauv(L, sizeof *g, 1);
    search_init(L, &g->search, 1, 2, false);
    g->at = from < 0 ? g->search.match.end + 1 : g->search.match.text + from;
    g->last_end = NULL;
    if (lua_gettop(L) == 4)
        lua_setiuservalue(L, 3, 1); // keeps the items of a long pattern alive with g
    lua_pushcclosure(L, gmatch_next, 3);
    return 1;
}

// Adds the replacement text: "%1" is a capture, "%0" the match and "%%" a "%".
static void add_text(lua_State *L, luaL_Buffer *out, const search *s, const char *start,
                     const char *end) {
    size_t length;
    const char *text = lua_tolstring(L, 3, &length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '%') {
            luaL_addchar(out, text[i]);
            continue;
        }
        char c = text[++i]; // at worst the NUL that ends every Lua string
        int index = c - '1';
        if (c == '%')
            luaL_addchar(out, '%');
        else if (c == '0')
            luaL_addlstring(out, start, (size_t)(end - start));
        else if (c < '1' || c > '9')
            luaL_error(L, "invalid use of '%%' in replacement string");
        else if (index >= s->pattern.captures && index > 0)
            luaL_error(L, "invalid capture index %%%d in replacement string", index + 1);
        else {
            push_capture(L, s, index, start, end);
            luaL_tolstring(L, -1, NULL); // a position is a number
            lua_remove(L, -2);
            luaL_addvalue(out);
        }
    }
}

static void add_replacement(lua_State *L, luaL_Buffer *out, const search *s, const char *start,
                            const char *end) {
    int kind = lua_type(L, 3);
    if (kind == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        int count = push_captures(L, s, start, end, true);
        lua_call(L, count, 1);
    } else if (kind == LUA_TTABLE) {
        push_capture(L, s, 0, start, end);
        lua_gettable(L, 3);
    } else {
        add_text(L, out, s, start, end);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(out, start, (size_t)(end - start));
    } else if (lua_isstring(L, -1)) {
        luaL_addvalue(out);
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

static int pattern_gsub(lua_State *L) {
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    int kind = lua_type(L, 3);
    luaL_argexpected(L,
                     kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION ||
                         kind == LUA_TTABLE,
                     3, "string/function/table");
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1), count = 0;
    search s;
    search_init(L, &s, 1, 2, true);
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    const char *last_end = NULL;
    for (const char *at = text; count < most;) {
        const char *end = tperf_pattern_match(&s.match, at);
        if (end && end != last_end) {
            count++;
            add_replacement(L, &out, &s, at, end);
            at = last_end = end;
        } else if (at < s.match.end) {
            luaL_addchar(&out, *at++);
        } else {
            break;
        }
        text = at;
        if (s.pattern.anchored) break;
    }
    luaL_addlstring(&out, text, (size_t)(s.match.end - text));
    luaL_pushresult(&out);
    lua_pushinteger(L, count);
    return 2;
}

void tperf_pattern_add(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"find", pattern_find},
        {"match", pattern_match},
        {"gmatch", pattern_gmatch},
        {"gsub", pattern_gsub},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
