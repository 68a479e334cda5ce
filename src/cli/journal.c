// journal.c: what runs wrote, told by a file in each folder, so that a later run may replace it, and nothing else.
// A line is "CHECKSUM  NAME", as sha256sum prints it. It is added before the file takes its place: a file whose
// checksum has no line is not a run's, or somebody has changed it since. Scripts cannot write the journal, for its
// name starts with a dot; one that belongs to another user is not believed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/folder.h"
#include "io/stage.h"

static const char journal[] = TP_STAGE_PREFIX "written";

enum { MOST_BYTES = 16 << 20, TIDY_BYTES = 1 << 20 };

static const off_t MOST_HASHED = (off_t)4 << 30;

bool tp_journal_hash(int descriptor, char digest[TP_SHA256_DIGITS + 1]) {
    static char block[1 << 16];
    struct stat info;
    if (fstat(descriptor, &info) != 0) return false;
    if (info.st_size > MOST_HASHED) { // a file of holes takes no room, but hours
        errno = EFBIG;
        return false;
    }
    tp_sha256 hash;
    tp_sha256_start(&hash);
    off_t at = 0;
    for (ssize_t got; (got = pread(descriptor, block, sizeof block, at)) != 0; at += got) {
        if (got < 0) return false;
        tp_sha256_add(&hash, block, (size_t)got);
    }
    tp_sha256_finish_text(&hash, digest);
    return true;
}

// The journal's text, which the caller frees; "" where there is none that can be believed.
static char *read_journal(int at, size_t *size) {
    int descriptor = openat(at, journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    bool good = descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                info.st_nlink == 1 && info.st_uid == geteuid() && info.st_size <= MOST_BYTES;
    char *text = calloc(1, good ? (size_t)info.st_size + 1 : 1);
    ssize_t got = text && good ? pread(descriptor, text, (size_t)info.st_size, 0) : 0;
    *size = got > 0 ? (size_t)got : 0;
    if (descriptor >= 0) close(descriptor);
    return text;
}

// Whether a line of a journal names the file; its digest lies at the line's beginning.
static bool names(const char *line, size_t length, const char *name) {
    size_t of_name = strlen(name);
    return length == TP_SHA256_DIGITS + 2 + of_name &&
           memcmp(line + TP_SHA256_DIGITS + 2, name, of_name) == 0;
}

static size_t line_length(const char *line, const char *end) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    return (size_t)((stop ? stop : end) - line);
}

// Whether there is a line of the file, with this digest if it is not NULL.
static bool has_line(const char *text, size_t size, const char *name, const char *digest) {
    const char *end = text + size;
    for (size_t length; text < end; text += length + 1) {
        length = line_length(text, end);
        if (names(text, length, name) && (!digest || memcmp(text, digest, TP_SHA256_DIGITS) == 0))
            return true;
    }
    return false;
}

static bool is_noted(int at, const char *name, const char *digest) {
    size_t size;
    char *text = read_journal(at, &size);
    bool noted = text && has_line(text, size, name, digest);
    free(text);
    return noted;
}

bool tp_journal_owns(int at, const char *name, char digest[TP_SHA256_DIGITS + 1]) {
    char own[TP_SHA256_DIGITS + 1];
    if (!digest) digest = own;
    int descriptor = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;
    bool known = descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                 info.st_nlink == 1 && tp_journal_hash(descriptor, digest);
    if (descriptor >= 0) close(descriptor);
    if (!known) return false;
    return is_noted(at, name, digest);
}

bool tp_journal_knows(int at, const char *name) {
    return is_noted(at, name, NULL);
}

// A long journal without the file's older lines but the last.
static size_t tidy(char *text, size_t size, const char *name) {
    char *end = text + size, *last = NULL, *to = text;
    for (char *line = text; line < end; line += line_length(line, end) + 1) {
        if (names(line, line_length(line, end), name)) last = line;
    }
    for (char *line = text, *next; line < end; line = next) {
        size_t length = line_length(line, end);
        next = line + length + 1;
        if (names(line, length, name) && line != last) continue;
        memmove(to, line, length);
        to[length] = '\n';
        to += length + 1;
    }
    return (size_t)(to - text);
}

// Adds a line at the end; takes back what could not be written whole.
static bool append(int at, const char *line, size_t length) {
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int descriptor = openat(at, journal, flags, 0666);
    struct stat info;
    if (descriptor < 0) return false;
    bool good = fstat(descriptor, &info) == 0;
    if (good && (!S_ISREG(info.st_mode) || info.st_nlink > 1 || info.st_uid != geteuid())) {
        errno = EPERM;
        good = false;
    }
    if (good) {
        ssize_t written = write(descriptor, line, length);
        good = written == (ssize_t)length;
        if (!good && written >= 0) errno = ENOSPC;
        int error = errno;
        if (!good && ftruncate(descriptor, info.st_size) == 0 && info.st_size == 0)
            unlinkat(at, journal, 0);
        errno = error;
    }
    int error = errno;
    close(descriptor);
    errno = error;
    return good;
}

bool tp_journal_note(int at, const char *name, const char *digest) {
    char line[TP_SHA256_DIGITS + NAME_MAX + 5];
    size_t size;
    char *text = read_journal(at, &size);
    if (!text) return false;
    bool done = has_line(text, size, name, digest);
    // A line that a crash cut short gets its end.
    const char *start = size > 0 && text[size - 1] != '\n' ? "\n" : "";
    int length = snprintf(line, sizeof line, "%s%s  %s\n", start, digest, name);
    if (!done && size > TIDY_BYTES) {
        size_t rest = tidy(text, size, name);
        char *longer = realloc(text, rest + (size_t)length);
        if (longer) {
            text = longer;
            memcpy(text + rest, line, (size_t)length);
            done = tp_stage_whole(at, journal, text, rest + (size_t)length, true);
        }
    } else if (!done) {
        done = append(at, line, (size_t)length);
    }
    free(text);
    return done;
}

void tp_journal_remove(int at) {
    unlinkat(at, journal, 0);
}
