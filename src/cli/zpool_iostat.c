/* zpool iostat: what devices did between two looks at their counters. */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
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

#define NAME_WIDTH  10 /* at least */
#define CELL_WIDTH  5
#define EXACT_WIDTH 15
#define POOLS_MAX   512

/* One pool at two times. */
struct look {
    char *name;
    struct json_object *now, *before; /* answers of pool.status; before: NULL at first */
};

struct iostat {
    struct vdev_naming naming;
    bool scripted, exact, verbose, head_once, skip_first;
    struct look looks[POOLS_MAX];
    size_t n;
    char **pools, **vdevs; /* named ones; no pools: all */
    int npools, nvdevs;
    unsigned long round;
    int width; /* of the names */
};

/* ---- Counters ---- */

struct counters {
    double ops[2], bytes[2]; /* reads, writes */
};

/* Of a device, or of all devices below. */
static void add_counters(struct json_object *vdev, struct counters *c)
{
    struct json_object *list = vdev_children(vdev);
    if (!list) {
        c->ops[0] += (double)json_unsigned(vdev, "read_ops");
        c->ops[1] += (double)json_unsigned(vdev, "write_ops");
        c->bytes[0] += (double)json_unsigned(vdev, "read_bytes");
        c->bytes[1] += (double)json_unsigned(vdev, "write_bytes");
    }
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        add_counters(json_object_array_get_idx(list, i), c);
}

static struct json_object *find_guid(struct json_object *vdev, unsigned long long guid)
{
    struct json_object *list = vdev_children(vdev), *found = NULL;
    if (json_unsigned(vdev, "guid") == guid)
        return vdev;
    for (size_t i = 0; list && i < json_object_array_length(list) && !found; i++)
        found = find_guid(json_object_array_get_idx(list, i), guid);
    return found;
}

/* Per second, since the look before or since the pool was imported. */
static struct counters rates(const struct look *k, struct json_object *vdev)
{
    struct counters c = {.ops = {0}}, was = {.ops = {0}};
    double ns = (double)json_unsigned(k->now, "age");
    add_counters(vdev, &c);
    if (k->before) {
        struct json_object *old = find_guid(json_member(k->before, "vdevs"), json_unsigned(vdev, "guid"));
        ns -= (double)json_unsigned(k->before, "age");
        if (old)
            add_counters(old, &was);
    }
    for (int i = 0; i < 2; i++) { /* a device that came back counts from 0 */
        c.ops[i] = ns > 0 && c.ops[i] > was.ops[i] ? (c.ops[i] - was.ops[i]) * 1e9 / ns : 0;
        c.bytes[i] = ns > 0 && c.bytes[i] > was.bytes[i] ? (c.bytes[i] - was.bytes[i]) * 1e9 / ns : 0;
    }
    return c;
}

/* ---- Lines ---- */

static void print_cell(const struct iostat *s, const char *text)
{
    if (s->scripted)
        printf("\t%s", text);
    else
        printf("  %*s", s->exact ? EXACT_WIDTH : CELL_WIDTH, text);
}

static void print_number(const struct iostat *s, double n)
{
    char text[32];
    if (s->exact)
        snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    else
        prop_format_size((uint64_t)n, text);
    text[strcspn(text, "B")] = 0; /* plain numbers have no unit here */
    print_cell(s, text);
}

static void print_name(const struct iostat *s, int indent, const char *name)
{
    if (s->scripted)
        fputs(name, stdout);
    else
        printf("%*s%-*s", indent, "", s->width - indent, name);
}

/* size 0: it has no space of its own. */
static void print_line(const struct iostat *s, const struct look *k, struct json_object *vdev, int indent,
                       const char *name, uint64_t size, uint64_t alloc)
{
    struct counters c = rates(k, vdev);
    print_name(s, indent, name);
    if (size > 0 || s->exact) {
        print_number(s, (double)alloc);
        print_number(s, (double)(size - alloc));
    } else {
        print_cell(s, "-");
        print_cell(s, "-");
    }
    for (int i = 0; i < 2; i++)
        print_number(s, c.ops[i]);
    for (int i = 0; i < 2; i++)
        print_number(s, c.bytes[i]);
    putchar('\n');
}

static void print_vdev(const struct iostat *s, const struct look *k, struct json_object *vdev, int indent,
                       bool below)
{
    struct json_object *list = below ? vdev_children(vdev) : NULL;
    char buf[PATH_MAX];
    print_line(s, k, vdev, indent, vdev_name(&s->naming, vdev, buf, sizeof buf),
               json_unsigned(vdev, "size"), json_unsigned(vdev, "alloc"));
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        print_vdev(s, k, json_object_array_get_idx(list, i), indent + 2, true);
}

static void print_dashes(const struct iostat *s)
{
    if (s->scripted)
        return;
    for (int i = 0; i < s->width; i++)
        putchar('-');
    for (int cell = 0; cell < 6; cell++)
        print_cell(s, &"---------------"[s->exact ? 0 : EXACT_WIDTH - CELL_WIDTH]);
    putchar('\n');
}

/* Centred over two cells. */
static void print_title(const struct iostat *s, const char *title)
{
    int len = (int)strlen(title), spare = 2 * (s->exact ? EXACT_WIDTH : CELL_WIDTH) + 2 - len;
    printf("  %*s%s%*s", (spare + 1) / 2, "", title, spare / 2, "");
}

static void print_head(const struct iostat *s)
{
    static const char *const heads[] = {"alloc", "free", "read", "write", "read", "write"};
    if (s->scripted)
        return;
    printf("%*s", s->width, "");
    print_title(s, "capacity");
    print_title(s, "operations");
    print_title(s, "bandwidth");
    printf("\n%-*s", s->width, s->nvdevs > 0 ? "vdev" : "pool");
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        print_cell(s, heads[i]);
    putchar('\n');
    print_dashes(s);
}

static void print_section_title(const struct iostat *s, const char *title)
{
    if (!s->scripted) {
        print_name(s, 0, title);
        for (int cell = 0; cell < 6; cell++)
            print_cell(s, "-");
    }
    putchar('\n');
}

static void print_pool(const struct iostat *s, const struct look *k)
{
    struct json_object *root = json_member(k->now, "vdevs");
    print_line(s, k, root, 0, k->name, json_unsigned(k->now, "size"), json_unsigned(k->now, "alloc"));
    for (const struct vdev_section *v = vdev_sections; s->verbose && (v->class || v->member); v++) {
        struct json_object *list = vdev_section(root, v, false);
        size_t n = json_object_array_length(list);
        if (v->list_title && n > 0)
            print_section_title(s, v->list_title);
        for (size_t i = 0; i < n; i++)
            print_vdev(s, k, json_object_array_get_idx(list, i), 2, true);
        json_object_put(list);
    }
    if (s->verbose)
        print_dashes(s);
}

/* ---- Vdevs by name ---- */

static struct json_object *find_named(const struct vdev_naming *how, struct json_object *vdev,
                                      const char *name)
{
    struct json_object *list = vdev_children(vdev), *found = NULL;
    char buf[PATH_MAX], guid[32];
    snprintf(guid, sizeof guid, "%llu", json_unsigned(vdev, "guid"));
    if (strcmp(vdev_name(how, vdev, buf, sizeof buf), name) == 0 || strcmp(guid, name) == 0 ||
        strcmp(json_text(vdev, "path", ""), name) == 0)
        return vdev;
    for (size_t i = 0; list && i < json_object_array_length(list) && !found; i++)
        found = find_named(how, json_object_array_get_idx(list, i), name);
    return found;
}

static int check_vdevs(const struct iostat *s)
{
    const struct look *k = &s->looks[0];
    bool all = true;
    for (int i = 0; i < s->nvdevs; i++)
        all &= find_named(&s->naming, json_member(k->now, "vdevs"), s->vdevs[i]) != NULL;
    if (all)
        return 0;
    fprintf(stderr, "Expected either a list of pools, or list of vdevs in \"%s\", but got:\n", k->name);
    for (int i = 0; i < s->nvdevs; i++)
        if (!find_named(&s->naming, json_member(k->now, "vdevs"), s->vdevs[i]))
            fprintf(stderr, "\t%s (unknown)\n", s->vdevs[i]);
    return usage_error("no such vdev in pool");
}

/* ---- Rounds ---- */

static int take_look(const char *name, struct client *c, void *arg)
{
    struct iostat *s = arg;
    struct look *k = NULL;
    for (size_t i = 0; i < s->n && !k; i++)
        k = strcmp(s->looks[i].name, name) == 0 ? &s->looks[i] : NULL;
    if (!k && s->n == POOLS_MAX)
        return fail(-E2BIG, "cannot watch so many pools");
    if (!k) {
        k = &s->looks[s->n];
        if (!(k->name = strdup(name)))
            return fail(-ENOMEM, "cannot watch '%s'", name);
        s->n++;
    }
    json_object_put(k->before);
    k->before = k->now;
    k->now = NULL;
    int rc = client_call(c, "pool.status", NULL, NULL, NULL, &k->now);
    return rc ? fail(rc, "cannot get the devices of '%s'", name) : 0;
}

static int look_at_all(struct iostat *s)
{
    int missing = 0;
    if (s->npools == 0)
        return each_pool(0, NULL, NULL, take_look, s);
    int rc = each_named_pool(s->npools, s->pools, take_look, s, &missing);
    return missing > 0 ? 1 : rc;
}

static void measure_names(struct iostat *s)
{
    int width = NAME_WIDTH;
    for (size_t i = 0; i < s->n; i++) {
        int name = (int)strlen(s->looks[i].name);
        struct json_object *root = json_member(s->looks[i].now, "vdevs");
        if (s->verbose || s->nvdevs > 0)
            name = MAX(name, vdev_widest(&s->naming, root, 0));
        width = MAX(width, name);
    }
    s->width = width;
}

static void print_round(struct iostat *s)
{
    measure_names(s);
    if (s->round == 0 || (s->verbose && !s->head_once))
        print_head(s);
    for (int i = 0; i < s->nvdevs; i++) {
        struct look *k = &s->looks[0];
        print_vdev(s, k, find_named(&s->naming, json_member(k->now, "vdevs"), s->vdevs[i]), 0, false);
    }
    for (size_t i = 0; i < s->n && s->nvdevs == 0; i++)
        print_pool(s, &s->looks[i]);
    if (!s->verbose && (s->n > 1 || s->nvdevs > 0))
        print_dashes(s);
    s->round++;
}

static int one_round(void *arg)
{
    struct iostat *s = arg;
    int rc = look_at_all(s);
    if (rc == 0 && s->n == 0) {
        fprintf(stderr, "no pools available\n");
        return 1;
    }
    if (rc == 0)
        rc = check_vdevs(s);
    if (rc == 0)
        print_round(s);
    return rc;
}

/* ---- The command ---- */

static int parse(struct iostat *s, struct repeat *r, int argc, char **argv)
{
    int opt, rc = 0;
    while (rc == 0 && (opt = getopt(argc, argv, ":gHLnpPvyT:lqrwc")) != -1) {
        switch (opt) {
        case 'g': s->naming.guid = true; break;
        case 'H': s->scripted = true; break;
        case 'L': s->naming.follow = true; break;
        case 'n': s->head_once = true; break;
        case 'p': s->exact = true; break;
        case 'P': s->naming.full = true; break;
        case 'v': s->verbose = true; break;
        case 'y': s->skip_first = true; break;
        case 'T': rc = repeat_stamp(r, optarg); break;
        case 'l':
        case 'q':
        case 'r':
        case 'w':
        case 'c': rc = usage_error("-%c is not supported yet", opt); break;
        default: rc = usage_option(opt);
        }
    }
    return rc;
}

/* What follows is a list of pools, or a pool and vdevs of it. */
static int split_names(struct iostat *s, int argc, char **argv)
{
    char **names;
    size_t n, known = 0;
    int rc = client_pools(&names, &n);
    if (rc != 0)
        return fail(rc, "cannot list pools");
    while (known < (size_t)argc) {
        bool is_pool = false;
        for (size_t i = 0; i < n; i++)
            is_pool |= strcmp(names[i], argv[known]) == 0;
        if (!is_pool)
            break;
        known++;
    }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (argc > 0 && known == 0) {
        fprintf(stderr, "Unable to parse pools/vdevs list: there is no pool '%s'\n", argv[0]);
        return 1;
    }
    s->pools = argv;
    s->npools = known < (size_t)argc ? 1 : argc;
    s->vdevs = argv + s->npools;
    s->nvdevs = argc - s->npools;
    return 0;
}

int zpool_iostat(int argc, char **argv)
{
    static struct iostat s;
    struct repeat r = {0};
    int rc = parse(&s, &r, argc, argv);
    if (rc != 0)
        return rc;
    argc -= optind;
    argv += optind;
    for (int i = MAX(argc - 2, 0); i < argc; i++)
        if (strspn(argv[i], "0.") == strlen(argv[i]))
            return usage_error("interval cannot be zero");
    argc = repeat_parse(&r, argc, argv);
    rc = split_names(&s, argc, argv);
    if (rc == 0 && s.skip_first)
        rc = look_at_all(&s);
    if (rc == 0 && s.skip_first && r.interval > 0)
        repeat_sleep(&r);
    if (rc == 0)
        rc = repeat(&r, one_round, &s);
    for (size_t i = 0; i < s.n; i++) {
        json_object_put(s.looks[i].now);
        json_object_put(s.looks[i].before);
        free(s.looks[i].name);
    }
    return rc;
}
