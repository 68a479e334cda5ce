// values.c: quantities, errors, records, heaps and threads.
#include "base/test/unit.h"
#include "tperf/pool.h"
#include "tperf/record.h"
#include "tperf/units.h"

static double parsed(const char *text, tperf_unit unit) {
    double value = NAN;
    tperf_error error;
    CHECK(tperf_unit_parse(text, strlen(text), unit, &value, &error) == TPERF_OK);
    return value;
}

static void quantities(void) {
    SAME(900e9, parsed("900 GB/s", TPERF_BYTES_PER_S));
    SAME(50e9, parsed("400 Gb/s", TPERF_BYTES_PER_S));
    SAME(80.0 * 1024 * 1024 * 1024, parsed("80 GiB", TPERF_BYTES));
    SAME(2.5e-6, parsed("2.5 us", TPERF_SECONDS));
    SAME(989e12, parsed("989 TFLOP/s", TPERF_FLOP_PER_S));
    char text[TPERF_UNIT_TEXT];
    tperf_unit_print(9e11, TPERF_BYTES_PER_S, 4, text);
    CHECK(strcmp(text, "900.0 GB/s") == 0);
}

static void no_quantities(void) {
    static const char *const wrong[] = {"",        "GB",    "1 GB/s", "1 s",   "1,000 B", "nan",
                                        "1e400 B", "1 B x", "0x10 B", "1 gB/", "inf B",   "- 1 B"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        double value;
        tperf_error error = {{0}};
        CHECK(tperf_unit_parse(wrong[i], strlen(wrong[i]), TPERF_BYTES, &value, &error) ==
              TPERF_INVALID);
        CHECK(error.message[0] != '\0');
    }
}

static void errors(void) {
    tperf_error error;
    CHECK(tperf_error_set(&error, TPERF_INVALID, "%0600d", 7) == TPERF_INVALID);
    SAME(sizeof error.message - 1, strlen(error.message)); // cut, and ended
    CHECK(tperf_error_set(NULL, TPERF_NO_MEMORY, "nobody asks") == TPERF_NO_MEMORY);
}

#define PAIR(FIELD)                                                                                \
    FIELD(NUMBER, part, "part", NULL, 0.5, 0, 1, "a part")                                         \
    FIELD(INT32, count, "count", NULL, TPERF_REQUIRED, 1, 4, "how many")                           \
    FIELD(FLAG, on, "on", NULL, 1, 0, 1, "a switch")
typedef struct pair {
    PAIR(TPERF_MEMBER)
} pair;
#define FIELD(...) TPERF_FIELD(pair, __VA_ARGS__),
static const tperf_record_field fields[] = {PAIR(FIELD){0}};
static const tperf_record record = {"pair", sizeof(pair), fields};

static void records(void) {
    pair p;
    tperf_error error;
    tperf_record_init(&record, &p);
    SAME(0.5, p.part);
    SAME(0, p.count);
    CHECK(p.on);
    REFUSES("pair: 'count' is out of range: 0 is not from 1 to 4",
            tperf_record_check(&record, &p, &error));
    p.count = 4;
    CHECK(tperf_record_check(&record, &p, &error) == TPERF_OK);
    SAME(4, tperf_record_get(&fields[1], &p));
    p.part = NAN;
    REFUSES("pair: 'part'", tperf_record_check(&record, &p, &error));
}

static void heaps(void) {
    unit_heap owner = {.allocations_left = -1};
    const tperf_heap heap = {unit_resize, &owner};
    char *block = tperf_heap_zeroed(&heap, 3, 5);
    CHECK(block && block[14] == 0);
    block[14] = 7;
    block = tperf_heap_grow(&heap, block, 300, 5);
    CHECK(block && block[14] == 7 && owner.held >= 1500);
    CHECK(tperf_heap_new(&heap, (size_t)-1 / 4, 16) == NULL); // the product overflows
    tperf_heap_free(block);
    tperf_heap_free(NULL);
    SAME(0, owner.held);
    owner.allocations_left = 0;
    CHECK(tperf_heap_new(&heap, 1, 1) == NULL);
}

enum { JOBS = 1000 };

static void note(void *context, size_t index, int worker) {
    int *seen = context;
    seen[index] += 1 + 0 * worker;
}

static void pools(void) {
    for (int threads = 1; threads <= 4; threads++) {
        int seen[JOBS] = {0}, once = 0;
        tperf_pool *pool = tperf_pool_new(threads);
        if (!CHECK(pool != NULL)) return;
        for (int round = 0; round < 3; round++)
            tperf_pool_run(pool, JOBS, note, seen);
        for (int i = 0; i < JOBS; i++)
            once += seen[i] == 3;
        SAME(JOBS, once);
        tperf_pool_free(pool);
    }
}

UNIT_TESTS({"quantities are read and printed", quantities},
           {"what is no quantity is refused", no_quantities}, {"errors fit their place", errors},
           {"records have initial values and bounds", records},
           {"heaps charge their owner and know overflow", heaps},
           {"a pool does each job once", pools})
