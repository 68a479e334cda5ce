// prices.h: what a worker remembers of the ops of blocks, which many shapes of a search share: shapes that differ in
// where the experts are have the same attention. Private to src/search.
#ifndef TPERF_SEARCH_PRICES_H
#define TPERF_SEARCH_PRICES_H

#include "tperf/heap.h"
#include "tperf/workload.h"

typedef struct tperf_price_key {
    uint64_t block, system; // the part's id; the address of the system
    // 0 for axes that do not matter to the block. With further tiers, of the axes
    // that matter or lie within their groups, the part and the rest.
    int64_t panels, fast[TPERF_AXES_MAX];
    uint64_t placed; // 0: wherever the ops are placed
} tperf_price_key;

typedef struct tperf_known_price {
    tperf_price_key key;
    size_t first; // index of the block's price, or of its first op's base
} tperf_known_price;

// What an op costs wherever it is placed: its price, unless it communicates; else its kernels' alone.
typedef struct tperf_base {
    tperf_op_price price;
    bool communicates;
} tperf_base;

// The arrays are NULL until they are needed, and memory that is not used is not touched: a search may be short. All is
// forgotten when one is full.
typedef struct tperf_prices {
    uint16_t *slots; // hashed: number of a known price, from 1; 0: free
    tperf_known_price *known;
    tperf_either_price *blocks;
    tperf_base *bases;
    size_t n_known, n_blocks, n_bases; // used
    const tperf_either_price **parts;  // of the current workload
    size_t parts_capacity;
} tperf_prices;

// Whether there is room for a workload's prices.
bool tperf_prices_hold(const tperf_workload *workload);

// The prices of the workload's parts, until the next call; NULL: out of memory.
const tperf_either_price *const *tperf_prices_of(tperf_prices *prices, const tperf_heap *heap,
                                                 const tperf_workload *workload,
                                                 const tperf_platform *on,
                                                 const tperf_placement *placement);

void tperf_prices_release(tperf_prices *prices);

#endif
