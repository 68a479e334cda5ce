// ranks_copies.c: processes on one machine, copied from the first with fork and joined to it by sockets. See ranks.h.
#include "io/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#ifndef MSG_NOSIGNAL // macOS: an option of the socket says the same
#define MSG_NOSIGNAL 0
#endif

// A message on its way: its size, then its bytes.
typedef struct parcel {
    struct parcel *next;
    size_t size, done; // of what follows
    uint64_t content;  // bytes after this one
    char bytes[];
} parcel;

typedef struct peer {
    int rank, socket;
    pid_t process;          // of a copy
    bool ended;             // and rank 0 has been told
    parcel *first, **last;  // to send
    uint64_t size;          // of the message that arrives
    size_t heading, filled; // bytes of its size, and of it, that are here
    char *arriving;
} peer;

static struct {
    peer *peers;
    struct pollfd *polls;
    int n;
    int turn;       // the peer to look at first, so that none is forgotten
    peer *complete; // whose message next has found
} copies;

// --- sending ---

// Writes what the socket takes. What a peer that has ended does not take is dropped.
static void flush(peer *p) {
    while (p->first) {
        parcel *one = p->first;
        const char *from = (const char *)one + offsetof(parcel, content);
        ssize_t n =
            send(p->socket, from + one->done, one->size - one->done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        one->done = n < 0 ? one->size : one->done + (size_t)n;
        if (one->done < one->size) return;
        p->first = one->next;
        if (!p->first) p->last = &p->first;
        free(one);
    }
}

static peer *peer_of(int rank) {
    for (int i = 0; i < copies.n; i++)
        if (copies.peers[i].rank == rank) return &copies.peers[i];
    return NULL;
}

static bool send_work(int to, const void *bytes, size_t size) {
    peer *p = peer_of(to);
    parcel *one = p && size <= INT32_MAX ? malloc(sizeof *one + size) : NULL;
    if (!one) return false;
    *one = (parcel){.size = sizeof one->content + size, .content = size};
    memcpy(one->bytes, bytes, size);
    *p->last = one;
    p->last = &one->next;
    flush(p);
    return true;
}

// --- receiving ---

// The bytes read; 0: none yet; -1: the peer has ended.
static ssize_t read_some(peer *p, void *to, size_t size) {
    ssize_t n = recv(p->socket, to, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    return n <= 0 ? -1 : n;
}

// Whether a whole message is here, or the end.
static bool receive(peer *p) {
    ssize_t n = 1;
    while (p->heading < sizeof p->size && n > 0) {
        n = read_some(p, (char *)&p->size + p->heading, sizeof p->size - p->heading);
        if (n > 0) p->heading += (size_t)n;
    }
    if (p->heading == sizeof p->size && !p->arriving) {
        p->arriving = malloc(p->size);
        p->filled = 0;
        if (!p->arriving) n = -1;
    }
    while (p->arriving && p->filled < p->size && n > 0) {
        n = read_some(p, p->arriving + p->filled, p->size - p->filled);
        if (n > 0) p->filled += (size_t)n;
    }
    if (n < 0) p->ended = true;
    return p->ended || (p->arriving && p->filled == p->size);
}

static bool next(int *from, size_t *size) {
    for (int i = 0; i < copies.n; i++)
        flush(&copies.peers[i]);
    for (int i = 0; i < copies.n; i++) {
        peer *p = &copies.peers[(copies.turn + i) % copies.n];
        if (p->ended || !receive(p)) continue;
        copies.turn = (copies.turn + i + 1) % copies.n;
        copies.complete = p;
        *from = p->rank;
        *size = p->ended ? 0 : p->size;
        return true;
    }
    return false;
}

static void take(void *bytes) {
    peer *p = copies.complete;
    if (!p->ended) memcpy(bytes, p->arriving, p->size);
    free(p->arriving);
    p->arriving = NULL;
    p->heading = 0;
}

static void rest(long nanoseconds) {
    for (int i = 0; i < copies.n; i++) {
        peer *p = &copies.peers[i];
        copies.polls[i] = (struct pollfd){p->ended ? -1 : p->socket,
                                          (short)(p->first ? POLLIN | POLLOUT : POLLIN), 0};
    }
    poll(copies.polls, (nfds_t)copies.n, (int)((nanoseconds + 999999) / 1000000));
}

// --- start and end ---

static void forget(void) {
    for (int i = 0; i < copies.n; i++) {
        peer *p = &copies.peers[i];
        if (p->socket >= 0) close(p->socket);
        free(p->arriving);
        for (parcel *one = p->first; one; one = p->first) {
            p->first = one->next;
            free(one);
        }
    }
    free(copies.peers);
    free(copies.polls);
    copies.peers = NULL;
    copies.polls = NULL;
    copies.n = 0;
}

// Copies keep nothing that is worth waiting for.
static void finish(void) {
    for (int i = 0; i < copies.n; i++)
        if (copies.peers[i].process > 0) kill(copies.peers[i].process, SIGKILL);
    for (int i = 0; i < copies.n; i++)
        if (copies.peers[i].process > 0)
            while (waitpid(copies.peers[i].process, NULL, 0) < 0 && errno == EINTR)
                ;
    forget();
}

static bool has_room(int n) {
    copies.peers = calloc((size_t)n, sizeof *copies.peers);
    copies.polls = calloc((size_t)n, sizeof *copies.polls);
    if (copies.peers && copies.polls) return true;
    forget();
    errno = ENOMEM;
    return false;
}

static void add_peer(int rank, int socket, pid_t process) {
    peer *p = &copies.peers[copies.n++];
    *p = (peer){.rank = rank, .socket = socket, .process = process};
    p->last = &p->first;
}

static void drop_standard_streams(void) {
    int null = open("/dev/null", O_RDWR);
    if (null < 0) return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (null > STDERR_FILENO) close(null);
}

// In a copy: its only peer is rank 0.
static void become_copy(int socket, pid_t first) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != first) _exit(1); // it has ended already
    for (int i = 0; i < copies.n; i++)
        close(copies.peers[i].socket);
    copies.n = 0;
    add_peer(0, socket, 0);
    drop_standard_streams();
}

// The process of a copy, and in it 0; -1 with errno. `socket`: this process's end.
static pid_t copy(int *socket) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
    setsockopt(ends[1], SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    pid_t process = fork();
    int error = errno;
    close(ends[process == 0 ? 0 : 1]);
    if (process < 0) close(ends[0]);
    *socket = ends[process == 0 ? 1 : 0];
    errno = error;
    return process;
}

int tperf_copies_start(int count, tperf_ranks *ranks) {
    static const tperf_transport sockets = {send_work, next, take, rest, finish};
    pid_t first = getpid();
    if (!has_room(count)) return -1;
    fflush(NULL); // or each copy has what is buffered
    for (int rank = 1; rank < count; rank++) {
        int socket;
        pid_t process = copy(&socket);
        if (process < 0) {
            int error = errno;
            finish();
            errno = error;
            return -1;
        }
        if (process == 0) {
            become_copy(socket, first);
            *ranks = (tperf_ranks){count, rank, count, &sockets};
            return rank;
        }
        add_peer(rank, socket, process);
    }
    *ranks = (tperf_ranks){count, 0, count, &sockets};
    return 0;
}
