/* memfs: inodes and attributes. */
#include "memfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "memfs_impl.h"

#define ROOT_INO 34 /* not 1, so that the front end has to translate */

_Atomic(memfs_delay_fn *) memfs_delay;

bool memfs_forgiving;

struct timespec memfs_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t;
}

struct inode *memfs_get(struct fs *fs, uint64_t ino)
{
    uint64_t real = ino == FS_ROOT_INO ? ROOT_INO : ino;
    struct hashmap_node *n = hashmap_first(&fs->inodes, hash_u64(real));

    for (; n; n = hashmap_next(n)) {
        struct inode *i = container_of(n, struct inode, node);

        if (i->a.ino == real)
            return i;
    }
    return NULL;
}

struct inode *memfs_inode_new(struct fs *fs, const struct fs_new *new)
{
    struct inode *i = calloc(1, sizeof *i);

    if (!i)
        return NULL;
    if (hashmap_init(&i->names, 0)) {
        free(i);
        return NULL;
    }
    pthread_rwlock_init(&i->lock, NULL);
    i->a = (struct fs_attr){
        .ino = fs->next_ino,
        .gen = fs->next_ino + 1000,
        .blksize = 131072,
        .mode = new->mode,
        .nlink = S_ISDIR(new->mode) ? 2 : 1,
        .uid = new->uid,
        .gid = new->gid,
        .rdev = S_ISCHR(new->mode) || S_ISBLK(new->mode) ? new->rdev : 0,
        .blocks = 1,
    };
    i->a.atime = i->a.mtime = i->a.ctime = i->a.crtime = memfs_now();
    if (S_ISLNK(new->mode)) {
        i->target = strdup(new->target);
        i->a.size = strlen(new->target);
    }
    fs->next_ino++;
    hashmap_insert(&fs->inodes, &i->node, hash_u64(i->a.ino));
    return i;
}

static void inode_free(struct fs *fs, struct inode *i)
{
    hashmap_remove(&fs->inodes, &i->node);
    memfs_free_pages(fs, i);
    memfs_free_xattrs(i);
    for (size_t k = 0; k < i->n_order; k++)
        free(i->order[k]);
    free(i->order);
    hashmap_destroy(&i->names);
    pthread_rwlock_destroy(&i->lock);
    free(i->target);
    free(i);
}

void memfs_drop_if_dead(struct fs *fs, struct inode *i)
{
    if (i->a.nlink == 0 && atomic_load(&i->refs) == 0)
        inode_free(fs, i);
}

struct fs *memfs_new(const struct fs_options *opts, uint64_t limit)
{
    struct fs *fs = calloc(1, sizeof *fs);
    struct fs_new root = {.mode = S_IFDIR | 0755};

    if (!fs)
        return NULL;
    fs->opts = *opts;
    fs->limit = limit;
    fs->next_ino = ROOT_INO;
    pthread_rwlock_init(&fs->tree, NULL);
    if (hashmap_init(&fs->inodes, 1024) || !(fs->root = memfs_inode_new(fs, &root))) {
        free(fs);
        return NULL;
    }
    fs->root->parent = ROOT_INO;
    return fs;
}

void fs_close(struct fs *fs)
{
    for (size_t k = 0; k <= fs->inodes.mask; k++) {
        while (fs->inodes.slots[k])
            inode_free(fs, container_of(fs->inodes.slots[k], struct inode, node));
    }
    hashmap_destroy(&fs->inodes);
    pthread_rwlock_destroy(&fs->tree);
    free(fs);
}

int fs_remount(struct fs *fs, const struct fs_options *opts)
{
    pthread_rwlock_wrlock(&fs->tree);
    fs->opts = *opts;
    pthread_rwlock_unlock(&fs->tree);
    return 0;
}

uint64_t memfs_inodes(struct fs *fs)
{
    uint64_t n;

    pthread_rwlock_rdlock(&fs->tree);
    n = fs->inodes.count;
    pthread_rwlock_unlock(&fs->tree);
    return n;
}

uint64_t memfs_references(struct fs *fs)
{
    uint64_t n = 0;

    pthread_rwlock_rdlock(&fs->tree);
    for (size_t k = 0; k <= fs->inodes.mask; k++) {
        for (struct hashmap_node *h = fs->inodes.slots[k]; h; h = h->next) {
            struct inode *i = container_of(h, struct inode, node);

            n += i == fs->root ? 0 : atomic_load(&i->refs);
        }
    }
    pthread_rwlock_unlock(&fs->tree);
    return n;
}

void fs_forget(struct fs *fs, uint64_t ino, uint64_t count)
{
    struct inode *i;
    bool last;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i && i != fs->root && atomic_load(&i->refs) < count) {
        if (!memfs_forgiving)
            abort(); /* the front end lost count; the root is never forgotten in earnest */
        count = atomic_load(&i->refs);
    }
    last = i && i != fs->root && count && atomic_fetch_sub(&i->refs, count) == count;
    pthread_rwlock_unlock(&fs->tree);
    if (!last)
        return;
    pthread_rwlock_wrlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i)
        memfs_drop_if_dead(fs, i);
    pthread_rwlock_unlock(&fs->tree);
}

void memfs_attr(struct inode *i, struct fs_attr *out)
{
    pthread_rwlock_rdlock(&i->lock);
    *out = i->a;
    pthread_rwlock_unlock(&i->lock);
}

int fs_getflags(struct fs *fs, uint64_t ino, struct fs_flags *out)
{
    struct inode *i;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i)
        *out = (struct fs_flags){i->a.flags, i->projid};
    pthread_rwlock_unlock(&fs->tree);
    return i ? 0 : -ESTALE;
}

int fs_setflags(struct fs *fs, uint64_t ino, const struct fs_flags *set)
{
    struct inode *i;

    pthread_rwlock_wrlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        i->a.flags = set->flags;
        i->projid = set->projid;
    }
    pthread_rwlock_unlock(&fs->tree);
    return i ? 0 : -ESTALE;
}

int fs_getattr(struct fs *fs, uint64_t ino, struct fs_attr *attr)
{
    struct inode *i;

    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i)
        memfs_attr(i, attr);
    pthread_rwlock_unlock(&fs->tree);
    return i ? 0 : -ESTALE;
}

void memfs_kill_suidgid(struct inode *i, bool any_sgid)
{
    if (S_ISDIR(i->a.mode))
        return;
    i->a.mode &= ~(uint32_t)S_ISUID;
    if (any_sgid || (i->a.mode & S_IXGRP))
        i->a.mode &= ~(uint32_t)S_ISGID;
}

static void set_times(struct inode *i, const struct fs_setattr *s)
{
    struct timespec now = memfs_now();

    if (s->mask & FS_SET_ATIME)
        i->a.atime = s->atime;
    if (s->mask & FS_SET_MTIME)
        i->a.mtime = s->mtime;
    if (s->mask & FS_SET_ATIME_NOW)
        i->a.atime = now;
    if (s->mask & FS_SET_MTIME_NOW)
        i->a.mtime = now;
    i->a.ctime = s->mask & FS_SET_CTIME ? s->ctime : now;
}

static int set_locked(struct fs *fs, struct inode *i, const struct fs_setattr *s)
{
    int rc = 0;

    if (s->mask & FS_SET_SIZE) {
        if (S_ISDIR(i->a.mode))
            return -EISDIR;
        if (!S_ISREG(i->a.mode))
            return -EINVAL;
        rc = memfs_truncate(fs, i, s->size);
        if (rc)
            return rc;
        i->a.mtime = memfs_now();
    }
    if (s->mask & FS_SET_UID)
        i->a.uid = s->uid;
    if (s->mask & FS_SET_GID)
        i->a.gid = s->gid;
    if (s->mask & FS_SET_MODE) {
        i->a.mode = (i->a.mode & S_IFMT) | (s->mode & 07777);
        memfs_acl_chmod(i);
    }
    if (s->mask & FS_SET_KILL_SUIDGID)
        memfs_kill_suidgid(i, s->mask & FS_SET_KILL_SGID);
    if (s->mask & (FS_SET_SIZE | FS_SET_UID | FS_SET_GID))
        memfs_kill_caps(i);
    set_times(i, s);
    return 0;
}

int fs_setattr(struct fs *fs, uint64_t ino, const struct fs_setattr *set, struct fs_attr *attr)
{
    struct inode *i;
    int rc = -ESTALE;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_rdlock(&fs->tree);
    i = memfs_get(fs, ino);
    if (i) {
        pthread_rwlock_wrlock(&i->lock);
        rc = set_locked(fs, i, set);
        *attr = i->a;
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_statfs(struct fs *fs, struct fs_statfs *out)
{
    uint64_t total = fs->limit ? fs->limit : 64ull << 30, used = atomic_load(&fs->used);

    *out = (struct fs_statfs){
        .blocks = total / MEMFS_PAGE,
        .bfree = used < total ? (total - used) / MEMFS_PAGE : 0,
        .files = 1 << 20,
        .ffree = 1 << 19,
        .bsize = 131072,
        .frsize = MEMFS_PAGE,
        .namelen = FS_NAME_MAX,
    };
    out->bavail = out->bfree;
    return 0;
}

int fs_sync(struct fs *fs)
{
    return 0;
}

void fs_on_invalidate(struct fs *fs, fs_invalidate_fn *fn, void *arg)
{
    pthread_rwlock_wrlock(&fs->tree);
    fs->invalidate = fn;
    fs->invalidate_arg = arg;
    pthread_rwlock_unlock(&fs->tree);
}
