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

// pipeline: its position in the job's.
#define RUN(FIELD)                                                                                 \
    FIELD(global_batch)                                                                            \
    FIELD(dp) FIELD(pipeline) FIELD(micro_batch) FIELD(panels) FIELD(zero)

typedef struct run {
#define FIELD(name) int64_t name;
    RUN(FIELD)
#undef FIELD
} run;

static const tperf_field run_fields[] = {
#define FIELD(name) {#name, TPERF_FIELD_INTEGER, offsetof(run, name), true},
    RUN(FIELD)
#undef FIELD
        {"fast", TPERF_FIELD_ANY, 0, true}, // GPUs of each axis in a fast domain
    {0},
};

const tperf_bind_candidate *tperf_bind_check_candidate(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

int tperf_bind_push_pipelines(lua_State *L, int index) {
    lua_getiuservalue(L, index, TPERF_CANDIDATE_JOB);
    lua_getiuservalue(L, -1, TPERF_JOB_PIPELINES);
    lua_remove(L, -2);
    return lua_gettop(L);
}

// Whether the sizes avoid division by zero and overflow; the caller checks divisibility.
static bool is_sound(const run *r) {
    return r->dp >= 1 && r->micro_batch >= 1 && r->panels >= 1 && r->zero >= 0 && r->zero <= 3 &&
           r->global_batch / r->micro_batch >= r->dp && r->dp <= (int64_t)1 << 31;
}

static bool has_part(const tperf_candidate *candidate, int axis) {
    int64_t part = candidate->placement.fast[axis];
    return part <= candidate->sizes[axis] && candidate->sizes[axis] % part == 0;
}

// Fills the candidate, whose placement has been read.
static void set_candidate(lua_State *L, const run *r, const tperf_workload *workload,
                          tperf_candidate *candidate) {
    memcpy(candidate->sizes, workload->sizes, sizeof candidate->sizes);
    candidate->sizes[TPERF_AXIS_REPLICAS] = r->dp;
    candidate->sizes[TPERF_AXIS_STAGES] = candidate->pipeline->pp;
    candidate->micro_batch = r->micro_batch;
    candidate->zero = (int)r->zero;
    int64_t own = tperf_grid_own_gpus(&workload->grid, workload->sizes, (int64_t)1 << 31);
    if (!own || own > ((int64_t)1 << 31) / r->dp || !has_part(candidate, TPERF_AXIS_REPLICAS) ||
        !has_part(candidate, TPERF_AXIS_STAGES) ||
        !tperf_grid_folds(&workload->grid, candidate->sizes))
        tperf_bind_fail(L, "sizes must be at least 1 and lie in what they divide");
    int64_t ways = r->dp * tperf_grid_own_batch(&workload->grid, workload->sizes);
    if (r->global_batch / r->micro_batch < ways)
        tperf_bind_fail(L, "a batch of %I is too small for %I replicas",
                        (LUAI_UACINT)r->global_batch, (LUAI_UACINT)ways);
    candidate->microbatches = r->global_batch / ways / r->micro_batch;
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

static int new_candidate(lua_State *L) {
    run r;
    lua_settop(L, 3);
    tperf_bind_candidate *c = push_candidate(L, 1, 2);
    tperf_fields_read(L, 3, "job:candidate", run_fields, &r);
    if (r.pipeline < 1 || (size_t)r.pipeline > c->of->n_pipelines)
        tperf_bind_fail(L, "no such pipeline");
    c->candidate.pipeline = &c->of->pipelines[r.pipeline - 1];
    if (!is_sound(&r)) tperf_bind_fail(L, "sizes must be at least 1 and lie in what they divide");
    tperf_bind_check_kinds(L, tperf_bind_push_pipelines(L, 4), c->workload);
    c->candidate.placement.panels = r.panels;
    tperf_bind_raw_field(L, 3, "fast");
    tperf_bind_check_placement(L, lua_gettop(L), c->workload, &c->candidate.placement);
    set_candidate(L, &r, c->workload, &c->candidate);
    c->job.global_batch = r.global_batch;
    lua_settop(L, 4);
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
