// bind_inference.c: inference on one replica, see tperf/inference.h.
//   tperf.core.decode(keys, workloads) -> decode     one step, laid out for each of an ascending list of numbers of
//       keys
//   decode:ops(section, platform, fast, first, last)   records of the section's ops, averaged over the steps with
//     first … last keys, like workload:ops for their forward pass
//   tperf.core.infer(platform, shape, placements, run) -> record, n
//     shape: { pipelines =, prefill =, decode = (or nil), single =, caches = for each kind of layer { token_bytes =,
//     most_tokens =, state_bytes = } }
//     placements: a list to choose from; the n-th is the chosen one
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/platform.h"
#include "tperf/inference.h"

static const char type_name[] = "tperf.decode";

enum { WORKLOADS = 1 }; // the user value of a decode

static int new_decode(lua_State *L) {
    int64_t keys[TPERF_LENGTHS_MAX];
    size_t n = tperf_bind_check_sizes(L, 1, keys, TPERF_LENGTHS_MAX);
    lua_settop(L, 2);
    size_t workloads = tperf_bind_push_list(L, 2, "the workloads");
    if (n < 1 || workloads != n) tperf_bind_fail(L, "a decode needs a workload for each length");
    lua_replace(L, 2);
    lua_rawgeti(L, 2, 1);
    const tperf_workload *first = tperf_bind_check_workload(L, -1);
    tperf_decode *decode =
        lua_newuserdatauv(L, sizeof *decode + first->n_ops * sizeof decode->varying[0], 1);
    memset(decode, 0, sizeof *decode);
    luaL_setmetatable(L, type_name);
    lua_pushvalue(L, 2); // keeps the workloads alive
    lua_setiuservalue(L, -2, WORKLOADS);
    decode->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        decode->workloads[i] = tperf_bind_check_workload(L, -1);
        decode->keys[i] = (double)keys[i];
        if (i && keys[i] <= keys[i - 1]) tperf_bind_fail(L, "a decode's lengths must ascend");
        lua_pop(L, 1);
    }
    tperf_error error;
    if (tperf_decode_compare(decode, &error) != TPERF_OK) tperf_bind_raise(L, &error);
    return 1;
}

// Sums one op over steps.
typedef struct op_steps {
    const tperf_decode *decode;
    tperf_platform on;
    const tperf_placement *placement;
    size_t op;
} op_steps;

static const char *const op_values[TPERF_STEP_VALUES] = {
    "time",         "compute_time", "exposed_memory_time", "comm_time", "tensor_flops",
    "vector_flops", "bytes"};

static void op_step(const void *context, double keys, double *values) {
    const op_steps *o = context;
    const tperf_workload *workload = o->decode->workloads[0];
    tperf_pass pass;
    tperf_decode_pass(o->decode, o->op, keys, &pass);
    tperf_pass_cost cost =
        tperf_pass_cost_of(workload->ops[o->op], &pass, &o->on, workload->sizes, o->placement);
    values[0] = cost.time;
    values[1] = cost.compute;
    values[2] = cost.exposed_memory;
    values[3] = cost.comm;
    values[4] = pass.tensor_flops;
    values[5] = pass.vector_flops;
    values[6] = pass.bytes;
}

static int decode_ops(lua_State *L) {
    const tperf_decode *decode = luaL_checkudata(L, 1, type_name);
    const tperf_workload *workload = decode->workloads[0];
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 1 && number <= workload->n_kinds + 2, 2, "no such section");
    int section = (int)number - 1;
    const tperf_setup *platform = tperf_bind_check_platform(L, 3);
    tperf_placement placement = {.panels = 1};
    tperf_bind_check_placement(L, 4, workload, &placement);
    double first = luaL_checknumber(L, 5), last = luaL_checknumber(L, 6);
    bool laid_out =
        first >= decode->keys[0] && last >= first && last <= decode->keys[decode->n - 1];
    luaL_argcheck(L, laid_out, 5, "no such steps");
    op_steps o = {decode, tperf_bind_on(platform), &placement, 0};
    lua_newtable(L);
    size_t begin = tperf_section_begin(workload, section);
    for (o.op = begin; o.op < workload->section_end[section]; o.op++) {
        double sum[TPERF_STEP_VALUES];
        tperf_decode_sum(decode, first, last, &(tperf_step_values){op_step, &o, TPERF_STEP_VALUES},
                         sum);
        lua_createtable(L, 0, 10);
        lua_pushstring(L, workload->ops[o.op]->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, tperf_workload_block(workload, o.op));
        lua_setfield(L, -2, "block");
        tperf_fields_set(L, "weight_bytes", workload->ops[o.op]->weight_bytes);
        for (int i = 0; i < TPERF_STEP_VALUES; i++)
            tperf_fields_set(L, op_values[i], sum[i] / (last - first + 1));
        lua_rawseti(L, -2, (lua_Integer)(o.op - begin) + 1);
    }
    return 1;
}

static void read_caches(lua_State *L, int index, int n_kinds, tperf_cache *caches) {
    if (tperf_bind_length(L, index, "the caches") != (size_t)n_kinds)
        tperf_bind_fail(L, "every kind of layer needs a cache");
    for (int i = 0; i < n_kinds; i++) {
        lua_rawgeti(L, index, i + 1);
        tperf_record_read(L, -1, &tperf_cache_record, &caches[i]);
        lua_pop(L, 1);
    }
}

enum { FIELDS = 40 }; // of a record that lua/tperf/question/infer completes

static void push_service(lua_State *L, const tperf_inference_result *s) {
    lua_createtable(L, 0, FIELDS);
    tperf_record_push(L, &tperf_phase_record, &s->prefill);
    lua_setfield(L, -2, "prefill");
    tperf_record_push(L, &tperf_phase_record, &s->decode);
    lua_setfield(L, -2, "decode");
    tperf_fields_set(L, "prefill_busiest", s->prefill_busiest);
    tperf_fields_set(L, "first_step", s->first_step);
    tperf_fields_set(L, "last_step", s->last_step);
    tperf_fields_set(L, "cache_sequence", s->cache_sequence);
    lua_pushinteger(L, (lua_Integer)s->max_batch);
    lua_setfield(L, -2, "max_batch");
    tperf_record_push(L, &tperf_inference_bytes_record, &s->memory);
    lua_setfield(L, -2, "memory");
}

// Raises unless the workloads are of one model, cut over the same axes.
static void check_workloads(lua_State *L, const tperf_inference *s) {
    const tperf_workload *workloads[] = {s->single,
                                         s->decode ? s->decode->workloads[0] : s->single};
    for (int i = 0; i < 2; i++)
        if (workloads[i]->n_kinds != s->prefill->n_kinds ||
            workloads[i]->grid.n != s->prefill->grid.n)
            tperf_bind_fail(L, "infer: the workloads are not of one model");
}

static void check_run(lua_State *L, const tperf_inference *s) {
    if (s->pipeline->virtual_stages != 1)
        tperf_bind_fail(L, "infer: a device has one stage of the pipeline");
    const tperf_decode *d = s->decode;
    if (d && (d->keys[0] > (double)s->prompt + 1 ||
              d->keys[d->n - 1] < (double)(s->prompt + s->generate - 1)))
        tperf_bind_fail(L, "infer: the decode is not laid out for so many tokens");
}

// The list of placements at this index; they live as long as the value that is pushed.
static void check_placements(lua_State *L, int index, tperf_inference *s) {
    s->n_placements = tperf_bind_length(L, index, "the placements");
    luaL_argcheck(L, s->n_placements >= 1, index, "a placement is needed");
    tperf_placement *list = lua_newuserdatauv(L, s->n_placements * sizeof *list, 0);
    for (size_t i = 0; i < s->n_placements; i++) {
        list[i].panels = 1;
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        tperf_bind_check_placement(L, lua_gettop(L), s->prefill, &list[i]);
        if (s->decode) tperf_bind_check_parts(L, s->decode->workloads[0], &list[i]);
        if (s->pipeline->pp % list[i].fast[TPERF_AXIS_STAGES] != 0)
            tperf_bind_fail(L, "infer: the stages do not divide among fast domains");
        lua_pop(L, 1);
    }
    s->placements = list;
}

// The arguments of `infer` on the stack, and the fields of its shape.
enum { PLATFORM = 1, PLACEMENTS, RUN, PIPELINES, PREFILL, DECODE, SINGLE, CACHES };

// Replaces the shape at 2 by its fields, after all arguments.
static void open_shape(lua_State *L) {
    static const char *const names[] = {"pipelines", "prefill", "decode", "single", "caches"};
    luaL_checktype(L, 2, LUA_TTABLE);
    for (int i = 0; i < 5; i++)
        tperf_bind_raw_field(L, 2, names[i]);
    lua_remove(L, 2);
}

static int serve(lua_State *L) {
    size_t n;
    tperf_cache caches[TPERF_KINDS_MAX];
    lua_settop(L, 4);
    open_shape(L);
    const tperf_platform on = tperf_bind_on(tperf_bind_check_platform(L, PLATFORM));
    tperf_inference s;
    tperf_record_read(L, RUN, &tperf_inference_record, &s);
    s.on = on;
    s.caches = caches;
    s.pipeline = tperf_bind_check_pipelines(L, PIPELINES, &n);
    if (n != 1) tperf_bind_fail(L, "infer: one pipeline is needed");
    s.prefill = tperf_bind_check_workload(L, PREFILL);
    if (!lua_isnil(L, DECODE)) s.decode = luaL_checkudata(L, DECODE, type_name);
    s.single = tperf_bind_check_workload(L, SINGLE);
    read_caches(L, CACHES, s.prefill->n_kinds, caches);
    check_workloads(L, &s);
    tperf_bind_check_kinds(L, PIPELINES, s.prefill);
    check_placements(L, PLACEMENTS, &s);
    check_run(L, &s);
    tperf_error error;
    if (tperf_workload_check_system(s.prefill, on.system, &error) != TPERF_OK ||
        (s.decode &&
         tperf_workload_check_system(s.decode->workloads[0], on.system, &error) != TPERF_OK))
        return tperf_bind_raise(L, &error);
    size_t size = tperf_inference_scratch_size(&s);
    s.scratch = memset(lua_newuserdatauv(L, size, 0), 0, size);
    tperf_inference_result service = tperf_infer(&s);
    push_service(L, &service);
    lua_pushinteger(L, (lua_Integer)service.placement + 1);
    return 2;
}

void tperf_bind_decode(lua_State *L) {
    static const luaL_Reg methods[] = {{"ops", decode_ops}, {NULL, NULL}};
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_decode);
}

void tperf_bind_infer(lua_State *L) {
    lua_pushcfunction(L, serve);
}
