// found_args.h: reads another process's results, as search:answer returns them.
#ifndef TPERF_FOUND_ARGS_H
#define TPERF_FOUND_ARGS_H

#include <lua.h>

#include "tperf/search.h"

// Reads the answer at index, whose candidates number these pipelines. Leaves the data that it points to on the stack.
void tperf_bind_check_answer(lua_State *L, int index, const tperf_pipeline *pipelines,
                             size_t n_pipelines, tperf_answer *answer);

#endif
