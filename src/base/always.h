// always.h: conditions that the surrounding code guarantees (after SQLite's ALWAYS and NEVER). Builds with asserts stop
// if one fails; release builds handle it. Coverage, which could never see the other branch, skips it.
#ifndef TPERF_ALWAYS_H
#define TPERF_ALWAYS_H

#include <assert.h>
#include <stdbool.h>

#if defined(TPERF_COVERAGE)
#define ALWAYS(condition) ((void)sizeof(condition), true)
#define NEVER(condition)  ((void)sizeof(condition), false)
#elif !defined(NDEBUG)
#define ALWAYS(condition) (assert(condition), true)
#define NEVER(condition)  (assert(!(condition)), false)
#else
#define ALWAYS(condition) (condition)
#define NEVER(condition)  (condition)
#endif

#endif
