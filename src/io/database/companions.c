// companions.c: see companions.h.
#include "io/database/companions.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#ifndef NAME_MAX
#define NAME_MAX 255
#endif

const char *const tperf_companion_endings[] = {"-wal", "-shm", "-journal", NULL};

// Builds of SQLite for names of three letters put these in the place of the database's own ending.
static const char *const short_endings[] = {".wal", ".shm", ".nal", NULL};

static bool ends_in(const char *name, size_t length, const char *const *endings) {
    for (; *endings; endings++) {
        size_t of_ending = strlen(*endings);
        if (length >= of_ending && strcasecmp(name + length - of_ending, *endings) == 0)
            return true;
    }
    return false;
}

// "X-mj" and nine hexadecimal digits.
static bool is_super_journal(const char *name, size_t length) {
    enum { DIGITS = 9, ENDING = 3 + DIGITS };
    if (length < ENDING || strncasecmp(name + length - ENDING, "-mj", 3) != 0) return false;
    for (size_t i = length - DIGITS; i < length; i++)
        if (!isxdigit((unsigned char)name[i])) return false;
    return true;
}

bool tperf_companion_is(const char *name) {
    size_t length = strlen(name);
    return ends_in(name, length, tperf_companion_endings) || ends_in(name, length, short_endings) ||
           is_super_journal(name, length);
}

bool tperf_companion_there(int at, const char *name, bool *plain) {
    struct stat info;
    bool there = fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    *plain = there && S_ISREG(info.st_mode) && info.st_nlink == 1;
    return there;
}

const char *tperf_companion_beside(int at, const char *name, bool strange) {
    for (const char *const *ending = tperf_companion_endings; *ending; ending++) {
        char beside[NAME_MAX + TPERF_COMPANION_LONGEST + 1];
        bool plain;
        snprintf(beside, sizeof beside, "%s%s", name, *ending);
        if (strlen(beside) <= NAME_MAX && tperf_companion_there(at, beside, &plain) &&
            !(strange && plain))
            return *ending;
    }
    return NULL;
}
