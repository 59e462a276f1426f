/* Bookmarks: what is left of a snapshot to count and to send from (spec 04 12). Named
 * "pool/fs#mark". */
#ifndef DSL_BOOKMARK_H
#define DSL_BOOKMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsl/dataset.h"

struct bookmark_stats {
    char name[DATASET_NAME_MAX]; /* full */
    uint64_t guid, creation_txg, creation_time;
    bool sized; /* the next three are known */
    uint64_t referenced, compressed, uncompressed;
};

/* "fs#mark": -EINVAL, -ENAMETOOLONG with the reference's words. */
int bookmark_name_check(const char *name);

/* Makes a bookmark of a snapshot in the file system's history ("fs@snap"), or of another bookmark
 * of it. -EINVAL, -EEXIST, -ENOENT, -ESRCH (there is no such source), -EXDEV (it is not in its history). */
int bookmark_create(struct dsl *dsl, const char *name, const char *source);
int bookmark_destroy(struct dsl *dsl, const char *const *names,
                     size_t n); /* all or none; -ENOENT */

int bookmark_stats(struct dsl *dsl, const char *name, struct bookmark_stats *out); /* -ENOENT */
/* Calls fn for each bookmark of a file system, by name, until it returns non-zero. */
typedef int bookmark_each_fn(void *arg, const struct bookmark_stats *b);
int bookmark_each(struct dataset *head, bookmark_each_fn *fn, void *arg);

#endif
