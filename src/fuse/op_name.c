/* Names: lookup, creation, links, removal, renaming. */
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>

#include "fuse/request_impl.h"

/* An entry without an inode: the kernel remembers that the name does not exist. */
static void reply_negative(struct fuse_request *r)
{
    struct fuse_entry_out *o = (struct fuse_entry_out *)r->out;

    *o = (struct fuse_entry_out){.entry_valid = r->c->negative_valid};
    r->out_len = sizeof *o;
}

/* A handle (NFS): the kernel, which compares the generation itself, asks because it does not have
 * the inode. So nobody has it open, and one without a name is gone; it may only be that the FORGET
 * for it is still under way. */
static int lookup_handle(struct fuse_request *r, struct fs_attr *a)
{
    struct fs *fs = r->fs;
    int rc = fs_lookup_ino(fs, r->in.nodeid, 0, a);

    if (!rc && a->nlink == 0) {
        fs_forget(fs, a->ino, 1);
        rc = -ESTALE;
    }
    return rc;
}

int fuse_op_lookup(struct fuse_request *r)
{
    struct fs *fs = r->fs;
    struct fs_attr a;
    int rc;

    if (fuse_snapdir_named(r))
        return fuse_snapdir_lookup_zfs(r);
    if (!strcmp(r->name, "."))
        rc = lookup_handle(r, &a);
    else if (!strcmp(r->name, ".."))
        rc = fs_parent(fs, r->in.nodeid, &a);
    else
        rc = fs_lookup(fs, r->in.nodeid, r->name, &a);
    if (rc == -ENOENT && r->name[0] != 0) {
        reply_negative(r);
        return 0;
    }
    if (!rc)
        fuse_reply_entry(r, &a);
    return rc;
}

int fuse_op_forget(struct fuse_request *r)
{
    const struct fuse_forget_in *in = r->arg;

    fuse_snapdir_forget(r->c, r->in.nodeid, in->nlookup);
    return FUSE_NO_REPLY;
}

int fuse_op_batch_forget(struct fuse_request *r)
{
    const struct fuse_batch_forget_in *in = r->arg;
    const struct fuse_forget_one *one = (const void *)r->data;
    size_t room = r->data_len / sizeof *one;

    for (size_t i = 0; i < in->count && i < room; i++)
        fuse_snapdir_forget(r->c, one[i].nodeid, one[i].nlookup);
    return FUSE_NO_REPLY;
}

static int create(struct fuse_request *r, const char *name, uint32_t mode, uint32_t umask,
                  uint32_t rdev, const char *target)
{
    struct fs_new new = {
        .mode = mode,
        .umask = umask,
        .uid = r->in.uid,
        .gid = r->in.gid,
        .rdev = rdev,
        .target = target,
    };
    struct fs_attr a;
    int rc = fs_create(r->fs, r->in.nodeid, name, &new, &a);

    if (!rc)
        fuse_reply_entry(r, &a);
    return rc;
}

int fuse_op_mknod(struct fuse_request *r)
{
    const struct fuse_mknod_in *in = r->arg;

    if (S_ISDIR(in->mode) || S_ISLNK(in->mode))
        return -EINVAL;
    return create(r, r->name, in->mode, in->umask & 0777, in->rdev, NULL);
}

int fuse_op_mkdir(struct fuse_request *r)
{
    const struct fuse_mkdir_in *in = r->arg;

    return create(r, r->name, S_IFDIR | (in->mode & 07777), in->umask & 0777, 0, NULL);
}

int fuse_op_symlink(struct fuse_request *r)
{
    size_t len = strlen(r->name);

    if (len == 0 || strchr(r->name, '/') || r->name2[0] == 0)
        return -EINVAL;
    if (len > FS_NAME_MAX || strlen(r->name2) >= PATH_MAX)
        return -ENAMETOOLONG;
    return create(r, r->name, S_IFLNK | 0777, 0, 0, r->name2);
}

int fuse_op_tmpfile(struct fuse_request *r)
{
    const struct fuse_create_in *in = r->arg;
    struct fs_new new = {
        .mode = S_IFREG | (in->mode & 07777),
        .umask = in->umask & 0777,
        .uid = r->in.uid,
        .gid = r->in.gid,
    };
    struct fuse_open_out open = {.open_flags = FOPEN_KEEP_CACHE};
    struct fs_attr a;
    int rc = fs_tmpfile(r->fs, r->in.nodeid, &new, &a);

    if (rc)
        return rc;
    fuse_reply_entry(r, &a);
    memcpy(r->out + r->out_len, &open, sizeof open);
    r->out_len += sizeof open;
    return 0;
}

int fuse_op_link(struct fuse_request *r)
{
    const struct fuse_link_in *in = r->arg;
    struct fs_attr a;
    int rc;

    if (fuse_snapdir_is_foreign(r, in->oldnodeid))
        return -EXDEV;
    rc = fs_link(r->fs, in->oldnodeid, r->in.nodeid, r->name, &a);

    if (!rc)
        fuse_reply_entry(r, &a);
    return rc;
}

int fuse_op_unlink(struct fuse_request *r)
{
    return fs_unlink(r->fs, r->in.nodeid, r->name);
}

int fuse_op_rmdir(struct fuse_request *r)
{
    return fs_rmdir(r->fs, r->in.nodeid, r->name);
}

/* A directory that has moved has another "..", which is in the listing that the kernel keeps. */
static void moved(struct fuse_request *r, uint64_t dir, const char *name)
{
    struct fs_attr a;

    if (!r->c->forget_data || fs_lookup(r->fs, dir, name, &a))
        return;
    if (S_ISDIR(a.mode))
        r->c->forget_data(r->c, a.ino);
    fs_forget(r->fs, a.ino, 1);
}

static int rename_to(struct fuse_request *r, uint64_t newdir, unsigned flags)
{
    int rc;

    if (fuse_snapdir_is_foreign(r, newdir))
        return -EXDEV;
    rc = fs_rename(r->fs, r->in.nodeid, r->name, newdir, r->name2, flags);

    if (rc == 0 && newdir != r->in.nodeid) {
        moved(r, newdir, r->name2);
        if (flags & RENAME_EXCHANGE)
            moved(r, r->in.nodeid, r->name);
    }
    return rc;
}

int fuse_op_rename(struct fuse_request *r)
{
    const struct fuse_rename_in *in = r->arg;

    return rename_to(r, in->newdir, 0);
}

int fuse_op_rename2(struct fuse_request *r)
{
    const struct fuse_rename2_in *in = r->arg;

    return rename_to(r, in->newdir, in->flags);
}

int fuse_op_readlink(struct fuse_request *r)
{
    size_t cap = r->out_cap < PATH_MAX ? r->out_cap : PATH_MAX;
    int rc = fs_readlink(r->fs, r->in.nodeid, (char *)r->out, cap);

    if (rc < 0)
        return rc;
    r->out_len = (size_t)rc;
    return 0;
}
