/* Attributes: GETATTR, STATX, SETATTR, STATFS; and how attributes are put into replies. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "fuse/request_impl.h"

static uint64_t attr_valid(const struct fs_attr *a)
{
    struct timespec now;

    if (!S_ISREG(a->mode))
        return FUSE_VALID_SECONDS;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (a->ctime.tv_sec > now.tv_sec - FUSE_SETTLE_SECONDS)
        return FUSE_SETTLE_SECONDS;
    return FUSE_VALID_SECONDS;
}

static void attr_fill(struct fuse_attr *o, const struct fs_attr *a)
{
    *o = (struct fuse_attr){
        .ino = a->ino,
        .size = a->size,
        .blocks = a->blocks,
        .atime = (uint64_t)a->atime.tv_sec,
        .mtime = (uint64_t)a->mtime.tv_sec,
        .ctime = (uint64_t)a->ctime.tv_sec,
        .atimensec = (uint32_t)a->atime.tv_nsec,
        .mtimensec = (uint32_t)a->mtime.tv_nsec,
        .ctimensec = (uint32_t)a->ctime.tv_nsec,
        .mode = a->mode,
        .nlink = a->nlink,
        .uid = a->uid,
        .gid = a->gid,
        .rdev = a->rdev,
        .blksize = a->blksize,
    };
}

void fuse_entry_fill(const struct fuse_request *r, struct fuse_entry_out *o,
                     const struct fs_attr *a)
{
    *o = (struct fuse_entry_out){
        .nodeid = !r->tag && a->ino == r->c->root_ino ? FUSE_ROOT_ID : r->tag | a->ino,
        .generation = a->gen,
        .entry_valid = FUSE_VALID_SECONDS,
        .attr_valid = attr_valid(a),
    };
    attr_fill(&o->attr, a);
    o->attr.ino |= r->tag;
    fuse_snapdir_given(r);
}

void fuse_reply_entry(struct fuse_request *r, const struct fs_attr *a)
{
    fuse_entry_fill(r, (struct fuse_entry_out *)r->out, a);
    r->out_len = sizeof(struct fuse_entry_out);
}

static void reply_attr(struct fuse_request *r, const struct fs_attr *a)
{
    struct fuse_attr_out *o = (struct fuse_attr_out *)r->out;

    *o = (struct fuse_attr_out){.attr_valid = attr_valid(a)};
    attr_fill(&o->attr, a);
    o->attr.ino |= r->tag;
    r->out_len = sizeof *o;
}

int fuse_op_getattr(struct fuse_request *r)
{
    struct fs_attr a;
    int rc = fs_getattr(r->fs, r->in.nodeid, &a);

    if (!rc)
        reply_attr(r, &a);
    return rc;
}

static struct fuse_sx_time sx_time(struct timespec t)
{
    return (struct fuse_sx_time){.tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec};
}

static void reply_statx(struct fuse_request *r, const struct fs_attr *a)
{
    struct fuse_statx_out *o = (struct fuse_statx_out *)r->out;

    *o = (struct fuse_statx_out){.attr_valid = attr_valid(a)};
    o->stat = (struct fuse_statx){
        .mask = STATX_BASIC_STATS | STATX_BTIME,
        .blksize = a->blksize,
        .nlink = a->nlink,
        .uid = a->uid,
        .gid = a->gid,
        .mode = (uint16_t)a->mode,
        .ino = r->tag | a->ino,
        .size = a->size,
        .blocks = a->blocks,
        .attributes = fuse_statx_attributes(a->flags),
        .attributes_mask = fuse_statx_attributes(~0u),
        .atime = sx_time(a->atime),
        .btime = sx_time(a->crtime),
        .ctime = sx_time(a->ctime),
        .mtime = sx_time(a->mtime),
        .rdev_major = major(a->rdev),
        .rdev_minor = minor(a->rdev),
    };
    r->out_len = sizeof *o;
}

int fuse_op_statx(struct fuse_request *r)
{
    struct fs_attr a;
    int rc = fs_getattr(r->fs, r->in.nodeid, &a);

    if (!rc)
        reply_statx(r, &a);
    return rc;
}

void fuse_reply_attr(struct fuse_request *r, const struct fs_attr *a)
{
    if (r->in.opcode == FUSE_STATX)
        reply_statx(r, a);
    else
        reply_attr(r, a);
}

static unsigned set_mask(uint32_t valid)
{
    static const struct {
        uint32_t fattr;
        unsigned set;
    } map[] = {
        {FATTR_MODE, FS_SET_MODE},
        {FATTR_UID, FS_SET_UID},
        {FATTR_GID, FS_SET_GID},
        {FATTR_SIZE, FS_SET_SIZE},
        {FATTR_ATIME, FS_SET_ATIME},
        {FATTR_MTIME, FS_SET_MTIME},
        {FATTR_CTIME, FS_SET_CTIME},
        {FATTR_ATIME_NOW, FS_SET_ATIME_NOW},
        {FATTR_MTIME_NOW, FS_SET_MTIME_NOW},
        {FATTR_KILL_SUIDGID, FS_SET_KILL_SUIDGID},
    };
    unsigned mask = 0;

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (valid & map[i].fattr)
            mask |= map[i].set;
    }
    if (mask & FS_SET_ATIME_NOW)
        mask &= ~(unsigned)FS_SET_ATIME;
    if (mask & FS_SET_MTIME_NOW)
        mask &= ~(unsigned)FS_SET_MTIME;
    /* HANDLE_KILLPRIV_V2 leaves this to us: a change of owner drops the bits, also one that keeps
     * both owner and group, of which nothing else arrives (complete_kill). */
    if (mask == 0 || ((mask & (FS_SET_UID | FS_SET_GID)) && !(mask & FS_SET_MODE)))
        mask |= FS_SET_KILL_SUIDGID;
    return mask;
}

/* The kernel asks to set nothing when the owner "changes" to what it is, which it has not checked,
 * and before somebody writes, which drops bits by itself. So who is neither owner nor root drops
 * none by this. */
static int complete_kill(struct fuse_request *r, struct fs_setattr *set)
{
    struct fs_attr a;
    int rc;

    if (!(set->mask & FS_SET_KILL_SUIDGID) || r->in.uid == 0)
        return 0;
    rc = fs_getattr(r->fs, r->in.nodeid, &a);
    if (rc)
        return rc;
    if (set->mask == FS_SET_KILL_SUIDGID && r->in.uid != a.uid)
        set->mask = 0;
    else if (a.mode & S_ISGID && !fuse_in_group(&r->in, a.gid))
        set->mask |= FS_SET_KILL_SGID;
    return 0;
}

int fuse_op_setattr(struct fuse_request *r)
{
    const struct fuse_setattr_in *in = r->arg;
    struct fs_setattr set = {
        .mask = set_mask(in->valid),
        .mode = in->mode,
        .uid = in->uid,
        .gid = in->gid,
        .size = in->size,
        .atime = {(time_t)in->atime, in->atimensec},
        .mtime = {(time_t)in->mtime, in->mtimensec},
        .ctime = {(time_t)in->ctime, in->ctimensec},
    };
    struct fs_attr a;
    int rc;

    if (in->atimensec > 999999999 || in->mtimensec > 999999999 || in->ctimensec > 999999999)
        return -EINVAL;
    if ((set.mask & FS_SET_SIZE) && set.size > INT64_MAX)
        return -EFBIG;
    rc = complete_kill(r, &set);
    if (rc)
        return rc;
    rc = fs_setattr(r->fs, r->in.nodeid, &set, &a);
    if (!rc)
        reply_attr(r, &a);
    return rc;
}

int fuse_op_statfs(struct fuse_request *r)
{
    struct fuse_statfs_out *o = (struct fuse_statfs_out *)r->out;
    struct fs_statfs s;
    int rc = fs_statfs(r->fs, &s);

    if (rc)
        return rc;
    *o = (struct fuse_statfs_out){.st = {
                                      .blocks = s.blocks,
                                      .bfree = s.bfree,
                                      .bavail = s.bavail,
                                      .files = s.files,
                                      .ffree = s.ffree,
                                      .bsize = s.bsize,
                                      .namelen = s.namelen,
                                      .frsize = s.frsize,
                                  }};
    r->out_len = sizeof *o;
    return 0;
}
