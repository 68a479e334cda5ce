// surrogates.c: see io/surrogates.h.
#include "io/surrogates.h"

#include <stdlib.h>
#include <string.h>

enum { PAIR = 12 }; // bytes of "\ud83d\ude00"

static const char mask[] = "\\uFFFE\\uFFFF";
static const char decoded_mask[] = "\xEF\xBF\xBE\xEF\xBF\xBF";

// The value of "\uXXXX", or 0.
static uint32_t escape_at(const char *text) {
    if (text[0] != '\\' || text[1] != 'u') return 0;
    uint32_t value = 0;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return 0;
        uint32_t place = (uint32_t)(digit - digits);
        value = value << 4 | (place < 16 ? place : place - 6);
    }
    return value;
}

// The character encoded by the pair at the start of the text, or 0.
static uint32_t pair_at(const char *text, size_t size) {
    if (size < PAIR) return 0;
    uint32_t high = escape_at(text), low = escape_at(text + PAIR / 2);
    if (high < 0xD800 || high > 0xDBFF || low < 0xDC00 || low > 0xDFFF) return 0;
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

// Counts the pairs, and stores them if `pairs` has room.
static size_t scan(tperf_surrogate_pair *pairs, const char *text, size_t size) {
    size_t count = 0, characters = 0, counted = 0; // `characters` before the byte `counted`
    const char *end = text + size, *at = text;
    while ((at = memchr(at, '\\', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at), offset = (size_t)(at - text);
        uint32_t character = pair_at(at, left);
        if (character && pairs) {
            for (; counted < offset; counted++)
                characters += (text[counted] & 0xC0) != 0x80;
            pairs[count] = (tperf_surrogate_pair){offset, characters, character};
        }
        count += character != 0;
        at += character ? PAIR : left < 2 ? 1 : 2; // a backslash may escape another one
    }
    return count;
}

bool tperf_surrogates_find(tperf_surrogates *found, const char *text, size_t size) {
    *found = (tperf_surrogates){.text = text, .count = scan(NULL, text, size)};
    if (found->count == 0) return true;
    found->pairs = malloc(found->count * sizeof *found->pairs);
    found->masked = malloc(size);
    if (!found->pairs || !found->masked) return false;
    scan(found->pairs, text, size);
    memcpy(found->masked, text, size);
    for (size_t i = 0; i < found->count; i++)
        memcpy(found->masked + found->pairs[i].offset, mask, PAIR);
    return true;
}

static char *find_bytes(char *text, const char *end, const char *bytes, size_t size) {
    for (; (text = memchr(text, bytes[0], (size_t)(end - text))); text++)
        if ((size_t)(end - text) >= size && memcmp(text, bytes, size) == 0) return text;
    return NULL;
}

// Encodes a character beyond U+FFFF as UTF-8.
static size_t encode(uint32_t character, char *out) {
    out[0] = (char)(0xF0 | character >> 18);
    for (int i = 1; i < 4; i++)
        out[i] = (char)(0x80 | (character >> (18 - 6 * i) & 0x3F));
    return 4;
}

bool tperf_surrogates_mend(tperf_surrogates *found, size_t start, size_t end, bool double_quoted,
                           char *string, size_t *size) {
    while (found->next < found->count && found->pairs[found->next].index < start)
        found->next++; // skip pairs in comments
    size_t after = found->next;
    while (after < found->count && found->pairs[after].index < end)
        after++;
    if (after == found->next) return true;
    const char *bytes = double_quoted ? decoded_mask : mask, *stop = string + *size;
    size_t width = strlen(bytes);
    char *to = string, *from = string;
    for (char *at; (at = find_bytes(from, stop, bytes, width)); from = at + width) {
        if (found->next == after) return false;
        const tperf_surrogate_pair *pair = &found->pairs[found->next++];
        memmove(to, from, (size_t)(at - from));
        to += at - from;
        if (double_quoted) {
            to += encode(pair->character, to);
        } else {
            memcpy(to, found->text + pair->offset, PAIR);
            to += PAIR;
        }
    }
    memmove(to, from, (size_t)(stop - from) + 1); // includes the terminating NUL
    *size = (size_t)(to - string) + (size_t)(stop - from);
    return found->next == after;
}

void tperf_surrogates_release(tperf_surrogates *found) {
    free(found->pairs);
    free(found->masked);
    *found = (tperf_surrogates){0};
}
