// end.c: ends the process: flushes standard output and removes temporary files.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/visible.h"
#include "cli/cli.h"
#include "io/process/child.h"
#include "io/ranks.h"
#include "io/stage.h"

// Fails on a full disk or a closed pipe: the reader did not get everything. An earlier failure's errno may be lost by
// now.
static bool close_output(void) {
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0) failed = true;
    int error = errno;
    if (close(STDOUT_FILENO) != 0) { // some file systems report errors only now
        failed = true;
        error = errno;
    }
    if (failed)
        fprintf(stderr, "tperf: cannot write to standard output%s%s\n", error ? ": " : "",
                error ? strerror(error) : "");
    return !failed;
}

static void put_visible(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        tperf_character c = tperf_character_at(text, left);
        if (tperf_character_visible(c) || *text == '\n' || *text == '\t')
            fwrite(text, 1, c.bytes, stderr);
        else if (c.valid && c.code > 0x7F)
            fprintf(stderr, "\\u{%X}", (unsigned)c.code);
        else
            fprintf(stderr, "\\%u", (unsigned)c.code);
        text += c.bytes;
        left -= c.bytes;
    }
}

void tperf_cli_say(const char *message, const char *more) {
    fflush(stdout);
    fputs("tperf: ", stderr);
    put_visible(message);
    put_visible(more);
    fputc('\n', stderr);
}

noreturn void tperf_cli_exit(int status) {
    tperf_output_abandon();
    tperf_child_kill();
    tperf_program_end();
    if (!close_output() && status == 0) status = 1;
    tperf_ranks_finish();
    exit(status);
}

void tperf_cli_end(int signal_number) {
    tperf_stage_discard_all();
    tperf_child_kill();
    tperf_program_end();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}
