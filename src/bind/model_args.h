// model_args.h: what several bindings read from Lua: rules, placements, layers, ops. Each raises at the user's line.
#ifndef TPERF_MODEL_ARGS_H
#define TPERF_MODEL_ARGS_H

#include <lua.h>

#include "tperf/plan.h"

const tp_op *tp_bind_check_op(lua_State *L, int index);
const tp_network *tp_bind_check_network(lua_State *L, int index);
// The pipelines that tperf.core.pipelines made.
const tp_pipeline *tp_bind_check_pipelines(lua_State *L, int index, size_t *n);
// The layers that they spread.
const tp_run *tp_bind_pipeline_runs(lua_State *L, int index, size_t *n, bool *has_ends);
// Raises unless the network has every kind of layer that the pipelines are made of.
void tp_bind_check_kinds(lua_State *L, int pipelines, const tp_network *network);
const tp_grid *tp_bind_check_grid(lua_State *L, int index);
// The sizes of a grid's own axes; 0 is allowed for one that shards state. The other sizes become 1.
void tp_bind_check_own_sizes(lua_State *L, int index, const tp_grid *grid, int64_t *sizes);
// GPUs in one fast domain of each of the grid's axes; that those of replicas and stages divide them is the caller's.
void tp_bind_check_placement(lua_State *L, int index, const tp_network *network,
                             tp_placement *placement);
// A table of booleans, one for each field of tp_rules; further fields are for the layout in Lua.
void tp_bind_check_rules(lua_State *L, int index, tp_rules *rules);
// A table of the fields of tp_training.
void tp_bind_check_training(lua_State *L, int index, tp_training *training);
// A table of the fields of tp_software, which also makes the system's clock the one it sustains; nil: none.
void tp_bind_check_software(lua_State *L, int index, tp_software *software, tp_system *system);
// A list of up to `max` integers of at least 1 into out; returns how many.
size_t tp_bind_check_sizes(lua_State *L, int index, int64_t *out, size_t max);

#endif
