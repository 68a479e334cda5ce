// surrogates.h: JSON writes a character beyond U+FFFF as two escapes, a surrogate pair ("\ud83d\ude00"), which YAML
// does not know. This finds the pairs of a text and masks them with escapes that YAML accepts; in a decoded string the
// masks become the characters again. Masks are as long as pairs, so all positions stay the same.
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
    const char *text; // the original
    char *masked;     // a copy with masks; NULL if the text has no pairs
    tperf_surrogate_pair *pairs;
    size_t count, next; // pairs before `next` precede the remaining strings
} tperf_surrogates;

// Finds the pairs of a text, which must outlive *found; false if out of memory. Release *found in either case.
bool tperf_surrogates_find(tperf_surrogates *found, const char *text, size_t size);

// Restores the pairs in a decoded string that was written between two characters of the text; strings come in the order
// of the text. Only double quotes have escapes: elsewhere a mask becomes its original bytes. False if the string itself
// contains a decoded mask (U+FFFE U+FFFF, no characters).
bool tperf_surrogates_mend(tperf_surrogates *found, size_t start, size_t end, bool double_quoted,
                           char *string, size_t *size);

void tperf_surrogates_release(tperf_surrogates *found);

#endif
