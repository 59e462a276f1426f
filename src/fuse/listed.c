/*
 * Listings that are worth more fresh than cached.
 *
 * Whoever walks through a tree (cp, tar, rsync, ls -l) lists a directory and asks for the attributes
 * of each file. The kernel has both cached; but once it has read a file, it asks for that file's
 * attributes again, because the access time may have moved: a request per file. A new listing brings
 * them all along (READDIRPLUS). So when a file is read the kernel is told, once, to forget the
 * listing it has of the file's directory.
 */
#include <stdatomic.h>

#include "fuse/request_impl.h"

/* In a larger directory the cached listing is worth more. */
#define FEW_ENTRIES 4096

static _Atomic uint64_t *slot(struct fuse_listed *l, uint64_t node)
{
    return &l->nodes[node * 0x9e3779b97f4a7c15u >> 32 & (FUSE_LISTED_MAX - 1)];
}

void fuse_listed_end(struct fuse_request *r)
{
    struct fuse_listed *l = &r->c->listed;
    struct fs_attr a;

    if (fuse_snapdir_is_ours(r) || fs_getattr(r->fs, r->in.nodeid, &a) || a.size > FEW_ENTRIES)
        return;
    if (atomic_exchange(slot(l, r->tag | a.ino), r->tag | a.ino) == 0)
        atomic_fetch_add(&l->count, 1);
}

void fuse_listed_read(struct fuse_request *r)
{
    struct fuse_listed *l = &r->c->listed;
    struct fs_attr a;
    uint64_t dir, was;

    if (atomic_load_explicit(&l->count, memory_order_relaxed) == 0 || !r->c->forget_listing ||
        fs_getattr(r->fs, r->in.nodeid, &a) || a.parent == 0)
        return;
    was = dir = r->tag | a.parent;
    if (!atomic_compare_exchange_strong(slot(l, dir), &was, 0))
        return;
    atomic_fetch_sub(&l->count, 1);
    r->c->forget_listing(r->c, dir);
}
