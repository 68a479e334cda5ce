// exact.h: included before every file (Makefile). The same question has the same digits with every compiler, processor
// and choice of flags, so arithmetic is that of IEEE 754, operation by operation.
#ifndef TPERF_EXACT_H
#define TPERF_EXACT_H

#include <float.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error                                                                                             \
    "tperf computes otherwise with -ffast-math, -Ofast or -ffinite-math-only: add -fno-fast-math at the end"
#endif

// 1: floats as doubles, as on s390x; there are none here.
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1
#error "tperf computes otherwise with x87 arithmetic: add -msse2 -mfpmath=sse"
#endif

#endif
