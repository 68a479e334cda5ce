// coverage.h: included first in the coverage variant. luaL_argerror does not return, but lauxlib.h's macros use its
// value, which adds two unreachable branches to every check.
#ifndef TPERF_COVERAGE_H
#define TPERF_COVERAGE_H

#include <lauxlib.h>

#undef luaL_argcheck
#define luaL_argcheck(L, condition, index, message)                                                \
    do {                                                                                           \
        if (!(condition)) luaL_argerror(L, index, message);                                        \
    } while (0)

#undef luaL_argexpected
#define luaL_argexpected(L, condition, index, name)                                                \
    do {                                                                                           \
        if (!(condition)) luaL_typeerror(L, index, name);                                          \
    } while (0)

#endif
