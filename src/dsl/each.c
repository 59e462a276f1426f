/* Walking the tree of datasets. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct snap {
    uint64_t object, txg;
    char *name;
};

struct walk {
    dataset_each_fn *fn;
    void *arg;
    bool snapshots;
    int depth; /* left; -1 = all */
    struct dir **dirs;
    size_t n, cap;
};

/* ---- Snapshots, oldest first ---- */

static int cmp_snap(const void *a, const void *b)
{
    const struct snap *x = a, *y = b;

    if (x->txg != y->txg)
        return x->txg < y->txg ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void free_snaps(struct snap *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(s[i].name);
    free(s);
}

/* Only numbers and creation txgs are read here; the datasets are held one at a time later. */
static int read_txg(struct dsl *dsl, struct snap *s)
{
    uint64_t w[DS_WORDS];
    int rc = ds_read_words(dsl, s->object, w);

    if (rc == -ENOENT) { /* destroyed meanwhile: found out when it is to be held */
        s->txg = 0;
        return 0;
    }

    s->txg = rc == 0 ? w[DS_CTXG] : 0;
    return rc;
}

/* names_only: without numbers, in no order; reads nothing but the map of names. */
static int list_snaps(struct dataset *head, bool names_only, struct snap **out, size_t *count)
{
    struct dsl *dsl = head->dsl;
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    struct snap *list = NULL;
    size_t n = 0, cap = 0;
    int rc = dnode_hold(dsl->mos, head->w[DS_SNAPNAMES], &zap);

    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        if (e.name[0] == '%')
            continue;
        if (n == cap) {
            struct snap *grown = realloc(list, (cap = cap ? 2 * cap : 64) * sizeof *list);

            if (!grown) {
                rc = -ENOMEM;
                break;
            }
            list = grown;
        }
        list[n] = (struct snap){.object = e.first, .name = strdup(e.name)};
        rc = !list[n].name ? -ENOMEM : names_only ? 0 : read_txg(dsl, &list[n]);
        n++;
        if (rc != 0)
            break;
    }
    dnode_rele(zap);
    if (rc != -ENOENT) {
        free_snaps(list, n);
        return rc;
    }
    if (n > 1 && !names_only)
        qsort(list, n, sizeof *list, cmp_snap);
    *out = list;
    *count = n;
    return 0;
}

static int hold_snap(struct dataset *head, const char *name, struct dataset **out)
{
    DSL_READ_GUARD(head->dsl);

    return ds_hold_snapshot(head, name, out);
}

static int list_locked(struct dataset *head, bool names_only, struct snap **out, size_t *n)
{
    DSL_READ_GUARD(head->dsl);

    return list_snaps(head, names_only, out, n);
}

int dataset_each_snapshot_name(struct dataset *head, bool ordered, dataset_name_fn *fn, void *arg)
{
    struct snap *list;
    size_t n;
    int rc = list_locked(head, !ordered, &list, &n);

    if (rc != 0)
        return rc == -ENOENT ? 0 : rc; /* the file system is being destroyed */
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = fn(arg, list[i].name, list[i].txg);
    free_snaps(list, n);
    return rc;
}

static int each_snapshot(struct walk *w, struct dataset *head)
{
    struct snap *list;
    size_t n;
    int rc = list_locked(head, false, &list, &n);

    if (rc == -ENOENT) /* the file system is being destroyed */
        return 0;

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct dataset *snap;

        rc = hold_snap(head, list[i].name, &snap);
        if (rc == -ENOENT) { /* destroyed meanwhile */
            rc = 0;
            continue;
        }
        if (rc == 0) {
            rc = w->fn(w->arg, snap);
            dataset_rele(snap);
        }
    }
    free_snaps(list, n);
    return rc;
}

/* ---- Directories ---- */

static int collect(void *arg, struct dir *child)
{
    struct walk *w = arg;

    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        struct dir **grown = realloc(w->dirs, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        w->dirs = grown;
        w->cap = cap;
    }
    dir_ref(child);
    w->dirs[w->n++] = child;
    return 0;
}

static int hold_head(struct dir *d, struct dataset **head)
{
    DSL_READ_GUARD(d->dsl);

    return d->dead || d->w[DIR_HEAD] == 0 ? -ENOENT : ds_hold(d->dsl, d->w[DIR_HEAD], head);
}

static int children(struct walk *w, struct dir *d)
{
    DSL_READ_GUARD(d->dsl);

    return d->dead ? 0 : dir_each_child(d, false, true, collect, w);
}

static int each_dir(struct walk *up, struct dir *d)
{
    struct walk w = {.fn = up->fn, .arg = up->arg, .snapshots = up->snapshots,
                     .depth = up->depth > 0 ? up->depth - 1 : up->depth};
    struct dataset *head;
    int rc = hold_head(d, &head);

    if (rc == -ENOENT)
        return 0;
    if (rc != 0)
        return rc;
    rc = w.fn(w.arg, head);
    if (rc == 0 && w.snapshots)
        rc = each_snapshot(&w, head);
    if (rc == 0 && up->depth != 0)
        rc = children(&w, d);
    for (size_t i = 0; i < w.n; i++) {
        if (rc == 0)
            rc = each_dir(&w, w.dirs[i]);
        dir_rele(w.dirs[i]);
    }
    free(w.dirs);
    dataset_rele(head);
    return rc;
}

int dataset_each(struct dsl *dsl, const char *name, int depth, bool snapshots, dataset_each_fn *fn,
                 void *arg)
{
    struct walk w = {.fn = fn, .arg = arg, .snapshots = snapshots, .depth = depth};
    struct dataset *top;
    int rc = dataset_hold(dsl, name, &top);

    if (rc != 0)
        return rc;
    rc = dataset_is_snapshot(top) ? fn(arg, top) : each_dir(&w, top->dir);
    dataset_rele(top);
    return rc;
}
