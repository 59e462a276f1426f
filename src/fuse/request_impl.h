/*
 * Requests: one handler for both transports. A transport fills struct fuse_request, calls
 * fuse_request_run() and sends what it left.
 */
#ifndef FUSE_REQUEST_IMPL_H
#define FUSE_REQUEST_IMPL_H

#include <pthread.h>

#include "fs/fs.h"
#include "fuse/fuse.h"
#include "fuse/proto_impl.h"

/* Largest READ and WRITE, bytes. Up to here larger is faster; beyond, the data is out of the
 * processor's cache before it is copied on (measured: a MiB is a fifth slower). */
#define FUSE_PAYLOAD_MAX   (256u << 10)

#define FUSE_VALID_SECONDS 3600

/* Allocation of a file settles when its txg is synced: st_blocks of a file that changed this
 * recently is not trusted for longer. */
#define FUSE_SETTLE_SECONDS 10

struct fuse_snapshot;

/* The snapshots that are open in a mount (snapdir.c). ops NULL: there is no .zfs. */
struct fuse_snapdir {
    const struct fuse_snapshots *ops;
    void *arg;
    _Atomic int mode; /* enum fuse_snapdir_mode */
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* a snapshot is used less */
    struct fuse_snapshot *open; /* lock */
};

/* What the handler needs to know of a mount. Set before requests arrive or by INIT, then constant.
 */
struct fuse_conn {
    struct fs *fs;
    uint64_t root_ino;     /* the real number of the inode that the kernel calls 1 */
    bool posix_acl;        /* wanted by the mount's options */
    bool check_open;       /* wanted by the mount's options: the kernel asks before it opens */
    bool offer_uring;      /* the server has rings */
    unsigned ring_payload; /* bytes per entry; at least 128 KiB, as an xattr with its name needs */
    bool privileged;       /* mounted by root */
    unsigned max_read;
    /* Makes the kernel ask for an inode's attributes again; may be called from a handler (it takes
     * no lock of the kernel's that a request can be held under). NULL in tests. */
    void (*forget_attr)(struct fuse_conn *c, uint64_t nodeid);
    void (*forget_data)(struct fuse_conn *c, uint64_t nodeid);
    /* Called by a handler that will wait for a disk, so that others are served meanwhile. May be
     * NULL. */
    void (*before_wait)(void);
    /* Set by INIT: */
    uint32_t minor; /* of the kernel */
    bool uring;     /* negotiated */
    bool keep_open; /* the kernel cannot do without OPEN and OPENDIR */
    bool setxattr_ext;
    struct fuse_snapdir snapdir;
    uint32_t negative_valid; /* seconds */
};

struct fuse_request {
    struct fuse_conn *c;
    struct fuse_in_header in; /* nodeid without the tag */
    struct fs *fs;            /* of the mount, or of the snapshot that the node is in */
    uint64_t tag;             /* that nodes of this snapshot have; 0: the mount's own */
    struct fuse_snapshot *snapshot;
    const void *arg;           /* the operation's own structure */
    const unsigned char *data; /* what follows it */
    size_t data_len;
    const char *name, *name2; /* taken from data by fuse_request_run() */
    /* The reply's bytes. May overlap arg and data: a handler writes when it needs them no more. */
    unsigned char *out;
    size_t out_cap; /* at least FUSE_MIN_READ_BUFFER */
    size_t out_len;
};

/* Splits a classic message of n bytes (r->in is set from it). -EINVAL: the message is malformed, in
 * is valid if n was enough for it. */
int fuse_request_split(struct fuse_request *r, const unsigned char *msg, size_t n);

#define FUSE_NO_REPLY 1

/* Returns the error for the reply's header (0 or a negative errno that the kernel accepts) or
 * FUSE_NO_REPLY. */
int fuse_request_run(struct fuse_request *r);

/* The reply could not be delivered: takes back the lookup references it would have given. */
void fuse_request_undo(struct fuse_request *r);

/* Operations, by file. */
int fuse_op_init(struct fuse_request *r);

int fuse_op_lookup(struct fuse_request *r);
int fuse_op_forget(struct fuse_request *r);
int fuse_op_batch_forget(struct fuse_request *r);
int fuse_op_mknod(struct fuse_request *r);
int fuse_op_mkdir(struct fuse_request *r);
int fuse_op_symlink(struct fuse_request *r);
int fuse_op_tmpfile(struct fuse_request *r);
int fuse_op_link(struct fuse_request *r);
int fuse_op_unlink(struct fuse_request *r);
int fuse_op_rmdir(struct fuse_request *r);
int fuse_op_rename(struct fuse_request *r);
int fuse_op_rename2(struct fuse_request *r);
int fuse_op_readlink(struct fuse_request *r);

int fuse_op_getattr(struct fuse_request *r);
int fuse_op_statx(struct fuse_request *r);
int fuse_op_setattr(struct fuse_request *r);
int fuse_op_statfs(struct fuse_request *r);
int fuse_op_ioctl(struct fuse_request *r);
uint64_t fuse_statx_attributes(uint32_t flags); /* FS_FLAG_* */

int fuse_op_open(struct fuse_request *r);
int fuse_op_read(struct fuse_request *r);
int fuse_op_write(struct fuse_request *r);
int fuse_op_fsync(struct fuse_request *r);
int fuse_op_syncfs(struct fuse_request *r);
int fuse_op_fallocate(struct fuse_request *r);
int fuse_op_lseek(struct fuse_request *r);
int fuse_op_copy_range(struct fuse_request *r);
int fuse_op_copy_range_64(struct fuse_request *r);

int fuse_op_readdir(struct fuse_request *r);
int fuse_op_readdirplus(struct fuse_request *r);

int fuse_op_getxattr(struct fuse_request *r);
int fuse_op_setxattr(struct fuse_request *r);
int fuse_op_listxattr(struct fuse_request *r);
int fuse_op_removexattr(struct fuse_request *r);

/* Replies. */
void fuse_reply_entry(struct fuse_request *r, const struct fs_attr *a);
void fuse_reply_attr(struct fuse_request *r, const struct fs_attr *a); /* GETATTR, STATX */
void fuse_entry_fill(const struct fuse_request *r, struct fuse_entry_out *o,
                     const struct fs_attr *a);

/* snapdir.c. enter finds what r->fs is; leave ends that. */
void fuse_snapdir_init(struct fuse_snapdir *d);
void fuse_snapdir_close(struct fuse_snapdir *d);
int fuse_snapdir_enter(struct fuse_request *r);
void fuse_snapdir_leave(struct fuse_request *r);
void fuse_snapdir_given(const struct fuse_request *r); /* the kernel gets a reference to a node */
void fuse_snapdir_forget(struct fuse_conn *c, uint64_t node, uint64_t n);
/* Is a second node of the request in another file system than the first? */
bool fuse_snapdir_is_foreign(const struct fuse_request *r, uint64_t node);
bool fuse_snapdir_is_ours(const struct fuse_request *r); /* .zfs or .zfs/snapshot */
int fuse_snapdir_run(struct fuse_request *r);
bool fuse_snapdir_named(const struct fuse_request *r); /* .zfs in the root */
int fuse_snapdir_lookup_zfs(struct fuse_request *r);
bool fuse_snapdir_listed(const struct fuse_request *r, uint64_t *ino); /* does the root list it? */
int fuse_snapdir_readdir(struct fuse_request *r, uint64_t cookie, fs_emit_fn *emit, void *arg);

/* Is the process that asks a member of the group? Its supplementary groups are looked up in /proc,
 * so this is for rare cases only. */
bool fuse_in_group(const struct fuse_in_header *in, uint32_t gid);

#endif
