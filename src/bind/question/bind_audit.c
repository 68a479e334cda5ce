// bind_audit.c: workload:audit(system, rules, training, pipelines, run, fast, software): the breakdown of an
// iteration's parts, as lua/tperf/question/train/sum.lua reads it; and the records of collectives.
#include <math.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/setting.h"

static void set_text(lua_State *L, const char *name, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_flag(lua_State *L, const char *name, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

// A collective in `panels` parts; seconds and bytes are totals.
static void push_comm(lua_State *L, tperf_collective kind, double bytes, tperf_group group,
                      tperf_route route, double panels, double seconds) {
    lua_createtable(L, 0, 12);
    set_text(L, "kind", tperf_collective_names[kind]);
    tperf_fields_set(L, "bytes", bytes);
    set_integer(L, "gpus", group.size);
    set_integer(L, "fast", group.fast);
    tperf_fields_set(L, "time", seconds);
    tperf_fields_set(L, "fast_bytes", panels * route.fast_bytes);
    tperf_fields_set(L, "nic_bytes", panels * route.nic_bytes);
    set_text(L, "algorithm", route.algorithm);
}

void tperf_bind_push_op_comm(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                             const tperf_comm *comm, const tperf_platform *on,
                             const tperf_placement *placement) {
    double panels = tperf_panels_of(op, placement->panels);
    tperf_group group = {workload->sizes[comm->axis_index], placement->fast[comm->axis_index]};
    double seconds = panels * tperf_comm_time(comm, on, workload->sizes, placement, panels);
    tperf_route route = tperf_comm_route(comm, on, group, panels);
    push_comm(L, comm->kind, comm->bytes, group, route, panels, seconds);
    set_text(L, "axis", comm->axis);
    set_flag(L, "beside", comm->beside);
    if (tperf_comm_is_once(comm)) set_flag(L, "once", true);
}

// Pushes the exchange of one layer of a section: its collectives, and the hidden and exposed parts of their sum.
static void push_exchange(lua_State *L, const tperf_setting *s, const tperf_workload *workload,
                          const tperf_layer_cost *costs, const tperf_exchange *exchange,
                          const tperf_exposure *exposures, int section) {
    tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX];
    const tperf_exposure e = exposures[section];
    int n = tperf_replica_comms_of(&s->candidate, &s->job, workload, costs, section, comms);
    lua_createtable(L, 0, 5);
    lua_createtable(L, n, 0);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (comms[i].bytes == 0 || comms[i].group.size == 1) continue;
        tperf_route route = tperf_collective_route(&s->system, &s->rules, comms[i].kind,
                                                   comms[i].bytes, comms[i].group);
        push_comm(L, comms[i].kind, comms[i].bytes, comms[i].group, route, 1, comms[i].seconds);
        set_text(L, "what", comms[i].gathers ? "gather weights" : "reduce gradients");
        set_flag(L, "experts", comms[i].experts);
        if (comms[i].parts != 1) tperf_fields_set(L, "parts", comms[i].parts);
        lua_rawseti(L, -2, ++kept);
    }
    lua_setfield(L, -2, "comms");
    tperf_fields_set(L, "gather_hidden", e.hidden_gather);
    tperf_fields_set(L, "gather_late", e.gather);
    tperf_fields_set(L, "reduce_hidden", e.hidden_reduce);
    tperf_fields_set(L, "reduce_late", e.reduce);
    if (exchange->update > 0) tperf_fields_set(L, "update", exchange->update);
    if (costs[section].backward.once > 0)
        tperf_fields_set(L, "replicated", costs[section].backward.once);
    if (section < workload->n_kinds) return;
    double tied = tperf_tied_time_of(&s->candidate, &s->job, workload, costs);
    if (tied > 0) tperf_fields_set(L, "tied", tied);
}

// Pushes the number of layers of every section in a stage, ends included; with its pipeline, those that a micro-batch
// passes in one of its devices.
static void push_layers(lua_State *L, const tperf_pipeline *pipeline, const tperf_stage *stage,
                        const tperf_workload *workload) {
    int kinds = workload->n_kinds;
    lua_createtable(L, kinds + 2, 1);
    for (int i = 0; i < kinds + 2; i++) {
        lua_pushnumber(L, pipeline ? tperf_layers_passed(pipeline, stage, i, kinds)
                                   : tperf_stage_layers(stage, i, kinds));
        lua_rawseti(L, -2, i + 1);
    }
}

// Pushes those of a stage itself, and its leading section.
static void push_stage(lua_State *L, const tperf_stage *stage, const tperf_workload *workload) {
    push_layers(L, NULL, stage, workload);
    set_integer(L, "leading", tperf_leading_section(stage, workload) + 1);
}

static void set_passes(lua_State *L, const char *name, const tperf_stage_time *t) {
    lua_createtable(L, 0, 6);
    tperf_fields_set(L, "forward", t->forward);
    tperf_fields_set(L, "backward", t->backward);
    tperf_fields_set(L, "input", t->input);
    tperf_fields_set(L, "weight", t->weight);
    tperf_fields_set(L, "pair", t->pair);
    lua_setfield(L, -2, name);
}

// Pushes the average hop between stages, and both kinds of links.
static void push_messages(lua_State *L, const tperf_setting *s, const tperf_workload *workload) {
    tperf_hop hop = tperf_hop_times(&s->job, workload);
    int64_t pp = s->candidate.pipeline->pp, fast = s->candidate.placement.fast[TPERF_AXIS_STAGES];
    double links = (double)pp - 1, slow = fast == 1 ? links : trunc((double)pp / (double)fast - 1);
    const struct {
        const char *name;
        tperf_group group;
        double links, seconds;
    } tiers[] = {{"fast", {2, 2}, links - slow, hop.fast}, {"slow", {2, 1}, slow, hop.slow}};
    double bytes = workload->boundary_bytes / (double)workload->boundary_parts;
    lua_createtable(L, 2, 4);
    for (int i = 0; i < 2; i++) {
        if (pp == 1 || tiers[i].links == 0) continue;
        bool costs = i == 0 || fast == 1 || s->rules.slow_pipeline_links_cost;
        tperf_route route =
            tperf_collective_route(&s->system, &s->rules, TPERF_SEND, bytes, tiers[i].group);
        push_comm(L, TPERF_SEND, bytes, tiers[i].group, route, 1, costs ? tiers[i].seconds : 0);
        tperf_fields_set(L, "links", tiers[i].links);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    tperf_fields_set(L, "gather", pp > 1 ? hop.gather : 0);
    tperf_fields_set(L, "host", pp > 1 ? hop.host : 0);
    double time = tperf_hop_time(&s->candidate, &s->job, hop);
    tperf_message message = tperf_message_of(s->candidate.pipeline, &s->job, time);
    tperf_fields_set(L, "time", time);
    tperf_fields_set(L, "kept", message.pair / 2);
    tperf_fields_set(L, "way", message.way);
    tperf_fields_set(L, "ways", s->candidate.pipeline->ways);
}

// The launches of each section's layer, and what they take beyond its passes.
static void push_launches(lua_State *L, const tperf_workload *workload,
                          const tperf_layer_cost *costs) {
    lua_createtable(L, workload->n_kinds + 2, 0);
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        const tperf_pass_cost *f = &costs[i].forward, *b = &costs[i].backward;
        lua_createtable(L, 0, 4);
        tperf_fields_set(L, "forward", f->launches);
        tperf_fields_set(L, "backward", b->launches);
        tperf_fields_set(L, "forward_wait", f->host);
        tperf_fields_set(L, "backward_wait", b->host);
        lua_rawseti(L, -2, i + 1);
    }
}

static void set_pipeline(lua_State *L, const tperf_pipeline *pipeline, const tperf_iteration *t) {
    tperf_fields_set(L, "bubble_forward", pipeline->bubble_forward);
    tperf_fields_set(L, "bubble_backward", pipeline->bubble_backward);
    tperf_fields_set(L, "bubble_weight_grad", pipeline->bubble_weight_grad);
    tperf_fields_set(L, "split", t->split);
    tperf_fields_set(L, "filling", t->filling);
    tperf_fields_set(L, "pairs", t->pairs);
    tperf_fields_set(L, "hidden", t->hidden);
    tperf_fields_set(L, "hop", t->hop);
    tperf_fields_set(L, "messages_waited", t->messages);
    tperf_fields_set(L, "messages_beside", t->beside);
    tperf_fields_set(L, "messages_late", t->late);
    tperf_fields_set(L, "each_forward", t->each_forward);
    tperf_fields_set(L, "each_backward", t->each_backward);
    set_passes(L, "busiest", &t->pipeline.busy);
    set_passes(L, "others", &t->pipeline.others);
}

// Adds the host's update of offloaded optimizer states, if any.
static void push_host_update(lua_State *L, tperf_host_update u) {
    if (!(u.bytes_updated > 0)) return;
    lua_createtable(L, 0, 6);
    tperf_fields_set(L, "bytes_out", u.bytes_out);
    tperf_fields_set(L, "bytes_in", u.bytes_in);
    tperf_fields_set(L, "bytes_updated", u.bytes_updated);
    tperf_fields_set(L, "out", u.out);
    tperf_fields_set(L, "back", u.in);
    tperf_fields_set(L, "update", u.update);
    lua_setfield(L, -2, "host_update");
}

// Adds the optimizer's iterations on matrices, if any.
static void push_orthogonal(lua_State *L, tperf_orthogonal update) {
    if (!(update.flops > 0)) return;
    lua_createtable(L, 0, 4);
    tperf_fields_set(L, "matrices", update.matrices);
    tperf_fields_set(L, "flops", update.flops);
    tperf_fields_set(L, "calls", update.calls);
    tperf_fields_set(L, "time", update.time);
    lua_setfield(L, -2, "update");
}

static int workload_audit(lua_State *L) {
    tperf_setting s;
    tperf_error error;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure exposures[TPERF_SECTIONS_MAX];
    const tperf_workload *workload = tperf_bind_read_setting(L, &s);
    if (tperf_workload_check_system(workload, &s.system, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    tperf_workload_time(workload, &s.job.on, &s.candidate.placement, NULL, costs);
    tperf_exchange_times(&s.candidate, &s.job, workload, costs, exchanges);
    tperf_iteration t = tperf_iteration_of(&s.candidate, &s.job, workload, costs);
    lua_createtable(L, 0, 24);
    set_pipeline(L, s.candidate.pipeline, &t);
    push_layers(L, s.candidate.pipeline, t.pipeline.busiest, workload);
    lua_setfield(L, -2, "layers");
    tperf_exposures_of(&s.candidate, &s.job, workload, costs, exchanges, t.optimizer, exposures);
    if (t.waiting) {
        tperf_exposure e = tperf_stage_exposure(t.waiting, workload, exposures);
        push_stage(L, t.waiting, workload);
        push_layers(L, s.candidate.pipeline, t.waiting, workload);
        lua_setfield(L, -2, "passed");
        tperf_fields_set(L, "slack", t.slack);
        tperf_fields_set(L, "first_gather", e.first_gather);
        tperf_fields_set(L, "first_reduce", e.first_reduce);
        lua_setfield(L, -2, "waiting");
    }
    lua_createtable(L, workload->n_kinds + 2, 0);
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        push_exchange(L, &s, workload, costs, &exchanges[i], exposures, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "exchanges");
    push_messages(L, &s, workload);
    lua_setfield(L, -2, "messages");
    double hop = tperf_hop_time(&s.candidate, &s.job, tperf_hop_times(&s.job, workload));
    tperf_fields_set(
        L, "least",
        tperf_iteration_least(&s.candidate, &s.job, workload, costs, exchanges, hop, t.optimizer));
    push_launches(L, workload, costs);
    lua_setfield(L, -2, "launches");
    tperf_fields_set(L, "host", tperf_launch_time(&s.job.on, 1));
    tperf_fields_set(L, "bare_call", tperf_bare_calls_time(&s.job.on, 1));
    tperf_fields_set(L, "step_calls", s.software.step_calls);
    tperf_fields_set(L, "optimizer_bytes",
                     tperf_optimizer_bytes(&s.candidate, &s.job, workload, costs));
    tperf_fields_set(L, "optimizer_part", s.software.optimizer);
    set_flag(L, "gathers_each", tperf_gathers_each(&s.candidate, &s.training));
    set_flag(L, "reduces_each", tperf_reduces_each(&s.candidate, &s.training));
    set_flag(L, "gathers_again", s.candidate.zero >= 3 && s.training.reshards > 0);
    push_orthogonal(L, tperf_orthogonal_of(&s.candidate, &s.job, workload, costs));
    push_host_update(L, tperf_optimizer_host(&s.candidate, &s.job, workload, costs));
    tperf_fields_set(L, "hbm", s.system.accelerator.hbm.bandwidth);
    return 1;
}

void tperf_bind_audit(lua_State *L) {
    lua_pushcfunction(L, workload_audit);
    lua_setfield(L, -2, "audit");
}
