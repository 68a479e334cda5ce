// yaml_in.h: reads one YAML 1.2 (or JSON) document as a tree with positions. Hostile input is
// expected: a file that is too large, too deep, of too many values or of too long keys, aliases,
// tags, duplicate and non-string keys, numbers beyond a double, further documents are all refused.
// A byte order mark is skipped, and a character that JSON writes as two escapes is one. Of JSON, what
// YAML lacks is refused: a colon on another line than its key, a tab before the outermost brace.
#ifndef TPERF_YAML_IN_H
#define TPERF_YAML_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"

#define TPERF_YAML_MAX_BYTES (16u << 20)
#define TPERF_YAML_MAX_DEPTH 64
#define TPERF_YAML_MAX_NODES (1u << 20) // scalars, lists and maps
#define TPERF_YAML_MAX_KEY   1024       // bytes

typedef enum tperf_yaml_kind {
    TPERF_YAML_NULL,
    TPERF_YAML_BOOLEAN,
    TPERF_YAML_INTEGER,
    TPERF_YAML_FLOAT,
    TPERF_YAML_STRING,
    TPERF_YAML_LIST,
    TPERF_YAML_MAP
} tperf_yaml_kind;

typedef struct tperf_yaml_mark {
    uint32_t line, column; // from 1; columns count characters
} tperf_yaml_mark;

// Nodes lie in document order: the members of a list or map follow it, up to `end`.
typedef struct tperf_yaml_node {
    tperf_yaml_kind kind;
    tperf_yaml_mark mark;
    tperf_yaml_mark key_mark; // of a map's member
    size_t key, key_size;     // of a map's member: where its key lies in the document's text
    size_t end;               // one past the last node below this one
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            size_t at, size; // in the document's text
        } string;
    } value;
} tperf_yaml_node;

typedef struct tperf_yaml_document {
    tperf_yaml_node *nodes; // nodes[0] is the root
    size_t count, capacity;
    char *text;
    size_t text_size, text_capacity;
} tperf_yaml_document;

// Fills *document, which the caller releases whatever is returned. A failure's message starts
// "line:column: ".
tperf_status tperf_yaml_read(const char *input, size_t size, tperf_yaml_document *document,
                             tperf_error *error);

// The node at a path such as "network.fast.domain" or "layers[2]" ("" is the root), or NULL. Where keys
// have dots and brackets, several paths may read the same: the first.
const tperf_yaml_node *tperf_yaml_find(const tperf_yaml_document *document, const char *path,
                                       size_t size);

// Frees what a document owns; a zeroed or released document is fine.
void tperf_yaml_release(tperf_yaml_document *document);

#endif
