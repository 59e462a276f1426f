/* File contents: READ, WRITE, FSYNC, FALLOCATE, LSEEK, COPY_FILE_RANGE. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/request_impl.h"
#include "util/bytes.h"

/* What chattr(1) forbids whoever opens a file. Without this, the change itself is refused. */
static int check_open(struct fuse_request *r)
{
    const struct fuse_open_in *in = r->arg;
    struct fs_flags f;
    int rc = fs_getflags(r->fs, r->in.nodeid, &f);

    if (rc || (in->flags & O_ACCMODE) == O_RDONLY)
        return rc;
    if (f.flags & FS_FLAG_IMMUTABLE)
        return -EPERM;
    return f.flags & FS_FLAG_APPEND && !(in->flags & O_APPEND) ? -EPERM : 0;
}

/* OPEN, OPENDIR: ENOSYS makes the kernel open files by itself from then on, keeping caches. */
int fuse_op_open(struct fuse_request *r)
{
    struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE |
                                              (r->in.opcode == FUSE_OPENDIR ? FOPEN_CACHE_DIR : 0)};

    if (r->in.opcode == FUSE_OPEN && r->c->check_open) {
        int rc = check_open(r);

        if (rc)
            return rc;
        out.open_flags |= FOPEN_NOFLUSH;
    } else if (!r->c->keep_open) {
        return -ENOSYS;
    }
    memcpy(r->out, &out, sizeof out);
    r->out_len = sizeof out;
    return 0;
}

int fuse_op_read(struct fuse_request *r)
{
    const struct fuse_read_in *in = r->arg;
    size_t n = MIN(in->size, r->out_cap);
    ssize_t got;

    if (in->offset > INT64_MAX)
        return -EINVAL;
    got = fs_read_with(r->fs, r->in.nodeid, in->offset, r->out, n,
                       in->flags & O_NOATIME ? FS_READ_NOATIME : 0);
    if (got < 0)
        return (int)got;
    r->out_len = (size_t)got;
    return 0;
}

/*
 * HANDLE_KILLPRIV_V2 leaves the set-user-id and set-group-id bits to us when a file's contents
 * change, but the kernel does not expect that the mode it has cached changes by that: it is told.
 */
static unsigned bits_to_kill(struct fuse_request *r, uint64_t ino)
{
    struct fs_attr a;

    if (fs_getattr(r->fs, ino, &a) || !(a.mode & (S_ISUID | S_ISGID)))
        return 0;
    if ((a.mode & (S_ISGID | S_IXGRP)) == S_ISGID && !fuse_in_group(&r->in, a.gid))
        return FS_WRITE_KILL_SUIDGID | FS_WRITE_KILL_SGID;
    return FS_WRITE_KILL_SUIDGID;
}

static void mode_changed(struct fuse_request *r, uint64_t ino)
{
    if (r->c->forget_attr)
        r->c->forget_attr(r->c, ino);
}

/* The offset of an append is the kernel's: it holds the inode's lock, and nobody changes a size
 * behind its back without invalidating it. O_SYNC is followed by an FSYNC of its own. */
int fuse_op_write(struct fuse_request *r)
{
    const struct fuse_write_in *in = r->arg;
    struct fuse_write_out *out = (struct fuse_write_out *)r->out;
    unsigned kill = 0;
    ssize_t put;

    if (in->size > r->data_len)
        return -EINVAL;
    if (in->offset > (uint64_t)INT64_MAX - in->size)
        return -EFBIG;
    if (in->write_flags & FUSE_WRITE_KILL_SUIDGID)
        kill = bits_to_kill(r, r->in.nodeid);
    put = fs_write(r->fs, r->in.nodeid, in->offset, r->data, in->size, kill);
    if (put < 0)
        return (int)put;
    if (kill)
        mode_changed(r, r->in.nodeid);
    *out = (struct fuse_write_out){.size = (uint32_t)put};
    r->out_len = sizeof *out;
    return 0;
}

int fuse_op_fsync(struct fuse_request *r)
{
    const struct fuse_fsync_in *in = r->arg;

    if (r->c->before_wait)
        r->c->before_wait();
    return fs_fsync(r->fs, r->in.nodeid, in->fsync_flags & FUSE_FSYNC_FDATASYNC);
}

int fuse_op_syncfs(struct fuse_request *r)
{
    if (r->c->before_wait)
        r->c->before_wait();
    return fs_sync(r->fs);
}

int fuse_op_fallocate(struct fuse_request *r)
{
    const struct fuse_fallocate_in *in = r->arg;
    struct fs_setattr set = {.mask = FS_SET_KILL_SUIDGID};
    struct fs_attr a;
    unsigned kill;
    int rc;

    if (in->offset > INT64_MAX || in->length > INT64_MAX - in->offset)
        return -EFBIG;
    rc = fs_fallocate(r->fs, r->in.nodeid, (int)in->mode, in->offset, in->length);
    if (!rc && r->in.uid != 0 && (kill = bits_to_kill(r, r->in.nodeid))) {
        set.mask |= kill & FS_WRITE_KILL_SGID ? FS_SET_KILL_SGID : 0;
        rc = fs_setattr(r->fs, r->in.nodeid, &set, &a);
        mode_changed(r, r->in.nodeid);
    }
    return rc;
}

int fuse_op_lseek(struct fuse_request *r)
{
    const struct fuse_lseek_in *in = r->arg;
    struct fuse_lseek_out *out = (struct fuse_lseek_out *)r->out;
    uint64_t at;
    int rc;

    if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
        return -EINVAL;
    if (in->offset > INT64_MAX)
        return -ENXIO;
    rc = fs_seek(r->fs, r->in.nodeid, in->offset, (int)in->whence, &at);
    if (rc)
        return rc;
    *out = (struct fuse_lseek_out){.offset = at};
    r->out_len = sizeof *out;
    return 0;
}

/* One request copies no more than this, so that those behind it do not wait long. */
#define COPY_MAX (1u << 20)

/* Copies a part: whole blocks without moving them, else as much as the reply's room holds; at most
 * to the next multiple of it, after which there may be whole blocks. Bytes or a negative errno. */
static ssize_t copy_part(struct fuse_request *r, uint64_t off, uint64_t to, uint64_t to_off,
                         size_t len, unsigned kill)
{
    ssize_t n = fs_share(r->fs, r->in.nodeid, off, to, to_off, len, kill);

    if (n != 0)
        return n;
    n = fs_read(r->fs, r->in.nodeid, off, r->out, MIN(len, r->out_cap - off % r->out_cap));
    return n <= 0 ? n : fs_write(r->fs, to, to_off, r->out, (size_t)n, kill);
}

/* Copies within the file system without a way through the kernel's page cache. Returns the bytes
 * copied or a negative errno. */
static ssize_t copy_range(struct fuse_request *r)
{
    struct fuse_copy_file_range_in in;
    uint64_t done = 0, len;
    ssize_t n = 0;
    unsigned kill;

    memcpy(&in, r->arg, sizeof in);
    if (in.flags)
        return -EINVAL;
    if (fuse_snapdir_is_foreign(r, in.nodeid_out))
        return -EXDEV; /* the kernel then copies by itself */
    len = MIN(in.len, COPY_MAX);
    if (in.off_in > INT64_MAX - len)
        return -EINVAL;
    if (in.off_out > INT64_MAX - len)
        return -EFBIG;
    kill = r->in.uid != 0 ? bits_to_kill(r, in.nodeid_out) : 0;
    while (done < len) {
        n = copy_part(r, in.off_in + done, in.nodeid_out, in.off_out + done, len - done, kill);
        if (n <= 0)
            break;
        done += (uint64_t)n;
    }
    if (done && kill)
        mode_changed(r, in.nodeid_out);
    return done ? (ssize_t)done : n;
}

int fuse_op_copy_range(struct fuse_request *r)
{
    struct fuse_write_out *out = (struct fuse_write_out *)r->out;
    ssize_t n = copy_range(r);

    if (n < 0)
        return (int)n;
    *out = (struct fuse_write_out){.size = (uint32_t)n};
    r->out_len = sizeof *out;
    return 0;
}

int fuse_op_copy_range_64(struct fuse_request *r)
{
    struct fuse_copy_file_range_out *out = (struct fuse_copy_file_range_out *)r->out;
    ssize_t n = copy_range(r);

    if (n < 0)
        return (int)n;
    *out = (struct fuse_copy_file_range_out){.bytes_copied = (uint64_t)n};
    r->out_len = sizeof *out;
    return 0;
}
