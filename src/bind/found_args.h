// found_args.h: reads what search:answer has made: what another process has found.
#ifndef TPERF_FOUND_ARGS_H
#define TPERF_FOUND_ARGS_H

#include <lua.h>

#include "tperf/search.h"

// The answer at index, whose candidates refer to these pipelines by number. Leaves what it points to on the stack.
void tperf_bind_check_answer(lua_State *L, int index, const tperf_pipeline *pipelines,
                             size_t n_pipelines, tperf_answer *answer);

#endif
