// stage.h: files that are written whole or not at all. What is written goes to a temporary file in the folder of the
// file it is for, reaches the disk, and then takes that file's name in one step. Nobody sees a half of it: not after
// a full disk, not after a kill. Functions that fail leave errno.
#ifndef TPERF_STAGE_H
#define TPERF_STAGE_H

#include <stdbool.h>
#include <stddef.h>

// One file being written. At most TPERF_STAGE_MOST at a time (EMFILE).
typedef struct tperf_stage tperf_stage;

enum { TPERF_STAGE_MOST = 64 };

// The temporary files' names start so.
#define TPERF_STAGE_PREFIX ".tperf-"

// Begins a file: `at` is the descriptor of its folder, `name` its name there. The stage keeps copies of both.
tperf_stage *tperf_stage_begin(int at, const char *name);

// The descriptor of the content, for reading and writing; the stage closes it.
int tperf_stage_descriptor(const tperf_stage *stage);

// Where it goes.
int tperf_stage_folder(const tperf_stage *stage);
const char *tperf_stage_name(const tperf_stage *stage);

// Writes all bytes.
bool tperf_stage_write(tperf_stage *stage, const void *data, size_t size);

// Puts the file in place and frees the stage, also on failure. Without `replace` a file that has the name meanwhile
// stays (EEXIST).
bool tperf_stage_commit(tperf_stage *stage, bool replace);

// Gives up: the temporary file is removed, the stage freed; errno stays.
void tperf_stage_discard(tperf_stage *stage);

// Gives a file another name, in the folder `to_at`. Without `replace` a file that has that name stays (EEXIST).
bool tperf_stage_move(int at, const char *name, int to_at, const char *to, bool replace);

// Removes the temporary files of all stages. Async-signal-safe.
void tperf_stage_discard_all(void);

// All three steps for content that is there already.
bool tperf_stage_whole(int at, const char *name, const void *data, size_t size, bool replace);

#endif
