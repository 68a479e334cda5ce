// bind_codec.c: tperf.core.codec: plain values to bytes and back, exactly: integers stay integers, floats keep every
// bit, and tables have one order, so that equal values give equal bytes.
//   codec.encode(value, names?) -> bytes; raises for a value without an encoding, naming its place
//   codec.identity(value) -> bytes that tell values apart within one run: tables with a metatable, functions and the
//       like are encoded by identity
//   codec.decode(bytes, values?) -> the value; raises for malformed bytes
// Without names, metatables are ignored. names: the names of values such as functions, and of objects' metatables;
// values maps them back.
//
// Encoding: a letter, then its data. N, T, F: nil, true, false; i: an integer (LEB128, zigzag); d: a float (8 bytes,
// little-endian); s: a string (length, bytes); r: the n-th earlier string, from 0; l: a list (length, items); t: a
// table (count; alternating keys and values, numbers first, then strings); k: a named value; o: an object (its
// metatable's name, then as t or l).
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bind/base/codec.h"
#include "bind/bind.h"

// Nesting of tables; stack slots per level; strings for which there is room at first.
enum { DEEPEST = TPERF_CODEC_DEEPEST, TAKES = 8, FEW = 8 };

typedef tperf_codec_text text;
typedef tperf_codec_writer writer;
typedef tperf_codec_reader reader;

// --- writing ---

static const char text_type[] = "tperf.text";

static int free_text(lua_State *L) {
    text *t = lua_touserdata(L, 1);
    void *owner;
    lua_Alloc resize = lua_getallocf(L, &owner);
    if (t->bytes) resize(owner, t->bytes, t->room, 0);
    *t = (text){0};
    return 0;
}

char *tperf_codec_room(writer *w, size_t size) {
    text *t = w->out;
    if (t->room - t->used < size) {
        void *owner;
        lua_Alloc resize = lua_getallocf(w->L, &owner);
        size_t room = 2 * t->room + size + 256;
        char *bytes = resize(owner, t->bytes, t->room, room);
        if (!bytes) luaL_error(w->L, "not enough memory");
        t->bytes = bytes;
        t->room = room;
    }
    t->used += size;
    return t->bytes + t->used - size;
}

void tperf_codec_put_letter(writer *w, char letter) {
    *tperf_codec_room(w, 1) = letter;
}
void tperf_codec_put_count(writer *w, uint64_t n) {
    for (; n >= 0x80; n >>= 7)
        tperf_codec_put_letter(w, (char)(n | 0x80));
    tperf_codec_put_letter(w, (char)n);
}

void tperf_codec_put_float(writer *w, lua_Number number) {
    uint64_t bits;
    char *to = tperf_codec_room(w, sizeof bits);
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 8; i++)
        to[i] = (char)(bits >> 8 * i);
}

static void put_string(writer *w, int index) {
    lua_State *L = w->L;
    size_t size;
    const char *bytes = lua_tolstring(L, index, &size);
    lua_pushvalue(L, index);
    if (lua_rawget(L, w->strings) == LUA_TNUMBER) {
        tperf_codec_put_letter(w, 'r');
        tperf_codec_put_count(w, (uint64_t)lua_tointeger(L, -1));
    } else {
        tperf_codec_put_letter(w, 's');
        tperf_codec_put_count(w, size);
        memcpy(tperf_codec_room(w, size), bytes, size);
        lua_pushvalue(L, index);
        lua_pushinteger(L, w->n_strings++);
        lua_rawset(L, w->strings);
    }
    lua_pop(L, 1);
}

static void put_number(writer *w, int index) {
    if (lua_isinteger(w->L, index)) {
        uint64_t n = (uint64_t)lua_tointeger(w->L, index);
        tperf_codec_put_letter(w, 'i');
        tperf_codec_put_count(w, n << 1 ^ (0 - (n >> 63)));
        return;
    }
    tperf_codec_put_letter(w, 'd');
    tperf_codec_put_float(w, lua_tonumber(w->L, index));
}

// Raises: a value of this kind has no encoding.
static int refuse(writer *w, const char *kind, const char *more) {
    lua_State *L = w->L;
    luaL_checkstack(L, 3 * DEEPEST, "tables within tables");
    lua_pushliteral(L, "'");
    int parts = 1;
    for (int i = 0; i < w->depth; i++, parts += 2) {
        lua_pushstring(L, i > 0 ? "." : "");
        luaL_tolstring(L, w->keys[i], NULL);
    }
    lua_pushfstring(L, "' is a %s%s", kind, more);
    lua_concat(L, parts + 1);
    return lua_error(L);
}

// Whether the value on top of the stack has a name, which is then pushed.
static bool push_name(writer *w) {
    lua_pushvalue(w->L, -1);
    if (lua_rawget(w->L, w->names) == LUA_TSTRING) return true;
    lua_pop(w->L, 1);
    return false;
}

// Encodes the value on top of the stack, which has no plain encoding.
static void put_odd(writer *w) {
    lua_State *L = w->L;
    if (w->mode == TPERF_IDENTITY) {
        const void *pointer = lua_topointer(L, -1);
        tperf_codec_put_letter(w, 'k');
        tperf_codec_put_count(w, (uintptr_t)pointer);
        return;
    }
    if (w->mode == TPERF_NAMED && push_name(w)) {
        tperf_codec_put_letter(w, 'k');
        put_string(w, lua_gettop(L));
        lua_pop(L, 1);
        return;
    }
    refuse(w, luaL_typename(L, -1), "");
}

typedef struct key {
    int kind; // 1: a number, 2: a string, 3: any other
    int index;
    size_t size;
    const char *bytes;
    long double number;
} key;

static int compare_keys(const void *left, const void *right) {
    const key *a = left, *b = right;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind != 2) return (a->number > b->number) - (a->number < b->number);
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static key key_at(lua_State *L, int index) {
    key k = {.index = index, .kind = 3};
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        k.kind = 1;
        k.number =
            lua_isinteger(L, index) ? (long double)lua_tointeger(L, index) : lua_tonumber(L, index);
        break;
    case LUA_TSTRING:
        k.kind = 2;
        k.bytes = lua_tolstring(L, index, &k.size);
        break;
    case LUA_TBOOLEAN:
        k.number = lua_toboolean(L, index);
        break;
    default:
        k.number = (long double)(uintptr_t)lua_topointer(L, index);
    }
    return k;
}

// Encodes the value for the key at `index` of the table at `table`.
static void put_field(writer *w, int table, int index) {
    w->keys[w->depth++] = index;
    lua_pushvalue(w->L, index);
    lua_rawget(w->L, table);
    tperf_codec_put_value(w);
    lua_pop(w->L, 1);
    w->depth--;
}

static void put_list(writer *w, int table, lua_Integer length) {
    tperf_codec_put_letter(w, 'l');
    tperf_codec_put_count(w, (uint64_t)length);
    for (lua_Integer i = 1; i <= length; i++) {
        lua_pushinteger(w->L, i);
        put_field(w, table, lua_gettop(w->L));
        lua_pop(w->L, 1);
    }
}

// Pushes the keys and returns their number; *is_list: they are 1 … n, and are not pushed.
static int push_keys(lua_State *L, int table, bool *is_list) {
    lua_Integer length = (lua_Integer)lua_rawlen(L, table), count = 0, inside = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1), count++) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= length)
            inside++;
    }
    *is_list = count == length && inside == length;
    if (*is_list) return (int)length;
    luaL_checkstack(L, count < 900000 ? (int)count + TAKES : 1 << 30, "too many fields");
    lua_pushnil(L);
    while (lua_next(L, table)) { // takes the last copy of a key, and leaves the other
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
    }
    return (int)count;
}

static void put_table(writer *w, int table) {
    lua_State *L = w->L;
    bool is_list;
    int first = lua_gettop(L) + 1, count = push_keys(L, table, &is_list);
    if (is_list) {
        put_list(w, table, count);
        return;
    }
    lua_settop(L, first + count - 1);
    key *keys = lua_newuserdatauv(L, (size_t)count * sizeof *keys, 0);
    for (int i = 0; i < count; i++)
        keys[i] = key_at(L, first + i);
    qsort(keys, (size_t)count, sizeof *keys, compare_keys);
    tperf_codec_put_letter(w, 't');
    tperf_codec_put_count(w, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        lua_pushvalue(L, keys[i].index);
        tperf_codec_put_value(w);
        lua_pop(L, 1);
        put_field(w, table, keys[i].index);
    }
    lua_settop(L, first - 1);
}

static bool is_above(const writer *w, const void *table) {
    int i = 0;
    while (i < w->depth && w->above[i] != table)
        i++;
    return i < w->depth;
}

// Whether to encode the fields of the table on top; writes its metatable's name first.
static bool begin_table(writer *w) {
    lua_State *L = w->L;
    if (w->mode == TPERF_PLAIN) return true;
    if (w->mode == TPERF_NAMED && push_name(w)) return false;
    if (!lua_getmetatable(L, -1)) return true;
    if (w->mode == TPERF_IDENTITY) return w->depth == 0;
    if (!push_name(w)) return false;
    tperf_codec_put_letter(w, 'o');
    put_string(w, lua_gettop(L));
    return true;
}

static void put_value_of_table(writer *w) {
    lua_State *L = w->L;
    tperf_bind_plain(L, -1);
    const void *self = lua_topointer(L, -1);
    int table = lua_gettop(L);
    bool too_deep = w->depth >= DEEPEST || is_above(w, self);
    if (too_deep && w->mode != TPERF_IDENTITY)
        refuse(w, "table", " that lies too deep, or within itself");
    bool by_fields = !too_deep && begin_table(w);
    lua_settop(L, table);
    if (!by_fields) {
        put_odd(w);
        return;
    }
    w->above[w->depth] = self;
    put_table(w, table);
    lua_settop(L, table);
}

void tperf_codec_put_value(writer *w) {
    lua_State *L = w->L;
    luaL_checkstack(L, TAKES + 4, "tables within tables");
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
        tperf_codec_put_letter(w, lua_isnil(L, -1) ? 'N' : lua_toboolean(L, -1) ? 'T' : 'F');
        break;
    case LUA_TNUMBER:
        put_number(w, lua_gettop(L));
        break;
    case LUA_TSTRING:
        put_string(w, lua_gettop(L));
        break;
    case LUA_TTABLE:
        put_value_of_table(w);
        break;
    default:
        put_odd(w);
    }
}

void tperf_codec_begin(lua_State *L, writer *w, tperf_codec_mode mode, int names) {
    *w = (writer){.L = L, .mode = mode, .names = names};
    w->out = tperf_bind_new(L, sizeof(text), text_type, free_text);
    w->text = lua_gettop(L);
    lua_createtable(L, 0, FEW);
    w->strings = w->text + 1;
}

void tperf_codec_finish(writer *w) {
    lua_pushlstring(w->L, w->out->bytes, w->out->used);
    lua_pushcfunction(w->L, free_text);
    lua_pushvalue(w->L, w->text);
    lua_call(w->L, 1, 0);
}

static int write_as(lua_State *L, tperf_codec_mode mode) {
    writer w;
    lua_settop(L, 2);
    tperf_codec_begin(L, &w, mode, 2);
    lua_pushvalue(L, 1);
    tperf_codec_put_value(&w);
    tperf_codec_finish(&w);
    return 1;
}

static int encode(lua_State *L) {
    return write_as(L, lua_istable(L, 2) ? TPERF_NAMED : TPERF_PLAIN);
}
static int identity(lua_State *L) {
    return write_as(L, TPERF_IDENTITY);
}

// --- reading ---

int tperf_codec_spoilt(const reader *r) {
    lua_pushliteral(r->L, "not an encoded value");
    return lua_error(r->L);
}

unsigned char tperf_codec_get_letter(reader *r) {
    return r->at == r->end ? (unsigned char)tperf_codec_spoilt(r) : *r->at++;
}

uint64_t tperf_codec_get_count(reader *r) {
    uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char byte = tperf_codec_get_letter(r);
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return n;
    }
    return (uint64_t)tperf_codec_spoilt(r);
}

// Reads a count of items of at least one byte each.
static int get_length(reader *r) {
    uint64_t n = tperf_codec_get_count(r);
    if (n > (uint64_t)(r->end - r->at) || n > INT32_MAX) tperf_codec_spoilt(r);
    return (int)n;
}

lua_Number tperf_codec_get_float(reader *r) {
    const unsigned char *p = r->at;
    lua_Number number;
    if (r->end - p < (ptrdiff_t)sizeof number) tperf_codec_spoilt(r);
    r->at += sizeof number;
    uint64_t bits = (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
                    (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 |
                    (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56; // which compilers make a load
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void get_string(reader *r) {
    int size = get_length(r);
    lua_pushlstring(r->L, (const char *)r->at, (size_t)size);
    r->at += size;
    lua_pushvalue(r->L, -1);
    lua_rawseti(r->L, r->strings, r->n_strings++);
}

static void get_value(reader *r, int depth);

// Reads a named value, or an object's metatable.
static void get_named(reader *r) {
    get_value(r, DEEPEST);
    if (!r->values || lua_type(r->L, -1) != LUA_TSTRING) tperf_codec_spoilt(r);
    if (lua_rawget(r->L, r->values) == LUA_TNIL) tperf_codec_spoilt(r);
}

static void get_list(reader *r, int depth) {
    int length = get_length(r);
    lua_createtable(r->L, length, 0);
    for (int i = 1; i <= length; i++) {
        get_value(r, depth + 1);
        lua_rawseti(r->L, -2, i);
    }
}

static void get_table(reader *r, int depth) {
    int count = get_length(r);
    lua_createtable(r->L, 0, count);
    for (int i = 0; i < count; i++) {
        get_value(r, depth + 1);
        if (lua_isnil(r->L, -1) ||
            (lua_type(r->L, -1) == LUA_TNUMBER && lua_tonumber(r->L, -1) != lua_tonumber(r->L, -1)))
            tperf_codec_spoilt(r);
        get_value(r, depth + 1);
        lua_rawset(r->L, -3);
    }
}

static void get_object(reader *r, int depth) {
    get_named(r);
    if (!lua_istable(r->L, -1)) tperf_codec_spoilt(r);
    get_value(r, depth);
    if (!lua_istable(r->L, -1)) tperf_codec_spoilt(r);
    lua_insert(r->L, -2);
    lua_setmetatable(r->L, -2);
}

static void get_value(reader *r, int depth) {
    lua_State *L = r->L;
    unsigned char letter = tperf_codec_get_letter(r);
    uint64_t n;
    if (depth == DEEPEST && strchr("lto", letter)) tperf_codec_spoilt(r);
    luaL_checkstack(L, TAKES, "tables within tables");
    switch (letter) {
    case 'N':
        lua_pushnil(L);
        break;
    case 'T':
    case 'F':
        lua_pushboolean(L, letter == 'T');
        break;
    case 'i':
        n = tperf_codec_get_count(r);
        lua_pushinteger(L, (lua_Integer)(n >> 1 ^ (0 - (n & 1))));
        break;
    case 'd':
        lua_pushnumber(L, tperf_codec_get_float(r));
        break;
    case 's':
        get_string(r);
        break;
    case 'r':
        if (lua_rawgeti(L, r->strings, (lua_Integer)tperf_codec_get_count(r)) != LUA_TSTRING)
            tperf_codec_spoilt(r);
        break;
    case 'l':
        get_list(r, depth);
        break;
    case 't':
        get_table(r, depth);
        break;
    case 'k':
        get_named(r);
        break;
    case 'o':
        get_object(r, depth);
        break;
    default:
        tperf_codec_spoilt(r);
    }
}

void tperf_codec_get_value(reader *r) {
    get_value(r, 0);
}

void tperf_codec_open(lua_State *L, reader *r, int bytes, int values) {
    size_t size;
    const char *at = luaL_checklstring(L, bytes, &size);
    lua_createtable(L, FEW, 1);
    *r = (reader){
        .L = L, .at = (const unsigned char *)at, .values = values, .strings = lua_gettop(L)};
    r->end = r->at + size;
}

void tperf_codec_close(const reader *r) {
    if (r->at != r->end) tperf_codec_spoilt(r);
}

static int decode(lua_State *L) {
    reader r;
    lua_settop(L, 2);
    tperf_codec_open(L, &r, 1, lua_istable(L, 2) ? 2 : 0);
    get_value(&r, 0);
    tperf_codec_close(&r);
    return 1;
}

void tperf_bind_codec(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"encode", encode}, {"identity", identity}, {"decode", decode}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
