/* Destroying file systems and volumes (spec 04 9.6). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/err.h"

#define ZIL_LOG_OFFSET   16  /* of the header: the pointer to the first block (06 17.1) */
#define ZIL_FLAGS_OFFSET 152
#define OBJSET_ZIL       512 /* of the header in the set's block */

/* The intent log's header, from memory or from the set's block. */
static int zil_header(struct dataset *ds, unsigned char out[OBJSET_ZIL_HEADER_SIZE], bool *big)
{
    struct bookmark bm = {ds->object, 0, -1, 0};
    struct buf *block;
    int rc;

    memset(out, 0, OBJSET_ZIL_HEADER_SIZE);
    *big = BYTES_HOST_BIG;
    if (ds->os) {
        objset_zil_header(ds->os, out);
        return 0;
    }
    if (bp_hole(ds_bp(ds)))
        return 0;
    rc = block_read(ds->dsl->pool, ds_bp(ds), &bm, &block);
    if (rc != 0)
        return rc;
    *big = bp_big_endian(ds_bp(ds));
    if (block->size >= OBJSET_ZIL + OBJSET_ZIL_HEADER_SIZE)
        memcpy(out, block->data + OBJSET_ZIL, OBJSET_ZIL_HEADER_SIZE);
    buf_unref(block);
    return 0;
}

int ds_zil_check(struct dataset *ds)
{
    unsigned char header[OBJSET_ZIL_HEADER_SIZE];
    bool big;
    int rc = zil_header(ds, header, &big);

    if (rc == 0 && (get_u64(header + ZIL_FLAGS_OFFSET, big) & 1))
        rc = err_set(EBUSY, "the dataset has an intent log that has not been replayed");
    return rc;
}

/* What is left of a log that needs no replay is one block, never written. */
int ds_zil_free(struct dataset *ds, struct tx *tx)
{
    unsigned char header[OBJSET_ZIL_HEADER_SIZE];
    struct blkptr bp;
    bool big;
    int rc = zil_header(ds, header, &big);

    if (rc != 0)
        return rc;
    bp_decode(&bp, header + ZIL_LOG_OFFSET, big);
    return bp_hole(&bp) ? 0 : block_free(ds->dsl->pool, tx->txg, NULL, &bp);
}

/* A set that was taken over from a snapshot must not have its log: what replays it would not be true. */
int ds_zil_clear(struct dataset *ds, struct tx *tx)
{
    static const unsigned char zero[OBJSET_ZIL_HEADER_SIZE];
    unsigned char header[OBJSET_ZIL_HEADER_SIZE];
    struct objset *os;
    int rc = ds_objset(ds, &os);

    if (rc != 0)
        return rc;
    objset_zil_header(os, header);
    if (memcmp(header, zero, sizeof header) != 0)
        objset_set_zil_header(os, zero, tx);
    return 0;
}

/* Step 3. The set of clones may lack an entry in old pools. */
static int unlink_origin(struct dataset *head, struct tx *tx)
{
    CLEANUP_DS struct dataset *prev = NULL;
    struct dsl *dsl = head->dsl;
    int rc = ds_hold(dsl, head->w[DS_PREV], &prev);

    if (rc != 0)
        return rc;
    if (prev->w[DS_CHILDREN] < 2)
        return err_set(EBADE, "the origin of dataset %llu counts no clones",
                       (unsigned long long)head->object);
    if (prev->w[DS_NEXT_CLONES] != 0)
        rc = zap_int_del(dsl->mos, prev->w[DS_NEXT_CLONES], head->object, tx);
    prev->w[DS_CHILDREN]--;
    ds_dirty(prev);
    if (rc == 0 && prev->dir->w[DIR_CLONES] != 0)
        rc = zap_int_del(dsl->mos, prev->dir->w[DIR_CLONES], head->object, tx);
    return rc == -ENOENT ? 0 : rc;
}

/* ---- Contents ---- */

struct kill {
    struct dataset *head;
    struct tx *tx;
    struct space sum;
};

static int kill_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct kill *k = arg;
    struct space s;

    if (bp_hole(bp) || bp_redacted(bp) || bp_alloc_birth(bp) <= k->head->w[DS_PREV_TXG])
        return 0;
    space_of_bp(k->head->dsl->pool, bp, &s);
    space_add(&k->sum, &s, 1);
    return block_free(k->head->dsl->pool, k->tx->txg, NULL, bp);
}

/* Without the feature for doing it in the background. */
static int free_now(struct dataset *head, struct tx *tx)
{
    struct kill k = {head, tx, {0}};

    return objset_walk(head->dsl->pool, head->object, ds_bp(head), head->w[DS_PREV_TXG], kill_block, &k);
}

/* What the head's tree has had since its last snapshot: all is its space. */
int ds_free_tree(struct dataset *head, const struct space *all, struct tx *tx)
{
    struct dsl *dsl = head->dsl;
    int rc;

    if (!feature_enabled(dsl, FEATURE_ASYNC_DESTROY))
        return free_now(head, tx);
    rc = bptree_add(dsl, ds_bp(head), head->w[DS_PREV_TXG], all, tx);
    if (rc == 0)
        dir_use(dsl->free_dir, USED_HEAD, all);
    return rc;
}

static int free_contents(struct dataset *head, struct tx *tx)
{
    struct dir *d = head->dir;
    struct space all = {(int64_t)d->w[DIR_USED], (int64_t)d->w[DIR_COMP], (int64_t)d->w[DIR_UNCOMP]};
    struct space minus = {-all.used, -all.comp, -all.uncomp};
    int rc = 0;

    if (!bp_hole(ds_bp(head))) {
        rc = ds_zil_free(head, tx);
        if (rc == 0)
            rc = ds_free_tree(head, &all, tx);
    }
    dir_use(d, USED_HEAD, &minus);
    return rc;
}

static void clear_refreservation(struct dataset *head)
{
    int64_t r = (int64_t)head->dir->refreservation, unique = (int64_t)head->w[DS_UNIQUE];
    struct space s = {.used = r > unique ? -(r - unique) : 0};

    dir_use(head->dir, USED_REFRSRV, &s);
    head->dir->refreservation = 0;
}

int ds_destroy_head(struct dataset *head, struct tx *tx)
{
    struct dsl *dsl = head->dsl;
    int rc;

    clear_refreservation(head);
    lineage_head_gone(dsl, head->object);
    rc = dir_drop_livelist(head->dir, tx);
    if (rc == 0)
        rc = ds_features_drop(head, tx);
    if (rc == 0)
        rc = unlink_origin(head, tx);
    if (rc == 0)
        rc = deadlist_free(dsl, head->w[DS_DEADLIST], tx);
    if (rc == 0)
        rc = free_contents(head, tx);
    if (rc == 0)
        rc = zap_destroy(dsl->mos, head->w[DS_SNAPNAMES], tx);
    if (rc == 0)
        rc = bookmarks_destroy_all(head, tx);
    if (rc == 0)
        rc = zapified_free(dsl, head->dn, tx);
    if (rc == 0)
        rc = object_free(head->dn, tx);
    ds_forget(head);
    return rc ? rc : dir_destroy(head->dir, tx);
}

/* ---- zfs destroy ---- */

static int has_child(void *arg, struct dir *child)
{
    return -EEXIST;
}

static int check_head(struct dataset *head)
{
    CLEANUP_DS struct dataset *prev = NULL;
    struct dsl *dsl = head->dsl;
    uint64_t key;
    int rc;

    if (ds_is_snapshot(head))
        return err_set(EINVAL, "it is a snapshot");
    if (head->dir == dsl->root)
        return err_set(EINVAL, "operation does not apply to pools");
    if (ds_busy(head))
        return err_set(EBUSY, "dataset is busy");
    if (dir_zap_get(head->dir, KEY_CRYPTO, &key) == 0)
        return err_set(ENOTSUP, "the dataset is encrypted, and this version cannot destroy its key");
    rc = ds_hold(dsl, head->w[DS_PREV], &prev);
    if (rc != 0)
        return rc;
    rc = dir_each_child(head->dir, true, false, has_child, NULL);
    if (prev->w[DS_NEXT] == head->object)
        rc = -EEXIST;
    if (rc == -EEXIST)
        return err_set(EEXIST, "%s has children",
                       dataset_type(head) == OBJSET_ZVOL ? "volume" : "filesystem");
    if (rc == 0 && prev != dsl->origin && (prev->w[DS_FLAGS] & DS_FLAG_DEFER_DESTROY) &&
        prev->w[DS_CHILDREN] == 2 && ds_busy(prev))
        rc = err_set(EBUSY, "dataset is busy");
    return rc ? rc : ds_zil_check(head);
}

static int destroy_check(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    int rc = ds_hold_name(dsl, arg, &head);

    if (rc == 0)
        rc = check_head(head);
    if (rc == 0 && tx && head->os && objset_dirty(head->os, tx->txg))
        rc = -EAGAIN; /* not yet written as it is */
    return rc;
}

/* The next transaction groups may already have changes of the dataset: its set must be clean in all. */
static bool dirty_later(struct dataset *head, const struct tx *tx)
{
    return head->os && (objset_dirty(head->os, tx->txg + 1) || objset_dirty(head->os, tx->txg + 2));
}

/* A deferred snapshot goes with its last clone. */
static int destroy_origin(struct dsl *dsl, uint64_t object, struct tx *tx)
{
    CLEANUP_DS struct dataset *origin = NULL;
    int rc = ds_hold(dsl, object, &origin);

    return rc ? rc : ds_destroy_deferred(origin, tx);
}

static int destroy_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t origin;
    int rc = ds_hold_name(dsl, arg, &head);

    if (rc != 0)
        return rc;
    origin = head->w[DS_PREV];
    if (head->dir->refreservation > 0)
        dsl_event(dsl, "set", head, tx, "refreservation=0");
    dsl_event(dsl, "destroy", head, tx, "(bptree, mintxg=%llu)",
              (unsigned long long)head->w[DS_PREV_TXG]);
    rc = ds_destroy_head(head, tx);
    return rc ? rc : destroy_origin(dsl, origin, tx);
}

static int destroy_check_all(struct dsl *dsl, void *arg, struct tx *tx)
{
    CLEANUP_DS struct dataset *head = NULL;
    int rc = destroy_check(dsl, arg, tx);

    if (rc != 0 || !tx)
        return rc;
    rc = ds_hold_name(dsl, arg, &head);
    return rc == 0 && dirty_later(head, tx) ? -EAGAIN : rc;
}

int dataset_destroy(struct dsl *dsl, const char *name)
{
    return dsl_task_blocks(dsl, destroy_check_all, destroy_sync, (void *)(uintptr_t)name,
                           DSL_SPACE_EXTRA, 0);
}
