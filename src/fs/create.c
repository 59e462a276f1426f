/* New files (spec 06 4.4, 5.2, 8; ACLs are inherited as Linux does it). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define SYMLINK_MAX 4095

/* ---- The object ---- */

static uint64_t initial_flags(const struct fs *fs, const struct new_object *n)
{
    uint64_t flags = n->flags | PFLAG_CHANGED | PFLAG_ACL_TRIVIAL;
    if (S_ISDIR(n->mode))
        flags |= PFLAG_AUTO_INHERIT;
    if (trivial_no_execs_denied(n->mode))
        flags |= PFLAG_NO_EXECS_DENIED;
    if (fs->projects && (S_ISDIR(n->mode) || S_ISREG(n->mode)))
        flags |= PFLAG_PROJID;
    return flags;
}

static void initial_attr(struct fs *fs, struct znode *dir, const struct new_object *n,
                         uint64_t object, struct tx *tx, struct zattr *a)
{
    *a = (struct zattr){
        .mode = n->mode,
        .size = S_ISDIR(n->mode) ? 2
                : n->target      ? strlen(n->target)
                                 : 0,
        .gen = tx->txg,
        .uid = n->uid,
        .gid = n->gid,
        .parent = n->parent ? n->parent : object,
        .flags = initial_flags(fs, n),
        .links = n->links,
        .rdev = n->rdev,
    };
    fs_now(fs, &a->crtime);
    if (fs->replay && fs->replay->new) {
        a->gen = fs->replay->new->gen;
        a->crtime = (struct ztime){fs->replay->new->crtime.sec, fs->replay->new->crtime.nsec};
    }
    a->atime = a->mtime = a->ctime = a->crtime;
    if (a->flags & PFLAG_PROJID && dir && dir->a.flags & PFLAG_PROJINHERIT) {
        a->projid = dir->a.projid;
        a->flags |= PFLAG_PROJINHERIT;
    }
    if (fs->replay && fs->replay->attr) {
        bool projid;
        xvattr_apply(fs->replay->attr, a, &projid);
    }
}

/* Under the number that the log says. Earlier records may have freed it. */
static int create_replayed(struct fs *fs, const struct new_object *n, struct object_params *p,
                           struct tx *tx, struct dnode **dn)
{
    const struct zil_new *new = fs->replay->new;
    p->dnode_size = new->dnode_size;
    int rc = object_create(fs->os, new->object, p, tx, dn);
    if (rc == -EEXIST || rc == -EBUSY)
        return err_set(-rc, "object %llu is in use", (unsigned long long)new->object);
    if (rc == 0 && S_ISDIR(n->mode) && (rc = zap_format(*dn, fs->normflags, tx)) != 0) {
        object_free(*dn, tx);
        dnode_rele(*dn);
    }
    return rc;
}

static int create_object(struct fs *fs, const struct new_object *n, struct tx *tx,
                         struct dnode **dn)
{
    struct objset_props props;
    objset_props(fs->os, &props);
    struct object_params p = {
        .type = S_ISDIR(n->mode) ? OT_DIRECTORY : OT_PLAIN_FILE,
        .bonus_type = OT_SA,
        .dnode_size = props.dnodesize,
    };
    if (fs->replay && fs->replay->new)
        return create_replayed(fs, n, &p, tx, dn);
    return S_ISDIR(n->mode) ? zap_create(fs->os, &p, fs->normflags, tx, dn)
                            : object_create(fs->os, 0, &p, tx, dn);
}

/* The record has what came out when the operation was done. */
static void take_recorded(const struct zil_new *new, struct new_object *n)
{
    n->mode = (n->mode & S_IFMT) | (new->mode & 07777);
    n->uid = new->uid;
    n->gid = new->gid;
    n->rdev = new->rdev;
}

int object_new(struct fs *fs, struct znode *dir, struct new_object *n, struct tx *tx,
               struct znode **out)
{
    const struct sa_change target = {SA_SYMLINK, n->target, n->target ? strlen(n->target) : 0};
    struct zattr a;
    struct dnode *dn;
    if (fs->replay && fs->replay->new)
        take_recorded(fs->replay->new, n);
    int rc = create_object(fs, n, tx, &dn);
    if (rc < 0)
        return rc;
    initial_attr(fs, dir, n, dnode_object(dn), tx, &a);
    rc = zattr_write_new(fs, dn, &a, &target, n->target ? 1 : 0, tx);
    if (rc == 0)
        rc = zn_new(fs, dn, &a, out);
    if (rc < 0) {
        object_free(dn, tx);
        dnode_rele(dn);
        return rc;
    }
    atomic_store(&(*out)->last_txg, tx->txg);
    return 0;
}

/* ---- What the directory gives to it ---- */

struct inherited {
    unsigned char *def; /* the directory's default list, or NULL */
    size_t n;
    unsigned char *access;
    bool minimal;
};

static void inherited_free(struct inherited *in)
{
    free(in->def);
    free(in->access);
}

/* The default list of a (write-locked) directory. */
static int get_default_acl(struct znode *dir, struct inherited *in)
{
    if (atomic_load(&dir->fs->acltype) != FS_ACL_POSIX || dir->default_acl == ACL_NONE)
        return 0;
    int rc = xattr_get(dir, ACL_DEFAULT_NAME, &in->def, &in->n);
    if (rc == -ENODATA) {
        dir->default_acl = ACL_NONE;
        return 0;
    }
    if (rc == 0 && acl_check(in->def, in->n, NULL) < 0) {
        free(STEAL(in->def)); /* not ours to judge here: as if there were none */
        return 0;
    }
    dir->default_acl = rc == 0 ? ACL_SOME : ACL_UNKNOWN;
    return rc;
}

static int inherit(struct znode *dir, const struct fs_new *new, struct new_object *n,
                   struct inherited *in)
{
    if (dir->fs->replay)
        return 0;
    if (dir->a.mode & S_ISGID) {
        n->gid = dir->a.gid;
        if (S_ISDIR(n->mode))
            n->mode |= S_ISGID;
    }
    if (S_ISLNK(n->mode))
        return 0;
    int rc = get_default_acl(dir, in);
    if (rc < 0)
        return rc;
    if (!in->def) {
        n->mode &= ~(new->umask & 0777);
        return 0;
    }
    in->access = malloc(in->n);
    if (!in->access)
        return -ENOMEM;
    memcpy(in->access, in->def, in->n);
    acl_inherit(in->access, in->n, &n->mode, &in->minimal);
    return 0;
}

static int write_acls(struct znode *zn, const struct inherited *in, struct tx *tx)
{
    struct zattr a;
    int rc = 0;
    if (!in->def)
        return 0;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    zn_attr(zn, &a);
    if (!in->minimal)
        rc = xattr_put(zn, &a, ACL_ACCESS_NAME, in->access, in->n, tx);
    if (rc == 0 && is_dir(zn))
        rc = xattr_put(zn, &a, ACL_DEFAULT_NAME, in->def, in->n, tx);
    return rc;
}

/* ---- Putting it together ---- */

static uint64_t rdev_in(uint32_t rdev)
{
    uint64_t major = rdev >> 8 & 0xfff, minor = (rdev & 0xff) | (rdev >> 12 & 0xfff00);
    return major << 20 | minor;
}

/* The name, and what it does to the directory. */
static int add_name(struct znode *dir, const char *name, struct znode *zn, struct tx *tx)
{
    uint64_t value = dir_value(zn);
    struct zattr a;
    int rc = zn_prepare(dir, tx);
    if (rc == 0)
        rc = zap_add(dir->dn, name, 8, 1, &value, tx);
    if (rc < 0)
        return rc;
    zn_attr(dir, &a);
    a.size++;
    a.links += is_dir(zn);
    zattr_touch(dir->fs, &a, true);
    return zn_store(dir, &a, tx);
}

/* A new object that could not be completed goes the way of unlinked ones. */
static void abandon(struct fs *fs, struct znode *zn, struct tx *tx)
{
    struct zattr a;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    zn_attr(zn, &a);
    a.links = 0;
    zn_store(zn, &a, tx);
    unlinked_add(fs, zn->object, tx);
    zn_mark_unlinked(zn, true);
}

static int check_quota(struct fs *fs, struct znode *dir, const struct new_object *n)
{
    uint64_t projid = dir->a.flags & PFLAG_PROJINHERIT ? dir->a.projid : 0;
    return quota_check(fs, n->uid, n->gid, projid, true);
}

/* In a locked directory: the object complete but for its name, with a lookup reference. */
static int make(struct fs *fs, struct znode *dir, const struct fs_new *new, uint64_t links,
                struct tx *tx, struct znode **out)
{
    struct new_object n = {
        .mode = new->mode &(S_IFMT | 07777),
        .uid = new->uid,
        .gid = new->gid,
        .rdev = S_ISCHR(new->mode) || S_ISBLK(new->mode) ? rdev_in(new->rdev) : 0,
        .links = S_ISDIR(new->mode) ? 2 : links,
        .flags = dir->a.flags &PFLAG_XATTR,
        .parent = dir->object,
        .target = S_ISLNK(new->mode) ? new->target : NULL,
    };
    struct inherited in CLEANUP(inherited_free) = {0};
    if (S_ISLNK(n.mode))
        n.mode = S_IFLNK | 0777;
    int rc = inherit(dir, new, &n, &in);
    if (rc == 0)
        rc = check_quota(fs, dir, &n);
    if (rc == 0)
        rc = object_new(fs, dir, &n, tx, out);
    if (rc < 0)
        return rc;
    rc = write_acls(*out, &in, tx);
    if (rc == 0)
        rc = zn_add_lookup(*out);
    if (rc < 0)
        abandon(fs, *out, tx);
    return rc;
}

static int check_new(const struct fs_new *new)
{
    switch (new->mode &S_IFMT) {
    case S_IFLNK:
        if (!new->target || !new->target[0])
            return -ENOENT;
        return strlen(new->target) > SYMLINK_MAX ? -ENAMETOOLONG : 0;
    case S_IFREG:
    case S_IFDIR:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
        return 0;
    default:
        return -EINVAL;
    }
}

int fs_create(struct fs *fs, uint64_t ino, const char *name, const struct fs_new *new,
              struct fs_attr *attr)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *dir CLEANUP_ZN = NULL, *zn CLEANUP_ZN = NULL;
    uint64_t value;
    int rc = name_check(fs, ino, name);
    if (rc == 0)
        rc = check_new(new);
    if (rc == 0)
        rc = get_dir(fs, ino, &dir);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_WRITE, COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(dir);
    rc = dir_find(dir, name, &value);
    if (rc != -ENOENT)
        return rc == 0 ? -EEXIST : rc;
    rc = dir_may_add(dir);
    if (rc == 0)
        rc = make(fs, dir, new, 1, &t.tx, &zn);
    if (rc < 0)
        return rc;
    rc = add_name(dir, name, zn, &t.tx);
    if (rc < 0) {
        abandon(fs, zn, &t.tx);
        fs_forget(fs, zn->object, 1);
        return rc;
    }
    zn_fill(zn, attr);
    return 0;
}

int fs_tmpfile(struct fs *fs, uint64_t ino, const struct fs_new *new, struct fs_attr *attr)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *dir CLEANUP_ZN = NULL, *zn CLEANUP_ZN = NULL;
    if (!S_ISREG(new->mode))
        return -EINVAL;
    int rc = get_dir(fs, ino, &dir);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_WRITE, COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(dir);
    rc = dir_may_add(dir);
    if (rc == 0)
        rc = make(fs, dir, new, 0, &t.tx, &zn);
    if (rc < 0)
        return rc;
    rc = unlinked_add(fs, zn->object, &t.tx);
    if (rc < 0) {
        fs_forget(fs, zn->object, 1);
        return rc;
    }
    zn_fill(zn, attr);
    return 0;
}
