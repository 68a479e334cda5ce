// fuzz_yaml.c: libFuzzer target for the YAML reader (`make fuzz`). Whatever the bytes, a document or a
// placed message comes back, and the tree is well formed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/yaml_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tp_yaml_document document;
    tp_error error = {0};
    if (tp_yaml_read((const char *)data, size, &document, &error) != TP_OK) {
        if (!strchr(error.message, ':')) abort();
    } else {
        for (size_t i = 0; i < document.count; i++)
            if (document.nodes[i].end <= i || document.nodes[i].end > document.count) abort();
        if (document.nodes[0].end != document.count) abort();
    }
    tp_yaml_release(&document);
    return 0;
}
