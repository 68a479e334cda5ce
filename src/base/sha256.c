// sha256.c: see base/sha256.h. Names follow FIPS 180-4, section 6.2.
#include "base/sha256.h"

#include <string.h>

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (section 4.2.2).
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static uint32_t word(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = word(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        w[t] = (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10) + w[t - 7] +
               (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t t1 =
            h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
        uint32_t t2 =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void tperf_sha256_start(tperf_sha256 *hash) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->length = 0;
}

void tperf_sha256_add(tperf_sha256 *hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        size_t used = hash->length % TPERF_SHA256_BLOCK, part = TPERF_SHA256_BLOCK - used;
        if (part > size) part = size;
        memcpy(hash->block + used, bytes, part);
        hash->length += part;
        bytes += part;
        size -= part;
        if (used + part == TPERF_SHA256_BLOCK) compress(hash->state, hash->block);
    }
}

void tperf_sha256_finish(tperf_sha256 *hash, uint8_t digest[TPERF_SHA256_BYTES]) {
    static const uint8_t padding[TPERF_SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->length * 8;
    size_t used = hash->length % TPERF_SHA256_BLOCK;
    tperf_sha256_add(hash, padding, (used < 56 ? 56 : 120) - used);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    tperf_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < TPERF_SHA256_BYTES; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void tperf_sha256_finish_text(tperf_sha256 *hash, char text[TPERF_SHA256_DIGITS + 1]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[TPERF_SHA256_BYTES];
    tperf_sha256_finish(hash, digest);
    for (int i = 0; i < TPERF_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[TPERF_SHA256_DIGITS] = '\0';
}
