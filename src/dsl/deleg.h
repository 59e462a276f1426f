/*
 * Delegated permissions, "zfs allow" (spec 04 14): kept with the directory of a dataset, valid there and
 * (or only) below it.
 */
#ifndef DSL_DELEG_H
#define DSL_DELEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DELEG_WHO_MAX  72 /* a set's name, or an id in decimal; with NUL */
#define DELEG_PERM_MAX 72 /* "snapshot", "@set" */

struct dsl;

struct deleg {
    char kind;  /* 'u'ser, 'g'roup, 'e'veryone, 'c': who makes a descendant, 's': what a set means */
    char scope; /* 'l': the dataset itself, 'd': its descendants; '-' with 'c' and 's' */
    char who[DELEG_WHO_MAX];   /* users and groups: the id; sets: "@name"; else "" */
    char perm[DELEG_PERM_MAX]; /* "" when removing: all of them */
};

/* Adds to, or takes away from, what is delegated on a file system or volume. Taking away what is not
 * there is no error. -ENOENT, -EINVAL. */
int deleg_change(struct dsl *dsl, const char *dataset, bool remove, const struct deleg *list, size_t n);
/* Calls fn for all that is delegated on the dataset, then on each of its ancestors (from: its name),
 * until it returns non-zero. */
typedef int deleg_each_fn(void *arg, const char *from, const struct deleg *d);
int deleg_each(struct dsl *dsl, const char *dataset, deleg_each_fn *fn, void *arg);

/* Is there such a permission? Those of subcommands, of what is counted per owner, and the properties that
 * can be set. */
bool deleg_permission_known(const char *perm);

struct deleg_caller {
    uint32_t uid;
    const uint32_t *gids;
    size_t ngids;
};
/* 0 if the caller has the permission on a dataset, snapshot or bookmark; else -EPERM, or why it could not
 * be found out. */
int deleg_access(struct dsl *dsl, const char *name, const char *perm, const struct deleg_caller *who);

#endif
