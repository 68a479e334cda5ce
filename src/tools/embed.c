// embed.c: host tool of the build. Prints a C table of the Lua files named as arguments
// ("lua/tperf/init.lua" is module "tperf", "lua/tperf/model.lua" is "tperf.model").
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *path) {
    fprintf(stderr, "embed: cannot read %s\n", path);
    exit(1);
}

static void print_module_name(const char *path) {
    const char *start = strncmp(path, "lua/", 4) == 0 ? path + 4 : path;
    size_t length = strlen(start) - strlen(".lua");
    const char *init = "/init";
    if (length > strlen(init) && strncmp(start + length - strlen(init), init, strlen(init)) == 0)
        length -= strlen(init);
    for (size_t i = 0; i < length; i++)
        putchar(start[i] == '/' ? '.' : start[i]);
}

static size_t print_bytes(const char *path, size_t index) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    printf("static const unsigned char text_%zu[] = {", index);
    size_t size = 0;
    for (int byte; (byte = fgetc(file)) != EOF; size++)
        printf("%s%d,", size % 24 == 0 ? "\n" : "", byte);
    if (ferror(file)) die(path);
    fclose(file);
    printf("\n0};\n");
    return size;
}

int main(int argc, char **argv) {
    size_t count = (size_t)argc - 1;
    size_t *sizes = calloc(count + 1, sizeof *sizes);
    if (!sizes) return 1;
    printf("// Made by embed.c from lua/.\n#include \"bind/embedded.h\"\n");
    for (size_t i = 0; i < count; i++)
        sizes[i] = print_bytes(argv[i + 1], i);
    printf("const tp_embedded tp_embedded_modules[] = {\n");
    for (size_t i = 0; i < count; i++) {
        printf("    {\"");
        print_module_name(argv[i + 1]);
        printf("\", \"@%s\", (const char *)text_%zu, %zu},\n", argv[i + 1], i, sizes[i]);
    }
    printf("    {0, 0, 0, 0},\n};\n");
    free(sizes);
    return 0;
}
