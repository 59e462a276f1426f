/* memfs: directories. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <linux/fs.h>

#include "memfs_impl.h"

static uint64_t name_hash(const char *name)
{
    return hash_bytes(name, strlen(name), 0);
}

static struct entry *find(const struct inode *dir, const char *name)
{
    struct hashmap_node *n = hashmap_first(&dir->names, name_hash(name));

    for (; n; n = hashmap_next(n)) {
        struct entry *e = container_of(n, struct entry, node);

        if (!strcmp(e->name, name))
            return e;
    }
    return NULL;
}

static void touch(struct inode *i, bool data)
{
    struct timespec now = memfs_now();

    pthread_rwlock_wrlock(&i->lock);
    i->a.ctime = now;
    if (data) {
        i->a.mtime = now;
        i->a.size = i->names.count;
    }
    pthread_rwlock_unlock(&i->lock);
}

static void set_nlink(struct inode *i, int by)
{
    pthread_rwlock_wrlock(&i->lock);
    i->a.nlink = (uint32_t)((int)i->a.nlink + by);
    i->a.ctime = memfs_now();
    pthread_rwlock_unlock(&i->lock);
}

static int add(struct inode *dir, const char *name, struct inode *i)
{
    size_t len = strlen(name);
    struct entry *e;

    if (dir->n_order == dir->cap_order) {
        size_t cap = dir->cap_order ? 2 * dir->cap_order : 16;
        struct entry **more = realloc(dir->order, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        dir->order = more;
        dir->cap_order = cap;
    }
    e = calloc(1, sizeof *e + len + 1);
    if (!e)
        return -ENOMEM;
    e->inode = i;
    e->len = len;
    memcpy(e->name, name, len + 1);
    e->cookie = dir->n_order + 3;
    dir->order[dir->n_order++] = e;
    hashmap_insert(&dir->names, &e->node, name_hash(name));
    if (S_ISDIR(i->a.mode)) {
        i->parent = dir->a.ino;
        set_nlink(dir, 1);
    }
    touch(dir, true);
    return 0;
}

static void del(struct inode *dir, struct entry *e)
{
    if (S_ISDIR(e->inode->a.mode))
        set_nlink(dir, -1);
    hashmap_remove(&dir->names, &e->node);
    dir->order[e->cookie - 3] = NULL;
    free(e);
    touch(dir, true);
}

static int get_dir(struct fs *fs, uint64_t ino, struct inode **out)
{
    *out = memfs_get(fs, ino);
    if (!*out)
        return -ESTALE;
    return S_ISDIR((*out)->a.mode) ? 0 : -ENOTDIR;
}

static void take(struct inode *i, struct fs_attr *attr)
{
    atomic_fetch_add(&i->refs, 1);
    memfs_attr(i, attr);
}

int fs_lookup(struct fs *fs, uint64_t ino, const char *name, struct fs_attr *attr)
{
    struct inode *dir;
    struct entry *e;
    int rc;

    pthread_rwlock_rdlock(&fs->tree);
    rc = get_dir(fs, ino, &dir);
    if (!rc) {
        e = find(dir, name);
        if (e)
            take(e->inode, attr);
        else
            rc = -ENOENT;
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_lookup_ino(struct fs *fs, uint64_t ino, uint64_t gen, struct fs_attr *attr)
{
    struct inode *i;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i && gen && i->a.gen != gen)
        i = NULL;
    if (i)
        take(i, attr);
    pthread_rwlock_unlock(&fs->tree);
    return i ? 0 : -ESTALE;
}

int fs_parent(struct fs *fs, uint64_t ino, struct fs_attr *attr)
{
    struct inode *i, *p;
    int rc;

    pthread_rwlock_rdlock(&fs->tree);
    rc = get_dir(fs, ino, &i);
    if (!rc) {
        p = memfs_get(fs, i->parent);
        if (p)
            take(p, attr);
        else
            rc = -ESTALE;
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

static int make(struct fs *fs, struct inode *dir, const struct fs_new *new, struct inode **out)
{
    struct fs_new n = *new;
    struct inode *i;
    int rc;

    if (dir->a.mode & S_ISGID) {
        n.gid = dir->a.gid;
        if (S_ISDIR(n.mode))
            n.mode |= S_ISGID;
    }
    i = memfs_inode_new(fs, &n);
    if (!i)
        return -ENOMEM;
    rc = memfs_inherit_acl(dir, i, new->umask);
    if (rc) {
        i->a.nlink = 0;
        memfs_drop_if_dead(fs, i);
        return rc;
    }
    *out = i;
    return 0;
}

int fs_create(struct fs *fs, uint64_t ino, const char *name, const struct fs_new *new,
              struct fs_attr *attr)
{
    struct inode *dir, *i;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_wrlock(&fs->tree);
    rc = get_dir(fs, ino, &dir);
    if (!rc && dir->a.nlink == 0)
        rc = -ENOENT;
    if (!rc && find(dir, name))
        rc = -EEXIST;
    if (!rc)
        rc = make(fs, dir, new, &i);
    if (!rc) {
        rc = add(dir, name, i);
        if (rc)
            i->a.nlink = 0;
        else
            take(i, attr);
        memfs_drop_if_dead(fs, i);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_tmpfile(struct fs *fs, uint64_t ino, const struct fs_new *new, struct fs_attr *attr)
{
    struct inode *dir, *i;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_wrlock(&fs->tree);
    rc = get_dir(fs, ino, &dir);
    if (!rc)
        rc = make(fs, dir, new, &i);
    if (!rc) {
        i->a.nlink = 0;
        take(i, attr);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_link(struct fs *fs, uint64_t ino, uint64_t dir_ino, const char *name, struct fs_attr *attr)
{
    struct inode *dir, *i;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_wrlock(&fs->tree);
    rc = get_dir(fs, dir_ino, &dir);
    i = memfs_get(fs, ino);
    if (!rc && !i)
        rc = -ESTALE;
    if (!rc && S_ISDIR(i->a.mode))
        rc = -EPERM;
    if (!rc && find(dir, name))
        rc = -EEXIST;
    if (!rc)
        rc = add(dir, name, i);
    if (!rc) {
        set_nlink(i, 1);
        take(i, attr);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

/* Removes e and what it names if that was the last name. tree held for writing. */
static void remove_entry(struct fs *fs, struct inode *dir, struct entry *e)
{
    struct inode *i = e->inode;

    del(dir, e);
    set_nlink(i, S_ISDIR(i->a.mode) ? -2 : -1);
    memfs_drop_if_dead(fs, i);
}

static int remove_name(struct fs *fs, uint64_t ino, const char *name, bool want_dir)
{
    struct inode *dir;
    struct entry *e = NULL;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_wrlock(&fs->tree);
    rc = get_dir(fs, ino, &dir);
    if (!rc) {
        e = find(dir, name);
        if (!e)
            rc = -ENOENT;
        else if (want_dir && !S_ISDIR(e->inode->a.mode))
            rc = -ENOTDIR;
        else if (!want_dir && S_ISDIR(e->inode->a.mode))
            rc = -EISDIR;
        else if (want_dir && e->inode->names.count)
            rc = -ENOTEMPTY;
    }
    if (!rc)
        remove_entry(fs, dir, e);
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_unlink(struct fs *fs, uint64_t dir, const char *name)
{
    return remove_name(fs, dir, name, false);
}

int fs_rmdir(struct fs *fs, uint64_t dir, const char *name)
{
    return remove_name(fs, dir, name, true);
}

int memfs_remove_name(struct fs *fs, uint64_t dir, const char *name, bool tell)
{
    int rc = remove_name(fs, dir, name, false);

    if (!rc && tell && fs->invalidate)
        fs->invalidate(fs->invalidate_arg, dir, name);
    return rc;
}

static bool is_below(struct fs *fs, const struct inode *dir, const struct inode *i)
{
    while (dir && dir != i && dir != fs->root)
        dir = memfs_get(fs, dir->parent);
    return dir == i;
}

struct rename {
    struct inode *from_dir, *to_dir;
    struct entry *from, *to;
    const char *name, *newname;
    unsigned flags;
};

static int rename_check(struct fs *fs, struct rename *r)
{
    struct inode *i = r->from->inode, *old = r->to ? r->to->inode : NULL;

    if (S_ISDIR(i->a.mode) && is_below(fs, r->to_dir, i))
        return -EINVAL;
    if (r->flags & RENAME_EXCHANGE) {
        if (!old)
            return -ENOENT;
        return S_ISDIR(old->a.mode) && is_below(fs, r->from_dir, old) ? -EINVAL : 0;
    }
    if (!old)
        return 0;
    if (r->flags & RENAME_NOREPLACE)
        return -EEXIST;
    if (S_ISDIR(i->a.mode) && !S_ISDIR(old->a.mode))
        return -ENOTDIR;
    if (!S_ISDIR(i->a.mode) && S_ISDIR(old->a.mode))
        return -EISDIR;
    return old->names.count ? -ENOTEMPTY : 0;
}

static int whiteout(struct fs *fs, struct inode *dir, const char *name)
{
    struct fs_new new = {.mode = S_IFCHR};
    struct inode *i = memfs_inode_new(fs, &new);

    return i ? add(dir, name, i) : -ENOMEM;
}

static int rename_do(struct fs *fs, struct rename *r)
{
    struct inode *i = r->from->inode, *old = r->to ? r->to->inode : NULL;
    int rc;

    if (i == old && !(r->flags & RENAME_EXCHANGE))
        return 0;
    del(r->from_dir, r->from);
    if (r->flags & RENAME_EXCHANGE)
        del(r->to_dir, r->to);
    else if (r->to)
        remove_entry(fs, r->to_dir, r->to);
    rc = add(r->to_dir, r->newname, i);
    touch(i, false);
    if (!rc && (r->flags & RENAME_EXCHANGE)) {
        rc = add(r->from_dir, r->name, old);
        touch(old, false);
    }
    if (!rc && (r->flags & RENAME_WHITEOUT))
        rc = whiteout(fs, r->from_dir, r->name);
    return rc;
}

int fs_rename(struct fs *fs, uint64_t dir, const char *name, uint64_t newdir, const char *newname,
              unsigned flags)
{
    struct rename r = {.name = name, .newname = newname, .flags = flags};
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) ||
        ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))))
        return -EINVAL;
    pthread_rwlock_wrlock(&fs->tree);
    rc = get_dir(fs, dir, &r.from_dir);
    if (!rc)
        rc = get_dir(fs, newdir, &r.to_dir);
    if (!rc) {
        r.from = find(r.from_dir, name);
        r.to = find(r.to_dir, newname);
        rc = r.from ? rename_check(fs, &r) : -ENOENT;
    }
    if (!rc)
        rc = rename_do(fs, &r);
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_readlink(struct fs *fs, uint64_t ino, char *buf, size_t cap)
{
    struct inode *i;
    size_t n = 0;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i && i->target) {
        n = strlen(i->target);
        n = n < cap ? n : cap;
        memcpy(buf, i->target, n);
    }
    pthread_rwlock_unlock(&fs->tree);
    return i ? i->target ? (int)n : -EINVAL : -ESTALE;
}

struct dots {
    const char *name;
    struct inode *inode;
};

static bool emit_one(fs_emit_fn *emit, void *arg, const char *name, size_t len, struct inode *i,
                     uint64_t next, bool attrs, bool dots)
{
    struct fs_attr a;
    uint32_t mode = i->a.mode; /* the type never changes */

    if (attrs)
        memfs_attr(i, &a);
    if (!emit(arg, name, len, i->a.ino, (mode & S_IFMT) >> 12, next, attrs ? &a : NULL))
        return false;
    if (attrs && !dots)
        atomic_fetch_add(&i->refs, 1);
    return true;
}

int fs_readdir(struct fs *fs, uint64_t ino, uint64_t cookie, bool attrs, fs_emit_fn *emit,
               void *arg)
{
    struct inode *dir, *up;
    bool on = true;
    int rc;

    pthread_rwlock_rdlock(&fs->tree);
    rc = get_dir(fs, ino, &dir);
    if (!rc && cookie < 1)
        on = emit_one(emit, arg, ".", 1, dir, 1, attrs, true);
    if (!rc && on && cookie < 2) {
        up = memfs_get(fs, dir->parent);
        on = emit_one(emit, arg, "..", 2, up ? up : dir, 2, attrs, true);
    }
    for (size_t k = cookie > 2 ? cookie - 2 : 0; !rc && on && k < dir->n_order; k++) {
        struct entry *e = dir->order[k];

        if (e)
            on = emit_one(emit, arg, e->name, e->len, e->inode, e->cookie, attrs, false);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}
