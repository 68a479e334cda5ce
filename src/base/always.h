// always.h: what cannot be otherwise, as the code around makes sure (after SQLite's ALWAYS and NEVER). Variants with
// asserts stop where it is otherwise after all; the release copes. Coverage, which could never see the other way, does
// not look at it.
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
