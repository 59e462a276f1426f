/*
 * Records of the intent log as operations (spec 06 17.4, 17.8). The ordinary functions do them;
 * what is different in a replay they find in fs->replay. An operation of a record is one
 * transaction, which also stores the record's number in the log's header.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

struct replaying {
    struct fs *fs;
    struct zil_replay *z;
    struct replay r;
};

static void cleanup_buf(struct buf **b)
{
    buf_unref(*b);
}

static bool earlier(const struct ztime *a, const struct zil_time *b)
{
    return (int64_t)a->sec < (int64_t)b->sec || (a->sec == b->sec && a->nsec < b->nsec);
}

/* ---- Names ---- */

static int replay_mkxattr(struct fs *fs, const struct zil_create *c)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL, *hidden CLEANUP_ZN = NULL;
    struct zattr a;
    int rc = zn_get(fs, c->dir, &zn);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_WRITE, COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    if (zn->a.xattr)
        return -EEXIST;
    zn_attr(zn, &a);
    return xattr_dir_make(zn, &a, &t.tx, &hidden);
}

static int replay_create(struct replaying *s, const struct zil_record *r)
{
    const struct zil_create *c = &r->create;
    struct fs_new new = {.mode = (uint32_t)c->new.mode, .target = c->target};
    struct fs_attr attr;
    s->r.attr = &c->attr;
    s->z->acl_lists += c->has_acl;
    if (s->r.now.sec && earlier(&s->r.now, &c->new.crtime))
        s->r.now = (struct ztime){c->new.crtime.sec, c->new.crtime.nsec};
    if (r->h.type == ZIL_MKXATTR)
        return replay_mkxattr(s->fs, c);
    int rc = fs_create(s->fs, c->dir, c->name, &new, &attr);
    if (rc == 0)
        fs_forget(s->fs, attr.ino, 1);
    return rc;
}

static int replay_link(struct fs *fs, const struct zil_link *l)
{
    struct fs_attr attr;
    int rc = fs_link(fs, l->object, l->dir, l->name, &attr);
    if (rc == 0)
        fs_forget(fs, l->object, 1);
    return rc;
}

static int replay_rename(struct fs *fs, const struct zil_record *r)
{
    const struct zil_rename *n = &r->rename;
    unsigned flags = r->h.type == ZIL_RENAME_EXCHANGE   ? RENAME_EXCHANGE
                     : r->h.type == ZIL_RENAME_WHITEOUT ? RENAME_WHITEOUT
                                                        : 0;
    return fs_rename(fs, n->from, n->name, n->to, n->newname, flags);
}

/* ---- Contents ---- */

static int get_file(struct fs *fs, uint64_t object, struct znode **zn)
{
    int rc = zn_get(fs, object, zn);
    return rc == 0 && !is_file(*zn) ? -EINVAL : rc;
}

static int write_zeros(struct znode *zn, uint64_t offset, uint64_t n)
{
    if (n > BLOCK_MAX_SIZE)
        return err_set(EBADE, "it is damaged");
    struct buf *zeros CLEANUP(cleanup_buf) = n ? buf_new_zero(n) : NULL;
    if (n == 0)
        return 0;
    return zeros ? file_write_whole(zn, offset, zeros->data, n) : -ENOMEM;
}

/* A block as it was to be linked into the file: all of it is written, as far as the file goes then.
 * A hole has no size: it is as long as the record says. */
static int write_block(struct znode *zn, const struct zil_write *w, bool big)
{
    struct buf *b CLEANUP(cleanup_buf) = NULL;
    struct zattr a;
    int rc = zil_read_data(zn->fs->os, zn->object, w->pointer, big, &b);
    if (rc < 0)
        return rc;
    if (!b)
        return write_zeros(zn, w->offset, w->length);
    uint64_t start = w->offset - w->offset % b->size;
    zn_attr(zn, &a);
    if (w->offset + w->length > start + b->size)
        return err_set(EBADE, "its block does not cover it");
    uint64_t size = MAX(a.size, w->offset + w->length);
    return file_write_whole(zn, start, b->data, MIN(b->size, size - start));
}

/* The data is there already; the file may end further behind. */
static int extend(struct fs *fs, struct znode *zn, uint64_t end)
{
    struct fs_setattr set = {.mask = FS_SET_SIZE, .size = end};
    struct fs_attr attr;
    struct zattr a;
    zn_attr(zn, &a);
    return end > a.size ? fs_setattr(fs, zn->object, &set, &attr) : 0;
}

static int replay_write(struct fs *fs, const struct zil_record *r, bool big)
{
    const struct zil_write *w = &r->write;
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = get_file(fs, w->object, &zn);
    if (rc < 0)
        return rc;
    if (r->h.type == ZIL_WRITE2)
        return extend(fs, zn, w->offset + w->length);
    if (!w->data)
        return write_block(zn, w, big);
    return w->length ? file_write_whole(zn, w->offset, w->data, w->length) : 0;
}

static int replay_truncate(struct fs *fs, const struct zil_truncate *t)
{
    struct fs_setattr set = {.mask = FS_SET_SIZE, .size = t->offset};
    struct fs_attr attr;
    if (t->length == 0)
        return fs_setattr(fs, t->object, &set, &attr);
    return fs_fallocate(fs, t->object, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, t->offset,
                        t->length);
}

static int clone_block(struct znode *zn, const struct zil_clone *c, size_t i, bool big)
{
    struct buf *b CLEANUP(cleanup_buf) = NULL;
    uint64_t done = i * c->block_size, n = MIN(c->block_size, c->length - done);
    int rc = zil_read_data(zn->fs->os, c->object, c->pointers + i * ZIL_POINTER_SIZE, big, &b);
    if (rc < 0)
        return rc;
    if (!b)
        return write_zeros(zn, c->offset + done, n);
    if (b->size < n)
        return err_set(EBADE, "one of its blocks is too short");
    return file_write_whole(zn, c->offset + done, b->data, n);
}

/* Blocks of another file, which are copied: this pool may have no table of clones. */
static int replay_clone(struct fs *fs, const struct zil_clone *c, bool big)
{
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = get_file(fs, c->object, &zn);
    if (rc == 0 &&
        (c->block_size == 0 || c->block_size > BLOCK_MAX_SIZE || c->offset % c->block_size != 0 ||
         c->count != ROUND_UP(c->length, c->block_size) / c->block_size))
        return err_set(EBADE, "it is damaged");
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        rc = zil_check_memory(fs->pool);
        if (rc == 0)
            rc = clone_block(zn, c, i, big);
    }
    return rc;
}

/* ---- Attributes ---- */

static int replay_xvattr(struct fs *fs, uint64_t object, const struct zil_xvattr *x)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    unsigned char projid[8];
    struct zattr a;
    bool moved;
    int rc = zn_get(fs, object, &zn);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_WRITE, COST_ATTR, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    zn_attr(zn, &a);
    zattr_touch(fs, &a, false);
    xvattr_apply(x, &a, &moved);
    if (!moved)
        return zn_store(zn, &a, &t.tx);
    put_u64(projid, a.projid, BYTES_HOST_BIG);
    const struct sa_change c = {SA_PROJID, projid, sizeof projid};
    return zn_store_more(zn, &a, &c, 1, &t.tx);
}

static struct timespec timespec_of(const struct zil_time *t)
{
    return (struct timespec){(time_t)t->sec, (long)t->nsec};
}

static int replay_setattr(struct fs *fs, const struct zil_setattr *s)
{
    const unsigned plain =
        ZIL_SET_MODE | ZIL_SET_UID | ZIL_SET_GID | ZIL_SET_SIZE | ZIL_SET_ATIME | ZIL_SET_MTIME;
    struct fs_setattr set = {.mask = s->mask & plain, /* the bits are the same */
                             .mode = s->mode,
                             .uid = s->uid,
                             .gid = s->gid,
                             .size = s->size,
                             .atime = timespec_of(&s->atime),
                             .mtime = timespec_of(&s->mtime)};
    struct fs_attr attr;
    int rc = 0;
    if (s->mask & ZIL_SET_SIZE)
        set.mask |= FS_SET_MTIME;
    if (set.mask || s->mask & ZIL_SET_CTIME)
        rc = fs_setattr(fs, s->object, &set, &attr);
    return rc == 0 && s->mask & ZIL_SET_XVATTR ? replay_xvattr(fs, s->object, &s->attr) : rc;
}

/* The attribute alone: what an access list does to the mode has a record of its own. */
static int replay_xattr(struct fs *fs, const struct zil_xattr *x)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    int rc = zn_get(fs, x->object, &zn);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_WRITE, x->size + COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    zn_attr(zn, &a);
    zattr_touch(fs, &a, false);
    zn->default_acl = ACL_UNKNOWN;
    if (!x->value)
        rc = a.has_dxattr ? xattr_sa_remove(zn, &a, x->name, &t.tx) : 0;
    else
        rc = xattr_sa_set(zn, &a, x->name, x->value, x->size, &t.tx);
    return rc == -ENODATA ? 0 : rc;
}

/* ---- The whole ---- */

/* An earlier record may have freed the number: then that must reach the disk first. In memory
 * nothing ever does; there the number stays in use. */
static int wait_for_number(struct fs *fs, const struct zil_record *r)
{
    const struct zil_new *new = zil_record_new(r);
    if (!new || fs->pool->in_memory)
        return 0;
    reaper_wait(fs);
    return object_wait_free(fs->os, new->object, new->dnode_size);
}

static int dispatch(struct replaying *s, const struct zil_record *r, bool big)
{
    switch (r->h.type) {
    case ZIL_REMOVE:
        return fs_unlink(s->fs, r->remove.dir, r->remove.name);
    case ZIL_RMDIR:
        return fs_rmdir(s->fs, r->remove.dir, r->remove.name);
    case ZIL_LINK:
        return replay_link(s->fs, &r->link);
    case ZIL_RENAME:
    case ZIL_RENAME_EXCHANGE:
    case ZIL_RENAME_WHITEOUT:
        return replay_rename(s->fs, r);
    case ZIL_WRITE:
    case ZIL_WRITE2:
        return replay_write(s->fs, r, big);
    case ZIL_TRUNCATE:
        return replay_truncate(s->fs, &r->truncate);
    case ZIL_SETATTR:
        return replay_setattr(s->fs, &r->setattr);
    case ZIL_ACL:
    case ZIL_ACL_V0:
        s->z->acl_lists++;
        return 0;
    case ZIL_SETSAXATTR:
        return replay_xattr(s->fs, &r->xattr);
    case ZIL_CLONE_RANGE:
        return replay_clone(s->fs, &r->clone, big);
    default:
        return replay_create(s, r);
    }
}

static int apply(void *arg, const struct zil_record *r, bool big)
{
    struct replaying *s = arg;
    uint64_t file = zil_record_file(r);
    s->r.seq = r->h.seq;
    s->r.new = zil_record_new(r);
    s->r.attr = NULL;
    err_clear();
    if (file == FS_ROOT_INO) /* which is no file's number, but stands for the root here */
        return err_set(EBADE, "it is damaged");
    int rc = wait_for_number(s->fs, r);
    if (rc == 0)
        rc = dispatch(s, r, big);
    return rc == -ENOENT && file ? 0 : rc;
}

/* The reaper looks at it, too: not while it changes. */
static void set_replay(struct fs *fs, struct replay *r)
{
    reaper_stop(fs);
    fs->replay = r;
    reaper_again(fs);
}

/* Only where there is something to replay. */
static int refuse(struct fs *fs, struct zil_replay *z)
{
    int rc = zil_pending(fs->ds, &z->result);
    if (rc || z->result.records == 0)
        return rc;
    return err_set(ENOTSUP, "this version cannot change such a file system");
}

int fs_replay(struct fs *fs, struct zil_replay *z, const struct timespec *now)
{
    struct replaying s = {.fs = fs, .z = z};
    if (fs->never_write)
        return refuse(fs, z);
    if (now)
        s.r.now = (struct ztime){(uint64_t)now->tv_sec, (uint64_t)now->tv_nsec};
    set_replay(fs, &s.r);
    int rc = fs_complete_tables(fs);
    if (rc == 0)
        rc = zil_replay(fs->ds, z, apply, &s);
    set_replay(fs, NULL);
    return rc;
}
