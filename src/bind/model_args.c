// model_args.c: see model_args.h.
#include "bind/model_args.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"

static const struct {
    const char *name;
    size_t offset;
} rule_fields[] = {
#define RULE(field)                                                                                \
    { #field, offsetof(tperf_rules, field) }
    RULE(all_reduce_is_two_passes),    RULE(lone_gpus_use_all_nics),
    RULE(slow_pipeline_links_cost),    RULE(flops_without_equivalents),
    RULE(panels_overlap_exactly),      RULE(launch_outside_roofline),
    RULE(data_overlap_excludes_comm),  RULE(placements_may_underfill),
    RULE(recompute_counts_everywhere), RULE(memory_counts_passing),
#undef RULE
};
_Static_assert(sizeof rule_fields / sizeof *rule_fields == sizeof(tperf_rules) / sizeof(bool),
               "every field of tperf_rules is read");

static void read_rules(lua_State *L, int index, tperf_rules *rules) {
    luaL_checktype(L, index, LUA_TTABLE);
    for (size_t i = 0; i < sizeof rule_fields / sizeof *rule_fields; i++) {
        if (tperf_bind_raw_field(L, index, rule_fields[i].name) != LUA_TBOOLEAN)
            tperf_bind_fail(L, "the rules lack '%s'", rule_fields[i].name);
        *(bool *)((char *)rules + rule_fields[i].offset) = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
}

static const tperf_field training_fields[] = {
#define FIELD(name)                                                                                \
    { #name, TPERF_FIELD_NUMBER, offsetof(tperf_training, name), true }
    FIELD(gradient_bytes),
    FIELD(kept_bytes),
    FIELD(optimizer_bytes),
    FIELD(end_optimizer_bytes),
    FIELD(narrow_bytes),
    FIELD(recompute_layers),
    FIELD(workspace_bytes),
    FIELD(communicator_bytes),
    FIELD(data_overlap),
    FIELD(offloaded),
    FIELD(iterations),
    FIELD(reshards),
    FIELD(reserved),
#undef FIELD
#define OVERLAP(kind, name)                                                                        \
    { #name, TPERF_FIELD_##kind, offsetof(tperf_training, name), false }
    OVERLAP(FLAG, hide_experts),
    OVERLAP(FLAG, delay_grads),
    OVERLAP(FLAG, overlap_p2p),
    OVERLAP(FLAG, reduces_whole),
    OVERLAP(NUMBER, broadcast_layers),
    OVERLAP(NUMBER, gather_overlap),
    OVERLAP(NUMBER, reduce_overlap),
    OVERLAP(NUMBER, bucket),
    OVERLAP(NUMBER, bucket_bytes),
    OVERLAP(NUMBER, bucket_each),
    OVERLAP(FLAG, gather_in_step),
#undef OVERLAP
    {0},
};

void tperf_bind_check_training(lua_State *L, int index, tperf_training *training) {
    *training = (tperf_training){0};
    training->gather_overlap = training->reduce_overlap = -1;
    tperf_fields_read(L, index, "training", training_fields, training);
    bool sound = training->kept_bytes >= 0 && training->gradient_bytes >= 0 &&
                 training->optimizer_bytes >= 0 && training->end_optimizer_bytes >= 0 &&
                 training->narrow_bytes >= 0 && training->recompute_layers >= 1 &&
                 training->workspace_bytes >= 0 && training->communicator_bytes >= 0 &&
                 training->data_overlap >= 0 && training->data_overlap <= 1 &&
                 training->gather_overlap <= 1 && training->reduce_overlap <= 1 &&
                 training->bucket >= 0 && training->bucket_bytes >= 0 &&
                 training->bucket_each >= 0 && training->iterations >= 0 &&
                 training->broadcast_layers >= 0 && training->offloaded >= 0 &&
                 training->offloaded <= 1 && training->reserved >= 0 && training->reserved < 1;
    if (!sound) tperf_bind_fail(L, "training: bytes must not be negative, parts be from 0 to 1");
}

static const tperf_field software_fields[] = {
#define FIELD(name, member)                                                                        \
    { name, TPERF_FIELD_NUMBER, offsetof(tperf_software, member), true }
    FIELD("compute", compute),
    FIELD("attention", attention),
    FIELD("memory", memory),
    FIELD("comm", comm),
    FIELD("host", host_s),
    FIELD("overlap", overlap),
    FIELD("optimizer", optimizer),
    {"flash", TPERF_FIELD_INTEGER, offsetof(tperf_software, flash), false},
    {"comm_setup", TPERF_FIELD_NUMBER, offsetof(tperf_software, comm_setup_s), false},
    {"comm_sms", TPERF_FIELD_NUMBER, offsetof(tperf_software, comm_units), false},
    {"step_calls", TPERF_FIELD_NUMBER, offsetof(tperf_software, step_calls), false},
    {"message_calls", TPERF_FIELD_NUMBER, offsetof(tperf_software, message_calls), false},
    {"pytorch_call", TPERF_FIELD_NUMBER, offsetof(tperf_software, pytorch_call_s), false},
    {"module_calls", TPERF_FIELD_NUMBER, offsetof(tperf_software, module_calls), false},
    {"gradient_bytes", TPERF_FIELD_NUMBER, offsetof(tperf_software, gradient_bytes), false},
    {"accumulates", TPERF_FIELD_FLAG, offsetof(tperf_software, accumulates), false},
    {"fused_accumulation", TPERF_FIELD_FLAG, offsetof(tperf_software, fused_accumulation), false},
    {"pytorch_modules", TPERF_FIELD_FLAG, offsetof(tperf_software, pytorch_modules), false},
#undef FIELD
    {0},
};

void tperf_bind_check_software(lua_State *L, int index, tperf_software *software) {
    *software = tperf_software_none;
    tperf_fields_read(L, index, "software", software_fields, software);
    tperf_error error;
    if (tperf_software_validate(software, &error) != TPERF_OK) tperf_bind_raise(L, &error);
}

static const char kept_key; // registry key of a table: rules that never change -> their struct

// keep(rules)
static int keep(lua_State *L) {
    lua_settop(L, 1);
    tperf_bind_weak_table(L, &kept_key);
    lua_pushvalue(L, 1);
    read_rules(L, 1, lua_newuserdatauv(L, sizeof(tperf_rules), 0));
    lua_rawset(L, 2);
    return 0;
}

void tperf_bind_keep(lua_State *L) {
    lua_pushcfunction(L, keep);
}

void tperf_bind_check_rules(lua_State *L, int index, tperf_rules *rules) {
    index = lua_absindex(L, index);
    tperf_bind_weak_table(L, &kept_key);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    const tperf_rules *kept = lua_touserdata(L, -1);
    if (kept)
        *rules = *kept;
    else
        read_rules(L, index, rules);
    lua_pop(L, 2);
}

void tperf_bind_check_parts(lua_State *L, const tperf_workload *workload,
                            const tperf_placement *placement) {
    for (int i = TPERF_AXIS_OWN; i < workload->grid.n; i++)
        if (workload->sizes[i] == 0)
            continue; // shards the state of all replicas, without collectives of its own
        else if (placement->fast[i] > workload->sizes[i] ||
                 workload->sizes[i] % placement->fast[i] != 0)
            tperf_bind_fail(L, "%I of %I GPUs cannot share a fast domain",
                            (LUAI_UACINT)placement->fast[i], (LUAI_UACINT)workload->sizes[i]);
}

void tperf_bind_check_placement(lua_State *L, int index, const tperf_workload *workload,
                                tperf_placement *placement) {
    size_t n = tperf_bind_check_sizes(L, index, placement->fast, TPERF_AXES_MAX);
    if (n != (size_t)workload->grid.n)
        tperf_bind_fail(L, "a placement of %d axes, not %d", workload->grid.n, (int)n);
    tperf_bind_check_parts(L, workload, placement);
    if (placement->panels < 1) tperf_bind_fail(L, "'panels' must be at least 1");
}

void tperf_bind_check_order(lua_State *L, int index, int n_axes, tperf_rank_order *order) {
    int64_t axes[TPERF_AXES_MAX];
    unsigned seen = 0;
    order->n = (int)tperf_bind_check_sizes(L, index, axes, TPERF_AXES_MAX);
    for (int i = 0; i < order->n; i++) {
        if (axes[i] > n_axes || seen >> axes[i] & 1)
            tperf_bind_fail(L, "an order of ranks has each axis once, of %d", n_axes);
        seen |= 1u << axes[i];
        order->axes[i] = (int8_t)(axes[i] - 1);
    }
}

size_t tperf_bind_check_sizes(lua_State *L, int index, int64_t *out, size_t max) {
    size_t n = tperf_bind_length(L, index, "a list of sizes");
    if (n > max) tperf_bind_fail(L, "at most %I sizes, got %I", (LUAI_UACINT)max, (LUAI_UACINT)n);
    for (size_t i = 0; i < n; i++) {
        int whole;
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        out[i] = lua_tointegerx(L, -1, &whole);
        if (!whole || out[i] < 1) tperf_bind_fail(L, "a size must be an integer of at least 1");
        lua_pop(L, 1);
    }
    return n;
}

const int64_t *tperf_bind_push_sizes(lua_State *L, int index, size_t *n) {
    *n = 0;
    if (lua_isnoneornil(L, index)) {
        lua_pushnil(L);
        return NULL;
    }
    size_t length = tperf_bind_push_list(L, index, "a list of sizes");
    int64_t *list = lua_newuserdatauv(L, (length + 1) * sizeof *list, 0);
    lua_insert(L, -2);
    *n = tperf_bind_check_sizes(L, -1, list, length);
    lua_pop(L, 1);
    return list;
}
