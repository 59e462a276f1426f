/* READDIR and READDIRPLUS. */
#include <errno.h>
#include <string.h>

#include "fuse/request_impl.h"
#include "util/bytes.h"

struct fill {
    struct fuse_request *r;
    size_t cap;
    bool full;
    fs_emit_fn *emit;
};

static void dirent_fill(struct fuse_dirent *d, const char *name, size_t len, uint64_t ino,
                        unsigned type, uint64_t next)
{
    size_t at = FUSE_NAME_OFFSET + len;

    *d = (struct fuse_dirent){.ino = ino, .off = next, .namelen = (uint32_t)len, .type = type};
    memcpy(d->name, name, len);
    memset((char *)d + at, 0, FUSE_DIRENT_ALIGN(at) - at);
}

static bool emit(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                 uint64_t next, const struct fs_attr *attr)
{
    struct fill *f = arg;
    size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);

    if (f->cap - f->r->out_len < size) {
        f->full = true;
        return false;
    }
    dirent_fill((struct fuse_dirent *)(f->r->out + f->r->out_len), name, len, f->r->tag | ino, type,
                next);
    f->r->out_len += size;
    return true;
}

static bool is_dots(const char *name, size_t len)
{
    return name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
}

static bool emit_plus(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                      uint64_t next, const struct fs_attr *attr)
{
    struct fill *f = arg;
    size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + len);
    struct fuse_direntplus *d = (struct fuse_direntplus *)(f->r->out + f->r->out_len);

    if (f->cap - f->r->out_len < size) {
        f->full = true;
        return false;
    }
    /* Without a node number the kernel takes it as a plain entry: no reference to drop later. */
    if (attr && !is_dots(name, len))
        fuse_entry_fill(f->r, &d->entry_out, attr);
    else
        memset(&d->entry_out, 0, sizeof d->entry_out);
    dirent_fill(&d->dirent, name, len, f->r->tag | ino, type, next);
    f->r->out_len += size;
    return true;
}

/* With snapdir=visible ".zfs" comes behind "..". */
static bool emit_root(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                      uint64_t next, const struct fs_attr *attr)
{
    struct fill *f = arg;
    uint64_t zfs;

    if (!f->emit(arg, name, len, ino, type, next, attr))
        return false;
    if (len != 2 || !is_dots(name, len) || !fuse_snapdir_listed(f->r, &zfs))
        return true;
    return f->emit(arg, ".zfs", 4, zfs, 4, next + 1, NULL);
}

static int readdir_common(struct fuse_request *r, bool plus)
{
    const struct fuse_read_in *in = r->arg;
    struct fill f = {.r = r, .cap = MIN(in->size, r->out_cap), .emit = plus ? emit_plus : emit};
    uint64_t zfs;
    int rc;

    if (fuse_snapdir_is_ours(r))
        rc = fuse_snapdir_readdir(r, in->offset, f.emit, &f);
    else if (fuse_snapdir_listed(r, &zfs))
        rc = fs_readdir(r->fs, r->in.nodeid, in->offset, plus, emit_root, &f);
    else
        rc = fs_readdir(r->fs, r->in.nodeid, in->offset, plus, f.emit, &f);

    if (rc && r->out_len > 0)
        return 0; /* what there is first; the error comes with the next call */
    if (!rc && r->out_len == 0 && f.full)
        return -EINVAL;
    return rc;
}

int fuse_op_readdir(struct fuse_request *r)
{
    return readdir_common(r, false);
}

int fuse_op_readdirplus(struct fuse_request *r)
{
    return readdir_common(r, true);
}
