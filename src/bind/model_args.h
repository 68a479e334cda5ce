// model_args.h: reads rules, placements, layers and ops for several bindings. Each function raises at the user's line.
#ifndef TPERF_MODEL_ARGS_H
#define TPERF_MODEL_ARGS_H

#include <lua.h>

#include "tperf/plan.h"

// The type name of a tperf_op.
#define TPERF_BIND_OP "tperf.op"
const tperf_op *tperf_bind_check_op(lua_State *L, int index);
const tperf_workload *tperf_bind_check_workload(lua_State *L, int index);
// Pushes the records of the ops of the section whose number is at 2, and returns 1; raises if there is no such section,
// or if the system lacks a peak that an op needs.
int tperf_bind_push_ops(lua_State *L, const tperf_workload *workload, const tperf_platform *on,
                        const tperf_placement *placement);
// The pipelines made by tperf.core.pipelines.
const tperf_pipeline *tperf_bind_check_pipelines(lua_State *L, int index, size_t *n);
// The layers that they distribute.
const tperf_model_layers *tperf_bind_pipeline_layers(lua_State *L, int index);
// Raises unless the workload has every kind of layer in the pipelines.
void tperf_bind_check_kinds(lua_State *L, int pipelines, const tperf_workload *workload);
const tperf_grid *tperf_bind_check_grid(lua_State *L, int index);
// The sizes of a grid's own axes; 0 is allowed for an axis that shards state. The other sizes become 1, but for the
// replicas, if the list has a field dp, which is returned; 0: it has none.
int64_t tperf_bind_check_own_sizes(lua_State *L, int index, const tperf_grid *grid, int64_t *sizes);
// GPUs per fast domain, for each axis. The caller checks that those of replicas and stages divide their sizes.
void tperf_bind_check_placement(lua_State *L, int index, const tperf_workload *workload,
                                tperf_placement *placement);
// Reads an order of ranks: a list of positions in a grid of so many axes, from 1, each at most once.
void tperf_bind_check_order(lua_State *L, int index, int n_axes, tperf_rank_order *order);
// Raises unless a placement that was read for another workload of the same axes suits this one.
void tperf_bind_check_parts(lua_State *L, const tperf_workload *workload,
                            const tperf_placement *placement);
// Reads a table of booleans, one for each field of tperf_rules; further fields are for the layout in Lua.
void tperf_bind_check_rules(lua_State *L, int index, tperf_rules *rules);
// Reads a table of the fields of tperf_training.
void tperf_bind_check_training(lua_State *L, int index, tperf_training *training);
// Reads a table of the fields of tperf_software.
void tperf_bind_check_software(lua_State *L, int index, tperf_software *software);
// Reads a list of up to `max` integers of at least 1 into out; returns how many.
size_t tperf_bind_check_sizes(lua_State *L, int index, int64_t *out, size_t max);
// Pushes such a list as a userdata array; nil or none: pushes nil and returns NULL.
const int64_t *tperf_bind_push_sizes(lua_State *L, int index, size_t *n);

#endif
