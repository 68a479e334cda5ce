// folder.c: names below the output folder.
//
// A path is normalised first ("a/../b" is "b"; leaving the folder is refused), then walked from the folder's descriptor
// with O_NOFOLLOW at every step, so that no symbolic link leads out, not even one created between check and use.
#include "cli/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/always.h"
#include "io/database/companions.h"

static struct {
    int descriptor;      // the output folder; -1 until set
    char path[PATH_MAX]; // its real path
    bool named;          // for all files that a script may write
    bool in_library;     // it is inside the tree of TPERF_LUA_DIR
} folder = {-1, "", false, false};

enum { LONGEST_SCRIPT = 1000 }; // bytes
static char script[LONGEST_SCRIPT + 1];

static const char outside[] = "it is outside the output folder";
static const char companion[] =
    "SQLite takes a file of this name for a part of a database, and does what it says";
static const char library[] = "it is in TPERF_LUA_DIR, whose files run as the library's";

// In development the library's code comes from this tree, and runs without a sandbox.
static bool is_library(int at) {
    const char *path = getenv("TPERF_LUA_DIR");
    struct stat tree, info;
    return path && *path && stat(path, &tree) == 0 && fstat(at, &info) == 0 &&
           tree.st_dev == info.st_dev && tree.st_ino == info.st_ino;
}

static bool lies_in_library(const char *path) {
    const char *dir = getenv("TPERF_LUA_DIR");
    char real[PATH_MAX];
    if (!dir || !*dir || !realpath(dir, real)) return false;
    size_t length = strcmp(real, "/") == 0 ? 0 : strlen(real);
    return strncmp(path, real, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

bool tperf_folder_set(const char *path, bool named) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return false;
    if (folder.descriptor >= 0) close(folder.descriptor);
    folder.descriptor = descriptor;
    folder.path[0] = '\0';
    strncat(folder.path, path, sizeof folder.path - 1);
    folder.named = named;
    folder.in_library = lies_in_library(path);
    return true;
}

bool tperf_folder_is_named(void) {
    return folder.named;
}

const char *tperf_folder_path(void) {
    return folder.path;
}

int tperf_folder_descriptor(void) {
    return folder.descriptor;
}

// The length of the folders that two absolute paths share, without the last slash.
static size_t shared_length(const char *a, const char *b) {
    size_t shared = 0;
    for (size_t i = 0;; i++) {
        bool end_a = a[i] == '/' || a[i] == '\0', end_b = b[i] == '/' || b[i] == '\0';
        if (end_a && end_b) shared = i;
        if (a[i] != b[i] || a[i] == '\0') return shared;
    }
}

void tperf_folder_set_script(const char *path) {
    char real[PATH_MAX], text[4 * PATH_MAX] = "";
    if (!realpath(path, real)) {
        snprintf(text, sizeof text, "%s", path);
    } else {
        const char *up = strcmp(folder.path, "/") == 0 ? "" : folder.path;
        size_t shared = shared_length(up, real);
        for (const char *rest = up + shared; *rest; rest++)
            if (*rest == '/') strcat(text, "../");
        strcat(text, real + shared + (real[shared] == '/'));
    }
    size_t length = strlen(text), start = length > LONGEST_SCRIPT ? length - LONGEST_SCRIPT : 0;
    memcpy(script, text + start, length - start + 1);
    for (char *c = script; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
}

const char *tperf_folder_script(void) {
    return script;
}

bool tperf_folder_script_is_gone(const char *path, size_t length) {
    char text[LONGEST_SCRIPT + 1];
    if (length == 0 || length >= LONGEST_SCRIPT || folder.descriptor < 0) return false;
    if (memchr(path, '?', length) || (length == 1 && *path == '-')) return false;
    memcpy(text, path, length);
    text[length] = '\0';
    return faccessat(folder.descriptor, text, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static size_t without_last(const char *out, size_t used) {
    while (used > 0 && out[used - 1] != '/')
        used--;
    return used > 0 ? used - 1 : 0;
}

// Normalises a path relative to the folder into out[PATH_MAX]; NULL, or why it is refused.
static const char *plain_path(const char *path, char *out) {
    size_t used = 0;
    for (size_t length; *path; path += length + (path[length] == '/')) {
        length = strcspn(path, "/");
        if (length == 0 || (length == 1 && path[0] == '.')) continue;
        if (length == 2 && memcmp(path, "..", 2) == 0) {
            if (used == 0) return outside;
            used = without_last(out, used);
            continue;
        }
        const char *wrong = tperf_names_part(path, length);
        if (wrong) return wrong;
        if (used > 0) out[used++] = '/';
        memcpy(out + used, path, length);
        used += length;
    }
    out[used] = '\0';
    return used ? NULL : "it is the output folder itself";
}

// The path relative to the folder; NULL if it is not below it.
static const char *relative(const char *path) {
    if (path[0] != '/') return path;
    size_t length = strcmp(folder.path, "/") == 0 ? 0 : strlen(folder.path);
    return strncmp(path, folder.path, length) == 0 && path[length] == '/' ? path + length : NULL;
}

// Opens the folder that contains the file. NULL, or why that failed.
static const char *open_parent(tperf_folder_entry *place) {
    char *rest = place->plain;
    bool is_tree = folder.in_library;
    const char *wrong = NULL;
    place->at = fcntl(folder.descriptor, F_DUPFD_CLOEXEC, 3);
    for (char *slash; place->at >= 0 && (slash = strchr(rest, '/')); rest = slash + 1) {
        *slash = '\0';
        int next = openat(place->at, rest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        close(place->at);
        errno = error;
        place->at = next;
        is_tree = is_tree || (next >= 0 && is_library(next));
        if (next >= 0 && !wrong) wrong = tperf_names_folder(next, rest);
    }
    place->name = rest;
    for (char *c = place->plain; c < rest; c++)
        if (!*c) *c = '/';
    if (place->at < 0)
        return errno == ELOOP || errno == ENOTDIR ? "a symbolic link or a file is in its way"
                                                  : NULL;
    is_tree = is_tree || is_library(place->at);
    struct stat info;
    bool link = fstatat(place->at, rest, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
    if (link) wrong = "a symbolic link or a file is in its way";
    if (is_tree && !link) wrong = library;
    if (!wrong) return NULL;
    close(place->at);
    place->at = -1;
    return wrong;
}

const char *tperf_folder_resolve(const char *path, size_t length, tperf_folder_entry *place) {
    place->at = -1;
    if (NEVER(folder.descriptor < 0)) return "there is no output folder";
    if (strlen(path) != length) return outside;
    if (length >= PATH_MAX) return "its name is too long";
    if (length > 0 && path[length - 1] == '/') return "it names a folder";
    const char *below = relative(path);
    const char *wrong = below ? plain_path(below, place->plain) : outside;
    if (wrong) return wrong;
    const char *slash = strrchr(place->plain, '/'), *name = slash ? slash + 1 : place->plain;
    if (strcasecmp(name, TPERF_MANIFEST) == 0) return "that is where the run's manifest goes";
    if (tperf_companion_is(name)) return companion;
    return open_parent(place);
}
