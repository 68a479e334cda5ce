// fail_write.c: lets one write of a program fail, for specs (LD_PRELOAD). FAIL_WRITE=N is the number of the call that
// fails, of those that put something on a disk: creating a file, writing, flushing a stream, fsync, rename, link,
// truncate. FAIL_WRITE_LOG=FILE gets the name of the call, once it has failed. Standard error is left alone.
//
// A write fails as it does on a full disk: half of it is written, and the rest is not. The C library flushes streams
// without calling write(2) by its name, so that a stream that shall fail is given /dev/full for the while. What gcov
// writes when the program has ended is left alone, too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wpedantic" // POSIX has dlsym return functions, ISO C has not
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SHOWN      __attribute__((visibility("default")))

static long calls;
static int half_written = -1; // its next write fails

static bool fails(const char *name) {
    const char *wanted = getenv("FAIL_WRITE"), *log = getenv("FAIL_WRITE_LOG");
    if (!wanted || ++calls != atol(wanted)) return false;
    long file = log ? syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0) {
        syscall(SYS_write, file, name, strlen(name));
        syscall(SYS_close, file);
    }
    return true;
}

static int fail(int error) {
    errno = error;
    return -1;
}

SHOWN ssize_t write(int descriptor, const void *data, size_t size) {
    if (descriptor == half_written) {
        half_written = -1;
        return fail(ENOSPC);
    }
    if (descriptor == STDERR_FILENO || !fails("write")) return REAL(write)(descriptor, data, size);
    if (size < 2) return fail(ENOSPC);
    half_written = descriptor;
    return REAL(write)(descriptor, data, size / 2);
}

SHOWN int fsync(int descriptor) {
    return fails("fsync") ? fail(EIO) : REAL(fsync)(descriptor);
}

SHOWN int ftruncate(int descriptor, off_t size) {
    return fails("ftruncate") ? fail(EIO) : REAL(ftruncate)(descriptor, size);
}

SHOWN int rename(const char *from, const char *to) {
    return fails("rename") ? fail(ENOSPC) : REAL(rename)(from, to);
}

SHOWN int renameat(int at, const char *from, int to_at, const char *to) {
    return fails("renameat") ? fail(ENOSPC) : REAL(renameat)(at, from, to_at, to);
}

SHOWN int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    return fails("linkat") ? fail(ENOSPC) : REAL(linkat)(at, from, to_at, to, flags);
}

SHOWN int openat(int at, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
        if (fails("openat")) return fail(ENOSPC);
    }
    return REAL(openat)(at, path, flags, mode);
}

// Puts /dev/full in place of a stream's file, or back what was there.
static int exchange(FILE *stream, int kept) {
    int descriptor = fileno(stream);
    if (kept >= 0) {
        dup3(kept, descriptor, O_CLOEXEC);
        close(kept);
        return -1;
    }
    kept = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
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
    if (!is_flushed(stream, size * count) || !fails("fwrite"))
        return REAL(fwrite)(data, size, count, stream);
    int kept = exchange(stream, -1);
    size_t written = REAL(fwrite)(data, size, count, stream);
    int error = errno;
    exchange(stream, kept);
    errno = error;
    return written;
}

SHOWN int fflush(FILE *stream) {
    if (!stream || !is_flushed(stream, 0) || !fails("fflush")) return REAL(fflush)(stream);
    int kept = exchange(stream, -1);
    int result = REAL(fflush)(stream);
    int error = errno;
    exchange(stream, kept);
    errno = error;
    return result;
}

SHOWN int fclose(FILE *stream) {
    if (!is_flushed(stream, 0) || !fails("fclose")) return REAL(fclose)(stream);
    int kept = exchange(stream, -1);
    int result = REAL(fclose)(stream);
    int error = errno;
    close(kept);
    errno = error;
    return result;
}
