// shape_args.h: the shapes of a search, as Lua lays them out.
#ifndef TPERF_SHAPE_ARGS_H
#define TPERF_SHAPE_ARGS_H

#include <lua.h>

#include "tperf/search.h"

// A userdata. Its user values are lists of what the shapes borrow: the workload of each that may fit, and panels.
typedef struct tperf_bind_shapes {
    size_t n;
    const tperf_workload
        *fewest_kinds; // of these workloads, one with the fewest kinds of layers; NULL: no shapes
    tperf_shape of[];
} tperf_bind_shapes;

void tperf_bind_new_shapes_type(lua_State *L);

int64_t tperf_bind_check_micro_batch(lua_State *L, int list, lua_Integer i); // the i-th of a list

// The shapes at index, a userdata or a list of series to read (bind_search.c), for a search of the pipelines at
// `pipelines`. Leaves the userdata at index.
const tperf_bind_shapes *tperf_bind_check_shapes(lua_State *L, int index, int pipelines);

// Pushes the workload of one of the shapes of the userdata at index; false: the shape is not among them.
bool tperf_bind_push_workload_of(lua_State *L, int index, const tperf_shape *shape);

#endif
