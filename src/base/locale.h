// locale.h: what the C library reads and prints must not depend on the host program's locale: a decimal comma, other
// letters, another order. Between enter and leave the calling thread has the locale "C"; others keep theirs.
#ifndef TPERF_BASE_LOCALE_H
#define TPERF_BASE_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <string.h>
#if defined __APPLE__ || defined __FreeBSD__
#include <xlocale.h>
#endif

// The locale that was, for leave; 0: there is no memory for another, and nothing has changed.
static inline locale_t tperf_locale_enter(void) {
    locale_t neutral = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return neutral ? uselocale(neutral) : (locale_t)0;
}

static inline void tperf_locale_leave(locale_t before) {
    if (before) freelocale(uselocale(before));
}

// Whether the thread has the locale "C" already, as a program that never calls setlocale has.
static inline bool tperf_locale_is_plain(void) {
    if (uselocale((locale_t)0) != LC_GLOBAL_LOCALE) return false;
    const char *name = setlocale(LC_ALL, NULL);
    return !name || strcmp(name, "C") == 0;
}

#endif
