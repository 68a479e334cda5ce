// bind_workload.c: tperf.core.workload: the ops of a model for one shape.
//   block(grid, sizes, ops) -> block, axes, copies
//     a list { name =, op, op … }, whose ops are never changed again, as part of layers of these sizes; axes: bit i - 1
//     is set if the size of the grid's i-th own axis matters to it; copies: the number of ops that it does not borrow
//   block(grid, sizes, block, saved_bytes) -> the same    a block of these sizes, all of whose ops are recomputed; the
//     first one keeps this input
//   block_on_line(from, to, t, saved_bytes) -> block, copies
//     at t of the line through the block `from` (t = 0) and the block `to` (t = 1), which differs in the number of tokens
//     alone; nil if a count would not be exact, see tperf_op_on_line. saved_bytes: all its ops are recomputed, as above
//   workload(grid, sizes, boundary_bytes, sections, boundary_parts = 1) -> workload
//     sizes: list of integers, of the grid's own axes, with the field dp if it is laid out for so many replicas;
//     sections: each kind of layer, then first, then last, then weights that sections share, by `holders`, a list of
//     lists of the sections that share each: lists of blocks, of lists to make them of, and of lists { name =, block … }
//     of several by one name
//   workload:ops(section, platform, fast, panels = 1)   list of records, as tperf.layer documents them
//   workload:served(section, platform, fast, panels = 1, varying = nil) -> others, by_keys, kernels, attention
//       a section's forward pass in a serving engine: seconds of the ops whose cost changes with the keys that tokens see
//       (those that say so, and those in the set of "block op" names), of all others, kernels that its host launches,
//       and seconds of fused attention
//   #workload   the number of its ops
#include <limits.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/describe/comm_record.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/platform.h"

static const char type_name[] = "tperf.workload";

const tperf_workload *tperf_bind_check_workload(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

// User values of a block: its grid, the blocks on lines that begin at it, and the ops that it borrows.
enum { GRID = 1, LINES, BORROWED };

// A block, whose ops are its own copies, or borrowed.
typedef struct block {
    tperf_block is;
    tperf_op own[];
} block;

static const char block_name[] = "tperf.block";

// Whether an op is another one in each layer that it joins.
static bool differs(const tperf_op *op) {
    return op->forward.n_comms + op->backward.n_comms > 0;
}

static size_t count_differing(lua_State *L, int list, lua_Unsigned n) {
    size_t count = 0;
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        count += differs(tperf_bind_check_op(L, -1));
        lua_pop(L, 1);
    }
    return count;
}

// Joins the ops of the list at `list` to the block at the top of the stack. It has room for `room`
// copies, and borrows the ops that do not differ if that is not all of them.
static void join_ops(lua_State *L, int list, block *joined, size_t room) {
    tperf_op *own = joined->own;
    tperf_block *is = &joined->is;
    for (size_t i = 0; i < is->n; i++) {
        tperf_error error;
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        const tperf_op *op = tperf_bind_check_op(L, -1);
        if (room < is->n && !differs(op)) {
            is->ops[i] = op;
            lua_setiuservalue(L, -2, BORROWED + (int)i);
            continue;
        }
        if (own == &joined->own[room]) tperf_bind_fail(L, "a block's ops have changed");
        *own = *op;
        lua_pop(L, 1);
        if (tperf_block_join(is, own, &error) != TPERF_OK) tperf_bind_raise(L, &error);
        is->ops[i] = own++;
    }
}

// A number that no other block of the state has.
static uint64_t new_id(lua_State *L) {
    static const char last_id;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &last_id);
    lua_Integer id = lua_tointeger(L, -1) + 1;
    lua_pop(L, 1);
    lua_pushinteger(L, id);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &last_id);
    return (uint64_t)id;
}

// Replaces the grid at the top of the stack by a block of n ops, with room for `room` copies.
static block *new_room(lua_State *L, lua_Unsigned n, size_t room) {
    size_t size = sizeof(block) + room * sizeof(tperf_op) + n * sizeof(const tperf_op *);
    block *joined = lua_newuserdatauv(L, size, BORROWED - 1 + (room < n ? (int)n : 0));
    joined->is = (tperf_block){.id = new_id(L), .grid = tperf_bind_check_grid(L, -2), .n = n};
    joined->is.ops = (const tperf_op **)&joined->own[room];
    luaL_setmetatable(L, block_name);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, GRID);
    return joined;
}

// Pushes a block like the one at `index`, with room for copies of its ops.
static block *push_like(lua_State *L, int index) {
    const tperf_block *other = lua_touserdata(L, index);
    lua_getiuservalue(L, index, GRID);
    block *like = new_room(L, other->n, other->n);
    memcpy(like->is.sizes, other->sizes, sizeof other->sizes);
    like->is.replicas = other->replicas;
    memcpy(like->is.name, other->name, sizeof other->name);
    like->is.axes = other->axes;
    for (size_t i = 0; i < other->n; i++)
        like->is.ops[i] = &like->own[i];
    return like;
}

// Pushes the ops of the list at `index` as a block, with the grid at 1 and the sizes at 2. borrow: nobody changes the
// ops any more.
static block *push_block(lua_State *L, int index, bool borrow) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        tperf_bind_fail(L, "a block must be a list, got %s", luaL_typename(L, index));
    if (tperf_bind_raw_field(L, index, "name") != LUA_TSTRING)
        tperf_bind_fail(L, "a block lacks its name");
    const char *name = lua_tostring(L, -1);
    if (strlen(name) >= TPERF_NAME_MAX)
        tperf_bind_fail(L, "the block name '%s' is longer than %d bytes", name, TPERF_NAME_MAX - 1);
    size_t n = tperf_bind_length(L, index, "the ops of a block");
    if (n > TPERF_LIST_MAX) tperf_bind_fail(L, "a block has more than %d ops", TPERF_LIST_MAX);
    bool may_borrow = borrow && n < USHRT_MAX - BORROWED;
    size_t room = may_borrow ? count_differing(L, index, n) : n;
    lua_pushvalue(L, 1);
    block *joined = new_room(L, n, room);
    joined->is.replicas = tperf_bind_check_own_sizes(L, 2, joined->is.grid, joined->is.sizes);
    strcpy(joined->is.name, name);
    join_ops(L, index, joined, room);
    joined->is.bytes = tperf_block_bytes_of(joined->is.ops, n);
    return joined;
}

static void check_block(lua_State *L, const tperf_block *joined, const tperf_grid *grid,
                        const int64_t *sizes) {
    tperf_error error;
    if (tperf_block_check(joined, grid, sizes, &error) != TPERF_OK)
        tperf_bind_fail(L, "%s", error.message);
}

// Pushes a copy of the block at 3, with the grid at 1 and the sizes at 2, all of whose ops are recomputed, and keep so
// many bytes of the input.
static const block *push_recomputed(lua_State *L, double saved_bytes) {
    const tperf_block *plain = lua_touserdata(L, 3);
    int64_t sizes[TPERF_AXES_MAX] = {0};
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    tperf_bind_check_own_sizes(L, 2, grid, sizes);
    check_block(L, plain, grid, sizes);
    block *copy = push_like(L, 3);
    for (size_t i = 0; i < plain->n; i++) {
        copy->own[i] = *plain->ops[i];
        tperf_op_recompute(&copy->own[i], i == 0 ? saved_bytes : 0);
    }
    copy->is.bytes = tperf_block_bytes_of(copy->is.ops, copy->is.n);
    return copy;
}

// block(grid, sizes, list) or block(grid, sizes, block, saved_bytes) -> block, axes, copies
static int new_block(lua_State *L) {
    const block *joined = luaL_testudata(L, 3, block_name)
                              ? push_recomputed(L, luaL_checknumber(L, 4))
                              : push_block(L, 3, true);
    lua_pushinteger(L, joined->is.axes >> TPERF_AXIS_OWN);
    lua_pushinteger(L, (const tperf_op *)joined->is.ops - joined->own);
    return 3;
}

// Pushes what the table at the top of the stack has at a key, which is popped; a new table if it has nothing.
static void enter(lua_State *L) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_remove(L, -2);
}

// block_on_line(from, to, t, saved_bytes) -> block, copies. Blocks are remembered by all four.
static int block_on_line(lua_State *L) {
    const tperf_block *from = luaL_checkudata(L, 1, block_name),
                      *to = luaL_checkudata(L, 2, block_name);
    double t = luaL_checknumber(L, 3);
    bool recomputed = lua_toboolean(L, 4);
    double saved_bytes = recomputed ? luaL_checknumber(L, 4) : -1;
    lua_settop(L, 4);
    if (from->n != to->n) return 0;
    if (lua_getiuservalue(L, 1, LINES) == LUA_TNIL) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, 1, LINES);
    }
    lua_pushvalue(L, 2);
    enter(L);
    lua_pushnumber(L, t);
    enter(L);
    lua_pushnumber(L, saved_bytes);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) != LUA_TNIL) {
        lua_pushinteger(L, 0);
        return 2;
    }
    lua_pop(L, 1);
    block *made = push_like(L, 1);
    for (size_t i = 0; i < from->n; i++) {
        tperf_op *op = &made->own[i];
        if (!tperf_op_on_line(op, from->ops[i], to->ops[i], t)) return 0;
        if (recomputed) tperf_op_recompute(op, i == 0 ? saved_bytes : 0);
    }
    made->is.bytes = tperf_block_bytes_of(made->is.ops, from->n);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, -5);
    lua_pushinteger(L, (lua_Integer)from->n);
    return 2;
}

// What the sections hold: the length of a list of pairs of a block and its name, and the ops in them.
typedef struct contents {
    lua_Integer length;
    size_t n_ops, part_end[TPERF_SECTIONS_MAX];
} contents;

// Appends the block at the top of the stack to the list at 5, under the name at `name` (0: its own).
static void add_block(lua_State *L, int name, const tperf_grid *grid, const int64_t *sizes,
                      contents *c) {
    const tperf_block *joined = luaL_testudata(L, -1, block_name);
    if (!joined) joined = &push_block(L, -1, false)->is;
    check_block(L, joined, grid, sizes);
    lua_rawseti(L, 5, ++c->length);
    if (name)
        lua_pushvalue(L, name);
    else
        lua_pushboolean(L, false);
    lua_rawseti(L, 5, ++c->length);
    c->n_ops += joined->n;
}

// The table at the top of the stack: a list of ops, or a name's list of blocks.
static bool has_blocks(lua_State *L) {
    lua_rawgeti(L, -1, 1);
    bool has = luaL_testudata(L, -1, block_name) != NULL;
    lua_pop(L, 1);
    return has;
}

// Appends the item of a section at the top of the stack.
static void add_item(lua_State *L, const tperf_grid *grid, const int64_t *sizes, contents *c) {
    int item = lua_gettop(L);
    if (!lua_istable(L, item) || !has_blocks(L)) {
        add_block(L, 0, grid, sizes, c);
        return;
    }
    lua_Integer n = (lua_Integer)tperf_bind_length(L, item, "the blocks of a layer");
    if (tperf_bind_raw_field(L, item, "name") != LUA_TSTRING)
        tperf_bind_fail(L, "a list of blocks lacks its name");
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, item, i);
        add_block(L, item + 1, grid, sizes, c);
        lua_settop(L, item + 1);
    }
}

// Fills the list at 5 with the blocks of the sections at 4, which are read once.
static void list_blocks(lua_State *L, const tperf_grid *grid, const int64_t *sizes, int n_sections,
                        contents *c) {
    for (int s = 0; s < n_sections; s++) {
        lua_rawgeti(L, 4, s + 1);
        lua_Integer n = (lua_Integer)tperf_bind_length(L, 6, "a section");
        for (lua_Integer i = 1; i <= n; i++) {
            lua_rawgeti(L, 6, i);
            add_item(L, grid, sizes, c);
            lua_settop(L, 6);
        }
        c->part_end[s] = (size_t)c->length / 2;
        lua_settop(L, 5);
    }
}

// Fills in the blocks, from the list at 5, which the workload keeps alive.
static void fill(lua_State *L, tperf_workload *workload, const contents *c) {
    int section = 0;
    for (lua_Integer i = 1; i <= c->length; i += 2) {
        while (c->part_end[section] == workload->n_parts)
            tperf_workload_end(workload, section++);
        lua_rawgeti(L, 5, i);
        lua_rawgeti(L, 5, i + 1);
        tperf_workload_add(workload, lua_touserdata(L, -2), lua_tostring(L, -1));
        lua_pop(L, 2);
    }
    while (section < workload->n_sections)
        tperf_workload_end(workload, section++);
    lua_pushvalue(L, 5);
    lua_setiuservalue(L, -2, 2);
}

// Pushes the field `holders` of the sections at 4, or nil; returns its length: of how many sections of shared weights it
// says which sections share them.
static size_t push_holders(lua_State *L) {
    if (tperf_bind_raw_field(L, 4, "holders") == LUA_TNIL) return 0;
    size_t n = tperf_bind_length(L, -1, "the holders of shared weights");
    if (n > TPERF_SHARED_MAX)
        tperf_bind_fail(L, "at most %d sets of kinds of layers share weights, got %d",
                        TPERF_SHARED_MAX, (int)n);
    return n;
}

// Reads the n lists on top of the stack, of kinds and ends, and pops them.
static void read_holders(lua_State *L, size_t n, int n_sections, tperf_section_set *holders) {
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        size_t count = tperf_bind_length(L, -1, "the sections that share weights");
        for (size_t k = 0; k < count; k++) {
            lua_rawgeti(L, -1, (lua_Integer)k + 1);
            lua_Integer section = luaL_checkinteger(L, -1);
            if (section < 1 || section > n_sections) tperf_bind_fail(L, "no such section");
            tperf_section_set_add(&holders[i], (int)section - 1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int new_workload(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0};
    contents c = {0};
    int64_t parts_sent = luaL_optinteger(L, 5, 1);
    luaL_argcheck(L, parts_sent >= 1, 5, "a message has at least one part");
    lua_settop(L, 4);
    int64_t replicas = tperf_bind_check_own_sizes(L, 2, grid, sizes);
    double boundary_bytes = luaL_checknumber(L, 3);
    tperf_section_set holders[TPERF_SHARED_MAX] = {0};
    size_t n = tperf_bind_length(L, 4, "the sections"), shared = push_holders(L);
    if (n < 3 + shared || n > TPERF_KINDS_MAX + 2 + shared)
        tperf_bind_fail(L, "a model needs 1 to %d kinds of layers, got %d", TPERF_KINDS_MAX,
                        (int)n - (int)shared - 2);
    read_holders(L, shared, (int)(n - shared), holders);
    lua_newtable(L);
    list_blocks(L, grid, sizes, (int)n, &c);
    size_t size = tperf_workload_size(c.n_ops, (size_t)c.length / 2);
    tperf_workload *workload = tperf_workload_new(lua_newuserdatauv(L, size, 2), grid, sizes,
                                                  (int)(n - shared) - 2, c.n_ops);
    workload->n_sections = (int)n;
    workload->replicas = replicas;
    memcpy(workload->holders, holders, sizeof holders);
    workload->boundary_bytes = boundary_bytes;
    workload->boundary_parts = parts_sent;
    luaL_setmetatable(L, type_name);
    fill(L, workload, &c);
    return 1;
}

// A section of a workload, and what its ops run on.
typedef struct pricing {
    const tperf_workload *workload;
    size_t begin, end;
    tperf_placement placement;
    tperf_platform on;
} pricing;

static void push_pass(lua_State *L, const pricing *p, const tperf_op *op, const tperf_pass *pass,
                      const tperf_pass_cost *cost) {
    lua_createtable(L, 0, 9);
    double times = tperf_op_times(op), panels = op->panels ? (double)p->placement.panels : 1;
    tperf_fields_set(L, "tensor_flops", times * pass->tensor_flops);
    tperf_fields_set(L, "vector_flops", times * pass->vector_flops);
    tperf_fields_set(L, "equivalent_flops",
                     times * tperf_pass_equivalent_flops(op, pass, p->on.system));
    tperf_fields_set(L, "bytes", times * (pass->bytes + panels * pass->bytes_per_panel));
    if (pass->host_bytes > 0) tperf_fields_set(L, "host_bytes", times * pass->host_bytes);
    tperf_fields_set(L, "time", cost->time);
    tperf_fields_set(L, "compute_time", cost->compute);
    tperf_fields_set(L, "exposed_memory_time", cost->exposed_memory);
    tperf_fields_set(L, "comm_time", cost->comm);
    lua_createtable(L, pass->n_comms, 0);
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        tperf_bind_push_op_comm(L, p->workload, op, comm, &p->on, &p->placement);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "comms");
}

static tperf_op_cost cost_of(const pricing *p, size_t index) {
    const tperf_op *op = p->workload->ops[index];
    tperf_op_work work = tperf_op_work_of(op, &p->on, p->placement.panels);
    return tperf_op_cost_of(op, &work, &p->on, p->workload->sizes, &p->placement);
}

static void push_op(lua_State *L, const pricing *p, size_t index) {
    const tperf_op *op = p->workload->ops[index];
    tperf_op_cost cost = cost_of(p, index);
    lua_createtable(L, 0, 8);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, tperf_workload_block(p->workload, index));
    lua_setfield(L, -2, "block");
    tperf_fields_set(L, "weight_bytes", op->weight_bytes + op->copy_bytes);
    if (tperf_op_times(op) != 1) tperf_fields_set(L, "times", tperf_op_times(op));
    bool narrow = op->product.read_bytes > 0; // gradients stay in the op's dtype
    double gradients = narrow ? op->parameters * tperf_dtype_bytes(op->dtype) : op->weight_bytes;
    tperf_fields_set(L, "weight_grad_bytes", op->frozen ? 0 : gradients);
    tperf_fields_set(L, "saved_bytes", op->saved_bytes);
    push_pass(L, p, op, &op->forward, &cost.forward);
    lua_setfield(L, -2, "forward");
    push_pass(L, p, op, &op->backward, &cost.backward);
    lua_setfield(L, -2, "backward");
}

// Reads the number of a section, at 2, into what is to be priced on a platform.
static pricing pricing_of(lua_State *L, const tperf_workload *workload, tperf_platform on) {
    pricing p = {.workload = workload, .on = on};
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 1 && number <= workload->n_sections, 2, "no such section");
    p.begin = tperf_section_begin(workload, (int)number - 1);
    p.end = workload->section_end[number - 1];
    tperf_error error;
    if (tperf_workload_check_system(workload, on.system, &error) != TPERF_OK)
        tperf_bind_raise(L, &error);
    return p;
}

// Reads the arguments of a workload's methods: section, platform, fast, panels.
static pricing check_pricing(lua_State *L) {
    const tperf_workload *workload = tperf_bind_check_workload(L, 1);
    tperf_placement placement = {.panels = luaL_optinteger(L, 5, 1)};
    pricing p = pricing_of(L, workload, tperf_bind_on(tperf_bind_check_platform(L, 3)));
    tperf_bind_check_placement(L, 4, workload, &placement);
    p.placement = placement;
    return p;
}

static int push_ops(lua_State *L, const pricing *p) {
    lua_newtable(L);
    for (size_t i = p->begin; i < p->end; i++) {
        push_op(L, p, i);
        lua_rawseti(L, -2, (lua_Integer)(i - p->begin) + 1);
    }
    return 1;
}

static int workload_ops(lua_State *L) {
    pricing p = check_pricing(L);
    return push_ops(L, &p);
}

int tperf_bind_push_ops(lua_State *L, const tperf_workload *workload, const tperf_platform *on,
                        const tperf_placement *placement) {
    pricing p = pricing_of(L, workload, *on);
    p.placement = *placement;
    return push_ops(L, &p);
}

// Whether the table at an index has the op's block and name.
static bool is_listed(lua_State *L, int index, const tperf_workload *workload, size_t op) {
    lua_pushfstring(L, "%s %s", tperf_workload_block(workload, op), workload->ops[op]->name);
    bool listed = lua_rawget(L, index) != LUA_TNIL;
    lua_pop(L, 1);
    return listed;
}

static int workload_served(lua_State *L) {
    lua_settop(L, 6);
    pricing p = check_pricing(L);
    bool lists = lua_istable(L, 6);
    double by_keys = 0, others = 0, attention = 0;
    lua_Integer kernels = 0;
    for (size_t i = p.begin; i < p.end; i++) {
        const tperf_op *op = p.workload->ops[i];
        bool keyed = op->by_keys || (lists && is_listed(L, 6, p.workload, i));
        double time = cost_of(&p, i).forward.time;
        *(keyed ? &by_keys : &others) += time;
        if (op->attention) attention += time;
        kernels += tperf_op_served_kernels(op);
    }
    lua_pushnumber(L, others);
    lua_pushnumber(L, by_keys);
    lua_pushinteger(L, kernels);
    lua_pushnumber(L, attention);
    return 4;
}

static int count_of_ops(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tperf_bind_check_workload(L, 1)->n_ops);
    return 1;
}

static const luaL_Reg methods[] = {
    {"ops", workload_ops}, {"served", workload_served}, {NULL, NULL}};

void tperf_bind_block(lua_State *L) {
    luaL_newmetatable(L, block_name);
    lua_pop(L, 1);
    lua_pushcfunction(L, new_block);
}

void tperf_bind_block_on_line(lua_State *L) {
    lua_pushcfunction(L, block_on_line);
}

void tperf_bind_workload(lua_State *L) {
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, count_of_ops);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_workload);
}
