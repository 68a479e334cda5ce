// end.c: ends the process: flushes standard output and removes temporary files. Also silences standard output.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/always.h"
#include "cli/cli.h"
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

noreturn void tperf_cli_exit(int status) {
    tperf_output_abandon();
    if (!close_output() && status == 0) status = 1;
    tperf_ranks_finish();
    exit(status);
}

void tperf_cli_end(int signal_number) {
    tperf_stage_discard_all();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

// output.silence(on): redirects standard output to /dev/null, or restores it.
int tperf_cli_silence(lua_State *L) {
    static int kept = -1;
    fflush(stdout);
    bool on = lua_toboolean(L, 1);
    if (NEVER(on == (kept >= 0))) return 0;
    if (on) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (nowhere < 0 || kept < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
            return luaL_error(L, "cannot silence standard output: %s", strerror(errno));
        close(nowhere);
    } else {
        dup2(kept, STDOUT_FILENO);
        close(kept);
        kept = -1;
    }
    return 0;
}
