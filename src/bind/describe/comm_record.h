// comm_record.h: the records of collectives. Private to src/bind.
#ifndef TPERF_COMM_RECORD_H
#define TPERF_COMM_RECORD_H

#include <lua.h>

#include "tperf/workload.h"

// A collective; seconds and bytes are those of all its parts.
typedef struct tperf_bind_comm {
    tperf_collective kind;
    double bytes;
    tperf_group group;
    tperf_route route;
    double seconds;
    const tperf_system *system;
} tperf_bind_comm;

// Pushes a record: kind, bytes, gpus, fast, time (seconds in isolation), fast_bytes and nic_bytes per GPU, algorithm;
// and in a network of more than two tiers, tiers: a list of { name, bytes, time }.
void tperf_bind_push_comm(lua_State *L, const tperf_bind_comm *c);

// Pushes the list of the tiers that a route passes.
void tperf_bind_push_tiers(lua_State *L, const tperf_bind_comm *c);

// The same of one of an op's collectives, with axis and beside, and once: whether it comes once an iteration.
void tperf_bind_push_op_comm(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                             const tperf_comm *comm, const tperf_platform *on,
                             const tperf_placement *placement);

#endif
