/* A file's attributes in memory and on disk (spec 06 4.4, 5, 7.3). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"
#include "util/err.h"

#define HOST BYTES_HOST_BIG

/* ---- Loading ---- */

static int get_u64s(struct fs *fs, const struct sa_set *s, enum sa_id id, uint64_t *out, unsigned n)
{
    const struct sa_value *v = sa_set_get(&fs->sa, s, id);
    if (!v || v->length < 8 * n)
        return -ENOENT;
    for (unsigned i = 0; i < n; i++)
        out[i] = get_u64(v->data + 8 * i, HOST);
    return 0;
}

static int get_time(struct fs *fs, const struct sa_set *s, enum sa_id id, struct ztime *t)
{
    uint64_t w[2];
    int rc = get_u64s(fs, s, id, w, 2);
    if (rc == 0)
        *t = (struct ztime){w[0], w[1] < 1000000000 ? w[1] : 0};
    return rc;
}

static int get_required(struct fs *fs, const struct sa_set *s, struct zattr *a)
{
    if (get_u64s(fs, s, SA_MODE, &a->mode, 1) < 0 || get_u64s(fs, s, SA_SIZE, &a->size, 1) < 0 ||
        get_u64s(fs, s, SA_GEN, &a->gen, 1) < 0 || get_u64s(fs, s, SA_UID, &a->uid, 1) < 0 ||
        get_u64s(fs, s, SA_GID, &a->gid, 1) < 0 || get_u64s(fs, s, SA_PARENT, &a->parent, 1) < 0 ||
        get_u64s(fs, s, SA_FLAGS, &a->flags, 1) < 0 ||
        get_u64s(fs, s, SA_LINKS, &a->links, 1) < 0 || get_time(fs, s, SA_ATIME, &a->atime) < 0 ||
        get_time(fs, s, SA_MTIME, &a->mtime) < 0 || get_time(fs, s, SA_CTIME, &a->ctime) < 0 ||
        get_time(fs, s, SA_CRTIME, &a->crtime) < 0)
        return -ENOENT;
    if (a->flags & PFLAG_PROJID)
        return get_u64s(fs, s, SA_PROJID, &a->projid, 1);
    return a->gen == 0 ? -ENOENT : 0;
}

int zattr_load(struct fs *fs, struct dnode *dn, struct zattr *a)
{
    struct sa_set s CLEANUP_SA_SET;
    *a = (struct zattr){0};
    s.bonus = s.spill = NULL;
    int rc = sa_read(&fs->sa, dn, &s);
    if (rc == 0)
        rc = get_required(fs, &s, a);
    if (rc == -ENOENT)
        return rc;
    if (rc < 0)
        return err_prefix(rc, "object %llu", (unsigned long long)dnode_object(dn));
    get_u64s(fs, &s, SA_RDEV, &a->rdev, 1);
    get_u64s(fs, &s, SA_XATTR, &a->xattr, 1);
    a->has_dxattr = sa_set_get(&fs->sa, &s, SA_DXATTR) != NULL;
    a->standard = s.standard;
    a->header = s.header;
    return 0;
}

/* ---- Storing ---- */

static void put_time(unsigned char *p, const struct ztime *t)
{
    put_u64(p, t->sec, HOST);
    put_u64(p + 8, t->nsec, HOST);
}

/* The twelve of the prefix, as they lie behind the header. */
static void encode_prefix(const struct zattr *a, unsigned char out[SA_PREFIX_SIZE])
{
    const uint64_t w[] = {a->mode, a->size, a->gen, a->uid, a->gid, a->parent, a->flags};
    for (unsigned i = 0; i < ARRAY_LEN(w); i++)
        put_u64(out + 8 * i, w[i], HOST);
    put_time(out + 56, &a->atime);
    put_time(out + 72, &a->mtime);
    put_time(out + 88, &a->ctime);
    put_time(out + 104, &a->crtime);
    put_u64(out + 120, a->links, HOST);
}

/* Puts the prefix into a set; the bytes belong to the caller. */
static int put_prefix(struct fs *fs, struct sa_set *s, const struct zattr *a,
                      unsigned char bytes[SA_PREFIX_SIZE])
{
    int rc = 0;
    encode_prefix(a, bytes);
    for (unsigned i = 0, at = 0; i < SA_PREFIX_ATTRS && rc == 0; i++) {
        unsigned length = fs->sa.attrs[sa_prefix[i]].length;
        rc = sa_set_put(&fs->sa, s, sa_prefix[i], bytes + at, length);
        at += length;
    }
    return rc;
}

static void publish(struct znode *zn, const struct zattr *a, struct tx *tx)
{
    pthread_mutex_lock(&zn->attr_lock);
    zn->a = *a;
    zn->atime_dirty = false;
    pthread_mutex_unlock(&zn->attr_lock);
    atomic_store(&zn->last_txg, tx->txg);
}

/* An old znode's ACL becomes what its mode says (it is rewritten in the new form). */
static int add_trivial_acl(struct fs *fs, struct sa_set *s, const struct zattr *a,
                           unsigned char aces[TRIVIAL_ACL_MAX], unsigned char count[8])
{
    size_t length;
    put_u64(count, trivial_acl(a->mode, aces, &length), HOST);
    int rc = sa_set_put(&fs->sa, s, SA_DACL_COUNT, count, 8);
    return rc < 0 ? rc : sa_set_put(&fs->sa, s, SA_DACL_ACES, aces, length);
}

static int free_legacy_acl(struct fs *fs, uint64_t object, struct tx *tx)
{
    struct dnode *dn;
    if (object == 0 || dnode_hold(fs->os, object, &dn) < 0)
        return 0;
    int rc = object_free(dn, tx);
    dnode_rele(dn);
    return rc;
}

static int apply(struct fs *fs, struct sa_set *s, const struct sa_change *c, unsigned n)
{
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        if (c[i].data)
            rc = sa_set_put(&fs->sa, s, c[i].id, c[i].data, c[i].length);
        else
            sa_set_remove(&fs->sa, s, c[i].id);
    }
    return rc;
}

int zn_store_more(struct znode *zn, struct zattr *a, const struct sa_change *c, unsigned n,
                  struct tx *tx)
{
    struct fs *fs = zn->fs;
    unsigned char prefix[SA_PREFIX_SIZE], aces[TRIVIAL_ACL_MAX], count[8];
    struct sa_set s CLEANUP_SA_SET;
    s.bonus = s.spill = NULL;
    int rc = sa_read(&fs->sa, zn->dn, &s);
    if (rc == 0 && dnode_bonus_type(zn->dn) == OT_ZNODE)
        rc = add_trivial_acl(fs, &s, a, aces, count);
    if (rc == 0)
        rc = put_prefix(fs, &s, a, prefix);
    if (rc == 0)
        rc = apply(fs, &s, c, n);
    if (rc == 0)
        rc = sa_write(&fs->sa, zn->dn, &s, tx);
    if (rc == 0)
        rc = free_legacy_acl(fs, s.legacy_acl, tx);
    if (rc < 0)
        return rc;
    a->standard = s.standard;
    a->header = s.header;
    a->has_dxattr = sa_set_get(&fs->sa, &s, SA_DXATTR) != NULL;
    publish(zn, a, tx);
    return 0;
}

int zn_store(struct znode *zn, const struct zattr *a, struct tx *tx)
{
    unsigned char prefix[SA_PREFIX_SIZE];
    if (!a->standard) {
        struct zattr copy = *a;
        return zn_store_more(zn, &copy, NULL, 0, tx);
    }
    encode_prefix(a, prefix);
    int rc = dnode_bonus_patch(zn->dn, a->header, prefix, sizeof prefix, tx);
    if (rc == 0)
        publish(zn, a, tx);
    return rc;
}

int zn_prepare(struct znode *zn, struct tx *tx)
{
    struct zattr a;
    zn_attr(zn, &a);
    return zn_store(zn, &a, tx);
}

int zn_store_mode(struct znode *zn, struct zattr *a, struct tx *tx)
{
    unsigned char aces[TRIVIAL_ACL_MAX], count[8];
    size_t length;
    put_u64(count, trivial_acl(a->mode, aces, &length), HOST);
    a->flags &= ~PFLAG_NO_EXECS_DENIED;
    a->flags |= PFLAG_ACL_TRIVIAL | (trivial_no_execs_denied(a->mode) ? PFLAG_NO_EXECS_DENIED : 0);
    const struct sa_change c[] = {{SA_DACL_COUNT, count, 8}, {SA_DACL_ACES, aces, length}};
    return zn_store_more(zn, a, c, 2, tx);
}

int zattr_write_new(struct fs *fs, struct dnode *dn, struct zattr *a, const struct sa_change *more,
                    unsigned n, struct tx *tx)
{
    unsigned char prefix[SA_PREFIX_SIZE], projid[8], rdev[8], aces[TRIVIAL_ACL_MAX], count[8];
    struct sa_set s;
    s.n = 0;
    s.spilled = false;
    int rc = put_prefix(fs, &s, a, prefix);
    put_u64(projid, a->projid, HOST);
    put_u64(rdev, a->rdev, HOST);
    if (rc == 0 && a->flags & PFLAG_PROJID)
        rc = sa_set_put(&fs->sa, &s, SA_PROJID, projid, 8);
    if (rc == 0 && (S_ISCHR(a->mode) || S_ISBLK(a->mode)))
        rc = sa_set_put(&fs->sa, &s, SA_RDEV, rdev, 8);
    if (rc == 0)
        rc = add_trivial_acl(fs, &s, a, aces, count);
    if (rc == 0)
        rc = apply(fs, &s, more, n);
    if (rc == 0)
        rc = sa_write(&fs->sa, dn, &s, tx);
    a->standard = true;
    a->header = rc == 0 ? s.header : 0;
    a->has_dxattr = rc == 0 && sa_set_get(&fs->sa, &s, SA_DXATTR) != NULL;
    return rc;
}

/* ---- Reading ---- */

void zn_attr(struct znode *zn, struct zattr *a)
{
    pthread_mutex_lock(&zn->attr_lock);
    *a = zn->a;
    pthread_mutex_unlock(&zn->attr_lock);
}

int zn_read_sa(struct znode *zn, enum sa_id id, unsigned char **data, size_t *length)
{
    struct sa_set s CLEANUP_SA_SET;
    s.bonus = s.spill = NULL;
    *data = NULL;
    *length = 0;
    int rc = sa_read(&zn->fs->sa, zn->dn, &s);
    if (rc < 0)
        return rc;
    const struct sa_value *v = sa_set_get(&zn->fs->sa, &s, id);
    if (!v)
        return 0;
    *data = malloc(v->length + 1);
    if (!*data)
        return -ENOMEM;
    memcpy(*data, v->data, v->length);
    *length = v->length;
    return 0;
}

static struct timespec to_timespec(const struct ztime *t)
{
    return (struct timespec){(time_t)t->sec, (long)t->nsec};
}

/* On disk: 12 bits major, 20 minor (06 5.1). Outside: what the kernel passes to user space. */
static uint32_t rdev_out(uint64_t rdev)
{
    uint32_t major_ = rdev >> 20 & 0xfff, minor_ = rdev & 0xfffff;
    return (minor_ & 0xff) | major_ << 8 | (minor_ & ~0xffu) << 12;
}

void zn_fill(struct znode *zn, struct fs_attr *out)
{
    struct zattr a;
    zn_attr(zn, &a);
    *out = (struct fs_attr){
        .ino = zn->object,
        .gen = a.gen & 0xffffffff,
        .size = a.size,
        .blocks = (dnode_used(zn->dn) + 256) / 512 + dnode_size(zn->dn) / 512,
        .blksize = dnode_block_size(zn->dn),
        .mode = a.mode,
        .nlink = MIN(a.links, INT_MAX),
        .uid = a.uid,
        .gid = a.gid,
        .rdev = rdev_out(a.rdev),
        .flags = flags_out(a.flags),
        .nfs4_acl = !(a.flags & PFLAG_ACL_TRIVIAL),
        .atime = to_timespec(&a.atime),
        .mtime = to_timespec(&a.mtime),
        .ctime = to_timespec(&a.ctime),
        .crtime = to_timespec(&a.crtime),
    };
    if (is_file(zn) && a.size == 0) {
        struct objset_props props;
        objset_props(zn->fs->os, &props);
        out->blksize = props.recordsize;
    }
}

int fs_getattr(struct fs *fs, uint64_t ino, struct fs_attr *attr)
{
    struct znode *zn CLEANUP_ZN = NULL;
    int rc = zn_open(fs, ino, &zn);
    if (rc == 0)
        zn_fill(zn, attr);
    return rc;
}

/* ---- Times ---- */

void zattr_touch(const struct fs *fs, struct zattr *a, bool data)
{
    fs_now(fs, &a->ctime);
    if (data) {
        a->mtime = a->ctime;
        a->flags |= PFLAG_CHANGED;
    }
}

static int64_t compare(const struct ztime *x, const struct ztime *y)
{
    if (x->sec != y->sec)
        return (int64_t)x->sec < (int64_t)y->sec ? -1 : 1;
    return (int64_t)x->nsec - (int64_t)y->nsec;
}

#define DAY 86400

/* Somebody has read it: atime moves in memory, and to the disk with the next change or at eviction.
 */
void zn_accessed(struct znode *zn)
{
    struct fs *fs = zn->fs;
    struct ztime now;
    if (!atomic_load_explicit(&fs->atime, memory_order_relaxed))
        return;
    fs_now(fs, &now);
    pthread_mutex_lock(&zn->attr_lock);
    struct zattr *a = &zn->a;
    if (!atomic_load_explicit(&fs->relatime, memory_order_relaxed) ||
        compare(&a->atime, &a->mtime) <= 0 || compare(&a->atime, &a->ctime) <= 0 ||
        (int64_t)(now.sec - a->atime.sec) >= DAY) {
        a->atime = now;
        zn->atime_dirty = true;
    }
    pthread_mutex_unlock(&zn->attr_lock);
}

int zn_flush_atime(struct znode *zn)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct zattr a;
    int rc = fs_tx_begin(zn->fs, DATASET_TX_MUST, COST_ATTR, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    zn_attr(zn, &a);
    return zn->atime_dirty ? zn_store(zn, &a, &t.tx) : 0;
}
