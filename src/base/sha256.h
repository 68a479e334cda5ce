// sha256.h: SHA-256 (FIPS 180-4), to compare data by checksum.
#ifndef TPERF_SHA256_H
#define TPERF_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum {
    TPERF_SHA256_BYTES = 32,
    TPERF_SHA256_BLOCK = 64,
    TPERF_SHA256_DIGITS = 2 * TPERF_SHA256_BYTES
};

typedef struct tperf_sha256 {
    uint32_t state[8];
    uint64_t length; // bytes added so far
    uint8_t block[TPERF_SHA256_BLOCK];
} tperf_sha256;

void tperf_sha256_start(tperf_sha256 *hash);
void tperf_sha256_add(tperf_sha256 *hash, const void *data, size_t size);

// The digest of everything added; add nothing afterwards.
void tperf_sha256_finish(tperf_sha256 *hash, uint8_t digest[TPERF_SHA256_BYTES]);

// The same as a string of hexadecimal digits.
void tperf_sha256_finish_text(tperf_sha256 *hash, char text[TPERF_SHA256_DIGITS + 1]);

#endif
