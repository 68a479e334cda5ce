// visible.c: see visible.h.
#include "base/visible.h"

// Joiners and direction marks, separators, embeddings and overrides; invisible operators and isolates; byte order marks
// and annotations; tags. All of them change or hide their neighbours.
static const uint32_t hidden[][2] = {
    {0x00AD, 0x00AD}, {0x061C, 0x061C}, {0x180E, 0x180E}, {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF},
};

tperf_character tperf_character_at(const char *text, size_t size) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800,
                                     0x10000}; // for a length: shorter is valid only once
    const unsigned char *at = (const unsigned char *)text;
    size_t bytes = at[0] < 0x80 ? 1 : at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
    uint32_t code = bytes == 1 ? at[0] : at[0] & (0x7Fu >> bytes);
    bool valid = bytes == 1 || (at[0] >= 0xC0 && at[0] < 0xF8 && bytes <= size);
    for (size_t i = 1; valid && i < bytes; i++) {
        valid = (at[i] & 0xC0) == 0x80;
        code = code << 6 | (at[i] & 0x3Fu);
    }
    valid = valid && code >= least[bytes] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    return valid ? (tperf_character){bytes, true, code} : (tperf_character){1, false, at[0]};
}

bool tperf_character_visible(tperf_character c) {
    if (c.code >= 0x20 && c.code < 0x7F) return true;
    if (!c.valid || c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0)) return false;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (c.code >= hidden[i][0] && c.code <= hidden[i][1]) return false;
    return true;
}
