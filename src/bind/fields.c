// fields.c: see fields.h.
#include "bind/fields.h"

#include <lauxlib.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bind/bind.h"

enum { RECORD_FIELDS = 64 }; // at most: tperf_fields_read notes those given in a word

static const char *const expected[] = {
    [TPERF_FIELD_INTEGER] = "an integer", [TPERF_FIELD_NUMBER] = "a finite number",
    [TPERF_FIELD_FLAG] = "true or false", [TPERF_FIELD_INT32] = "an integer of 32 bits",
    [TPERF_FIELD_TEXT] = "a name",        [TPERF_FIELD_ANY] = "a value",
};

// Pushes the value at an index as text.
static const char *push_shown(lua_State *L, int index) {
    if (lua_isinteger(L, index))
        return tperf_bind_push_text(L, "%I", (LUAI_UACINT)lua_tointeger(L, index));
    if (lua_type(L, index) == LUA_TNUMBER)
        return tperf_bind_push_text(L, "%f", lua_tonumber(L, index));
    return luaL_tolstring(L, index, NULL);
}

static _Noreturn void fail_value(lua_State *L, const char *what, const tperf_field *field,
                                 int index) {
    const char *shown = push_shown(L, index);
    tperf_bind_fail(L, "%s: '%s' must be %s, got %s", what, field->name, expected[field->kind],
                    shown);
}

static bool store(lua_State *L, int index, const tperf_field *field, void *record) {
    void *slot = (char *)record + field->offset;
    int is_number = 0;
    switch (field->kind) {
    case TPERF_FIELD_INTEGER: {
        if (lua_type(L, index) != LUA_TNUMBER) return false;
        lua_Integer value = lua_tointegerx(L, index, &is_number);
        const lua_Integer limit = (lua_Integer)1 << 53;
        if (!is_number || value > limit || value < -limit) return false;
        *(int64_t *)slot = value;
        return true;
    }
    case TPERF_FIELD_NUMBER: {
        if (lua_type(L, index) != LUA_TNUMBER) return false;
        double value = lua_tonumber(L, index);
        if (!isfinite(value)) return false;
        *(double *)slot = value;
        return true;
    }
    case TPERF_FIELD_INT32: {
        if (lua_type(L, index) != LUA_TNUMBER) return false;
        lua_Integer value = lua_tointegerx(L, index, &is_number);
        if (!is_number || value < INT32_MIN || value > INT32_MAX) return false;
        *(int32_t *)slot = (int32_t)value;
        return true;
    }
    case TPERF_FIELD_FLAG:
        if (!lua_isboolean(L, index)) return false;
        *(bool *)slot = lua_toboolean(L, index);
        return true;
    case TPERF_FIELD_ANY:
        return true;
    case TPERF_FIELD_TEXT:
        break;
    }
    if (lua_type(L, index) != LUA_TSTRING) return false;
    *(const char **)slot = lua_tostring(L, index);
    return true;
}

// Pushes " (did you mean 'x'?)" for the key at `index`, or "".
static const char *push_suggestion(lua_State *L, int index, const tperf_field *fields) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "tperf.base.suggest") != LUA_TFUNCTION) return lua_pushliteral(L, "");
    lua_pushvalue(L, index);
    lua_newtable(L);
    for (const tperf_field *f = fields; f->name; f++) {
        lua_pushstring(L, f->name);
        lua_rawseti(L, -2, f - fields + 1);
    }
    lua_call(L, 2, 1);
    return lua_tostring(L, -1);
}

// Whether the string or other key at one index goes before that at another in messages: tables have no order.
static bool goes_before(lua_State *L, int one, int other) {
    if (lua_isnil(L, other)) return true;
    if (lua_type(L, one) != LUA_TSTRING || lua_type(L, other) != LUA_TSTRING)
        return lua_type(L, one) > lua_type(L, other);
    return lua_compare(L, one, other, LUA_OPLT);
}

// Raises for the unknown field whose key is at `index`.
static _Noreturn void fail_unknown(lua_State *L, int index, const char *what,
                                   const tperf_field *fields) {
    luaL_Buffer names;
    const char *suggestion = push_suggestion(L, index, fields);
    const char *shown = push_shown(L, index);
    luaL_buffinit(L, &names);
    for (const tperf_field *f = fields; f->name; f++) {
        if (f != fields) luaL_addstring(&names, ", ");
        luaL_addstring(&names, f->name);
    }
    luaL_pushresult(&names);
    tperf_bind_fail(L, "%s: unknown field '%s'%s; it has %s", what, shown, suggestion,
                    lua_tostring(L, -1));
}

// The field that the key at an index names, or the end of the list.
static const tperf_field *field_of_key(lua_State *L, int index, const tperf_field *fields) {
    const char *key = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    while (fields->name && (*fields->name != *key || strcmp(fields->name, key) != 0))
        fields++;
    return fields;
}

// Raises for one of the fields at fault, the same in every run.
static _Noreturn void fail_table(lua_State *L, int index, const char *what,
                                 const tperf_field *fields, void *record) {
    lua_pushnil(L); // the first of the unknown keys so far
    int first = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, index); lua_settop(L, first + 1)) {
        if (field_of_key(L, first + 1, fields)->name || !goes_before(L, first + 1, first)) continue;
        lua_copy(L, first + 1, first);
    }
    if (!lua_isnil(L, first)) fail_unknown(L, first, what, fields);
    while (tperf_bind_raw_field(L, index, fields->name) == LUA_TNIL ||
           store(L, -1, fields, record)) {
        lua_pop(L, 1);
        fields++;
    }
    fail_value(L, what, fields, -1);
}

void tperf_fields_read(lua_State *L, int index, const char *what, const tperf_field *fields,
                       void *record) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        tperf_bind_fail(L, "%s needs a table of fields, got %s", what, luaL_typename(L, index));
    unsigned long seen = 0; // bit i: fields[i] was given
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const tperf_field *field = field_of_key(L, -2, fields);
        if (!field->name || !store(L, -1, field, record)) {
            lua_settop(L, -3);
            fail_table(L, index, what, fields, record);
        }
        seen |= 1UL << (field - fields);
        lua_pop(L, 1);
    }
    for (const tperf_field *f = fields; f->name; f++)
        if (f->required && !(seen >> (f - fields) & 1))
            tperf_bind_fail(L, "%s: '%s' is missing", what, f->name);
}

bool tperf_fields_try(lua_State *L, int index, const tperf_field *fields, void *record) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index)) return false;
    unsigned long missing = 0;
    for (const tperf_field *f = fields; f->name; f++)
        if (f->required) missing |= 1UL << (f - fields);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const tperf_field *field = field_of_key(L, -2, fields);
        bool stored = field->name && store(L, -1, field, record);
        lua_pop(L, stored ? 1 : 2);
        if (!stored) return false;
        missing &= ~(1UL << (field - fields));
    }
    return missing == 0;
}

static tperf_field field_of(const tperf_record_field *f) {
    static const tperf_field_kind kinds[] = {
        [TPERF_TYPE_NUMBER] = TPERF_FIELD_NUMBER,
        [TPERF_TYPE_INTEGER] = TPERF_FIELD_INTEGER,
        [TPERF_TYPE_INT32] = TPERF_FIELD_INT32,
        [TPERF_TYPE_FLAG] = TPERF_FIELD_FLAG,
    };
    return (tperf_field){f->name, kinds[f->type], f->offset, isnan(f->initial)};
}

static void check_bounds(lua_State *L, const tperf_record *record, const void *of) {
    tperf_error error;
    if (tperf_record_check(record, of, &error) != TPERF_OK) tperf_bind_raise(L, &error);
}

void tperf_record_take(lua_State *L, int index, const tperf_record *record, void *of) {
    index = lua_absindex(L, index);
    memset(of, 0, record->size);
    for (const tperf_record_field *f = record->fields; f->name; f++) {
        tperf_field field = field_of(f);
        if (tperf_bind_raw_field(L, index, f->name) == LUA_TNIL)
            tperf_bind_fail(L, "%s: '%s' is missing", record->name, f->name);
        if (!store(L, -1, &field, of)) fail_value(L, record->name, &field, -1);
        lua_pop(L, 1);
    }
    check_bounds(L, record, of);
}

void tperf_record_read(lua_State *L, int index, const tperf_record *record, void *of) {
    tperf_field fields[RECORD_FIELDS + 1];
    int n = 0;
    for (const tperf_record_field *f = record->fields; f->name && n < RECORD_FIELDS; f++)
        fields[n++] = field_of(f);
    fields[n] = (tperf_field){0};
    tperf_record_init(record, of);
    tperf_fields_read(L, index, record->name, fields, of);
    check_bounds(L, record, of);
}

void tperf_record_push(lua_State *L, const tperf_record *record, const void *of) {
    enum { MORE = 3 };
    int n = MORE;
    for (const tperf_record_field *f = record->fields; f->name; f++)
        n++;
    lua_createtable(L, 0, n);
    tperf_record_set(L, record, of);
}

void tperf_record_set(lua_State *L, const tperf_record *record, const void *of) {
    for (const tperf_record_field *f = record->fields; f->name; f++) {
        double value = tperf_record_get(f, of);
        if (f->type == TPERF_TYPE_FLAG)
            lua_pushboolean(L, value != 0);
        else if (f->type == TPERF_TYPE_NUMBER)
            lua_pushnumber(L, value);
        else
            lua_pushinteger(L, (lua_Integer)value);
        lua_setfield(L, -2, f->name);
    }
}

void tperf_fields_set(lua_State *L, const char *name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

int tperf_bind_raw_field(lua_State *L, int index, const char *name) {
    index = lua_absindex(L, index);
    lua_pushstring(L, name);
    return lua_rawget(L, index);
}

static _Noreturn void fail_hole(lua_State *L, int index, const char *what) {
    lua_Integer hole = 1;
    while (lua_rawgeti(L, index, hole) != LUA_TNIL) {
        lua_pop(L, 1);
        hole++;
    }
    tperf_bind_fail(L, "%s: [%I] is nil: a list has no holes", what, (LUAI_UACINT)hole);
}

size_t tperf_bind_length(lua_State *L, int index, const char *what) {
    index = lua_absindex(L, index);
    luaL_checkstack(L, 2, what);
    if (!lua_istable(L, index))
        tperf_bind_fail(L, "%s must be a list, got %s", what, luaL_typename(L, index));
    lua_Integer last = 0, count = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        lua_Integer key = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        count += key >= 1;
        if (key > last) last = key;
    }
    if (count != last) fail_hole(L, index, what);
    return (size_t)last;
}

size_t tperf_bind_push_list(lua_State *L, int index, const char *what) {
    index = lua_absindex(L, index);
    size_t n = tperf_bind_length(L, index, what);
    if (n > TPERF_LIST_MAX) tperf_bind_fail(L, "%s has more than %d members", what, TPERF_LIST_MAX);
    lua_createtable(L, (int)n, 0);
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        lua_rawseti(L, -2, (lua_Integer)i);
    }
    return n;
}
