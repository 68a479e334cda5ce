// setting.h: arguments of the workload's methods that time one iteration. Private to src/bind.
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
    tperf_job job; // points to the fields above
} tperf_setting;

// Reads method(workload, system, rules, training, pipelines, run, fast, software). The caller in Lua has checked that
// the run's sizes divide. Raises at the user's line.
const tperf_workload *tperf_bind_read_setting(lua_State *L, tperf_setting *setting);

// Add workload:tasks, workload:audit and workload:place to the methods in the table on top of the stack.
void tperf_bind_step(lua_State *L);
void tperf_bind_place(lua_State *L);
void tperf_bind_audit(lua_State *L);

// Pushes the record of one of an op's collectives: kind, axis, beside, bytes, gpus, fast, time (seconds in isolation),
// fast_bytes and nic_bytes per GPU, algorithm.
void tperf_bind_push_op_comm(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                             const tperf_comm *comm, const tperf_platform *on,
                             const tperf_placement *placement);

#endif
