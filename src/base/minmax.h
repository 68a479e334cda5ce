// minmax.h: the smaller and the larger of two numbers, neither of them NaN. Unlike fmin and fmax they are two
// instructions, and vectorise.
#ifndef TPERF_BASE_MINMAX_H
#define TPERF_BASE_MINMAX_H

static inline double tperf_smaller(double a, double b) {
    return a < b ? a : b;
}

static inline double tperf_larger(double a, double b) {
    return a > b ? a : b;
}

#endif
