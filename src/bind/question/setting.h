// setting.h: what the methods of a workload that time one iteration are asked about, inside src/bind.
#ifndef TPERF_SETTING_H
#define TPERF_SETTING_H

#include <lua.h>

#include "tperf/plan.h"

typedef struct tperf_setting {
    tperf_system system;
    tperf_rules rules;
    tperf_software software;
    tperf_training training;
    tperf_candidate candidate;
    tperf_job job; // points at the above
} tperf_setting;

// Reads method(workload, system, rules, training, pipelines, run, fast, software); the caller in Lua has checked that the
// run's sizes divide what they must. Raises at the user's line.
const tperf_workload *tperf_bind_read_setting(lua_State *L, tperf_setting *setting);

// Add workload:tasks, and workload:audit, to the methods in the table at the top of the stack.
void tperf_bind_step(lua_State *L);
void tperf_bind_audit(lua_State *L);

// Pushes the record of one of an op's collectives: kind, axis, beside, bytes, gpus, fast, time (seconds of the collective
// by itself), fast_bytes and nic_bytes that a GPU sends, algorithm.
void tperf_bind_push_op_comm(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                             const tperf_comm *comm, const tperf_platform *on,
                             const tperf_placement *placement);

#endif
