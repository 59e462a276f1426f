/* What a new file system consists of (spec 06 3); called by the layers that create datasets,
 * through the pointer the program registers with them. */
#ifndef FS_FORMAT_H
#define FS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

struct objset;
struct tx;

/* Fills an empty ZPL object set: master node (object 1), SA tables, delete queue, and a root
 * directory owned by uid and gid; with_projid gives that the project attribute. -ENOMEM, -EIO. */
int fs_format(struct objset *os, uint32_t uid, uint32_t gid, bool with_projid, struct tx *tx);

#endif
