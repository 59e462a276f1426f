/* User holds: tags on a snapshot that keep it from being destroyed (spec 04 13). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define TAG_MAX 256 /* with NUL */

int ds_userrefs(struct dataset *snap, uint64_t *n)
{
    struct dnode *zap;
    int rc;

    *n = 0;
    if (snap->w[DS_USERREFS] == 0)
        return 0;
    rc = dnode_hold(snap->dsl->mos, snap->w[DS_USERREFS], &zap);
    if (rc != 0)
        return rc;
    rc = zap_count(zap, n);
    dnode_rele(zap);
    return rc;
}

static int find_tag(struct dataset *snap, const char *tag)
{
    uint64_t when;

    if (snap->w[DS_USERREFS] == 0)
        return -ENOENT;
    return zap_get_u64(snap->dsl->mos, snap->w[DS_USERREFS], tag, &when);
}

/* A deferred snapshot goes with its last hold and clone. */
int ds_destroy_deferred(struct dataset *snap, struct tx *tx)
{
    int rc;

    if (snap == snap->dsl->origin || !(snap->w[DS_FLAGS] & DS_FLAG_DEFER_DESTROY) ||
        ds_snapshot_destroy_check(snap) != 0)
        return 0;
    dsl_event(snap->dsl, "destroy", snap, tx, " ");
    rc = ds_snapshot_destroy(snap, tx);
    dir_changed_snapshots(snap->dir, tx);
    return rc;
}

#define MOS_DIRECTORY 1

/* The list of temporary holds, in the object directory. */
static int temporary_list(struct dsl *dsl, uint64_t *list)
{
    return zap_get_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", list);
}

static void temporary_key(const struct dataset *snap, const char *tag, char out[TAG_MAX + 20])
{
    snprintf(out, TAG_MAX + 20, "%llx-%s", (unsigned long long)snap->object, tag);
}

/* -ENOENT: it was not temporary. */
static int temporary_remove(struct dataset *snap, const char *tag, struct tx *tx)
{
    char key[TAG_MAX + 20];
    uint64_t list;
    int rc = temporary_list(snap->dsl, &list);

    temporary_key(snap, tag, key);
    return rc ? rc : zap_del(snap->dsl->mos, list, key, tx);
}

int ds_userref_remove(struct dataset *snap, const char *tag, struct tx *tx)
{
    int rc = zap_del(snap->dsl->mos, snap->w[DS_USERREFS], tag, tx);

    if (rc != 0)
        return rc;
    rc = temporary_remove(snap, tag, tx);
    if (rc == -ENOENT)
        rc = 0;
    return rc ? rc : ds_destroy_deferred(snap, tx);
}

/* ---- zfs hold, zfs release ---- */

struct refs {
    const char *const *names;
    size_t n;
    const char *tag;
    const char *what; /* the beginning of a refusal's sentence */
    bool release;
    char text[ERR_TEXT_MAX]; /* a line for each that is refused */
};

/* It would go with its last hold, but somebody is in it. */
static int check_in_use(struct dataset *snap)
{
    uint64_t n;
    int rc = ds_userrefs(snap, &n);

    if (rc == 0 && n == 1 && (snap->w[DS_FLAGS] & DS_FLAG_DEFER_DESTROY) &&
        snap->w[DS_CHILDREN] <= 1 && ds_busy(snap))
        rc = err_set(EBUSY, "dataset is busy");
    return rc;
}

static int check_one(struct dsl *dsl, const struct refs *r, const char *name)
{
    CLEANUP_DS struct dataset *snap = NULL;
    int rc = ds_hold_name(dsl, name, &snap);

    if (rc == -ENOENT)
        return err_set(ENOENT, "dataset does not exist");
    if (rc != 0)
        return rc;
    if (!ds_is_snapshot(snap))
        return err_set(EINVAL, "operation not applicable to datasets of this type");
    rc = find_tag(snap, r->tag);
    if (rc == 0 && !r->release)
        return err_set(EEXIST, "tag already exists on this dataset");
    if (rc == -ENOENT && r->release)
        return err_set(ESRCH, "no such tag on this dataset");
    if (rc == 0)
        return check_in_use(snap);
    return rc == -ENOENT ? 0 : rc;
}

static int refs_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct refs *r = arg;
    size_t used = 0;
    int first = 0;

    for (size_t i = 0; i < r->n; i++) {
        int rc = check_one(dsl, r, r->names[i]);

        if (rc != 0 && used + ERR_LINE_MAX < sizeof r->text)
            used += (size_t)snprintf(r->text + used, sizeof r->text - used, "%s%s '%s': %s",
                                     used ? "\n" : "", r->what, r->names[i], err_text(rc));
        first = first ? first : rc;
    }
    return first ? err_set(-first, "%s", r->text) : 0;
}

static int add_tag(struct dataset *snap, const char *tag, bool temporary, struct tx *tx)
{
    struct dsl *dsl = snap->dsl;
    uint64_t n;
    int rc = 0;

    if (snap->w[DS_USERREFS] == 0) {
        rc = zap_create_simple(dsl->mos, OT_USERREFS, 0, tx, &snap->w[DS_USERREFS]);
        ds_dirty(snap);
    }
    if (rc == 0)
        rc = zap_add_u64(dsl->mos, snap->w[DS_USERREFS], tag, dsl_now(dsl), tx);
    if (rc == 0)
        rc = ds_userrefs(snap, &n);
    if (rc == 0)
        dsl_event(dsl, "hold", snap, tx, "tag=%s temp=%d refs=%llu", tag, temporary, (unsigned long long)n);
    return rc;
}

int ds_keep_temporarily(struct dataset *snap, const char *tag, struct tx *tx)
{
    struct dsl *dsl = snap->dsl;
    char key[TAG_MAX + 20];
    uint64_t list;
    int rc = temporary_list(dsl, &list);

    if (rc == -ENOENT) {
        rc = zap_create_simple(dsl->mos, OT_USERREFS, 0, tx, &list);
        if (rc == 0)
            rc = zap_add_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", list, tx);
    }
    temporary_key(snap, tag, key);
    if (rc == 0)
        rc = zap_add_u64(dsl->mos, list, key, dsl_now(dsl), tx);
    if (rc == 0)
        rc = add_tag(snap, tag, true, tx);
    if (rc != 0)
        return rc;
    snap->w[DS_FLAGS] |= DS_FLAG_DEFER_DESTROY;
    ds_dirty(snap);
    dsl_event(dsl, "defer_destroy", snap, tx, " ");
    return 0;
}

static int remove_tag(struct dataset *snap, const char *tag, struct tx *tx)
{
    uint64_t n;
    int rc = ds_userrefs(snap, &n);

    if (rc == 0)
        dsl_event(snap->dsl, "release", snap, tx, "tag=%s refs=%llu", tag,
                  (unsigned long long)n - 1);
    return rc ? rc : ds_userref_remove(snap, tag, tx);
}

static int refs_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct refs *r = arg;
    int rc = 0;

    for (size_t i = 0; i < r->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *snap = NULL;

        rc = ds_hold_name(dsl, r->names[i], &snap);
        if (rc == 0)
            rc = r->release ? remove_tag(snap, r->tag, tx) : add_tag(snap, r->tag, false, tx);
    }
    return rc;
}

static int run(struct dsl *dsl, struct refs *r)
{
    if (strlen(r->tag) >= TAG_MAX)
        return err_set(E2BIG, "%s '%s': tag too long", r->what, r->n ? r->names[0] : "");
    return dsl_task_blocks(dsl, refs_check, refs_sync, r, DSL_SPACE_RESERVED, (unsigned)(2 * r->n));
}

int dataset_userref_add(struct dsl *dsl, const char *const *names, size_t n, const char *tag)
{
    struct refs r = {.names = names, .n = n, .tag = tag, .what = "cannot hold snapshot"};

    return run(dsl, &r);
}

int dataset_userref_remove(struct dsl *dsl, const char *const *names, size_t n, const char *tag)
{
    struct refs r = {.names = names,
                     .n = n,
                     .tag = tag,
                     .release = true,
                     .what = "cannot release hold from snapshot"};

    return run(dsl, &r);
}

/* ---- zfs holds ---- */

struct userref {
    char *tag;
    uint64_t when; /* seconds */
};

struct userrefs {
    struct userref *ref;
    size_t n, cap;
};

static void userrefs_free(struct userrefs *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->ref[i].tag);
    free(l->ref);
}

static int userrefs_add(struct userrefs *l, const struct zap_entry *e)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct userref *grown = realloc(l->ref, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        l->ref = grown;
        l->cap = cap;
    }
    l->ref[l->n] = (struct userref){strdup(e->name), e->first};
    return l->ref[l->n].tag ? (l->n++, 0) : -ENOMEM;
}

static int userrefs_load(struct dataset *snap, struct userrefs *l)
{
    DSL_READ_GUARD(snap->dsl);
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc;

    if (snap->dead || snap->w[DS_USERREFS] == 0)
        return 0;
    rc = dnode_hold(snap->dsl->mos, snap->w[DS_USERREFS], &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if ((rc = userrefs_add(l, &e)) != 0)
            break;
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

/* fn may wait for its reader, so it is called without the lock. */
int dataset_userref_each(struct dataset *snap, dataset_userref_fn *fn, void *arg)
{
    CLEANUP(userrefs_free) struct userrefs l = {0};
    int rc = userrefs_load(snap, &l);

    for (size_t i = 0; i < l.n && rc == 0; i++)
        rc = fn(arg, l.ref[i].tag, l.ref[i].when);
    return rc;
}
