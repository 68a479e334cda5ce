// random.h: random numbers that depend on a seed, a purpose and a number, so that neither the order in
// which they are drawn nor the threads that draw them matter.
#ifndef TPERF_SERVE_RANDOM_H
#define TPERF_SERVE_RANDOM_H

#include <stdint.h>

typedef struct tp_random {
    uint64_t state;
} tp_random;

tp_random tp_random_of(uint64_t seed, uint64_t purpose, uint64_t number);
uint64_t tp_random_bits(tp_random *random);
double tp_random_unit(tp_random *random);        // above 0, below 1
double tp_random_normal(tp_random *random);      // mean 0, deviation 1
double tp_random_exponential(tp_random *random); // mean 1

// Mean 1 and that coefficient of variation.
double tp_random_gamma(tp_random *random, double cv);

#endif
