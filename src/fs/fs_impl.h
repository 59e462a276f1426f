/*
 * Inside the file layer (spec 06).
 *
 * open.c          the file system as a whole; format.c makes one
 * znode.c         files in memory, found by number; lookup references
 * attr.c          their attributes in memory and on disk; setattr.c changing them
 * dir.c           entries: finding, listing, adding, removing
 * flags.c         what chattr changes, projects
 * create.c link.c unlink.c rename.c
 * reap.c          frees what has neither name nor reference (a thread that comes and goes)
 * file.c          contents; extent.c truncation, holes
 * xattr*.c acl.c  extended attributes, access control lists
 * reload.c        another object set under a mounted file system
 * quota.c owners.c sync.c
 * replay.c        the intent log's records as operations
 *
 * Locks, outermost first:
 *   the txg hold (begin_tx)
 *   fs->rename_lock       directories that move: one at a time
 *   znode->lock           contents (data, entries) and attributes: parents before children; two
 *                         unrelated ones by object number (see rename.c)
 *   fs->sa.lock           in sa_table.c
 *   shard->lock           the tables of znodes and references
 *   znode->attr_lock      readers of attributes take only this one
 *   reaper->lock
 * Attributes change under znode->lock (for writing) and attr_lock; but for atime, which a reader
 * may move with attr_lock alone.
 */
#ifndef FS_FS_IMPL_H
#define FS_FS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/dataset.h"
#include "fs/fs.h"
#include "fs/sa_impl.h"
#include "util/cleanup.h"
#include "util/hashmap.h"
#include "zil/zil.h"

/* pflags (06 5.2). */
#define PFLAG_XATTR           0x1ull
#define PFLAG_ACL_TRIVIAL     0x4ull
#define PFLAG_AUTO_INHERIT    0x40ull
#define PFLAG_NO_EXECS_DENIED 0x100ull
#define PFLAG_ARCHIVE         0x800000000ull
#define PFLAG_IMMUTABLE       0x1000000000ull
#define PFLAG_NOUNLINK        0x2000000000ull
#define PFLAG_APPENDONLY      0x4000000000ull
#define PFLAG_NODUMP          0x8000000000ull
#define PFLAG_AV_MODIFIED     0x40000000000ull
#define PFLAG_SPARSE          0x200000000000ull
#define PFLAG_PROJINHERIT     0x400000000000ull
#define PFLAG_PROJID          0x800000000000ull
#define PFLAG_CHANGED         (PFLAG_ARCHIVE | PFLAG_AV_MODIFIED)

#define OBJECT_MASK           ((1ull << 48) - 1) /* of a directory entry */
#define FILE_SIZE_MAX         INT64_MAX

struct ztime {
    uint64_t sec, nsec; /* sec is a signed number in a u64 */
};

/* An object's attributes in memory. */
struct zattr {
    uint64_t mode, size, gen, uid, gid, parent, flags;
    struct ztime atime, mtime, ctime, crtime;
    uint64_t links;
    uint64_t projid, rdev, xattr; /* xattr: object of the hidden directory, or 0 */
    bool has_dxattr;              /* there are xattrs among the attributes */
    bool standard;                /* the first twelve can be overwritten in place */
    uint16_t header;              /* where in the bonus they begin */
};

enum znode_state { ZNODE_LOADING, ZNODE_READY, ZNODE_DYING, ZNODE_GONE /* out of the table */ };
enum { ACL_UNKNOWN, ACL_NONE, ACL_SOME };

struct znode {
    struct hashmap_node node; /* shard's znodes */
    struct fs *fs;
    uint64_t object;
    uint32_t type; /* S_IFMT part of the mode: never changes */
    struct dnode *dn;
    struct znode *next, *prev; /* idle list of the shard, or the reaper's queue */
    unsigned refs;             /* shard->lock */
    uint8_t state;             /* shard->lock */
    uint8_t default_acl;       /* lock: ACL_* */
    bool atime_dirty;          /* attr_lock: newer in memory than on disk */
    _Atomic uint64_t last_txg; /* of the last change: what fsync waits for */
    pthread_mutex_t attr_lock;
    pthread_rwlock_t lock;
    struct zattr a;
};

/* How often the front end has been given this file. */
struct lookup {
    struct hashmap_node node;
    uint64_t object;
    uint64_t count : 62, unlinked : 1,
        stale : 1; /* stale: another object set has come (reload.c) */
};

#define FS_SHARDS     64
#define FS_SHARD_IDLE 256 /* znodes kept in memory without a reference, per shard */
#define FS_SHARD_LEAST 4   /* the same when all file systems keep much */

struct shard {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct hashmap znodes, lookups;
    struct znode *newest, *oldest; /* idle ones */
    unsigned idle;
};

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct znode *first, *last; /* each holds a reference */
    size_t queued;
    unsigned hurry;             /* threads that wait for it to be done */
    bool running, busy, stop;
    bool gathering;             /* it looks at the queue soon, unasked */
    pthread_t thread;
    bool joinable;
};

enum { QUOTA_USER, QUOTA_GROUP, QUOTA_PROJECT, QUOTA_KINDS };
struct quota {
    _Atomic uint64_t bytes_map, objects_map; /* ZAP objects, 0 = none */
    _Atomic uint64_t bytes_default, objects_default; /* 0 = none */
};

/*
 * While an intent log is replayed nobody else calls the file system. The ordinary operations then take
 * from here what the record says, ask neither quotas nor flags of files, and go on where nothing may be
 * written otherwise (06 17.8).
 */
struct replay {
    uint64_t seq;                  /* the record's number, which its transaction stores */
    const struct zil_new *new;     /* a new object; NULL if the record has none */
    const struct zil_xvattr *attr; /* its attributes beyond POSIX, or NULL */
    struct ztime now;              /* the time of what has none; sec 0: the clock's */
};

struct fs {
    struct dataset *ds;
    struct objset *os;
    struct pool *pool;
    _Atomic bool readonly, atime, relatime;
    _Atomic int xattr, acltype; /* as in struct fs_options */
    struct replay *replay;      /* NULL but while a log is replayed */
    bool never_write;           /* a snapshot, an old version, normalised names */
    uint64_t version, normflags, root, unlinked, fsid;
    bool projects; /* new objects get a project */
    struct dnode *unlinked_dn;
    struct znode *root_zn;
    struct sa_table sa;
    struct shard shards[FS_SHARDS];
    pthread_mutex_t rename_lock;
    struct reaper reaper;
    _Atomic uint64_t stale; /* lookups that are */
    struct quota quotas[QUOTA_KINDS];
    pthread_mutex_t invalidate_lock;
    fs_invalidate_fn *invalidate; /* invalidate_lock */
    void *invalidate_arg;
};

/* ---- open.c ---- */

/* A space-checked transaction; -EROFS where nothing may be written. */
int begin_tx(struct fs *fs, enum dataset_tx_kind kind, uint64_t bytes, struct tx *tx);
struct fs_tx {
    struct tx tx;
    bool open;
};
int fs_tx_begin(struct fs *fs, enum dataset_tx_kind kind, uint64_t bytes, struct fs_tx *t);
void fs_tx_end(struct fs_tx *t);
#define CLEANUP_TX CLEANUP(fs_tx_end)

#define COST_NAME  (128u << 10) /* worst case of a change of names: entries, dnodes */
#define COST_ATTR  (48u << 10)  /* of attributes */
#define COST_WRITE (256u << 10) /* of a write besides its data: indirect blocks */

/* An old file system whose tables lack attributes gets them now, once; before the first change. */
int fs_complete_tables(struct fs *fs);
int fs_reopen(struct fs *fs); /* everything anew from the object set; lookups stay */
void fs_now(const struct fs *fs, struct ztime *t);
void fs_invalidate(struct fs *fs, uint64_t object, const char *name);

/* ---- znode.c ---- */

int shards_init(struct fs *fs);
void shards_fini(struct fs *fs); /* everything idle, no references */
/* The file, with a reference; -ENOENT if there is none (any more). */
int zn_get(struct fs *fs, uint64_t object, struct znode **out);
/* The same for a number that the front end gave; -ESTALE if it means another file than it thinks.
 */
int zn_open(struct fs *fs, uint64_t ino, struct znode **out);
void zn_ref(struct znode *zn);
void zn_put(struct znode *zn);
static inline void zn_put_cleanup(struct znode **zn)
{
    if (*zn)
        zn_put(*zn);
}
#define CLEANUP_ZN CLEANUP(zn_put_cleanup)
/* A znode for an object just created; a is what has been written. Takes over dn. */
int zn_new(struct fs *fs, struct dnode *dn, const struct zattr *a, struct znode **out);
/* After a failed creation: the only reference to a znode of zn_new. */
void zn_discard(struct znode *zn);
int zn_add_lookup(struct znode *zn);
void zn_mark_unlinked(struct znode *zn, bool unlinked);
/* Calls fn for the object of each lookup record, until it returns false (the result). */
bool zn_each_lookup(struct fs *fs, bool (*fn)(void *arg, uint64_t object), void *arg);
void zn_lookup_reloaded(struct fs *fs, uint64_t object, bool stale, bool unlinked);
void zn_drop_idle(struct fs *fs);        /* all znodes, without writing anything */
void zn_drop_all_lookups(struct fs *fs); /* closing */
void zn_flush_idle(struct fs *fs);       /* access times of what lies idle: to the reaper */
/* The reaper is through with it: out of memory, whether freed on disk or not. */
void zn_destroy_dying(struct znode *zn);

static inline void zn_unlock_cleanup(struct znode **zn)
{
    if (*zn)
        pthread_rwlock_unlock(&(*zn)->lock);
}
#define CLEANUP_LOCK CLEANUP(zn_unlock_cleanup)
static inline struct znode *zn_read_lock(struct znode *zn)
{
    pthread_rwlock_rdlock(&zn->lock);
    return zn;
}
static inline struct znode *zn_write_lock(struct znode *zn)
{
    pthread_rwlock_wrlock(&zn->lock);
    return zn;
}

/* ---- attr.c ---- */

int zattr_load(struct fs *fs, struct dnode *dn, struct zattr *a);
void zn_attr(struct znode *zn, struct zattr *a); /* a consistent copy */
void zn_fill(struct znode *zn, struct fs_attr *out);
/* Writes the changed copy and makes it the current one. The znode is write-locked. */
int zn_store(struct znode *zn, const struct zattr *a, struct tx *tx);
/* Makes room in memory for a change of the (write-locked) znode's attributes, so that zn_store in
 * this transaction cannot fail: before entries change, so that all of an operation happens or
 * nothing. */
int zn_prepare(struct znode *zn, struct tx *tx);
/* The same as zn_store with other attributes changed too: data NULL removes one. */
struct sa_change {
    enum sa_id id;
    const void *data;
    size_t length;
};
int zn_store_more(struct znode *zn, struct zattr *a, const struct sa_change *c, unsigned n,
                  struct tx *tx);
/* With the trivial access list of a new a->mode. */
int zn_store_mode(struct znode *zn, struct zattr *a, struct tx *tx);
/* Attributes of a new object into its empty bonus. */
int zattr_write_new(struct fs *fs, struct dnode *dn, struct zattr *a, const struct sa_change *more,
                    unsigned n, struct tx *tx);
/* A variable attribute, malloc'ed; *data NULL if absent. */
int zn_read_sa(struct znode *zn, enum sa_id id, unsigned char **data, size_t *length);
void zattr_touch(const struct fs *fs, struct zattr *a,
                 bool data); /* ctime, and with data mtime, flags */
void zn_accessed(struct znode *zn);
int zn_flush_atime(struct znode *zn);
/* Flags of a locked file, where they bar changes. What a log holds was allowed when it was done. */
static inline uint64_t zn_bars(const struct znode *zn)
{
    return zn->fs->replay ? 0 : zn->a.flags;
}
static inline bool is_dir(const struct znode *zn)
{
    return zn->type == S_IFDIR;
}
static inline bool is_file(const struct znode *zn)
{
    return zn->type == S_IFREG;
}

/* ---- flags.c ---- */

uint32_t flags_out(uint64_t pflags); /* FS_FLAG_* */

/* ---- trivial.c ---- */

#define TRIVIAL_ACL_MAX 48
/* The ACEs of a mode (06 10.3); returns their number, *length their bytes. */
unsigned trivial_acl(uint32_t mode, unsigned char out[TRIVIAL_ACL_MAX], size_t *length);
bool trivial_no_execs_denied(uint32_t mode);

/* ---- acl.c ---- */

bool acl_name(const char *name, bool *is_default);
/* Is this an access control list in Linux's form? -EINVAL; *entries their number. */
int acl_check(const void *acl, size_t n, unsigned *entries);
/* The mode that an access list implies in place of `mode`; *minimal: it says no more than the mode.
 */
int acl_to_mode(const void *acl, size_t n, uint32_t *mode, bool *minimal);
void acl_chmod(void *acl, size_t n, uint32_t mode);
/* A default list applied to a new file: acl becomes the access list, mode loses what it masks. */
void acl_inherit(void *acl, size_t n, uint32_t *mode, bool *minimal);

/* ---- dir.c ---- */

int name_check(const struct fs *fs, uint64_t dir, const char *name);
/* The entry, in a locked directory. */
int dir_find(struct znode *dir, const char *name, uint64_t *value);
int dir_empty(struct znode *dir, bool *empty);
static inline uint64_t dir_value(const struct znode *zn)
{
    return zn->object | (uint64_t)(zn->type >> 12) << 60;
}
int get_dir(struct fs *fs, uint64_t ino, struct znode **out); /* -ENOTDIR */
/* May entries of the (locked) directory change? */
int dir_may_add(struct znode *dir);
int dir_may_remove(struct znode *dir, struct znode *child);

/* ---- flags.c ---- */

/* Sets what is requested in a; *projid: the project has changed and needs its place (spec 06 4.4). */
void xvattr_apply(const struct zil_xvattr *x, struct zattr *a, bool *projid);

/* ---- create.c ---- */

struct new_object {
    uint32_t mode, uid, gid;
    uint64_t rdev, links, flags, parent; /* parent 0: itself */
    const char *target;
};
/* Creates the object with its attributes, not yet with a name. dir is locked, or NULL. */
int object_new(struct fs *fs, struct znode *dir, struct new_object *n, struct tx *tx,
               struct znode **out);

/* ---- unlink.c ---- */

int unlinked_add(struct fs *fs, uint64_t object, struct tx *tx);
int unlinked_remove(struct fs *fs, uint64_t object, struct tx *tx);
/* One name less for a (write-locked) file: links, times, and the queue if it was the last. */
int drop_link(struct znode *zn, struct tx *tx);

/* ---- reap.c ---- */

void reaper_init(struct reaper *r);
void reaper_push(struct znode *zn);  /* with a reference; dying, or with an access time to write */
void reaper_throttle(struct fs *fs); /* waits while its queue is too long; no locks, no tx */
void reaper_wait(struct fs *fs);     /* until its queue is empty */
void reaper_stop(struct fs *fs);
void reaper_again(struct fs *fs);       /* after reaper_stop() */
void reap_queue_of_disk(struct fs *fs); /* what an earlier crash left */

/* ---- file.c ---- */

/* n bytes of any number in one transaction. */
int file_write_whole(struct znode *zn, uint64_t off, const void *data, size_t n);

/* ---- extent.c ---- */

int file_grow_block(struct znode *zn, uint64_t size, uint64_t end, struct tx *tx);
int file_set_size(struct znode *zn, struct zattr *a, uint64_t size, struct tx *tx);

/* ---- xattr.c and its parts ---- */

int xattr_sa_get(struct znode *zn, const char *name, unsigned char **value, size_t *n);
int xattr_dir_get(struct znode *zn, const char *name, unsigned char **value, size_t *n);
/* In a write-locked znode, a = its attributes (stored by the call). -EFBIG: does not fit there. */
int xattr_sa_set(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
                 struct tx *tx);
int xattr_dir_set(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
                  struct tx *tx);
int xattr_sa_remove(struct znode *zn, struct zattr *a, const char *name, struct tx *tx);
int xattr_dir_remove(struct znode *zn, const char *name, struct tx *tx);
/* The hidden directory of a file that has none; a is stored. */
int xattr_dir_make(struct znode *zn, struct zattr *a, struct tx *tx, struct znode **out);
typedef int xattr_each_fn(void *arg, const char *name);
int xattr_sa_each(struct znode *zn, xattr_each_fn *fn, void *arg);
int xattr_dir_each(struct znode *zn, xattr_each_fn *fn, void *arg);
/* By exact name, from wherever it is; *value malloc'ed. -ENODATA. The znode is locked. */
int xattr_get(struct znode *zn, const char *name, unsigned char **value, size_t *n);
/* value NULL: remove. a is stored. */
int xattr_put(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
              struct tx *tx);
/* The access list after a chmod; a->mode is the new mode. */
int acl_follow_mode(struct znode *zn, struct zattr *a, struct tx *tx);
#define ACL_ACCESS_NAME  "system.posix_acl_access"
#define ACL_DEFAULT_NAME "system.posix_acl_default"

/* ---- quota.c ---- */

int quotas_open(struct fs *fs, struct dnode *master);
const char *quota_map_name(int kind, bool objects);
uint64_t quota_used_object(int kind);
const char *quota_default_name(int kind, bool objects);
void quota_default_changed(struct fs *fs, int kind, bool objects, uint64_t limit);
void quota_map_changed(struct fs *fs, int kind, bool objects, uint64_t map);
/* May this owner have more bytes (objects)? 0 or -EDQUOT. */
int quota_check(struct fs *fs, uint64_t uid, uint64_t gid, uint64_t projid, bool objects);

#endif
