/* What the operations that make and move datasets share (op_zfs.c). */
#ifndef SERVER_OP_ZFS_IMPL_H
#define SERVER_OP_ZFS_IMPL_H

struct call;
struct nvlist;

/* args.props, {name: text}, as a list of strings; or encoded as dataset_create() takes them. */
int props_list(struct call *c, struct nvlist **out);
int props_encoded(struct call *c, struct nvlist **out);
/* Puts what went wrong beside the operation into the answer (warning is consumed). */
void put_warning(struct call *c, char *warning);
/* Says there which of the properties (encoded) that were set have no effect. */
void warn_of_kept(struct call *c, const struct nvlist *props);
/* -p: the missing parents of a dataset, outermost first. */
int create_parents(struct call *c, const char *name);
/* Mounts what has just been made, if args.mount says so; a failure is a warning. */
void mount_new(struct call *c, const char *name);
int op_zfs_allow(struct call *c);
int op_zfs_unallow(struct call *c);
int op_zfs_allowed(struct call *c);
int op_zfs_bookmark(struct call *c);
int op_zfs_diff(struct call *c);
int op_zfs_hold(struct call *c);
int op_zfs_release(struct call *c);
int op_zfs_holds(struct call *c);
int op_zfs_clone(struct call *c);
int op_zfs_promote(struct call *c);
int op_zfs_rename(struct call *c);
int op_zfs_rollback(struct call *c);

#endif
