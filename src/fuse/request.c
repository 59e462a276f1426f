/* Decoding and dispatch of requests. */
#include "fuse/request_impl.h"

#include <errno.h>
#include <string.h>

#include "util/bytes.h"

/* The rules for names in a request. */
enum {
    NAME1 = 1,      /* a name follows the operation's structure */
    NAME2 = 2,      /* two of them */
    PATH_NAMES = 4, /* they are directory entries: length and characters are checked */
    CREATES = 8     /* "." and ".." are refused */
};

struct op {
    int (*fn)(struct fuse_request *r);
    uint16_t arg_size;
    uint8_t names;
};

static int op_nothing(struct fuse_request *r)
{
    return 0;
}

static int op_no_reply(struct fuse_request *r)
{
    return FUSE_NO_REPLY;
}

#define ENTRY(n) (NAME##n | PATH_NAMES | CREATES)

static const struct op ops[FUSE_OPCODE_LIMIT] = {
    [FUSE_INIT] = {fuse_op_init, offsetof(struct fuse_init_in, flags2), 0},
    [FUSE_DESTROY] = {op_nothing, 0, 0},
    [FUSE_NOTIFY_REPLY] = {op_no_reply, 0, 0},

    [FUSE_LOOKUP] = {fuse_op_lookup, 0, NAME1 | PATH_NAMES},
    [FUSE_FORGET] = {fuse_op_forget, sizeof(struct fuse_forget_in), 0},
    [FUSE_BATCH_FORGET] = {fuse_op_batch_forget, sizeof(struct fuse_batch_forget_in), 0},
    [FUSE_MKNOD] = {fuse_op_mknod, sizeof(struct fuse_mknod_in), ENTRY(1)},
    [FUSE_MKDIR] = {fuse_op_mkdir, sizeof(struct fuse_mkdir_in), ENTRY(1)},
    [FUSE_SYMLINK] = {fuse_op_symlink, 0, NAME2},
    [FUSE_TMPFILE] = {fuse_op_tmpfile, sizeof(struct fuse_create_in), 0},
    [FUSE_LINK] = {fuse_op_link, sizeof(struct fuse_link_in), ENTRY(1)},
    [FUSE_UNLINK] = {fuse_op_unlink, 0, ENTRY(1)},
    [FUSE_RMDIR] = {fuse_op_rmdir, 0, ENTRY(1)},
    [FUSE_RENAME] = {fuse_op_rename, sizeof(struct fuse_rename_in), ENTRY(2)},
    [FUSE_RENAME2] = {fuse_op_rename2, sizeof(struct fuse_rename2_in), ENTRY(2)},
    [FUSE_READLINK] = {fuse_op_readlink, 0, 0},

    [FUSE_GETATTR] = {fuse_op_getattr, 0, 0},
    [FUSE_STATX] = {fuse_op_statx, sizeof(struct fuse_statx_in), 0},
    [FUSE_SETATTR] = {fuse_op_setattr, sizeof(struct fuse_setattr_in), 0},
    [FUSE_STATFS] = {fuse_op_statfs, 0, 0},

    [FUSE_OPEN] = {fuse_op_open, sizeof(struct fuse_open_in), 0},
    [FUSE_OPENDIR] = {fuse_op_open, sizeof(struct fuse_open_in), 0},
    [FUSE_RELEASE] = {op_nothing, 0, 0},
    [FUSE_RELEASEDIR] = {op_nothing, 0, 0},
    [FUSE_READ] = {fuse_op_read, sizeof(struct fuse_read_in), 0},
    [FUSE_WRITE] = {fuse_op_write, sizeof(struct fuse_write_in), 0},
    [FUSE_FSYNC] = {fuse_op_fsync, sizeof(struct fuse_fsync_in), 0},
    [FUSE_FSYNCDIR] = {fuse_op_fsync, sizeof(struct fuse_fsync_in), 0},
    [FUSE_SYNCFS] = {fuse_op_syncfs, 0, 0},
    [FUSE_FALLOCATE] = {fuse_op_fallocate, sizeof(struct fuse_fallocate_in), 0},
    [FUSE_LSEEK] = {fuse_op_lseek, sizeof(struct fuse_lseek_in), 0},
    [FUSE_COPY_FILE_RANGE] = {fuse_op_copy_range, sizeof(struct fuse_copy_file_range_in), 0},
    [FUSE_COPY_FILE_RANGE_64] = {fuse_op_copy_range_64, sizeof(struct fuse_copy_file_range_in), 0},
    [FUSE_IOCTL] = {fuse_op_ioctl, sizeof(struct fuse_ioctl_in), 0},

    [FUSE_READDIR] = {fuse_op_readdir, sizeof(struct fuse_read_in), 0},
    [FUSE_READDIRPLUS] = {fuse_op_readdirplus, sizeof(struct fuse_read_in), 0},

    [FUSE_GETXATTR] = {fuse_op_getxattr, sizeof(struct fuse_getxattr_in), NAME1},
    [FUSE_SETXATTR] = {fuse_op_setxattr, sizeof(struct fuse_setxattr_in), NAME1},
    [FUSE_LISTXATTR] = {fuse_op_listxattr, sizeof(struct fuse_getxattr_in), 0},
    [FUSE_REMOVEXATTR] = {fuse_op_removexattr, 0, NAME1},
    /* ACCESS, FLUSH, CREATE, BMAP, POLL, the locks, INTERRUPT (calls of fs cannot be interrupted):
     * ENOSYS, so that the kernel does without. */
};

static size_t arg_size(const struct fuse_conn *c, uint32_t opcode)
{
    if (opcode == FUSE_SETXATTR && !c->setxattr_ext)
        return FUSE_COMPAT_SETXATTR_IN_SIZE;
    return opcode < FUSE_OPCODE_LIMIT ? ops[opcode].arg_size : 0;
}

int fuse_request_split(struct fuse_request *r, const unsigned char *msg, size_t n)
{
    size_t head = sizeof r->in, size;

    if (n < head)
        return -EINVAL;
    memcpy(&r->in, msg, head);
    if (r->in.len != n)
        return -EINVAL;
    size = arg_size(r->c, r->in.opcode);
    if (n - head < size)
        return -EINVAL;
    r->arg = msg + head;
    r->data = msg + head + size;
    r->data_len = n - head - size;
    return 0;
}

/* Takes a NUL-terminated string off the front of the data. */
static int take_name(struct fuse_request *r, const char **name, unsigned rules)
{
    const unsigned char *end = memchr(r->data, 0, r->data_len);
    const char *s = (const char *)r->data;
    size_t len;

    if (!end)
        return -EINVAL;
    len = (size_t)(end - r->data);
    r->data += len + 1;
    r->data_len -= len + 1;
    *name = s;
    if (!(rules & PATH_NAMES))
        return 0;
    if (len > FS_NAME_MAX)
        return -ENAMETOOLONG;
    if (len == 0 || memchr(s, '/', len))
        return -EINVAL;
    if ((rules & CREATES) && (!strcmp(s, ".") || !strcmp(s, "..")))
        return -EINVAL;
    return 0;
}

static int take_names(struct fuse_request *r, unsigned rules)
{
    int rc = 0;

    r->name = r->name2 = NULL;
    if (rules & (NAME1 | NAME2))
        rc = take_name(r, &r->name, rules);
    if (!rc && (rules & NAME2))
        rc = take_name(r, &r->name2, rules);
    return rc;
}

/* The kernel drops a reply whose error it does not know, and its caller would wait for ever. */
static int kernel_errno(int rc)
{
    if (rc == FUSE_NO_REPLY || rc == 0)
        return rc;
    if (rc > 0 || rc <= -512)
        return -EIO;
    return rc == -EBADE ? -EIO : rc; /* a checksum that does not match */
}

static int run(struct fuse_request *r, const struct op *op)
{
    int rc = fuse_snapdir_enter(r);

    if (rc)
        return rc;
    if (fuse_snapdir_is_ours(r) && r->in.opcode != FUSE_FORGET && r->in.opcode != FUSE_BATCH_FORGET)
        rc = fuse_snapdir_run(r);
    else
        rc = op->fn(r);
    fuse_snapdir_leave(r);
    return rc;
}

int fuse_request_run(struct fuse_request *r)
{
    const struct op *op;
    int rc;

    r->out_len = 0;
    if (r->in.opcode >= FUSE_OPCODE_LIMIT || !ops[r->in.opcode].fn)
        return -ENOSYS;
    op = &ops[r->in.opcode];
    rc = take_names(r, op->names);
    if (!rc)
        rc = run(r, op);
    if (rc)
        r->out_len = 0;
    return kernel_errno(rc);
}

static void undo_direntplus(struct fuse_request *r)
{
    size_t at = 0;

    while (at + FUSE_NAME_OFFSET_DIRENTPLUS <= r->out_len) {
        const struct fuse_direntplus *d = (const void *)(r->out + at);

        if (d->entry_out.nodeid)
            fuse_snapdir_forget(r->c, d->entry_out.nodeid, 1);
        at += FUSE_DIRENTPLUS_SIZE(d);
    }
}

void fuse_request_undo(struct fuse_request *r)
{
    const struct fuse_entry_out *e = (const void *)r->out;

    switch (r->in.opcode) {
    case FUSE_LOOKUP:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_SYMLINK:
    case FUSE_LINK:
    case FUSE_TMPFILE:
        if (r->out_len >= sizeof *e && e->nodeid)
            fuse_snapdir_forget(r->c, e->nodeid, 1);
        break;
    case FUSE_READDIRPLUS:
        undo_direntplus(r);
        break;
    }
}
