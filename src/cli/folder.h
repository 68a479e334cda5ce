// folder.h: names below the output folder, and which files there are a script's own.
#ifndef TPERF_FOLDER_H
#define TPERF_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tperf/sha256.h"

// A file's name in the folder that holds it, whose descriptor the caller closes.
typedef struct tp_place {
    int at; // -1 with errno: there is no such folder
    const char *name;
    char plain[PATH_MAX];
} tp_place;

// The manifest of a run that --out recorded.
#define TP_MANIFEST "manifest.json"

// Sets the output folder, an absolute path without links; false with errno.
bool tp_folder_set(const char *path);
const char *tp_folder_path(void);
int tp_folder_descriptor(void); // -1 until set

// Resolves a path that a script may write; NULL, or why it may not.
const char *tp_folder_place(const char *path, size_t length, tp_place *place);

// --- journal.c: ".tperf-written" in each folder tells what runs wrote there: lines as sha256sum prints them. ---

// Whether a regular file with one name stands there as a run wrote it; digest, if not NULL, gets its checksum.
bool tp_journal_owns(int at, const char *name, char digest[TP_SHA256_DIGITS + 1]);

// Whether a run wrote a file of that name, as it is or as it was.
bool tp_journal_knows(int at, const char *name);

// The checksum of what a descriptor holds, from its beginning; false with errno.
bool tp_journal_hash(int descriptor, char digest[TP_SHA256_DIGITS + 1]);

// Notes that a run writes (name, digest) into the folder; false with errno.
bool tp_journal_note(int at, const char *name, const char *digest);

// Removes the journal of a folder, if there is one.
void tp_journal_remove(int at);

#endif
