// bind_op.c: tperf.core.op: a constructor for each kind of op, is(value), and the methods of an op:
//   op:recompute(saved_bytes)                     full recomputation, see tperf/op.h
//   op:input_bytes() -> number                    the part of its saved bytes that is its input
//   op:read(name), op:reads() -> string?          names its input; the name
//   op:borrow_input()                             another op keeps its input
//   op:drop_input(part), op:repeat_part(part, output_bytes)   its input's producer, or the op itself, is recomputed
//   op:offload(input_alone)                       offloads its kept activations to the host, see tperf/op.h
//   op:hold(saved_bytes, passing_bytes)           sets its kept bytes, and the bytes live only during its passes
//   op:spill(forward_bytes, backward_bytes)       its passes move so many more bytes through HBM
//   op:move(forward_bytes, backward_bytes)        its passes move so many bytes through HBM in all
//   op:pad()                                      the rows of its factors are padded to whole 16 bytes
//   op:single()                                   its backward pass is one kernel
//   op:join()                                     a neighbour's call launches its kernels
//   op:add(), op:is_added() -> boolean            makes it an adapter's; whether it is one's
//   op:calls(n[, backward])                       the host makes so many calls for each of its kernels in training, and
//                                                 so many for the backward pass
//   op:loop()                                     all but the first of these are PyTorch's alone, in a module's loop
//   op:fuse()                                     its forward pass is part of a neighbour's kernel
//   op:scatter()                                  it passes over rows in their experts' order
//   op:chunkwise()                                its kernels are those of a recurrence in chunks
//   op:launches(n)                                so many kernels beside its own go with it in serving engines
//   op:freeze(element, keeps_input)               its parameters are not trained, with this many bytes each
//   op:stop()                                     nothing below it is trained
//   op:again(bytes)                               this part of its kept bytes is recomputed instead
//   op:belong(module), op:belongs(module) -> boolean        adds it to, or tests, one of tperf_module_names
//   op:occur(times), op:times() -> number         it runs so often in a pass, see tperf_op_occur
//   op:communicate(pass, kind, axis, bytes, share, beside, routing, exchanges)  adds a collective to "forward" or
//     "backward"
//   op:counts()                                   a record of all counts
//   op:product()                                  the shape of a product with weights; nil for other ops
//   op:narrowed { dtype =, number = … }           a copy of a product in another precision, see tperf_narrowing
//   op:is_norm(), op:has_output()                 the latter: another op keeps what it makes
//   op:put(where, rows), op:is_on_host()          puts its weights on the "host"; rows: of a table, of which it has some
//   op:has_weight_product()                       it multiplies weights
//   op:is_recomputed()                            the backward pass begins by repeating its forward pass
//   op:has_own_format(), op:is_sparse()           the former: it says how its weights are stored
//   op:parameters(), op:trained(), op:saved_bytes()   as counts() has them
//   op:keeps()                                    bytes that its backward pass needs, kept anywhere or recomputed
//   op:keep { token =, sequence =, window = }     what a sequence keeps between steps of decoding, see tperf_op_kept
//   op:kept() -> token, sequence, window, keys, key_bytes, stated
//   op:share_as(name), op:shared_as() -> string?  the name of the tensor that it shares
//   op:borrowed() -> number                       parameters that another op holds
//   op:seen_part() -> number                      of attention: pairs that see each other, of all within its window
//   op:is_ring() -> boolean                       of attention: whether keys travel beside it
//   op:copy()                                     another op like it
//   op:role() -> string?, elements                "residual", "rotary" or "gate" (of an activation), and its elements
//   op:lent(), op:alone()                         copies: one without its weights, one that has nothing else
//   op:model_flops(all_pairs) -> forward, backward        FLOPs by which MFU is counted, see tperf_model_flops
//   op:keeping(bytes)                             a copy that keeps this much of its output; nil if no other op keeps
//                                                 the output for it
// and fields(), bytes(), element(), documented below, and given(), in bind_given.c. Methods that return neither a copy nor what they ask for change the op; the library calls them before anyone else has it.
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/describe/op_kinds.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = TPERF_BIND_OP;

// The dtype of a name; TPERF_DTYPE_COUNT: none.
static tperf_dtype dtype_of(const char *name) {
    int i = 0;
    while (i < TPERF_DTYPE_COUNT && strcmp(name, tperf_dtype_names[i]) != 0)
        i++;
    return (tperf_dtype)i;
}

static tperf_dtype check_dtype(lua_State *L, const char *what, const char *name) {
    tperf_dtype dtype = dtype_of(name);
    if (dtype < TPERF_DTYPE_COUNT) return dtype;
    tperf_bind_fail(L, "%s: unknown dtype '%s'", what, name);
    return TPERF_BF16;
}

static void copy_name(lua_State *L, const char *what, const char *name, char *out, size_t size) {
    if (strlen(name) >= size)
        tperf_bind_fail(L, "%s: the name '%s' is longer than %d bytes", what, name, (int)size - 1);
    strcpy(out, name);
}

static double element_of(lua_State *L, const char *what, const char *dtype) {
    return dtype ? tperf_dtype_bytes(check_dtype(L, what, dtype)) : 0;
}

enum { MOST_BITS = 64 };

// Bytes of a weight, which the op's own format decides if it has one.
static double weight_of(lua_State *L, const char *what, const tperf_op_arguments *a, bool stated) {
    if (!stated) return element_of(L, what, a->weight_dtype);
    if (a->weight_dtype)
        tperf_bind_fail(L, "%s: 'weight_bits' replaces 'weight_dtype': give one of both", what);
    if (!(a->weight_bits > 0 && a->weight_bits <= MOST_BITS))
        tperf_bind_fail(L, "%s: 'weight_bits' must be above 0 and at most %d, got %f", what,
                        MOST_BITS, a->weight_bits);
    return a->weight_bits / 8;
}

// Puts the op's weights where the block says.
static void put_on(lua_State *L, const char *what, tperf_op *op, const char *where, double part) {
    if (strcmp(where, "host") != 0)
        tperf_bind_fail(L, "%s '%s': 'on' must be \"host\", got '%s'", what, op->name, where);
    if (op->tied)
        tperf_bind_fail(L, "%s '%s': tied weights cannot be on the host: the head multiplies them",
                        what, op->name);
    tperf_op_to_host(op, part);
}

static void check_axes(lua_State *L, const tperf_op_kind *k, const tperf_op_arguments *a) {
    for (const tperf_field *f = k->fields; f->name; f++) {
        if (f->kind != TPERF_FIELD_TEXT || f->offset < offsetof(tperf_op_arguments, linear))
            continue;
        const char *axis = *(const char *const *)((const char *)a + f->offset);
        if (axis && strlen(axis) >= TPERF_AXIS_NAME_MAX)
            tperf_bind_fail(L, "%s: the axis name '%s' is longer than %d bytes", k->what, axis,
                            TPERF_AXIS_NAME_MAX - 1);
    }
}

static int construct(lua_State *L) {
    const tperf_op_kind *k = &tperf_op_kinds[lua_tointeger(L, lua_upvalueindex(1))];
    tperf_op_arguments a = k->defaults;
    a.dtype = "bf16";
    tperf_op *op = lua_newuserdatauv(L, sizeof *op, 0);
    memset(op, 0, sizeof *op);
    luaL_setmetatable(L, type_name);
    tperf_fields_read(L, 1, k->what, k->fields,
                      &a); // its texts are the table's: nothing is allocated after it
    check_axes(L, k, &a);
    copy_name(L, k->what, a.name, op->name, sizeof op->name);
    if (a.input) copy_name(L, k->what, a.input, op->input, sizeof op->input);
    if (a.shared_as) copy_name(L, k->what, a.shared_as, op->shared_as, sizeof op->shared_as);
    op->dtype = check_dtype(L, k->what, a.dtype);
    op->matrix_dtype = a.matrix_dtype ? check_dtype(L, k->what, a.matrix_dtype) : op->dtype;
    op->own_format = tperf_bind_raw_field(L, 1, "weight_bits") != LUA_TNIL;
    lua_pop(L, 1);
    a.weight_element = weight_of(L, k->what, &a, op->own_format);
    a.kv_element = element_of(L, k->what, a.kv_dtype);
    tperf_error error;
    if (k->count(op, &a, &error) != TPERF_OK)
        return tperf_bind_fail(L, "%s '%s': %s", k->what, op->name, error.message);
    tperf_bind_read_keeps(L, 1, k->what, op);
    if (a.on) put_on(L, k->what, op, a.on, 1);
    if (tperf_op_validate(op, &error) != TPERF_OK) return tperf_bind_raise(L, &error);
    return 1;
}

const tperf_op *tperf_bind_check_op(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

static int to_string(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    tperf_bind_push_text(L, "op '%s': %f and %f FLOP, %f and %f bytes", op->name,
                         op->forward.tensor_flops + op->forward.vector_flops,
                         op->backward.tensor_flops + op->backward.vector_flops, op->forward.bytes,
                         op->backward.bytes);
    return 1;
}

static int is_op(lua_State *L) {
    lua_pushboolean(L, luaL_testudata(L, 1, type_name) != NULL);
    return 1;
}

static tperf_op *own(lua_State *L) {
    return luaL_checkudata(L, 1, type_name);
}

// The op, for a chain of calls.
static int itself(lua_State *L) {
    lua_settop(L, 1);
    return 1;
}

// A method that changes the op.
#define CHANGE(method, change)                                                                     \
    static int method(lua_State *L) {                                                              \
        change;                                                                                    \
        return itself(L);                                                                          \
    }
CHANGE(recompute, tperf_op_recompute(own(L), luaL_checknumber(L, 2)))
CHANGE(freeze, tperf_op_freeze(own(L), luaL_optnumber(L, 2, -1), lua_toboolean(L, 3)))
CHANGE(stop, tperf_op_stop(own(L)))
CHANGE(single, own(L)->single = true)
CHANGE(join, own(L)->joined = true)
CHANGE(loop, own(L)->looped = true)
CHANGE(add, own(L)->adapter = true)
CHANGE(borrow_input, tperf_op_borrow_input(own(L)))
CHANGE(scatter, own(L)->scattered = true)
CHANGE(chunkwise, own(L)->chunkwise = true)
CHANGE(fuse, own(L)->fused = true)
CHANGE(offload, tperf_op_offload(own(L), lua_toboolean(L, 2)))

// A method that says a number, or whether something is so.
#define TELL(method, type, value)                                                                  \
    static int method(lua_State *L) {                                                              \
        const tperf_op *op = tperf_bind_check_op(L, 1);                                            \
        lua_push##type(L, value);                                                                  \
        return 1;                                                                                  \
    }
TELL(times, number, tperf_op_times(op))
TELL(is_added, boolean, op->adapter)
TELL(is_norm, boolean, op->norm)
TELL(has_own_format, boolean, op->own_format)
TELL(has_weight_product, boolean, op->weights_read > 0 && op->table_rows == 0)
TELL(is_on_host, boolean, op->on_host)
TELL(is_recomputed, boolean, op->recomputed)
TELL(is_sparse, boolean, op->sparse)
TELL(has_output, boolean, op->output_bytes != 0)
TELL(input_bytes, number, op->input_bytes)
TELL(saved_bytes, number, op->saved_bytes)
TELL(keeps, number, op->saved_bytes + op->again_bytes + op->offload_bytes)
TELL(parameters, number, op->parameters)
TELL(borrowed, number, op->borrowed)
TELL(trained, number, op->frozen ? 0 : op->parameters)

static int calls(lua_State *L) {
    lua_Integer n = luaL_checkinteger(L, 2);
    luaL_argcheck(L, n >= 1, 2, "not a number of calls");
    lua_Integer backward = luaL_optinteger(L, 3, 0);
    luaL_argcheck(L, backward >= 0, 3, "not a number of calls");
    own(L)->calls = n;
    own(L)->backward_calls = backward;
    return itself(L);
}

static int launches(lua_State *L) {
    lua_Integer more = luaL_checkinteger(L, 2);
    luaL_argcheck(L, more >= 0 && more <= TPERF_MORE_KERNELS_MAX, 2, "not a number of kernels");
    own(L)->more_kernels = more;
    return itself(L);
}

static double check_part(lua_State *L, int index) {
    double part = luaL_checknumber(L, index);
    luaL_argcheck(L, part >= 0 && part <= 1, index, "not from 0 to 1");
    return part;
}

static double check_bytes(lua_State *L, int argument) {
    double bytes = luaL_checknumber(L, argument);
    luaL_argcheck(L, isfinite(bytes) && bytes >= 0, argument, "not a number of bytes");
    return bytes;
}

static int occur(lua_State *L) {
    double times = luaL_checknumber(L, 2);
    luaL_argcheck(L, isfinite(times) && times > 0, 2, "not a number above 0");
    tperf_op_occur(own(L), times);
    return itself(L);
}

CHANGE(drop_input, tperf_op_drop_input(own(L), check_part(L, 2)))
CHANGE(repeat, tperf_op_repeat(own(L), check_part(L, 2), check_bytes(L, 3)))

static int again(lua_State *L) {
    tperf_op *op = own(L);
    double bytes = fmin(luaL_checknumber(L, 2), op->saved_bytes);
    op->saved_bytes -= bytes;
    op->again_bytes += bytes;
    return itself(L);
}

static int hold(lua_State *L) {
    tperf_op *op = own(L);
    op->saved_bytes = check_bytes(L, 2);
    op->passing_bytes = check_bytes(L, 3);
    return itself(L);
}

static int spill(lua_State *L) {
    tperf_op *op = own(L);
    double forward = check_bytes(L, 2), backward = check_bytes(L, 3);
    op->forward.bytes += forward;
    if (!op->backward.absent) op->backward.bytes += backward;
    return itself(L);
}

static int move(lua_State *L) {
    tperf_op *op = own(L);
    op->forward.bytes = check_bytes(L, 2);
    op->backward.bytes = check_bytes(L, 3);
    return itself(L);
}

static int pad(lua_State *L) {
    tperf_op *op = own(L);
    for (int i = 0; i < op->forward.n_kernels; i++)
        op->forward.kernels[i].aligned = 0;
    for (int i = 0; i < op->backward.n_kernels; i++)
        op->backward.kernels[i].aligned = 0;
    return itself(L);
}

static tperf_module check_module(lua_State *L, int index) {
    const char *name = luaL_checkstring(L, index);
    for (int m = 0; m < TPERF_MODULE_COUNT; m++)
        if (strcmp(name, tperf_module_names[m]) == 0) return (tperf_module)m;
    tperf_bind_fail(L, "op: no module is called '%s'", name);
    return TPERF_MODULE_COUNT;
}

static int belong(lua_State *L) {
    own(L)->modules |= 1U << check_module(L, 2);
    return itself(L);
}

static int belongs(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    lua_pushboolean(L, op->modules >> check_module(L, 2) & 1);
    return 1;
}

// times: how often it runs.
static void push_pass(lua_State *L, const tperf_pass *pass, double times) {
    lua_createtable(L, 0, 4);
    tperf_fields_set(L, "tensor_flops", times * pass->tensor_flops);
    tperf_fields_set(L, "vector_flops", times * pass->vector_flops);
    tperf_fields_set(L, "bytes", times * pass->bytes);
    if (pass->host_bytes > 0) tperf_fields_set(L, "host_bytes", times * pass->host_bytes);
    lua_createtable(L, pass->n_comms, 0);
    for (int i = 0; i < pass->n_comms; i++) {
        lua_createtable(L, 0, 4);
        lua_pushstring(L, tperf_collective_names[pass->comms[i].kind]);
        lua_setfield(L, -2, "kind");
        lua_pushstring(L, pass->comms[i].axis);
        lua_setfield(L, -2, "axis");
        lua_pushboolean(L, pass->comms[i].share);
        lua_setfield(L, -2, "share");
        lua_pushboolean(L, pass->comms[i].beside);
        lua_setfield(L, -2, "beside");
        tperf_fields_set(L, "bytes",
                         (tperf_comm_is_once(&pass->comms[i]) ? 1 : times) * pass->comms[i].bytes);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "comms");
}

static int counts(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    lua_createtable(L, 0, 8);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, tperf_dtype_names[op->dtype]);
    lua_setfield(L, -2, "dtype");
    tperf_fields_set(L, "weight_bytes", op->weight_bytes);
    tperf_fields_set(L, "parameters", op->parameters);
    tperf_fields_set(L, "trained", op->frozen ? 0 : op->parameters);
    tperf_fields_set(L, "saved_bytes", op->saved_bytes);
    tperf_fields_set(L, "repeated_bytes", op->repeated_bytes);
    lua_pushboolean(L, op->expert);
    lua_setfield(L, -2, "expert");
    lua_pushboolean(L, op->tied);
    lua_setfield(L, -2, "tied");
    lua_pushboolean(L, op->recomputed);
    lua_setfield(L, -2, "recomputed");
    push_pass(L, &op->forward, tperf_op_times(op));
    lua_setfield(L, -2, "forward");
    push_pass(L, &op->backward, tperf_op_times(op));
    lua_setfield(L, -2, "backward");
    return 1;
}

static int product(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    const tperf_product *p = &op->product;
    if (p->rows == 0) return 0;
    lua_createtable(L, 0, 16);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    tperf_fields_set(L, "rows", p->rows);
    tperf_fields_set(L, "n_in", p->n_in);
    tperf_fields_set(L, "n_out", p->n_out);
    tperf_fields_set(L, "used", p->used);
    tperf_fields_set(L, "kept", p->kept);
    tperf_fields_set(L, "scattered", p->scattered);
    tperf_fields_set(L, "weights", op->parameters);
    lua_pushboolean(L, op->expert);
    lua_setfield(L, -2, "expert");
    lua_pushboolean(L, op->recomputed);
    lua_setfield(L, -2, "recomputed");
    tperf_fields_set(L, "saved", op->saved_bytes);
    tperf_fields_set(L, "again", op->again_bytes);
    tperf_fields_set(L, "on_host", op->offload_bytes);
    lua_pushboolean(L, op->offloaded);
    lua_setfield(L, -2, "offloaded");
    lua_pushboolean(L, op->own_format);
    lua_setfield(L, -2, "own_format");
    lua_pushboolean(L, op->frozen);
    lua_setfield(L, -2, "frozen");
    lua_pushboolean(L, op->stopped);
    lua_setfield(L, -2, "stopped");
    return 1;
}

// Pushes a copy of the op at index 1, for a method to change.
static tperf_op *push_copy(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    tperf_op *copy = lua_newuserdatauv(L, sizeof *copy, 0);
    *copy = *op;
    luaL_setmetatable(L, type_name);
    return copy;
}

// The part of all pairs within the window that see each other; 1 for other ops than fused attention.
static int seen_part(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    lua_pushnumber(L, op->pair_flops > 0 ? op->seen_flops / op->pair_flops : 1);
    return 1;
}

// Whether a collective of the op overlaps its own work, as in a ring.
static int is_ring(lua_State *L) {
    const tperf_pass *pass = &tperf_bind_check_op(L, 1)->forward;
    lua_pushboolean(L, pass->n_comms > 0 && pass->comms[0].beside);
    return 1;
}

static int copy(lua_State *L) {
    push_copy(L);
    return 1;
}

static int role(lua_State *L) {
    static const char *const names[] = {[TPERF_ROLE_RESIDUAL] = "residual",
                                        [TPERF_ROLE_ROTARY] = "rotary",
                                        [TPERF_ROLE_GATE] = "gate"};
    const tperf_op *op = tperf_bind_check_op(L, 1);
    if (op->role < TPERF_ROLE_RESIDUAL || op->role > TPERF_ROLE_GATE) return 0;
    lua_pushstring(L, names[op->role]);
    lua_pushnumber(L, op->elements);
    return 2;
}

// A copy whose weights another section holds, and one that holds the weights alone.
static int lent(lua_State *L) {
    tperf_op_lend(push_copy(L));
    return 1;
}

static int alone(lua_State *L) {
    tperf_op_hold_alone(push_copy(L));
    return 1;
}

static int keep(lua_State *L) {
    tperf_bind_set_kept(L, 2, "op:keep", own(L));
    return itself(L);
}

static int kept(lua_State *L) {
    const tperf_op_kept *k = &tperf_bind_check_op(L, 1)->kept;
    lua_pushnumber(L, k->token);
    lua_pushnumber(L, k->sequence);
    lua_pushnumber(L, k->window);
    lua_pushnumber(L, k->keys);
    lua_pushnumber(L, k->key_bytes);
    lua_pushboolean(L, k->stated);
    return 6;
}

static int share_as(lua_State *L) {
    tperf_op *op = own(L);
    copy_name(L, op->name, luaL_checkstring(L, 2), op->shared_as, sizeof op->shared_as);
    return itself(L);
}

static int shared_as(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    if (!*op->shared_as) return 0;
    lua_pushstring(L, op->shared_as);
    return 1;
}

// op:put(where, rows): rows of the table of which the op has some.
static int put(lua_State *L) {
    tperf_op *op = own(L);
    double whole = luaL_optnumber(L, 3, 0), part = 1;
    if (op->table_rows > 0 && whole > 0) part = fmin(op->table_rows / whole, 1);
    put_on(L, "share", op, luaL_checkstring(L, 2), part);
    return itself(L);
}

static int read_input(lua_State *L) {
    tperf_op *op = own(L);
    copy_name(L, op->name, luaL_checkstring(L, 2), op->input, sizeof op->input);
    return itself(L);
}

static int reads(lua_State *L) {
    const tperf_op *op = tperf_bind_check_op(L, 1);
    if (!*op->input) return 0;
    lua_pushstring(L, op->input);
    return 1;
}

static int model_flops(lua_State *L) {
    tperf_model_flops flops = tperf_op_model_flops(tperf_bind_check_op(L, 1), lua_toboolean(L, 2));
    lua_pushnumber(L, flops.forward);
    lua_pushnumber(L, flops.backward);
    return 2;
}

typedef struct narrowing {
    const char *dtype;
    tperf_narrowing how;
} narrowing;

#define NARROWING(name, kind)                                                                      \
    { #name, TPERF_FIELD_##kind, offsetof(narrowing, how.name), false }

static int narrowed(lua_State *L) {
    static const tperf_field fields[] = {
        {"dtype", TPERF_FIELD_TEXT, offsetof(narrowing, dtype), true},
        NARROWING(number, NUMBER),
        NARROWING(weight, NUMBER),
        NARROWING(held, NUMBER),
        NARROWING(copies, NUMBER),
        NARROWING(gathered, NUMBER),
        NARROWING(step, NUMBER),
        NARROWING(gather, NUMBER),
        NARROWING(grad_gather, NUMBER),
        NARROWING(keeps, FLAG),
        NARROWING(made, FLAG),
        NARROWING(wide_weight_grad, FLAG),
        {0},
    };
    narrowing asked = {0};
    tperf_fields_read(L, 2, "op:narrowed", fields, &asked);
    asked.how.dtype = check_dtype(L, "op:narrowed", asked.dtype);
    tperf_op *op = push_copy(L);
    tperf_error error;
    if (tperf_op_narrow(op, &asked.how, &error) != TPERF_OK) return tperf_bind_raise(L, &error);
    return 1;
}

static int keeping(lua_State *L) {
    if (tperf_bind_check_op(L, 1)->output_bytes == 0) return 0;
    double bytes = luaL_optnumber(L, 2, HUGE_VAL);
    tperf_op_keep_output(push_copy(L), bytes);
    return 1;
}

static const luaL_Reg methods[] = {
    {"recompute", recompute},
    {"single", single},
    {"join", join},
    {"add", add},
    {"is_added", is_added},
    {"fuse", fuse},
    {"scatter", scatter},
    {"chunkwise", chunkwise},
    {"calls", calls},
    {"loop", loop},
    {"launches", launches},
    {"freeze", freeze},
    {"stop", stop},
    {"input_bytes", input_bytes},
    {"drop_input", drop_input},
    {"repeat_part", repeat},
    {"offload", offload},
    {"hold", hold},
    {"spill", spill},
    {"move", move},
    {"pad", pad},
    {"belong", belong},
    {"belongs", belongs},
    {"again", again},
    {"product", product},
    {"narrowed", narrowed},
    {"is_norm", is_norm},
    {"has_output", has_output},
    {"has_own_format", has_own_format},
    {"borrow_input", borrow_input},
    {"read", read_input},
    {"reads", reads},
    {"is_recomputed", is_recomputed},
    {"has_weight_product", has_weight_product},
    {"is_on_host", is_on_host},
    {"put", put},
    {"is_sparse", is_sparse},
    {"parameters", parameters},
    {"trained", trained},
    {"saved_bytes", saved_bytes},
    {"keeps", keeps},
    {"keeping", keeping},
    {"occur", occur},
    {"times", times},
    {"communicate", tperf_bind_communicate},
    {"counts", counts},
    {"seen_part", seen_part},
    {"is_ring", is_ring},
    {"copy", copy},
    {"role", role},
    {"lent", lent},
    {"alone", alone},
    {"keep", keep},
    {"kept", kept},
    {"share_as", share_as},
    {"shared_as", shared_as},
    {"borrowed", borrowed},
    {"model_flops", model_flops},
    {NULL, NULL},
};

// fields(): for documentation, the fields of each constructor: { linear = { { name, kind, required } … } … }
static int fields(lua_State *L) {
    static const char *const kinds[] = {[TPERF_FIELD_INTEGER] = "integer",
                                        [TPERF_FIELD_NUMBER] = "number",
                                        [TPERF_FIELD_FLAG] = "flag",
                                        [TPERF_FIELD_TEXT] = "text",
                                        [TPERF_FIELD_ANY] = "any"};
    lua_newtable(L);
    for (const tperf_op_kind *k = tperf_op_kinds; k->what; k++) {
        lua_newtable(L);
        for (int i = 0; k->fields[i].name; i++) {
            lua_createtable(L, 0, 3);
            lua_pushstring(L, k->fields[i].name);
            lua_setfield(L, -2, "name");
            lua_pushstring(L, kinds[k->fields[i].kind]);
            lua_setfield(L, -2, "kind");
            lua_pushboolean(L, k->fields[i].required);
            lua_setfield(L, -2, "required");
            lua_rawseti(L, -2, i + 1);
        }
        lua_setfield(L, -2, k->what + strlen("op."));
    }
    return 1;
}

// bytes(what, dtype): bytes per element; `what` is for the error message
static int bytes(lua_State *L) {
    lua_pushnumber(L, element_of(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
    return 1;
}

// Whether all keys of the table at 1 are among those of the table at 2.
static bool has_only(lua_State *L) {
    for (lua_pushnil(L); lua_next(L, 1); lua_settop(L, 3)) {
        lua_settop(L, 3);
        lua_pushvalue(L, 3);
        if (lua_rawget(L, 2) == LUA_TNIL) return false;
    }
    return true;
}

// element(o, names) -> the bytes per element of o.dtype ("bf16"); nil if it is not a dtype, or if o has other keys than
// names has
static int element(lua_State *L) {
    lua_settop(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    if (!lua_istable(L, 1) || !has_only(L)) return 0;
    int type = lua_getfield(L, 1, "dtype");
    tperf_dtype dtype = type == LUA_TSTRING ? dtype_of(lua_tostring(L, -1)) : TPERF_BF16;
    if ((type != LUA_TSTRING && type != LUA_TNIL) || dtype == TPERF_DTYPE_COUNT) return 0;
    lua_pushnumber(L, tperf_dtype_bytes(dtype));
    return 1;
}

void tperf_bind_op(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pushcfunction(L, to_string);
    lua_setfield(L, -2, "__tostring");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushcfunction(L, is_op);
    lua_setfield(L, -2, "is");
    lua_pushcfunction(L, fields);
    lua_setfield(L, -2, "fields");
    lua_pushcfunction(L, bytes);
    lua_setfield(L, -2, "bytes");
    lua_pushcfunction(L, element);
    lua_setfield(L, -2, "element");
    lua_pushcfunction(L, tperf_bind_given_op);
    lua_setfield(L, -2, "given");
    for (int i = 0; tperf_op_kinds[i].what; i++) {
        lua_pushinteger(L, i);
        lua_pushcclosure(L, construct, 1);
        lua_setfield(L, -2, tperf_op_kinds[i].what + strlen("op."));
    }
}
