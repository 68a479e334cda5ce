// route.c: chooses the replica of an arriving request.
#include "serve/fleet.h"

int32_t tperf_least_loaded(const tperf_fleet *fleet, int32_t first, int32_t last) {
    int32_t best = first;
    for (int32_t i = first + 1; i < last; i++)
        if (fleet->load[i] < fleet->load[best]) best = i;
    return best;
}

// The number of the prompt's blocks that the replica has cached.
static tperf_status cached_blocks(tperf_fleet *fleet, size_t request, int32_t lane, int32_t *blocks,
                                  tperf_error *error) {
    tperf_blocks *cache = &fleet->lanes[lane].replica.blocks;
    int32_t size = fleet->lanes[lane].replica.engine->block_size;
    tperf_content content;
    tperf_content_of(fleet->requests, (int32_t)request, &content);
    TPERF_TRY(tperf_blocks_look_up(cache, &content, size,
                                   (fleet->requests->prompt[request] - 1) / size, error));
    *blocks = cache->n_hits;
    return TPERF_OK;
}

static tperf_status longest_prefix(tperf_fleet *fleet, size_t request, int32_t n_lanes,
                                   int32_t *lane, tperf_error *error) {
    int32_t most = -1;
    if (!tperf_has_segments(fleet->requests, (int32_t)request)) {
        *lane = tperf_least_loaded(fleet, 0, n_lanes);
        return TPERF_OK;
    }
    for (int32_t i = 0; i < n_lanes; i++) {
        int32_t blocks = 0;
        TPERF_TRY(cached_blocks(fleet, request, i, &blocks, error));
        if (blocks > most || (blocks == most && fleet->load[i] < fleet->load[*lane])) {
            most = blocks;
            *lane = i;
        }
    }
    return TPERF_OK;
}

tperf_status tperf_route(tperf_fleet *fleet, size_t request, int32_t *lane, tperf_error *error) {
    int32_t n_lanes = fleet->n_prefill > 0 ? fleet->n_prefill : fleet->n_lanes;
    *lane = 0;
    if (n_lanes == 1) return TPERF_OK;
    switch (fleet->options->routing) {
    case TPERF_ROUTE_ROUND_ROBIN:
        *lane = (int32_t)((fleet->arrived - 1) % (size_t)n_lanes);
        return TPERF_OK;
    case TPERF_ROUTE_LEAST_LOADED:
        *lane = tperf_least_loaded(fleet, 0, n_lanes);
        return TPERF_OK;
    case TPERF_ROUTE_PREFIX:
        break;
    }
    return longest_prefix(fleet, request, n_lanes, lane, error);
}
