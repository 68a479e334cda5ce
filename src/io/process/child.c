// child.c: see child.h.
#include "io/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { NOT_FOUND = 127, MOMENT = 2000000 }; // exit status; ns between two looks at the program

static volatile sig_atomic_t running; // its process

void tperf_child_kill(void) {
    if (running > 0) kill((pid_t)running, SIGKILL);
}

static void limit(int what, rlim_t most) {
    setrlimit(what, &(struct rlimit){most, most});
}

// In the new process. It ends with this one where the system can do that (Linux); elsewhere at its own limits.
static _Noreturn void become(const tperf_child *child, int in, int out, pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_DFL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(nowhere, STDERR_FILENO) < 0)
        _exit(1);
    for (const char *const *name = child->environment; name && *name; name += 2)
        setenv(name[0], name[1], 1);
    // Last: this process still has the addresses of its parent, which may be more than the program's limit.
    limit(RLIMIT_CPU, child->seconds);
    limit(RLIMIT_FSIZE, child->output);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_AS, child->memory);
    execvp(child->arguments[0], (char *const *)child->arguments);
    _exit(errno == ENOENT ? NOT_FOUND : 1);
}

// Waits for its end: its status, or -1 when it was told to stop.
static int wait_for(pid_t process, bool (*stop)(void)) {
    const struct timespec moment = {0, MOMENT};
    int status = 0;
    bool stopped = false;
    for (pid_t ended = 0; ended != process;) {
        ended = waitpid(process, &status, stopped ? 0 : WNOHANG);
        if (ended < 0 && errno != EINTR) return -1;
        if (ended == process) break;
        if (stop() && !stopped) {
            stopped = true;
            kill(process, SIGKILL);
        } else if (!stopped) {
            nanosleep(&moment, NULL);
        }
    }
    return stopped ? -1 : status;
}

static char *content_of(FILE *file, size_t *size) {
    struct stat info;
    if (fstat(fileno(file), &info) != 0) return NULL;
    char *bytes = malloc((size_t)info.st_size + 1);
    rewind(file);
    *size = bytes ? fread(bytes, 1, (size_t)info.st_size, file) : 0;
    return bytes;
}

// Both files are open and without names.
static char *run(const tperf_child *child, FILE *in, FILE *out, size_t *size) {
    pid_t parent = getpid();
    if (fwrite(child->input, 1, child->size, in) != child->size || fflush(in) != 0) return NULL;
    rewind(in);
    fflush(stdout);
    pid_t process = fork();
    if (process == 0) become(child, fileno(in), fileno(out), parent);
    if (process < 0) return NULL;
    running = process;
    int status = wait_for(process, child->stop);
    running = 0;
    if (status == 0) return content_of(out, size);
    errno = status < 0                                              ? EINTR
            : WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND ? ENOENT
                                                                    : EIO;
    return NULL;
}

char *tperf_child_run(const tperf_child *child, size_t *size) {
    FILE *in = tmpfile(), *out = in ? tmpfile() : NULL;
    char *bytes = out ? run(child, in, out, size) : NULL;
    int error = errno;
    if (in) fclose(in);
    if (out) fclose(out);
    errno = error;
    return bytes;
}
