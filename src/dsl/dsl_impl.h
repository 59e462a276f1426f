/*
 * Inside the DSL: directories and datasets in memory.
 *
 * The bonus of a DSL object is an array of 64-bit words (04 2, 3); w[] holds them in host order, indexed
 * by the enums below. Words change only in the sync thread while it holds dsl->lock for writing; others
 * read them while they hold it for reading. A changed object is put on the dirty list by dir_dirty() or
 * ds_dirty() and written back by dsl_flush() at the end of each step.
 *
 * Locks, outermost first: a txg hold, dsl->lock, dataset.open_lock, dsl->keys.lock,
 * dsl->cache_lock. The sync thread may
 * call public functions while it holds dsl->lock: dsl_read_lock() notices.
 */
#ifndef DSL_DSL_IMPL_H
#define DSL_DSL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/tx.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/feature.h"
#include "dsl/keys_impl.h"
#include "dsl/props.h"
#include "pool/txg.h"
#include "util/cleanup.h"
#include "util/hashmap.h"

#define DIR_DEPTH_MAX 50
#define FREE_LIMIT    200000
#define KEY_MAX       UINT64_MAX /* the end of a range of deadlist keys */

enum {
    DIR_CTIME, DIR_HEAD, DIR_PARENT, DIR_ORIGIN, DIR_CHILDREN, DIR_USED, DIR_COMP, DIR_UNCOMP, DIR_QUOTA,
    DIR_RESERVED, DIR_PROPS, DIR_DELEG, DIR_FLAGS, DIR_BREAKDOWN, DIR_CLONES = 18, DIR_WORDS = 32
};
#define DIR_FLAG_BREAKDOWN 1
enum { USED_HEAD, USED_SNAP, USED_CHILD, USED_CHILD_RSRV, USED_REFRSRV, USED_TYPES };

enum {
    DS_DIR, DS_PREV, DS_PREV_TXG, DS_NEXT, DS_SNAPNAMES, DS_CHILDREN, DS_CTIME, DS_CTXG, DS_DEADLIST,
    DS_REF, DS_COMP, DS_UNCOMP, DS_UNIQUE, DS_FSID, DS_GUID, DS_FLAGS, DS_BP, DS_NEXT_CLONES = 32,
    DS_PROPS, DS_USERREFS, DS_WORDS = 40
};
#define DS_FLAG_INCONSISTENT    1
#define DS_FLAG_NOPROMOTE       2
#define DS_FLAG_UNIQUE_ACCURATE 4
#define DS_FLAG_DEFER_DESTROY   8
#define DS_FLAG_CI              (1u << 16)

/* Keys of zapified objects. */
#define KEY_FS_COUNT          "com.joyent:filesystem_count"
#define KEY_SNAP_COUNT        "com.joyent:snapshot_count"
#define KEY_LIVELIST          "com.delphix:livelist"
#define KEY_SNAPSHOTS_CHANGED "com.ixsystems:snapshots_changed"
#define KEY_CRYPTO            "com.datto:crypto_key_obj"
#define KEY_BOOKMARKS         "com.delphix:bookmarks"
#define KEY_RESUME            "com.delphix:resume_toguid"
#define KEY_REMAP             "com.delphix:remap_deadlist"
#define KEY_DELETED_CLONES    "com.delphix:deleted_clones"

/* D, P and U of 04: deflated, compressed and uncompressed bytes. */
struct space {
    int64_t used, comp, uncomp;
};
static inline void space_add(struct space *a, const struct space *b, int sign)
{
    a->used += sign * b->used;
    a->comp += sign * b->comp;
    a->uncomp += sign * b->uncomp;
}

struct dir;
struct former {
    struct former *next;
    struct dir *dir; /* held */
};

struct dir {
    struct hashmap_node node;      /* in dsl->dirs by object; dsl->cache_lock */
    struct dsl *dsl;
    uint64_t object;
    unsigned refs;                 /* dsl->cache_lock */
    bool hashed;                   /* dsl->cache_lock */
    bool is_dirty, dead;           /* sync thread */
    struct dir *next_dirty;
    struct dnode *dn;
    struct dir *_Atomic parent;    /* held; NULL for the root; admission follows it without a lock */
    struct former *former;         /* parents before renames: somebody may still be following */
    char *name;
    uint64_t w[DIR_WORDS];
    uint64_t origin_txg;           /* 0 if no clone */
    _Atomic int type;              /* enum objset_type of its head, -1 = not yet known */
    _Atomic uint64_t refquota, refreservation;
    /* Copies of the words that admission reads without the lock, and what unsynced transactions may
     * still use, by txg. */
    _Atomic uint64_t used, quota, reserved;
    _Atomic int64_t inflight[TXG_SLOTS];
};

/* A bookmark with HAS_FBN (04 12), and what this txg adds to it. */
struct fbn {
    char *name;
    uint64_t txg;
    _Atomic int64_t used, comp, uncomp;
};

struct dataset {
    struct hashmap_node node;      /* in dsl->datasets by object; dsl->cache_lock */
    struct dsl *dsl;
    uint64_t object;
    unsigned refs;                 /* dsl->cache_lock */
    bool hashed;                   /* dsl->cache_lock */
    bool is_dirty, dead;           /* sync thread */
    struct dataset *next_dirty;
    struct dnode *dn;
    struct dir *dir;
    char *snapname;                /* NULL for heads */
    uint64_t w[DS_WORDS];
    const void *owner;             /* dsl->cache_lock */
    unsigned pins;                 /* dsl->cache_lock */
    pthread_mutex_t open_lock;     /* os while it is being opened */
    struct objset *_Atomic os;
    unsigned features_known;       /* sync thread: features is valid */
    uint64_t features;             /* bit per active per-dataset feature */
    struct dataset *next_sync[TXG_SLOTS]; /* dsl->sync_lock */
    bool on_sync[TXG_SLOTS];

    /* What the blocks of the txg being written change; added to by worker threads. */
    _Atomic int64_t born_used, born_comp, born_uncomp;
    _Atomic int64_t freed_used, freed_comp, freed_uncomp; /* freed at once */
    _Atomic int64_t dead_used, dead_comp, dead_uncomp;    /* gone to the deadlist */
    _Atomic int64_t snap_used;     /* of dead: born after the dir's origin: HEAD -> SNAP */
    _Atomic int64_t prev_unique;   /* of dead: only the previous snapshot has it now */
    _Atomic uint64_t uses;         /* feature bits seen in new blocks */
    _Atomic int sync_error;
    uint64_t prev_prev_txg;        /* of the previous snapshot; UINT64_MAX if it is another's */
    bool acct_ready;               /* prev_prev_txg and fbn are valid */
    struct fbn *fbn;
    size_t nfbn;
    pthread_mutex_t dead_lock;     /* the next three */
    struct blkptr *dead_bps;
    size_t ndead, dead_cap;
};

static inline bool ds_is_snapshot(const struct dataset *ds)
{
    return ds->w[DS_CHILDREN] != 0;
}
static inline const struct blkptr *ds_bp(const struct dataset *ds)
{
    return (const struct blkptr *)&ds->w[DS_BP];
}

struct feature_state {
    _Atomic bool enabled;
    _Atomic uint64_t refs;
    uint64_t txg;                  /* enabled in; 0 = not recorded */
};

struct deadlist;
struct task;

#define DEADLIST_CACHE 64

struct dsl {
    struct pool *pool;
    struct objset *mos;
    pthread_rwlock_t lock;         /* the words and ZAPs of the MOS against the sync thread */
    pthread_t writer;              /* who holds it for writing, if has_writer */
    _Atomic bool has_writer;

    pthread_mutex_t cache_lock;
    struct hashmap dirs, datasets;
    struct keystore keys;

    struct dir *root, *mos_dir, *free_dir; /* held; the latter NULL in old pools */
    struct dataset *origin;        /* $ORIGIN@$ORIGIN, held; NULL in old pools */
    uint64_t free_bpobj, empty_bpobj, bptree, deleted_clones, sync_bplist; /* objects, 0 = none */
    _Atomic bool free_pending;     /* one of the free lists has something */
    uint64_t free_limit;           /* blocks to free per txg */
    _Atomic bool free_stuck;       /* what is left cannot be freed: damage */

    struct feature_state feature[FEATURE_COUNT];
    uint64_t features_read, features_write, feature_texts, feature_txgs; /* ZAP objects */
    _Atomic bool labels_dirty;

    struct dsl_mos_space *mos_space;

    /* Sync thread */
    struct dir *dirty_dirs;
    struct dataset *dirty_datasets;
    struct deadlist *deadlists[DEADLIST_CACHE];
    unsigned deadlist_clock;
    int error;                     /* first error of the step */

    pthread_mutex_t sync_lock;     /* the lists below */
    pthread_cond_t task_done;
    struct dataset *sync_list[TXG_SLOTS];
    struct task *tasks[TXG_SLOTS];

    /* Space of the pool as of the last sync, for admission. */
    _Atomic bool space_known;
    _Atomic uint64_t dspace, deferred, bplist_bytes;
    _Atomic uint64_t syncing_bytes; /* dirty when the txg began to be written, until it is counted */
    _Atomic unsigned waiting_for_space;

    dsl_event_fn *event;
    void *event_arg;
    prop_changed_fn *changed;
    void *changed_arg;
    const struct lineage_ops *lineage;
    void *lineage_arg;
};

/* ---- dsl.c ---- */

/* Takes the lock for reading, unless this is the thread that has it for writing. */
bool dsl_read_lock(struct dsl *dsl);
void dsl_read_unlock(struct dsl *dsl, bool taken);
void dsl_write_lock(struct dsl *dsl);
void dsl_write_unlock(struct dsl *dsl);
/* Notes the first error of the step (sync thread), with its sentence. */
void dsl_fail(struct dsl *dsl, int rc);
/* Writes back what is dirty; the step's error. */
int dsl_flush(struct dsl *dsl, struct tx *tx);
void dsl_event(struct dsl *dsl, const char *event, const struct dataset *ds, struct tx *tx,
               const char *fmt, ...) __attribute__((format(printf, 5, 6)));
uint64_t dsl_random(struct dsl *dsl); /* not 0 */
uint64_t dsl_now(struct dsl *dsl);    /* seconds */
extern dsl_format_fn *dsl_format;
int feature_open(struct dsl *dsl);
int feature_create(struct dsl *dsl, struct tx *tx);

struct dsl_read_guard {
    struct dsl *dsl;
    bool taken;
};
static inline void dsl_read_guard_end(struct dsl_read_guard *g)
{
    dsl_read_unlock(g->dsl, g->taken);
}
#define DSL_READ_GUARD(d)                                                                          \
    struct dsl_read_guard read_guard_ __attribute__((unused, cleanup(dsl_read_guard_end))) = {     \
        (d), dsl_read_lock(d)}

int dsl_new(struct dsl **out, struct pool *pool, struct objset *mos);

/* ---- dir.c; callers hold dsl->lock ---- */

int dir_hold(struct dsl *dsl, uint64_t object, struct dir **out);
/* The same when its name and parent are known. */
int dir_hold_child(struct dir *parent, const char *name, struct dir **out); /* -ENOENT */
void dir_ref(struct dir *d);
void dir_rele(struct dir *d); /* NULL is allowed */
void dir_dirty(struct dir *d);
void dir_forget(struct dir *d); /* its object is gone: nobody finds it any more */
void dir_name(const struct dir *d, char out[DATASET_NAME_MAX]);
static inline void cleanup_dir(struct dir **d)
{
    dir_rele(*d);
}

/* diduse, xfer and transfer of 04 8.2. */
void dir_use(struct dir *d, int type, const struct space *delta);
void dir_move(struct dir *d, int64_t delta, int64_t comp, int64_t uncomp, int64_t n, int from, int to);
void dir_transfer(struct dir *d, int64_t n, int from, int to);

int dir_create(struct dsl *dsl, struct dir *parent, const char *name, struct tx *tx, uint64_t *object);
int dir_destroy(struct dir *d, struct tx *tx); /* its ZAPs, its name, its object; no longer usable */
/* Adds to the limit counts from d up while they exist (04 11.4). */
int dir_count(struct dir *d, const char *key, int64_t delta, struct tx *tx);
/* limits.c. For a moment: those of d itself and all below (d not counted), kept or counted now. */
int limits_counts(struct dir *d, uint64_t *filesystems, uint64_t *snapshots);
/* d and all below keep counts from now on; activate: because a limit is set. */
int limits_count_from_now(struct dir *d, struct tx *tx);
int limits_activate(struct dir *d, struct tx *tx);
/* May so many more come into d? -EDQUOT if a limit on the way up to `above` (NULL: all) says no. */
int limits_check(struct dir *d, const struct dir *above, uint64_t filesystems, uint64_t snapshots);
/* The same for a snapshot in each of many directories at once: add all, then check. */
struct limits_level { uint64_t dir, room; };
struct limits_tally { struct limits_level *level; size_t n, cap; };
int limits_add_snapshot(struct limits_tally *t, struct dir *d);
int limits_check_tally(struct limits_tally *t);
void limits_tally_free(struct limits_tally *t);
/* A u64 of a zapified dir: 0 and -ENOENT if absent. */
int dir_zap_get(struct dir *d, const char *key, uint64_t *value);
int dir_load_reservations(struct dir *d);
/* Drops a clone's livelist, if it has one (04 6.6). */
int dir_drop_livelist(struct dir *d, struct tx *tx);
/* Calls fn for each child, $ dirs not included unless all. */
typedef int dir_each_fn(void *arg, struct dir *child);
int dir_each_child(struct dir *d, bool all, bool sorted, dir_each_fn *fn, void *arg);
void dir_changed_snapshots(struct dir *d, struct tx *tx); /* the time of the last snapshot change */

/* ---- ds.c; callers hold dsl->lock ---- */

int ds_hold(struct dsl *dsl, uint64_t object, struct dataset **out);
int ds_read_words(struct dsl *dsl, uint64_t object, uint64_t w[DS_WORDS]);
/* As they are in memory, if it is held. Holding a snapshot that is not costs a search for its name. */
int ds_words(struct dsl *dsl, uint64_t object, uint64_t w[DS_WORDS]);
int ds_hold_name(struct dsl *dsl, const char *name, struct dataset **out);
int ds_hold_snapshot(struct dataset *head, const char *snapname, struct dataset **out);
void ds_ref(struct dataset *ds);
void ds_rele(struct dataset *ds);
void ds_dirty(struct dataset *ds);
void ds_forget(struct dataset *ds);
void ds_name(const struct dataset *ds, char out[DATASET_NAME_MAX]);
static inline void cleanup_ds(struct dataset **ds)
{
    ds_rele(*ds);
}
#define CLEANUP_DS  CLEANUP(cleanup_ds)
#define CLEANUP_DIR CLEANUP(cleanup_dir)
int ds_objset(struct dataset *ds, struct objset **out);
/* The same for what is not encrypted in it: without its key, *temporary is a set of its own that the
 * caller closes; else it is NULL. */
int ds_objset_plain(struct dataset *ds, struct objset **out, struct objset **temporary);
static inline void cleanup_objset(struct objset **os)
{
    objset_close(*os);
}
int ds_zap_get(struct dataset *ds, const char *key, uint64_t *value);
bool ds_busy(struct dataset *ds); /* owned or pinned */
/* Last snapshot or origin of a head has been changed: account anew. */
void ds_acct_reset(struct dataset *ds);

/* ---- acct.c ---- */

extern const struct objset_ops ds_objset_ops;
/* Reads what born() and killed() need; before the dataset is written. */
int ds_acct_prepare(struct dataset *ds);
/* Moves what the blocks of the txg changed into words, dirs, deadlist and bookmarks. */
int ds_acct_flush(struct dataset *ds, struct tx *tx);
void space_of_bp(const struct pool *pool, const struct blkptr *bp, struct space *out);

/* ---- zapify.c ---- */

int zapify(struct dsl *dsl, struct dnode *dn, struct tx *tx);
int zapified_free(struct dsl *dsl, struct dnode *dn, struct tx *tx); /* the count; object_free is extra */
uint64_t ds_features(struct dataset *ds);
int ds_feature_activate(struct dataset *ds, enum feature_id f, struct tx *tx);
int ds_features_copy(struct dataset *from, struct dataset *to, struct tx *tx);
/* Declares what `from` does, and nothing else. */
int ds_features_become(struct dataset *ds, struct dataset *from, struct tx *tx);
int ds_features_drop(struct dataset *ds, struct tx *tx);

/* ---- bpobj.c ---- */

int bpobj_create(struct dsl *dsl, uint32_t block_size, struct tx *tx, uint64_t *object);
int bpobj_space(struct dsl *dsl, uint64_t object, struct space *out);
int bpobj_empty(struct dsl *dsl, uint64_t object, bool *empty);
int bpobj_append(struct dsl *dsl, uint64_t object, const struct blkptr *bps, size_t n, struct tx *tx);
/* Merges child into parent (04 6.1); child may be the shared empty one. */
int bpobj_enqueue(struct dsl *dsl, uint64_t parent, uint64_t child, struct tx *tx);
int bpobj_free(struct dsl *dsl, uint64_t object, struct tx *tx);
typedef int bpobj_each_fn(void *arg, const struct blkptr *bp, bool freed);
int bpobj_each(struct dsl *dsl, uint64_t object, bpobj_each_fn *fn, void *arg);
/* Gives entries to fn, last ones first, and takes them away, until none is left or stop() says so
 * between two blocks of entries. */
typedef bool bpobj_stop_fn(void *arg);
int bpobj_consume(struct dsl *dsl, uint64_t object, bpobj_each_fn *fn, bpobj_stop_fn *stop, void *arg,
                  struct tx *tx);
/* The shared empty bpobj (04 6.2): *object is it, or a private one if the feature is off. */
int bpobj_take_empty(struct dsl *dsl, struct tx *tx, uint64_t *object);
int bpobj_drop_empty(struct dsl *dsl, uint64_t n, struct tx *tx);

/* ---- deadlist.c ---- */

int deadlist_check(struct dsl *dsl, uint64_t object); /* of the format we work on? any thread */
int deadlist_create(struct dsl *dsl, struct tx *tx, uint64_t *object);
int deadlist_totals(struct dsl *dsl, uint64_t object, struct space *out); /* readers too */
int deadlist_space(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t hi, struct space *out);
/* The same for any thread. */
int deadlist_space_read(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t hi, struct space *out);
int deadlist_insert(struct dsl *dsl, uint64_t object, struct blkptr *bps, size_t n, struct tx *tx);
int deadlist_clone(struct dsl *dsl, uint64_t object, uint64_t maxtxg, struct tx *tx, uint64_t *out);
int deadlist_add_key(struct dsl *dsl, uint64_t object, uint64_t key, struct tx *tx);
int deadlist_remove_key(struct dsl *dsl, uint64_t object, uint64_t key, struct tx *tx);
int deadlist_move(struct dsl *dsl, uint64_t object, uint64_t lo, uint64_t bpobj, struct tx *tx);
int deadlist_merge(struct dsl *dsl, uint64_t into, uint64_t from, struct tx *tx);
int deadlist_free(struct dsl *dsl, uint64_t object, struct tx *tx);
void deadlist_cache_clear(struct dsl *dsl);
int deadlist_last(struct dsl *dsl, uint64_t object, uint64_t *key, uint64_t *bpobj);
int deadlist_drop_last(struct dsl *dsl, uint64_t object, struct space *gone, struct tx *tx);

/* ---- bookmark.c ---- */

int bookmarks_load_fbn(struct dataset *head, struct fbn **out, size_t *n);
void bookmarks_free_fbn(struct fbn *fbn, size_t n);
int bookmarks_write_fbn(struct dataset *head, struct tx *tx);
/* Snapshot: the keys that bookmarks need in the new deadlist. */
int bookmarks_add_keys(struct dataset *head, uint64_t deadlist, uint64_t old_prev_txg, struct tx *tx);
/* Snapshot destroy; *keep: the key of its txg is still needed. */
int bookmarks_snapshot_gone(struct dataset *head, struct dataset *snap, uint64_t next_deadlist, bool *keep,
                            struct tx *tx);
int bookmarks_newest(struct dataset *head, uint64_t *txg); /* 0: there are none */
int bookmarks_rolled_back(struct dataset *head, uint64_t txg, struct tx *tx);
int bookmarks_destroy_all(struct dataset *head, struct tx *tx);
/* Promotion: bookmarks up to a txg go to another head, whose next deadlist after that txg holds `freed`;
 * -EEXIST of the check: it has one of that name. */
int bookmarks_conflict(struct dataset *from, struct dataset *to, uint64_t upto);
int bookmarks_move(struct dataset *from, struct dataset *to, uint64_t upto, const struct space *freed,
                   struct tx *tx);
/* Is a moment of a directory's file system (a snapshot's or bookmark's txg) before a dataset, in its own
 * history or that of its origins? */
int ds_after(struct dataset *ds, const struct dir *d, uint64_t txg, bool *after);

/* ---- userrefs.c ---- */

int ds_userrefs(struct dataset *snap, uint64_t *n);
/* The tag must be there; if it was the last one, a deferred snapshot is destroyed. */
int ds_userref_remove(struct dataset *snap, const char *tag, struct tx *tx);
/* Holds a new snapshot until the tag is removed, at the latest when the pool is opened for writing again;
 * then it is destroyed. */
int ds_keep_temporarily(struct dataset *snap, const char *tag, struct tx *tx);
/* Destroys it if that was deferred and nothing needs it any more. */
int ds_destroy_deferred(struct dataset *snap, struct tx *tx);

/* ---- create.c, snapshot.c, destroy.c, rollback.c, promote.c, rename.c, free.c ---- */

int ds_create(struct dsl *dsl, uint64_t dir, struct dataset *origin, struct tx *tx, uint64_t *object);
int ds_snapshot(struct dataset *head, const char *name, struct tx *tx);
int ds_snapshot_destroy_check(struct dataset *snap);
/* The deadlists of clones made of d's snapshots after txg lose its key (04 9.3, step 9). */
int deadlists_forget(struct dsl *dsl, struct dir *d, uint64_t txg, struct tx *tx);
int ds_snapshot_destroy(struct dataset *snap, struct tx *tx);
int ds_destroy_head(struct dataset *head, struct tx *tx);
int ds_free_tree(struct dataset *head, const struct space *all, struct tx *tx);
int ds_zil_check(struct dataset *ds); /* -EBUSY: a log that has not been replayed */
int ds_zil_free(struct dataset *ds, struct tx *tx);
int ds_zil_clear(struct dataset *ds, struct tx *tx);
int ds_hold_parent(struct dsl *dsl, const char *name, struct dataset **parent, const char **last);
int ds_new_name_check(const char *name);
int ds_create_check(struct dataset *parent, const char *last, uint32_t uid);
int ds_create_counts(struct dir *d, struct tx *tx); /* for the limits, where they are kept */
/* Can so much space and so many snapshots go from one directory to another? */
int dir_transfer_possible(struct dir *from, struct dir *to, uint64_t space, uint64_t snapshots);
int ds_make_objset(struct dataset *ds, uint32_t uid, uint32_t gid, struct tx *tx);
/* Adds or removes an object in a set of ints, creating the set of that type if *set is 0. */
int dsl_set_add(struct dsl *dsl, uint64_t *set, uint8_t type, uint64_t value, struct tx *tx);
int bptree_add(struct dsl *dsl, const struct blkptr *bp, uint64_t birth, const struct space *space,
               struct tx *tx);

/* The background work, each until nothing is left or stop() says so; sums up what was freed. */
struct freeing {
    struct dsl *dsl;
    struct tx *tx;
    uint64_t deadline;  /* mono_ns; UINT64_MAX = none */
    uint64_t blocks;    /* freed so far */
    struct space sum;
};
bool freeing_stop(void *freeing);
int freeing_block(void *freeing, const struct blkptr *bp, bool freed);
int bptree_run(struct freeing *f);
int livelists_run(struct freeing *f);

/* ---- lineage.c: tells who watches ---- */

void lineage_snapshotted(struct dsl *dsl, uint64_t head, uint64_t snapshot);
void lineage_snapshot_gone(struct dsl *dsl, uint64_t snapshot, uint64_t next);
void lineage_head_gone(struct dsl *dsl, uint64_t head);

/* ---- space.c ---- */

void space_refresh(struct dsl *dsl);
uint64_t space_adjusted(struct dsl *dsl, enum dsl_space_policy policy);
uint64_t dir_available(struct dir *d);
uint64_t ds_available(struct dataset *head);
int space_check_task(struct dsl *dsl, enum dsl_space_policy policy, unsigned blocks);
void space_txg_written(struct dsl *dsl, uint64_t txg); /* gives back what was reserved in it */

/* ---- task.c ---- */

int dsl_task_blocks(struct dsl *dsl, dsl_task_fn *check, dsl_task_fn *sync, void *arg,
                    enum dsl_space_policy policy, unsigned blocks);
int dsl_run_tasks(struct dsl *dsl, struct tx *tx);

#endif
