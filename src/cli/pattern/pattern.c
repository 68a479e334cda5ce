// pattern.c: see cli/pattern/pattern.h. A pattern is compiled to a list of items; matching walks the list and recurses only at
// repeated items, where it may have to backtrack.
#include "cli/pattern/pattern.h"

#include <ctype.h>
#include <string.h>

enum kind { SINGLE, OPEN, CLOSE, POSITION, BACK, BALANCE, FRONTIER, AT_END, DONE };
enum { ONCE = 0, CHARGE_EVERY = 4096, BYTES_PER_STEP = 8 }; // of bytes compared at once

// --- compiling ---

typedef struct reader {
    const char *at, *end;
    tperf_pattern *pattern;
    tperf_pattern_item *item; // being filled
    int repeats, open_count;
    int open[TPERF_PATTERN_CAPTURES]; // captures not closed yet, innermost last
    bool closed[TPERF_PATTERN_CAPTURES];
} reader;

static void set_add(uint64_t *set, unsigned char c) {
    set[c >> 6] |= UINT64_C(1) << (c & 63);
}

static bool set_has(const uint64_t *set, char c) {
    unsigned char u = (unsigned char)c;
    return set[u >> 6] >> (u & 63) & 1;
}

static bool in_class(int c, char class) {
    switch (class) {
    case 'a':
        return isalpha(c);
    case 'c':
        return iscntrl(c);
    case 'd':
        return isdigit(c);
    case 'g':
        return isgraph(c);
    case 'l':
        return islower(c);
    case 'p':
        return ispunct(c);
    case 's':
        return isspace(c);
    case 'u':
        return isupper(c);
    case 'w':
        return isalnum(c);
    case 'z':
        return c == 0;
    default:
        return isxdigit(c); // 'x'
    }
}

// Adds the bytes of "%c": a class, its complement (capital letter), or the character itself.
static void set_add_escaped(uint64_t *set, char c) {
    char class = (char)tolower((unsigned char)c);
    if (!isalpha((unsigned char)c) || !strchr("acdglpsuwxz", class)) {
        set_add(set, (unsigned char)c);
        return;
    }
    bool wanted = c == class;
    for (int i = 0; i < 256; i++)
        if (in_class(i, class) == wanted) set_add(set, (unsigned char)i);
}

static const char *compile_set(reader *r) {
    static const char unfinished[] = "malformed pattern (missing ']')";
    uint64_t *set = r->item->set;
    bool negated = r->at < r->end && *r->at == '^';
    if (negated) r->at++;
    for (bool first = true; first || r->at >= r->end || *r->at != ']'; first = false) {
        if (r->at >= r->end) return unfinished;
        unsigned char c = (unsigned char)*r->at++;
        if (c == '%') {
            if (r->at >= r->end) return unfinished;
            set_add_escaped(set, *r->at++);
        } else if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            for (int last = (unsigned char)r->at[1], i = c; i <= last; i++)
                set_add(set, (unsigned char)i);
            r->at += 2;
        } else {
            set_add(set, c);
        }
    }
    r->at++;
    for (int i = 0; negated && i < 4; i++)
        set[i] = ~set[i];
    return NULL;
}

static const char *compile_open(reader *r) {
    tperf_pattern *p = r->pattern;
    if (p->captures == TPERF_PATTERN_CAPTURES) return "too many captures";
    bool position = r->at < r->end && *r->at == ')';
    r->item->kind = position ? POSITION : OPEN;
    r->item->a = (unsigned char)p->captures;
    r->closed[p->captures] = position;
    p->position[p->captures] = position;
    if (position)
        r->at++;
    else
        r->open[r->open_count++] = p->captures;
    p->captures++;
    return NULL;
}

static const char *compile_close(reader *r) {
    if (r->open_count == 0) return "invalid pattern capture";
    int index = r->open[--r->open_count];
    r->item->kind = CLOSE;
    r->item->a = (unsigned char)index;
    r->closed[index] = true;
    return NULL;
}

static const char *compile_single(reader *r, char c) {
    r->item->kind = SINGLE;
    if (c == '.')
        memset(r->item->set, 0xff, sizeof r->item->set);
    else if (c != '[')
        set_add(r->item->set, (unsigned char)c);
    const char *error = c == '[' ? compile_set(r) : NULL;
    return error;
}

// Compiles what follows '%'. Sets *single if it is one character, which may then be repeated.
static const char *compile_escape(reader *r, bool *single) {
    if (r->at >= r->end) return "malformed pattern (ends with '%')";
    char c = *r->at++;
    if (c == 'b') {
        if (r->end - r->at < 2) return "malformed pattern (missing arguments to '%b')";
        r->item->kind = BALANCE;
        r->item->a = (unsigned char)*r->at++;
        r->item->b = (unsigned char)*r->at++;
    } else if (c == 'f') {
        r->item->kind = FRONTIER;
        if (r->at >= r->end || *r->at++ != '[') return "missing '[' after '%f' in pattern";
        return compile_set(r);
    } else if (isdigit((unsigned char)c)) {
        int index = c - '1';
        r->item->kind = BACK;
        if (index < 0 || index >= r->pattern->captures || !r->closed[index])
            return "invalid capture index in pattern";
        r->item->a = (unsigned char)index;
    } else {
        r->item->kind = SINGLE;
        set_add_escaped(r->item->set, c);
        *single = true;
    }
    return NULL;
}

static const char *compile_repeat(reader *r) {
    if (r->at >= r->end || !strchr("*+-?", *r->at) || *r->at == '\0') return NULL;
    if (++r->repeats > TPERF_PATTERN_REPEATS) return "pattern too complex";
    r->item->repeat = (unsigned char)*r->at++;
    return NULL;
}

static const char *compile_item(reader *r) {
    char c = *r->at++;
    bool single = false;
    const char *error;
    if (c == '(') return compile_open(r);
    if (c == ')') return compile_close(r);
    if (c == '$' && r->at == r->end) {
        r->item->kind = AT_END;
        return NULL;
    }
    if (c == '%') {
        error = compile_escape(r, &single);
    } else {
        single = true;
        error = compile_single(r, c);
    }
    return error || !single ? error : compile_repeat(r);
}

const char *tperf_pattern_compile(tperf_pattern *pattern, const char *text, size_t length,
                                  bool anchors) {
    reader r = {.at = text, .end = text + length, .pattern = pattern, .item = pattern->items};
    pattern->captures = 0;
    pattern->anchored = anchors && length > 0 && text[0] == '^';
    if (pattern->anchored) r.at++;
    while (r.at < r.end) {
        *r.item = (tperf_pattern_item){.kind = SINGLE, .repeat = ONCE};
        const char *error = compile_item(&r);
        if (error) return error;
        r.item++;
    }
    *r.item = (tperf_pattern_item){.kind = DONE};
    return r.open_count ? "unfinished capture" : NULL;
}

// --- matching ---

static void step(tperf_match *m, size_t steps) {
    m->steps += steps;
    if (m->steps < CHARGE_EVERY) return;
    uint64_t done = m->steps;
    m->steps = 0;
    m->charge(m->context, done);
}

static const char *match_items(tperf_match *m, const tperf_pattern_item *item, const char *s);

// Matches as many as possible first, then fewer ("*" and "+").
static const char *match_longest(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    const char *last = s, *least = s + (item->repeat == '+');
    for (; last < m->end && set_has(item->set, *last); last++)
        step(m, 1);
    if (item[1].kind == DONE) return last >= least ? last : NULL;
    for (; last >= least; last--) {
        const char *end = match_items(m, item + 1, last);
        if (end) return end;
    }
    return NULL;
}

// Matches as few as possible first ("-").
static const char *match_shortest(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    for (;; s++) {
        const char *end = match_items(m, item + 1, s);
        if (end) return end;
        if (s >= m->end || !set_has(item->set, *s)) return NULL;
    }
}

// "%bxy": from an x to its matching y.
static const char *match_balance(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    if (s >= m->end || (unsigned char)*s != item->a) return NULL;
    size_t depth = 1;
    for (s++; s < m->end; s++) {
        step(m, 1);
        if ((unsigned char)*s == item->b) {
            if (--depth == 0) return s + 1;
        } else if ((unsigned char)*s == item->a) {
            depth++;
        }
    }
    return NULL;
}

// "%f[set]": the previous byte is outside the set and the next one inside; the ends of the text count as 0.
static bool at_frontier(const tperf_match *m, const tperf_pattern_item *item, const char *s) {
    char before = s > m->text ? s[-1] : '\0', after = s < m->end ? *s : '\0';
    return !set_has(item->set, before) && set_has(item->set, after);
}

static const char *match_back(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    const tperf_capture *capture = &m->captures[item->a];
    if (m->pattern->position[item->a]) return NULL; // a position has no text
    step(m, 1 + capture->length / BYTES_PER_STEP);
    bool same =
        (size_t)(m->end - s) >= capture->length && memcmp(s, capture->start, capture->length) == 0;
    return same ? s + capture->length : NULL;
}

static const char *match_single(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    return s < m->end && set_has(item->set, *s) ? s + 1 : NULL;
}

// Captures need no undoing: a path that reaches the end of the list has set each of them.
static const char *match_items(tperf_match *m, const tperf_pattern_item *item, const char *s) {
    for (; s; item++) {
        step(m, 1);
        switch ((enum kind)item->kind) {
        case DONE:
            return s;
        case AT_END:
            return s == m->end ? s : NULL;
        case POSITION:
            m->captures[item->a] = (tperf_capture){s, 0};
            break;
        case OPEN:
            m->captures[item->a].start = s;
            break;
        case CLOSE:
            m->captures[item->a].length = (size_t)(s - m->captures[item->a].start);
            break;
        case BACK:
            s = match_back(m, item, s);
            break;
        case BALANCE:
            s = match_balance(m, item, s);
            break;
        case FRONTIER:
            s = at_frontier(m, item, s) ? s : NULL;
            break;
        case SINGLE:
            if (item->repeat == '*' || item->repeat == '+') return match_longest(m, item, s);
            if (item->repeat == '-') return match_shortest(m, item, s);
            const char *next = match_single(m, item, s);
            if (item->repeat == '?') {
                const char *end = next ? match_items(m, item + 1, next) : NULL;
                if (end) return end;
            } else {
                s = next;
            }
        }
    }
    return NULL;
}

const char *tperf_pattern_match(tperf_match *match, const char *start) {
    return match_items(match, match->pattern->items, start);
}
