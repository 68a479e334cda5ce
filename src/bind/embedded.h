// embedded.h: lua/, as text and compiled, and kernels/, as text, built into the binary by src/tools/embed.c.
#ifndef TPERF_EMBEDDED_H
#define TPERF_EMBEDDED_H

#include <stddef.h>

typedef struct tperf_embedded {
    const char *module; // "tperf.describe.model"
    // "@lua/tperf/describe/model/init.lua", so that messages name a real file.
    const char *chunk;
    const char *text;
    size_t size;
    const char *code; // compiled, with debug information; empty in cross builds
    size_t code_size;
} tperf_embedded;

extern const tperf_embedded tperf_embedded_modules[]; // ends with a NULL module

typedef struct tperf_embedded_file {
    const char *path; // "kernels/losses.yaml"
    const char *text;
    size_t size;
} tperf_embedded_file;

extern const tperf_embedded_file tperf_embedded_files[]; // ends with a NULL path

// lua_ident of the Lua that compiled; only that exact release reads the code.
extern const char tperf_embedded_compiler[];

extern const char tperf_embedded_sources[]; // a checksum of all sources and flags of this build

#endif
