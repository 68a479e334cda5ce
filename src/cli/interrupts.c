// interrupts.c: Ctrl-C. The first one is a request (tperf_interrupt_raise): a search or a sweep honours it and ends
// with its results so far; anything else ends at its next instruction (limits.c). The second one kills. Code that does
// not respond, because it is inside one long C call or a search's callback loops, gets a grace period of processor
// time; then a watcher thread ends the program.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bind/interrupt.h"
#include "cli/cli.h"
#include "io/process/child.h"
#include "io/ranks.h"

// Milliseconds of processor time of the thread that runs Lua, since a busy machine must not end a program that would
// have responded. LATE is wall time, with SOME processor time; without any, the program ends after ENOUGH.
enum { CALLBACK_GRACE = 500, GRACE = 700, LATE = 2000, SOME = 200, ENOUGH = 5000, LOOK_EVERY = 15 };

static struct {
    lua_State *L;
    clockid_t main_clock; // of the thread that runs Lua
    atomic_llong busy_at; // ms on it at the request
    atomic_flag ending;
    int pressed[2]; // a pipe that carries a byte: a signal handler may write to one on every system
    pthread_mutex_t lock;
    pthread_cond_t started;
    bool ready; // the thread has started
    bool watched;
} keyboard = {.ending = ATOMIC_FLAG_INIT,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .started = PTHREAD_COND_INITIALIZER};

static long long milliseconds(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long long busy_since(void) {
    return milliseconds(keyboard.main_clock) - atomic_load(&keyboard.busy_at);
}

bool tperf_interrupts_overdue(void) {
    return busy_since() > CALLBACK_GRACE;
}

void tperf_interrupts_claim_end(void) {
    if (!atomic_flag_test_and_set(&keyboard.ending)) return;
    for (;;)
        pause(); // another thread is ending the program
}

static bool make_pipe(int ends[2]) {
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

static void wait_until_pressed(void) {
    char byte;
    while (read(keyboard.pressed[0], &byte, 1) < 0 && errno == EINTR)
        ;
}

static void tell_started(void) {
    pthread_mutex_lock(&keyboard.lock);
    keyboard.ready = true;
    pthread_cond_signal(&keyboard.started);
    pthread_mutex_unlock(&keyboard.lock);
}

static void wait_until_started(void) {
    pthread_mutex_lock(&keyboard.lock);
    while (!keyboard.ready)
        pthread_cond_wait(&keyboard.started, &keyboard.lock);
    pthread_mutex_unlock(&keyboard.lock);
}

// Processor time of the thread that calls this. macOS has no clock that another thread can read; the whole process's
// runs no slower.
static clockid_t own_clock(void) {
#ifdef __APPLE__
    return CLOCK_PROCESS_CPUTIME_ID;
#else
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? clock : CLOCK_MONOTONIC;
#endif
}

static noreturn void end_program(void) {
    static const char message[] = "tperf: interrupted\n";
    tperf_interrupts_claim_end();
    alarm(1); // kills the process if a stream stays locked
    fflush(NULL);
    tperf_child_kill();
    tperf_program_end();
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    _exit(written < 0 ? 2 : 1);
}

static void *watch(void *unused) {
    (void)unused;
    const struct timespec moment = {0, LOOK_EVERY * 1000000L};
    tell_started();
    for (;;) {
        wait_until_pressed();
        long long start = milliseconds(CLOCK_MONOTONIC);
        while (*tperf_interrupt_flag() && !tperf_limits_interactive()) {
            long long busy = busy_since(), past = milliseconds(CLOCK_MONOTONIC) - start;
            if (busy > GRACE || (busy > SOME && past > LATE) || past > ENOUGH) end_program();
            nanosleep(&moment, NULL);
        }
    }
    return NULL;
}

// If the thread cannot be started, only responsive code can be interrupted.
static void start_watching(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (keyboard.watched || !make_pipe(keyboard.pressed)) return;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals go to the main thread
    keyboard.watched = pthread_create(&thread, &attributes, watch, NULL) == 0;
    // A copy of the process made meanwhile would have the locks that a starting thread holds, for good: --processes.
    if (keyboard.watched) wait_until_started();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void on_interrupt(int signal_number) {
    int error = errno;
    signal(signal_number, tperf_cli_end); // the next one kills, in case this one is not honoured
    atomic_store(&keyboard.busy_at, milliseconds(keyboard.main_clock));
    tperf_interrupt_raise();
    tperf_limits_look(keyboard.L);
    if (keyboard.watched) {
        while (write(keyboard.pressed[1], "", 1) < 0 && errno == EINTR)
            ;
    }
    errno = error;
}

void tperf_interrupts_catch(lua_State *L) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt; // no SA_RESTART: a blocked read returns, and the hook runs
    sigemptyset(&action.sa_mask);
    keyboard.L = L;
    keyboard.main_clock = own_clock();
    start_watching();
    sigaction(SIGINT, &action, NULL);
    if (tperf_ranks_count() > 1) sigaction(SIGTERM, &action, NULL);
}

static void on_alarm(int signal_number) {
    (void)signal_number;
    int error = errno;
    atomic_store(&keyboard.busy_at, milliseconds(keyboard.main_clock));
    tperf_interrupt_raise();
    tperf_limits_look(keyboard.L);
    errno = error;
}

void tperf_interrupts_after(unsigned seconds) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

static void on_interrupt_of_worker(int signal_number) {
    (void)signal_number;
    tperf_interrupt_raise();
    alarm(2);
}

void tperf_interrupts_leave_to_first(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt_of_worker;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
