/* Properties that count what users, groups and projects use (op_owners.c). */
#ifndef SERVER_OWNERS_IMPL_H
#define SERVER_OWNERS_IMPL_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct dataset;
struct server;

/* "userobjquota@joe" */
struct owner_property {
    int kind; /* enum fs_owner_kind */
    bool quota, objects;
    const char *who; /* a name or a number; part of the property's name */
};
bool owner_property_parse(const char *name, struct owner_property *out);
/* May the caller see (or is to be shown) it? His own always, else what zfs allow gave him. */
bool owner_property_visible(struct call *c, struct dataset *ds, const struct owner_property *p);
int owner_property_get(struct dataset *ds, const struct owner_property *p, uint64_t *value);

/* A limit to be set: "userquota@joe", "defaultuserquota" and their like. */
struct owner_quota {
    int kind; /* enum fs_owner_kind */
    bool objects, is_default;
    uint64_t id, limit; /* 0: none */
};
/* Changes nothing. -ENOENT: no such property; -EINVAL: bad owner or size, or one that is only read.
 */
int owner_quota_parse(const char *prop, const char *text, struct owner_quota *out);
int owner_quota_set(struct server *s, const char *name, const struct owner_quota *q);

int op_zfs_owners(struct call *c);

#endif
