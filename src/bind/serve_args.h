// serve_args.h: the requests of a simulation, copied once out of Lua's tables or drawn from distributions.
#ifndef TPERF_SERVE_ARGS_H
#define TPERF_SERVE_ARGS_H

#include <lua.h>

#include "tperf/serve.h"

// What one call holds; a userdata, so that an error frees it.
typedef struct tp_serve_box {
    tp_heap heap; // Lua's, so that its limit holds for all of this
    tp_requests requests;
    size_t n_segments, segments_capacity;
    double *seconds; // [n] arrivals as they were given; NULL: none were
    tp_served served;
    tp_pool *pool;
    double front_end; // ticks that a request spends outside of the engine
    double
        ticks_per_second; // 10^9, or 1 where all times are whole seconds: then nothing is rounded
} tp_serve_box;

// Pushes an empty box.
tp_serve_box *tp_serve_box_new(lua_State *L);
void tp_serve_box_close(tp_serve_box *box);

// Reads the list of requests at `index`: { arrival =, prompt =, output =, priority =, segments = { {
// stream, tokens } … } }. Whether each has to have an arrival, or must have none. Raises at the user's
// line.
void tp_serve_read_requests(lua_State *L, int index, bool arrivals, tp_serve_box *box);

// Draws the lengths of load.count requests: see lua/tperf/serve/load.lua.
void tp_serve_draw_lengths(lua_State *L, int index, uint64_t seed, tp_serve_box *box);

// Draws the arrivals of load.stages, in ticks.
void tp_serve_draw_arrivals(lua_State *L, int index, uint64_t seed, tp_serve_box *box);

// A list of integers from low to high as an array in a userdata that stays on the stack; `what` names it in messages.
int32_t *tp_serve_read_integers(lua_State *L, int index, const char *what, int64_t low,
                                int64_t high, size_t *n);

// A priced step's tables (lua/tperf/serve/priced.lua), but for its ticks_per_second, and the window of tp_step_time; its
// arrays stay on the stack.
void tp_serve_read_table(lua_State *L, int index, tp_step_table *table, int32_t *window);

// Ticks of seconds, to the nearest; raises where the clock ends.
int64_t tp_serve_ticks(lua_State *L, const tp_serve_box *box, double seconds);

#endif
