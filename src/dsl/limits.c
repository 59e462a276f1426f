/*
 * How many file systems and snapshots there are below a directory, and may be (spec 04 11.4). The counts exist
 * only in directories at or below one where a limit was set, and in what came there since; they are kept
 * by dir_count() and move_counts().
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct sums {
    struct tx *tx; /* NULL: counts that are missing stay so */
    uint64_t filesystems, snapshots;
};

static int own_snapshots(struct dir *d, uint64_t *n)
{
    CLEANUP_DS struct dataset *head = NULL;
    struct dnode *zap;
    struct zap_cursor c;
    struct zap_entry e;
    int rc = ds_hold(d->dsl, d->w[DIR_HEAD], &head);

    if (rc == 0)
        rc = dnode_hold(d->dsl->mos, head->w[DS_SNAPNAMES], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        *n += e.name[0] != '%';
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int keep(struct dir *d, const struct sums *s)
{
    int rc = zapify(d->dsl, d->dn, s->tx);

    if (rc == 0)
        rc = zap_update(d->dn, KEY_FS_COUNT, 8, 1, &s->filesystems, s->tx);
    return rc ? rc : zap_update(d->dn, KEY_SNAP_COUNT, 8, 1, &s->snapshots, s->tx);
}

static int count_dir(struct dir *d, struct sums *s);

static int add_child(void *arg, struct dir *child)
{
    struct sums *up = arg, s = {.tx = up->tx};
    int rc = count_dir(child, &s);

    up->filesystems += s.filesystems + 1;
    up->snapshots += s.snapshots;
    return rc;
}

/* As deep as names are: DIR_DEPTH_MAX. */
static int count_dir(struct dir *d, struct sums *s)
{
    int rc = dir_zap_get(d, KEY_FS_COUNT, &s->filesystems);

    if (rc == 0)
        return dir_zap_get(d, KEY_SNAP_COUNT, &s->snapshots);
    if (rc != -ENOENT)
        return rc;
    rc = dir_each_child(d, false, false, add_child, s);
    if (rc == 0)
        rc = own_snapshots(d, &s->snapshots);
    return rc || !s->tx ? rc : keep(d, s);
}

int limits_counts(struct dir *d, uint64_t *filesystems, uint64_t *snapshots)
{
    struct sums s = {0};
    int rc = count_dir(d, &s);

    *filesystems = s.filesystems;
    *snapshots = s.snapshots;
    return rc;
}

int limits_count_from_now(struct dir *d, struct tx *tx)
{
    struct sums s = {.tx = tx};

    return count_dir(d, &s);
}

int limits_activate(struct dir *d, struct tx *tx)
{
    int rc = feature_refs(d->dsl, FEATURE_FILESYSTEM_LIMITS) == 0
                 ? feature_change(d->dsl, FEATURE_FILESYSTEM_LIMITS, 1, tx)
                 : 0;

    return rc ? rc : limits_count_from_now(d, tx);
}

/* ---- Checks ---- */

/* Does d keep counts, and how many more may there be? UINT64_MAX: any number. */
static bool room(struct dir *d, const char *key, const char *limit, uint64_t *n)
{
    uint64_t count, max;

    if (dir_zap_get(d, key, &count) != 0)
        return false;
    *n = UINT64_MAX;
    if (zap_get_u64(d->dsl->mos, d->w[DIR_PROPS], limit, &max) == 0 && max != PROP_NONE_MAX)
        *n = max > count ? max - count : 0;
    return true;
}

/* The reference's words for both limits. */
static int exceeded(void)
{
    return err_set(EDQUOT, "out of space");
}

int limits_check(struct dir *d, const struct dir *above, uint64_t filesystems, uint64_t snapshots)
{
    uint64_t n;

    for (; d && d != above; d = d->parent) {
        if (!room(d, KEY_FS_COUNT, "filesystem_limit", &n))
            return 0;
        if (filesystems > n)
            return exceeded();
        if (room(d, KEY_SNAP_COUNT, "snapshot_limit", &n) && snapshots > n)
            return exceeded();
    }
    return 0;
}

/* ---- Snapshots of many at once ---- */

static int by_dir(const void *a, const void *b)
{
    const struct limits_level *x = a, *y = b;

    return x->dir < y->dir ? -1 : x->dir > y->dir;
}

int limits_add_snapshot(struct limits_tally *t, struct dir *d)
{
    uint64_t n;

    for (; d && room(d, KEY_SNAP_COUNT, "snapshot_limit", &n); d = d->parent) {
        if (n == UINT64_MAX)
            continue;
        if (t->n == t->cap) {
            size_t cap = t->cap ? 2 * t->cap : 64;
            struct limits_level *more = realloc(t->level, cap * sizeof *more);

            if (!more)
                return -ENOMEM;
            t->level = more;
            t->cap = cap;
        }
        t->level[t->n++] = (struct limits_level){d->object, n};
    }
    return 0;
}

int limits_check_tally(struct limits_tally *t)
{
    if (t->n > 1)
        qsort(t->level, t->n, sizeof *t->level, by_dir);
    for (size_t i = 0, first = 0; i < t->n; i++) {
        if (t->level[i].dir != t->level[first].dir)
            first = i;
        if (i - first + 1 > t->level[i].room)
            return exceeded();
    }
    return 0;
}

void limits_tally_free(struct limits_tally *t)
{
    free(t->level);
}
