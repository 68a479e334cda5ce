// record.c: see tperf/record.h.
#include "tperf/record.h"

#include <string.h>

double tperf_record_get(const tperf_record_field *field, const void *of) {
    const void *at = (const char *)of + field->offset;
    switch (field->type) {
    case TPERF_TYPE_INTEGER:
        return (double)*(const int64_t *)at;
    case TPERF_TYPE_INT32:
        return *(const int32_t *)at;
    case TPERF_TYPE_FLAG:
        return *(const bool *)at;
    case TPERF_TYPE_NUMBER:
        break;
    }
    return *(const double *)at;
}

static void set(const tperf_record_field *field, void *of, double value) {
    void *at = (char *)of + field->offset;
    switch (field->type) {
    case TPERF_TYPE_INTEGER:
        *(int64_t *)at = (int64_t)value;
        return;
    case TPERF_TYPE_INT32:
        *(int32_t *)at = (int32_t)value;
        return;
    case TPERF_TYPE_FLAG:
        *(bool *)at = value != 0;
        return;
    case TPERF_TYPE_NUMBER:
        break;
    }
    *(double *)at = value;
}

void tperf_record_init(const tperf_record *record, void *of) {
    memset(of, 0, record->size);
    for (const tperf_record_field *f = record->fields; f->name; f++)
        if (!isnan(f->initial)) set(f, of, f->initial);
}

tperf_status tperf_record_check(const tperf_record *record, const void *of, tperf_error *error) {
    for (const tperf_record_field *f = record->fields; f->name; f++) {
        double value = tperf_record_get(f, of);
        if (value >= f->low && value <= f->high) continue;
        if (f->high == TPERF_ANY)
            return tperf_error_set(error, TPERF_INVALID,
                                   "%s: '%s' is out of range: %.10g is below %.10g", record->name,
                                   f->name, value, f->low);
        return tperf_error_set(error, TPERF_INVALID,
                               "%s: '%s' is out of range: %.10g is not from %.10g to %.10g",
                               record->name, f->name, value, f->low, f->high);
    }
    return TPERF_OK;
}
