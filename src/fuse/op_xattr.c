/* Extended attributes. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fuse/request_impl.h"
#include "util/bytes.h"

/* What get and list share: a size of 0 asks for the length only. */
static int reply_value(struct fuse_request *r, size_t asked, ssize_t got)
{
    struct fuse_getxattr_out *out = (struct fuse_getxattr_out *)r->out;

    if (got < 0)
        return (int)got;
    if (asked == 0) {
        *out = (struct fuse_getxattr_out){.size = (uint32_t)got};
        r->out_len = sizeof *out;
    } else {
        r->out_len = (size_t)got;
    }
    return 0;
}

int fuse_op_getxattr(struct fuse_request *r)
{
    const struct fuse_getxattr_in *in = r->arg;
    size_t size = MIN(in->size, r->out_cap);
    char name[XATTR_NAME_MAX + 1]; /* the value may be written over the request's name */
    size_t len = strlen(r->name);

    if (len == 0 || len > XATTR_NAME_MAX)
        return -ERANGE;
    memcpy(name, r->name, len + 1);
    return reply_value(r, size, fs_getxattr(r->fs, r->in.nodeid, name, r->out, size));
}

int fuse_op_listxattr(struct fuse_request *r)
{
    const struct fuse_getxattr_in *in = r->arg;
    size_t size = MIN(in->size, r->out_cap);
    bool privileged = r->in.uid == 0; /* sees trusted.* */

    return reply_value(r, size,
                       fs_listxattr(r->fs, r->in.nodeid, (char *)r->out, size, privileged));
}

int fuse_op_setxattr(struct fuse_request *r)
{
    const struct fuse_setxattr_in *in = r->arg;
    size_t len = strlen(r->name);
    bool kill = r->c->setxattr_ext && (in->setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID);

    if (in->size > r->data_len)
        return -EINVAL;
    if (len == 0 || len > XATTR_NAME_MAX)
        return -ERANGE;
    return fs_setxattr(r->fs, r->in.nodeid, r->name, r->data, in->size, (int)in->flags, kill);
}

int fuse_op_removexattr(struct fuse_request *r)
{
    size_t len = strlen(r->name);
    int rc;

    if (len == 0 || len > XATTR_NAME_MAX)
        return -ERANGE;
    rc = fs_removexattr(r->fs, r->in.nodeid, r->name);
    /* Removing an ACL says "the mode is all there is", which may be so already. */
    return rc == -ENODATA && !strncmp(r->name, "system.posix_acl_", 17) ? 0 : rc;
}
