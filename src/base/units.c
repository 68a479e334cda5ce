// units.c: see tperf/units.h.
#include "tperf/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale.h"

const char *const tperf_unit_names[TPERF_UNIT_COUNT + 1] = {
    "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J", "Hz", NULL};

static const char *const examples[TPERF_UNIT_COUNT] = {
    "80 GiB", "900 GB/s", "2 TFLOP", "312 TFLOP/s", "2.5 us", "700 W", "3 MJ", "1.5 GHz"};

enum { NONE = 0, BIG = 1, SMALL = 2, BINARY = 4 }; // prefixes that a spelling accepts

static const struct prefix {
    const char *text;
    int group;
    int exponent; // of ten, or of two when BINARY
} prefixes[] = {
    {"", NONE, 0},      {"k", BIG, 3},      {"K", BIG, 3},           {"M", BIG, 6},
    {"G", BIG, 9},      {"T", BIG, 12},     {"P", BIG, 15},          {"E", BIG, 18},
    {"Z", BIG, 21},     {"Y", BIG, 24},     {"m", SMALL, -3},        {"u", SMALL, -6},
    {"n", SMALL, -9},   {"p", SMALL, -12},  {"\xc2\xb5", SMALL, -6}, {"\xce\xbc", SMALL, -6},
    {"Ki", BINARY, 10}, {"ki", BINARY, 10}, {"Mi", BINARY, 20},      {"Gi", BINARY, 30},
    {"Ti", BINARY, 40}, {"Pi", BINARY, 50}, {"Ei", BINARY, 60},
};

static const struct spelling {
    const char *text;
    tperf_unit unit;
    double factor;
    int groups;
} spellings[] = {
    {"B", TPERF_BYTES, 1, BIG | BINARY},
    {"byte", TPERF_BYTES, 1, NONE},
    {"bytes", TPERF_BYTES, 1, NONE},
    {"b", TPERF_BYTES, 0.125, BIG | BINARY},
    {"bit", TPERF_BYTES, 0.125, BIG | BINARY},
    {"bits", TPERF_BYTES, 0.125, NONE},
    {"B/s", TPERF_BYTES_PER_S, 1, BIG | BINARY},
    {"bytes/s", TPERF_BYTES_PER_S, 1, NONE},
    {"b/s", TPERF_BYTES_PER_S, 0.125, BIG | BINARY},
    {"bit/s", TPERF_BYTES_PER_S, 0.125, BIG | BINARY},
    {"bps", TPERF_BYTES_PER_S, 0.125, BIG},
    {"FLOP", TPERF_FLOP, 1, BIG},
    {"FLOP/s", TPERF_FLOP_PER_S, 1, BIG},
    {"FLOPS", TPERF_FLOP_PER_S, 1, BIG},
    {"OP/s", TPERF_FLOP_PER_S, 1, BIG}, // integer operations count like floating-point ones
    {"OPS", TPERF_FLOP_PER_S, 1, BIG},
    {"s", TPERF_SECONDS, 1, SMALL},
    {"min", TPERF_SECONDS, 60, NONE},
    {"h", TPERF_SECONDS, 3600, NONE},
    {"day", TPERF_SECONDS, 86400, NONE},
    {"days", TPERF_SECONDS, 86400, NONE},
    {"W", TPERF_WATTS, 1, BIG | SMALL},
    {"J", TPERF_JOULES, 1, BIG | SMALL},
    {"Wh", TPERF_JOULES, 3600, BIG},
    {"Hz", TPERF_HERTZ, 1, BIG},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct prefix *find_prefix(const char *text, size_t size, int groups) {
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        const struct prefix *p = &prefixes[i];
        if ((p->group == NONE || (p->group & groups)) && strlen(p->text) == size &&
            memcmp(p->text, text, size) == 0)
            return p;
    }
    return NULL;
}

// Finds the spelling of `unit` (TPERF_UNIT_COUNT: of any unit) and the prefix that make up text[0, size).
static const struct spelling *find_unit(const char *text, size_t size, tperf_unit unit,
                                        const struct prefix **prefix) {
    for (size_t i = 0; i < COUNT(spellings); i++) {
        const struct spelling *s = &spellings[i];
        size_t length = strlen(s->text);
        if ((unit != TPERF_UNIT_COUNT && s->unit != unit) || length > size ||
            memcmp(text + size - length, s->text, length) != 0)
            continue;
        *prefix = find_prefix(text, size - length, s->groups);
        if (*prefix) return s;
    }
    return NULL;
}

static size_t skip_digits(const char *text, size_t size, size_t at) {
    while (at < size && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

// Splits [+-]digits[.digits] or [+-].digits from its exponent. Returns the end of the number, 0 if there is none. An
// exponent of five digits or more is clamped: it overflows or underflows anyway.
static size_t scan_number(const char *text, size_t size, size_t *mantissa, int *exponent) {
    size_t start = size > 0 && (text[0] == '+' || text[0] == '-') ? 1 : 0;
    size_t at = skip_digits(text, size, start), digits = at - start;
    if (at < size && text[at] == '.') {
        size_t end = skip_digits(text, size, at + 1);
        digits += end - at - 1;
        at = end;
    }
    *mantissa = at;
    *exponent = 0;
    if (digits == 0) return 0;
    if (at == size || (text[at] != 'e' && text[at] != 'E')) return at;
    size_t sign = at + 1 < size && (text[at + 1] == '+' || text[at + 1] == '-') ? 1 : 0;
    size_t end = skip_digits(text, size, at + 1 + sign);
    if (end == at + 1 + sign) return at; // "2 EB" without a blank: the E is a prefix
    for (size_t i = at + 1 + sign; i < end; i++)
        if (*exponent < 10000) *exponent = *exponent * 10 + (text[i] - '0');
    if (sign && text[at + 1] == '-') *exponent = -*exponent;
    return end;
}

static tperf_status refuse(const char *text, size_t size, const char *why, tperf_unit unit,
                           tperf_error *error) {
    char shown[64];
    size_t length = size < 40 ? size : 40;
    for (size_t i = 0; i < length; i++)
        shown[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    snprintf(shown + length, sizeof shown - length, "%s", length < size ? "..." : "");
    return tperf_error_set(error, TPERF_INVALID,
                           "\"%s\" %s; expected a quantity in %s, such as \"%s\"", shown, why,
                           tperf_unit_names[unit], examples[unit]);
}

static tperf_status refuse_unit(const char *text, size_t size, size_t at, tperf_unit unit,
                                tperf_error *error) {
    const struct prefix *prefix;
    const struct spelling *other = find_unit(text + at, size - at, TPERF_UNIT_COUNT, &prefix);
    char why[64] = "has no unit known here";
    if (other) snprintf(why, sizeof why, "is in %s", tperf_unit_names[other->unit]);
    return refuse(text, size, why, unit, error);
}

tperf_status tperf_unit_parse(const char *text, size_t size, tperf_unit unit, double *value,
                              tperf_error *error) {
    size_t mantissa;
    int exponent;
    size_t at = size <= 100 ? scan_number(text, size, &mantissa, &exponent) : 0;
    if (at == 0) return refuse(text, size, "is not a decimal number with a unit", unit, error);
    while (at < size && text[at] == ' ')
        at++;
    const struct prefix *prefix = &prefixes[0];
    double factor = 1;
    if (at < size) {
        const struct spelling *spelling = find_unit(text + at, size - at, unit, &prefix);
        if (!spelling) return refuse_unit(text, size, at, unit, error);
        factor = spelling->factor;
    }
    // The prefix is added to the exponent before the only rounding, so "2.5 us" is exactly 2.5e-6.
    char number[128];
    int decimal = prefix->group == BINARY ? 0 : prefix->exponent;
    snprintf(number, sizeof number, "%.*se%d", (int)mantissa, text, exponent + decimal);
    locale_t before = tperf_locale_enter();
    double result = strtod(number, NULL) * factor;
    tperf_locale_leave(before);
    if (prefix->group == BINARY) result = ldexp(result, prefix->exponent);
    if (!isfinite(result)) return refuse(text, size, "is too large", unit, error);
    if (result == 0 && strcspn(number, "123456789") < mantissa)
        return refuse(text, size, "is too small", unit, error);
    *value = result;
    return TPERF_OK;
}

// A unit's printed symbol, with the prefixes from 10^low to 10^high.
static const struct {
    const char *symbol;
    int low, high;
} printed[TPERF_UNIT_COUNT] = {{"B", 0, 18},  {"B/s", 0, 18}, {"FLOP", 0, 24}, {"FLOP/s", 0, 24},
                               {"s", -12, 0}, {"W", -3, 9},   {"J", -3, 15},   {"Hz", 0, 9}};

// Rounds value to `digits` significant digits and prints it with the matching prefix and the symbol.
static void print_scaled(double value, const char *symbol, int low, int high, int digits,
                         char text[TPERF_UNIT_TEXT]) {
    char rounded[32];
    snprintf(rounded, sizeof rounded, "%.*e", digits - 1, value);
    char *mark = strchr(rounded, 'e');
    int exponent = atoi(mark + 1);
    if (exponent < low - 3 || exponent > high + 15) {
        snprintf(text, TPERF_UNIT_TEXT, "%s %s", rounded, symbol);
        return;
    }
    int prefix = exponent > high ? high : exponent < low ? low : (exponent + 12) / 3 * 3 - 12;
    int decimals = digits - 1 - (exponent - prefix);
    snprintf(mark, 8, "e%d",
             exponent - prefix); // the same digits, the point moved: no second rounding
    char letter[2] = {"pnum kMGTPEZY"[(prefix + 12) / 3], 0};
    snprintf(text, TPERF_UNIT_TEXT, "%.*f %s%s", decimals > 0 ? decimals : 0, strtod(rounded, NULL),
             prefix == 0 ? "" : letter, symbol);
}

static void print(double value, tperf_unit unit, int digits, char text[TPERF_UNIT_TEXT]) {
    static const struct {
        double seconds;
        const char *symbol;
    } clocks[] = {{60, "min"}, {3600, "h"}, {86400, "days"}};
    const char *symbol = printed[unit].symbol;
    if (value == 0 || !isfinite(value)) {
        snprintf(text, TPERF_UNIT_TEXT, "%s %s",
                 isnan(value) ? "nan"
                 : value == 0 ? "0"
                 : value > 0  ? "inf"
                              : "-inf",
                 symbol);
        return;
    }
    print_scaled(value, symbol, printed[unit].low, printed[unit].high, digits, text);
    // Minutes, hours, days: if the seconds, or the previous unit, round up to one of them.
    double shown = unit == TPERF_SECONDS && fabs(value) > 1 ? strtod(text, NULL) : 0;
    for (size_t i = 0; i < COUNT(clocks) && fabs(shown) >= clocks[i].seconds; i++) {
        if (fabs(value) < clocks[i].seconds) value = copysign(clocks[i].seconds, value);
        print_scaled(value / clocks[i].seconds, clocks[i].symbol, 0, 0, digits, text);
        shown = strtod(text, NULL) * clocks[i].seconds;
    }
}

void tperf_unit_print(double value, tperf_unit unit, int digits, char text[TPERF_UNIT_TEXT]) {
    locale_t before = tperf_locale_enter();
    print(value, unit, digits, text);
    tperf_locale_leave(before);
}
