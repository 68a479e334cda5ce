// bind_candidate.c: the types of jobs and candidates, see candidate.h.
#include "bind/question/candidate.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.candidate", job_name[] = "tperf.job";

const tperf_bind_job *tperf_bind_check_job(lua_State *L, int index) {
    return luaL_checkudata(L, index, job_name);
}

tperf_bind_job *tperf_bind_push_job(lua_State *L, int platform, int pipelines) {
    platform = lua_absindex(L, platform);
    pipelines = lua_absindex(L, pipelines);
    tperf_bind_job *job = lua_newuserdatauv(L, sizeof *job, 2);
    memset(job, 0, sizeof *job);
    job->on = tperf_bind_check_platform(L, platform);
    job->pipelines = tperf_bind_check_pipelines(L, pipelines, &job->n_pipelines);
    lua_pushvalue(L, platform);
    lua_setiuservalue(L, -2, TPERF_JOB_PLATFORM);
    lua_pushvalue(L, pipelines);
    lua_setiuservalue(L, -2, TPERF_JOB_PIPELINES);
    luaL_setmetatable(L, job_name);
    return job;
}

const tperf_bind_candidate *tperf_bind_check_candidate(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

int tperf_bind_push_pipelines(lua_State *L, int index) {
    lua_getiuservalue(L, index, TPERF_CANDIDATE_JOB);
    lua_getiuservalue(L, -1, TPERF_JOB_PIPELINES);
    lua_remove(L, -2);
    return lua_gettop(L);
}

tperf_bind_candidate *tperf_bind_push_candidate(lua_State *L, int job, int workload) {
    tperf_bind_candidate *c = lua_newuserdatauv(L, sizeof *c, 2);
    memset(c, 0, sizeof *c);
    c->of = tperf_bind_check_job(L, job);
    c->workload = tperf_bind_check_workload(L, workload);
    c->job = (tperf_job){tperf_bind_on(c->of->on), &c->of->training, 0};
    lua_pushvalue(L, job);
    lua_setiuservalue(L, -2, TPERF_CANDIDATE_JOB);
    lua_pushvalue(L, workload);
    lua_setiuservalue(L, -2, TPERF_CANDIDATE_WORKLOAD);
    luaL_setmetatable(L, type_name);
    return c;
}

// Layer costs of a workload on a platform and placement, cached for the last two requests, with and without software.
// Configurations that differ only in replicas, stages or batch share them.
typedef struct priced {
    bool known;
    tperf_system system;
    tperf_rules rules;
    tperf_software software;
    tperf_placement placement;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
} priced;

// The cache of the workload of the candidate at index 1; the workload owns it.
static priced *priced_of(lua_State *L) {
    lua_getiuservalue(L, 1, TPERF_CANDIDATE_WORKLOAD);
    if (lua_getiuservalue(L, -1, 1) != LUA_TUSERDATA) {
        lua_pop(L, 1);
        priced *made = lua_newuserdatauv(L, 2 * sizeof(priced), 0);
        made[0].known = made[1].known = false; // the rest is set before it is read, and is large
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, -3, 1);
    }
    priced *all = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return all;
}

static bool is_priced(const priced *p, const tperf_platform *on, const tperf_placement *placement) {
    return p->known && memcmp(&p->system, on->system, sizeof p->system) == 0 &&
           memcmp(&p->rules, on->rules, sizeof p->rules) == 0 &&
           memcmp(&p->software, on->software, sizeof p->software) == 0 &&
           memcmp(&p->placement, placement, sizeof p->placement) == 0;
}

void tperf_bind_costs(lua_State *L, const tperf_bind_candidate *c, const tperf_platform *on,
                      tperf_layer_cost *costs) {
    const tperf_placement *placement = &c->candidate.placement;
    priced *p = priced_of(L) + (on->software == &tperf_software_none);
    if (!is_priced(p, on, placement)) {
        tperf_error error;
        p->known = false;
        if (tperf_workload_check_system(c->workload, on->system, &error) != TPERF_OK)
            tperf_bind_raise(L, &error);
        tperf_workload_time(c->workload, on, placement, NULL, p->costs);
        p->system = *on->system;
        p->rules = *on->rules;
        p->software = *on->software;
        p->placement = *placement;
        p->known = true;
    }
    memcpy(costs, p->costs, (size_t)c->workload->n_sections * sizeof *costs);
}

tperf_plan tperf_bind_plan(lua_State *L, tperf_layer_cost *costs) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    tperf_bind_costs(L, c, &c->job.on, costs);
    return (tperf_plan){&c->candidate, &c->job, c->workload, costs};
}

static void new_type(lua_State *L, const char *name, const luaL_Reg *methods) {
    luaL_newmetatable(L, name);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void tperf_bind_new_candidate_types(lua_State *L, const luaL_Reg *of_job,
                                    const luaL_Reg *of_candidate) {
    new_type(L, job_name, of_job);
    new_type(L, type_name, of_candidate);
}
