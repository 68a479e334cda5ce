// bind_audit.c: candidate:audit(): the breakdown of an iteration's parts, as lua/tperf/question/train/sum.lua reads it.
#include <math.h>

#include "bind/bind.h"
#include "bind/describe/comm_record.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"

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

// Pushes the exchange of one layer of a section: its collectives, and the hidden and exposed parts of their sum.
static void push_exchange(lua_State *L, const tperf_plan *plan, int section,
                          const tperf_exchange *exchange, tperf_exposure e) {
    tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX];
    const tperf_platform *on = &plan->job->on;
    int n = tperf_replica_comms_of(plan, section, comms);
    lua_createtable(L, 0, 5);
    lua_createtable(L, n, 0);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (comms[i].bytes == 0 || comms[i].group.size == 1) continue;
        tperf_route route = tperf_collective_route(on->system, on->rules, comms[i].kind,
                                                   comms[i].bytes, comms[i].group);
        tperf_bind_push_comm(L, &(tperf_bind_comm){comms[i].kind, comms[i].bytes, comms[i].group,
                                                   route, comms[i].seconds, on->system});
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
    double once = plan->costs[section].backward.once;
    if (once > 0) tperf_fields_set(L, "replicated", once);
    if (section < plan->workload->n_kinds) return;
    double tied = tperf_joint_time_of(plan, section);
    if (tied > 0) tperf_fields_set(L, "tied", tied);
}

// Pushes the number of layers of every section in a stage, ends included; with its pipeline, those that a micro-batch
// passes in one of its devices.
static void push_layers(lua_State *L, const tperf_pipeline *pipeline, const tperf_stage *stage,
                        const tperf_workload *workload) {
    lua_createtable(L, workload->n_sections, 1);
    for (int i = 0; i < workload->n_sections; i++) {
        lua_pushnumber(L, pipeline ? tperf_layers_passed(pipeline, stage, i, workload)
                                   : tperf_stage_layers(stage, i, workload));
        lua_rawseti(L, -2, i + 1);
    }
}

// Pushes those of a stage itself, and its leading section.
static void push_stage(lua_State *L, const tperf_stage *stage, const tperf_workload *workload) {
    push_layers(L, NULL, stage, workload);
    set_integer(L, "leading", tperf_leading_section(stage, workload) + 1);
}

// Links between stages that lead equally far.
typedef struct hop_kind {
    tperf_group group;
    double links, seconds;
} hop_kind;

// Adds those through the uplinks of further tiers behind the two of ports, from which it takes them; returns how many.
static int add_kinds(const tperf_plan *plan, const tperf_hop *hop, hop_kind *kinds) {
    const tperf_system *system = hop->system;
    const tperf_candidate *candidate = plan->candidate;
    if (!system || candidate->pipeline->pp == 1) return 0;
    double pp = (double)candidate->pipeline->pp,
           fast = (double)candidate->placement.fast[TPERF_AXIS_STAGES],
           dp = (double)candidate->sizes[TPERF_AXIS_REPLICAS];
    hop_kind *inward[2] = {&kinds[0], &kinds[1]};
    int n = (int)system->network.n_tiers;
    for (int i = 0; i < n; i++) {
        const tperf_tier *tier = &system->network.tiers[i];
        hop_kind *kind = &kinds[2 + i];
        *kind = (hop_kind){tperf_pair_across(system, tier),
                           tperf_hop_links(hop, pp, fast, dp, tier), hop->up[i]};
        inward[tier->outside]->links -= kind->links;
        inward[tier->outside] = kind;
    }
    return n;
}

// Pushes the average hop between stages, and both kinds of links.
static void push_messages(lua_State *L, const tperf_plan *plan) {
    const tperf_candidate *candidate = plan->candidate;
    const tperf_workload *workload = plan->workload;
    const tperf_platform *on = &plan->job->on;
    tperf_hop hop = tperf_hop_times(plan->job, workload);
    int64_t pp = candidate->pipeline->pp, fast = candidate->placement.fast[TPERF_AXIS_STAGES];
    double links = (double)pp - 1, slow = fast == 1 ? links : trunc((double)pp / (double)fast - 1);
    hop_kind kinds[TPERF_TIERS_MAX] = {{{2, 2, 1, 1}, links - slow, hop.fast},
                                       {{2, 1, 1, 1}, slow, hop.slow}};
    int n_kinds = 2 + add_kinds(plan, &hop, kinds);
    double bytes = workload->boundary_bytes / (double)workload->boundary_parts;
    lua_createtable(L, 2, 4);
    for (int i = 0; i < n_kinds; i++) {
        if (pp == 1 || kinds[i].links == 0) continue;
        bool costs = kinds[i].group.fast > 1 || fast == 1 || on->rules->slow_pipeline_links_cost;
        tperf_route route =
            tperf_collective_route(on->system, on->rules, TPERF_SEND, bytes, kinds[i].group);
        tperf_bind_push_comm(L, &(tperf_bind_comm){TPERF_SEND, bytes, kinds[i].group, route,
                                                   costs ? kinds[i].seconds : 0, on->system});
        tperf_fields_set(L, "links", kinds[i].links);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    tperf_fields_set(L, "gather", pp > 1 ? hop.gather : 0);
    tperf_fields_set(L, "host", pp > 1 ? hop.host : 0);
    double time = tperf_hop_time(candidate, plan->job, hop);
    tperf_message message = tperf_message_of(candidate->pipeline, plan->job, time);
    tperf_fields_set(L, "time", time);
    tperf_fields_set(L, "kept", message.pair / 2);
    tperf_fields_set(L, "way", message.way);
    tperf_fields_set(L, "ways", candidate->pipeline->ways);
}

// The launches of each section's layer, and what they take beyond its passes.
static void push_launches(lua_State *L, const tperf_workload *workload,
                          const tperf_layer_cost *costs) {
    lua_createtable(L, workload->n_sections, 0);
    for (int i = 0; i < workload->n_sections; i++) {
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
    tperf_record_set(L, &tperf_iteration_record, t);
    tperf_record_push(L, &tperf_stage_time_record, &t->pipeline.busy);
    lua_setfield(L, -2, "busiest");
    tperf_record_push(L, &tperf_stage_time_record, &t->pipeline.others);
    lua_setfield(L, -2, "others");
}

// Adds the host's update of offloaded optimizer states, if any.
static void push_host_update(lua_State *L, tperf_host_update u) {
    if (!(u.bytes_updated > 0)) return;
    tperf_record_push(L, &tperf_host_update_record, &u);
    lua_setfield(L, -2, "host_update");
}

// Adds the optimizer's iterations on matrices, if any.
static void push_orthogonal(lua_State *L, tperf_orthogonal update) {
    if (!(update.flops > 0)) return;
    tperf_record_push(L, &tperf_orthogonal_record, &update);
    lua_setfield(L, -2, "update");
}

// Pushes the stage that waits longest for the exchanges that come once an iteration.
static void push_waiting(lua_State *L, const tperf_plan *plan, const tperf_iteration *t,
                         const tperf_exposure *exposures) {
    tperf_exposure e = tperf_stage_exposure(t->waiting, plan->workload, exposures);
    push_stage(L, t->waiting, plan->workload);
    tperf_fields_set(L, "first_gather", e.first_gather);
    tperf_fields_set(L, "first_reduce", e.first_reduce);
}

// Adds what the exchanges with replicas take.
static void set_exchanges(lua_State *L, const tperf_plan *plan, const tperf_iteration *t) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure exposures[TPERF_SECTIONS_MAX];
    int n = plan->workload->n_sections;
    tperf_exchange_times(plan, exchanges);
    tperf_exposures_of(plan, exchanges, t->optimizer, exposures);
    if (t->waiting) {
        push_waiting(L, plan, t, exposures);
        lua_setfield(L, -2, "waiting");
    }
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        push_exchange(L, plan, i, &exchanges[i], exposures[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "exchanges");
    double hop =
        tperf_hop_time(plan->candidate, plan->job, tperf_hop_times(plan->job, plan->workload));
    tperf_fields_set(L, "least", tperf_iteration_least(plan, exchanges, hop, t->optimizer));
    const tperf_candidate *candidate = plan->candidate;
    const tperf_training *training = plan->job->training;
    set_flag(L, "gathers_each", tperf_gathers_each(candidate, training));
    set_flag(L, "reduces_each", tperf_reduces_each(candidate, training));
    set_flag(L, "gathers_again", candidate->zero >= 3 && training->reshards > 0);
}

// Adds the optimizer's step, and what the host's calls take.
static void set_step(lua_State *L, const tperf_plan *plan) {
    const tperf_platform *on = &plan->job->on;
    push_launches(L, plan->workload, plan->costs);
    lua_setfield(L, -2, "launches");
    tperf_fields_set(L, "host", tperf_launch_time(on, 1));
    tperf_fields_set(L, "bare_call", tperf_bare_calls_time(on, 1));
    tperf_fields_set(L, "step_calls", on->software->step_calls);
    tperf_fields_set(L, "optimizer_bytes", tperf_optimizer_bytes(plan));
    tperf_fields_set(L, "optimizer_part", on->software->optimizer);
    push_orthogonal(L, tperf_orthogonal_of(plan));
    push_host_update(L, tperf_optimizer_host(plan));
    tperf_fields_set(L, "hbm", on->system->accelerator.hbm.bandwidth);
}

int tperf_bind_candidate_audit(lua_State *L) {
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    const tperf_plan plan = tperf_bind_plan(L, costs);
    tperf_iteration t = tperf_iteration_of(&plan);
    lua_createtable(L, 0, 24);
    set_pipeline(L, plan.candidate->pipeline, &t);
    push_layers(L, plan.candidate->pipeline, t.pipeline.busiest, plan.workload);
    lua_setfield(L, -2, "layers");
    set_exchanges(L, &plan, &t);
    push_messages(L, &plan);
    lua_setfield(L, -2, "messages");
    set_step(L, &plan);
    return 1;
}
