// yaml_in.c: see io/yaml_in.h. The only file that includes yaml.h.
#include "io/yaml_in.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/locale.h"
#include "io/surrogates.h"

typedef struct reader {
    yaml_parser_t parser;
    const char *input;
    size_t size;
    tperf_surrogates surrogates;
    tperf_yaml_document *document;
    size_t open[TPERF_YAML_MAX_DEPTH]; // the enclosing lists and maps
    int depth;
    bool has_key; // the next node is the value of this key:
    size_t key, key_size;
    tperf_yaml_mark key_mark;
    tperf_error *error;
} reader;

static tperf_yaml_mark to_mark(yaml_mark_t mark) {
    return (tperf_yaml_mark){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

#define REFUSE(r, mark, status, format, ...)                                                       \
    tperf_error_set((r)->error, status, "%u:%u: " format, (unsigned)(mark).line,                   \
                    (unsigned)(mark).column, __VA_ARGS__)

static tperf_status out_of_memory(reader *r) {
    return tperf_error_set(r->error, TPERF_NO_MEMORY, "1:1: not enough memory");
}

static tperf_status grow(reader *r, void **array, size_t *capacity, size_t needed, size_t item) {
    if (needed <= *capacity) return TPERF_OK;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    if (wanted < needed) wanted = needed;
    void *larger = realloc(*array, wanted * item);
    if (!larger) return out_of_memory(r);
    *array = larger;
    *capacity = wanted;
    return TPERF_OK;
}

static tperf_status add_text(reader *r, const char *text, size_t size, size_t *at) {
    tperf_yaml_document *d = r->document;
    void *memory = d->text;
    TPERF_TRY(grow(r, &memory, &d->text_capacity, d->text_size + size + 1, 1));
    d->text = memory;
    *at = d->text_size;
    memcpy(d->text + *at, text, size);
    d->text[*at + size] = '\0';
    d->text_size += size + 1;
    return TPERF_OK;
}

// Adds a node to the enclosing list or map. The pointer is valid until the next call.
static tperf_status add_node(reader *r, tperf_yaml_kind kind, tperf_yaml_mark mark,
                             tperf_yaml_node **node) {
    tperf_yaml_document *d = r->document;
    if (d->count == TPERF_YAML_MAX_NODES)
        return REFUSE(r, mark, TPERF_INVALID, "more than %u values in one file",
                      TPERF_YAML_MAX_NODES);
    void *memory = d->nodes;
    TPERF_TRY(grow(r, &memory, &d->capacity, d->count + 1, sizeof *d->nodes));
    d->nodes = memory;
    *node = &d->nodes[d->count++];
    **node = (tperf_yaml_node){.kind = kind, .mark = mark, .end = d->count};
    if (r->has_key) {
        (*node)->key = r->key;
        (*node)->key_size = r->key_size;
        (*node)->key_mark = r->key_mark;
        r->has_key = false;
    }
    return TPERF_OK;
}

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (strcmp(text, *words) == 0) return true;
    return false;
}

// [-+]?digits, 0x…, 0o…: an integer if it fits 64 bits, else the nearest double.
static bool read_integer(const char *text, tperf_yaml_node *node) {
    static const char *const digits[] = {"0123456789", "01234567", "0123456789abcdefABCDEF"};
    int kind = text[0] != '0' ? 0 : text[1] == 'o' ? 1 : text[1] == 'x' ? 2 : 0;
    const char *start = kind ? text + 2 : text + (text[0] == '-' || text[0] == '+');
    if (!*start || start[strspn(start, digits[kind])]) return false;
    errno = 0;
    long long value = strtoll(kind ? start : text, NULL, kind == 1 ? 8 : kind == 2 ? 16 : 10);
    if (errno == 0) {
        node->kind = TPERF_YAML_INTEGER;
        node->value.integer = value;
        return true;
    }
    if (kind) return false; // stays a string
    node->kind = TPERF_YAML_FLOAT;
    node->value.number = strtod(text, NULL);
    return true;
}

// [-+]?(.digits|digits(.digits?)?)(e[-+]?digits)?
static bool read_float(const char *text, tperf_yaml_node *node) {
    const char *at = text + (*text == '-' || *text == '+');
    size_t whole = strspn(at, "0123456789"), part = 0;
    at += whole;
    if (*at == '.') {
        part = strspn(at + 1, "0123456789");
        at += 1 + part;
    }
    if (whole + part == 0) return false;
    if (*at == 'e' || *at == 'E') {
        at += at[1] == '-' || at[1] == '+' ? 2 : 1;
        size_t exponent = strspn(at, "0123456789");
        if (exponent == 0) return false;
        at += exponent;
    }
    if (*at) return false;
    node->kind = TPERF_YAML_FLOAT;
    node->value.number = strtod(text, NULL);
    return true;
}

// Types a plain scalar by the core schema of YAML 1.2: "no", "on" and "1_000" are strings.
static void resolve(const char *text, tperf_yaml_node *node) {
    static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};
    static const char *const infinity[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nan[] = {".nan", ".NaN", ".NAN", NULL};
    if (is_one_of(text, null)) {
        node->kind = TPERF_YAML_NULL;
    } else if (is_one_of(text, yes) || is_one_of(text, no)) {
        node->kind = TPERF_YAML_BOOLEAN;
        node->value.boolean = is_one_of(text, yes);
    } else if (is_one_of(text + (*text == '-' || *text == '+'), infinity)) {
        node->kind = TPERF_YAML_FLOAT;
        node->value.number = *text == '-' ? -INFINITY : INFINITY;
    } else if (is_one_of(text, nan)) {
        node->kind = TPERF_YAML_FLOAT;
        node->value.number = NAN;
    } else if (!read_integer(text, node)) {
        read_float(text, node);
    }
}

static tperf_status refuse_long_key(reader *r, yaml_mark_t mark) {
    return REFUSE(r, to_mark(mark), TPERF_INVALID, "a key of more than %d bytes",
                  TPERF_YAML_MAX_KEY);
}

static tperf_status read_key(reader *r, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    tperf_yaml_mark mark = to_mark(event->start_mark);
    if (size > TPERF_YAML_MAX_KEY) return refuse_long_key(r, event->start_mark);
    tperf_yaml_node typed = {.kind = TPERF_YAML_STRING};
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) resolve(text, &typed);
    if (typed.kind != TPERF_YAML_STRING)
        return REFUSE(r, mark, TPERF_INVALID,
                      "a key must be a string; quote '%.40s' if it is meant as one", text);
    TPERF_TRY(add_text(r, text, size, &r->key));
    r->key_size = size;
    r->key_mark = mark;
    r->has_key = true;
    return TPERF_OK;
}

static bool in_map(const reader *r) {
    return r->depth > 0 && r->document->nodes[r->open[r->depth - 1]].kind == TPERF_YAML_MAP;
}

static tperf_status read_scalar(reader *r, yaml_event_t *event) {
    bool quoted = event->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    if (!tperf_surrogates_mend(&r->surrogates, event->start_mark.index, event->end_mark.index,
                               quoted, (char *)event->data.scalar.value,
                               &event->data.scalar.length))
        return REFUSE(r, to_mark(event->start_mark), TPERF_INVALID, "U+%X is no character",
                      0xFFFEu);
    if (in_map(r) && !r->has_key) return read_key(r, event);
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length, at;
    TPERF_TRY(add_text(r, text, size, &at));
    tperf_yaml_node *node;
    TPERF_TRY(add_node(r, TPERF_YAML_STRING, to_mark(event->start_mark), &node));
    node->value.string.at = at;
    node->value.string.size = size;
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return TPERF_OK;
    resolve(text, node);
    bool written_infinite = !strpbrk(text, "0123456789");
    if (node->kind == TPERF_YAML_FLOAT && isinf(node->value.number) && !written_infinite)
        return REFUSE(r, node->mark, TPERF_INVALID,
                      "%.40s is beyond what a number can be (1.8e308)", text);
    return TPERF_OK;
}

static tperf_status open_collection(reader *r, const yaml_event_t *event, tperf_yaml_kind kind) {
    tperf_yaml_mark mark = to_mark(event->start_mark);
    if (in_map(r) && !r->has_key)
        return REFUSE(r, mark, TPERF_INVALID, "a key must be a string%s", "");
    if (r->depth == TPERF_YAML_MAX_DEPTH)
        return REFUSE(r, mark, TPERF_INVALID, "nested more than %d levels deep",
                      TPERF_YAML_MAX_DEPTH);
    tperf_yaml_node *node;
    TPERF_TRY(add_node(r, kind, mark, &node));
    r->open[r->depth++] = r->document->count - 1;
    return TPERF_OK;
}

typedef struct member {
    const char *key;
    size_t size;
    tperf_yaml_mark mark;
} member;

static int compare_members(const void *a, const void *b) {
    const member *x = a, *y = b;
    size_t shared = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->key, y->key, shared);
    if (order) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    if (x->mark.line != y->mark.line) return x->mark.line < y->mark.line ? -1 : 1;
    return x->mark.column < y->mark.column ? -1 : 1;
}

// Sorts a map's keys to find duplicates.
static tperf_status check_duplicates(reader *r, size_t map) {
    const tperf_yaml_document *d = r->document;
    size_t count = 0;
    for (size_t i = map + 1; i < d->count; i = d->nodes[i].end)
        count++;
    if (count < 2) return TPERF_OK;
    member *members = malloc(count * sizeof *members);
    if (!members) return out_of_memory(r);
    size_t at = 0;
    for (size_t i = map + 1; i < d->count; i = d->nodes[i].end) {
        const tperf_yaml_node *n = &d->nodes[i];
        members[at++] = (member){d->text + n->key, n->key_size, n->key_mark};
    }
    qsort(members, count, sizeof *members, compare_members);
    tperf_status status = TPERF_OK;
    for (size_t i = 1; i < count && status == TPERF_OK; i++) {
        const member *a = &members[i - 1], *b = &members[i];
        if (a->size == b->size && memcmp(a->key, b->key, a->size) == 0)
            status = REFUSE(r, b->mark, TPERF_INVALID, "duplicate key '%.60s' (first on line %u)",
                            b->key, (unsigned)a->mark.line);
    }
    free(members);
    return status;
}

static tperf_status close_collection(reader *r) {
    size_t index = r->open[--r->depth];
    tperf_yaml_node *node = &r->document->nodes[index];
    node->end = r->document->count;
    return node->kind == TPERF_YAML_MAP ? check_duplicates(r, index) : TPERF_OK;
}

static tperf_status refuse_tag(reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                               const yaml_char_t *tag) {
    if (!anchor && !tag) return TPERF_OK;
    return REFUSE(r, to_mark(event->start_mark), TPERF_INVALID, "%s are not supported",
                  anchor ? "anchors ('&name')" : "tags ('!name')");
}

static tperf_status read_event(reader *r, yaml_event_t *event, int *documents) {
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*documents > 1)
            return REFUSE(r, to_mark(event->start_mark), TPERF_INVALID,
                          "only one document per file%s", "");
        return TPERF_OK;
    case YAML_ALIAS_EVENT:
        return REFUSE(r, to_mark(event->start_mark), TPERF_INVALID,
                      "aliases ('*name') are not supported%s", "");
    case YAML_SCALAR_EVENT:
        TPERF_TRY(refuse_tag(r, event, event->data.scalar.anchor, event->data.scalar.tag));
        return read_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        TPERF_TRY(refuse_tag(r, event, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag));
        return open_collection(r, event, TPERF_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        TPERF_TRY(
            refuse_tag(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag));
        return open_collection(r, event, TPERF_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_collection(r);
    default:
        return TPERF_OK;
    }
}

// libyaml accepts a one-line key only if its ":" comes within 1024 characters; beyond, it reports a missing or
// unexpected ":".
static bool missed_long_key(const yaml_parser_t *p) {
    if (p->error != YAML_SCANNER_ERROR || p->problem_mark.column <= TPERF_YAML_MAX_KEY)
        return false;
    return strcmp(p->problem, "could not find expected ':'") == 0 ||
           strcmp(p->problem, "mapping values are not allowed in this context") == 0;
}

// Reports libyaml's own syntax error in our format. An encoding error has only an offset.
static tperf_status refuse_syntax(reader *r) {
    const yaml_parser_t *p = &r->parser;
    tperf_yaml_mark mark = to_mark(p->problem_mark);
    if (p->error == YAML_MEMORY_ERROR) return out_of_memory(r);
    if (missed_long_key(p)) return refuse_long_key(r, p->problem_mark);
    if (p->error == YAML_READER_ERROR) {
        mark = (tperf_yaml_mark){1, 1};
        for (size_t i = 0; i < p->problem_offset && i < r->size; i++) {
            unsigned char byte = (unsigned char)r->input[i];
            mark.column += (byte & 0xc0) != 0x80;
            if (byte == '\n') mark = (tperf_yaml_mark){mark.line + 1, 1};
        }
    }
    return REFUSE(r, mark, TPERF_INVALID, "%s%s%s", p->problem ? p->problem : "not YAML",
                  p->context ? " " : "", p->context ? p->context : "");
}

static tperf_status read_events(reader *r) {
    tperf_status status = TPERF_OK;
    int documents = 0;
    for (bool more = true; more && status == TPERF_OK;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event)) return refuse_syntax(r);
        more = event.type != YAML_STREAM_END_EVENT;
        status = read_event(r, &event, &documents);
        yaml_event_delete(&event);
    }
    if (status == TPERF_OK && r->document->count == 0)
        return tperf_error_set(r->error, TPERF_INVALID, "1:1: is empty");
    return status;
}

static tperf_status parse(reader *r) {
    if (!tperf_surrogates_find(&r->surrogates, r->input, r->size)) return out_of_memory(r);
    if (!yaml_parser_initialize(&r->parser)) return out_of_memory(r);
    const char *input = r->surrogates.masked ? r->surrogates.masked : r->input;
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)input, r->size);
    tperf_status status = read_events(r);
    yaml_parser_delete(&r->parser);
    return status;
}

tperf_status tperf_yaml_read(const char *input, size_t size, tperf_yaml_document *document,
                             tperf_error *error) {
    *document = (tperf_yaml_document){0};
    if (size > TPERF_YAML_MAX_BYTES)
        return tperf_error_set(error, TPERF_INVALID, "1:1: larger than %u MiB",
                               TPERF_YAML_MAX_BYTES >> 20);
    if (size >= 2 && (memcmp(input, "\xFE\xFF", 2) == 0 || memcmp(input, "\xFF\xFE", 2) == 0))
        return tperf_error_set(error, TPERF_INVALID, "1:1: is UTF-16 text; save it as UTF-8");
    bool marked = size >= 3 && memcmp(input, "\xEF\xBB\xBF", 3) == 0; // a byte order mark
    reader r = {.input = input + 3 * marked,
                .size = size - 3 * (size_t)marked,
                .document = document,
                .error = error};
    locale_t before = tperf_locale_enter();
    tperf_status status = parse(&r);
    tperf_locale_leave(before);
    tperf_surrogates_release(&r.surrogates);
    return status;
}

// The length of the path that leads to a member: "[2]" in a list, ".name" in a map, "name" in the root; 0 if it does
// not lead there.
static size_t match_step(const tperf_yaml_document *d, size_t parent, const tperf_yaml_node *node,
                         size_t index, const char *path, size_t size) {
    char number[32] = "";
    bool in_list = d->nodes[parent].kind == TPERF_YAML_LIST;
    if (in_list) snprintf(number, sizeof number, "[%zu]", index);
    const char *name = in_list ? number : d->text + node->key;
    size_t length = in_list ? strlen(number) : node->key_size;
    size_t dot = parent > 0 && !in_list;
    if (size < dot + length || (dot && path[0] != '.')) return 0;
    return memcmp(path + dot, name, length) == 0 ? dot + length : 0;
}

static const tperf_yaml_node *find_below(const tperf_yaml_document *d, size_t at, const char *path,
                                         size_t size) {
    const tperf_yaml_node *node = &d->nodes[at], *found = size == 0 ? node : NULL;
    size_t index = 1;
    for (size_t i = at + 1; i < node->end && !found; i = d->nodes[i].end) {
        size_t step = match_step(d, at, &d->nodes[i], index++, path, size);
        if (step > 0) found = find_below(d, i, path + step, size - step);
    }
    return found;
}

const tperf_yaml_node *tperf_yaml_find(const tperf_yaml_document *document, const char *path,
                                       size_t size) {
    return find_below(document, 0, path, size);
}

void tperf_yaml_release(tperf_yaml_document *document) {
    free(document->nodes);
    free(document->text);
    *document = (tperf_yaml_document){0};
}
