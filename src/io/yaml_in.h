// yaml_in.h: reads one YAML 1.2 (or JSON) document as a tree with positions. Input is hostile: fails for a file that is
// too large or too deep, has too many values or too long keys, and for aliases, tags, duplicate and non-string keys,
// numbers beyond a double, and further documents. Skips a byte order mark; decodes a character that JSON writes as two
// escapes. Of JSON, rejects what YAML lacks: a colon on a different line from its key, a tab before the outermost
// brace.
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

// Nodes are in document order: the members of a list or map follow it, up to `end`.
typedef struct tperf_yaml_node {
    tperf_yaml_kind kind;
    tperf_yaml_mark mark;
    tperf_yaml_mark key_mark; // of a map's member
    size_t key, key_size;     // of a map's member: its key's range in the document's text
    size_t end;               // index after the last node below this one
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            size_t at, size; // range in the document's text
        } string;
    } value;
} tperf_yaml_node;

typedef struct tperf_yaml_document {
    tperf_yaml_node *nodes; // nodes[0] is the root
    size_t count, capacity;
    char *text;
    size_t text_size, text_capacity;
} tperf_yaml_document;

// Fills *document, which the caller releases in every case. On failure the message starts with "line:column: ".
tperf_status tperf_yaml_read(const char *input, size_t size, tperf_yaml_document *document,
                             tperf_error *error);

// The node at a path such as "network.fast.domain" or "layers[2]" ("" is the root), or NULL. If keys contain dots and
// brackets, several paths may look the same: returns the first.
const tperf_yaml_node *tperf_yaml_find(const tperf_yaml_document *document, const char *path,
                                       size_t size);

// Frees a document's memory; a zeroed or released document is fine.
void tperf_yaml_release(tperf_yaml_document *document);

#endif
