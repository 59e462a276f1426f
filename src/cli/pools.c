/* Walking over the pools that are named, or over all. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "server/client.h"
#include "util/err.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The pools named, sorted, once each. */
int each_named_pool(int argc, char **argv, pool_fn *fn, void *arg, int *missing)
{
    char *sorted[argc];
    int rc = 0;
    memcpy(sorted, argv, sizeof sorted);
    qsort(sorted, (size_t)argc, sizeof *sorted, compare_names);
    *missing = 0;
    for (int i = 0; i < argc; i++) {
        if (i > 0 && strcmp(sorted[i], sorted[i - 1]) == 0)
            continue;
        struct client *c = open_named_pool(sorted[i]);
        if (!c) {
            ++*missing;
            continue;
        }
        int k = fn(sorted[i], c, arg);
        rc = k ? k : rc;
        client_close(c);
    }
    return rc;
}

int each_pool(int argc, char **argv, const char *none, pool_fn *fn, void *arg)
{
    char **names;
    size_t n;
    int rc, k, missing;
    if (argc > 0) {
        rc = each_named_pool(argc, argv, fn, arg, &missing);
        return missing > 0 ? 1 : rc;
    }
    rc = client_pools(&names, &n);
    if (rc != 0)
        return fail(rc, "cannot list pools");
    if (n == 0 && none)
        fprintf(stderr, "%s\n", none);
    for (size_t i = 0; i < n; i++) {
        struct client *c;
        if (client_open(&c, names[i]) == 0) { /* else it ended since */
            k = fn(names[i], c, arg);
            rc = k ? k : rc;
            client_close(c);
        }
        free(names[i]);
    }
    free(names);
    return rc;
}

/* ---- [interval [count]] and -T ---- */

static bool is_number(const char *text, double *value)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    *value = strtod(text, &end);
    return *end == 0 && *value > 0;
}

int repeat_parse(struct repeat *r, int argc, char **argv)
{
    double last, before;
    if (argc < 1 || !is_number(argv[argc - 1], &last))
        return argc;
    if (argc < 2 || !is_number(argv[argc - 2], &before)) {
        r->interval = last;
        return argc - 1;
    }
    r->interval = before;
    r->count = (unsigned long)last;
    return argc - 2;
}

int repeat_stamp(struct repeat *r, const char *word)
{
    if (strcmp(word, "d") != 0 && strcmp(word, "u") != 0)
        return usage_error("invalid timestamp format '%s'", word);
    r->stamp = *word;
    return 0;
}

static void print_stamp(char how)
{
    char text[64];
    time_t now = time(NULL);
    struct tm tm;
    if (how == 'u') {
        printf("%lld\n", (long long)now);
        return;
    }
    localtime_r(&now, &tm);
    strftime(text, sizeof text, "%a %b %e %H:%M:%S %Z %Y", &tm);
    puts(text);
}

void repeat_sleep(const struct repeat *r)
{
    struct timespec t = {(time_t)r->interval,
                         (long)((r->interval - (double)(time_t)r->interval) * 1e9)};
    nanosleep(&t, NULL);
}

int repeat(const struct repeat *r, int (*fn)(void *arg), void *arg)
{
    int rc = 0;
    for (unsigned long i = 0;; i++) {
        if (r->stamp)
            print_stamp(r->stamp);
        rc = fn(arg);
        fflush(stdout);
        if (rc != 0 || r->interval == 0 || (r->count != 0 && i + 1 >= r->count))
            return rc;
        repeat_sleep(r);
        if (r->blank)
            putchar('\n');
    }
}
