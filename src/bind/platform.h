// platform.h: what questions run on, and what their candidates share, each read from Lua once:
//   core.platform(system, rules, software or nil, serves) -> platform
//   core.job(platform, training, pipelines) -> job, whose methods make candidates (bind/question/candidate.h)
// Neither changes afterwards, whatever a script does to the tables.
#ifndef TPERF_BIND_PLATFORM_H
#define TPERF_BIND_PLATFORM_H

#include <lua.h>

#include "tperf/plan.h"

typedef struct tperf_bind_platform {
    tperf_system described, system; // as data files have it; as the software runs it
    tperf_rules rules;
    tperf_software software; // tperf_software_none without one
    bool has_software;
} tperf_bind_platform;

typedef struct tperf_bind_job {
    const tperf_bind_platform *on; // the userdata's first user value keeps it alive
    tperf_training training;
    const tperf_pipeline *pipelines; // likewise the second
    size_t n_pipelines;
} tperf_bind_job;

enum { TPERF_JOB_PLATFORM = 1, TPERF_JOB_PIPELINES };

const tperf_bind_platform *tperf_bind_check_platform(lua_State *L, int index);
const tperf_bind_job *tperf_bind_check_job(lua_State *L, int index);

// Pushes the platform of the same system and rules without its software.
const tperf_bind_platform *tperf_bind_push_bare(lua_State *L, const tperf_bind_platform *platform);
static inline tperf_platform tperf_bind_on(const tperf_bind_platform *platform) {
    return (tperf_platform){&platform->system, &platform->rules, &platform->software, NULL};
}

#endif
