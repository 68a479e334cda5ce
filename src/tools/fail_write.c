// fail_write.c: makes one of a program's file calls fail, for specs (LD_PRELOAD). FAIL_WRITE=N: the number of the call,
// among those that change a disk: creating a file, writing, flushing a stream, fsync, rename, link, truncate.
// FAIL_READ=N: likewise among those that read: opening, fstat, pread, duplicating a descriptor and the like.
// FAIL_EINTR=N: of write and fsync, interrupted by a signal before they begin. FAIL_LOG=FILE gets the name of the call
// once it has failed; if N is 0, none fails, and the file gets a line for each: its name, a number for the place from
// which it was made, and its path if it has one. Standard error is not affected. NO_LINKS=1: files have no links and are
// never synced, as in some file systems; NO_LINKS=2: and another process makes each file first. NO_SLEEP=1: waiting for
// another program, which SQLite does by usleep, takes no time. FAIL_KILL=1: the call does not fail, but the program is
// killed in its middle.
//
// A write fails as on a full disk: half of it is written. The C library flushes streams without calling write(2) by
// name, so a stream that is to fail temporarily gets /dev/full. Writes of gcov after the program has ended are not
// affected.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#pragma GCC diagnostic ignored                                                                     \
    "-Wpedantic" // POSIX's dlsym returns functions, ISO C forbids the cast
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SHOWN      __attribute__((visibility("default")))

static long writes, reads, interruptions;
static int half_written = -1; // the next write to it fails

// The innermost frames of the stack, as a number that is the same for all calls from there, in every process of the
// same program: three functions here, and a few that lead to them.
static unsigned long stack_number(void) {
    enum { FRAMES = 6 };
    void *frames[FRAMES];
    unsigned long number = 14695981039346656037UL;
    for (int i = 0, count = backtrace(frames, FRAMES); i < count; i++) {
        Dl_info info;
        bool known = dladdr(frames[i], &info) != 0;
        number ^= (unsigned long)frames[i] - (known ? (unsigned long)info.dli_fbase : 0);
        number *= 1099511628211UL;
    }
    return number;
}

static void append(const char *log, const char *text, int flags) {
    long file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | flags, 0666);
    if (file < 0) return;
    syscall(SYS_write, file, text, strlen(text));
    syscall(SYS_close, file);
}

static void note(const char *log, const char *name, const char *path) {
    char line[4096 + 128];
    snprintf(line, sizeof line, "%s %lx %s\n", name, stack_number(), path);
    append(log, line, O_APPEND);
}

// path: "" if the call names its file by a descriptor.
static bool is_turn(const char *kind, long *calls, const char *name, const char *path) {
    const char *wanted = getenv(kind), *log = getenv("FAIL_LOG");
    if (!wanted) return false;
    if (log && atol(wanted) == 0) note(log, name, path);
    if (++*calls != atol(wanted)) return false;
    if (log) append(log, name, O_TRUNC);
    return true;
}

static bool fails(const char *name, const char *path) {
    return is_turn("FAIL_WRITE", &writes, name, path);
}

static bool cannot_look(const char *name, const char *path) {
    return is_turn("FAIL_READ", &reads, name, path);
}

static bool is_interrupted(const char *name) {
    return is_turn("FAIL_EINTR", &interruptions, name, "");
}

static void die_if_asked(void) {
    if (getenv("FAIL_KILL")) raise(SIGKILL);
}

static int fail(int error) {
    die_if_asked();
    errno = error;
    return -1;
}

SHOWN ssize_t write(int descriptor, const void *data, size_t size) {
    if (descriptor == half_written) {
        half_written = -1;
        return fail(ENOSPC);
    }
    if (descriptor != STDERR_FILENO && is_interrupted("write")) return fail(EINTR);
    if (descriptor == STDERR_FILENO || !fails("write", ""))
        return REAL(write)(descriptor, data, size);
    if (size < 2) return fail(ENOSPC);
    half_written = descriptor;
    ssize_t written = REAL(write)(descriptor, data, size / 2);
    die_if_asked();
    return written;
}

// SQLite writes with this; after a short write it writes the rest, which half_written makes fail.
SHOWN ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    if (descriptor == half_written) {
        half_written = -1;
        return fail(ENOSPC);
    }
    if (!fails("pwrite64", "")) return REAL(pwrite64)(descriptor, data, size, at);
    half_written = descriptor;
    ssize_t written = REAL(pwrite64)(descriptor, data, size / 2, at);
    die_if_asked();
    return written;
}

SHOWN int fdatasync(int descriptor) {
    return fails("fdatasync", "") ? fail(EIO) : REAL(fdatasync)(descriptor);
}

SHOWN int fsync(int descriptor) {
    if (getenv("NO_LINKS")) return fail(EINVAL);
    if (is_interrupted("fsync")) return fail(EINTR);
    return fails("fsync", "") ? fail(EIO) : REAL(fsync)(descriptor);
}

SHOWN int ftruncate(int descriptor, off_t size) {
    return fails("ftruncate", "") ? fail(EIO) : REAL(ftruncate)(descriptor, size);
}

SHOWN int rename(const char *from, const char *to) {
    return fails("rename", to) ? fail(ENOSPC) : REAL(rename)(from, to);
}

SHOWN int renameat(int at, const char *from, int to_at, const char *to) {
    return fails("renameat", to) ? fail(ENOSPC) : REAL(renameat)(at, from, to_at, to);
}

SHOWN int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    const char *no_links = getenv("NO_LINKS");
    if (no_links && atol(no_links) == 2)
        syscall(SYS_close, syscall(SYS_openat, to_at, to, O_WRONLY | O_CREAT | O_EXCL, 0666));
    if (no_links) return fail(EPERM);
    return fails("linkat", to) ? fail(ENOSPC) : REAL(linkat)(at, from, to_at, to, flags);
}

SHOWN int openat(int at, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
        if (fails("openat", path)) return fail(ENOSPC);
    } else if (cannot_look("openat", path)) {
        return fail(EIO);
    }
    return REAL(openat)(at, path, flags, mode);
}

SHOWN int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    } else if (cannot_look("open", path)) {
        return fail(EIO);
    }
    return REAL(open)(path, flags, mode);
}

SHOWN int fstat(int descriptor, struct stat *info) {
    return cannot_look("fstat", "") ? fail(EIO) : REAL(fstat)(descriptor, info);
}

SHOWN int fstatat(int at, const char *path, struct stat *info, int flags) {
    return cannot_look("fstatat", path) ? fail(EIO) : REAL(fstatat)(at, path, info, flags);
}

SHOWN int fstatfs(int descriptor, struct statfs *info) {
    return cannot_look("fstatfs", "") ? fail(EIO) : REAL(fstatfs)(descriptor, info);
}

SHOWN int fchmod(int descriptor, mode_t mode) {
    return cannot_look("fchmod", "") ? fail(EPERM) : REAL(fchmod)(descriptor, mode);
}

SHOWN ssize_t readlinkat(int at, const char *path, char *text, size_t size) {
    return cannot_look("readlinkat", path) ? fail(EIO) : REAL(readlinkat)(at, path, text, size);
}

SHOWN ssize_t pread(int descriptor, void *data, size_t size, off_t from) {
    return cannot_look("pread", "") ? fail(EIO) : REAL(pread)(descriptor, data, size, from);
}

// Pipes are no files: the program's own threads wait at one.
static bool is_pipe(int descriptor) {
    int error = errno;
    bool pipe = REAL(lseek)(descriptor, 0, SEEK_CUR) < 0 && errno == ESPIPE;
    errno = error;
    return pipe;
}

SHOWN ssize_t read(int descriptor, void *data, size_t size) {
    return !is_pipe(descriptor) && cannot_look("read", "") ? fail(EIO)
                                                           : REAL(read)(descriptor, data, size);
}

SHOWN off_t lseek(int descriptor, off_t offset, int whence) {
    return cannot_look("lseek", "") ? fail(EIO) : REAL(lseek)(descriptor, offset, whence);
}

SHOWN int usleep(useconds_t time) {
    return getenv("NO_SLEEP") ? 0 : REAL(usleep)(time);
}

SHOWN char *realpath(const char *path, char *real) {
    if (!cannot_look("realpath", path)) return REAL(realpath)(path, real);
    errno = EIO;
    return NULL;
}

SHOWN FILE *fdopen(int descriptor, const char *mode) {
    if (!cannot_look("fdopen", "")) return REAL(fdopen)(descriptor, mode);
    errno = ENOMEM;
    return NULL;
}

// Fails only when duplicating descriptors.
SHOWN int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (command == F_DUPFD_CLOEXEC && cannot_look("fcntl", "")) return fail(EMFILE);
    return REAL(fcntl)(descriptor, command, argument);
}

// Replaces a stream's file by /dev/full, or restores it.
static int exchange(FILE *stream, int kept) {
    die_if_asked();
    int descriptor = fileno(stream);
    if (kept >= 0) {
        dup3(kept, descriptor, O_CLOEXEC);
        close(kept);
        return -1;
    }
    kept = REAL(fcntl)(descriptor, F_DUPFD_CLOEXEC, 3);
    int full = REAL(openat)(AT_FDCWD, "/dev/full", O_WRONLY | O_CLOEXEC);
    dup3(full, descriptor, O_CLOEXEC);
    close(full);
    return kept;
}

static bool is_of_gcov(FILE *stream) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(stream));
    ssize_t length = readlink(link, path, sizeof path);
    return length > 5 && memcmp(path + length - 5, ".gcda", 5) == 0;
}

static bool is_flushed(FILE *stream, size_t more) {
    if (fileno(stream) == STDERR_FILENO || !__fwritable(stream) || is_of_gcov(stream)) return false;
    size_t room = __fbufsize(stream) ? __fbufsize(stream) : 4096;
    return more ? __fpending(stream) + more > room : __fpending(stream) > 0;
}

SHOWN size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
    if (!is_flushed(stream, size * count) || !fails("fwrite", ""))
        return REAL(fwrite)(data, size, count, stream);
    int kept = exchange(stream, -1);
    size_t written = REAL(fwrite)(data, size, count, stream);
    int error = errno;
    exchange(stream, kept);
    errno = error;
    return written;
}

SHOWN int fflush(FILE *stream) {
    if (!stream || !is_flushed(stream, 0) || !fails("fflush", "")) return REAL(fflush)(stream);
    int kept = exchange(stream, -1);
    int result = REAL(fflush)(stream);
    int error = errno;
    exchange(stream, kept);
    errno = error;
    return result;
}

SHOWN int fclose(FILE *stream) {
    if (!is_flushed(stream, 0) || !fails("fclose", "")) return REAL(fclose)(stream);
    int kept = exchange(stream, -1);
    int result = REAL(fclose)(stream);
    int error = errno;
    close(kept);
    errno = error;
    return result;
}
