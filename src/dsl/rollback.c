/* Rolling back to the newest snapshot (spec 04 9.8). Step numbers are the spec's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct rollback {
    struct dataset *head, *snap;
};

static void rollback_rele(struct rollback *r)
{
    ds_rele(r->head);
    ds_rele(r->snap);
}
#define CLEANUP_ROLLBACK CLEANUP(rollback_rele)

static int rollback_hold(struct dsl *dsl, const char *name, struct rollback *r)
{
    int rc = ds_hold_name(dsl, name, &r->snap);

    if (rc == 0 && !ds_is_snapshot(r->snap))
        rc = err_set(EINVAL, "not a snapshot");
    return rc ? rc : ds_hold(dsl, r->snap->dir->w[DIR_HEAD], &r->head);
}

/* What has been written must be on disk, and nothing may be on its way. */
static bool is_dirty(const struct dataset *head, const struct tx *tx)
{
    for (uint64_t txg = tx->txg; head->os && txg < tx->txg + 3; txg++)
        if (objset_dirty(head->os, txg))
            return true;
    return false;
}

static int check_space(const struct rollback *r)
{
    uint64_t reserve = r->head->dir->refreservation, unique = r->head->w[DS_UNIQUE];
    uint64_t need = unique < reserve ? unique : reserve, quota = r->head->dir->refquota;

    if (quota != 0 && r->snap->w[DS_REF] > quota)
        return err_set(EDQUOT, "the snapshot is larger than the file system's refquota");
    if (need > dir_available(r->head->dir))
        return err_set(ENOSPC, "out of space");
    return 0;
}

static int rollback_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_ROLLBACK struct rollback r = {0};
    struct objset *os;
    uint64_t newest;
    int rc = rollback_hold(dsl, arg, &r);

    if (rc != 0)
        return rc;
    if (r.head->w[DS_PREV] != r.snap->object)
        return err_set(EEXIST, "more recent snapshots or bookmarks exist");
    rc = bookmarks_newest(r.head, &newest);
    if (rc == 0 && newest > r.snap->w[DS_CTXG])
        return err_set(EEXIST, "more recent snapshots or bookmarks exist");
    if (rc == 0 && ds_zap_get(r.head, KEY_REMAP, &newest) == 0)
        return err_set(ENOTSUP, "the pool has removed devices, which this version cannot keep track of");
    if (rc == 0)
        rc = check_space(&r);
    if (rc == 0)
        rc = deadlist_check(dsl, r.head->w[DS_DEADLIST]);
    if (rc == 0)
        rc = ds_zil_check(r.head);
    if (rc == 0)
        rc = ds_objset(r.snap, &os); /* readable: later it must not fail */
    if (rc == 0)
        rc = ds_objset(r.head, &os);
    if (rc == 0 && tx && (r.snap->w[DS_CTXG] >= tx->txg || is_dirty(r.head, tx)))
        rc = -EAGAIN;
    return rc;
}

/* Steps 1 and 2: what was written since goes. */
static int free_since(const struct rollback *r, struct tx *tx)
{
    struct dataset *head = r->head;
    struct dsl *dsl = head->dsl;
    int64_t reserve = (int64_t)head->dir->refreservation, unique = (int64_t)head->w[DS_UNIQUE];
    struct space gone, minus = {0}, reserved = {.used = reserve < unique ? reserve : unique}, snap;
    int rc = deadlist_totals(dsl, head->w[DS_DEADLIST], &gone);

    if (rc == 0)
        rc = deadlist_space(dsl, head->w[DS_DEADLIST], head->dir->origin_txg, KEY_MAX, &snap);
    if (rc == 0)
        rc = ds_zil_free(head, tx);
    if (rc != 0)
        return rc;
    gone.used += (int64_t)(head->w[DS_REF] - r->snap->w[DS_REF]);
    gone.comp += (int64_t)(head->w[DS_COMP] - r->snap->w[DS_COMP]);
    gone.uncomp += (int64_t)(head->w[DS_UNCOMP] - r->snap->w[DS_UNCOMP]);
    rc = ds_free_tree(head, &gone, tx);
    space_add(&minus, &gone, -1);
    dir_use(head->dir, USED_HEAD, &minus);
    dir_transfer(head->dir, -snap.used, USED_HEAD, USED_SNAP);
    dir_use(head->dir, USED_REFRSRV, &reserved);
    return rc;
}

/* Steps 3 to 6. */
static int take_over(const struct rollback *r, struct tx *tx)
{
    struct dataset *head = r->head, *snap = r->snap;
    uint64_t old = head->w[DS_DEADLIST], list;
    int rc = deadlist_clone(head->dsl, old, snap->w[DS_CTXG], tx, &list);

    if (rc == 0)
        rc = deadlist_free(head->dsl, old, tx);
    if (rc != 0)
        return rc;
    head->w[DS_DEADLIST] = list;
    memcpy(&head->w[DS_REF], &snap->w[DS_REF], 3 * 8);
    memcpy(&head->w[DS_BP], &snap->w[DS_BP], BLKPTR_SIZE);
    head->w[DS_UNIQUE] = snap->w[DS_UNIQUE] = 0;
    ds_dirty(head);
    ds_dirty(snap);
    rc = ds_features_become(head, snap, tx);
    if (rc == 0)
        rc = bookmarks_rolled_back(head, snap->w[DS_CTXG], tx);
    if (rc == 0)
        rc = dir_drop_livelist(head->dir, tx);
    ds_acct_reset(head);
    return rc;
}

static int rollback_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_ROLLBACK struct rollback r = {0};
    struct objset *os;
    int rc = rollback_hold(dsl, arg, &r);

    if (rc == 0)
        rc = free_since(&r, tx);
    if (rc == 0)
        rc = take_over(&r, tx);
    if (rc == 0)
        rc = ds_objset(r.head, &os);
    if (rc == 0)
        rc = objset_reset(os, ds_bp(r.head));
    if (rc == 0)
        rc = ds_zil_clear(r.head, tx); /* 7 */
    if (rc == 0)
        dsl_event(dsl, "rollback", r.head, tx, " ");
    return rc;
}

int dataset_rollback(struct dsl *dsl, const char *snapshot)
{
    int rc = dataset_name_check(snapshot);

    if (rc == 0 && !strchr(snapshot, '@'))
        rc = err_set(EINVAL, "not a snapshot");
    return rc ? rc : dsl_task(dsl, rollback_check, rollback_sync, (void *)(uintptr_t)snapshot,
                              DSL_SPACE_RESERVED);
}
