/*
 * What changed between two snapshots of a file system (zfs diff).
 *
 * A change of a file changes the block of the meta-dnode that its dnode is in, so only objects in
 * blocks born since the older snapshot are compared. Objects are compared by their attributes: the
 * generation says whether it is still the same file, ctime whether it was changed, the path whether
 * it moved.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/diff.h"
#include "fs/fs_impl.h"
#include "pool/block.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/rangeset.h"

#define MASTER_NODE      1
#define DNODES_PER_BLOCK 32
#define DEPTH_MAX        1000
#define PATH_CAP         (64u << 10)

/* Of the directory looked into last, by object. */
struct entry {
    uint64_t object;
    char *name;
};

struct side {
    struct fs fs; /* of which only os, sa and root are there */
    uint64_t dir; /* whose entries these are; 0: none's */
    char *path;   /* of it; "" for the root */
    struct entry *entry;
    size_t n, cap;
};

struct diff {
    struct side from, to;
    struct rangeset *changed; /* objects */
    fs_diff_fn *fn;
    void *arg;
};

/* ---- Sides ---- */

static int side_open(struct side *s, struct dataset *ds)
{
    struct dnode *master;
    uint64_t sa = 0;
    int rc = dataset_objset(ds, &s->fs.os);
    if (rc == 0 && objset_type(s->fs.os) != OBJSET_ZPL)
        rc = err_set(EINVAL, "the dataset is not a file system");
    if (rc == 0)
        rc = dnode_hold(s->fs.os, MASTER_NODE, &master);
    if (rc < 0)
        return rc;
    rc = zap_get(master, "ROOT", &s->fs.root);
    if (rc == 0 && (rc = zap_get(master, "SA_ATTRS", &sa)) == -ENOENT)
        rc = 0; /* an old file system */
    dnode_rele(master);
    return rc ? rc : sa_table_open(&s->fs.sa, s->fs.os, sa);
}

static void forget_entries(struct side *s)
{
    while (s->n > 0)
        free(s->entry[--s->n].name);
    free(s->path);
    s->path = NULL;
    s->dir = 0;
}

static void side_close(struct side *s)
{
    forget_entries(s);
    free(s->entry);
    if (s->fs.sa.layouts)
        sa_table_close(&s->fs.sa);
}

/* -ENOENT: no file of that number, or one without a name. */
static int load(struct side *s, uint64_t object, struct zattr *a)
{
    struct dnode *dn;
    int rc = dnode_hold(s->fs.os, object, &dn);
    if (rc < 0)
        return rc;
    rc = zattr_load(&s->fs, dn, a);
    dnode_rele(dn);
    return rc == 0 && (a->links == 0 || (a->flags & PFLAG_XATTR)) ? -ENOENT : rc;
}

/* ---- Paths ---- */

static int cmp_entry(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->object, y = ((const struct entry *)b)->object;
    return x < y ? -1 : x > y;
}

static int add_entry(struct side *s, const struct zap_entry *e)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        struct entry *more = realloc(s->entry, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        s->entry = more;
        s->cap = cap;
    }
    s->entry[s->n].object = e->first & OBJECT_MASK;
    s->entry[s->n].name = strdup(e->name);
    return s->entry[s->n].name ? (s->n++, 0) : -ENOMEM;
}

static int read_entries(struct side *s, uint64_t dir)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    forget_entries(s);
    int rc = dnode_hold(s->fs.os, dir, &zap);
    if (rc < 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if ((rc = add_entry(s, &e)) != 0)
            break;
    dnode_rele(zap);
    if (rc != -ENOENT)
        return rc;
    if (s->n > 1)
        qsort(s->entry, s->n, sizeof *s->entry, cmp_entry);
    return 0;
}

/* The path of a directory, "" for the root. Directories above are read only up to the name. */
static int dir_path(struct side *s, uint64_t dir, char *buf, const char **out)
{
    char name[ZAP_NAME_MAX], *p = buf + PATH_CAP - 1;
    *p = 0;
    for (unsigned depth = 0; dir != s->fs.root; depth++) {
        struct zattr a;
        int rc = depth > DEPTH_MAX ? -ELOOP : load(s, dir, &a);
        if (rc == 0)
            rc = zap_find_value(s->fs.os, a.parent, dir, OBJECT_MASK, name, sizeof name);
        if (rc < 0)
            return rc;
        size_t n = strlen(name);
        if (n + 1 > (size_t)(p - buf))
            return -ENAMETOOLONG;
        p -= n;
        memcpy(p, name, n);
        *--p = '/';
        dir = a.parent;
    }
    *out = p;
    return 0;
}

/* Files that follow each other tend to be in the same directory. */
static int enter(struct side *s, uint64_t dir, char *buf)
{
    const char *path = NULL;
    if (s->dir == dir)
        return 0;
    int rc = read_entries(s, dir);
    if (rc == 0)
        rc = dir_path(s, dir, buf, &path);
    if (rc == 0)
        rc = (s->path = strdup(path)) ? 0 : -ENOMEM;
    if (rc == 0)
        s->dir = dir;
    else
        forget_entries(s);
    return rc;
}

/* Puts the path into buf, from the root on ("/" for itself). */
static int path_of(struct side *s, uint64_t object, uint64_t parent, char *buf, const char **out)
{
    const struct entry key = {.object = object}, *e = NULL;
    *out = object == s->fs.root ? "/" : NULL;
    if (*out)
        return 0;
    int rc = enter(s, parent, buf);
    if (rc == 0 && s->n > 0)
        e = bsearch(&key, s->entry, s->n, sizeof key, cmp_entry);
    if (rc != 0 || !e)
        return rc ? rc : -ENOENT;
    if (snprintf(buf, PATH_CAP, "%s/%s", s->path, e->name) >= (int)PATH_CAP)
        return -ENAMETOOLONG;
    *out = buf;
    return 0;
}

int fs_object_path(struct dataset *ds, uint64_t object, char *out, size_t cap)
{
    struct side s = {.dir = 0};
    struct zattr a;
    const char *path = NULL;
    CLEANUP_FREE char *buf = malloc(PATH_CAP);
    int rc = buf ? side_open(&s, ds) : -ENOMEM;
    if (rc == 0)
        rc = load(&s, object, &a);
    if (rc == 0)
        rc = path_of(&s, object, a.parent, buf, &path);
    if (rc == 0 && snprintf(out, cap, "%s", path) >= (int)cap)
        rc = -ENAMETOOLONG;
    side_close(&s);
    return rc;
}

/* ---- One object ---- */

static int report(struct diff *d, char what, const struct zattr *a, int64_t links, const char *path,
                  const char *new_path)
{
    const struct fs_change c = {.what = what,
                                .mode = (uint32_t)a->mode,
                                .links = links,
                                .ctime = {(time_t)a->ctime.sec, (long)a->ctime.nsec},
                                .path = path,
                                .new_path = new_path};
    return d->fn(d->arg, &c);
}

static bool same_time(const struct ztime *a, const struct ztime *b)
{
    return a->sec == b->sec && a->nsec == b->nsec;
}

/* It is on both sides. */
static int compare_both(struct diff *d, const struct zattr *a, const struct zattr *b,
                        const char *old, const char *new)
{
    if (a->gen != b->gen) {
        int rc = report(d, '-', a, 0, old, NULL);
        return rc ? rc : report(d, '+', b, 0, new, NULL);
    }
    if (same_time(&a->ctime,
                  &b->ctime)) /* a directory above it may have moved: that one is reported */
        return 0;
    int64_t links = S_ISDIR(b->mode) ? 0 : (int64_t)(b->links - a->links);
    if (links != 0) /* the name that is on both sides, if one is */
        return report(d, 'M', b, links, links > 0 ? old : new, NULL);
    return strcmp(old, new) != 0 ? report(d, 'R', b, 0, old, new) : report(d, 'M', b, 0, new, NULL);
}

static int compare(struct diff *d, uint64_t object)
{
    CLEANUP_FREE char *buf = malloc(2 * PATH_CAP);
    const char *old = NULL, *new = NULL;
    struct zattr a, b;
    int rc = buf ? load(&d->from, object, &a) : -ENOMEM;
    if (rc == 0)
        rc = path_of(&d->from, object, a.parent, buf, &old);
    if (rc < 0 && (rc != -ENOENT || old))
        return rc;
    rc = load(&d->to, object, &b);
    if (rc == 0)
        rc = path_of(&d->to, object, b.parent, buf + PATH_CAP, &new);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (old && new)
        return compare_both(d, &a, &b, old, new);
    return old ? report(d, '-', &a, 0, old, NULL) : new ? report(d, '+', &b, 0, new, NULL) : 0;
}

/* ---- Which objects ---- */

static int note_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct diff *d = arg;
    if (bm->object != OBJECT_META_DNODE || bm->level != 0)
        return 0;
    uint64_t first = bm->blkid * DNODES_PER_BLOCK;
    return rangeset_add(d->changed, first, first + DNODES_PER_BLOCK);
}

static int next_object(struct side *s, uint64_t *object)
{
    int rc = objset_next_object(s->fs.os, object);
    if (rc == -ENOENT)
        *object = UINT64_MAX;
    return rc == -ENOENT ? 0 : rc;
}

/* All objects of both sides in order; blocks of dnodes that are gone as a whole are no changed
 * blocks. */
static int compare_all(struct diff *d)
{
    uint64_t a = 0, b = 0;
    int rc = next_object(&d->from, &a);
    if (rc == 0)
        rc = next_object(&d->to, &b);
    while (rc == 0 && (a != UINT64_MAX || b != UINT64_MAX)) {
        uint64_t object = MIN(a, b);
        if (a != b || rangeset_contains(d->changed, object, object + 1))
            rc = compare(d, object);
        if (rc == 0 && a == object)
            rc = next_object(&d->from, &a);
        if (rc == 0 && b == object)
            rc = next_object(&d->to, &b);
    }
    return rc;
}

int fs_diff(struct dataset *from, struct dataset *to, fs_diff_fn *fn, void *arg)
{
    struct diff *d = calloc(1, sizeof *d);
    struct dataset_stats st;
    int rc = d ? dataset_stats(from, &st) : -ENOMEM;
    if (rc < 0) {
        free(d);
        return rc;
    }
    d->fn = fn;
    d->arg = arg;
    d->changed = rangeset_new();
    rc = d->changed ? side_open(&d->from, from) : -ENOMEM;
    if (rc == 0)
        rc = side_open(&d->to, to);
    if (rc == 0)
        rc = dataset_walk(to, st.creation_txg, note_block, d);
    if (rc == 0)
        rc = compare_all(d);
    side_close(&d->from);
    side_close(&d->to);
    rangeset_free(d->changed);
    free(d);
    return rc;
}
