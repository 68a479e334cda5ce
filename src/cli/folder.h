// folder.h: names below the output folder, and which files there are a script's own.
#ifndef TPERF_FOLDER_H
#define TPERF_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/sha256.h"

// A file's name in the folder that holds it, whose descriptor the caller closes.
typedef struct tperf_folder_entry {
    int at; // -1 with errno: there is no such folder
    const char *name;
    char plain[PATH_MAX]; // the path below the output folder, which name is the end of
} tperf_folder_entry;

// The manifest of a run that --out recorded.
#define TPERF_MANIFEST "manifest.json"

// Sets the output folder, an absolute path without links; false with errno.
bool tperf_folder_set(const char *path);
const char *tperf_folder_path(void);
int tperf_folder_descriptor(void); // -1 until set

// Sets the script that runs, from its path as the user says it ("-": standard input).
void tperf_folder_set_script(const char *path);

// The script's path as it is seen from the output folder, which tells one script from another.
const char *tperf_folder_script(void);

// Resolves a path that a script may write; NULL, or why it may not.
const char *tperf_folder_resolve(const char *path, size_t length, tperf_folder_entry *place);

// --- journal.c: ".tperf-written" in each folder tells what the runs of which script wrote there. ---

typedef enum tperf_owner {
    TPERF_OWN,           // it stands there as a run of this script wrote it
    TPERF_OTHER_SCRIPTS, // as a run of another script wrote it
    TPERF_CHANGED,       // a run wrote a file of that name, but not this content
    TPERF_FOREIGN,       // no run did
} tperf_owner;

// Whose a file is; digest, if not NULL, gets its checksum. What is no regular file with one name is foreign.
tperf_owner tperf_journal_owner(int at, const char *name, char digest[TPERF_SHA256_DIGITS + 1]);

// The checksum of what a descriptor holds, from its beginning; false with errno.
bool tperf_journal_hash(int descriptor, char digest[TPERF_SHA256_DIGITS + 1]);

// Notes that a run of this script writes (name, digest) into the folder; false with errno.
bool tperf_journal_note(int at, const char *name, const char *digest);

// Removes the journal of a folder, if there is one.
void tperf_journal_remove(int at);

#endif
