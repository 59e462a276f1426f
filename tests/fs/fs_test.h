/*
 * A file system on a pool in memory, synced by the txg engine, whose object set is checked by the
 * independent reader of dmu_test.h. The dataset is a double: it admits every transaction unless
 * told otherwise.
 */
#ifndef TESTS_FS_FS_TEST_H
#define TESTS_FS_FS_TEST_H

#include <fcntl.h>
#include <sys/stat.h>

#include "../dmu/dmu_test.h"
#include "dsl/dataset.h"
#include "fs/format.h"
#include "fs/fs.h"

struct dataset {
    struct dmu_pool *p;
    int refuse[DATASET_TX_MUST + 1]; /* errno for each kind of transaction, 0 = admit */
    bool snapshot;
};

struct fixture {
    struct dmu_pool p;
    struct dataset ds;
    struct fs *fs;
};

int dataset_objset(struct dataset *ds, struct objset **out)
{
    *out = ds->p->sets[0];
    return 0;
}

bool dataset_is_snapshot(const struct dataset *ds)
{
    return ds->snapshot;
}

int dataset_tx_begin(struct dataset *ds, enum dataset_tx_kind kind, uint64_t bytes, struct tx *tx)
{
    return ds->refuse[kind] ? -ds->refuse[kind] : tx_begin(tx, &ds->p->t.pool);
}

void dataset_tx_end(struct tx *tx)
{
    tx_end(tx);
}

void dataset_space(struct dataset *ds, uint64_t *referenced, uint64_t *available, uint64_t *objects)
{
    *referenced = test_allocated(&ds->p->t);
    *available = 1u << 30;
    *objects = objset_object_count(ds->p->sets[0]);
}

int dataset_stats(struct dataset *ds, struct dataset_stats *out)
{
    *out = (struct dataset_stats){.fsid_guid = 77};
    return 0;
}

static const struct fs_options test_options = {
    .atime = true, .relatime = true, .xattr = FS_XATTR_SA, .acltype = FS_ACL_POSIX};

static inline void fixture_sync(struct fixture *f)
{
    assert_int_equal(txg_wait_synced(f->p.t.pool.txg, 0), 0);
}

static inline void fixture_mount(struct fixture *f, const struct fs_options *o)
{
    assert_int_equal(fs_open(&f->fs, &f->ds, o), 0);
}

/* An empty file system with these properties of the dataset. */
static inline void fixture_new(struct fixture *f, const struct objset_props *props, bool projid)
{
    struct tx tx;
    dmu_pool_new(&f->p);
    f->p.check_every = 0; /* done by hand, with nothing in flight */
    f->ds = (struct dataset){.p = &f->p};
    add_set(&f->p, OBJSET_ZPL, projid ? 7 : 3, props);
    tx = open_tx(&f->p);
    assert_int_equal(fs_format(f->p.sets[0], 1000, 100, projid, &tx), 0);
    sync_now(&f->p);
    /* The engine takes over from here. */
    txg_engine_free(f->p.t.pool.txg);
    struct txg_config config = {.sync = dmu_sync_txg, .arg = &f->p, .timeout_ns = 20000000};
    assert_int_equal(txg_engine_new(&f->p.t.pool.txg, &config, f->p.txg - 1), 0);
    assert_int_equal(txg_engine_start(f->p.t.pool.txg), 0);
    fixture_mount(f, &test_options);
}

/* No txg is synced (and no thread runs) until fixture_resume. */
static inline void fixture_pause(struct fixture *f)
{
    struct txg_config config = {.sync = dmu_sync_txg, .arg = &f->p, .timeout_ns = 20000000};
    fixture_sync(f);
    txg_engine_stop(f->p.t.pool.txg);
    uint64_t synced = txg_synced_number(f->p.t.pool.txg);
    txg_engine_free(f->p.t.pool.txg);
    assert_int_equal(txg_engine_new(&f->p.t.pool.txg, &config, synced), 0);
}

static inline void fixture_resume(struct fixture *f)
{
    assert_int_equal(txg_engine_start(f->p.t.pool.txg), 0);
}

/* Unmounts, syncs, checks everything on "disk", forgets what is in memory, mounts again. */
static inline void fixture_remount(struct fixture *f, const struct fs_options *o)
{
    fs_close(f->fs);
    txg_engine_stop(f->p.t.pool.txg);
    uint64_t synced = txg_synced_number(f->p.t.pool.txg);
    txg_engine_free(f->p.t.pool.txg);
    f->p.t.pool.txg = NULL;
    struct txg_config config = {.sync = dmu_sync_txg, .arg = &f->p, .timeout_ns = 20000000};
    assert_int_equal(txg_engine_new(&f->p.t.pool.txg, &config, synced), 0);
    check_pool(&f->p);
    reopen(&f->p);
    assert_int_equal(txg_engine_start(f->p.t.pool.txg), 0);
    fixture_mount(f, o);
}

static inline void fixture_free(struct fixture *f)
{
    fs_close(f->fs);
    txg_engine_stop(f->p.t.pool.txg);
    uint64_t synced = txg_synced_number(f->p.t.pool.txg);
    txg_engine_free(f->p.t.pool.txg);
    struct txg_config config = {.sync = dmu_sync_txg, .arg = &f->p};
    assert_int_equal(txg_engine_new(&f->p.t.pool.txg, &config, synced), 0);
    check_pool(&f->p);
    dmu_pool_free(&f->p);
}

/* ---- Short forms ---- */

static inline struct fs_attr make_node(struct fixture *f, uint64_t dir, const char *name,
                                       uint32_t mode)
{
    struct fs_new n = {.mode = mode, .uid = 1000, .gid = 100, .target = "to/where"};
    struct fs_attr a;
    int rc = fs_create(f->fs, dir, name, &n, &a);
    if (rc < 0)
        fail_msg("creating %s: %d", name, rc);
    return a;
}

static inline struct fs_attr attr_of(struct fixture *f, uint64_t ino)
{
    struct fs_attr a;
    assert_int_equal(fs_getattr(f->fs, ino, &a), 0);
    return a;
}

/* The attributes behind a name, without keeping a reference. */
static inline struct fs_attr attr_at(struct fixture *f, uint64_t dir, const char *name)
{
    struct fs_attr a;
    int rc = fs_lookup(f->fs, dir, name, &a);
    if (rc < 0)
        fail_msg("looking up %s: %d", name, rc);
    fs_forget(f->fs, a.ino, 1);
    return a;
}

static inline int exists(struct fixture *f, uint64_t dir, const char *name)
{
    struct fs_attr a;
    int rc = fs_lookup(f->fs, dir, name, &a);
    if (rc == 0)
        fs_forget(f->fs, a.ino, 1);
    assert_true(rc == 0 || rc == -ENOENT);
    return rc == 0;
}

#endif
