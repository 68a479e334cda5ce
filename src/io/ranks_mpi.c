// ranks_mpi.c: the processes that an MPI launcher started. See ranks.h.
#include "io/ranks.h"
#include "io/transport.h"

#ifndef TPERF_MPI

void tperf_mpi_start(int *argc, char ***argv, tperf_ranks *ranks) {
    (void)argc, (void)argv, (void)ranks;
}

bool tperf_ranks_built(void) {
    return false;
}

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
    parcel *sent;
    MPI_Message message; // the message found by next
    int size;
} post_office;

bool tperf_ranks_built(void) {
    return true;
}

static void free_what_has_arrived(void) {
    for (parcel **at = &post_office.sent; *at;) {
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
    p->next = post_office.sent;
    post_office.sent = p;
    return true;
}

static bool send_work(int to, const void *bytes, size_t size) {
    return post(to, bytes, size, WORK);
}

static bool next(int *from, size_t *size) {
    int found;
    MPI_Status status;
    free_what_has_arrived();
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &post_office.message, &status);
    if (!found) return false;
    MPI_Get_count(&status, MPI_BYTE, &post_office.size);
    *from = status.MPI_SOURCE;
    *size = (size_t)post_office.size;
    return true;
}

static void take(void *bytes) {
    MPI_Mrecv(bytes, post_office.size, MPI_BYTE, &post_office.message, MPI_STATUS_IGNORE);
}

static void rest(long nanoseconds) {
    nanosleep(&(struct timespec){0, nanoseconds}, NULL);
}

// Waits briefly for all other ranks to announce their end; drops their other messages. Returns whether all did.
static bool all_end(void) {
    int left = tperf_ranks_count() - 1, from;
    size_t size;
    for (double end = MPI_Wtime() + GRACE; left > 0 && MPI_Wtime() < end;) {
        while (next(&from, &size)) {
            char *bytes = malloc(size + 1);
            if (!bytes) return false;
            take(bytes);
            free(bytes);
            if (size == 0) left--;
        }
        if (left > 0) rest(1000000);
    }
    return left == 0;
}

static void finish(void) {
    bool well = true;
    if (tperf_ranks_self() == 0) {
        for (int i = 1; i < tperf_ranks_count(); i++)
            post(i, NULL, 0, END);
        well = all_end();
    } else {
        post(0, NULL, 0, END);
    }
    if (well)
        MPI_Finalize();
    else
        MPI_Abort(MPI_COMM_WORLD, 1); // ends those still busy
}

// Variables that launchers set for their processes: Open MPI, MPICH and derivatives, Slurm (PMI2, PMIx).
static bool is_launched(void) {
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PMI_FD", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (getenv(names[i])) return true;
    }
    return false;
}

void tperf_mpi_start(int *argc, char ***argv, tperf_ranks *ranks) {
    static const tperf_transport mpi = {send_work, next, take, rest, finish};
    int level;
    MPI_Comm here;
    if (!is_launched()) return;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->count);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->self);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks->here);
    MPI_Comm_free(&here);
    if (ranks->count == 1)
        MPI_Finalize();
    else
        ranks->transport = &mpi;
}

#endif
