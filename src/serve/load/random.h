// random.h: random numbers that depend only on a seed, a purpose and a number, whatever the order or the threads in
// which they are drawn.
#ifndef TPERF_SERVE_RANDOM_H
#define TPERF_SERVE_RANDOM_H

#include <stdint.h>

typedef struct tperf_random {
    uint64_t state;
} tperf_random;

tperf_random tperf_random_of(uint64_t seed, uint64_t purpose, uint64_t number);
uint64_t tperf_random_bits(tperf_random *random);
double tperf_random_unit(tperf_random *random);        // above 0, below 1
double tperf_random_normal(tperf_random *random);      // mean 0, deviation 1
double tperf_random_exponential(tperf_random *random); // mean 1

// Mean 1, with this coefficient of variation.
double tperf_random_gamma(tperf_random *random, double cv);

#endif
