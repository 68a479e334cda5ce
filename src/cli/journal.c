// journal.c: records the files that runs wrote, in a file in each folder, so that a later run of the same script may
// replace them, or of another one if that script is there no more (it was renamed), and nothing else. A line is "CHECKSUM  NAME\tSCRIPT", added before the file is moved into place: a file
// whose checksum has no line was not written by a run, or was changed since. Scripts cannot write the journal, since
// its name starts with a dot; one owned by another user is ignored.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/folder.h"
#include "io/stage.h"

static const char journal[] = TPERF_STAGE_PREFIX "written";

enum {
    MOST_BYTES = 16 << 20,
    TIDY_BYTES = 1 << 20,
    HASHED_PER_STEP = 2, // bytes: as long as an instruction of Lua takes
    READ_PER_STEP = 16,
};

bool tperf_journal_hash(int descriptor, char digest[TPERF_SHA256_DIGITS + 1]) {
    static char block[1 << 16];
    struct stat info;
    if (fstat(descriptor, &info) != 0) return false;
    if (info.st_size > TPERF_MOST_BYTES) {
        errno = EFBIG;
        return false;
    }
    tperf_sha256 hash;
    tperf_sha256_start(&hash);
    off_t at = 0;
    for (ssize_t got; (got = pread(descriptor, block, sizeof block, at)) != 0; at += got) {
        if (got < 0) return false;
        tperf_sha256_add(&hash, block, (size_t)got);
        if (!tperf_limits_pay((uint64_t)got / HASHED_PER_STEP)) return errno = ECANCELED, false;
    }
    tperf_sha256_finish_text(&hash, digest);
    return true;
}

// The journal's text, which the caller frees; "" without a trustworthy journal.
static char *read_journal(int at, size_t *size) {
    int descriptor = openat(at, journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    bool good = descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                info.st_nlink == 1 && info.st_uid == geteuid() && info.st_size <= MOST_BYTES;
    char *text = calloc(1, good ? (size_t)info.st_size + 1 : 1);
    ssize_t got = text && good ? pread(descriptor, text, (size_t)info.st_size, 0) : 0;
    *size = got > 0 ? (size_t)got : 0;
    if (descriptor >= 0) close(descriptor);
    tperf_limits_pay(*size / READ_PER_STEP);
    return text;
}

// The script, and its length, in a journal line for this file; NULL for another file. The line starts with the digest.
static const char *names(const char *line, size_t length, const char *name, size_t *script_length) {
    size_t before = TPERF_SHA256_DIGITS + 2, of_name = strlen(name);
    if (length <= before + of_name || memcmp(line + before, name, of_name) != 0 ||
        line[before + of_name] != '\t')
        return NULL;
    *script_length = length - before - of_name - 1;
    return line + before + of_name + 1;
}

static size_t line_length(const char *line, const char *end) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    return (size_t)((stop ? stop : end) - line);
}

static tperf_owner owner_in(const char *text, size_t size, const char *name, const char *digest) {
    const char *end = text + size, *script = tperf_folder_script();
    tperf_owner owner = TPERF_FOREIGN;
    for (size_t length; text < end; text += length + 1) {
        size_t script_length;
        length = line_length(text, end);
        const char *found = names(text, length, name, &script_length);
        if (!found) continue;
        bool same = memcmp(text, digest, TPERF_SHA256_DIGITS) == 0;
        bool own = script_length == strlen(script) && memcmp(found, script, script_length) == 0;
        if (same && (own || tperf_folder_script_is_gone(found, script_length))) return TPERF_OWN;
        if (same) owner = TPERF_OTHER_SCRIPTS;
        if (owner == TPERF_FOREIGN) owner = TPERF_CHANGED;
    }
    return owner;
}

tperf_owner tperf_journal_owner(int at, const char *name, char digest[TPERF_SHA256_DIGITS + 1]) {
    char own[TPERF_SHA256_DIGITS + 1];
    if (!digest) digest = own;
    int descriptor = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;
    bool known = descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                 info.st_nlink == 1 && tperf_journal_hash(descriptor, digest);
    if (descriptor >= 0) close(descriptor);
    if (!known) return TPERF_FOREIGN;
    size_t size;
    char *text = read_journal(at, &size);
    tperf_owner owner = text ? owner_in(text, size, name, digest) : TPERF_FOREIGN;
    free(text);
    return owner;
}

// Drops all but the last of the file's lines from a long journal.
static size_t tidy(char *text, size_t size, const char *name) {
    char *end = text + size, *last = NULL, *to = text;
    size_t of_script;
    for (char *line = text; line < end; line += line_length(line, end) + 1) {
        if (names(line, line_length(line, end), name, &of_script)) last = line;
    }
    for (char *line = text, *next; line < end; line = next) {
        size_t length = line_length(line, end);
        next = line + length + 1;
        if (names(line, length, name, &of_script) && line != last) continue;
        memmove(to, line, length);
        to[length] = '\n';
        to += length + 1;
    }
    return (size_t)(to - text);
}

// Appends a line; removes it again if it was written in part.
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

bool tperf_journal_note(int at, const char *name, const char *digest) {
    char line[TPERF_SHA256_DIGITS + NAME_MAX + 1024];
    size_t size;
    char *text = read_journal(at, &size);
    if (!text) return false;
    bool done = owner_in(text, size, name, digest) == TPERF_OWN;
    // Completes a line that a crash cut short.
    const char *start = size > 0 && text[size - 1] != '\n' ? "\n" : "";
    int length =
        snprintf(line, sizeof line, "%s%s  %s\t%s\n", start, digest, name, tperf_folder_script());
    if (!done && size > TIDY_BYTES) {
        size_t rest = tidy(text, size, name);
        char *longer = realloc(text, rest + (size_t)length);
        if (longer) {
            text = longer;
            memcpy(text + rest, line, (size_t)length);
            done = tperf_stage_whole(at, journal, text, rest + (size_t)length, true);
        }
    } else if (!done) {
        done = append(at, line, (size_t)length);
    }
    free(text);
    return done;
}

// The mark of a folder that tperf made is the line of a file "." without a checksum: no file has this name.
static const char made_name[] = ".";

bool tperf_journal_mark(int at) {
    char nothing[TPERF_SHA256_DIGITS + 1];
    memset(nothing, '0', TPERF_SHA256_DIGITS);
    nothing[TPERF_SHA256_DIGITS] = '\0';
    return tperf_journal_note(at, made_name, nothing);
}

bool tperf_journal_made(int at) {
    size_t size, of_script;
    char *text = read_journal(at, &size);
    const char *line = text, *end = text ? text + size : NULL;
    bool made = false;
    for (size_t length; line && line < end && !made; line += length + 1) {
        length = line_length(line, end);
        made = names(line, length, made_name, &of_script) != NULL;
    }
    free(text);
    return made;
}

void tperf_journal_remove(int at) {
    unlinkat(at, journal, 0);
}
