/*
 * What others than root and the user who runs the process may ask: what "zfs allow" gave them
 * (dsl/deleg.h). For the trusted everything here is 0; else -EPERM "permission denied".
 */
#ifndef SERVER_PERMISSIONS_IMPL_H
#define SERVER_PERMISSIONS_IMPL_H

struct call;
struct names;
struct nvlist;

/* On a dataset, snapshot or bookmark. */
int permission_need(struct call *c, const char *name, const char *perm);
int permission_need_all(struct call *c, const struct names *l, const char *perm);
/* To make a file system of that name: on the nearest one above it that exists. */
int permission_need_new(struct call *c, const char *name);
/* To set a property, or all of a list's on what exists or is going to exist below a parent. */
int permission_need_prop(struct call *c, const char *name, const char *prop);
int permission_need_props(struct call *c, const char *name, const struct nvlist *props);
/* To unmount what is mounted, if it is: mounts are root's. */
int permission_need_unmounted(struct call *c, const char *name);

#endif
