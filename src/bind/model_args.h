// model_args.h: what several bindings read from Lua: rules, placements, layers, ops. Each raises at the user's line.
#ifndef TPERF_MODEL_ARGS_H
#define TPERF_MODEL_ARGS_H

#include <lua.h>

#include "tperf/plan.h"

const tperf_op *tperf_bind_check_op(lua_State *L, int index);
const tperf_workload *tperf_bind_check_workload(lua_State *L, int index);
// The pipelines that tperf.core.pipelines made.
const tperf_pipeline *tperf_bind_check_pipelines(lua_State *L, int index, size_t *n);
// The layers that they spread.
const tperf_run *tperf_bind_pipeline_runs(lua_State *L, int index, size_t *n, bool *has_ends);
// Raises unless the workload has every kind of layer that the pipelines are made of.
void tperf_bind_check_kinds(lua_State *L, int pipelines, const tperf_workload *workload);
const tperf_grid *tperf_bind_check_grid(lua_State *L, int index);
// The sizes of a grid's own axes; 0 is allowed for one that shards state. The other sizes become 1.
void tperf_bind_check_own_sizes(lua_State *L, int index, const tperf_grid *grid, int64_t *sizes);
// GPUs in one fast domain of each of the grid's axes; that those of replicas and stages divide them is the caller's.
void tperf_bind_check_placement(lua_State *L, int index, const tperf_workload *workload,
                                tperf_placement *placement);
// A table of booleans, one for each field of tperf_rules; further fields are for the layout in Lua.
void tperf_bind_check_rules(lua_State *L, int index, tperf_rules *rules);
// A table of the fields of tperf_training.
void tperf_bind_check_training(lua_State *L, int index, tperf_training *training);
// A table of the fields of tperf_software, which also makes the system's clock the one it sustains; nil: none.
void tperf_bind_check_software(lua_State *L, int index, tperf_software *software,
                               tperf_system *system);
// A list of up to `max` integers of at least 1 into out; returns how many.
size_t tperf_bind_check_sizes(lua_State *L, int index, int64_t *out, size_t max);

#endif
