// bind_inference.c: inference on one replica, see tperf/inference.h.
//   tperf.core.decode(keys, workloads) -> decode     one step, laid out for each of an ascending list of numbers of
//       keys
//   decode:ops(section, platform, fast, first, last)   records of the section's ops, averaged over the steps with
//     first … last keys, like workload:ops for their forward pass; those of one form of a step after those of another
//   tperf.core.steps_on_line(first, last, part, step)   see tperf_decode_on_line
//   tperf.core.infer(platform, shape, placements, run) -> record, n
//     shape: { pipelines =, prefill =, decode = (or nil), single =, caches = a list of { section =, token_bytes =,
//     most_tokens =, state_bytes = }, see tperf_cache; section: 1 … the kinds of layers, first, last }
//     placements: a list to choose from; the n-th is the chosen one
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/platform.h"
#include "tperf/inference.h"

static const char type_name[] = "tperf.decode";

// The user values of a decode: its workloads, and room for its lists and for the ops that vary.
enum { WORKLOADS = 1, ROOM, VARYING, LAST = VARYING };

// Pushes room for so many values, which the decode under it keeps.
static void *push_room(lua_State *L, int slot, size_t bytes) {
    void *room = lua_newuserdatauv(L, bytes, 0);
    lua_setiuservalue(L, -2, slot);
    return room;
}

// The decode at the top of the stack, which keeps its arrays.
static void divide(lua_State *L, tperf_decode *decode, size_t n) {
    size_t each = sizeof *decode->keys + sizeof(void *) + sizeof(tperf_decode_form) + sizeof(int);
    char *room = push_room(L, ROOM, n * each);
    decode->n = (int)n;
    decode->keys = (double *)(void *)room;
    decode->workloads = (const tperf_workload **)(void *)(decode->keys + n);
    decode->forms = (tperf_decode_form *)(void *)(decode->workloads + n);
    decode->form_of = (int *)(void *)(decode->forms + n);
}

static int new_decode(lua_State *L) {
    lua_settop(L, 2);
    size_t n = tperf_bind_push_list(L, 1, "the lengths");
    size_t workloads = tperf_bind_push_list(L, 2, "the workloads");
    if (n < 1 || n > TPERF_LENGTHS_MAX || workloads != n)
        tperf_bind_fail(L, "a decode needs a workload for each of 1 to %d lengths",
                        TPERF_LENGTHS_MAX);
    tperf_decode *decode = lua_newuserdatauv(L, sizeof *decode, LAST);
    memset(decode, 0, sizeof *decode);
    luaL_setmetatable(L, type_name);
    lua_pushvalue(L, 4); // keeps the workloads alive
    lua_setiuservalue(L, -2, WORKLOADS);
    divide(L, decode, n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        lua_Integer keys = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        if (keys < 1 || keys > INT64_C(1) << 53)
            tperf_bind_fail(L, "a decode's lengths must be integers from 1 to 2^53");
        decode->workloads[i] = tperf_bind_check_workload(L, -1);
        decode->keys[i] = (double)keys;
        if (i && decode->keys[i] <= decode->keys[i - 1])
            tperf_bind_fail(L, "a decode's lengths must ascend");
        lua_pop(L, 2);
    }
    tperf_error error;
    size_t varying;
    if (tperf_decode_find_forms(decode, &varying, &error) != TPERF_OK) tperf_bind_raise(L, &error);
    tperf_decode_compare(decode, push_room(L, VARYING, (varying + 1) * sizeof(tperf_varying)));
    return 1;
}

// steps_on_line(first, last, part, step): see tperf_decode_on_line
static int steps_on_line(lua_State *L) {
    const tperf_workload *first = tperf_bind_check_workload(L, 1),
                         *last = tperf_bind_check_workload(L, 2),
                         *step = tperf_bind_check_workload(L, 4);
    bool same = first->n_kinds == last->n_kinds && first->n_kinds == step->n_kinds;
    lua_pushboolean(L, same && tperf_decode_on_line(first, last, luaL_checknumber(L, 3), step));
    return 1;
}

// Sums one op over steps.
typedef struct op_steps {
    const tperf_decode *decode;
    tperf_platform on;
    const tperf_placement *placement;
    const tperf_workload *workload; // of the op's form
    size_t op;
} op_steps;

static const char *const op_values[TPERF_STEP_VALUES] = {
    "time",         "compute_time", "exposed_memory_time", "comm_time", "tensor_flops",
    "vector_flops", "bytes"};

static void op_step(const void *context, double keys, double *values) {
    const op_steps *o = context;
    const tperf_workload *workload = o->workload;
    tperf_pass pass;
    tperf_decode_pass(o->decode, o->op, keys, &pass);
    tperf_pass_cost cost =
        tperf_pass_cost_of(workload->ops[o->op], &pass, &o->on, workload->sizes, o->placement);
    values[0] = cost.time;
    values[1] = cost.compute;
    values[2] = cost.exposed_memory;
    values[3] = cost.comm;
    double times = tperf_op_times(workload->ops[o->op]);
    values[4] = times * pass.tensor_flops;
    values[5] = times * pass.vector_flops;
    values[6] = times * pass.bytes;
}

// Adds the op's values over the steps of its form among first … last.
static void add_op(const op_steps *o, int form, double first, double last, double *sum) {
    const tperf_decode *d = o->decode;
    double some[TPERF_STEP_VALUES];
    memset(sum, 0, sizeof some);
    for (int k = 0, end; k < d->n; k = end) {
        end = k + 1;
        while (end < d->n && d->form_of[end] == d->form_of[k])
            end++;
        double low = fmax(first, d->keys[k]), high = fmin(last, d->keys[end - 1]);
        if (d->form_of[k] != form || low > high) continue;
        tperf_decode_sum(d, low, high, &(tperf_step_values){op_step, o, TPERF_STEP_VALUES}, some);
        for (int i = 0; i < TPERF_STEP_VALUES; i++)
            sum[i] += some[i];
    }
}

// Appends records of the ops of one form to the list at the top, averaged over all steps.
static void push_form(lua_State *L, op_steps *o, int form, int section, double first, double last) {
    o->workload = o->decode->forms[form].workload;
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (o->op = tperf_section_begin(o->workload, section);
         o->op < o->workload->section_end[section]; o->op++) {
        double sum[TPERF_STEP_VALUES];
        add_op(o, form, first, last, sum);
        lua_createtable(L, 0, 11);
        lua_pushstring(L, o->workload->ops[o->op]->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, tperf_workload_block(o->workload, o->op));
        lua_setfield(L, -2, "block");
        lua_pushinteger(L, form + 1);
        lua_setfield(L, -2, "form");
        const tperf_op *op = o->workload->ops[o->op];
        tperf_fields_set(L, "weight_bytes", op->weight_bytes);
        if (tperf_op_times(op) != 1) tperf_fields_set(L, "times", tperf_op_times(op));
        for (int i = 0; i < TPERF_STEP_VALUES; i++)
            tperf_fields_set(L, op_values[i], sum[i] / (last - first + 1));
        lua_rawseti(L, -2, ++n);
    }
}

static int decode_ops(lua_State *L) {
    const tperf_decode *decode = luaL_checkudata(L, 1, type_name);
    const tperf_workload *workload = decode->workloads[0];
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 1 && number <= workload->n_sections, 2, "no such section");
    int section = (int)number - 1;
    const tperf_setup *platform = tperf_bind_check_platform(L, 3);
    tperf_placement placement = {.panels = 1};
    tperf_bind_check_placement(L, 4, workload, &placement);
    double first = luaL_checknumber(L, 5), last = luaL_checknumber(L, 6);
    bool laid_out =
        first >= decode->keys[0] && last >= first && last <= decode->keys[decode->n - 1];
    luaL_argcheck(L, laid_out, 5, "no such steps");
    op_steps o = {decode, tperf_bind_on(platform), &placement, NULL, 0};
    lua_newtable(L);
    for (int form = 0; form < decode->n_forms; form++)
        push_form(L, &o, form, section, first, last);
    return 1;
}

static size_t read_caches(lua_State *L, int index, int n_kinds, tperf_cache *caches) {
    size_t n = tperf_bind_length(L, index, "the caches");
    if (n > TPERF_CACHES_MAX)
        tperf_bind_fail(L, "a model's layers keep at most %d caches that differ, got %d",
                        TPERF_CACHES_MAX, (int)n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        tperf_record_read(L, -1, &tperf_cache_record, &caches[i]);
        if (caches[i].section < 1 || caches[i].section > n_kinds + 2)
            tperf_bind_fail(L, "cache: no such section");
        caches[i].section--;
        lua_pop(L, 1);
    }
    return n;
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
    tperf_cache caches[TPERF_CACHES_MAX];
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
    s.n_caches = read_caches(L, CACHES, s.prefill->n_kinds, caches);
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

void tperf_bind_steps_on_line(lua_State *L) {
    lua_pushcfunction(L, steps_on_line);
}

void tperf_bind_infer(lua_State *L) {
    lua_pushcfunction(L, serve);
}
