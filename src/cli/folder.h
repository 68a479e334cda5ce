// folder.h: names below the output folder, and the journal of files that scripts wrote.
#ifndef TPERF_FOLDER_H
#define TPERF_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/sha256.h"

// A file name in an open folder, whose descriptor the caller closes.
typedef struct tperf_folder_entry {
    int at; // -1 with errno: no such folder
    const char *name;
    char plain[PATH_MAX]; // the path below the output folder, which ends in name
} tperf_folder_entry;

// The manifest of a run that --out recorded.
#define TPERF_MANIFEST "manifest.json"

// Sets the output folder, an absolute path without links; false with errno. named: the user has named it, or tperf has
// made it for them, for all files that a script may write.
bool tperf_folder_set(const char *path, bool named);
bool tperf_folder_is_named(void);
const char *tperf_folder_path(void);
int tperf_folder_descriptor(void); // -1 until set

// Sets the running script, from its path as the user wrote it ("-": standard input).
void tperf_folder_set_script(const char *path);

// The script's path relative to the output folder, which identifies it.
const char *tperf_folder_script(void);

// Whether no file is at such a path any more: that script was renamed or removed. False for standard input, and for
// paths that are not written here as they are.
bool tperf_folder_script_is_gone(const char *path, size_t length);

// Resolves a path that a script may write; NULL, or why it may not.
const char *tperf_folder_resolve(const char *path, size_t length, tperf_folder_entry *place);

// --- names.c: which names scripts may give; each function returns NULL, or why not ---

// A part of a path.
const char *tperf_names_part(const char *part, size_t length);

// A folder on the way to a file, open as `at`; or, with -1, one to be made.
const char *tperf_names_folder(int at, const char *name);

// A file to be written.
const char *tperf_names_file(const tperf_folder_entry *place);

// Whether such a reason says what to do.
bool tperf_names_advise(const char *reason);

// --- journal.c: ".tperf-written" in each folder records which script wrote which file. ---

typedef enum tperf_owner {
    TPERF_OWN,           // unchanged since a run of this script wrote it
    TPERF_OTHER_SCRIPTS, // unchanged since a run of another script wrote it
    TPERF_CHANGED,       // a run wrote a file of this name, but not this content
    TPERF_FOREIGN,       // no run wrote it
} tperf_owner;

// Who owns a file; digest, if not NULL, gets its checksum. Anything other than a regular file with one name is foreign.
tperf_owner tperf_journal_owner(int at, const char *name, char digest[TPERF_SHA256_DIGITS + 1]);

// A script's file is no larger: a sparse file takes no room, but hours to hash.
#define TPERF_MOST_BYTES ((off_t)4 << 30)

// The checksum of a descriptor's content, from its beginning; false with errno (ECANCELED: the script's instructions,
// from which the work is paid, are spent).
bool tperf_journal_hash(int descriptor, char digest[TPERF_SHA256_DIGITS + 1]);

// Records that a run of this script writes (name, digest) into the folder; false with errno.
bool tperf_journal_note(int at, const char *name, const char *digest);

// Records that tperf made the folder; false with errno.
bool tperf_journal_mark(int at);

// Whether tperf made the folder.
bool tperf_journal_made(int at);

// Removes the journal of a folder, if there is one.
void tperf_journal_remove(int at);

#endif
