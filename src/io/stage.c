// stage.c: see stage.h. The stages are a fixed table, since a signal handler must be able to walk it.
#include "io/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NAME_MAX
#define NAME_MAX 255
#endif

struct tperf_stage {
    volatile sig_atomic_t
        named; // the temporary file exists: set after creation, cleared after removal
    bool used;
    int at, descriptor;
    char temporary[48], name[NAME_MAX + 1];
};

static tperf_stage stages[TPERF_STAGE_MOST];

// Creates a temporary file with an unused name.
static int make_temporary(tperf_stage *stage) {
    static unsigned count;
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(stage->temporary, sizeof stage->temporary, TPERF_STAGE_PREFIX "%lx-%x",
                 (long)getpid(), count++);
        int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        int descriptor = openat(stage->at, stage->temporary, flags, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

// Frees the stage; preserves errno.
static void release(tperf_stage *stage) {
    int error = errno;
    if (stage->descriptor >= 0) close(stage->descriptor);
    close(stage->at);
    stage->used = false;
    errno = error;
}

tperf_stage *tperf_stage_begin(int at, const char *name) {
    size_t length = strlen(name), i = 0;
    while (i < TPERF_STAGE_MOST && stages[i].used)
        i++;
    if (i == TPERF_STAGE_MOST || length > NAME_MAX) {
        errno = length > NAME_MAX ? ENAMETOOLONG : EMFILE;
        return NULL;
    }
    tperf_stage *stage = &stages[i];
    stage->at = fcntl(at, F_DUPFD_CLOEXEC, 3);
    if (stage->at < 0) return NULL;
    stage->used = true;
    memcpy(stage->name, name, length + 1);
    stage->descriptor = make_temporary(stage);
    if (stage->descriptor < 0) {
        release(stage);
        return NULL;
    }
    stage->named = 1;
    return stage;
}

int tperf_stage_descriptor(const tperf_stage *stage) {
    return stage->descriptor;
}

int tperf_stage_folder(const tperf_stage *stage) {
    return stage->at;
}

const char *tperf_stage_name(const tperf_stage *stage) {
    return stage->name;
}

static bool write_all(int descriptor, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(descriptor, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

bool tperf_stage_write(tperf_stage *stage, const void *data, size_t size) {
    return write_all(stage->descriptor, data, size);
}

// Some file systems cannot sync a folder or a file, and report so; that counts as synced.
static bool synced(int descriptor) {
    int result;
    while ((result = fsync(descriptor)) != 0 && errno == EINTR)
        continue;
    return result == 0 || errno == EINVAL || errno == ENOTSUP;
}

// A link, unlike a rename, never replaces a file. File systems without links get a check and a rename.
static bool move_new(int at, const char *name, int to_at, const char *to) {
    if (linkat(at, name, to_at, to, 0) == 0) return unlinkat(at, name, 0) == 0;
    if (errno != EPERM && errno != EMLINK && errno != ENOTSUP && errno != ENOSYS) return false;
    struct stat info;
    if (fstatat(to_at, to, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return renameat(at, name, to_at, to) == 0;
    errno = EEXIST;
    return false;
}

bool tperf_stage_move(int at, const char *name, int to_at, const char *to, bool replace) {
    return replace ? renameat(at, name, to_at, to) == 0 : move_new(at, name, to_at, to);
}

// Gives the new file the permissions of the one it replaces.
static bool keep_mode(tperf_stage *stage) {
    struct stat info;
    if (fstatat(stage->at, stage->name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
    return !S_ISREG(info.st_mode) || fchmod(stage->descriptor, info.st_mode & 0777) == 0;
}

bool tperf_stage_put(tperf_stage *stage, bool replace) {
    if (!synced(stage->descriptor) || (replace && !keep_mode(stage)) ||
        !tperf_stage_move(stage->at, stage->temporary, stage->at, stage->name, replace)) {
        if (replace || errno != EEXIST) tperf_stage_discard(stage);
        return false;
    }
    stage->named = 0;
    bool done = synced(stage->at);
    release(stage);
    return done;
}

bool tperf_stage_commit(tperf_stage *stage, bool replace) {
    if (tperf_stage_put(stage, replace)) return true;
    if (stage->used) tperf_stage_discard(stage);
    return false;
}

void tperf_stage_discard(tperf_stage *stage) {
    int error = errno;
    if (stage->named) unlinkat(stage->at, stage->temporary, 0);
    stage->named = 0;
    release(stage);
    errno = error;
}

void tperf_stage_discard_all(void) {
    for (int i = 0; i < TPERF_STAGE_MOST; i++) {
        if (stages[i].named) unlinkat(stages[i].at, stages[i].temporary, 0);
        stages[i].named = 0;
    }
}

bool tperf_stage_whole(int at, const char *name, const void *data, size_t size, bool replace) {
    tperf_stage *stage = tperf_stage_begin(at, name);
    if (!stage) return false;
    if (tperf_stage_write(stage, data, size)) return tperf_stage_commit(stage, replace);
    tperf_stage_discard(stage);
    return false;
}
