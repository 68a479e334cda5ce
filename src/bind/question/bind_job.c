// bind_job.c: core.job, and the methods of jobs and candidates, see candidate.h.
#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"

// job(platform, training, pipelines)
static int new_job(lua_State *L) {
    lua_settop(L, 3);
    tperf_training training;
    tperf_bind_check_training(L, 2, &training);
    tperf_bind_push_job(L, 1, 3)->training = training;
    return 1;
}

// candidate(workload, run)
static int new_candidate(lua_State *L) {
    enum { JOB = 1, WORKLOAD, RUN, CANDIDATE };
    lua_settop(L, RUN);
    tperf_bind_candidate *c = tperf_bind_push_candidate(L, JOB, WORKLOAD);
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

static int ops(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    return tperf_bind_push_ops(L, c->workload, &c->job.on, &c->candidate.placement);
}

static int bare(lua_State *L) {
    const tperf_bind_candidate *c = tperf_bind_check_candidate(L, 1);
    lua_settop(L, 1);
    tperf_bind_push_pipelines(L, 1);
    tperf_bind_push_bare(L, c->of->on);
    tperf_bind_push_job(L, 3, 2)->training = c->of->training;
    lua_getiuservalue(L, 1, TPERF_CANDIDATE_WORKLOAD);
    tperf_bind_candidate *made = tperf_bind_push_candidate(L, 4, 5);
    made->candidate = c->candidate;
    made->job.global_batch = c->job.global_batch;
    return 1;
}

static const luaL_Reg methods[] = {
    {"time", tperf_bind_candidate_time},
    {"stages", tperf_bind_candidate_stages},
    {"ops", ops},
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
    tperf_bind_new_candidate_types(L, of_job, methods);
    lua_pushcfunction(L, new_job);
}
