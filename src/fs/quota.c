/* Quotas of users, groups and projects (spec 06 12.3), compared with what the last txg counted. */
#include <errno.h>
#include <stdio.h>

#include "fs/fs_impl.h"

static const struct {
    const char *bytes, *objects, *bytes_default, *objects_default;
    uint64_t used; /* the object that counts */
} names[QUOTA_KINDS] = {
    {"userquota@", "userobjquota@", "defaultuserquota", "defaultuserobjquota", OBJECT_USERUSED},
    {"groupquota@", "groupobjquota@", "defaultgroupquota", "defaultgroupobjquota",
     OBJECT_GROUPUSED},
    {"projectquota@", "projectobjquota@", "defaultprojectquota", "defaultprojectobjquota",
     OBJECT_PROJECTUSED},
};

static int read_one(struct dnode *master, const char *name, uint64_t *value)
{
    int rc = zap_get(master, name, value);
    if (rc == -ENOENT) {
        *value = 0;
        return 0;
    }
    return rc;
}

int quotas_open(struct fs *fs, struct dnode *master)
{
    int rc = 0;
    for (int i = 0; i < QUOTA_KINDS && rc == 0; i++) {
        struct quota *q = &fs->quotas[i];
        uint64_t map = 0, limit = 0;
        rc = read_one(master, names[i].bytes, &map);
        q->bytes_map = map;
        if (rc == 0)
            rc = read_one(master, names[i].objects, &map);
        q->objects_map = map;
        if (rc == 0)
            rc = read_one(master, names[i].bytes_default, &limit);
        q->bytes_default = limit;
        if (rc == 0)
            rc = read_one(master, names[i].objects_default, &limit);
        q->objects_default = limit;
    }
    return rc;
}

const char *quota_map_name(int kind, bool objects)
{
    return objects ? names[kind].objects : names[kind].bytes;
}

uint64_t quota_used_object(int kind)
{
    return names[kind].used;
}

const char *quota_default_name(int kind, bool objects)
{
    return objects ? names[kind].objects_default : names[kind].bytes_default;
}

void quota_default_changed(struct fs *fs, int kind, bool objects, uint64_t limit)
{
    struct quota *q = &fs->quotas[kind];
    if (objects)
        q->objects_default = limit;
    else
        q->bytes_default = limit;
}

void quota_map_changed(struct fs *fs, int kind, bool objects, uint64_t map)
{
    struct quota *q = &fs->quotas[kind];
    if (objects)
        q->objects_map = map;
    else
        q->bytes_map = map;
}

static int check_one(struct fs *fs, int kind, uint64_t id, bool objects)
{
    const struct quota *q = &fs->quotas[kind];
    uint64_t map = objects ? q->objects_map : q->bytes_map, used;
    uint64_t limit = objects ? q->objects_default : q->bytes_default;
    char key[24];
    if (map == 0 && limit == 0)
        return 0;
    if (map != 0) {
        uint64_t own;
        if (zap_int_get(fs->os, map, id, &own) == 0)
            limit = own;
    }
    if (limit == 0)
        return 0;
    int n = snprintf(key, sizeof key, "%s", objects ? "obj-" : "");
    zap_int_key(id, key + n);
    if (zap_get_u64(fs->os, names[kind].used, key, &used) < 0)
        return 0;
    return used >= limit ? -EDQUOT : 0;
}

int quota_check(struct fs *fs, uint64_t uid, uint64_t gid, uint64_t projid, bool objects)
{
    if (fs->replay)
        return 0;
    int rc = check_one(fs, QUOTA_USER, uid, objects);
    if (rc == 0)
        rc = check_one(fs, QUOTA_GROUP, gid, objects);
    if (rc == 0)
        rc = check_one(fs, QUOTA_PROJECT, projid, objects);
    if (rc == 0 && objects) /* who may have no more bytes may have no more files either */
        rc = quota_check(fs, uid, gid, projid, false);
    return rc;
}
