// bind_ranks.c: tperf.core.ranks: the processes of a run (io/ranks.h).
//   ranks.count, ranks.self       the number of ranks, and this rank, from 0
//   ranks.copy(count) -> rank     copies this process so that there are so many; returns in each, or nil and a message
//   ranks.built                   whether the program was built with MPI
//   ranks.share() -> threads that this rank may use: its share of the machine's processors
//   ranks.send(to, message)       sends a non-empty text
//   ranks.receive() -> message, from, or nothing if none has arrived; "": the run ends
//   ranks.rest(seconds)           yields the processor, until a message arrives if the transport can tell
#include "bind/base/processors.h"
#include "bind/bind.h"
#include "io/ranks.h"

// share([root]); root: a folder with another machine's /proc and /sys
static int share(lua_State *L) {
    tperf_sharing sharing = {tperf_ranks_here(), tperf_ranks_launched()};
    lua_pushinteger(L, tperf_processors(luaL_optstring(L, 1, ""), sharing));
    return 1;
}

static int send(lua_State *L) {
    size_t size;
    lua_Integer to = luaL_checkinteger(L, 1);
    const char *bytes = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, to >= 0 && to < tperf_ranks_count(), 1, "no such rank");
    luaL_argcheck(L, size > 0, 2, "an empty message");
    if (!tperf_ranks_send((int)to, bytes, size)) return tperf_bind_fail(L, "not enough memory");
    return 0;
}

static int receive(lua_State *L) {
    int from;
    size_t size;
    luaL_Buffer buffer;
    if (!tperf_ranks_next(&from, &size)) return 0;
    tperf_ranks_take(luaL_buffinitsize(L, &buffer, size));
    luaL_pushresultsize(&buffer, size);
    lua_pushinteger(L, from);
    return 2;
}

static int rest(lua_State *L) {
    lua_Number seconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, seconds > 0 && seconds < 1, 1, "must be below a second");
    tperf_ranks_rest(seconds);
    return 0;
}

static void set_places(lua_State *L) {
    lua_pushinteger(L, tperf_ranks_count());
    lua_setfield(L, -2, "count");
    lua_pushinteger(L, tperf_ranks_self());
    lua_setfield(L, -2, "self");
}

static int copy(lua_State *L) {
    lua_Integer count = luaL_checkinteger(L, 1);
    luaL_argcheck(L, count >= 2 && count <= 1024, 1, "2 to 1024 processes");
    tperf_bind_end_threads(L); // a copy would have the pool without its threads
    int rank = tperf_ranks_copy((int)count);
    if (rank < 0) return luaL_fileresult(L, 0, NULL);
    lua_pushvalue(L, lua_upvalueindex(1));
    set_places(L);
    lua_pushinteger(L, rank);
    return 1;
}

void tperf_bind_ranks(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"share", share}, {"send", send}, {"receive", receive}, {"rest", rest}, {NULL, NULL}};
    luaL_newlib(L, functions);
    set_places(L);
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, copy, 1);
    lua_setfield(L, -2, "copy");
    lua_pushboolean(L, tperf_ranks_built());
    lua_setfield(L, -2, "built");
}
