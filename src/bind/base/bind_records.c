// bind_records.c: the records that cross between Lua and the core as data (tperf/record.h):
//   core.record(name) -> list of { name, kind, unit, doc, initial = (nil: it must be given), low, high }; of "software"
//     also from = "fitted", "stated" or "derived", usual = (nil: it must be stated)
//   core.record() -> the names of all records
//   core.reread(name, table) -> what the core has after reading the table
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "tperf/search.h"
#include "tperf/serve.h"
#include "tperf/transformer.h"

static const struct {
    const char *name;
    const tperf_record *record;
} records[] = {
    {"software", &tperf_software_record},     {"training", &tperf_training_record},
    {"rules", &tperf_rules_record},           {"pipeline", &tperf_pipeline_record},
    {"engine", &tperf_serve_pool_record},     {"step_table", &tperf_step_table_record},
    {"choice", &tperf_choice_record},         {"step_line", &tperf_step_line_record},
    {"search", &tperf_search_record},         {"inference", &tperf_inference_record},
    {"cache", &tperf_cache_record},           {"transformer", &tperf_transformer_record},
    {"deployment", &tperf_deployment_record},
};
enum { RECORDS = sizeof records / sizeof *records };

static size_t check_name(lua_State *L, int index) {
    const char *name = luaL_checkstring(L, index);
    for (size_t i = 0; i < RECORDS; i++)
        if (strcmp(name, records[i].name) == 0) return i;
    tperf_bind_fail(L, "no record is called '%s'", name);
}

static void set_text(lua_State *L, const char *name, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, tperf_field_type type, double value) {
    if (isnan(value)) return;
    if (type == TPERF_TYPE_FLAG)
        lua_pushboolean(L, value != 0);
    else if (value == floor(value) && fabs(value) < 0x1p53)
        lua_pushinteger(L, (lua_Integer)value); // as data files have it
    else
        lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static int describe(lua_State *L) {
    static const char *const kinds[] = {"number", "integer", "integer", "flag"};
    static const char *const sources[] = {"fitted", "stated", "derived"};
    const tperf_record *record = records[check_name(L, 1)].record;
    lua_newtable(L);
    for (const tperf_record_field *f = record->fields; f->name; f++) {
        lua_createtable(L, 0, 9);
        set_text(L, "name", f->name);
        set_text(L, "kind", kinds[f->type]);
        set_text(L, "unit", f->unit);
        set_text(L, "doc", f->doc);
        set_number(L, "initial", f->type, f->initial);
        set_number(L, "low", TPERF_TYPE_NUMBER, f->low);
        set_number(L, "high", TPERF_TYPE_NUMBER, f->high);
        if (record == &tperf_software_record) {
            const tperf_fact *fact = &tperf_software_facts[f - record->fields];
            set_text(L, "from", sources[fact->from]);
            set_number(L, "usual", f->type, fact->usual);
        }
        lua_rawseti(L, -2, f - record->fields + 1);
    }
    return 1;
}

static int list(lua_State *L) {
    lua_createtable(L, RECORDS, 0);
    for (size_t i = 0; i < RECORDS; i++) {
        lua_pushstring(L, records[i].name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int record(lua_State *L) {
    return lua_isnoneornil(L, 1) ? list(L) : describe(L);
}

static int reread(lua_State *L) {
    const tperf_record *of = records[check_name(L, 1)].record;
    void *read = lua_newuserdatauv(L, of->size, 0);
    tperf_record_read(L, 2, of, read);
    tperf_record_push(L, of, read);
    return 1;
}

void tperf_bind_records(lua_State *L) {
    lua_pushcfunction(L, record);
}

void tperf_bind_reread(lua_State *L) {
    lua_pushcfunction(L, reread);
}
