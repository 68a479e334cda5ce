// inlined.h: functions that compilers consider too large to inline, where callers are faster if they are.
#ifndef TPERF_BASE_INLINED_H
#define TPERF_BASE_INLINED_H

#ifdef __GNUC__
#define TPERF_INLINED __attribute__((always_inline)) static inline
#else
#define TPERF_INLINED static inline
#endif

#endif
