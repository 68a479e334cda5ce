// bind_place.c: a method of a job: the fastest placement of one way to run a workload, see tperf/search.h.
//   job:place(workload, run, demanded, panels) -> fast, panels; nil if there is none
//     run: { gpus =, global_batch =, dp =, micro_batch =, zero = }; demanded: the placements of dp, pp and the workload's
//     axes, 0: any; panels: list of the numbers to try; fast: as job:candidate takes it
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"
#include "tperf/search.h"

typedef struct run {
    int64_t gpus, global_batch, dp, micro_batch, zero;
} run;

static const tperf_field run_fields[] = {
#define FIELD(name)                                                                                \
    { #name, TPERF_FIELD_INTEGER, offsetof(run, name), true }
    FIELD(gpus), FIELD(global_batch), FIELD(dp), FIELD(micro_batch), FIELD(zero),
#undef FIELD
    {0},
};

// A search of one shape for one question.
typedef struct request {
    run run;
    tperf_question question;
    tperf_search_options options;
    tperf_shape shape;
    int zero;
} request;

// Reads the list of numbers of panels at an index; its userdata stays on the stack.
static void read_panels(lua_State *L, int index, tperf_shape *shape) {
    size_t n = tperf_bind_push_list(L, index, "the panels");
    int list = lua_gettop(L);
    int64_t *panels = lua_newuserdatauv(L, (n + 1) * sizeof *panels, 0);
    shape->n_panels = tperf_bind_check_sizes(L, list, panels, n);
    shape->panels = panels;
    if (n < 1) tperf_bind_fail(L, "a number of panels is needed");
}

// Reads the demanded placements of all axes from the list at an index.
static void read_demanded(lua_State *L, int index, const tperf_workload *workload, request *r) {
    int64_t demanded[TPERF_AXES_MAX] = {0};
    luaL_checktype(L, index, LUA_TTABLE);
    for (int i = 0; i < workload->grid.n; i++) {
        lua_rawgeti(L, index, i + 1);
        demanded[i] = luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    r->options.replicas_fast = demanded[TPERF_AXIS_REPLICAS];
    r->options.stages_fast = demanded[TPERF_AXIS_STAGES];
    memcpy(r->shape.fast, demanded, sizeof demanded);
    r->shape.fast[TPERF_AXIS_REPLICAS] = r->shape.fast[TPERF_AXIS_STAGES] = 0;
}

static void read_request(lua_State *L, const tperf_bind_job *job, const tperf_workload *workload,
                         request *r) {
    tperf_search_options *o = &r->options;
    r->question.system = job->on->system;
    o->rules = job->on->rules;
    o->software = job->on->software;
    o->training = job->training;
    o->pipelines = job->pipelines;
    o->n_pipelines = job->n_pipelines;
    lua_getiuservalue(L, 1, TPERF_JOB_PIPELINES);
    tperf_bind_check_kinds(L, lua_gettop(L), workload);
    lua_pop(L, 1);
    tperf_fields_read(L, 3, "job:place", run_fields, &r->run);
    if (r->run.dp < 1 || r->run.micro_batch < 1 || r->run.zero < 0 || r->run.zero > 3)
        tperf_bind_fail(L, "sizes must be at least 1, the ZeRO stage from 0 to 3");
    r->question.gpus = r->run.gpus;
    r->question.global_batch = r->run.global_batch;
    r->zero = (int)r->run.zero;
    o->zero = &r->zero;
    o->dp = &r->run.dp;
    o->n_zero = o->n_dp = 1;
    o->top = 1;
    o->infeasible_too = true;
    r->shape.strategy = r->shape.variant = 1;
    r->shape.workload = workload;
    r->shape.micro_batch = r->run.micro_batch;
}

// The best candidate, if there is one. Calls nothing of Lua, so that no error can jump over it.
static tperf_status find(const request *r, tperf_found *best, bool *found, tperf_error *error) {
    *found = false;
    tperf_pool *pool = tperf_pool_new(1);
    if (!pool) return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory");
    tperf_answer answer;
    tperf_status status = TPERF_NO_MEMORY;
    tperf_search *search = tperf_search_new(&r->options, &r->question, 1, pool, error);
    if (search) status = tperf_search_walk(search, &r->shape, 1, error);
    if (search && status == TPERF_OK) status = tperf_search_answer(search, 0, &answer, error);
    if (search && status == TPERF_OK && answer.n_found > 0) {
        *found = true;
        *best = answer.found[0];
    }
    tperf_search_free(search);
    tperf_pool_free(pool);
    return status;
}

int tperf_bind_place(lua_State *L) {
    request r;
    memset(&r, 0, sizeof r);
    lua_settop(L, 5);
    const tperf_workload *workload = tperf_bind_check_workload(L, 2);
    read_request(L, tperf_bind_check_job(L, 1), workload, &r);
    read_demanded(L, 4, workload, &r);
    read_panels(L, 5, &r.shape);
    tperf_heap heap = tperf_bind_heap(L);
    r.options.heap = &heap;
    tperf_found best;
    tperf_error error;
    bool found;
    if (find(&r, &best, &found, &error) != TPERF_OK) { // retry without garbage
        lua_gc(L, LUA_GCCOLLECT);
        if (find(&r, &best, &found, &error) != TPERF_OK) return tperf_bind_raise(L, &error);
    }
    if (!found) return 0;
    lua_createtable(L, workload->grid.n, 0);
    for (int i = 0; i < workload->grid.n; i++) {
        lua_pushinteger(L, best.candidate.placement.fast[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, best.candidate.placement.panels);
    return 2;
}
