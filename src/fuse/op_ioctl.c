/*
 * IOCTL: the flags of chattr(1), lsattr(1) and the project. The kernel (since 5.13) has checked who
 * may set them and passes what it calls fileattr as a "private" ioctl: with no user address. Every
 * other ioctl is refused.
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "fuse/request_impl.h"
#include "util/bytes.h"

static const struct {
    uint32_t fs, fl, xflag;
    uint64_t statx;
} map[] = {
    {FS_FLAG_IMMUTABLE, FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE, STATX_ATTR_IMMUTABLE},
    {FS_FLAG_APPEND, FS_APPEND_FL, FS_XFLAG_APPEND, STATX_ATTR_APPEND},
    {FS_FLAG_NODUMP, FS_NODUMP_FL, FS_XFLAG_NODUMP, STATX_ATTR_NODUMP},
    {FS_FLAG_PROJINHERIT, FS_PROJINHERIT_FL, FS_XFLAG_PROJINHERIT, 0},
};

uint64_t fuse_statx_attributes(uint32_t flags)
{
    uint64_t out = 0;

    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        out |= flags & map[i].fs ? map[i].statx : 0;
    return out;
}

static uint32_t to_fl(uint32_t flags)
{
    uint32_t out = 0;

    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        out |= flags & map[i].fs ? map[i].fl : 0;
    return out;
}

static uint32_t to_xflags(uint32_t flags)
{
    uint32_t out = 0;

    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        out |= flags & map[i].fs ? map[i].xflag : 0;
    return out;
}

/* -EOPNOTSUPP: flags that we do not have. */
static int from(uint32_t in, bool x, uint32_t *flags)
{
    *flags = 0;
    for (size_t i = 0; i < ARRAY_LEN(map); i++) {
        uint32_t bit = x ? map[i].xflag : map[i].fl;

        *flags |= in & bit ? map[i].fs : 0;
        in &= ~bit;
    }
    return in ? -EOPNOTSUPP : 0;
}

static int set(struct fuse_request *r, const struct fs_flags *f)
{
    int rc = fs_setflags(r->fs, r->in.nodeid, f);

    if (!rc && r->c->forget_attr)
        r->c->forget_attr(r->c, r->in.nodeid); /* ctime has changed */
    return rc;
}

static int do_flags(struct fuse_request *r, bool write, void *value)
{
    struct fs_flags f;
    uint32_t in;
    int rc = fs_getflags(r->fs, r->in.nodeid, &f);

    if (rc)
        return rc;
    memcpy(&in, value, sizeof in);
    if (write) {
        rc = from(in, false, &f.flags);
        return rc ? rc : set(r, &f);
    }
    in = to_fl(f.flags);
    memcpy(value, &in, sizeof in);
    return 0;
}

static int do_xattr(struct fuse_request *r, bool write, void *value)
{
    struct fs_flags f;
    struct fsxattr x;
    int rc = fs_getflags(r->fs, r->in.nodeid, &f);

    if (rc)
        return rc;
    memcpy(&x, value, sizeof x);
    if (write) {
        f.projid = x.fsx_projid;
        rc = x.fsx_extsize || x.fsx_cowextsize ? -EOPNOTSUPP : 0;
        if (!rc)
            rc = from(x.fsx_xflags & ~(uint32_t)FS_XFLAG_HASATTR, true, &f.flags);
        return rc ? rc : set(r, &f);
    }
    x = (struct fsxattr){.fsx_xflags = to_xflags(f.flags), .fsx_projid = f.projid};
    memcpy(value, &x, sizeof x);
    return 0;
}

static int run(struct fuse_request *r, uint32_t cmd, size_t size, void *value)
{
    switch (cmd) {
    case FS_IOC_GETFLAGS:
    case FS_IOC_SETFLAGS:
        return size == sizeof(uint32_t) ? do_flags(r, cmd == FS_IOC_SETFLAGS, value) : -ENOTTY;
    case FS_IOC_FSGETXATTR:
    case FS_IOC_FSSETXATTR:
        return size == sizeof(struct fsxattr) ? do_xattr(r, cmd == FS_IOC_FSSETXATTR, value)
                                              : -ENOTTY;
    default:
        return -ENOTTY;
    }
}

int fuse_op_ioctl(struct fuse_request *r)
{
    const struct fuse_ioctl_in *in = r->arg;
    struct fuse_ioctl_out out = {0};
    unsigned char value[sizeof(struct fsxattr)] = {0};
    size_t n = in->out_size;
    int rc;

    /* With an address it comes from a process, whose right nobody has checked. */
    if (in->arg != 0 || n > sizeof value || r->data_len > sizeof value ||
        r->data_len != in->in_size)
        return -ENOTTY;
    memcpy(value, r->data, r->data_len);
    rc = run(r, in->cmd, MAX(n, r->data_len), value);
    if (rc)
        return rc;
    memcpy(r->out, &out, sizeof out);
    memcpy(r->out + sizeof out, value, n);
    r->out_len = sizeof out + n;
    return 0;
}
