/* zpool status; its JSON is in zpool_status_json.c */
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/zpool_impl.h"
#include "cli/zpool_status_impl.h"
#include "server/client.h"
#include "server/json.h"
#include "util/bytes.h"
#include "util/err.h"

#define NAME_WIDTH 10 /* at least */

static bool has_errors(struct json_object *v)
{
    return json_unsigned(v, "read_errors") || json_unsigned(v, "write_errors") ||
           json_unsigned(v, "checksum_errors") || strcmp(json_text(v, "state", ""), "ONLINE") != 0;
}

/* Counters above 9999 are shortened unless -p. */
static void print_count(const struct status *p, struct json_object *v, const char *key)
{
    unsigned long long n = json_unsigned(v, key);
    static const char units[] = "KMGTPE";
    int u = -1;
    if (!p->style.exact)
        for (; n > 9999 && u < 5; u++)
            n /= 1024;
    if (u < 0)
        printf(" %5llu", n);
    else
        printf(" %4llu%c", n, units[u]);
}

static void print_children(const struct status *p, struct json_object *list, int indent, int width);

static void print_counters(const struct status *p, struct json_object *v, bool leaf)
{
    print_count(p, v, "read_errors");
    print_count(p, v, "write_errors");
    print_count(p, v, "checksum_errors");
    if (p->slow && leaf)
        printf(" %5llu", json_unsigned(v, "slow_ios"));
    else if (p->slow)
        printf(" %5s", "-");
    if (p->direct)
        printf(" %5llu", json_unsigned(v, "direct_errors"));
}

static unsigned long long upkeep_number(struct json_object *v, const char *kind, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s_%s", kind, what);
    return json_unsigned(v, key);
}

/* How it stands with the trim or initialization of a leaf, in full. */
static void print_upkeep(struct json_object *v, const char *kind, const char *done, const char *state)
{
    const struct {
        const char *state, *text;
    } states[] = {{"active", "started"}, {"suspended", "suspended, started"}, {"complete", "completed"}};
    unsigned long long part = upkeep_number(v, kind, "done"), total = upkeep_number(v, kind, "total");
    time_t at = (time_t)upkeep_number(v, kind, "time");
    char when[32] = "?";
    size_t i = 0;
    while (i < ARRAY_LEN(states) && strcmp(states[i].state, state) != 0)
        i++;
    if (i == ARRAY_LEN(states)) {
        printf("  (un%s)", done);
        return;
    }
    if (ctime_r(&at, when))
        when[strcspn(when, "\n")] = 0;
    printf("  (%d%% %s, %s at %s)", total ? (int)((double)part / (double)total * 100) : 100, done,
           states[i].text, when);
}

static void print_upkeeps(const struct status *p, struct json_object *v)
{
    const char *initialize = json_text(v, "initialize_state", "none"),
               *trim = json_text(v, "trim_state", "none");
    if (p->initialize)
        print_upkeep(v, "initialize", "initialized", initialize);
    else if (strcmp(initialize, "active") == 0)
        printf("  (initializing)");
    if (p->trim && json_flag(v, "trim_unsupported"))
        printf("  (trim unsupported)");
    else if (p->trim)
        print_upkeep(v, "trim", "trimmed", trim);
    else if (strcmp(trim, "active") == 0)
        printf("  (trimming)");
}

static void print_vdev(const struct status *p, struct json_object *v, int indent, int width)
{
    char buf[PATH_MAX];
    const char *why = json_text(v, "why", "");
    struct json_object *list = vdev_children(v);
    bool leaf = list == NULL, spare = strcmp(json_text(v, "class", ""), "spare") == 0;
    if (p->errors_only && leaf && !has_errors(v))
        return;
    printf("\t%*s%-*s  %-8s", indent, "", width - indent, vdev_name(&p->naming, v, buf, sizeof buf),
           json_text(v, "state", "?"));
    if (!spare)
        print_counters(p, v, leaf);
    if (*why)
        printf("  %s", why);
    if (leaf)
        print_upkeeps(p, v);
    putchar('\n');
    if (strcmp(json_text(v, "type", ""), "root") != 0)
        print_children(p, list, indent + 2, width);
}

static void print_children(const struct status *p, struct json_object *list, int indent, int width)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        print_vdev(p, json_object_array_get_idx(list, i), indent, width);
}

static void print_tree(const struct status *p, struct json_object *root, int width)
{
    print_vdev(p, root, 0, width);
    for (const struct vdev_section *s = vdev_sections; s->class || s->member; s++) {
        struct json_object *list = vdev_section(root, s, false);
        if (s->status_title && json_object_array_length(list) > 0)
            printf("\t%s\n", s->status_title);
        print_children(p, list, 2, width);
        json_object_put(list);
    }
}

/* Advice may have several lines: the later ones stand below the first. */
static void print_advice(const char *label, const char *text)
{
    if (!*text)
        return;
    printf("%s: ", label);
    for (const char *p = text; *p; p++) {
        putchar(*p);
        if (*p == '\n')
            putchar('\t');
    }
    putchar('\n');
}

/* Takes the text, which may be NULL. */
static void print_text(const char *label, char *text)
{
    print_advice(label, text ? text : "");
    free(text);
}

static void print_errors(const struct status *p, struct json_object *st)
{
    struct json_object *files = json_member(st, "damaged");
    size_t n = p->verbose && files ? json_object_array_length(files) : 0;
    if (n == 0) {
        printf("\nerrors: %s\n", json_text(st, "errors", ""));
        return;
    }
    printf("\nerrors: Permanent errors have been detected in the following files:\n\n");
    for (size_t i = 0; i < n; i++)
        printf("        %s\n", json_object_get_string(json_object_array_get_idx(files, i)));
}

static void print_pool(const struct status *p, struct json_object *st)
{
    struct json_object *tree = json_member(st, "vdevs");
    int widest = vdev_widest(&p->naming, tree, 0), width = MAX(widest, NAME_WIDTH);
    printf("  pool: %s\n state: %s\n", json_text(st, "name", "?"), json_text(st, "state", "?"));
    print_advice("status", json_text(st, "status", ""));
    print_advice("action", json_text(st, "action", ""));
    struct json_object *shape = json_member(st, "shape");
    print_text("  scan", scan_text(json_member(st, "scan_stats")));
    print_text("remove", removal_text(json_member(shape, "removal")));
    print_text("checkpoint", checkpoint_text(json_member(shape, "checkpoint")));
    print_text("expand", expansion_text(json_member(shape, "expansion")));
    printf("config:\n\n\t%-*s  %-8s %5s %5s %5s", width, "NAME", "STATE", "READ", "WRITE", "CKSUM");
    if (p->slow)
        printf(" %5s", "SLOW");
    if (p->direct)
        printf(" %5s", "DIO");
    putchar('\n');
    print_tree(p, tree, width);
    print_errors(p, st);
    if (p->dedup)
        printf("\n dedup: no DDT entries\n");
}

static int status_pool(const char *name, struct client *c, void *arg)
{
    struct status *p = arg;
    struct json_object *st, *args = json_object_new_object();
    json_object_object_add(args, "verbose", json_object_new_boolean(p->verbose));
    int rc = client_call(c, "pool.status", args, NULL, NULL, &st);
    if (rc != 0)
        return fail(rc, "cannot get the status of '%s'", name);
    bool healthy = strcmp(json_text(st, "state", ""), "ONLINE") == 0;
    p->seen++;
    if (!p->unhealthy_only || !healthy) {
        if (p->style.json) {
            status_add_json(p, st);
        } else {
            if (p->printed > 0)
                putchar('\n');
            print_pool(p, st);
        }
        p->printed++;
    }
    json_object_put(st);
    return 0;
}

static int status_once(void *arg)
{
    struct status *p = arg;
    p->seen = p->printed = 0;
    if (p->style.json)
        p->pools = json_object_new_object();
    int rc =
        each_pool(p->argc, p->argv, p->style.json ? NULL : "no pools available", status_pool, p);
    if (p->style.json)
        return status_end_json(p) ? 1 : rc;
    if (rc == 0 && p->unhealthy_only && p->printed == 0 && p->seen > 0) {
        if (p->argc == 1)
            printf("pool '%s' is healthy\n", p->argv[0]);
        else
            printf("all pools are healthy\n");
    }
    return rc;
}

static int parse(struct status *p, struct repeat *r, int argc, char **argv)
{
    const struct {
        int opt;
        bool *flag;
    } flags[] = {{'d', &p->direct},
                 {'D', &p->dedup},
                 {'e', &p->errors_only},
                 {'g', &p->naming.guid},
                 {'i', &p->initialize},
                 {'L', &p->naming.follow},
                 {'p', &p->style.exact},
                 {'P', &p->naming.full},
                 {'s', &p->slow},
                 {'t', &p->trim},
                 {'v', &p->verbose},
                 {'x', &p->unhealthy_only},
                 {'j', &p->style.json},
                 {OPT_JSON_INT, &p->style.json_int},
                 {OPT_KEY_GUID, &p->style.key_guid},
                 {OPT_FLAT_VDEVS, &p->flat}};
    int opt, rc = 0;
    while (rc == 0 &&
           (opt = getopt_long(argc, argv, ":c::dDegijLpPstT:vx", json_options, NULL)) != -1) {
        size_t i = 0;
        while (i < ARRAY_LEN(flags) && flags[i].opt != opt)
            i++;
        if (i < ARRAY_LEN(flags))
            *flags[i].flag = true;
        else if (opt == 'T')
            rc = repeat_stamp(r, optarg);
        else
            rc = opt == 'c' ? unsupported("option -c") : usage_option(opt);
    }
    if (rc == 0 && p->flat && !p->style.json)
        rc = usage_error("'--json-flat-vdevs' only works with '-j' option");
    return rc ? rc : json_style_check(&p->style);
}

int zpool_status(int argc, char **argv)
{
    struct status p = {0};
    struct repeat r = {.blank = true};
    int rc = parse(&p, &r, argc, argv);
    if (rc != 0)
        return rc;
    p.argv = argv + optind;
    p.argc = repeat_parse(&r, argc - optind, p.argv);
    return repeat(&r, status_once, &p);
}
