// regular.c: see regular.h. Links are followed one by one, holding each folder's descriptor, so that the file checked is
// the file opened, and that nothing is opened before it is known to be a file: opening a device may have effects, and
// opening a pipe blocks.
#include "io/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#if !defined O_PATH && defined O_SEARCH // macOS
#define O_PATH O_SEARCH
#elif !defined O_PATH
#define O_PATH O_RDONLY
#endif

enum { MOST_LINKS = 40, NOT_A_FILE = TPERF_NOT_A_FILE };

typedef struct walk {
    int at;                  // the current folder
    char rest[2 * PATH_MAX]; // the rest of the path
    char name[NAME_MAX + 1]; // the next component
    int links;
} walk;

// Whether a folder's files expose the kernel or the machine.
static bool is_special(int at) {
    static const char *const roots[] = {"/proc",
                                        "/sys"}; // the regular files of /dev are in /dev/shm
    struct stat info, root;
    if (fstat(at, &info) != 0) return true;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (stat(roots[i], &root) == 0 && root.st_dev == info.st_dev && root.st_ino == info.st_ino)
            return true;
    }
#ifdef __linux__
    // proc, sysfs, devpts, debugfs, tracefs, securityfs, cgroup, cgroup2, configfs, selinuxfs, efivarfs, bpf, nsfs,
    // binfmt_misc, mqueue, pstore, fusectl (linux/magic.h)
    static const unsigned long kinds[] = {
        0x9fa0,     0x62656572, 0x1cd1,     0x64626720, 0x74726163, 0x73636673,
        0x27e0eb,   0x63677270, 0x62656570, 0xf97cff8c, 0xde5e81e4, 0xcafe4a11,
        0x6e736673, 0x42494e4d, 0x19800202, 0x6165676c, 0x65735543};
    struct statfs system;
    if (fstatfs(at, &system) != 0) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (((unsigned long)system.f_type & 0xffffffff) == kinds[i]) return true;
    }
#endif
    return false;
}

// Enters a folder; false with errno.
static bool enter(walk *w, const char *name) {
    int next = openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return false;
    close(w->at);
    w->at = next;
    if (!is_special(next)) return true;
    errno = NOT_A_FILE;
    return false;
}

// Puts the link's target before the rest of the path.
static bool follow(walk *w) {
    char target[PATH_MAX];
    ssize_t length = readlinkat(w->at, w->name, target, sizeof target);
    size_t left = strlen(w->rest);
    if (length < 0) return false;
    if (++w->links > MOST_LINKS || (size_t)length + 1 + left >= sizeof w->rest) {
        errno = w->links > MOST_LINKS ? ELOOP : ENAMETOOLONG;
        return false;
    }
    memmove(w->rest + length + 1, w->rest, left + 1);
    memcpy(w->rest, target, (size_t)length);
    w->rest[length] = '/';
    return target[0] != '/' || enter(w, "/");
}

// Takes the next component of the path; false at its end, or with errno.
static bool next_part(walk *w) {
    const char *from = w->rest + strspn(w->rest, "/");
    size_t length = strcspn(from, "/");
    errno = length > NAME_MAX ? ENAMETOOLONG : 0;
    if (length == 0 || errno) return false;
    memcpy(w->name, from, length);
    w->name[length] = '\0';
    memmove(w->rest, from + length, strlen(from + length) + 1);
    return true;
}

// Opens the file named by the last component; -1 with errno.
static int open_regular(const walk *w, const struct stat *seen) {
    if (S_ISDIR(seen->st_mode) || !S_ISREG(seen->st_mode)) {
        errno = S_ISDIR(seen->st_mode) ? EISDIR : NOT_A_FILE;
        return -1;
    }
    int descriptor =
        openat(w->at, w->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && !is_special(descriptor))
        return descriptor;
    close(descriptor);
    errno = NOT_A_FILE;
    return -1;
}

// One step: the file's descriptor, -1 with errno, or -2 to continue.
static int step(walk *w) {
    if (!next_part(w)) {
        if (!errno) errno = EISDIR;
        return -1;
    }
    struct stat info;
    bool last = w->rest[0] == '\0';
    if (strcmp(w->name, ".") == 0 || strcmp(w->name, "..") == 0) return enter(w, w->name) ? -2 : -1;
    if (fstatat(w->at, w->name, &info, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (S_ISLNK(info.st_mode)) {
        if (!follow(w)) return -1;
        if (last) w->rest[strlen(w->rest) - 1] = '\0'; // the slash before an empty rest
        return -2;
    }
    if (last) return open_regular(w, &info);
    return enter(w, w->name) ? -2 : -1;
}

int tperf_regular_open(const char *path) {
    walk w = {.at = -1};
    if (strlen(path) >= PATH_MAX || !*path) {
        errno = *path ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    strcpy(w.rest, path);
    w.at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int result = w.at < 0 ? -1 : -2;
    if (w.at >= 0 && is_special(w.at)) {
        errno = NOT_A_FILE;
        result = -1;
    }
    while (result == -2)
        result = step(&w);
    int error = errno;
    if (w.at >= 0) close(w.at);
    errno = error;
    return result;
}
