// serve_args.h: a simulation's requests, copied once from Lua's tables or drawn from distributions.
#ifndef TPERF_SERVE_ARGS_H
#define TPERF_SERVE_ARGS_H

#include <lua.h>

#include "tperf/serve.h"

// The data of one call; a userdata, so that an error frees it.
typedef struct tperf_serve_box {
    tperf_heap heap; // Lua's, so that its limit applies
    tperf_requests requests;
    size_t n_segments, segments_capacity;
    double *seconds; // [n] arrivals as given; NULL: not given
    tperf_served served;
    tperf_pool *pool;
    // 10^9, or 1 if all times are whole seconds, so that nothing is rounded.
    double ticks_per_second;
} tperf_serve_box;

// Pushes an empty box.
tperf_serve_box *tperf_serve_box_new(lua_State *L);
void tperf_serve_box_close(tperf_serve_box *box);

// Reads the list of requests at `index`: { arrival =, prompt =, output =, priority =, segments = { { stream, tokens } …
// } }. arrivals: whether each must have an arrival, or none may. Raises at the user's line.
void tperf_serve_read_requests(lua_State *L, int index, bool arrivals, tperf_serve_box *box);

// Draws the lengths of load.count requests: see lua/tperf/question/serve/load.lua.
void tperf_serve_draw_lengths(lua_State *L, int index, uint64_t seed, tperf_serve_box *box);

// Draws the arrivals of load.stages, in ticks.
void tperf_serve_draw_arrivals(lua_State *L, int index, uint64_t seed, tperf_serve_box *box);

// Pushes a list of integers from low to high as an array in a userdata; `what` names it in messages.
int32_t *tperf_serve_read_integers(lua_State *L, int index, const char *what, int64_t low,
                                   int64_t high, size_t *n);

// Reads a priced step's tables (lua/tperf/question/serve/priced.lua) and what else tperf_step_time has of them; arrays
// stay on the stack.
void tperf_serve_read_table(lua_State *L, int index, double ticks_per_second,
                            tperf_step_table *table, tperf_step_time *time);

// Converts seconds to the nearest tick; raises beyond the end of the clock.
int64_t tperf_serve_ticks(lua_State *L, const tperf_serve_box *box, double seconds);

#endif
