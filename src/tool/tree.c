/* tarn tree and tarn du. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/tool_impl.h"
#include "util/hashmap.h"

/* ---- tree ---- */

struct tree {
    struct tool *t;
    bool all, folders_only, human, sizes, modes;
    uint64_t depth;
    uint64_t folders, files;
};

static void draw(const struct tree *r, const struct walk_entry *e)
{
    char buf[32], mode[11];
    for (size_t i = 0; i + 1 < e->depth; i++)
        printf("%s", e->more[i] == '|' ? "│   " : "    ");
    if (e->depth)
        printf("%s", e->last ? "└── " : "├── ");
    tool_mode_text(e->attr.mode, mode);
    tool_size(e->attr.size, r->human, buf);
    if (r->modes && r->sizes)
        printf("[%s %11s]  ", mode, buf);
    else if (r->modes || r->sizes)
        printf(r->modes ? "[%s]  " : "[%11s]  ", r->modes ? mode : buf);
    tool_print_name(r->t, stdout, e->depth ? e->name : e->path);
    if (S_ISLNK(e->attr.mode)) {
        char target[65536];
        int n = fs_readlink(e->fs, e->attr.ino, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        printf(" -> ");
        tool_print_name(r->t, stdout, target);
    }
    putchar('\n');
}

static int tree_visit(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct tree *r = arg;
    bool dir = S_ISDIR(e->attr.mode);
    if (when != WALK_ENTRY)
        return 0;
    if (e->depth && e->name[0] == '.' && !r->all)
        return 1;
    if (!dir && r->folders_only)
        return 0;
    if (e->depth) {
        r->folders += dir;
        r->files += !dir;
    }
    if (r->t->json)
        tool_row(r->t, tool_attr_row(e->path, &e->attr));
    else
        draw(r, e);
    return e->depth >= r->depth;
}

int tool_tree(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"directories", no_argument, NULL, TOOL_OPT}, {0}};
    struct tree r = {.t = t, .depth = UINT64_MAX};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "ahpsL:", longs)) != -1) {
        if (opt == '?')
            return 2;
        r.all |= opt == 'a';
        r.folders_only |= opt == TOOL_OPT;
        r.human |= opt == 'h';
        r.sizes |= opt == 's' || opt == 'h';
        r.modes |= opt == 'p';
        if (opt == 'L' && (!tool_number(optarg, &r.depth) || r.depth == 0))
            return tool_usage(t, "-L wants a number above 0");
    }
    if (optind == argc)
        return tool_usage(t, "missing target");
    for (int i = optind; i < argc; i++) {
        struct target x;
        if (target_open(t, argv[i], 0, &x) != 0)
            continue;
        walk_tree(t, x.fs, &x.attr, argv[i], tree_visit, &r);
        target_close(&x);
    }
    if (!t->json)
        printf("\n%llu director%s, %llu file%s\n", (unsigned long long)r.folders,
               r.folders == 1 ? "y" : "ies", (unsigned long long)r.files, r.files == 1 ? "" : "s");
    return 0;
}

/* ---- du ---- */

struct seen {
    struct hashmap_node node;
    uint64_t ino;
};

struct du {
    struct tool *t;
    bool all, human, apparent, bytes, total;
    uint64_t depth;
    uint64_t sum[4001]; /* by depth of the folder that is being added up */
    uint64_t everything;
    struct hashmap links; /* files with several names count once */
};

static bool counted(struct du *d, const struct fs_attr *a)
{
    uint64_t hash = hash_u64(a->ino);
    if (a->nlink < 2 || S_ISDIR(a->mode))
        return false;
    for (struct hashmap_node *n = hashmap_first(&d->links, hash); n; n = hashmap_next(n))
        if (container_of(n, struct seen, node)->ino == a->ino)
            return true;
    struct seen *s = calloc(1, sizeof *s);
    if (s) {
        s->ino = a->ino;
        hashmap_insert(&d->links, &s->node, hash);
    }
    return false;
}

static void forget(struct du *d)
{
    for (size_t i = 0; d->links.slots && i <= d->links.mask; i++)
        for (struct hashmap_node *n = d->links.slots[i], *next; n; n = next) {
            next = n->next;
            free(container_of(n, struct seen, node));
        }
    hashmap_destroy(&d->links);
}

static void print_sum(struct du *d, uint64_t sum, const char *path)
{
    char buf[32];
    if (d->t->json) {
        struct json_object *o = json_object_new_object();
        json_put_name(o, "path", path);
        json_put_number(o, d->apparent ? "size" : "allocated", sum);
        tool_row(d->t, o);
        return;
    }
    if (d->human)
        tool_size(sum, true, buf);
    else
        tool_size(d->bytes ? sum : (sum + 1023) / 1024, false, buf);
    printf("%s\t", buf);
    tool_print_name(d->t, stdout, path);
    putchar('\n');
}

static int du_visit(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct du *d = arg;
    bool dir = S_ISDIR(e->attr.mode);
    uint64_t own = d->apparent
                       ? (dir || S_ISREG(e->attr.mode) || S_ISLNK(e->attr.mode) ? e->attr.size : 0)
                       : e->attr.blocks * 512;
    if (when == WALK_ENTRY && dir) {
        d->sum[e->depth] = d->apparent ? 0 : own;
        return 0;
    }
    if (when == WALK_LEAVE)
        own = d->sum[e->depth];
    else if (counted(d, &e->attr))
        return 0;
    if (e->depth)
        d->sum[e->depth - 1] += own;
    else
        d->everything += own;
    if (e->depth <= d->depth && (dir || d->all || e->depth == 0))
        print_sum(d, own, e->path);
    return 0;
}

int tool_du(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"max-depth", required_argument, NULL, TOOL_OPT},
                                          {"apparent-size", no_argument, NULL, TOOL_OPT + 1},
                                          {"all", no_argument, NULL, 'a'},
                                          {"bytes", no_argument, NULL, 'b'},
                                          {"total", no_argument, NULL, 'c'},
                                          {"human-readable", no_argument, NULL, 'h'},
                                          {"summarize", no_argument, NULL, 's'},
                                          {0}};
    struct du d = {.t = t, .depth = UINT64_MAX};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "abchks", longs)) != -1) {
        if (opt == '?')
            return 2;
        d.all |= opt == 'a';
        d.apparent |= opt == 'b' || opt == TOOL_OPT + 1;
        d.bytes |= opt == 'b';
        d.total |= opt == 'c';
        d.human |= opt == 'h';
        if (opt == 's')
            d.depth = 0;
        if (opt == TOOL_OPT && !tool_number(optarg, &d.depth))
            return tool_usage(t, "--max-depth wants a number");
    }
    if (optind == argc)
        return tool_usage(t, "missing target");
    for (int i = optind; i < argc; i++) {
        struct target x;
        if (target_open(t, argv[i], 0, &x) != 0)
            continue;
        if (hashmap_init(&d.links, 64) == 0) {
            walk_tree(t, x.fs, &x.attr, argv[i], du_visit, &d);
            forget(&d);
        }
        target_close(&x);
    }
    if (d.total)
        print_sum(&d, d.everything, "total");
    return 0;
}
