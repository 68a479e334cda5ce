// fields.h: reads a Lua table of named fields into a C struct, as described by a table of fields; reads lists.
#ifndef TPERF_FIELDS_H
#define TPERF_FIELDS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "tperf/record.h"

typedef enum tperf_field_kind {
    TPERF_FIELD_INTEGER, // int64_t: -2^53 to 2^53, integral floats included
    TPERF_FIELD_NUMBER,  // double, finite
    TPERF_FIELD_FLAG,    // bool
    TPERF_FIELD_TEXT,    // const char *: valid as long as the table
    TPERF_FIELD_ANY,     // not stored: the caller reads it
    TPERF_FIELD_INT32,   // int32_t
} tperf_field_kind;

typedef struct tperf_field {
    const char *name; // NULL ends a list
    tperf_field_kind kind;
    size_t offset;
    bool required;
} tperf_field;

// Reads the table at `index` into `record`, which holds the defaults. Raises at the user's line, prefixed with `what`,
// if it is not a table, or for an unknown or missing field or a wrong type.
void tperf_fields_read(lua_State *L, int index, const char *what, const tperf_field *fields,
                       void *record);

// The same without raising: false if anything is wrong.
bool tperf_fields_try(lua_State *L, int index, const tperf_field *fields, void *record);

// The same for a record of the core: sets it to its initial values, reads it and checks its bounds.
void tperf_record_read(lua_State *L, int index, const tperf_record *record, void *of);

// The same of a table with further fields, which the caller reads, without initial values.
void tperf_record_take(lua_State *L, int index, const tperf_record *record, void *of);

// Sets the fields of the table on top of the stack.
void tperf_record_set(lua_State *L, const tperf_record *record, const void *of);

// Pushes a record as a table, with space for a few more fields.
void tperf_record_push(lua_State *L, const tperf_record *record, const void *of);

// Sets a field of the table on top of the stack.
void tperf_fields_set(lua_State *L, const char *name, double value);

// The length of the list at index. Raises for anything but a table, and for a list with holes, whose length lua_rawlen
// does not know; keys that are no positions do not matter. Every reader of a list from a script asks here.
size_t tperf_bind_length(lua_State *L, int index, const char *what);

// Pushes a copy of the list at index and returns its length, at most TPERF_LIST_MAX. Whatever is read more than once is
// read from such a copy, which metamethods and callbacks cannot change meanwhile.
enum { TPERF_LIST_MAX = 1 << 20 };
size_t tperf_bind_push_list(lua_State *L, int index, const char *what);
// lua_getfield without metamethods.
int tperf_bind_raw_field(lua_State *L, int index, const char *name);

#endif
