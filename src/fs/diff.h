/* What changed between two snapshots of a file system. */
#ifndef FS_DIFF_H
#define FS_DIFF_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct dataset;

struct fs_change {
    char what; /* '+', '-', 'M' or 'R' */
    uint32_t mode;
    int64_t links;         /* names more or fewer; 0 for directories */
    struct timespec ctime; /* of the newer state; of a removed file its last one */
    const char *path;      /* from the root, "/" for itself */
    const char *new_path;  /* of what was renamed, else NULL */
};
typedef int fs_diff_fn(void *arg, const struct fs_change *c);

/* Calls fn for each file that was added, removed, modified or renamed, in the order of object
 * numbers, until it returns non-zero. Both are snapshots, `from` an older one in the history of
 * `to`. */
int fs_diff(struct dataset *from, struct dataset *to, fs_diff_fn *fn, void *arg);

/* The path of an object, from the root of its file system on ("/" for itself). -ENOENT: it has none;
 * -EINVAL: the dataset is no file system; -ENAMETOOLONG. */
int fs_object_path(struct dataset *ds, uint64_t object, char *out, size_t cap);

#endif
