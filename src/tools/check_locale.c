// check_locale.c: reads and prints numbers through the core in the locale named by the first argument. Prints what a
// program without a locale prints. spec/locale_spec.lua builds and runs it.
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "io/yaml_in.h"
#include "tperf/error.h"
#include "tperf/units.h"

int main(int count, char **arguments) {
    if (count > 1 && !setlocale(LC_ALL, arguments[1])) return 2;
    char comma = localeconv()->decimal_point[0], text[TPERF_UNIT_TEXT];
    tperf_error error;
    double bytes = 0;
    if (tperf_unit_parse("1.5 GB", 6, TPERF_BYTES, &bytes, &error) != TPERF_OK) return 3;
    tperf_unit_print(bytes, TPERF_BYTES, 4, text);
    tperf_yaml_document document;
    if (tperf_yaml_read("[1.5, 2e-3]", 11, &document, &error) != TPERF_OK) return 4;
    printf("%s %d %d ", text, document.nodes[1].value.number == 1.5,
           document.nodes[2].value.number == 2e-3);
    tperf_yaml_release(&document);
    tperf_error_set(&error, TPERF_INVALID, "%g", 2.5);
    printf("%s %d\n", error.message, localeconv()->decimal_point[0] == comma);
    return 0;
}
