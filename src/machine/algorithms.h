// algorithms.h: the algorithms of collectives, as rows of a table: a new one is a row in algorithms.c.
#ifndef TPERF_MACHINE_ALGORITHMS_H
#define TPERF_MACHINE_ALGORITHMS_H

#include "tperf/collective.h"

// A collective to be timed, with what its algorithms read of it. Letters as in tperf/collective.h.
typedef struct tperf_exchange {
    const tperf_system *system;
    const tperf_rules *rules;
    tperf_collective kind;
    double bytes;
    tperf_group group;
    double n, q, g;
    double port; // bytes/s from one GPU to the others of its group in the domain
    const tperf_link_curve *link;
    unsigned basis, reach; // one bit of those below
} tperf_exchange;

// Whether seconds follow from the constants of a system or from its curves; and which GPUs take part: all in one domain,
// one of each of several, or several of each.
enum { TPERF_FORMULA = 1, TPERF_CURVE = 2 };
enum { TPERF_INSIDE = 1, TPERF_LONE = 2, TPERF_BOTH = 4, TPERF_ANYWHERE = 7 };

typedef struct tperf_algorithm {
    const char *name; // as in tperf_route; several rows may share one. NULL ends the table
    // When it applies: bit k of kinds for collective k, bits of reach, the basis; and a condition, or NULL.
    unsigned kinds, reach, basis;
    bool (*applies)(const tperf_exchange *e);
    // What it costs: a line in the bytes, or any function of them. One of the two.
    tperf_rate (*rate)(const tperf_exchange *e);
    double (*seconds)(const tperf_exchange *e);
    // What passes: the bytes that one GPU sends over its fast port and its NICs; the name is the row's.
    tperf_route (*route)(const tperf_exchange *e);
} tperf_algorithm;

// In order: of several that apply, the fastest runs; of equally fast ones, the first.
extern const tperf_algorithm tperf_algorithms[];

// Whether a system has a curve for this collective.
bool tperf_is_measured(const tperf_system *system, tperf_collective kind, tperf_group group);

tperf_exchange tperf_exchange_of(const tperf_system *system, const tperf_rules *rules,
                                 tperf_collective kind, double bytes, tperf_group group);

// The first row from `from` on that applies; NULL if none does.
const tperf_algorithm *tperf_algorithm_next(const tperf_algorithm *from, const tperf_exchange *e);

#endif
