// fuzz_yaml.c: libFuzzer target for the YAML reader (`make fuzz-yaml`). For any bytes, the reader must return a
// document or a message with a position, a well-formed tree, and path lookups that stay inside it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/yaml_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tree(const tperf_yaml_document *document) {
    for (size_t i = 0; i < document->count; i++) {
        const tperf_yaml_node *node = &document->nodes[i];
        if (node->end <= i || node->end > document->count) abort();
        if (node->mark.line == 0 || node->mark.column == 0) abort();
        if (node->kind == TPERF_YAML_STRING &&
            document->text[node->value.string.at + node->value.string.size] != '\0')
            abort();
        if (node->key_mark.line > 0) {
            const tperf_yaml_node *found =
                tperf_yaml_find(document, document->text + node->key, node->key_size);
            if (found && (found < document->nodes || found >= document->nodes + document->count))
                abort();
        }
    }
    if (document->nodes[0].end != document->count) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tperf_yaml_document document;
    tperf_error error = {0};
    if (tperf_yaml_read((const char *)data, size, &document, &error) == TPERF_OK)
        check_tree(&document);
    else if (!strchr(error.message, ':'))
        abort();
    tperf_yaml_release(&document);
    return 0;
}
