/*
 * tarn diff: what is different between two trees, in the marks of zfs diff: + new, - gone, M
 * changed, R renamed. In two states of one dataset a file is known by its object number, so that a
 * rename is seen as one and an unchanged file need not be read; otherwise contents are compared.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dsl/dataset.h"
#include "tool/tool_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define CHUNK (1u << 20)

struct entry {
    char *path; /* below the target, "" = itself */
    struct fs_attr attr;
    struct entry *other; /* the same file in the other tree */
};

struct side {
    struct target x;
    struct entry *entry; /* by path, as walked: sorted within folders */
    size_t n, cap, prefix;
    int rc;
};

struct diff {
    struct tool *t;
    struct side side[2];
    bool same_dataset, brief;
    bool differ;
};

/* ---- Gathering ---- */

static int gather(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct side *s = arg;
    if (when != WALK_ENTRY)
        return 0;
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        void *grown = realloc(s->entry, cap * sizeof *s->entry);
        if (!grown)
            return -ENOMEM;
        s->entry = grown;
        s->cap = cap;
    }
    const char *below = e->path + s->prefix;
    while (*below == '/')
        below++;
    char *path = strdup(below);
    if (!path)
        return -ENOMEM;
    s->entry[s->n++] = (struct entry){path, e->attr, NULL};
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

static int by_file(const void *a, const void *b)
{
    const struct fs_attr *x = &(*(struct entry *const *)a)->attr,
                         *y = &(*(struct entry *const *)b)->attr;
    if (x->ino != y->ino)
        return x->ino < y->ino ? -1 : 1;
    return x->gen != y->gen ? (x->gen < y->gen ? -1 : 1) : 0;
}

/* ---- Comparing ---- */

static int contents_differ(struct diff *d, const struct entry *a, const struct entry *b)
{
    CLEANUP_FREE unsigned char *x = malloc(CHUNK), *y = malloc(CHUNK);
    struct fs *fs[2] = {d->side[0].x.fs, d->side[1].x.fs};
    if (!x || !y)
        return -ENOMEM;
    if (a->attr.size != b->attr.size)
        return 1;
    for (uint64_t off = 0; off < a->attr.size; off += CHUNK) {
        size_t n = (size_t)MIN((uint64_t)CHUNK, a->attr.size - off);
        err_clear();
        ssize_t i = fs_read_with(fs[0], a->attr.ino, off, x, n, FS_READ_NOATIME);
        ssize_t k = i < 0 ? 0 : fs_read_with(fs[1], b->attr.ino, off, y, n, FS_READ_NOATIME);
        if (i < 0 || k < 0)
            return (int)(i < 0 ? i : k);
        if (i != k || memcmp(x, y, (size_t)i) != 0)
            return 1;
    }
    return 0;
}

static int targets_differ(struct diff *d, const struct entry *a, const struct entry *b)
{
    CLEANUP_FREE char *x = malloc(65536), *y = malloc(65536);
    if (!x || !y)
        return -ENOMEM;
    int n = fs_readlink(d->side[0].x.fs, a->attr.ino, x, 65536);
    int m = n < 0 ? 0 : fs_readlink(d->side[1].x.fs, b->attr.ino, y, 65536);
    if (n < 0 || m < 0)
        return n < 0 ? n : m;
    return n != m || memcmp(x, y, (size_t)n) != 0;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* 0 equal, 1 not, or an error. */
static int differs(struct diff *d, const struct entry *a, const struct entry *b)
{
    const struct fs_attr *x = &a->attr, *y = &b->attr;
    bool same_file = d->same_dataset && x->ino == y->ino && x->gen == y->gen;
    if (same_file && same_time(&x->ctime, &y->ctime) && same_time(&x->mtime, &y->mtime) &&
        x->size == y->size && x->mode == y->mode)
        return 0;
    if (x->mode != y->mode || x->uid != y->uid || x->gid != y->gid || x->rdev != y->rdev)
        return 1;
    if (same_file)
        return S_ISDIR(x->mode) && same_time(&x->mtime, &y->mtime) ? 0 : 1;
    if (S_ISREG(x->mode))
        return contents_differ(d, a, b);
    return S_ISLNK(x->mode) ? targets_differ(d, a, b) : 0;
}

static char letter(uint32_t mode)
{
    char c = tool_type_letter(mode);
    return c == '-'   ? 'F'
           : c == 'd' ? '/'
           : c == 'l' ? '@'
           : c == 'p' ? '|'
           : c == 's' ? '='
           : c == 'c' ? 'C'
                      : 'B';
}

static void say(struct diff *d, char mark, const struct entry *e, const struct entry *renamed)
{
    d->differ = true;
    if (d->t->json) {
        struct json_object *o = json_object_new_object();
        char text[2] = {mark, '\0'};
        json_put_text(o, "change", text);
        json_put_text(o, "type", tool_type_word(e->attr.mode));
        json_put_name(o, "path", e->path);
        if (renamed)
            json_put_name(o, "new_path", renamed->path);
        tool_row(d->t, o);
        return;
    }
    if (d->brief)
        return;
    printf("%c\t%c\t", mark, letter(e->attr.mode));
    tool_print_name(d->t, stdout, *e->path ? e->path : ".");
    if (renamed) {
        printf(" -> ");
        tool_print_name(d->t, stdout, renamed->path);
    }
    putchar('\n');
}

static void pair(struct diff *d, struct entry *a, struct entry *b)
{
    int r = (a->attr.mode ^ b->attr.mode) & S_IFMT ? 2 : differs(d, a, b);
    a->other = b;
    b->other = a;
    if (r < 0) {
        tool_error(d->t, r, "%s", a->path);
        d->t->status = 2;
    } else if (r == 2) {
        say(d, '-', a, NULL);
        say(d, '+', b, NULL);
    } else if (r == 1) {
        say(d, 'M', a, NULL);
    }
}

/* Files that have another path now: found by object number among those left over. */
static int match_renames(struct diff *d)
{
    struct entry **list[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    for (int s = 0; s < 2; s++) {
        list[s] = calloc(d->side[s].n + 1, sizeof **list);
        for (size_t i = 0; list[s] && i < d->side[s].n; i++)
            if (!d->side[s].entry[i].other)
                list[s][n[s]++] = &d->side[s].entry[i];
        if (list[s])
            qsort(list[s], n[s], sizeof **list, by_file);
    }
    for (size_t i = 0, k = 0; list[0] && list[1] && i < n[0] && k < n[1];) {
        int c = by_file(&list[0][i], &list[1][k]);
        if (c == 0) {
            list[0][i]->other = list[1][k];
            list[1][k]->other = list[0][i];
        }
        i += c <= 0;
        k += c >= 0;
    }
    int rc = list[0] && list[1] ? 0 : -ENOMEM;
    free(list[0]);
    free(list[1]);
    return rc;
}

static void compare_lists(struct diff *d)
{
    struct side *a = &d->side[0], *b = &d->side[1];
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        int c = strcmp(a->entry[i].path, b->entry[k].path);
        struct entry *x = &a->entry[i], *y = &b->entry[k];
        if (c == 0 && (!d->same_dataset || by_file(&x, &y) == 0))
            pair(d, &a->entry[i], &b->entry[k]);
        i += c <= 0;
        k += c >= 0;
    }
    if (d->same_dataset)
        match_renames(d);
    for (size_t i = 0; i < a->n; i++) {
        struct entry *e = &a->entry[i];
        if (!e->other)
            say(d, '-', e, NULL);
        else if (strcmp(e->path, e->other->path) != 0)
            say(d, 'R', e, e->other);
    }
    for (size_t k = 0; k < b->n; k++)
        if (!b->entry[k].other)
            say(d, '+', &b->entry[k], NULL);
}

/* ---- The command ---- */

static bool one_dataset(const struct target *a, const struct target *b)
{
    size_t n = strcspn(a->dataset, "@"), m = strcspn(b->dataset, "@");
    return a->pool == b->pool && n == m && strncmp(a->dataset, b->dataset, n) == 0;
}

static void free_side(struct side *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->entry[i].path);
    free(s->entry);
    target_close(&s->x);
}

int tool_diff(struct tool *t, int argc, char **argv)
{
    struct diff d = {.t = t};
    int opt, rc = 0;
    while ((opt = tool_getopt(t, argc, argv, "qr", NULL)) != -1) {
        if (opt == '?')
            return 2;
        d.brief |= opt == 'q';
    }
    if (argc - optind != 2)
        return tool_usage(t, "two targets are wanted");
    for (int s = 0; s < 2 && rc == 0; s++) {
        struct side *side = &d.side[s];
        rc = target_open(t, argv[optind + s], 0, &side->x);
        side->prefix = strlen(argv[optind + s]);
        if (rc == 0)
            rc = walk_tree(t, side->x.fs, &side->x.attr, argv[optind + s], gather, side);
        if (side->n)
            qsort(side->entry, side->n, sizeof *side->entry, by_path);
    }
    if (t->status)
        t->status = 2;
    if (rc == 0) {
        d.same_dataset = one_dataset(&d.side[0].x, &d.side[1].x);
        compare_lists(&d);
        if (d.brief && d.differ && !t->json)
            printf("Files %s and %s differ\n", argv[optind], argv[optind + 1]);
        t->status = t->status ? t->status : d.differ;
    }
    free_side(&d.side[0]);
    free_side(&d.side[1]);
    return 0;
}
