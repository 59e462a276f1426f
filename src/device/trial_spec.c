/* The text that says what devices of a trial are: a line for each, PATTERN WORD..., the last that fits counts. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/trial_impl.h"
#include "util/bytes.h"
#include "util/err.h"

#define MS 1000000ull
#define US 1000ull
#define MB 1000000ull
#define LINE_MAX_BYTES 4096

static const struct {
    const char *name;
    struct trial_model model;
} models[] = {
    {"hdd7200", {true, 1, {160 * MB, 160 * MB}, {0, 0}, 800 * US, 15 * MS, 8333 * US}},
    {"hdd15k", {true, 1, {200 * MB, 200 * MB}, {0, 0}, 200 * US, 6 * MS, 4000 * US}},
    {"ssd", {true, 16, {520 * MB, 480 * MB}, {90 * US, 40 * US}, 0, 0, 0}},
    {"usb", {true, 1, {30 * MB, 10 * MB}, {700 * US, 3 * MS}, 0, 0, 0}},
};

static const char *const fault_names[TRIAL_FAULTS] = {
    [TRIAL_READ_ERROR] = "read-error",   [TRIAL_WRITE_ERROR] = "write-error",
    [TRIAL_FLUSH_ERROR] = "flush-error", [TRIAL_LOST] = "lost",
    [TRIAL_TORN] = "torn",               [TRIAL_MISDIRECTED] = "misdirected",
    [TRIAL_FLIP_READ] = "flip-read",     [TRIAL_FLIP_WRITE] = "flip-write",
};

/* A number with a unit: the first that fits is its factor. False if there is anything else. */
struct unit {
    const char *name;
    double factor;
};

static bool number(const char *text, const struct unit *units, double *out)
{
    char *end;
    double n = strtod(text, &end);
    if (end == text || !(n >= 0))
        return false;
    for (; units->name; units++) {
        if (strcmp(units->name, end) == 0) {
            *out = n * units->factor;
            return *out < 1.8e19;
        }
    }
    return false;
}

static const struct unit bytes[] = {{"", 1},         {"K", 1 << 10}, {"M", 1 << 20},
                                    {"G", 1 << 30},  {"T", 1ull << 40}, {NULL, 0}};
static const struct unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const struct unit plain[] = {{"", 1}, {NULL, 0}};

static bool set_number(const char *text, const struct unit *units, uint64_t *out)
{
    double n;
    bool ok = number(text, units, &n);
    if (ok)
        *out = (uint64_t)n;
    return ok;
}

static bool set_both(const char *text, const struct unit *units, uint64_t out[2], bool *any)
{
    *any = true;
    return set_number(text, units, &out[0]) && set_number(text, units, &out[1]);
}

static bool set_model(const char *name, struct trial_model *out)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (strcmp(models[i].name, name) == 0) {
            *out = models[i].model;
            return true;
        }
    return false;
}

/* "FROM-TO" */
static bool set_range(char *text, uint64_t *from, uint64_t *to)
{
    char *dash = strchr(text, '-');
    if (!dash)
        return false;
    *dash = 0;
    return set_number(text, bytes, from) && (!dash[1] || set_number(dash + 1, bytes, to));
}

static bool set_fault(const char *name, const char *value, struct trial_spec *s)
{
    for (unsigned i = 0; i < TRIAL_FAULTS; i++)
        if (strcmp(fault_names[i], name) == 0)
            return number(value, plain, &s->chance[i]) && s->chance[i] <= 1;
    return false;
}

/* "name=value", or a name alone. */
static bool set_word(char *word, struct trial_spec *s)
{
    char *value = strchr(word, '=');
    if (!value) {
        s->gone |= strcmp(word, "gone") == 0;
        s->trace |= strcmp(word, "trace") == 0;
        return strcmp(word, "gone") == 0 || strcmp(word, "trace") == 0;
    }
    *value++ = 0;
    struct trial_model *m = &s->model;
    if (strcmp(word, "model") == 0)
        return set_model(value, m);
    if (strcmp(word, "rate") == 0)
        return set_both(value, bytes, m->rate, &m->any);
    if (strcmp(word, "latency") == 0)
        return set_both(value, times, m->latency, &m->any);
    if (strcmp(word, "offset") == 0)
        return set_range(value, &s->from, &s->to);
    if (strcmp(word, "after") == 0)
        return set_number(value, times, &s->after);
    if (strcmp(word, "until") == 0)
        return set_number(value, times, &s->until);
    if (strcmp(word, "seed") == 0)
        return set_number(value, plain, &s->seed);
    return set_fault(word, value, s);
}

static int parse_line(char *words, struct trial_spec *s)
{
    char *at = NULL;
    *s = (struct trial_spec){.to = UINT64_MAX, .until = UINT64_MAX, .seed = 1, .model.channels = 1};
    for (char *w = strtok_r(words, " \t", &at); w; w = strtok_r(NULL, " \t", &at))
        if (!set_word(w, s))
            return err_set(EINVAL, "'%s' is not for a trial device", w);
    return 0;
}

bool trial_spec_find(const char *text, const char *path, struct trial_spec *out, int *rc)
{
    unsigned number = 0;
    bool found = false;
    *rc = 0;
    while (*text) {
        char line[LINE_MAX_BYTES];
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)MIN(n, sizeof line - 1), text);
        text += n + (text[n] == '\n');
        number++;
        char *pattern = line + strspn(line, " \t"), *words = pattern + strcspn(pattern, " \t");
        if (!*pattern || *pattern == '#')
            continue;
        if (*words)
            *words++ = 0;
        struct trial_spec s;
        *rc = parse_line(words, &s);
        if (*rc != 0) {
            *rc = err_prefix(*rc, "TARN_TRIAL, line %u", number);
            return false;
        }
        if (fnmatch(pattern, path, 0) == 0) {
            *out = s;
            found = true;
        }
    }
    return found;
}
