// guard.c: see guard.h.
#include "io/process/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_OPEN = 1024, OPEN_FOLDERS = 16 }; // descriptors that the guard closes; that it has open

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)place;
    if (kind == FTW_DP || kind == FTW_DNR)
        rmdir(path);
    else
        unlink(path);
    return 0;
}

// Removes no folder on other file systems, and follows no links.
static void remove_folder(const char *path) {
    nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

// The guard outlives whatever ends this process and holds nothing of it open, so that its readers see their end.
static _Noreturn void watch(int line, const char *folder) {
    static const int ends[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGXCPU};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], SIG_IGN);
    setpgid(0, 0);
    for (int i = 0; i < MOST_OPEN; i++)
        if (i != line) close(i);
    char byte;
    ssize_t got;
    while ((got = read(line, &byte, 1)) > 0 || (got < 0 && errno == EINTR))
        ;
    remove_folder(folder);
    _exit(0);
}

bool tperf_guard_start(tperf_guard *guard, const char *folder) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    pid_t process = fork();
    int error = errno;
    if (process == 0) {
        close(ends[1]);
        watch(ends[0], folder);
    }
    close(ends[0]);
    if (process < 0) close(ends[1]);
    errno = error;
    if (process < 0) return false;
    guard->line = ends[1];
    guard->process = process;
    guard->on = 1;
    return true;
}

void tperf_guard_end(tperf_guard *guard) {
    int error = errno;
    if (!guard->on) return;
    guard->on = 0;
    close(guard->line);
    while (waitpid(guard->process, NULL, 0) < 0 && errno == EINTR)
        ;
    errno = error;
}
