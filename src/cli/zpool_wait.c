/* zpool wait */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/zpool_impl.h"
#include "dsl/props.h"
#include "server/client.h"
#include "server/json.h"
#include "util/bytes.h"
#include "util/err.h"

#define WIDTH 6 /* of a column, at least */

/* In the order they are shown. What cannot go on in this version is never waited for. */
static const struct activity {
    const char *name, *head;
} activities[] = {
    {"discard", "DISCARD"}, {"free", "FREE"},     {"initialize", "INITIALIZE"},
    {"replace", "REPLACE"}, {"remove", "REMOVE"}, {"resilver", "RESILVER"},
    {"scrub", "SCRUB"},     {"trim", "TRIM"},     {"raidz_expand", "RAIDZ_EXPAND"},
};
enum { FREE = 1, INITIALIZE = 2, REPLACE = 3, RESILVER = 5, SCRUB = 6, TRIM = 7,
       ACTIVITIES = ARRAY_LEN(activities) };

struct wait {
    bool chosen[ACTIVITIES];
    struct report_style style;
    struct repeat repeat; /* its stamp and interval */
    unsigned long rows;
};

static int choose(struct wait *w, const char *text)
{
    struct json_object *list = split_list(text);
    int rc = 0;
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        const char *name = json_item(list, i);
        size_t k = 0;
        while (k < ACTIVITIES && strcmp(activities[k].name, name) != 0)
            k++;
        if (k == ACTIVITIES)
            rc = usage_error("invalid activity '%s'", name);
        else
            w->chosen[k] = true;
    }
    json_object_put(list);
    return rc;
}

/* Bytes that are left of an activity. */
static unsigned long long left_of(struct json_object *st, size_t activity)
{
    struct json_object *scan = json_member(st, "scan_stats");
    bool resilver = scan && strcmp(json_text(scan, "kind", ""), "resilver") == 0;
    if (activity == FREE)
        return json_unsigned(st, "freeing");
    if (activity == INITIALIZE || activity == TRIM)
        return json_unsigned(st, activities[activity].name);
    if (!scan_runs(scan) || activity == (resilver ? SCRUB : RESILVER) ||
        (activity == REPLACE && !(resilver && json_flag(st, "replacing"))) ||
        (activity != REPLACE && activity != RESILVER && activity != SCRUB))
        return 0;
    unsigned long long total = json_unsigned(scan, "to_examine"),
                       done = json_unsigned(scan, "issued");
    return total > done ? total - done : 1;
}

static void print_stamp(char stamp)
{
    time_t now = time(NULL);
    char buf[32];
    if (stamp == 'u')
        printf("%lld\n", (long long)now);
    else if (stamp == 'd' && ctime_r(&now, buf))
        fputs(buf, stdout);
}

static void print_row(struct wait *w, struct json_object *st)
{
    print_stamp(w->repeat.stamp);
    for (size_t i = 0; i < ACTIVITIES && w->rows == 0 && !w->style.scripted; i++)
        if (w->chosen[i])
            printf("  %*s", WIDTH, activities[i].head);
    if (w->rows++ == 0 && !w->style.scripted)
        putchar('\n');
    for (size_t i = 0; i < ACTIVITIES; i++) {
        char text[32];
        if (!w->chosen[i])
            continue;
        if (w->style.exact)
            snprintf(text, sizeof text, "%llu", left_of(st, i));
        else
            prop_format_size(left_of(st, i), text);
        if (!w->style.exact && left_of(st, i) == 0)
            strcpy(text, "0");
        if (w->style.scripted)
            printf("\t%s", text);
        else
            printf("  %*s", (int)MAX((size_t)WIDTH, strlen(activities[i].head)), text);
    }
    putchar('\n');
    fflush(stdout);
}

/* What an answer is waited for: scans end by themselves, for the rest the state is asked for again.
 */
static const char *to_wait_for(const struct wait *w)
{
    bool scrub = w->chosen[SCRUB], resilver = w->chosen[RESILVER] || w->chosen[REPLACE];
    if (scrub || resilver)
        return scrub && resilver ? "none" : scrub ? "scrub" : "resilver";
    return w->chosen[TRIM] ? "trim" : w->chosen[INITIALIZE] ? "initialize" : "";
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static int wait_pool(const char *name, struct client *c, void *arg)
{
    struct wait *w = arg;
    bool first = true, more = true;
    int rc = 0;
    while (more) {
        struct json_object *st, *args = json_object_new_object();
        put_string(args, "wait", first || w->repeat.interval > 0 ? "" : to_wait_for(w));
        rc = client_call(c, "pool.activity", args, NULL, NULL, &st);
        if (rc != 0)
            return fail(rc, "cannot wait for activity in '%s'", name);
        more = false;
        for (size_t i = 0; i < ACTIVITIES; i++)
            more |= w->chosen[i] && left_of(st, i) > 0;
        if (w->repeat.interval > 0)
            print_row(w, st);
        json_object_put(st);
        if (more && (w->repeat.interval > 0 || (!first && !*to_wait_for(w))))
            pause_for(w->repeat.interval > 0 ? w->repeat.interval : 0.1);
        first = false;
    }
    return 0;
}

int zpool_wait(int argc, char **argv)
{
    struct wait w = {.rows = 0};
    bool any = false;
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":HpT:t:")) != -1) {
        if (opt == 'H')
            w.style.scripted = true;
        else if (opt == 'p')
            w.style.exact = true;
        else if (opt == 'T')
            rc = repeat_stamp(&w.repeat, optarg);
        else if (opt == 't')
            rc = choose(&w, optarg);
        else
            rc = usage_option(opt);
        any |= opt == 't';
    }
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < ACTIVITIES && !any; i++)
        w.chosen[i] = true;
    int n = argc - optind;
    if (n == 0)
        return usage_error("missing 'pool' argument");
    n = n > 1 ? repeat_parse(&w.repeat, n, argv + optind) : n;
    if (n > 1)
        return usage_error("too many arguments");
    return each_pool(n, argv + optind, NULL, wait_pool, &w);
}
