/* Destroying, shared by zfs.destroy and zfs.rollback. */
#ifndef SERVER_DESTROY_IMPL_H
#define SERVER_DESTROY_IMPL_H

#include <stdbool.h>

#include "server/names_impl.h"

struct call;

/* A row {"name": ...} for each. */
int destroy_rows(struct call *c, const struct names *l);
/* -EEXIST with "WHAT\nADVICE" and a line for each name. */
int refuse_listed(const struct names *l, const char *what);

/* Destroys snapshots, all or none; those that somebody looks at through .zfs only with args.force.
 */
int destroy_snapshots(struct call *c, const struct names *l);
/* Destroys datasets and snapshots in this order, unmounting; neighbouring snapshots at once. */
int destroy_in_order(struct call *c, const struct names *order, bool force);
/* zfs.destroy of "fs@a,b%c". */
int destroy_matching(struct call *c, const char *name);

#endif
