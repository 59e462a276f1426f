/* Extended attributes (spec 06 9): where they are, who may see them, access lists among them. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

#define VALUE_MAX 65536 /* Linux's own limit */

/* ---- By exact name; the znode is locked ---- */

int xattr_get(struct znode *zn, const char *name, unsigned char **value, size_t *n)
{
    int rc = zn->a.has_dxattr ? xattr_sa_get(zn, name, value, n) : -ENODATA;
    if (rc == -ENODATA && zn->a.xattr != 0)
        rc = xattr_dir_get(zn, name, value, n);
    return rc;
}

static int remove_both(struct znode *zn, struct zattr *a, const char *name, struct tx *tx)
{
    int sa = a->has_dxattr ? xattr_sa_remove(zn, a, name, tx) : -ENODATA;
    if (sa < 0 && sa != -ENODATA)
        return sa;
    int dir = a->xattr ? xattr_dir_remove(zn, name, tx) : -ENODATA;
    if (dir < 0 && dir != -ENODATA)
        return dir;
    return sa == 0 || dir == 0 ? zn_store(zn, a, tx) : -ENODATA;
}

/* In one place only: what is set in the one goes from the other. */
int xattr_put(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
              struct tx *tx)
{
    int rc = -EFBIG;
    if (!value)
        return remove_both(zn, a, name, tx);
    if (atomic_load(&zn->fs->xattr) != FS_XATTR_DIR)
        rc = xattr_sa_set(zn, a, name, value, n, tx);
    if (rc == 0 && a->xattr) {
        int gone = xattr_dir_remove(zn, name, tx);
        return gone == -ENODATA ? 0 : gone;
    }
    if (rc != -EFBIG)
        return rc;
    rc = xattr_dir_set(zn, a, name, value, n, tx);
    if (rc == 0 && a->has_dxattr) {
        int gone = xattr_sa_remove(zn, a, name, tx);
        return gone == -ENODATA ? 0 : gone;
    }
    return rc;
}

/* ---- Names (06 9.3) ---- */

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* A name as Solaris and FreeBSD store it, for a user.* name. */
static const char *bare_name(const char *name)
{
    return starts(name, "user.") && name[5] ? name + 5 : NULL;
}

static bool has_namespace(const char *name)
{
    return starts(name, "user.") || starts(name, "trusted.") || starts(name, "security.") ||
           starts(name, "system.");
}

static int check_name(struct fs *fs, const char *name)
{
    bool is_default;
    if (strnlen(name, XATTR_NAME_MAX + 1) > XATTR_NAME_MAX)
        return -ERANGE;
    if (acl_name(name, &is_default))
        return atomic_load(&fs->acltype) == FS_ACL_POSIX ? 0 : -EOPNOTSUPP;
    if (atomic_load(&fs->xattr) == FS_XATTR_OFF || !has_namespace(name) || starts(name, "system."))
        return -EOPNOTSUPP;
    const char *bare = bare_name(name);
    if (starts(name, "user.") && (!bare || has_namespace(bare) || starts(bare, "freebsd:")))
        return -EINVAL;
    return strchr(name, '.')[1] ? 0 : -EINVAL;
}

/* ---- Get and list ---- */

/* Most files have none at all, and the kernel asks often: told without waiting for anybody. */
static bool has_any(struct znode *zn)
{
    struct zattr a;
    zn_attr(zn, &a);
    return a.has_dxattr || a.xattr != 0;
}

static int get_any(struct znode *zn, const char *name, unsigned char **value, size_t *n)
{
    const char *bare = bare_name(name);
    int rc = xattr_get(zn, name, value, n);
    return rc == -ENODATA && bare ? xattr_get(zn, bare, value, n) : rc;
}

ssize_t fs_getxattr(struct fs *fs, uint64_t ino, const char *name, void *value, size_t cap)
{
    struct znode *zn CLEANUP_ZN = NULL;
    CLEANUP_FREE unsigned char *v = NULL;
    size_t n;
    int rc = check_name(fs, name);
    if (rc == -EINVAL)
        return -ENODATA;
    if (rc == 0)
        rc = zn_open(fs, ino, &zn);
    if (rc == 0 && !has_any(zn))
        rc = -ENODATA;
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    rc = get_any(zn, name, &v, &n);
    if (rc < 0)
        return rc;
    if (cap == 0)
        return n;
    if (n > cap)
        return -ERANGE;
    memcpy(value, v, n);
    return n;
}

struct list {
    struct fs *fs;
    char *names;
    size_t cap, used;
    bool privileged;
};

static bool shown(const struct list *l, const char *name)
{
    bool is_default;
    if (starts(name, "freebsd:") || (starts(name, "trusted.") && !l->privileged))
        return false;
    if (acl_name(name, &is_default))
        return atomic_load(&l->fs->acltype) == FS_ACL_POSIX;
    return true;
}

static int add_name(void *arg, const char *name)
{
    struct list *l = arg;
    const char *prefix = has_namespace(name) ? "" : "user.";
    size_t n = strlen(prefix) + strlen(name) + 1;
    if (!shown(l, name))
        return 0;
    if (l->cap > 0 && n > l->cap - l->used)
        return -ERANGE;
    if (l->cap > 0) {
        memcpy(l->names + l->used, prefix, strlen(prefix));
        strcpy(l->names + l->used + strlen(prefix), name);
    }
    l->used += n;
    return 0;
}

ssize_t fs_listxattr(struct fs *fs, uint64_t ino, char *names, size_t cap, bool privileged)
{
    struct znode *zn CLEANUP_ZN = NULL;
    struct list l = {fs, names, cap, 0, privileged};
    if (atomic_load(&fs->xattr) == FS_XATTR_OFF)
        return -EOPNOTSUPP;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0 || !has_any(zn))
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(zn);
    if (zn->a.has_dxattr)
        rc = xattr_sa_each(zn, add_name, &l);
    if (rc == 0 && zn->a.xattr)
        rc = xattr_dir_each(zn, add_name, &l);
    return rc < 0 ? rc : (ssize_t)l.used;
}

/* ---- Set and remove ---- */

/* Sees to XATTR_CREATE and XATTR_REPLACE. */
static int check_flags(struct znode *zn, const char *name, int flags)
{
    CLEANUP_FREE unsigned char *old = NULL;
    size_t n;
    if (!(flags & (XATTR_CREATE | XATTR_REPLACE)))
        return 0;
    int rc = get_any(zn, name, &old, &n);
    if (rc == 0)
        return flags & XATTR_CREATE ? -EEXIST : 0;
    return rc == -ENODATA && !(flags & XATTR_REPLACE) ? 0 : rc;
}

/* An access list changes the mode; one that says no more than the mode is not stored. */
static int set_access_acl(struct znode *zn, struct zattr *a, const void *value, size_t n,
                          bool kill_sgid, struct tx *tx)
{
    uint32_t mode = a->mode;
    bool minimal;
    acl_to_mode(value, n, &mode, &minimal);
    if (kill_sgid)
        mode &= ~(uint32_t)S_ISGID;
    a->mode = (a->mode & ~(uint64_t)07777) | (mode & 07777);
    int rc = zn_store_mode(zn, a, tx);
    if (rc == 0)
        rc = xattr_put(zn, a, ACL_ACCESS_NAME, minimal ? NULL : value, n, tx);
    return rc == -ENODATA ? 0 : rc;
}

static int set_acl(struct znode *zn, struct zattr *a, bool is_default, const void *value, size_t n,
                   bool kill_sgid, struct tx *tx)
{
    unsigned entries = 0;
    int rc = value ? acl_check(value, n, &entries) : 0;
    if (rc < 0)
        return rc;
    if (zn->type == S_IFLNK)
        return -EOPNOTSUPP;
    if (is_default) {
        if (!is_dir(zn))
            return entries ? -EACCES : 0;
        zn->default_acl = ACL_UNKNOWN;
        rc = xattr_put(zn, a, ACL_DEFAULT_NAME, entries ? value : NULL, n, tx);
    } else if (entries) {
        return set_access_acl(zn, a, value, n, kill_sgid, tx);
    } else {
        rc = xattr_put(zn, a, ACL_ACCESS_NAME, NULL, 0, tx);
    }
    return rc == -ENODATA ? 0 : rc;
}

static int set_plain(struct znode *zn, struct zattr *a, const char *name, const void *value,
                     size_t n, struct tx *tx)
{
    const char *bare = bare_name(name);
    int rc = xattr_put(zn, a, name, value, n, tx);
    if (bare && (rc == 0 || rc == -ENODATA)) { /* the old form of the name gives way */
        int gone = xattr_put(zn, a, bare, NULL, 0, tx);
        if (gone != -ENODATA && !(gone == 0 && rc == -ENODATA))
            return rc == 0 ? gone : rc;
        if (gone == 0)
            return 0;
    }
    return rc;
}

static int change(struct fs *fs, uint64_t ino, const char *name, const void *value, size_t n,
                  int flags, bool kill_sgid)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    bool is_default;
    int rc = zn_open(fs, ino, &zn);
    if (rc == 0)
        rc = fs_tx_begin(fs, value ? DATASET_TX_WRITE : DATASET_TX_FREE, n + COST_NAME, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    if (zn_bars(zn) & (PFLAG_IMMUTABLE | PFLAG_APPENDONLY))
        return -EPERM;
    rc = check_flags(zn, name, flags);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    zattr_touch(fs, &a, false);
    if (acl_name(name, &is_default))
        return set_acl(zn, &a, is_default, value, n, kill_sgid, &t.tx);
    return set_plain(zn, &a, name, value, n, &t.tx);
}

int fs_setxattr(struct fs *fs, uint64_t ino, const char *name, const void *value, size_t n,
                int flags, bool kill_sgid)
{
    int rc = check_name(fs, name);
    if (rc < 0)
        return rc;
    if (n > VALUE_MAX)
        return -E2BIG;
    return change(fs, ino, name, value ? value : "", n, flags, kill_sgid);
}

int fs_removexattr(struct fs *fs, uint64_t ino, const char *name)
{
    int rc = check_name(fs, name);
    return rc < 0 ? rc : change(fs, ino, name, NULL, 0, 0, false);
}

/* ---- After a chmod ---- */

int acl_follow_mode(struct znode *zn, struct zattr *a, struct tx *tx)
{
    CLEANUP_FREE unsigned char *acl = NULL;
    size_t n;
    if (atomic_load(&zn->fs->acltype) != FS_ACL_POSIX || (!a->has_dxattr && !a->xattr) ||
        zn->fs->replay) /* a log has a record of its own for the list */
        return 0;
    int rc = xattr_get(zn, ACL_ACCESS_NAME, &acl, &n);
    if (rc < 0 || acl_check(acl, n, NULL) < 0)
        return rc == -ENODATA ? 0 : rc;
    acl_chmod(acl, n, a->mode);
    return xattr_put(zn, a, ACL_ACCESS_NAME, acl, n, tx);
}
