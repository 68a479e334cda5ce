// random.c: see random.h.
#include "serve/load/random.h"

#include <math.h>

static const uint64_t golden = 0x9e3779b97f4a7c15U;

// SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixing function.
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

tperf_random tperf_random_of(uint64_t seed, uint64_t purpose, uint64_t number) {
    uint64_t state = mix(seed + golden);
    state = mix(state ^ mix(purpose + 2 * golden));
    return (tperf_random){mix(state ^ mix(number + 3 * golden))};
}

uint64_t tperf_random_bits(tperf_random *random) {
    return mix(random->state += golden);
}

double tperf_random_unit(tperf_random *random) {
    return ((double)(tperf_random_bits(random) >> 12) + 0.5) * 0x1p-52;
}

double tperf_random_exponential(tperf_random *random) {
    return -log(tperf_random_unit(random));
}

// Box and Muller 1958.
double tperf_random_normal(tperf_random *random) {
    const double turn = 6.283185307179586;
    double radius = sqrt(2 * tperf_random_exponential(random));
    return radius * cos(turn * tperf_random_unit(random));
}

// Marsaglia and Tsang 2000; a shape below 1 is that of shape + 1 times a power of a uniform number.
double tperf_random_gamma(tperf_random *random, double cv) {
    double shape = 1 / (cv * cv), boost = 1;
    if (shape < 1) boost = pow(tperf_random_unit(random), cv * cv);
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = tperf_random_normal(random), v = 1 + c * x;
        v = v * v * v;
        if (v > 0 && log(tperf_random_unit(random)) < x * x / 2 + d - d * v + d * log(v))
            return d * v * boost / shape;
    }
}
