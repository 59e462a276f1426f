/* Properties as people write and read them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "dsl/props_impl.h"
#include "util/bytes.h"
#include "util/err.h"

bool prop_known(const struct prop_info *p, uint64_t number)
{
    if (p->kind != PROP_INDEX)
        return true;
    for (const struct prop_word *w = p->words; w->word; w++)
        if (w->value == number)
            return true;
    return false;
}

/* ---- Sizes ---- */

static const char units[] = "BKMGTPEZ";

/* The power of two a suffix stands for ("K", "kb", "MiB", "B"); -1 if it is none. */
static int suffix_shift(const char *s)
{
    const char *u;

    if (*s == 0)
        return 0;
    u = strchr(units, *s >= 'a' && *s <= 'z' ? *s - 32 : *s);
    if (!u || u - units > 7)
        return -1;
    if (u == units)
        return s[1] ? -1 : 0;
    if (s[1] && strcasecmp(s + 1, "B") != 0 && strcasecmp(s + 1, "iB") != 0)
        return -1;
    return 10 * (int)(u - units);
}

int prop_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    uint64_t whole;
    int shift;

    if (!(*text >= '0' && *text <= '9') && *text != '.')
        return err_set(EINVAL, "bad numeric value '%s'", text);
    errno = 0;
    whole = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return err_set(ERANGE, "numeric value is too large");
    if (*end == '.') {
        double value = strtod(text, &end);

        shift = suffix_shift(end);
        if (shift < 0)
            return err_set(EINVAL, "invalid numeric suffix '%s'", end);
        value *= (double)(1ull << MIN(shift, 60));
        if (shift > 60 || value > (double)UINT64_MAX)
            return err_set(ERANGE, "numeric value is too large");
        *bytes = (uint64_t)value;
        return 0;
    }
    shift = suffix_shift(end);
    if (shift < 0)
        return err_set(EINVAL, "invalid numeric suffix '%s'", end);
    if (shift > 63 || (shift && whole >> (64 - shift)))
        return err_set(ERANGE, "numeric value is too large");
    *bytes = whole << shift;
    return 0;
}

/* Whole multiples of a unit without a point, else as many digits as fit in five characters. */
static void format_nice(uint64_t n, const char *zero_unit, char *out, size_t cap)
{
    int unit = 0;
    uint64_t top = n;

    while (top >= 1024 && unit < 6) {
        top /= 1024;
        unit++;
    }
    if (unit == 0) {
        snprintf(out, cap, "%u%s", (unsigned)n, zero_unit);
    } else if ((n & ((1ull << (10 * unit)) - 1)) == 0) {
        snprintf(out, cap, "%u%c", (unsigned)top, units[unit]);
    } else {
        double v = (double)n / (double)(1ull << (10 * unit));

        for (int digits = 2; digits >= 0; digits--)
            if (snprintf(out, cap, "%.*f%c", digits, v, units[unit]) <= 5)
                break;
    }
}

void prop_format_size(uint64_t bytes, char out[16])
{
    format_nice(bytes, "B", out, 16);
}

/* ---- Parsing ---- */

static int parse_word(const struct prop_info *p, const char *text, uint64_t *number)
{
    for (const struct prop_word *w = p->words; w->word; w++) {
        if (strcmp(w->word, text) == 0) {
            *number = w->value;
            return 0;
        }
    }
    return err_set(EINVAL, "'%s' must be one of '%s'", p->name, p->values);
}

static int parse_number(const struct prop_info *p, const char *text, uint64_t *number)
{
    int rc;

    if (strcmp(text, "none") == 0 && strstr(p->values, "none")) {
        *number = p->style == PROP_STYLE_COUNT_NONE ? PROP_NONE_MAX : 0;
        return 0;
    }
    rc = prop_parse_size(text, number);
    if (rc != 0)
        return rc;
    if (strcmp(p->name, "recordsize") == 0 || strcmp(p->name, "volblocksize") == 0) {
        if (!is_pow2(*number) || *number < 512 || *number > (16u << 20))
            return err_set(EINVAL, "'%s' must be power of 2 from 512B to 16M", p->name);
    }
    if (*number == 0 && (strcmp(p->name, "quota") == 0 || strcmp(p->name, "refquota") == 0))
        return err_set(EINVAL, "use 'none' to disable quota/refquota");
    return 0;
}

static int parse_string(const struct prop_info *p, const char *text)
{
    if (strlen(text) >= PROP_VALUE_MAX)
        return err_set(E2BIG, "property value too long");
    if (strcmp(p->name, "mountpoint") == 0 && text[0] != '/' && strcmp(text, "none") != 0 &&
        strcmp(text, "legacy") != 0)
        return err_set(EINVAL, "'mountpoint' must be an absolute path, 'none', or 'legacy'");
    if (strcmp(p->name, "mountpoint") == 0 && strlen(text) >= 4096)
        return err_set(EINVAL, "'mountpoint' is too long");
    return 0;
}

int prop_parse(const struct prop_info *p, const char *text, uint64_t *number)
{
    *number = 0;
    switch (p->kind) {
    case PROP_INDEX:
        return parse_word(p, text, number);
    case PROP_NUMBER:
        return parse_number(p, text, number);
    default:
        return parse_string(p, text);
    }
}

/* ---- Formatting ---- */

static void format_time(uint64_t seconds, const char *format, char *out, size_t cap)
{
    time_t t = (time_t)seconds;
    struct tm tm;

    if (seconds == 0 || !localtime_r(&t, &tm) || strftime(out, cap, format, &tm) == 0)
        snprintf(out, cap, "%s", seconds ? "?" : "-");
}

static void format_number(const struct prop_info *p, uint64_t n, bool exact, char *out, size_t cap)
{
    switch (p->style) {
    case PROP_STYLE_BYTES_NONE:
        if (n == 0 && !exact) {
            snprintf(out, cap, "none");
            return;
        }
        break;
    case PROP_STYLE_COUNT_NONE:
        if (n == PROP_NONE_MAX)
            snprintf(out, cap, "none");
        else
            snprintf(out, cap, "%" PRIu64, n);
        return;
    case PROP_STYLE_RATIO:
        snprintf(out, cap, "%" PRIu64 ".%02" PRIu64 "%s", n / 100, n % 100, exact ? "" : "x");
        return;
    case PROP_STYLE_TIME:
    case PROP_STYLE_TIME_SEC:
        if (!exact) {
            format_time(n, p->style == PROP_STYLE_TIME ? "%a %b %e %H:%M %Y" : "%a %b %e %T %Y", out,
                        cap);
            return;
        }
        break;
    default:
        break;
    }
    if (exact || p->style == PROP_STYLE_PLAIN) {
        snprintf(out, cap, "%" PRIu64, n);
        return;
    }
    format_nice(n, p->style == PROP_STYLE_NICE ? "" : "B", out, cap);
}

void prop_format(const struct prop_info *p, uint64_t number, const char *string, bool exact, char *out,
                 size_t cap)
{
    if (p->kind == PROP_STRING) {
        snprintf(out, cap, "%s", string && *string ? string : "-");
        return;
    }
    if (p->kind == PROP_NUMBER) {
        format_number(p, number, exact, out, cap);
        return;
    }
    for (const struct prop_word *w = p->words; w->word; w++) {
        if (w->value == number) {
            snprintf(out, cap, "%s", w->word);
            return;
        }
    }
    snprintf(out, cap, "%" PRIu64, number); /* a value of newer software */
}
