// sha256.h: SHA-256 (FIPS 180-4), for telling whether two pieces of data are the same.
#ifndef TPERF_SHA256_H
#define TPERF_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TP_SHA256_BYTES = 32, TP_SHA256_BLOCK = 64, TP_SHA256_DIGITS = 2 * TP_SHA256_BYTES };

typedef struct tp_sha256 {
    uint32_t state[8];
    uint64_t length; // bytes added so far
    uint8_t block[TP_SHA256_BLOCK];
} tp_sha256;

void tp_sha256_start(tp_sha256 *hash);
void tp_sha256_add(tp_sha256 *hash, const void *data, size_t size);

// The digest of everything added; nothing may be added afterwards.
void tp_sha256_finish(tp_sha256 *hash, uint8_t digest[TP_SHA256_BYTES]);

// The same as a string of hexadecimal digits.
void tp_sha256_finish_text(tp_sha256 *hash, char text[TP_SHA256_DIGITS + 1]);

#endif
