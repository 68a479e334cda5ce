// ranks.c: see ranks.h.
#include "io/ranks.h"

#include <errno.h>

#include "io/transport.h"

static tperf_ranks ranks = {.count = 1, .here = 1};
static bool launched;

void tperf_ranks_start(int *argc, char ***argv) {
    tperf_mpi_start(argc, argv, &ranks);
    launched = ranks.count > 1;
}

int tperf_ranks_copy(int count) {
    if (ranks.count > 1) {
        errno = ENOTSUP;
        return -1;
    }
    return tperf_copies_start(count, &ranks);
}

int tperf_ranks_count(void) {
    return ranks.count;
}

int tperf_ranks_self(void) {
    return ranks.self;
}

int tperf_ranks_here(void) {
    return ranks.here;
}

bool tperf_ranks_launched(void) {
    return launched;
}

bool tperf_ranks_send(int to, const void *bytes, size_t size) {
    return ranks.transport && ranks.transport->send(to, bytes, size);
}

bool tperf_ranks_next(int *from, size_t *size) {
    return ranks.transport && ranks.transport->next(from, size);
}

void tperf_ranks_take(void *bytes) {
    ranks.transport->take(bytes);
}

void tperf_ranks_rest(double seconds) {
    if (ranks.transport) ranks.transport->rest((long)(seconds * 1e9));
}

void tperf_ranks_finish(void) {
    if (ranks.count < 2) return;
    ranks.transport->finish();
    ranks.count = 1;
    ranks.transport = NULL;
}
