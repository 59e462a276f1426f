/* What attach.c is made of: fusermount3 and the mount table. */
#ifndef FUSE_ATTACH_IMPL_H
#define FUSE_ATTACH_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#define FUSE_FS_TYPE "fuse.tarn" /* as the mount table shows it */

/* helper.c: runs fusermount3. fd gets the FUSE descriptor. The sentence is the helper's. */
int fuse_helper_mount(const char *target, const char *opts, int *fd);
int fuse_helper_unmount(const char *target, bool lazy);

/* mountinfo.c: the type of what is mounted on top at target; -ENOENT. */
int fuse_mountinfo_type(const char *target, char *type, size_t cap);

#endif
