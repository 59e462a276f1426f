/*
 * Mounts: file systems (fs/fs.h) shown to the kernel through FUSE.
 *
 * A server is a pool of threads that answers the requests of all its mounts; a request is answered
 * in the thread that received it. Requests come through /dev/fuse, or through io_uring where the
 * kernel offers it (docs/fuse.md has the measurements). libfuse is not used.
 *
 * What the kernel may cache, it caches: entries, attributes and data are valid for an hour, because
 * whatever changes them comes either from the kernel itself or through fuse_mount_invalidate().
 *
 * All functions return 0 or a negative errno with a sentence (util/err.h). None of them may be
 * called from a thread that is serving a request, except fuse_mount_invalidate().
 */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H

#include <stdbool.h>
#include <stdint.h>

struct fs;
struct fuse_mount;
struct fuse_server;

enum fuse_transport {
    FUSE_TRANSPORT_AUTO,  /* io_uring where the kernel offers it, else /dev/fuse */
    FUSE_TRANSPORT_DEVICE /* /dev/fuse only */
};

struct fuse_server_options {
    enum fuse_transport transport;
    unsigned max_threads; /* most threads reading /dev/fuse; 0: 64. Starts with few, grows if all
                             are busy */
    bool let_halt; /* leave idle processors to the kernel: slower, and saves power. Else they do
                      not sleep while requests come one after the other, where we may say so */
};

/* opts may be NULL. */
int fuse_server_new(struct fuse_server **out, const struct fuse_server_options *opts);
/* All mounts must have been freed. Ends the threads; NULL is allowed. */
void fuse_server_free(struct fuse_server *s);

/* Where a mount gets its snapshots from, for .zfs/snapshot. Called from threads that serve
 * requests. */
struct fuse_snapshots {
    int (*find)(void *arg, const char *name, uint64_t *id); /* -ENOENT */
    int (*open)(void *arg, uint64_t id, struct fs **fs);
    void (*close)(void *arg, struct fs *fs);
    /* Calls fn for each, oldest first, until it returns false. */
    int (*list)(void *arg, bool (*fn)(void *arg, const char *name, uint64_t id, uint64_t txg),
                void *fn_arg);
};
enum fuse_snapdir_mode { FUSE_SNAPDIR_HIDDEN, FUSE_SNAPDIR_VISIBLE, FUSE_SNAPDIR_DISABLED };

struct fuse_mount_options {
    const char *source; /* the dataset's name, shown by df and findmnt */
    const char *target; /* the mount point, absolute; the directory exists */
    bool readonly, nosuid, nodev, noexec;
    bool noatime, strictatime; /* neither: relatime; shown only, fs_read keeps the times */
    bool posix_acl;            /* the kernel enforces system.posix_acl_access (acltype=posix) */
    bool check_open;           /* opening an immutable or append-only file for what it does not
                                  allow is refused; costs two requests per open file */
    bool only_owner; /* other users may not enter; else allow_other where that is permitted */
    const struct fuse_snapshots *snapshots; /* NULL: there is no .zfs */
    int snapdir;                            /* enum fuse_snapdir_mode */
    unsigned max_read;                      /* largest READ in bytes; 0: 256 KiB */
    /* Called once, from a thread of the server, when the mount has gone without
     * fuse_mount_unmount(): umount(8), or the connection was aborted. No request is being served
     * any more and none will be; the callee may call fuse_mount_free(). May be NULL. */
    void (*gone)(void *arg, struct fuse_mount *m);
    void *arg;
};

/*
 * Opens the way to a mount point component by component (an O_PATH descriptor, the caller's), with
 * `make` after making what is missing; *made (may be NULL): the last component is new. Symbolic
 * links are followed only if root or the effective user owns them: -ELOOP with a sentence. Other
 * errors are those of openat(2) and mkdirat(2), without one.
 */
int fuse_place_open(const char *path, bool make, bool *made, int *fd);

/* Mounts: with mount(2), or with fusermount3 for whoever may not. Requests are being served when it
 * returns. fs stays the caller's and must outlive the mount. A dead mount of ours that a killed
 * process left on the target is removed first. Errors: -ENOENT, -ENOTDIR, -EPERM, -ENODEV (no FUSE
 * in this kernel) and what mount(2) and fusermount3 say. */
int fuse_mount_new(struct fuse_mount **out, struct fuse_server *s, struct fs *fs,
                   const struct fuse_mount_options *opts);

/* Changes readonly, nosuid, nodev, noexec and the atime flags of a mount: -EPERM without root. */
int fuse_mount_remount(struct fuse_mount *m, const struct fuse_mount_options *opts);

/* Unmounts and waits until no request is being served: the file system may be closed then. -EBUSY
 * if it is in use; with force it is taken away all the same: its users get ENOTCONN or EIO, what
 * mmap(2) left dirty is written first. If the mount has already gone: 0. */
int fuse_mount_unmount(struct fuse_mount *m, bool force);

/* After fuse_mount_unmount() or gone(). NULL is allowed. */
void fuse_mount_free(struct fuse_mount *m);

/* Is it still in the mount table? After umount(8) it is not, a moment before gone() is called. */
bool fuse_mount_attached(const struct fuse_mount *m);
const char *fuse_mount_target(const struct fuse_mount *m);
const char *fuse_mount_source(const struct fuse_mount *m);
bool fuse_mount_uses_uring(const struct fuse_mount *m);

/* Requests the mount has received so far, by FUSE opcode; 0 for opcodes it does not know. */
uint64_t fuse_mount_request_count(const struct fuse_mount *m, unsigned opcode);

/* No request is in the file system when pause returns, and none enters it before continue: those
 * that come meanwhile wait. Of short duration, and no unmounting between the two. */
void fuse_mount_pause(struct fuse_mount *m);
void fuse_mount_continue(struct fuse_mount *m);
/* Makes the kernel write what mmap(2) has left dirty, to requests of this mount. */
void fuse_mount_flush(struct fuse_mount *m);

/* Closes a snapshot that was opened through .zfs; -EBUSY if somebody is in it. With force it is
 * taken away from him: he gets ESTALE. 0 if it is not open. */
int fuse_mount_release_snapshot(struct fuse_mount *m, uint64_t id, bool force);
void fuse_mount_idle_snapshots(struct fuse_mount *m);    /* now and then: closes what nobody uses */
void fuse_mount_snapshots_changed(struct fuse_mount *m); /* some came, went, or have other names */
void fuse_mount_set_snapdir(struct fuse_mount *m, int mode);

/* Tells the kernel to forget what it has cached: name NULL = the attributes and data of an inode,
 * else a directory entry (also a negative one). Returns at once; a thread of the server does it in
 * order. File systems report through fs_on_invalidate(), which is connected to this. */
void fuse_mount_invalidate(struct fuse_mount *m, uint64_t ino, const char *name);

/* Every name the kernel knows has to be looked up again (after a rollback). Inodes keep their data
 * and attributes: invalidate those that changed. */
void fuse_mount_invalidate_names(struct fuse_mount *m);

/* Whether the kernel can do that thoroughly (7.44, Linux 6.16). Before, as root, names that were in
 * use survive; for ordinary users nothing happens, but "does not exist" is believed for a second
 * only. */
bool fuse_mount_knows_epochs(const struct fuse_mount *m);

/* Waits until all invalidations asked for so far are done. */
void fuse_mount_invalidate_wait(struct fuse_mount *m);

#endif
