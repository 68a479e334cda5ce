// bind_candidate.c: core.job, and a job's candidates, see candidate.h.
#include "bind/question/candidate.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.candidate", job_name[] = "tperf.job";

const tperf_bind_job *tperf_bind_check_job(lua_State *L, int index) {
    return luaL_checkudata(L, index, job_name);
}

static tperf_bind_job *push_job(lua_State *L, int platform, int pipelines) {
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

// job(platform, training, pipelines)
static int new_job(lua_State *L) {
    lua_settop(L, 3);
    tperf_training training;
    tperf_bind_check_training(L, 2, &training);
    push_job(L, 1, 3)->training = training;
    return 1;
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

// Pushes a candidate of the job and the workload at these indices.
static tperf_bind_candidate *push_candidate(lua_State *L, int job, int workload) {
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

// candidate(workload, run)
static int new_candidate(lua_State *L) {
    enum { JOB = 1, WORKLOAD, RUN, CANDIDATE };
    lua_settop(L, RUN);
    tperf_bind_candidate *c = push_candidate(L, JOB, WORKLOAD);
    tperf_choice choice;
    int64_t fast[TPERF_AXES_MAX];
    luaL_checktype(L, RUN, LUA_TTABLE);
    tperf_record_take(L, RUN, &tperf_choice_record, &choice);
    tperf_bind_raw_field(L, RUN, "pipeline");
    lua_Integer pipeline = luaL_checkinteger(L, -1);
    if (pipeline < 1 || (size_t)pipeline > c->of->n_pipelines)
        tperf_bind_fail(L, "no such pipeline");
    tperf_bind_check_kinds(L, tperf_bind_push_pipelines(L, CANDIDATE), c->workload);
    tperf_bind_raw_field(L, RUN, "fast");
    size_t n = tperf_bind_check_sizes(L, lua_gettop(L), fast, TPERF_AXES_MAX);
    if (n != (size_t)c->workload->grid.n)
        tperf_bind_fail(L, "a placement of %d axes, not %d", c->workload->grid.n, (int)n);
    tperf_error error;
    if (tperf_candidate_init(&c->candidate, c->workload, &c->of->pipelines[pipeline - 1], &choice,
                             fast, &error) != TPERF_OK)
        return tperf_bind_fail(L, "%s", error.message);
    c->job.global_batch = choice.global_batch;
    lua_settop(L, CANDIDATE);
    return 1;
}

static int bare(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    lua_settop(L, 1);
    tperf_bind_push_pipelines(L, 1);
    tperf_bind_push_bare(L, c->of->on);
    push_job(L, 3, 2)->training = c->of->training;
    lua_getiuservalue(L, 1, TPERF_CANDIDATE_WORKLOAD);
    tperf_bind_candidate *made = push_candidate(L, 4, 5);
    made->candidate = c->candidate;
    made->job.global_batch = c->job.global_batch;
    return 1;
}

static const luaL_Reg methods[] = {
    {"time", tperf_bind_candidate_time},
    {"stages", tperf_bind_candidate_stages},
    {"ops", tperf_bind_candidate_ops},
    {"audit", tperf_bind_candidate_audit},
    {"passes", tperf_bind_candidate_passes},
    {"tasks", tperf_bind_candidate_tasks},
    {"predictor", tperf_bind_candidate_predictor},
    {"bare", bare},
    {NULL, NULL},
};

void tperf_bind_jobs(lua_State *L) {
    static const luaL_Reg of_job[] = {
        {"candidate", new_candidate}, {"place", tperf_bind_place}, {NULL, NULL}};
    tperf_bind_predictors(L);
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newmetatable(L, job_name);
    luaL_newlib(L, of_job);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_job);
}
