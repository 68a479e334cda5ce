// visible.h: which characters of a text can be shown as they are. Control characters (also U+0080 to U+009F, which some
// terminals obey), marks that reorder or hide text, and bytes that are not UTF-8 cannot: they act on a terminal, or make
// a line say something other than its bytes do.
#ifndef TPERF_VISIBLE_H
#define TPERF_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tperf_character {
    size_t bytes; // 1 for a byte that is not UTF-8
    bool valid;   // UTF-8
    uint32_t code;
} tperf_character;

// The first character of a text with at least one byte.
tperf_character tperf_character_at(const char *text, size_t size);

// Whether it can be shown as it is. Line ends and tabs cannot: callers that allow them look for them first.
bool tperf_character_visible(tperf_character c);

#endif
