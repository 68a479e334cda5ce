// algorithms.h: the algorithms of collectives, as rows of a table: a new one is a row in algorithms.c.
#ifndef TPERF_MACHINE_ALGORITHMS_H
#define TPERF_MACHINE_ALGORITHMS_H

#include <stddef.h>

#include "machine/tiers.h"
#include "machine/torus.h"
#include "tperf/collective.h"

// A collective to be timed, with what its algorithms read of it. Letters as in tperf/collective.h.
typedef struct tperf_exchange {
    const tperf_system *system;
    const tperf_rules *rules;
    tperf_collective kind;
    double bytes;
    tperf_group group;
    double n, q, g;
    tperf_block block; // of those of a domain, in a torus
    double port;       // bytes/s from one GPU to the others of its group in the domain
    tperf_uplinks up;  // of further tiers
    const tperf_link_curve *link;
    // Of an all-reduce on curves with several GPUs of a domain: the bandwidth-bound part within it, and whether the switch
    // reduces.
    double stream;
    bool adds;
    unsigned reach; // one of those below
    unsigned
        is; // the bits of collective, reach and basis, of which each row has those that it is for
} tperf_exchange;

// Whether seconds follow from the constants of a system or from its curves; and which GPUs take part: all in one domain,
// one of each of several, or several of each.
// Above the bits of collectives.
enum {
    TPERF_INSIDE = 1 << TPERF_COLLECTIVE_COUNT,
    TPERF_LONE = TPERF_INSIDE << 1,
    TPERF_BOTH = TPERF_LONE << 1,
    TPERF_FORMULA = TPERF_BOTH << 1,
    TPERF_CURVE = TPERF_FORMULA << 1,
    TPERF_ANYWHERE = TPERF_INSIDE | TPERF_LONE | TPERF_BOTH,
};

typedef struct tperf_algorithm {
    const char *name; // as in tperf_route; several rows may share one. NULL ends the table
    unsigned when;    // it applies: bit k for collective k, bits of reach, and of the basis
    // And on which condition, or NULL.
    bool (*applies)(const tperf_exchange *e);
    // What it costs: a line in the bytes, or any function of them. One of the two.
    tperf_rate (*rate)(const tperf_exchange *e);
    double (*seconds)(const tperf_exchange *e);
    // What passes: the bytes that one GPU sends over its fast port and its NICs; the name is the row's.
    tperf_route (*route)(const tperf_exchange *e);
} tperf_algorithm;

// In order: of several that apply, the fastest runs; of equally fast ones, the first.
extern const tperf_algorithm tperf_algorithms[];

// Those that no library would choose: for who asks by name.
extern const tperf_algorithm tperf_other_algorithms[];

// The curve of a collective within a domain; its `large` is 0 if there is none.
const tperf_link_curve *tperf_link_curve_of(const tperf_system *system, tperf_collective kind);

// measured: between domains by a curve.
tperf_pattern tperf_pattern_of(tperf_collective kind, bool measured);

tperf_exchange tperf_exchange_of(const tperf_system *system, const tperf_rules *rules,
                                 tperf_collective kind, double bytes, tperf_group group);

// Leaves the switch out of an all-reduce: what its rings take alone.
void tperf_exchange_rings(tperf_exchange *e);

// The first row from `from` on that applies; NULL if none does.
static inline const tperf_algorithm *tperf_algorithm_next(const tperf_algorithm *from,
                                                          const tperf_exchange *e) {
    for (const tperf_algorithm *a = from; a->name; a++)
        if ((a->when & e->is) == e->is && (!a->applies || a->applies(e))) return a;
    return NULL;
}

#endif
