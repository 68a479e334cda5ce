// serve_args.c: see serve_args.h.
#include "bind/question/serve_args.h"

#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"

static const char type_name[] = "tperf.serve";
static const double tick_limit = 9.2e18; // below 2^63

void tperf_serve_box_close(tperf_serve_box *box) {
    tperf_requests_release(&box->requests);
    tperf_heap_free(box->seconds);
    tperf_served_release(&box->served);
    tperf_pool_free(box->pool);
    *box = (tperf_serve_box){0};
}

static int collect(lua_State *L) {
    tperf_serve_box_close(luaL_checkudata(L, 1, type_name));
    return 0;
}

tperf_serve_box *tperf_serve_box_new(lua_State *L) {
    tperf_serve_box *box = tperf_bind_new(L, sizeof *box, type_name, collect);
    box->heap = tperf_bind_heap(L);
    return box;
}

// Makes room for n + 1 items. Collects garbage before failing.
static void *allocate(lua_State *L, const tperf_serve_box *box, void *block, size_t n,
                      size_t size) {
    void *grown = tperf_heap_grow(&box->heap, block, n + 1, size);
    bool tried = false;
    if (!grown && tperf_bind_try_again(L, TPERF_NO_MEMORY, &tried))
        grown = tperf_heap_grow(&box->heap, block, n + 1, size);
    if (!grown)
        tperf_bind_fail(L, "tperf.serve: not enough memory for %I requests",
                        (lua_Integer)box->requests.n);
    return grown;
}

static void reserve(lua_State *L, tperf_serve_box *box, size_t n) {
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_requests_init(&box->requests, &box->heap, n, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) tperf_bind_fail(L, "tperf.serve: %s", error.message);
}

int64_t tperf_serve_ticks(lua_State *L, const tperf_serve_box *box, double seconds) {
    double ticks = round(seconds * box->ticks_per_second);
    if (!(fabs(ticks) < tick_limit))
        tperf_bind_fail(
            L, "tperf.serve: a time of %f s is beyond the clock, which ends after 2^63 ticks of %s",
            seconds, box->ticks_per_second > 1 ? "a nanosecond" : "a second");
    return (int64_t)ticks;
}

// --- the list of requests ---

enum { ARRIVAL, PROMPT, OUTPUT, PRIORITY, SEGMENTS, N_FIELDS };
static const char *const field_names[N_FIELDS] = {"arrival", "prompt", "output", "priority",
                                                  "segments"};

static int field_of(const char *name) {
    int field = 0;
    while (field < N_FIELDS && strcmp(field_names[field], name) != 0)
        field++;
    return field;
}

// Formats the value at index for messages: short, and without its metatable.
static const char *push_shown(lua_State *L, int index) {
    index = lua_absindex(L, index);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tperf.base.check");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "show");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    return lua_tostring(L, -1);
}

// Raises: the key at index is not a field of requests.
static _Noreturn void fail_unknown(lua_State *L, lua_Integer i, int index) {
    index = lua_absindex(L, index);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tperf.base.suggest");
    lua_call(L, 1, 1);
    lua_pushvalue(L, index);
    lua_createtable(L, N_FIELDS, 0);
    for (int f = 0; f < N_FIELDS; f++) {
        lua_pushstring(L, field_names[f]);
        lua_rawseti(L, -2, f + 1);
    }
    lua_call(L, 2, 1);
    const char *suggestion = lua_tostring(L, -1);
    tperf_bind_fail(L, "tperf.serve: 'requests[%I]' has the unknown field %s%s", i,
                    push_shown(L, index), suggestion);
}

static _Noreturn void fail_value(lua_State *L, lua_Integer i, const char *field,
                                 const char *expected) {
    tperf_bind_fail(L, "tperf.serve: 'requests[%I].%s' must be %s, got %s", i, field, expected,
                    push_shown(L, -1));
}

// Reads the integer on top of the stack.
static int32_t read_integer(lua_State *L, lua_Integer i, const char *field, int64_t low,
                            int64_t high) {
    int is_integer = 0;
    lua_Integer value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_integer) : 0;
    if (is_integer && value >= low && value <= high) return (int32_t)value;
    const char *expected =
        lua_pushfstring(L, "an integer from %I to %I", (lua_Integer)low, (lua_Integer)high);
    lua_insert(L, -2);
    fail_value(L, i, field, expected);
}

static double read_arrival(lua_State *L, lua_Integer i) {
    double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!(value >= 0 && isfinite(value)))
        fail_value(L, i, "arrival", "a number of seconds from 0 on");
    return value;
}

static void read_priority(lua_State *L, lua_Integer i, tperf_serve_box *box) {
    tperf_requests *r = &box->requests;
    int32_t priority = read_integer(L, i, "priority", INT32_MIN, INT32_MAX);
    if (!r->priority && priority == 0) return;
    if (!r->priority) {
        r->priority = allocate(L, box, NULL, r->n, sizeof *r->priority);
        memset(r->priority, 0, r->n * sizeof *r->priority);
    }
    r->priority[i - 1] = priority;
}

static void add_segment(lua_State *L, tperf_serve_box *box, tperf_segment segment) {
    tperf_requests *r = &box->requests;
    if (box->n_segments == box->segments_capacity) {
        size_t capacity = 2 * box->segments_capacity + 256;
        r->segments = allocate(L, box, r->segments, capacity, sizeof *r->segments);
        box->segments_capacity = capacity;
    }
    r->segments[box->n_segments++] = segment;
}

// { { stream, tokens } … }
static void read_segments(lua_State *L, lua_Integer i, tperf_serve_box *box) {
    if (!lua_istable(L, -1)) fail_value(L, i, "segments", "a list of { stream, tokens }");
    size_t n = tperf_bind_length(L, -1, "tperf.serve: 'segments' of a request");
    if (n == 0) fail_value(L, i, "segments", "a list of { stream, tokens }, not empty,");
    for (size_t k = 1; k <= n; k++) {
        if (lua_rawgeti(L, -1, (lua_Integer)k) != LUA_TTABLE ||
            tperf_bind_length(L, -1, "tperf.serve: a segment of a request") != 2)
            fail_value(L, i, "segments", "a list of { stream, tokens }");
        int is_integer = 0;
        lua_rawgeti(L, -1, 1);
        lua_Integer stream = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer || stream < 0)
            fail_value(L, i, "segments", "of streams that are integers from 0 on");
        lua_pop(L, 1);
        lua_rawgeti(L, -1, 2);
        tperf_segment segment = {stream, read_integer(L, i, "segments", 1, TPERF_LONGEST)};
        lua_pop(L, 2);
        add_segment(L, box, segment);
    }
}

static void check_sum(lua_State *L, lua_Integer i, const tperf_serve_box *box) {
    const tperf_requests *r = &box->requests;
    int64_t sum = 0;
    for (size_t k = r->first_segment[i - 1]; k < box->n_segments; k++)
        sum += r->segments[k].tokens;
    if (sum != r->prompt[i - 1])
        tperf_bind_fail(
            L, "tperf.serve: 'requests[%I].segments' have %I tokens, but its prompt has %d", i,
            (lua_Integer)sum, (int)r->prompt[i - 1]);
}

// From here on every request has segments.
static void need_segments(lua_State *L, lua_Integer i, tperf_serve_box *box) {
    tperf_requests *r = &box->requests;
    if (r->first_segment) return;
    r->first_segment = allocate(L, box, NULL, r->n + 1, sizeof *r->first_segment);
    memset(r->first_segment, 0, (size_t)i * sizeof *r->first_segment);
}

// Whether the key on top of the stack comes before the other one: names in the order of their bytes, before all else.
static bool comes_before(lua_State *L, int other) {
    if (lua_type(L, -1) != LUA_TSTRING) return false;
    return lua_type(L, other) != LUA_TSTRING ||
           strcmp(lua_tostring(L, -1), lua_tostring(L, other)) < 0;
}

// The fields that the request on top of the stack has, as bits. Of several unknown ones it names the same one whatever
// the table's order, which changes from run to run.
static unsigned fields_of(lua_State *L, lua_Integer i) {
    unsigned has = 0;
    bool unknown = false; // its key is below the request's fields that follow
    lua_pushnil(L);
    while (lua_next(L, unknown ? -3 : -2)) {
        lua_pop(L, 1);
        const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        int field = field_of(key);
        if (field < N_FIELDS) {
            has |= 1U << field;
        } else if (!unknown) {
            lua_pushvalue(L, -1);
            lua_insert(L, -2);
            unknown = true;
        } else if (comes_before(L, -2)) {
            lua_copy(L, -1, -2);
        }
    }
    if (unknown) fail_unknown(L, i, -1);
    return has;
}

static void read_field(lua_State *L, lua_Integer i, int field, tperf_serve_box *box) {
    tperf_requests *r = &box->requests;
    if (field == ARRIVAL && box->seconds) box->seconds[i - 1] = read_arrival(L, i);
    if (field == PROMPT) r->prompt[i - 1] = read_integer(L, i, "prompt", 1, TPERF_LONGEST);
    if (field == OUTPUT) r->output[i - 1] = read_integer(L, i, "output", 1, TPERF_LONGEST);
    if (field == PRIORITY) read_priority(L, i, box);
    if (field == SEGMENTS) {
        need_segments(L, i, box);
        read_segments(L, i, box);
    }
}

// Reads the request on top of the stack, its fields raw.
static void read_request(lua_State *L, lua_Integer i, tperf_serve_box *box) {
    tperf_requests *r = &box->requests;
    unsigned seen = fields_of(L, i);
    for (int field = 0; field < N_FIELDS; field++) {
        if (!(seen >> field & 1)) continue;
        lua_pushstring(L, field_names[field]);
        lua_rawget(L, -2);
        read_field(L, i, field, box);
        lua_pop(L, 1);
    }
    for (int field = ARRIVAL; field <= OUTPUT; field++) {
        bool wanted = field != ARRIVAL || box->seconds;
        if (wanted && !(seen >> field & 1))
            tperf_bind_fail(L, "tperf.serve: 'requests[%I].%s' is missing", i, field_names[field]);
        if (!wanted && (seen >> field & 1))
            tperf_bind_fail(L,
                            "tperf.serve: 'requests[%I].arrival' is given, but 'load' says when "
                            "requests arrive",
                            i);
    }
    if (r->first_segment) {
        if (seen >> SEGMENTS & 1) check_sum(L, i, box);
        r->first_segment[i] = box->n_segments;
    }
}

void tperf_serve_read_requests(lua_State *L, int index, bool arrivals, tperf_serve_box *box) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        tperf_bind_fail(L, "tperf.serve: 'requests' must be a list, got %s",
                        luaL_typename(L, index));
    size_t n = lua_rawlen(L, index), count = 0;
    if (n >= INT32_MAX) tperf_bind_fail(L, "tperf.serve: %I requests are too many", (lua_Integer)n);
    reserve(L, box, n);
    if (arrivals) box->seconds = allocate(L, box, NULL, n, sizeof *box->seconds);
    lua_pushnil(L);
    for (; lua_next(L, index); lua_pop(L, 1), count++)
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || (size_t)lua_tointeger(L, -2) > n)
            tperf_bind_fail(
                L, "tperf.serve: 'requests' must be a list without holes, but has the key %s",
                push_shown(L, -2));
    if (n == 0) tperf_bind_fail(L, "tperf.serve: 'requests' is empty");
    for (lua_Integer i = 1; (size_t)i <= n; i++) {
        if (lua_rawgeti(L, index, i) != LUA_TTABLE)
            tperf_bind_fail(L,
                            "tperf.serve: 'requests[%I]' must be a table such as { arrival = 0, "
                            "prompt = 512, output = "
                            "64 }, got %s",
                            i, luaL_typename(L, -1));
        read_request(L, i, box);
        lua_pop(L, 1);
    }
}

int32_t *tperf_serve_read_integers(lua_State *L, int index, const char *what, int64_t low,
                                   int64_t high, size_t *n) {
    index = lua_absindex(L, index);
    *n = tperf_bind_length(L, index, what);
    int32_t *list = lua_newuserdatauv(L, (*n + 1) * sizeof *list, 0);
    for (size_t i = 0; i < *n; i++) {
        int is_integer = 0;
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        lua_Integer value = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer || value < low || value > high)
            tperf_bind_fail(L, "tperf.serve: '%s' must be a list of integers from %I to %I", what,
                            (lua_Integer)low, (lua_Integer)high);
        list[i] = (int32_t)value;
        lua_pop(L, 1);
    }
    return list;
}

// --- drawn ---

typedef struct lengths_record {
    int64_t kind, least, most;
    double a, b;
} lengths_record;

// Reads the distribution in field `name` of the table at index; its data stays on the stack.
static tperf_lengths read_lengths(lua_State *L, int index, const char *name) {
    static const tperf_field fields[] = {
        {"kind", TPERF_FIELD_INTEGER, offsetof(lengths_record, kind), true},
        {"least", TPERF_FIELD_INTEGER, offsetof(lengths_record, least), true},
        {"most", TPERF_FIELD_INTEGER, offsetof(lengths_record, most), true},
        {"a", TPERF_FIELD_NUMBER, offsetof(lengths_record, a), true},
        {"b", TPERF_FIELD_NUMBER, offsetof(lengths_record, b), true},
        {0},
    };
    lengths_record r = {0};
    if (lua_getfield(L, index, name) != LUA_TTABLE)
        tperf_bind_fail(L, "tperf.serve: '%s' is no distribution of lengths", name);
    lua_rawgeti(L, -1, 1); // { fields, values }
    tperf_fields_read(L, -1, name, fields, &r);
    lua_rawgeti(L, -2, 2);
    bool sound = r.kind >= TPERF_LENGTH_FIXED && r.kind <= TPERF_LENGTH_VALUES && r.least >= 1 &&
                 r.most >= r.least && r.most <= TPERF_LONGEST;
    if (!sound) tperf_bind_fail(L, "tperf.serve: '%s' is no distribution of lengths", name);
    tperf_lengths lengths = {.kind = (tperf_length_kind)r.kind,
                             .a = r.a,
                             .b = r.b,
                             .least = (int32_t)r.least,
                             .most = (int32_t)r.most};
    if (lengths.kind == TPERF_LENGTH_VALUES) {
        lengths.values =
            tperf_serve_read_integers(L, -1, name, 1, TPERF_LONGEST, &lengths.n_values);
        if (lengths.n_values == 0) tperf_bind_fail(L, "tperf.serve: '%s' has no values", name);
    }
    return lengths;
}

typedef struct load_record {
    int64_t count, prefix_tokens, prefix_groups;
} load_record;

static void add_prefixes(lua_State *L, const load_record *load, tperf_serve_box *box) {
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_requests_share(&box->requests, &box->heap, (int32_t)load->prefix_tokens,
                                      load->prefix_groups, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) tperf_bind_fail(L, "tperf.serve: %s", error.message);
}

void tperf_serve_draw_lengths(lua_State *L, int index, uint64_t seed, tperf_serve_box *box) {
    static const tperf_field fields[] = {
        {"count", TPERF_FIELD_INTEGER, offsetof(load_record, count), true},
        {"prefix_tokens", TPERF_FIELD_INTEGER, offsetof(load_record, prefix_tokens), true},
        {"prefix_groups", TPERF_FIELD_INTEGER, offsetof(load_record, prefix_groups), true},
        {0},
    };
    load_record load = {0};
    index = lua_absindex(L, index);
    lua_getfield(L, index, "drawn");
    tperf_fields_read(L, -1, "load", fields, &load);
    if (load.count < 1 || load.count >= INT32_MAX || load.prefix_tokens < 0 ||
        load.prefix_tokens > TPERF_LONGEST / 2 || load.prefix_groups < 1)
        tperf_bind_fail(L, "tperf.serve: 'count' and 'prefix' are out of range");
    reserve(L, box, (size_t)load.count);
    tperf_requests *r = &box->requests;
    tperf_lengths prompt = read_lengths(L, index, "prompt"),
                  output = read_lengths(L, index, "output");
    tperf_draw_lengths(&prompt, seed, TPERF_DRAW_PROMPT, r->n, r->prompt);
    tperf_draw_lengths(&output, seed, TPERF_DRAW_OUTPUT, r->n, r->output);
    if (load.prefix_tokens > 0) add_prefixes(L, &load, box);
}

typedef struct stage_record {
    int64_t process, burst, count;
    double cv, rate, start;
    bool fill;
} stage_record;

void tperf_serve_draw_arrivals(lua_State *L, int index, uint64_t seed, tperf_serve_box *box) {
    static const tperf_field fields[] = {
        {"process", TPERF_FIELD_INTEGER, offsetof(stage_record, process), true},
        {"burst", TPERF_FIELD_INTEGER, offsetof(stage_record, burst), true},
        {"count", TPERF_FIELD_INTEGER, offsetof(stage_record, count), true},
        {"cv", TPERF_FIELD_NUMBER, offsetof(stage_record, cv), true},
        {"rate", TPERF_FIELD_NUMBER, offsetof(stage_record, rate), true},
        {"start", TPERF_FIELD_NUMBER, offsetof(stage_record, start), true},
        {"fill", TPERF_FIELD_FLAG, offsetof(stage_record, fill), true},
        {0},
    };
    index = lua_absindex(L, index);
    lua_getfield(L, index, "stages");
    size_t first = 0, n_stages = tperf_bind_length(L, -1, "the stages of 'load'"),
           n = box->requests.n;
    for (size_t i = 1; i <= n_stages && first < n; i++, lua_pop(L, 1)) {
        stage_record s = {0};
        lua_rawgeti(L, -1, (lua_Integer)i);
        tperf_fields_read(L, -1, "load", fields, &s);
        bool sound = s.process >= TPERF_ARRIVE_POISSON && s.process <= TPERF_ARRIVE_UNIFORM &&
                     s.burst >= 1 && s.burst < INT32_MAX && s.count >= 0 && s.rate > 0 && s.cv > 0;
        if (!sound)
            tperf_bind_fail(L, "tperf.serve: stage %I of 'load' is out of range", (lua_Integer)i);
        tperf_arrivals arrivals = {(tperf_arrival_process)s.process, s.cv, (int32_t)s.burst};
        size_t count = (uint64_t)s.count < n - first ? (size_t)s.count : n - first;
        const tperf_arrival_stage stage = {.first = first,
                                           .n = count,
                                           .start = tperf_serve_ticks(L, box, s.start),
                                           .gap = box->ticks_per_second / s.rate,
                                           .fill = s.fill};
        if (!tperf_draw_arrivals(&arrivals, &stage, seed, &box->requests.arrival[first]))
            tperf_bind_fail(
                L,
                "tperf.serve: %f requests a second are so few that the clock ends before the last",
                s.rate);
        first += count;
    }
    if (first < n)
        tperf_bind_fail(L, "tperf.serve: 'load' has arrivals for %I of %I requests",
                        (lua_Integer)first, (lua_Integer)n);
}
