/* The subcommands of zfs, and what they share. */
#ifndef CLI_ZFS_IMPL_H
#define CLI_ZFS_IMPL_H

#include "cli/command_impl.h"
#include "cli/report_impl.h"

int zfs_create(int argc, char **argv);
int zfs_destroy(int argc, char **argv);
int zfs_list(int argc, char **argv);
int zfs_get(int argc, char **argv);
int zfs_set(int argc, char **argv);
int zfs_inherit(int argc, char **argv);
int zfs_load_key(int argc, char **argv);
int zfs_unload_key(int argc, char **argv);
int zfs_mount(int argc, char **argv);
int zfs_unmount(int argc, char **argv);
int zfs_snapshot(int argc, char **argv);
int zfs_clone(int argc, char **argv);
int zfs_promote(int argc, char **argv);
int zfs_rename(int argc, char **argv);
int zfs_rollback(int argc, char **argv);
int zfs_diff(int argc, char **argv);
int zfs_hold(int argc, char **argv);
int zfs_release(int argc, char **argv);
int zfs_holds(int argc, char **argv);
int zfs_allow(int argc, char **argv);
int zfs_unallow(int argc, char **argv);
int zfs_project(int argc, char **argv);
int zfs_bookmark(int argc, char **argv);
int zfs_upgrade(int argc, char **argv);
int zfs_userspace(int argc, char **argv);
int zfs_groupspace(int argc, char **argv);
int zfs_projectspace(int argc, char **argv);

/* mount.tarn DATASET DIR [-o ...], as mount(8) calls it. */
int mount_tarn(int argc, char **argv);

/* Where a snapshot makes no sense: true after a message. */
bool refuse_snapshot(const char *name);
bool refuse_bookmark(const char *name);

/* Which datasets list and get are about (zfs_select.c). */
struct selection {
    bool recursive;
    int depth;                 /* of -d; -1: all */
    const char *types;         /* of -t, or NULL */
    const char *otherwise;     /* types without -t: "filesystem,volume" */
    bool user;                 /* user properties too */
    bool names_only;           /* of snapshots nothing but the name, in no order */
    bool ordered;              /* with names_only: and the txg of its creation, in that order */
    struct json_object *props; /* array; borrowed */
};
/* Fills the report with a row per dataset, sorted by name, each once. argc 0: all pools. 0, 1 or 2.
 */
int select_datasets(const struct selection *s, int argc, char **argv, struct report *r);
/* -d's argument; 0, or 2 after a message. */
int select_depth(struct selection *s, const char *text);

/* A dataset property as a column (zfs_columns.c): 0, or 1 or 2 after a message. The name stays
 * borrowed. */
int zfs_column(const char *name, struct report_column *c);

/* Of the forms "userquota@NAME", "written@SNAPSHOT" and "written#BOOKMARK". */
bool counted_property(const char *name);

/* The client of the pool that has something mounted at a path, and the dataset's name in name; NULL
 * after a message. */
struct client *open_by_path(const char *path, char name[256]);
struct client *open_mounted(const char *path, char name[256]); /* the message is zfs unmount's */

#endif
