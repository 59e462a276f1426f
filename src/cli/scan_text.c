/* The lines of zpool status about what goes on in a pool, in the reference's words. */
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/zpool_impl.h"
#include "dsl/props.h"
#include "server/json.h"
#include "util/bytes.h"

#define RATE_MIN (10ull << 20) /* bytes per second: below, no time is told */

struct text {
    char s[1024];
    size_t n;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    t->n = MIN(t->n + (n > 0 ? (size_t)n : 0), sizeof t->s - 1);
}

static const char *when(unsigned long long seconds, char buf[32])
{
    time_t t = (time_t)seconds;
    if (!ctime_r(&t, buf))
        strcpy(buf, "?");
    buf[strcspn(buf, "\n")] = 0;
    return buf;
}

static void add_duration(struct text *t, unsigned long long s)
{
    if (s >= 86400)
        add(t, "%llu days ", s / 86400);
    add(t, "%02llu:%02llu:%02llu", s / 3600 % 24, s / 60 % 60, s % 60);
}

static void add_size(struct text *t, unsigned long long n)
{
    char buf[32];
    prop_format_size(n, buf);
    add(t, "%s", buf);
}

/* "1.2G / 3G scanned at 100M/s" */
static void add_progress(struct text *t, unsigned long long n, unsigned long long total,
                         const char *what, unsigned long long rate)
{
    add_size(t, n);
    add(t, " / ");
    add_size(t, total);
    add(t, " %s", what);
    if (rate == 0)
        return;
    add(t, " at ");
    add_size(t, rate);
    add(t, "/s");
}

static void add_running(struct text *t, struct json_object *s, bool resilver)
{
    unsigned long long total = json_unsigned(s, "to_examine"), issued = json_unsigned(s, "issued");
    unsigned long long pause = json_unsigned(s, "pause"), start = json_unsigned(s, "start");
    long long passed = (long long)time(NULL) - json_number(s, "pass_start", 0) -
                       json_number(s, "paused_seconds", 0);
    unsigned long long seconds = passed > 0 ? (unsigned long long)passed : 1;
    unsigned long long rate = pause ? 0 : json_unsigned(s, "pass_issued") / seconds;
    char buf[32], since[32];
    if (pause)
        add(t, "scrub paused since %s\nscrub started on %s\n", when(pause, since),
            when(start, buf));
    else
        add(t, "%s in progress since %s\n", resilver ? "resilver" : "scrub", when(start, buf));
    add_progress(t, json_unsigned(s, "examined"), total, "scanned",
                 pause ? 0 : json_unsigned(s, "pass_examined") / seconds);
    add(t, ", ");
    add_progress(t, issued, total, "issued", rate);
    add(t, "\n");
    add_size(t, json_unsigned(s, "repaired"));
    add(t, " %s, %.2f%% done", resilver ? "resilvered" : "repaired",
        total ? 100.0 * (double)MIN(issued, total) / (double)total : 0.0);
    if (pause)
        return;
    if (rate < RATE_MIN || issued > total) {
        add(t, ", no estimated completion time");
        return;
    }
    add(t, ", ");
    add_duration(t, (total - issued) / rate);
    add(t, " to go");
}

char *scan_text(struct json_object *s)
{
    struct text t = {.n = 0};
    char buf[32];
    bool resilver = s && strcmp(json_text(s, "kind", ""), "resilver") == 0;
    const char *state = s ? json_text(s, "state", "") : "";
    unsigned long long start = s ? json_unsigned(s, "start") : 0,
                       end = s ? json_unsigned(s, "end") : 0;
    if (strcmp(state, "scanning") == 0) {
        add_running(&t, s, resilver);
    } else if (strcmp(state, "canceled") == 0) {
        add(&t, "%s canceled on %s", resilver ? "resilver" : "scrub", when(end, buf));
    } else if (strcmp(state, "finished") == 0) {
        add(&t, "%s", resilver ? "resilvered " : "scrub repaired ");
        add_size(&t, json_unsigned(s, "repaired"));
        add(&t, " in ");
        add_duration(&t, end > start ? end - start : 0);
        add(&t, " with %llu errors on %s", json_unsigned(s, "errors"), when(end, buf));
    }
    return t.n ? strdup(t.s) : NULL;
}

/* ---- Changes of shape, and the checkpoint ---- */

static char *text_or_null(struct json_object *s, struct text *t)
{
    return s && t->n ? strdup(t->s) : NULL;
}

/* "31K copied out of 20.1M, 0.15% done": no rate, for whoever shows it does not do the work. */
static void add_copied(struct text *t, struct json_object *s, const char *between)
{
    unsigned long long copied = json_unsigned(s, "copied"), total = json_unsigned(s, "to_copy");
    add(t, "\n");
    add_size(t, copied);
    add(t, "%s", between);
    add_size(t, total);
    add(t, "%s, %.2f%% done", strchr(between, '/') ? " copied" : "",
        total ? 100.0 * (double)MIN(copied, total) / (double)total : 0.0);
}

char *removal_text(struct json_object *s)
{
    struct text t = {.n = 0};
    char buf[32];
    const char *state = json_text(s, "state", ""), *name = json_text(s, "name", "?");
    unsigned long long start = json_unsigned(s, "start"), end = json_unsigned(s, "end");
    unsigned long long seconds = end > start ? end - start : 0;
    if (strcmp(state, "scanning") == 0) {
        add(&t, "Evacuation of %s in progress since %s", name, when(start, buf));
        add_copied(&t, s, " copied out of ");
    } else if (strcmp(state, "canceled") == 0) {
        add(&t, "Removal of %s canceled on %s", name, when(end, buf));
    } else if (strcmp(state, "finished") == 0) {
        add(&t, "Removal of vdev %llu copied ", json_unsigned(s, "vdev"));
        add_size(&t, json_unsigned(s, "copied"));
        add(&t, " in %lluh%llum, completed on %s", seconds / 3600, seconds / 60 % 60, when(end, buf));
    }
    unsigned long long memory = json_unsigned(s, "mapping_memory");
    if (t.n && memory > 0) {
        char size[32];
        prop_format_size(memory, size);
        size[strcspn(size, "B")] = 0;
        add(&t, "\n%s memory used for removed device mappings", size);
    }
    return text_or_null(s, &t);
}

char *expansion_text(struct json_object *s)
{
    struct text t = {.n = 0};
    char buf[32];
    const char *state = json_text(s, "state", ""), *name = json_text(s, "name", "?");
    unsigned long long start = json_unsigned(s, "start"), end = json_unsigned(s, "end");
    if (strcmp(state, "scanning") == 0) {
        add(&t, "expansion of %s in progress since %s", name, when(start, buf));
        add_copied(&t, s, " / ");
    } else if (strcmp(state, "finished") == 0) {
        add(&t, "expanded %s copied ", name);
        add_size(&t, json_unsigned(s, "copied"));
        add(&t, " in ");
        add_duration(&t, end > start ? end - start : 0);
        add(&t, ", on %s", when(end, buf));
    }
    return text_or_null(s, &t);
}

char *checkpoint_text(struct json_object *s)
{
    struct text t = {.n = 0};
    char buf[32];
    add(&t, "created %s, consumes ", when(s ? json_unsigned(s, "start") : 0, buf));
    add_size(&t, s ? json_unsigned(s, "space") : 0);
    return text_or_null(s, &t);
}

bool scan_runs(struct json_object *s)
{
    return s && strcmp(json_text(s, "state", ""), "scanning") == 0 &&
           json_unsigned(s, "pause") == 0;
}
