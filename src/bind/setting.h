// setting.h: what the methods of a network that time one iteration are asked about, inside src/bind.
#ifndef TPERF_SETTING_H
#define TPERF_SETTING_H

#include <lua.h>

#include "tperf/plan.h"

typedef struct tp_setting {
    tp_system system;
    tp_rules rules;
    tp_software software;
    tp_training training;
    tp_candidate candidate;
    tp_job job; // points at the above
} tp_setting;

// Reads method(network, system, rules, training, pipelines, run, fast, software); the caller in Lua has checked that the
// run's sizes divide what they must. Raises at the user's line.
const tp_network *tp_bind_read_setting(lua_State *L, tp_setting *setting);

// Add network:tasks, and network:audit, to the methods in the table at the top of the stack.
void tp_bind_step(lua_State *L);
void tp_bind_audit(lua_State *L);

// Pushes the record of one of an op's collectives: kind, axis, beside, bytes, gpus, fast, time (seconds of the collective
// by itself), fast_bytes and nic_bytes that a GPU sends, algorithm.
void tp_bind_push_op_comm(lua_State *L, const tp_network *network, const tp_op *op,
                          const tp_comm *comm, const tp_platform *on,
                          const tp_placement *placement);

#endif
