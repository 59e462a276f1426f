/* memfs: extended attributes, and the POSIX ACLs among them (in Linux's encoding). */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "memfs_impl.h"
#include "util/bytes.h"

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

enum {
    TAG_USER_OBJ = 1,
    TAG_USER = 2,
    TAG_GROUP_OBJ = 4,
    TAG_GROUP = 8,
    TAG_MASK = 16,
    TAG_OTHER = 32
};

#define ACL_HEAD  4
#define ACL_ENTRY 8

static struct xattr **find(struct inode *i, const char *name)
{
    struct xattr **p = &i->xattrs;

    while (*p && strcmp((*p)->name, name))
        p = &(*p)->next;
    return p;
}

static void del(struct xattr **p)
{
    struct xattr *x = *p;

    *p = x->next;
    free(x->name);
    free(x);
}

void memfs_free_xattrs(struct inode *i)
{
    while (i->xattrs)
        del(&i->xattrs);
}

void memfs_kill_caps(struct inode *i)
{
    struct xattr **p = find(i, "security.capability");

    if (*p)
        del(p);
}

static int put(struct inode *i, const char *name, const void *value, size_t n)
{
    struct xattr *x = calloc(1, sizeof *x + n), **p = find(i, name);

    if (!x || !(x->name = strdup(name))) {
        free(x);
        return -ENOMEM;
    }
    if (*p)
        del(p);
    x->len = n;
    memcpy(x->value, value, n);
    x->next = i->xattrs;
    i->xattrs = x;
    return 0;
}

static unsigned char *acl_find(unsigned char *acl, size_t n, unsigned tag)
{
    for (size_t at = ACL_HEAD; at + ACL_ENTRY <= n; at += ACL_ENTRY) {
        if (get_le16(acl + at) == tag)
            return acl + at;
    }
    return NULL;
}

/* The entry that the group bits of the mode stand for. */
static unsigned char *acl_group_class(unsigned char *acl, size_t n)
{
    unsigned char *mask = acl_find(acl, n, TAG_MASK);

    return mask ? mask : acl_find(acl, n, TAG_GROUP_OBJ);
}

static bool acl_valid(unsigned char *acl, size_t n)
{
    return n >= ACL_HEAD && (n - ACL_HEAD) % ACL_ENTRY == 0 && get_le32(acl) == 2 &&
           acl_find(acl, n, TAG_USER_OBJ) && acl_find(acl, n, TAG_GROUP_OBJ) &&
           acl_find(acl, n, TAG_OTHER);
}

static uint32_t acl_mode(unsigned char *acl, size_t n)
{
    return (uint32_t)((get_le16(acl_find(acl, n, TAG_USER_OBJ) + 2) & 7) << 6 |
                      (get_le16(acl_group_class(acl, n) + 2) & 7) << 3 |
                      (get_le16(acl_find(acl, n, TAG_OTHER) + 2) & 7));
}

static void acl_set_mode(unsigned char *acl, size_t n, uint32_t mode)
{
    put_le16(acl_find(acl, n, TAG_USER_OBJ) + 2, (mode >> 6) & 7);
    put_le16(acl_group_class(acl, n) + 2, (mode >> 3) & 7);
    put_le16(acl_find(acl, n, TAG_OTHER) + 2, mode & 7);
}

void memfs_acl_chmod(struct inode *i)
{
    struct xattr **p = find(i, ACCESS);

    if (*p)
        acl_set_mode((*p)->value, (*p)->len, i->a.mode);
}

static int set_access(struct inode *i, unsigned char *acl, size_t n, bool kill_sgid)
{
    struct xattr **p = find(i, ACCESS);

    if (!acl_valid(acl, n))
        return -EINVAL;
    i->a.mode = (i->a.mode & ~0777u) | acl_mode(acl, n);
    if (kill_sgid)
        i->a.mode &= ~(uint32_t)S_ISGID;
    if (n > ACL_HEAD + 3 * ACL_ENTRY)
        return put(i, ACCESS, acl, n);
    if (*p) /* says no more than the mode */
        del(p);
    return 0;
}

int memfs_inherit_acl(const struct inode *dir, struct inode *i, uint32_t umask)
{
    struct xattr *d = *find((struct inode *)(uintptr_t)dir, DEFAULT);
    uint32_t mode = i->a.mode;
    int rc = 0;

    if (S_ISLNK(mode))
        return 0;
    if (!d) {
        i->a.mode &= ~umask;
        return 0;
    }
    if (S_ISDIR(mode))
        rc = put(i, DEFAULT, d->value, d->len);
    if (!rc)
        rc = set_access(i, d->value, d->len, false); /* mode becomes the ACL's */
    i->a.mode = (mode & ~0777u) | (i->a.mode & mode & 0777);
    memfs_acl_chmod(i);
    return rc;
}

ssize_t fs_getxattr(struct fs *fs, uint64_t ino, const char *name, void *value, size_t cap)
{
    struct inode *i;
    ssize_t rc = -ESTALE;

    if (!strncmp(name, "system.", 7) && fs->opts.acltype != FS_ACL_POSIX)
        return -EOPNOTSUPP;
    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        struct xattr *x;

        pthread_rwlock_rdlock(&i->lock);
        x = *find(i, name);
        rc = !x ? -ENODATA : cap && cap < x->len ? -ERANGE : (ssize_t)x->len;
        if (rc > 0 && cap)
            memcpy(value, x->value, x->len);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

static ssize_t list_locked(struct inode *i, char *names, size_t cap, bool privileged)
{
    size_t n = 0;

    for (struct xattr *x = i->xattrs; x; x = x->next) {
        size_t len = strlen(x->name) + 1;

        if (!privileged && !strncmp(x->name, "trusted.", 8))
            continue;
        if (cap && n + len > cap)
            return -ERANGE;
        if (cap)
            memcpy(names + n, x->name, len);
        n += len;
    }
    return (ssize_t)n;
}

ssize_t fs_listxattr(struct fs *fs, uint64_t ino, char *names, size_t cap, bool privileged)
{
    struct inode *i;
    ssize_t rc = -ESTALE;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        pthread_rwlock_rdlock(&i->lock);
        rc = list_locked(i, names, cap, privileged);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

static int set_locked(struct inode *i, const char *name, const void *value, size_t n, int flags,
                      bool kill_sgid)
{
    bool have = *find(i, name) != NULL;
    int rc;

    if (have && (flags & XATTR_CREATE))
        return -EEXIST;
    if (!have && (flags & XATTR_REPLACE))
        return -ENODATA;
    if (!strcmp(name, ACCESS)) {
        unsigned char *copy = malloc(n + 1);

        if (!copy)
            return -ENOMEM;
        memcpy(copy, value, n);
        rc = set_access(i, copy, n, kill_sgid);
        free(copy);
    } else if (!strcmp(name, DEFAULT) && !S_ISDIR(i->a.mode)) {
        rc = -EACCES;
    } else {
        rc = put(i, name, value, n);
    }
    if (!rc)
        i->a.ctime = memfs_now();
    return rc;
}

int fs_setxattr(struct fs *fs, uint64_t ino, const char *name, const void *value, size_t n,
                int flags, bool kill_sgid)
{
    struct inode *i;
    int rc = -ESTALE;

    if (fs->opts.readonly)
        return -EROFS;
    if (!strncmp(name, "system.", 7) &&
        (fs->opts.acltype != FS_ACL_POSIX || (strcmp(name, ACCESS) && strcmp(name, DEFAULT))))
        return -EOPNOTSUPP;
    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        pthread_rwlock_wrlock(&i->lock);
        rc = set_locked(i, name, value, n, flags, kill_sgid);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_removexattr(struct fs *fs, uint64_t ino, const char *name)
{
    struct inode *i;
    int rc = -ESTALE;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        struct xattr **p;

        pthread_rwlock_wrlock(&i->lock);
        p = find(i, name);
        rc = *p ? 0 : -ENODATA;
        if (*p) {
            del(p);
            i->a.ctime = memfs_now();
        }
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}
