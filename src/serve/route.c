// route.c: which replica an arriving request goes to.
#include "serve/fleet.h"

int32_t tp_least_loaded(const tp_fleet *fleet, int32_t first, int32_t last) {
    int32_t best = first;
    for (int32_t i = first + 1; i < last; i++)
        if (fleet->load[i] < fleet->load[best]) best = i;
    return best;
}

// The blocks of the request's prompt that the replica has cached.
static tp_status cached_blocks(tp_fleet *fleet, size_t request, int32_t lane, int32_t *blocks,
                               tp_error *error) {
    tp_blocks *cache = &fleet->lanes[lane].replica.blocks;
    int32_t size = fleet->lanes[lane].replica.engine->block_size;
    tp_content content;
    tp_content_of(fleet->requests, (int32_t)request, &content);
    TP_TRY(tp_blocks_look_up(cache, &content, size, (fleet->requests->prompt[request] - 1) / size,
                             error));
    *blocks = cache->n_hits;
    return TP_OK;
}

static tp_status longest_prefix(tp_fleet *fleet, size_t request, int32_t n_lanes, int32_t *lane,
                                tp_error *error) {
    int32_t most = -1;
    if (!tp_has_segments(fleet->requests, (int32_t)request)) {
        *lane = tp_least_loaded(fleet, 0, n_lanes);
        return TP_OK;
    }
    for (int32_t i = 0; i < n_lanes; i++) {
        int32_t blocks = 0;
        TP_TRY(cached_blocks(fleet, request, i, &blocks, error));
        if (blocks > most || (blocks == most && fleet->load[i] < fleet->load[*lane])) {
            most = blocks;
            *lane = i;
        }
    }
    return TP_OK;
}

tp_status tp_route(tp_fleet *fleet, size_t request, int32_t *lane, tp_error *error) {
    int32_t n_lanes = fleet->n_prefill > 0 ? fleet->n_prefill : fleet->n_lanes;
    *lane = 0;
    if (n_lanes == 1) return TP_OK;
    switch (fleet->options->routing) {
    case TP_ROUTE_ROUND_ROBIN:
        *lane = (int32_t)((fleet->arrived - 1) % (size_t)n_lanes);
        return TP_OK;
    case TP_ROUTE_LEAST_LOADED:
        *lane = tp_least_loaded(fleet, 0, n_lanes);
        return TP_OK;
    case TP_ROUTE_PREFIX:
        break;
    }
    return longest_prefix(fleet, request, n_lanes, lane, error);
}
