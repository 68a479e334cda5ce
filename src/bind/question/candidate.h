// candidate.h: one way to train a model, an object with all that its time and memory depend on. Private to src/bind.
//   job:candidate(workload, run) -> candidate   run: the fields of TPERF_CHOICE (tperf/plan.h); pipeline: its position in
//     the job's; fast: list of the GPUs of each axis in a fast domain. The caller has checked that its sizes divide
// Methods of a candidate, which bind_job.c lists:
//   time([fields])   record, as tperf.train documents it, with space for so many fields, as many as most configurations
//                    of a search have unless given
//   stages()         list of what the devices of its pipeline hold, its `stages`
//   ops(section)     list of records, as tperf.layer documents them
//   audit()          the breakdown of its parts: bind_audit.c
//   passes(stages)   what a schedule of so many stages is simulated with: bind_iteration.c
//   tasks(stages)    the tasks of its step: bind_step.c
//   predictor()      its time as a function of the software: predictor:seconds(software)
//   bare()           the same candidate without software
#ifndef TPERF_BIND_CANDIDATE_H
#define TPERF_BIND_CANDIDATE_H

#include <lauxlib.h>

#include "bind/platform.h"

typedef struct tperf_bind_candidate {
    const tperf_workload *workload;
    const tperf_bind_job *of;
    tperf_candidate candidate;
    tperf_job job; // points into `of`
} tperf_bind_candidate;

// User values of a candidate.
enum { TPERF_CANDIDATE_JOB = 1, TPERF_CANDIDATE_WORKLOAD };

const tperf_bind_candidate *tperf_bind_check_candidate(lua_State *L, int index);

// Makes the types of jobs and candidates, with these methods.
void tperf_bind_new_candidate_types(lua_State *L, const luaL_Reg *of_job,
                                    const luaL_Reg *of_candidate);
// Push a job of the platform and the pipelines at these indices, and a candidate of a job and a workload; the caller
// fills in the rest.
tperf_bind_job *tperf_bind_push_job(lua_State *L, int platform, int pipelines);
tperf_bind_candidate *tperf_bind_push_candidate(lua_State *L, int job, int workload);

// Pushes the pipelines of the candidate at index; returns their index.
int tperf_bind_push_pipelines(lua_State *L, int index);

// The candidate at index 1 with its costs[n_sections], which are remembered; and its costs on another platform. Raises
// unless the system has every peak that the workload's ops need.
tperf_plan tperf_bind_plan(lua_State *L, tperf_layer_cost *costs);
void tperf_bind_costs(lua_State *L, const tperf_bind_candidate *c, const tperf_platform *on,
                      tperf_layer_cost *costs);

int tperf_bind_candidate_time(lua_State *L);
int tperf_bind_candidate_stages(lua_State *L);
int tperf_bind_candidate_passes(lua_State *L);
int tperf_bind_candidate_predictor(lua_State *L);
int tperf_bind_candidate_audit(lua_State *L);
int tperf_bind_candidate_tasks(lua_State *L);
int tperf_bind_place(lua_State *L);       // job:place, see bind_place.c
void tperf_bind_predictors(lua_State *L); // makes their type

#endif
