/* Taking snapshots (spec 04 9.2). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "nvlist/nvlist.h"
#include "util/cleanup.h"
#include "util/err.h"

/* The snapshot's bonus is the head's, frozen. */
static int make_dataset(struct dataset *head, struct tx *tx, uint64_t *object)
{
    struct object_params params = {.type = OT_DSL_DATASET, .bonus_type = OT_DSL_DATASET,
                                   .bonus_len = DS_WORDS * 8};
    uint64_t w[DS_WORDS];
    struct dnode *dn;
    int rc = object_create(head->dsl->mos, 0, &params, tx, &dn);

    if (rc != 0)
        return rc;
    memcpy(w, head->w, sizeof w);
    w[DS_NEXT] = head->object;
    w[DS_SNAPNAMES] = 0;
    w[DS_CHILDREN] = 1;
    w[DS_CTIME] = dsl_now(head->dsl);
    w[DS_CTXG] = tx->txg;
    w[DS_UNIQUE] = 0;
    w[DS_GUID] = dsl_random(head->dsl);
    do
        w[DS_FSID] = dsl_random(head->dsl) >> 8;
    while (w[DS_FSID] == 0);
    w[DS_NEXT_CLONES] = w[DS_PROPS] = w[DS_USERREFS] = 0;
    *object = dnode_object(dn);
    rc = dnode_bonus_set(dn, w, sizeof w, OT_DSL_DATASET, tx);
    dnode_rele(dn);
    return rc;
}

/* The snapshot takes the head's place behind the previous one. */
static int link_prev(struct dataset *head, uint64_t snap, struct tx *tx)
{
    CLEANUP_DS struct dataset *prev = NULL;
    struct dsl *dsl = head->dsl;
    int rc;

    if (head->w[DS_PREV] == 0)
        return 0; /* $ORIGIN's own */
    rc = ds_hold(dsl, head->w[DS_PREV], &prev);
    if (rc != 0)
        return rc;
    ds_dirty(prev);
    if (prev->w[DS_NEXT] == head->object) {
        prev->w[DS_NEXT] = snap;
        return 0;
    }
    rc = zap_int_del(dsl->mos, prev->w[DS_NEXT_CLONES], head->object, tx);
    return rc ? rc : dsl_set_add(dsl, &prev->w[DS_NEXT_CLONES], OT_NEXT_CLONES, snap, tx);
}

static int new_deadlist(struct dataset *head, struct tx *tx)
{
    struct dsl *dsl = head->dsl;
    uint64_t list, old_prev = head->w[DS_PREV_TXG];
    int rc = deadlist_clone(dsl, head->w[DS_DEADLIST], KEY_MAX, tx, &list);

    if (rc == 0)
        rc = deadlist_add_key(dsl, list, old_prev, tx);
    if (rc == 0)
        rc = bookmarks_add_keys(head, list, old_prev, tx);
    head->w[DS_DEADLIST] = list;
    return rc;
}

static void reserve_again(struct dataset *head)
{
    uint64_t r = head->dir->refreservation, unique = head->w[DS_UNIQUE];
    struct space s = {.used = (int64_t)(unique < r ? unique : r)};

    if (r != 0)
        dir_use(head->dir, USED_REFRSRV, &s);
}

int ds_snapshot(struct dataset *head, const char *name, struct tx *tx)
{
    CLEANUP_DS struct dataset *snap = NULL;
    struct dsl *dsl = head->dsl;
    uint64_t object;
    int rc = name[0] == '%' ? 0 : dir_count(head->dir, KEY_SNAP_COUNT, 1, tx);

    if (rc == 0)
        rc = make_dataset(head, tx, &object);
    if (rc == 0)
        rc = zap_add_u64(dsl->mos, head->w[DS_SNAPNAMES], name, object, tx);
    if (rc == 0)
        rc = ds_hold_snapshot(head, name, &snap);
    if (rc == 0)
        rc = ds_features_copy(head, snap, tx);
    if (rc == 0)
        rc = link_prev(head, object, tx);
    if (rc != 0)
        return rc;
    reserve_again(head);
    rc = new_deadlist(head, tx);
    head->w[DS_PREV] = object;
    head->w[DS_PREV_TXG] = tx->txg;
    head->w[DS_UNIQUE] = 0;
    head->w[DS_FLAGS] |= DS_FLAG_UNIQUE_ACCURATE;
    ds_dirty(head);
    ds_acct_reset(head);
    lineage_snapshotted(dsl, head->object, object);
    return rc;
}

/* ---- zfs snapshot ---- */

struct snapshot {
    const char *const *names;
    size_t n;
    const struct nvlist *props; /* or NULL */
    const char *tag;            /* of a temporary hold, or NULL */
    bool limited;               /* by snapshot_limit */
};

static int hold_head(struct dsl *dsl, const char *name, struct dataset **head, const char **snapname)
{
    char path[DATASET_NAME_MAX];
    const char *at = strchr(name, '@');

    snprintf(path, sizeof path, "%.*s", (int)(at - name), name);
    *snapname = at + 1;
    return ds_hold_name(dsl, path, head);
}

static int check_refreservation(struct dataset *head)
{
    uint64_t r = head->dir->refreservation, unique = head->w[DS_UNIQUE];
    uint64_t need = unique < r ? unique : r;

    if (need > dir_available(head->dir))
        return err_set(ENOSPC, "out of space");
    return 0;
}

static int check_one(struct dsl *dsl, const char *name, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    const char *snapname;
    uint64_t object, key;
    int rc = hold_head(dsl, name, &head, &snapname);

    if (rc != 0)
        return rc;
    rc = zap_get_u64(dsl->mos, head->w[DS_SNAPNAMES], snapname, &object);
    if (rc != -ENOENT)
        return rc ? rc : err_set(EEXIST, "dataset already exists");
    if (head->w[DS_FLAGS] & DS_FLAG_INCONSISTENT)
        return err_set(EBUSY, "dataset is busy");
    if (ds_zap_get(head, KEY_REMAP, &key) == 0)
        return err_set(ENOTSUP, "the pool has removed devices, which this version cannot keep track of");
    if (tx && (head->w[DS_PREV_TXG] >= tx->txg || (head->os && objset_dirty(head->os, tx->txg))))
        return -EAGAIN; /* one snapshot per txg, and none of what is not yet written */
    rc = deadlist_check(dsl, head->w[DS_DEADLIST]);
    return rc ? rc : check_refreservation(head);
}

static int check_limits(struct dsl *dsl, const struct snapshot *s)
{
    CLEANUP(limits_tally_free) struct limits_tally t = {0};
    int rc = 0;

    for (size_t i = 0; i < s->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *head = NULL;
        const char *snapname;

        rc = hold_head(dsl, s->names[i], &head, &snapname);
        if (rc == 0)
            rc = limits_add_snapshot(&t, head->dir);
    }
    return rc ? rc : limits_check_tally(&t);
}

static int snapshot_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct snapshot *s = arg;
    int rc = 0;

    for (size_t i = 0; i < s->n && rc == 0; i++)
        if ((rc = check_one(dsl, s->names[i], tx)) != 0)
            err_prefix(rc, "cannot create snapshot '%s'", s->names[i]);
    if (rc == 0 && s->limited && feature_refs(dsl, FEATURE_FILESYSTEM_LIMITS) > 0)
        rc = check_limits(dsl, s);
    return rc;
}

static int snapshot_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct snapshot *s = arg;
    int rc = 0;

    for (size_t i = 0; i < s->n && rc == 0; i++) {
        CLEANUP_DS struct dataset *head = NULL, *snap = NULL;
        const char *snapname;

        rc = hold_head(dsl, s->names[i], &head, &snapname);
        if (rc == 0)
            rc = ds_snapshot(head, snapname, tx);
        if (rc == 0)
            rc = ds_hold_snapshot(head, snapname, &snap);
        if (rc != 0)
            break;
        dir_changed_snapshots(head->dir, tx);
        dsl_event(dsl, "snapshot", snap, tx, " ");
        if (s->props)
            rc = prop_apply(snap, s->props, tx);
        if (rc == 0 && s->tag)
            rc = ds_keep_temporarily(snap, s->tag, tx);
    }
    return rc;
}

static int check_names(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = strchr(names[i], '@');
        int rc = dataset_name_check(names[i]);

        if (rc == 0 && !at)
            rc = err_set(EINVAL, "missing '@' delimiter in snapshot name");
        if (rc == 0 && at[1] == '%')
            rc = err_set(EINVAL, "invalid character %% in name");
        if (rc != 0)
            return err_prefix(rc, "cannot create snapshot '%s'", names[i]);
        for (size_t k = 0; k < i; k++)
            if (strncmp(names[i], names[k], (size_t)(at - names[i]) + 1) == 0)
                return err_set(EXDEV, "cannot create snapshot '%s': multiple snapshots of same fs not "
                               "allowed", names[i]);
    }
    return 0;
}

static int run(struct dsl *dsl, const char *const *names, size_t n, const struct nvlist *props,
               const char *tag, bool limited)
{
    struct snapshot s = {names, n, props, tag, limited};
    int rc = check_names(names, n);

    return rc ? rc : dsl_task_blocks(dsl, snapshot_check, snapshot_sync, &s, DSL_SPACE_NORMAL,
                                     (unsigned)(n * (3 + (props ? nvlist_count(props) : 0))));
}

int dataset_snapshot(struct dsl *dsl, const char *const *names, size_t n, const struct nvlist *props,
                     uint32_t uid)
{
    return run(dsl, names, n, props, NULL, uid != 0);
}

int dataset_snapshot_temporary(struct dsl *dsl, const char *name, const char *tag)
{
    return run(dsl, &name, 1, NULL, tag, false);
}
