// embed.c: host tool of the build. Prints a C table of the Lua files named as arguments ("lua/tperf/init.lua" is module
// "tperf", "lua/tperf/describe/model/init.lua" is "tperf.describe.model"): their text and, if built with TPERF_COMPILES
// for the processor and the Lua that will run them, their compiled form.
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

// With debug information, so that messages name file and line.
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
    return code;
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

int main(int argc, char **argv) {
    size_t count = (size_t)argc - 1;
    buffer *codes = calloc(count + 1, sizeof *codes), *texts = calloc(count + 1, sizeof *texts);
    if (!codes || !texts) return 1;
    printf("// Made by embed.c from lua/.\n#include \"bind/embedded.h\"\n");
    for (size_t i = 0; i < count; i++) {
        texts[i] = read_file(argv[i + 1]);
        codes[i] = compile(argv[i + 1], &texts[i]);
        print_bytes("text", i, &texts[i]);
        print_bytes("code", i, &codes[i]);
    }
    printf("const tperf_embedded tperf_embedded_modules[] = {\n");
    for (size_t i = 0; i < count; i++) {
        printf("    {\"");
        print_module_name(argv[i + 1]);
        printf("\", \"@%s\", text_%zu, %zu, code_%zu, %zu},\n", argv[i + 1], i, texts[i].size, i,
               codes[i].size);
        free(texts[i].bytes);
        free(codes[i].bytes);
    }
    printf("    {0, 0, 0, 0, 0, 0},\n};\nconst char tperf_embedded_compiler[] = \"%s\";\n",
           compiler());
    free(texts);
    free(codes);
    return 0;
}
