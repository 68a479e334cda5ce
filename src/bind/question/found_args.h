// found_args.h: what a search has found as tables, and back, from another process.
#ifndef TPERF_FOUND_ARGS_H
#define TPERF_FOUND_ARGS_H

#include <lua.h>

#include "tperf/search.h"

// Reads the answer at index, whose candidates number these pipelines. Leaves the data that it points to on the stack.
void tperf_bind_check_answer(lua_State *L, int index, const tperf_pipeline *pipelines,
                             size_t n_pipelines, tperf_answer *answer);

// Reads the table at index, one of what such an answer lists.
void tperf_bind_check_found(lua_State *L, int index, const tperf_pipeline *pipelines,
                            size_t n_pipelines, tperf_found *found);

// The type of an answer's lists of what was found.
void tperf_bind_new_found_type(lua_State *L);

// Pushes an answer as a table. Its lists of what was found take over the two values on top of the stack, the pipelines
// and the list of kept shapes, and keep them alive.
void tperf_bind_push_answer(lua_State *L, const tperf_answer *answer,
                            const tperf_pipeline *first_pipeline);

// A table of what was found, which refers to its pipeline by number.
void tperf_bind_push_found(lua_State *L, const tperf_found *found,
                           const tperf_pipeline *first_pipeline);

#endif
