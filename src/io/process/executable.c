// executable.c: see executable.h. Each system has its own way; none needs argv[0], which the caller of exec chooses.
#include "io/process/executable.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined __APPLE__
#include <mach-o/dyld.h>
#elif defined __FreeBSD__
#include <sys/sysctl.h>
#include <sys/types.h>
#elif defined __linux__
#include <sys/auxv.h>
#endif

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

static bool copy_real(const char *name, char *path, size_t size) {
    char *real = name ? realpath(name, NULL) : NULL;
    bool fits = real && strlen(real) < size;
    if (fits) memcpy(path, real, strlen(real) + 1);
    free(real);
    return fits;
}

bool tperf_executable(char *path, size_t size) {
#if defined __APPLE__
    char name[PATH_MAX];
    uint32_t room = sizeof name;
    return _NSGetExecutablePath(name, &room) == 0 && copy_real(name, path, size);
#elif defined __FreeBSD__
    char name[PATH_MAX];
    int what[] = {CTL_KERN, KERN_PROC, KERN_PROC_PATHNAME, -1};
    size_t room = sizeof name;
    return sysctl(what, 4, name, &room, NULL, 0) == 0 && copy_real(name, path, size);
#else
    ssize_t length = readlink("/proc/self/exe", path, size);
    if (length > 0 && (size_t)length < size) {
        path[length] = '\0';
        return true;
    }
#ifdef __linux__
    // Without /proc, as in a bare chroot: the name that exec was given, which the kernel keeps.
    return copy_real((const char *)getauxval(AT_EXECFN), path, size); // NOLINT: an address
#else
    (void)copy_real;
    return false;
#endif
#endif
}
