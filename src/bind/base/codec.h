// codec.h: writes Lua values as bytes and reads them back; bind_codec.c has the format. Private to src/bind.
#ifndef TPERF_CODEC_H
#define TPERF_CODEC_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TPERF_CODEC_DEEPEST = 32 }; // nesting of tables

// What to do with a value that has no encoding of its own: refuse it, write its name, or write its address.
typedef enum tperf_codec_mode { TPERF_PLAIN, TPERF_NAMED, TPERF_IDENTITY } tperf_codec_mode;

typedef struct tperf_codec_text {
    char *bytes;
    size_t used, room;
} tperf_codec_text;

typedef struct tperf_codec_writer {
    lua_State *L;
    tperf_codec_text *out;
    tperf_codec_mode mode;
    int names, text, strings; // stack indices: the names; what owns `out`; the strings so far
    lua_Integer n_strings;
    const void *above[TPERF_CODEC_DEEPEST]; // the enclosing tables
    int depth;
    int keys[TPERF_CODEC_DEEPEST]; // stack indices of the keys that lead to the value
} tperf_codec_writer;

// Begins a text, for which it takes two slots of the stack. names: the stack index of the names, 0: none.
void tperf_codec_begin(lua_State *L, tperf_codec_writer *w, tperf_codec_mode mode, int names);
char *tperf_codec_room(tperf_codec_writer *w, size_t size); // for so many more bytes
void tperf_codec_put_letter(tperf_codec_writer *w, char letter);
void tperf_codec_put_count(tperf_codec_writer *w, uint64_t n);
void tperf_codec_put_float(tperf_codec_writer *w, lua_Number number); // 8 bytes
void tperf_codec_put_value(tperf_codec_writer *w); // the value on top of the stack
void tperf_codec_finish(tperf_codec_writer *w);    // pushes the text

typedef struct tperf_codec_reader {
    lua_State *L;
    const unsigned char *at, *end;
    int values, strings; // stack indices
    lua_Integer n_strings;
} tperf_codec_reader;

// Begins to read the text at an index of the stack, of which it takes a slot. values: the index of the values of names,
// 0: none. Functions that read raise if the text is spoilt.
void tperf_codec_open(lua_State *L, tperf_codec_reader *r, int bytes, int values);
int tperf_codec_spoilt(const tperf_codec_reader *r);
unsigned char tperf_codec_get_letter(tperf_codec_reader *r);
uint64_t tperf_codec_get_count(tperf_codec_reader *r);
lua_Number tperf_codec_get_float(tperf_codec_reader *r);
void tperf_codec_get_value(tperf_codec_reader *r);   // pushes it
void tperf_codec_close(const tperf_codec_reader *r); // raises if anything is left

// Adds pack, rows, fill and list to the table on top of the stack.
void tperf_bind_rows(lua_State *L);

#endif
