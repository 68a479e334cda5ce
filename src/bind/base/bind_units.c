// bind_units.c: tperf.core.units, see tperf/units.h.
#include "bind/bind.h"
#include "tperf/units.h"

// parse(text, unit) -> number, or nil and the error
static int parse(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    tperf_unit unit = (tperf_unit)luaL_checkoption(L, 2, NULL, tperf_unit_names);
    double value;
    tperf_error error;
    if (tperf_unit_parse(text, size, unit, &value, &error) == TPERF_OK) {
        lua_pushnumber(L, value);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, error.message);
    return 2;
}

// format(number, unit [, digits = 4]) -> text
static int format(lua_State *L) {
    double value = luaL_checknumber(L, 1);
    tperf_unit unit = (tperf_unit)luaL_checkoption(L, 2, NULL, tperf_unit_names);
    lua_Integer digits = luaL_optinteger(L, 3, 4);
    luaL_argcheck(L, digits >= 1 && digits <= 15, 3, "must be from 1 to 15");
    char text[TPERF_UNIT_TEXT];
    tperf_unit_print(value, unit, (int)digits, text);
    lua_pushstring(L, text);
    return 1;
}

void tperf_bind_units(lua_State *L) {
    static const luaL_Reg functions[] = {{"parse", parse}, {"format", format}, {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_createtable(L, TPERF_UNIT_COUNT, 0); // names: all units
    for (int i = 0; i < TPERF_UNIT_COUNT; i++) {
        lua_pushstring(L, tperf_unit_names[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "names");
}
