// embed.c: host tool of the build. Prints a C table of the Lua files named as arguments ("lua/tperf/init.lua" is module
// "tperf", "lua/tperf/describe/model/init.lua" is "tperf.describe.model"): their text and, if built with TPERF_COMPILES
// for the processor and the Lua that will run them, their compiled form. And one of the other files: their text.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TPERF_COMPILES
#include <lauxlib.h>
#endif

typedef struct buffer {
    size_t size, capacity;
    unsigned char *bytes;
} buffer;

static void die(const char *path, const char *why) {
    fprintf(stderr, "embed: %s: %s\n", path, why);
    exit(1);
}

static void append(buffer *b, const void *bytes, size_t size) {
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->bytes = realloc(b->bytes, b->capacity);
        if (!b->bytes) die("embed", "not enough memory");
    }
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

static buffer read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be read");
    buffer text = {0};
    char part[4096];
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;)
        append(&text, part, size);
    if (ferror(file)) die(path, "cannot be read");
    fclose(file);
    return text;
}

#ifdef TPERF_COMPILES

static int write_code(lua_State *L, const void *bytes, size_t size, void *code) {
    (void)L;
    append(code, bytes, size);
    return 0;
}

// --- names of variables ---
// Reading them takes 4 % of a search's instructions, and only messages about faults of the library itself would show
// them.
// The bytes are those of ldump.c in Lua 5.4; from one that writes others, the names are not dropped.

typedef struct cursor {
    const unsigned char *at, *end;
    buffer *kept; // NULL: what is passed is dropped
    bool lost;    // the bytes are others
} cursor;

static const unsigned char *pass(cursor *c, size_t size) {
    static const unsigned char zero[] = {0x80}; // for pass_count
    const unsigned char *start = c->at;
    c->lost = c->lost || size > (size_t)(c->end - start);
    if (c->lost) return zero;
    c->at += size;
    if (c->kept) append(c->kept, start, size);
    return start;
}

static size_t pass_count(cursor *c) {
    size_t count = 0;
    for (unsigned char byte = 0; !(byte & 0x80);) {
        byte = *pass(c, 1);
        count = count << 7 | (byte & 0x7f);
    }
    return count;
}

static void pass_string(cursor *c) {
    size_t size = pass_count(c);
    pass(c, size > 0 ? size - 1 : 0);
}

static void pass_constant(cursor *c) {
    unsigned char type = *pass(c, 1);
    if (type == 0x04 || type == 0x14)
        pass_string(c);
    else if (type == 0x03 || type == 0x13)
        pass(c, type == 0x03 ? sizeof(lua_Integer) : sizeof(lua_Number));
    else
        c->lost = c->lost || (type != 0x00 && type != 0x01 && type != 0x11);
}

static void pass_variable(cursor *c) {
    pass_string(c);
    pass_count(c); // from where it is known on, and how far
    pass_count(c);
}

static void drop_names(cursor *c) {
    buffer *kept = c->kept;
    c->kept = NULL;
    for (size_t n = pass_count(c); n > 0 && !c->lost; n--)
        pass_variable(c);
    for (size_t n = pass_count(c); n > 0 && !c->lost; n--)
        pass_string(c); // of an upvalue
    c->kept = kept;
    static const unsigned char none[] = {0x80, 0x80};
    append(kept, none, sizeof none);
}

static void pass_function(cursor *c) {
    pass_string(c); // the source
    pass_count(c);  // the first line and the last
    pass_count(c);
    pass(c, 3); // parameters, whether there are more, the stack
    pass(c, 4 * pass_count(c));
    for (size_t n = pass_count(c); n > 0 && !c->lost; n--)
        pass_constant(c);
    pass(c, 3 * pass_count(c)); // upvalues
    for (size_t n = pass_count(c); n > 0 && !c->lost; n--)
        pass_function(c);
    pass(c, pass_count(c)); // lines
    for (size_t n = 2 * pass_count(c); n > 0 && !c->lost; n--)
        pass_count(c);
    drop_names(c);
}

static buffer without_names(buffer code) {
    buffer kept = {0};
    cursor c = {code.bytes, code.bytes + code.size, &kept, false};
    pass(&c, 4 + 2 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number) + 1); // the header, upvalues
    pass_function(&c);
    bool right = !c.lost && c.at == c.end;
    free(right ? code.bytes : kept.bytes);
    return right ? kept : code;
}

// With lines, so that messages name file and line.
static buffer compile(const char *path, const buffer *text) {
    char chunk[1024];
    if ((size_t)snprintf(chunk, sizeof chunk, "@%s", path) >= sizeof chunk)
        die(path, "too long a name");
    lua_State *L = luaL_newstate();
    buffer code = {0};
    if (!L || luaL_loadbufferx(L, (const char *)text->bytes, text->size, chunk, "t") != LUA_OK)
        die(path, L ? lua_tostring(L, -1) : "not enough memory");
    lua_dump(L, write_code, &code, 0);
    lua_close(L);
    return without_names(code);
}

static const char *compiler(void) {
    return lua_ident;
}

#else

static buffer compile(const char *path, const buffer *text) {
    (void)path, (void)text;
    return (buffer){0};
}

static const char *compiler(void) {
    return "";
}

#endif

static void print_module_name(const char *path) {
    const char *start = strncmp(path, "lua/", 4) == 0 ? path + 4 : path;
    size_t length = strlen(start) - strlen(".lua");
    const char *init = "/init";
    if (length > strlen(init) && strncmp(start + length - strlen(init), init, strlen(init)) == 0)
        length -= strlen(init);
    for (size_t i = 0; i < length; i++)
        putchar(start[i] == '/' ? '.' : start[i]);
}

// Prints bytes as string literals, which compile far faster than lists of numbers.
static void print_bytes(const char *name, size_t index, const buffer *b) {
    printf("static const char %s_%zu[] =\n    \"", name, index);
    for (size_t i = 0; i < b->size; i++)
        printf("%s\\%03o", i > 0 && i % 24 == 0 ? "\"\n    \"" : "", b->bytes[i]);
    printf("\";\n");
}

static bool is_lua(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".lua") == 0;
}

static void print_modules(size_t count, char **paths, const buffer *texts, const buffer *codes) {
    printf("const tperf_embedded tperf_embedded_modules[] = {\n");
    for (size_t i = 0; i < count; i++) {
        if (!is_lua(paths[i])) continue;
        printf("    {\"");
        print_module_name(paths[i]);
        printf("\", \"@%s\", text_%zu, %zu, code_%zu, %zu},\n", paths[i], i, texts[i].size, i,
               codes[i].size);
    }
    printf("    {0, 0, 0, 0, 0, 0},\n};\n");
}

static void print_files(size_t count, char **paths, const buffer *texts) {
    printf("const tperf_embedded_file tperf_embedded_files[] = {\n");
    for (size_t i = 0; i < count; i++)
        if (!is_lua(paths[i])) printf("    {\"%s\", text_%zu, %zu},\n", paths[i], i, texts[i].size);
    printf("    {0, 0, 0},\n};\n");
}

int main(int argc, char **argv) {
    size_t count = (size_t)argc - 1;
    buffer *codes = calloc(count + 1, sizeof *codes), *texts = calloc(count + 1, sizeof *texts);
    if (!codes || !texts) return 1;
    printf("// Made by embed.c from lua/.\n#include \"bind/embedded.h\"\n");
    for (size_t i = 0; i < count; i++) {
        texts[i] = read_file(argv[i + 1]);
        print_bytes("text", i, &texts[i]);
        if (!is_lua(argv[i + 1])) continue;
        codes[i] = compile(argv[i + 1], &texts[i]);
        print_bytes("code", i, &codes[i]);
    }
    print_modules(count, argv + 1, texts, codes);
    print_files(count, argv + 1, texts);
    printf("const char tperf_embedded_compiler[] = \"%s\";\n", compiler());
    for (size_t i = 0; i < count; i++) {
        free(texts[i].bytes);
        free(codes[i].bytes);
    }
    free(texts);
    free(codes);
    return 0;
}
