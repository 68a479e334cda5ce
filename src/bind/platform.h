// platform.h: what questions run on, and what their candidates share, each read from Lua once:
//   core.platform(system, rules, software or nil, serves) -> platform
//   core.job(platform, training, pipelines) -> job, whose methods make candidates (bind/question/candidate.h)
// Neither changes afterwards, whatever a script does to the tables.
#ifndef TPERF_BIND_PLATFORM_H
#define TPERF_BIND_PLATFORM_H

#include <lua.h>

#include "tperf/plan.h"

typedef struct tperf_bind_job {
    const tperf_setup *on; // the userdata's first user value keeps it alive
    tperf_training training;
    const tperf_pipeline *pipelines; // likewise the second
    size_t n_pipelines;
} tperf_bind_job;

enum { TPERF_JOB_PLATFORM = 1, TPERF_JOB_PIPELINES };

const tperf_setup *tperf_bind_check_platform(lua_State *L, int index);
const tperf_bind_job *tperf_bind_check_job(lua_State *L, int index);

// Pushes the platform of the same system and rules without its software.
const tperf_setup *tperf_bind_push_bare(lua_State *L, const tperf_setup *platform);
static inline tperf_platform tperf_bind_on(const tperf_setup *platform) {
    return tperf_setup_platform(platform);
}

#endif
