/* Directory entries (spec 06 6; 03 14 for cookies). */
#include <errno.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

int name_check(const struct fs *fs, uint64_t dir, const char *name)
{
    size_t n = strnlen(name, FS_NAME_MAX + 1);
    if (n == 0 || memchr(name, '/', n))
        return -EINVAL;
    if (n > FS_NAME_MAX)
        return -ENAMETOOLONG;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EEXIST;
    if ((dir == FS_ROOT_INO || dir == fs->root) && strcmp(name, ".zfs") == 0)
        return -EPERM;
    return 0;
}

int get_dir(struct fs *fs, uint64_t ino, struct znode **out)
{
    int rc = zn_open(fs, ino, out);
    return rc == 0 && !is_dir(*out) ? -ENOTDIR : rc;
}

int dir_find(struct znode *dir, const char *name, uint64_t *value)
{
    int rc = zap_get(dir->dn, name, value);
    return rc == -EINVAL ? -ENOENT : rc; /* "" is nobody's name */
}

int dir_empty(struct znode *dir, bool *empty)
{
    uint64_t n;
    int rc = zap_count(dir->dn, &n);
    *empty = rc == 0 && n == 0;
    return rc;
}

int dir_may_add(struct znode *dir)
{
    if (dir->a.links == 0)
        return -ENOENT;
    return zn_bars(dir) & PFLAG_IMMUTABLE ? -EPERM : 0;
}

int dir_may_remove(struct znode *dir, struct znode *child)
{
    struct zattr a;
    zn_attr(child, &a);
    if (dir->fs->replay)
        return 0;
    if (dir->a.flags & (PFLAG_IMMUTABLE | PFLAG_APPENDONLY) ||
        a.flags & (PFLAG_IMMUTABLE | PFLAG_APPENDONLY | PFLAG_NOUNLINK))
        return -EPERM;
    return 0;
}

/* ---- Lookups ---- */

/* A reference for the front end. */
static int give(struct znode *zn, struct fs_attr *attr)
{
    int rc = zn_add_lookup(zn);
    if (rc == 0)
        zn_fill(zn, attr);
    return rc;
}

int fs_lookup(struct fs *fs, uint64_t ino, const char *name, struct fs_attr *attr)
{
    struct znode *dir CLEANUP_ZN = NULL, *zn CLEANUP_ZN = NULL;
    uint64_t value;
    if (strnlen(name, FS_LOOKUP_MAX + 1) > FS_LOOKUP_MAX)
        return -ENAMETOOLONG;
    int rc = get_dir(fs, ino, &dir);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(dir); /* until the child is held */
    rc = dir_find(dir, name, &value);
    if (rc == 0)
        rc = zn_get(fs, value & OBJECT_MASK, &zn);
    return rc < 0 ? rc : give(zn, attr);
}

int fs_lookup_ino(struct fs *fs, uint64_t ino, uint64_t gen, struct fs_attr *attr)
{
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    if (ino > OBJECT_MASK)
        return -ESTALE;
    int rc = zn_get(fs, ino, &zn);
    if (rc == -ENOENT)
        return -ESTALE;
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    if ((gen != 0 && gen != (a.gen & 0xffffffff)) || a.flags & PFLAG_XATTR)
        return -ESTALE;
    return give(zn, attr);
}

int fs_parent(struct fs *fs, uint64_t ino, struct fs_attr *attr)
{
    struct znode *zn CLEANUP_ZN = NULL, *parent CLEANUP_ZN = NULL;
    struct zattr a;
    int rc = get_dir(fs, ino, &zn);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    rc = zn_get(fs, a.parent, &parent);
    return rc < 0 ? rc : give(parent, attr);
}

/* ---- Listing ---- */

#define COOKIE_DOTDOT 1 /* behind "." */
#define COOKIE_FIRST  2 /* behind ".." */
#define COOKIE_SMALL  3 /* up to here: the first real entry */

struct listing {
    struct fs *fs;
    bool attrs;
    fs_emit_fn *emit;
    void *arg;
};

static bool emit_dot(struct listing *l, const char *name, struct znode *zn, uint64_t ino,
                     uint64_t next)
{
    struct fs_attr attr;
    bool with = l->attrs && zn;
    if (with)
        zn_fill(zn, &attr);
    return l->emit(l->arg, name, strlen(name), ino, 4, next, with ? &attr : NULL);
}

static bool emit_dots(struct listing *l, struct znode *dir, uint64_t cookie)
{
    struct zattr a;
    zn_attr(dir, &a);
    if (cookie == 0 && !emit_dot(l, ".", dir, dir->object, COOKIE_DOTDOT))
        return false;
    if (cookie <= COOKIE_DOTDOT) {
        struct znode *parent CLEANUP_ZN = NULL;
        if (l->attrs && zn_get(l->fs, a.parent, &parent) < 0)
            parent = NULL;
        return emit_dot(l, "..", parent, a.parent, COOKIE_FIRST);
    }
    return true;
}

/* With attributes: the reference is taken first and given back if there is no room. A file whose
 * attributes cannot be read is listed without. */
static bool emit_with_attrs(struct listing *l, const struct zap_entry *e, uint64_t next)
{
    struct znode *zn CLEANUP_ZN = NULL;
    struct fs_attr attr;
    uint64_t object = e->first & OBJECT_MASK;
    bool held = zn_get(l->fs, object, &zn) == 0 && give(zn, &attr) == 0;
    unsigned type = held ? attr.mode >> 12 & 15 : e->first >> 60;
    bool more = l->emit(l->arg, e->name, strlen(e->name), object, type, next, held ? &attr : NULL);
    if (held && !more)
        fs_forget(l->fs, object, 1);
    return more;
}

static bool emit_entry(struct listing *l, const struct zap_entry *e, uint64_t next)
{
    if (l->attrs)
        return emit_with_attrs(l, e, next);
    return l->emit(l->arg, e->name, strlen(e->name), e->first & OBJECT_MASK, e->first >> 60, next,
                   NULL);
}

int fs_readdir(struct fs *fs, uint64_t ino, uint64_t cookie, bool attrs, fs_emit_fn *emit,
               void *arg)
{
    struct znode *dir CLEANUP_ZN = NULL;
    struct listing l = {fs, attrs, emit, arg};
    struct zap_cursor c;
    struct zap_entry e;
    int rc = get_dir(fs, ino, &dir);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_read_lock(dir);
    zn_accessed(dir);
    if (!emit_dots(&l, dir, cookie))
        return 0;
    zap_cursor_init(&c, dir->dn, cookie <= COOKIE_SMALL ? 0 : cookie);
    while ((rc = zap_cursor_next(&c, &e)) == 0)
        if (e.count > 0 && e.key_words == 0 && !emit_entry(&l, &e, zap_cursor_cookie(&c)))
            return 0;
    return rc == -ENOENT ? 0 : rc;
}
