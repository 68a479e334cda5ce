// surrogates.h: JSON writes a character beyond U+FFFF as two escapes, a pair of surrogates ("\ud83d\ude00"), which YAML
// does not know. The pairs of a text are found and masked by escapes that YAML takes; once a string is decoded, the
// masks in it become the characters. Masks are as long as pairs, so that every position stays what it was.
#ifndef TPERF_SURROGATES_H
#define TPERF_SURROGATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tperf_surrogate_pair {
    size_t offset, index; // in bytes, in characters
    uint32_t character;
} tperf_surrogate_pair;

typedef struct tperf_surrogates {
    const char *text; // as given
    char *masked;     // a copy with masks; NULL when the text has no pairs
    tperf_surrogate_pair *pairs;
    size_t count, next; // pairs before `next` lie before the strings still to come
} tperf_surrogates;

// Finds the pairs of a text, which must outlive *found; false when memory ran out. Release it in any case.
bool tperf_surrogates_find(tperf_surrogates *found, const char *text, size_t size);

// Mends a decoded string that was written between two characters of the text; strings come in the order of the text.
// Escapes count in double quotes only: elsewhere a mask becomes the bytes that it hides. False when the string holds
// what masks stand for (U+FFFE U+FFFF, no characters) by itself.
bool tperf_surrogates_mend(tperf_surrogates *found, size_t start, size_t end, bool double_quoted,
                           char *string, size_t *size);

void tperf_surrogates_release(tperf_surrogates *found);

#endif
