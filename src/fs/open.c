/* A file system as a whole: master node, options, transactions (spec 06 2, 13.1). */
#include <errno.h>
#include <stdlib.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/err.h"

#define MASTER_NODE 1
#define VERSION_MAX 5
#define VERSION_SA  5

/* ---- Transactions ---- */

/* What makes replaying restartable: with the operation the log's header says that it has been done.
 */
static void note_replayed(struct fs *fs, struct tx *tx)
{
    struct zil_header h;
    zil_header_get(fs->os, &h);
    h.replay_seq = MAX(h.replay_seq, fs->replay->seq);
    zil_header_set(fs->os, &h, tx);
}

int fs_tx_begin(struct fs *fs, enum dataset_tx_kind kind, uint64_t bytes, struct fs_tx *t)
{
    if (atomic_load_explicit(&fs->readonly, memory_order_relaxed) && !fs->replay)
        return -EROFS;
    int rc = dataset_tx_begin(fs->ds, fs->replay ? DATASET_TX_MUST : kind, bytes, &t->tx);
    t->open = rc == 0;
    if (t->open && fs->replay && kind != DATASET_TX_MUST) /* that is cleaning up */
        note_replayed(fs, &t->tx);
    return rc;
}

void fs_tx_end(struct fs_tx *t)
{
    if (t->open)
        dataset_tx_end(&t->tx);
    t->open = false;
}

void fs_now(const struct fs *fs, struct ztime *t)
{
    if (fs->replay && fs->replay->now.sec) {
        *t = fs->replay->now;
        return;
    }
    uint64_t ns = fs->pool->env.now_ns(&fs->pool->env);
    t->sec = ns / 1000000000;
    t->nsec = ns % 1000000000;
}

/* ---- Opening ---- */

static int get_or(struct dnode *master, const char *name, uint64_t otherwise, uint64_t *value)
{
    int rc = zap_get(master, name, value);
    if (rc == -ENOENT) {
        *value = otherwise;
        return 0;
    }
    return rc < 0 ? err_prefix(rc, "reading %s of the file system", name) : 0;
}

static int need(struct dnode *master, const char *name, uint64_t *value)
{
    int rc = zap_get(master, name, value);
    return rc == -ENOENT ? err_set(EINVAL, "the file system has no %s", name) : rc;
}

static int read_master(struct fs *fs, struct dnode *master)
{
    uint64_t norm, case_mode, sa = 0;
    int rc = need(master, "VERSION", &fs->version);
    if (rc == 0 && (fs->version < 1 || fs->version > VERSION_MAX))
        return err_set(ENOTSUP, "file system version %llu is not supported",
                       (unsigned long long)fs->version);
    if (rc == 0)
        rc = get_or(master, "normalization", 0, &norm);
    if (rc == 0)
        rc = get_or(master, "casesensitivity", 0, &case_mode);
    if (rc == 0 && fs->version >= VERSION_SA)
        rc = need(master, "SA_ATTRS", &sa);
    if (rc == 0)
        rc = need(master, "ROOT", &fs->root);
    if (rc == 0)
        rc = need(master, "DELETE_QUEUE", &fs->unlinked);
    if (rc == 0)
        rc = quotas_open(fs, master);
    if (rc < 0)
        return rc;
    fs->normflags = norm | (case_mode ? ZAP_NORM_UPPER : 0);
    if (fs->version < VERSION_SA || fs->normflags != 0)
        fs->never_write = true;
    return sa_table_open(&fs->sa, fs->os, sa);
}

static void set_options(struct fs *fs, const struct fs_options *o)
{
    bool ro = o->readonly || fs->never_write;
    atomic_store(&fs->atime, o->atime && !ro);
    atomic_store(&fs->relatime, o->relatime);
    atomic_store(&fs->xattr, o->xattr);
    atomic_store(&fs->acltype, o->acltype);
    atomic_store(&fs->readonly, ro);
}

int fs_complete_tables(struct fs *fs)
{
    struct fs_tx t CLEANUP_TX = {0};
    if (sa_table_is_complete(&fs->sa))
        return 0;
    int rc = fs_tx_begin(fs, DATASET_TX_MUST, COST_NAME, &t);
    return rc < 0 ? rc : sa_table_complete(&fs->sa, &t.tx);
}

/* What was made from the object set. */
static void release_parts(struct fs *fs)
{
    if (fs->root_zn)
        zn_put(STEAL(fs->root_zn));
    zn_drop_idle(fs);
    if (fs->unlinked_dn)
        dnode_rele(STEAL(fs->unlinked_dn));
    if (fs->sa.layouts)
        sa_table_close(&fs->sa);
    fs->sa = (struct sa_table){0};
}

static void release(struct fs *fs)
{
    release_parts(fs);
    shards_fini(fs);
    pthread_mutex_destroy(&fs->rename_lock);
    pthread_mutex_destroy(&fs->invalidate_lock);
    free(fs);
}

static int open_parts(struct fs *fs)
{
    struct dnode *master = NULL;
    struct dataset_stats stats;
    int rc = dataset_objset(fs->ds, &fs->os);
    if (rc == 0)
        rc = dataset_stats(fs->ds, &stats);
    if (rc < 0)
        return rc;
    fs->fsid = stats.fsid_guid;
    if (objset_type(fs->os) != OBJSET_ZPL)
        return err_set(EINVAL, "the dataset is not a file system");
    fs->pool = objset_pool(fs->os);
    fs->never_write = (!fs->pool->writable && !fs->pool->in_memory) || dataset_is_snapshot(fs->ds);
    fs->projects =
        fs->pool->features.project_quota && objset_flags(fs->os) & OBJSET_FLAG_PROJECTQUOTA;
    rc = dnode_hold(fs->os, MASTER_NODE, &master);
    if (rc == 0)
        rc = read_master(fs, master);
    dnode_rele(master);
    if (rc == 0)
        rc = dnode_hold(fs->os, fs->unlinked, &fs->unlinked_dn);
    if (rc == 0)
        rc = zn_get(fs, fs->root, &fs->root_zn);
    return rc == -ENOENT ? err_set(EIO, "the file system's root directory is missing") : rc;
}

int fs_reopen(struct fs *fs)
{
    release_parts(fs);
    int rc = open_parts(fs);
    return rc == 0 && !fs->readonly ? fs_complete_tables(fs) : rc;
}

int fs_open(struct fs **out, struct dataset *ds, const struct fs_options *opts)
{
    struct fs *fs = calloc(1, sizeof *fs);
    if (!fs)
        return -ENOMEM;
    fs->ds = ds;
    pthread_mutex_init(&fs->rename_lock, NULL);
    pthread_mutex_init(&fs->invalidate_lock, NULL);
    reaper_init(&fs->reaper);
    int rc = shards_init(fs);
    if (rc == 0)
        rc = open_parts(fs);
    if (rc == 0) {
        set_options(fs, opts);
        if (!fs->readonly)
            rc = fs_complete_tables(fs);
    }
    if (rc < 0) {
        release(fs);
        return rc;
    }
    if (!fs->readonly)
        reap_queue_of_disk(fs);
    *out = fs;
    return 0;
}

void fs_close(struct fs *fs)
{
    zn_drop_all_lookups(fs);
    zn_flush_idle(fs);
    reaper_stop(fs);
    release(fs);
}

int fs_remount(struct fs *fs, const struct fs_options *opts)
{
    bool was = fs->readonly;
    if (opts->readonly && !was)
        reaper_wait(fs);
    set_options(fs, opts);
    if (was && !fs->readonly) {
        int rc = fs_complete_tables(fs);
        if (rc < 0)
            return rc;
        reap_queue_of_disk(fs);
    }
    return 0;
}

struct dataset *fs_dataset(struct fs *fs)
{
    return fs->ds;
}

/* ---- Telling the front end ---- */

void fs_on_invalidate(struct fs *fs, fs_invalidate_fn *fn, void *arg)
{
    pthread_mutex_lock(&fs->invalidate_lock);
    fs->invalidate = fn;
    fs->invalidate_arg = arg;
    pthread_mutex_unlock(&fs->invalidate_lock);
}

void fs_invalidate(struct fs *fs, uint64_t object, const char *name)
{
    pthread_mutex_lock(&fs->invalidate_lock);
    if (fs->invalidate)
        fs->invalidate(fs->invalidate_arg, object, name);
    pthread_mutex_unlock(&fs->invalidate_lock);
}
