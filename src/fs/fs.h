/*
 * POSIX file system semantics on a dataset (spec 06): files, directories, attributes, xattrs.
 *
 * Files are named by inode number = object number. fs_lookup and the calls that create take a
 * lookup reference, dropped by fs_forget, exactly as the kernel counts them; an unlinked file lives
 * until its last reference goes. Every call locks what it needs; calls on different files run in
 * parallel. Permission checks by mode and ACL are the front end's (the kernel does them for FUSE
 * mounts with default_permissions); what is checked here is what the kernel does not know: types,
 * names, emptiness, immutable/append flags, quotas, read-only.
 *
 * All return 0 (or a count) or a negative errno, the one POSIX names for the case. A read-only file
 * system gives -EROFS, a pool that has failed -EIO.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct fs;
struct dataset; /* dsl/dataset.h */

#define FS_ROOT_INO 1       /* stands for the root directory's object number in every call */
#define FS_NAME_MAX 255
#define FS_LOOKUP_MAX 1023 /* with feature longname others write such names; they can be looked up */

struct fs_attr {
    uint64_t ino;
    uint64_t gen;
    uint64_t size;          /* bytes */
    uint64_t blocks;        /* 512-byte units */
    uint32_t blksize;       /* bytes */
    uint32_t mode;          /* type and permission bits */
    uint32_t nlink;
    uint32_t uid, gid;
    uint32_t rdev;          /* as st_rdev encoded by makedev for FUSE (new_encode_dev) */
    uint32_t flags;         /* FS_FLAG_* */
    bool nfs4_acl;          /* its access list says more than the mode: fs_acl_read() */
    struct timespec atime, mtime, ctime, crtime;
};

/* What a new file gets. The caller has applied the umask unless umask is given for ACLs. */
struct fs_new {
    uint32_t mode;          /* type and permission bits, umask not applied */
    uint32_t umask;         /* applied here unless the directory has a default ACL */
    uint32_t uid, gid;      /* gid is replaced by the directory's if that is setgid */
    uint32_t rdev;          /* devices */
    const char *target;     /* symlinks */
};

enum {
    FS_SET_MODE = 1, FS_SET_UID = 2, FS_SET_GID = 4, FS_SET_SIZE = 8, FS_SET_ATIME = 16,
    FS_SET_MTIME = 32, FS_SET_CTIME = 64, FS_SET_ATIME_NOW = 128, FS_SET_MTIME_NOW = 256,
    FS_SET_KILL_SUIDGID = 512, /* drop set-user-id, and set-group-id where it goes with group execution,
                                  as a write or chown does */
    FS_SET_KILL_SGID = 1024    /* drop set-group-id in any case: the caller is not of the group */
};

struct fs_setattr {
    unsigned mask;
    uint32_t mode, uid, gid;
    uint64_t size;
    struct timespec atime, mtime, ctime;
};

struct fs_statfs {
    uint64_t blocks, bfree, bavail; /* units of frsize */
    uint64_t files, ffree;
    uint32_t bsize, frsize, namelen;
    uint64_t fsid;
};

/* Mount options, from the dataset's properties; fs_remount changes them live. */
struct fs_options {
    bool readonly;
    bool atime, relatime;
    enum { FS_XATTR_OFF, FS_XATTR_DIR, FS_XATTR_SA } xattr;
    enum { FS_ACL_OFF, FS_ACL_POSIX, FS_ACL_NFSV4 } acltype;
};

/* Opens the file system in a dataset: reads the master node and the SA tables, and unless read-only
 * frees what an earlier crash left in the delete queue (in the background of later calls). The
 * dataset must stay open. -EINVAL: not a file system; -ENOTSUP: a version or normalisation we
 * cannot serve. */
int fs_open(struct fs **out, struct dataset *ds, const struct fs_options *opts);
void fs_close(struct fs *fs);             /* drops all lookup references */
int fs_remount(struct fs *fs, const struct fs_options *opts);
struct dataset *fs_dataset(struct fs *fs);

int fs_lookup(struct fs *fs, uint64_t dir, const char *name, struct fs_attr *attr);
void fs_forget(struct fs *fs, uint64_t ino, uint64_t count);
/* Takes a reference by number and generation (NFS handles): -ESTALE if there is no such file. */
int fs_lookup_ino(struct fs *fs, uint64_t ino, uint64_t gen, struct fs_attr *attr);
int fs_parent(struct fs *fs, uint64_t ino, struct fs_attr *attr); /* of a directory; takes a reference */

/* What chattr(1) changes. Immutable and append-only files are protected by every call that changes
 * something; whether a process may set the flags is for the caller to know. */
enum { FS_FLAG_IMMUTABLE = 1, FS_FLAG_APPEND = 2, FS_FLAG_NODUMP = 4, FS_FLAG_PROJINHERIT = 8 };
struct fs_flags {
    uint32_t flags;         /* FS_FLAG_* */
    uint32_t projid;
};
int fs_getflags(struct fs *fs, uint64_t ino, struct fs_flags *out);
/* Of regular files and directories. -EOPNOTSUPP: project ids where projects are not counted. */
int fs_setflags(struct fs *fs, uint64_t ino, const struct fs_flags *set);

int fs_getattr(struct fs *fs, uint64_t ino, struct fs_attr *attr);
int fs_setattr(struct fs *fs, uint64_t ino, const struct fs_setattr *set, struct fs_attr *attr);

/* mkdir, mknod, symlink and create, by new->mode's type. -EEXIST always means the name exists. */
int fs_create(struct fs *fs, uint64_t dir, const char *name, const struct fs_new *new,
              struct fs_attr *attr);
int fs_tmpfile(struct fs *fs, uint64_t dir, const struct fs_new *new, struct fs_attr *attr);
int fs_link(struct fs *fs, uint64_t ino, uint64_t dir, const char *name, struct fs_attr *attr);
int fs_unlink(struct fs *fs, uint64_t dir, const char *name);
int fs_rmdir(struct fs *fs, uint64_t dir, const char *name);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT of <linux/fs.h>. */
int fs_rename(struct fs *fs, uint64_t dir, const char *name, uint64_t newdir, const char *newname,
              unsigned flags);
int fs_readlink(struct fs *fs, uint64_t ino, char *buf, size_t cap); /* length, no NUL */

enum { FS_READ_NOATIME = 1 };
ssize_t fs_read_with(struct fs *fs, uint64_t ino, uint64_t off, void *data, size_t n, unsigned flags);
static inline ssize_t fs_read(struct fs *fs, uint64_t ino, uint64_t off, void *data, size_t n)
{
    return fs_read_with(fs, ino, off, data, n, 0);
}
enum { FS_WRITE_APPEND = 1, FS_WRITE_KILL_SUIDGID = 2, FS_WRITE_SYNC = 4, FS_WRITE_KILL_SGID = 8 };
ssize_t fs_write(struct fs *fs, uint64_t ino, uint64_t off, const void *data, size_t n, unsigned flags);
/* Copies whole blocks from one file to another (or the same), at most 1 MiB, without moving a byte: both
 * share the buffers until one is changed. The bytes copied; 0 if it cannot be done this way (not at
 * block boundaries, different or small blocks, the last part of a file): read and write then. */
#define FS_SHARE_MIN 4096u /* bytes; smaller blocks are faster copied */
ssize_t fs_share(struct fs *fs, uint64_t from, uint64_t from_off, uint64_t to, uint64_t to_off,
                 size_t n, unsigned flags);
int fs_fallocate(struct fs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len);
int fs_seek(struct fs *fs, uint64_t ino, uint64_t off, int whence, uint64_t *out); /* SEEK_DATA, _HOLE */
int fs_fsync(struct fs *fs, uint64_t ino, bool datasync); /* durable when it returns */
int fs_sync(struct fs *fs);

/* Calls emit for each entry after cookie (0 = from the start; ".", ".." included) until it returns
 * false. next is the cookie to continue after that entry; it stays valid across changes (03 14).
 * type is the DT_* number. With attrs, attr is filled and, if emit returns true and the entry is not
 * "." or "..", a lookup reference is taken (readdirplus). */
typedef bool fs_emit_fn(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                        uint64_t next, const struct fs_attr *attr);
int fs_readdir(struct fs *fs, uint64_t dir, uint64_t cookie, bool attrs, fs_emit_fn *emit, void *arg);

/* xattr names are full ("user.x"); POSIX ACLs are the system.posix_acl_* names in Linux's encoding.
 * get and list return the length; with cap 0 they only measure; -ERANGE if cap is too small. */
ssize_t fs_getxattr(struct fs *fs, uint64_t ino, const char *name, void *value, size_t cap);
ssize_t fs_listxattr(struct fs *fs, uint64_t ino, char *names, size_t cap, bool privileged);
/* flags: XATTR_CREATE, XATTR_REPLACE. kill_sgid: setting an access ACL clears setgid (FUSE says so). */
int fs_setxattr(struct fs *fs, uint64_t ino, const char *name, const void *value, size_t n, int flags,
                bool kill_sgid);
int fs_removexattr(struct fs *fs, uint64_t ino, const char *name);

/*
 * What Windows and Solaris leave and POSIX has no place for (spec 06 10.2, 11). An id whose high half is
 * not 0 is an account of a Windows domain; fs_attr has its low half, as the reference's kernel shows it.
 */
#define FS_ACE_IS_GROUP 0x40u
struct fs_ace {
    unsigned type, flags; /* 0 allow, 1 deny, 2 audit, 3 alarm; 0x1000 owner@, 0x2000 group@, 0x4000 everyone@ */
    uint32_t mask;
    uint64_t who;         /* if it is none of these */
};
struct fs_acl {
    uint64_t uid, gid;
    bool trivial;         /* the list says no more than the mode, and is not read */
    size_t n;
    struct fs_ace *ace;
};
/* -EBADE: a damaged list. The caller frees what is in out. */
int fs_acl_read(struct fs *fs, uint64_t ino, struct fs_acl *out);
void fs_acl_free(struct fs_acl *acl);
/* The name of such an id, "S-1-5-21-...-1013". -ENOENT: a plain id, or its domain is not known. */
int fs_sid(struct fs *fs, uint64_t id, char *out, size_t cap);

int fs_statfs(struct fs *fs, struct fs_statfs *out);

/* What users, groups and projects use (as of the last txg) and may use. The file system need not be
 * mounted; fs is its mount, or NULL. Limits of 0 are none. */
enum fs_owner_kind { FS_USER, FS_GROUP, FS_PROJECT };
struct fs_owner {
    uint64_t id, used, quota; /* bytes */
    uint64_t objects, object_quota;
};
typedef int fs_owner_fn(void *arg, const struct fs_owner *o);
int fs_owner_each(struct dataset *ds, enum fs_owner_kind kind, fs_owner_fn *fn, void *arg); /* by id */
int fs_owner_get(struct dataset *ds, enum fs_owner_kind kind, uint64_t id, struct fs_owner *out);
int fs_owner_set_quota(struct dataset *ds, struct fs *fs, enum fs_owner_kind kind, bool objects,
                       uint64_t id, uint64_t limit);

/* For owners without a limit of their own. */
int fs_owner_set_default(struct dataset *ds, struct fs *fs, enum fs_owner_kind kind, bool objects,
                         uint64_t limit);

/* Around a replacement of the dataset's object set (dataset_rollback): nobody may be in a call of this
 * file system, nor make one, from begin to end. end reports what changed through fs_on_invalidate();
 * names are not reported one by one: all may have changed. An error of end leaves a file system that
 * can only be closed. */
struct fs_before;
int fs_reload_begin(struct fs *fs, struct fs_before **out);
int fs_reload_end(struct fs *fs, struct fs_before *before, bool changed); /* frees before */

/* Replays the dataset's intent log (zil/zil.h), before anybody else uses the file system; it may be
 * read-only, the pool must be writable or in memory. now: the time of changes whose record has none;
 * NULL: the present. -ENOTSUP: there are changes in it, and this version cannot change such a file
 * system; else as zil_replay(). */
struct zil_replay;
int fs_replay(struct fs *fs, struct zil_replay *z, const struct timespec *now);

/* Called when the file system changes something the kernel may have cached and did not ask for
 * (rollback, receive, quota): name NULL = the inode's attributes and data, else that entry. */
typedef void fs_invalidate_fn(void *arg, uint64_t ino, const char *name);
void fs_on_invalidate(struct fs *fs, fs_invalidate_fn *fn, void *arg);

#endif
