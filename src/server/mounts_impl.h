/*
 * The mounts of the pool's file systems. server.lock guards the list; it is held while something is
 * being mounted or unmounted.
 */
#ifndef SERVER_MOUNTS_IMPL_H
#define SERVER_MOUNTS_IMPL_H

#include <stdbool.h>
#include <sys/queue.h>

struct dataset;
struct fs;
struct fuse_mount;
struct fuse_snapshots;
struct server;

/* Options that one mount has instead of what its properties say. */
enum { TEMP_READONLY, TEMP_ATIME, TEMP_RELATIME, TEMP_EXEC, TEMP_SETUID, TEMP_DEVICES, TEMPS };
enum temporary { TEMP_UNSET, TEMP_OFF, TEMP_ON };

struct mount {
    TAILQ_ENTRY(mount) link;
    struct server *server;
    struct dataset *ds;
    struct fs *fs;
    struct fuse_mount *fuse;
    char *target;
    enum temporary temporary[TEMPS];
    bool made_dir;     /* we made the mount point and have not mounted yet */
    _Atomic bool gone; /* unmounted from outside: to be cleaned up */
};

struct mount_request {
    const char *name;
    const char *target;  /* NULL: as the mountpoint property says */
    const char *options; /* "ro,noexec", or NULL */
    bool explicitly; /* canmount=noauto is mounted too, and a refusal is an error (else -EAGAIN) */
    bool overlay;    /* on a directory that is not empty, whatever the property says */
};

/* Errors that begin with "cannot mount '" or "cannot unmount '" are whole sentences. */
int mounts_mount(struct server *s, const struct mount_request *r);
/* All at and below a dataset (NULL: the pool) that should be mounted, as how (may be NULL) says;
 * made (may be NULL) is told each; failures are collected in *warning (malloc'ed or NULL). */
typedef void mount_made_fn(void *arg, const char *name, const char *target);
void mounts_mount_all(struct server *s, const char *name, const struct mount_request *how,
                      char **warning, mount_made_fn *made, void *arg);
void warning_add(char **warning, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One mount and nothing else; 0 if it is not mounted. */
int mounts_unmount_one(struct server *s, const char *name, bool force);
/* A file system, its descendants, and what is mounted inside of it. */
int mounts_unmount(struct server *s, const char *name_or_target, bool force);
/* Those of the datasets at and below one, nested ones first; name NULL = all. If one is busy, all
 * stay. With tidy, empty folders that were not chosen by somebody are removed. */
int mounts_unmount_below(struct server *s, const char *name, bool force, bool tidy);
/* Rolls the file system of a snapshot back to it, under its mount if there is one. */
int mounts_rollback(struct server *s, const char *snapshot);
/* As many as can be; the error has a line for each that is busy. */
int mounts_unmount_all(struct server *s, bool force);
void mounts_reap(struct server *s); /* cleans up what went away by itself */

/* With server.lock held. */
/* Takes away what is mounted inside of a folder on which something is going to be mounted, and puts
 * it back afterwards: it would be hidden. */
struct undo;
struct undo *mounts_lift(struct server *s, const char *target);
void mounts_put_back(struct server *s, struct undo *u);
void mounts_settle(struct server *s,
                   struct mount *m); /* drops it if umount(8) has taken it away; may be NULL */
void mount_free(struct mount *m);    /* it is not in the list any more */
int mounts_restore(struct server *s, const char *name, const char *target,
                   const enum temporary temporary[TEMPS]);
struct mount *mounts_find(struct server *s, const char *name_or_target);
struct mount *mounts_of(struct server *s, const struct dataset *ds);
bool mounts_temporary(const struct mount *m, const char *property, bool *on); /* m may be NULL */
int mounts_refresh(struct mount *m);                 /* options again from properties */
int mounts_again(struct server *s, struct mount *m); /* unmounts and mounts; -EBUSY leaves it */

/* mount_snapshots.c: .zfs/snapshot. */
extern const struct fuse_snapshots mount_snapshots; /* arg: the struct mount */
/* Before a snapshot is destroyed: -EBUSY if somebody is in it (with force it is taken from him). */
int mounts_release_snapshot(struct server *s, const char *name, bool force);
void mounts_snapshots_changed(struct server *s); /* after some came, went or were renamed */

/* mount_options.c */
struct fs_options;
struct fuse_mount_options;
void mount_options(const struct mount *m, bool pool_readonly, struct fs_options *fo,
                   struct fuse_mount_options *mo);
/* "ro,noexec" into temporary; -EINVAL names the word. */
int mount_options_parse(const char *text, enum temporary temporary[TEMPS]);
int mount_options_index(const char *property); /* TEMP_*, or -1 */

/* mount_moves.c: what has to be unmounted before a property changes, and mounted again after it. */
struct moves;
int moves_begin(struct moves **out, struct server *s, const char *name, bool own_only, bool force);
void moves_renamed(struct moves *m, const char *from, const char *to);
void moves_end(struct moves *m, bool changed, char **warning); /* frees; NULL is allowed */
/* Registered with prop_on_change(). */
void mounts_property_changed(void *arg, struct dataset *ds, const char *name);

#endif
