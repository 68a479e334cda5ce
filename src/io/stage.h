// stage.h: atomic file replacement. Data goes to a temporary file in the target's folder, is synced to disk, and then
// takes the target's name in one step. A partial file is never visible, not even after a full disk or a kill. Functions
// that fail set errno.
#ifndef TPERF_STAGE_H
#define TPERF_STAGE_H

#include <stdbool.h>
#include <stddef.h>

// A file being written. At most TPERF_STAGE_MOST at a time (EMFILE).
typedef struct tperf_stage tperf_stage;

enum { TPERF_STAGE_MOST = 64 };

// Prefix of the temporary files' names.
#define TPERF_STAGE_PREFIX ".tperf-"

// Begins a file `name` in the folder with descriptor `at`. The stage keeps copies of both.
tperf_stage *tperf_stage_begin(int at, const char *name);

// The descriptor of the content, readable and writable; the stage closes it.
int tperf_stage_descriptor(const tperf_stage *stage);

// The target's folder and name.
int tperf_stage_folder(const tperf_stage *stage);
const char *tperf_stage_name(const tperf_stage *stage);

// Writes all bytes.
bool tperf_stage_write(tperf_stage *stage, const void *data, size_t size);

// Puts the file in place and frees the stage, even on failure. Without `replace`, fails if the name has been taken
// (EEXIST).
bool tperf_stage_commit(tperf_stage *stage, bool replace);

// The same, but where the name has been taken (EEXIST without `replace`), the stage stays, to be put in place or discarded.
bool tperf_stage_put(tperf_stage *stage, bool replace);

// Removes the temporary file and frees the stage; preserves errno.
void tperf_stage_discard(tperf_stage *stage);

// Moves a file to another name, in the folder `to_at`. Without `replace`, fails if that name is taken (EEXIST).
bool tperf_stage_move(int at, const char *name, int to_at, const char *to, bool replace);

// Removes the temporary files of all stages. Async-signal-safe.
void tperf_stage_discard_all(void);

// All three steps for complete content.
bool tperf_stage_whole(int at, const char *name, const void *data, size_t size, bool replace);

#endif
