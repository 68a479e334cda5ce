// bind_grid.c: tperf.core.grid: the axes of a strategy, see tperf/grid.h.
//   grid(rows) -> grid    rows: list of { name =, cuts = bits, folds = bits, apart = number }, the strategy's own axes
//   Sizes are lists of the own axes; placements are lists of all axes: replicas, stages, own axes.
//   grid:gpus(sizes)              the product of the own axes' sizes; nil beyond 2^31
//   grid:batch(sizes)             the number of parts that they cut the batch into
//   grid:folds(sizes, replicas)   whether folded axes divide those that they fold over
//   grid:fold(sizes, fast)        the placement, with folded axes filled in
//   grid:rank(order, sizes, replicas, stages, domain)   the placement that an order of ranks implies; nil if the groups of
//     experts do not go with it; order: positions of axes in placements
//   grid:placements(sizes, replicas, stages, demanded, domain)
//     the placements in which no axis could have a larger part of a domain, neighbours first, as lists; demanded: the
//     part required of each axis, 0: any
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.grid", placements_name[] = "tperf.placements";

const tperf_grid *tperf_bind_check_grid(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

typedef struct row {
    const char *name;
    int64_t cuts, folds;
    double apart;
} row;

static const tperf_field row_fields[] = {
    {"name", TPERF_FIELD_TEXT, offsetof(row, name), true},
    {"cuts", TPERF_FIELD_INTEGER, offsetof(row, cuts), true},
    {"folds", TPERF_FIELD_INTEGER, offsetof(row, folds), true},
    {"apart", TPERF_FIELD_NUMBER, offsetof(row, apart), true},
    {0},
};

static void add_row(lua_State *L, tperf_grid *grid) {
    row r = {0};
    tperf_fields_read(L, -1, "grid", row_fields, &r);
    if (strlen(r.name) == 0 || strlen(r.name) >= TPERF_AXIS_NAME_MAX)
        tperf_bind_fail(L, "the axis name '%s' must have 1 to %d bytes", r.name,
                        TPERF_AXIS_NAME_MAX - 1);
    if (r.cuts < 0 || r.cuts >= 32 || r.folds < 0 || r.folds >= 1 << TPERF_AXES_MAX ||
        r.apart < 0 || r.apart > 1)
        tperf_bind_fail(L, "axis '%s' is out of bounds", r.name);
    tperf_axis axis = {.cuts = (unsigned)r.cuts, .folds = (unsigned)r.folds, .apart = r.apart};
    strcpy(axis.name, r.name);
    tperf_error error;
    if (tperf_grid_add(grid, &axis, &error) != TPERF_OK) tperf_bind_raise(L, &error);
}

static int new_grid(lua_State *L) {
    lua_settop(L, 1);
    size_t n = tperf_bind_push_list(L, 1, "the axes");
    tperf_grid *grid = lua_newuserdatauv(L, sizeof *grid, 0);
    *grid = tperf_grid_new();
    luaL_setmetatable(L, type_name);
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i);
        add_row(L, grid);
        lua_pop(L, 1);
    }
    return 1;
}

// The field dp of the sizes; 0: there is none.
static int64_t replicas_of(lua_State *L, int index) {
    int whole;
    if (tperf_bind_raw_field(L, index, "dp") == LUA_TNIL) {
        lua_pop(L, 1);
        return 0;
    }
    int64_t replicas = lua_tointegerx(L, -1, &whole);
    if (!whole || replicas < 1 || replicas > (int64_t)1 << 31)
        tperf_bind_fail(L, "replicas must be from 1 to 2^31");
    lua_pop(L, 1);
    return replicas;
}

int64_t tperf_bind_check_own_sizes(lua_State *L, int index, const tperf_grid *grid,
                                   int64_t *sizes) {
    int n = (int)tperf_bind_length(L, index, "the sizes");
    if (n != grid->n - TPERF_AXIS_OWN)
        tperf_bind_fail(L, "%d sizes are needed, got %d", grid->n - TPERF_AXIS_OWN, n);
    sizes[TPERF_AXIS_REPLICAS] = sizes[TPERF_AXIS_STAGES] = 1;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        int whole;
        int64_t least = grid->axes[i].cuts & TPERF_CUTS_STATE ? 0 : 1;
        lua_rawgeti(L, index, i - TPERF_AXIS_OWN + 1);
        sizes[i] = lua_tointegerx(L, -1, &whole);
        if (!whole || sizes[i] < least || sizes[i] > (int64_t)1 << 31)
            tperf_bind_fail(L, "a size must be an integer from 1 to 2^31");
        lua_pop(L, 1);
    }
    int64_t replicas = replicas_of(L, index);
    if (replicas > 0) sizes[TPERF_AXIS_REPLICAS] = replicas;
    return replicas;
}

static const int64_t MOST = (int64_t)1 << 31;

static int grid_gpus(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0};
    tperf_bind_check_own_sizes(L, 2, grid, sizes);
    int64_t gpus = tperf_grid_own_gpus(grid, sizes, MOST);
    if (gpus)
        lua_pushinteger(L, gpus);
    else
        lua_pushnil(L);
    return 1;
}

static int grid_batch(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0};
    tperf_bind_check_own_sizes(L, 2, grid, sizes);
    lua_pushinteger(L, tperf_grid_own_gpus(grid, sizes, MOST) ? tperf_grid_own_batch(grid, sizes)
                                                              : MOST);
    return 1;
}

// Reads the sizes and replicas of a call, from an argument on; false if they multiply to more than 2^31.
static bool read_sizes(lua_State *L, int from, const tperf_grid *grid, int64_t *sizes) {
    tperf_bind_check_own_sizes(L, from, grid, sizes);
    lua_Integer replicas = luaL_checkinteger(L, from + 1);
    luaL_argcheck(L, replicas >= 1 && replicas <= MOST, from + 1,
                  "replicas must be from 1 to 2^31");
    sizes[TPERF_AXIS_REPLICAS] = replicas;
    int64_t own = tperf_grid_own_gpus(grid, sizes, MOST), folded = 1;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        if (!grid->axes[i].folds || sizes[i] == 0) continue;
        if (sizes[i] > MOST / folded) return false;
        folded *= sizes[i];
    }
    return own && own <= MOST / replicas;
}

static int grid_folds(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0};
    lua_pushboolean(L, read_sizes(L, 2, grid, sizes) && tperf_grid_folds(grid, sizes));
    return 1;
}

static void push_placement(lua_State *L, const tperf_grid *grid, const int64_t *fast) {
    lua_createtable(L, grid->n, 0);
    for (int i = 0; i < grid->n; i++) {
        lua_pushinteger(L, fast[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static int grid_fold(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0}, fast[TPERF_AXES_MAX] = {0};
    tperf_bind_check_own_sizes(L, 2, grid, sizes);
    size_t n = tperf_bind_check_sizes(L, 3, fast, TPERF_AXES_MAX);
    if (n != (size_t)grid->n) tperf_bind_fail(L, "a placement of %d axes, not %d", grid->n, (int)n);
    int64_t product = 1;
    for (int i = 0; i < grid->n; i++) {
        if (grid->axes[i].folds) continue;
        if (fast[i] > MOST / product) tperf_bind_fail(L, "the placement takes more than 2^31 GPUs");
        product *= fast[i];
    }
    tperf_grid_fold(grid, sizes, fast);
    push_placement(L, grid, fast);
    return 1;
}

// The placements, and the heap of their blocks, which must outlive them.
typedef struct box {
    tperf_placements placements;
    tperf_heap heap;
} box;

static int release_placements(lua_State *L) {
    box *b = luaL_checkudata(L, 1, placements_name);
    tperf_placements_release(&b->placements);
    return 0;
}

static void read_demanded(lua_State *L, int index, const tperf_grid *grid, int64_t *demanded) {
    luaL_checktype(L, index, LUA_TTABLE);
    for (int i = 0; i < grid->n; i++) {
        lua_rawgeti(L, index, i + 1);
        demanded[i] = luaL_checkinteger(L, -1);
        if (demanded[i] < 0) tperf_bind_fail(L, "a part of a domain must be at least 0");
        lua_pop(L, 1);
    }
}

// Reads sizes, replicas and stages, from an argument on.
static void read_all_sizes(lua_State *L, int from, const tperf_grid *grid, int64_t *sizes) {
    bool within = read_sizes(L, from, grid, sizes);
    lua_Integer stages = luaL_checkinteger(L, from + 2);
    luaL_argcheck(L, stages >= 1 && stages <= MOST, from + 2, "stages must be from 1 to 2^31");
    int64_t gpus =
        within ? tperf_grid_own_gpus(grid, sizes, MOST) * sizes[TPERF_AXIS_REPLICAS] : MOST;
    if (!within || gpus > MOST / stages)
        tperf_bind_fail(L, "the sizes multiply to more than 2^31 GPUs");
    sizes[TPERF_AXIS_STAGES] = stages;
}

static int64_t read_domain(lua_State *L, int index) {
    lua_Integer domain = luaL_checkinteger(L, index);
    luaL_argcheck(L, domain >= 1 && domain <= MOST, index,
                  "the domain must be from 1 to 2^31 GPUs");
    return domain;
}

static int grid_rank(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0}, fast[TPERF_AXES_MAX] = {0};
    tperf_rank_order order;
    tperf_bind_check_order(L, 2, grid->n, &order);
    read_all_sizes(L, 3, grid, sizes);
    if (!tperf_grid_rank(grid, &order, sizes, read_domain(L, 6), fast)) return 0;
    push_placement(L, grid, fast);
    return 1;
}

static int grid_placements(lua_State *L) {
    const tperf_grid *grid = tperf_bind_check_grid(L, 1);
    int64_t sizes[TPERF_AXES_MAX] = {0}, demanded[TPERF_AXES_MAX] = {0};
    read_all_sizes(L, 2, grid, sizes);
    read_demanded(L, 5, grid, demanded);
    int64_t domain = read_domain(L, 6);
    box *b = lua_newuserdatauv(L, sizeof *b, 0);
    *b = (box){{0}, tperf_bind_heap(L)};
    luaL_setmetatable(L, placements_name);
    tperf_placements *placements = &b->placements;
    if (!tperf_grid_placements(grid, &b->heap, sizes, demanded, domain, placements))
        tperf_bind_fail(L, "not enough memory for the placements");
    lua_createtable(L, (int)placements->n, 0);
    for (size_t i = 0; i < placements->n; i++) {
        push_placement(L, grid, placements->fast[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    tperf_placements_release(placements);
    return 1;
}

void tperf_bind_grid(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"gpus", grid_gpus}, {"batch", grid_batch},           {"folds", grid_folds},
        {"fold", grid_fold}, {"placements", grid_placements}, {"rank", grid_rank},
        {NULL, NULL}};
    luaL_newmetatable(L, placements_name);
    lua_pushcfunction(L, release_placements);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newmetatable(L, type_name);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_grid);
}
