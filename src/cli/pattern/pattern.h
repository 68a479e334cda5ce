// pattern.h: Lua's string patterns with a budget. The standard matcher backtracks inside one C call where hooks do not
// run, so a script could hang the program with "(.-)(.-)(.-)(.-)x"; this one reports its steps. The language is that of
// the Lua 5.4 reference manual, section 6.4.1. Independent of Lua.
#ifndef TPERF_PATTERN_H
#define TPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TPERF_PATTERN_CAPTURES = 32,
    TPERF_PATTERN_REPEATS = 200, // repeated items in a pattern: bounds the matcher's recursion
};

typedef struct tperf_pattern_item tperf_pattern_item;

struct tperf_pattern_item {
    unsigned char kind, repeat;
    unsigned char a, b; // a capture's index, or the two characters of %b
    uint64_t set[4];    // bytes that a single-character item accepts
};

typedef struct tperf_pattern {
    tperf_pattern_item *items; // the caller's, one more element than the pattern has bytes
    bool anchored;
    int captures;
    bool position[TPERF_PATTERN_CAPTURES]; // "()" captures
} tperf_pattern;

typedef struct tperf_capture {
    const char *start;
    size_t length;
} tperf_capture;

typedef struct tperf_match {
    const tperf_pattern *pattern;
    const char *text, *end;
    tperf_capture captures[TPERF_PATTERN_CAPTURES];
    uint64_t steps;                                // since the last report
    void (*charge)(void *context, uint64_t steps); // called at intervals; need not return
    void *context;
} tperf_match;

// Fills in pattern; returns NULL, or the error in the text. In gmatch "^" has no special meaning.
const char *tperf_pattern_compile(tperf_pattern *pattern, const char *text, size_t length,
                                  bool anchors);

// The end of the match that begins at start; NULL if there is none.
const char *tperf_pattern_match(tperf_match *match, const char *start);

#endif
