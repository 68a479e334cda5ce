// ranks.c: see ranks.h.
#include "io/ranks.h"

#ifndef TPERF_MPI

void tperf_ranks_start(int *argc, char ***argv) {
    (void)argc, (void)argv;
}

int tperf_ranks_count(void) {
    return 1;
}

int tperf_ranks_self(void) {
    return 0;
}

int tperf_ranks_here(void) {
    return 1;
}

bool tperf_ranks_built(void) {
    return false;
}

bool tperf_ranks_send(int to, const void *bytes, size_t size) {
    (void)to, (void)bytes, (void)size;
    return false;
}

bool tperf_ranks_next(int *from, size_t *size) {
    (void)from, (void)size;
    return false;
}

void tperf_ranks_take(void *bytes) {
    (void)bytes;
}

void tperf_ranks_finish(void) {}

#else

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORK, END, GRACE = 1 }; // tags; seconds that rank 0 waits for the others

// A message in flight, kept until the receiver has it.
typedef struct parcel {
    struct parcel *next;
    MPI_Request request;
    char bytes[];
} parcel;

static struct {
    int count, self, here;
    parcel *sent;
    MPI_Message message; // the message found by tperf_ranks_next
    int size;
} ranks = {.count = 1, .here = 1};

// Variables that launchers set for their processes: Open MPI, MPICH and derivatives, Slurm (PMI2, PMIx).
static bool is_launched(void) {
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PMI_FD", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (getenv(names[i])) return true;
    }
    return false;
}

void tperf_ranks_start(int *argc, char ***argv) {
    int level;
    MPI_Comm here;
    if (!is_launched()) return;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.self);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks.here);
    MPI_Comm_free(&here);
    if (ranks.count == 1) MPI_Finalize();
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

bool tperf_ranks_built(void) {
    return true;
}

static void free_what_has_arrived(void) {
    for (parcel **at = &ranks.sent; *at;) {
        int arrived;
        parcel *p = *at;
        MPI_Test(&p->request, &arrived, MPI_STATUS_IGNORE);
        if (!arrived) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free(p);
    }
}

static bool post(int to, const void *bytes, size_t size, int tag) {
    free_what_has_arrived();
    parcel *p = size <= INT32_MAX ? malloc(sizeof *p + size) : NULL;
    if (!p) return false;
    if (size > 0) memcpy(p->bytes, bytes, size);
    MPI_Isend(p->bytes, (int)size, MPI_BYTE, to, tag, MPI_COMM_WORLD, &p->request);
    p->next = ranks.sent;
    ranks.sent = p;
    return true;
}

bool tperf_ranks_send(int to, const void *bytes, size_t size) {
    return post(to, bytes, size, WORK);
}

bool tperf_ranks_next(int *from, size_t *size) {
    int found;
    MPI_Status status;
    free_what_has_arrived();
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &ranks.message, &status);
    if (!found) return false;
    MPI_Get_count(&status, MPI_BYTE, &ranks.size);
    *from = status.MPI_SOURCE;
    *size = (size_t)ranks.size;
    return true;
}

void tperf_ranks_take(void *bytes) {
    MPI_Mrecv(bytes, ranks.size, MPI_BYTE, &ranks.message, MPI_STATUS_IGNORE);
}

// Waits briefly for all other ranks to announce their end; drops their other messages. Returns whether all did.
static bool all_end(void) {
    int left = ranks.count - 1, from;
    size_t size;
    for (double end = MPI_Wtime() + GRACE; left > 0 && MPI_Wtime() < end;) {
        while (tperf_ranks_next(&from, &size)) {
            char *bytes = malloc(size + 1);
            if (!bytes) return false;
            tperf_ranks_take(bytes);
            free(bytes);
            if (size == 0) left--;
        }
        if (left > 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return left == 0;
}

void tperf_ranks_finish(void) {
    if (ranks.count < 2) return;
    bool well = true;
    if (ranks.self == 0) {
        for (int i = 1; i < ranks.count; i++)
            post(i, NULL, 0, END);
        well = all_end();
    } else {
        post(0, NULL, 0, END);
    }
    ranks.count = 1;
    if (well)
        MPI_Finalize();
    else
        MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
