/* What users, groups and projects use and may use (spec 06 12), for people; quota.c enforces it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

#define MASTER_NODE 1

enum { USED, QUOTA, OBJECTS, OBJECT_QUOTA };

/* One number of one owner, as it comes from a map. */
struct item {
    uint64_t id, value;
    int what;
};

struct items {
    struct item *item;
    size_t n, cap;
};

static void items_free(struct items *l)
{
    free(l->item);
}

static int items_add(struct items *l, uint64_t id, int what, uint64_t value)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct item *more = realloc(l->item, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->item = more;
        l->cap = cap;
    }
    l->item[l->n++] = (struct item){id, value, what};
    return 0;
}

/* A map of owners; keys that are no numbers are left out. */
static int add_map(struct objset *os, uint64_t object, int what, struct items *l)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc = dnode_hold(os, object, &zap);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        bool objects = strncmp(e.name, "obj-", 4) == 0;
        char *end, *digits = e.name + (objects ? 4 : 0);
        uint64_t id = strtoull(digits, &end, 16);
        if (*end || end == digits || e.count == 0)
            continue;
        rc = items_add(l, id, objects ? OBJECTS : what, e.first);
        if (rc < 0)
            break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int hold_master(struct dataset *ds, struct objset **os, struct dnode **master)
{
    int rc = dataset_objset(ds, os);
    if (rc < 0)
        return rc;
    if (objset_type(*os) != OBJSET_ZPL)
        return err_set(EINVAL, "the dataset is not a file system");
    return dnode_hold(*os, MASTER_NODE, master);
}

static int quota_map(struct dnode *master, enum fs_owner_kind kind, bool objects, uint64_t *map)
{
    int rc = zap_get(master, quota_map_name(kind, objects), map);
    if (rc == -ENOENT)
        *map = 0;
    return rc == -ENOENT ? 0 : rc;
}

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int collect(struct dataset *ds, enum fs_owner_kind kind, struct items *l)
{
    struct objset *os;
    struct dnode *master = NULL;
    uint64_t map = 0;
    int rc = hold_master(ds, &os, &master);
    if (rc == 0)
        rc = add_map(os, quota_used_object(kind), USED, l);
    for (int objects = 0; objects < 2 && rc == 0; objects++) {
        rc = quota_map(master, kind, objects, &map);
        if (rc == 0 && map != 0)
            rc = add_map(os, map, objects ? OBJECT_QUOTA : QUOTA, l);
    }
    dnode_rele(master);
    if (rc == 0 && l->n > 1)
        qsort(l->item, l->n, sizeof *l->item, compare);
    return rc;
}

static void put(struct fs_owner *o, const struct item *i)
{
    uint64_t *const to[] = {&o->used, &o->quota, &o->objects, &o->object_quota};
    *to[i->what] = i->value;
}

int fs_owner_each(struct dataset *ds, enum fs_owner_kind kind, fs_owner_fn *fn, void *arg)
{
    CLEANUP(items_free) struct items l = {0};
    int rc = collect(ds, kind, &l);
    for (size_t i = 0; i < l.n && rc == 0;) {
        struct fs_owner o = {.id = l.item[i].id};
        for (; i < l.n && l.item[i].id == o.id; i++)
            put(&o, &l.item[i]);
        rc = fn(arg, &o);
    }
    return rc;
}

struct search {
    uint64_t id;
    struct fs_owner *out;
};

static int find(void *arg, const struct fs_owner *o)
{
    struct search *s = arg;
    if (o->id == s->id)
        *s->out = *o;
    return 0;
}

int fs_owner_get(struct dataset *ds, enum fs_owner_kind kind, uint64_t id, struct fs_owner *out)
{
    struct search s = {id, out};
    *out = (struct fs_owner){.id = id};
    return fs_owner_each(ds, kind, find, &s);
}

/* The map of limits, made if need be. */
static int need_map(struct objset *os, struct dnode *master, enum fs_owner_kind kind, bool objects,
                    struct tx *tx, uint64_t *map)
{
    int rc = quota_map(master, kind, objects, map);
    if (rc < 0 || *map != 0)
        return rc;
    rc = zap_create_simple(os, OT_USERGROUP_QUOTA, 0, tx, map);
    if (rc == 0)
        rc = zap_add(master, quota_map_name(kind, objects), 8, 1, map, tx);
    return rc;
}

static int set_in(struct objset *os, struct dnode *master, enum fs_owner_kind kind, bool objects,
                  uint64_t id, uint64_t limit, struct tx *tx, uint64_t *map)
{
    int rc = limit ? need_map(os, master, kind, objects, tx, map)
                   : quota_map(master, kind, objects, map);
    if (rc < 0 || *map == 0)
        return rc;
    rc = limit ? zap_int_set(os, *map, id, limit, tx) : zap_int_del(os, *map, id, tx);
    return rc == -ENOENT ? 0 : rc;
}

static int default_in(struct dnode *master, enum fs_owner_kind kind, bool objects, uint64_t limit,
                      struct tx *tx)
{
    const char *name = quota_default_name(kind, objects);
    int rc = limit ? zap_update(master, name, 8, 1, &limit, tx) : zap_remove(master, name, tx);
    return rc == -ENOENT ? 0 : rc;
}

int fs_owner_set_default(struct dataset *ds, struct fs *fs, enum fs_owner_kind kind, bool objects,
                         uint64_t limit)
{
    struct objset *os;
    struct dnode *master = NULL;
    struct tx tx;
    int rc = dataset_is_snapshot(ds) ? -EROFS : hold_master(ds, &os, &master);
    if (rc == 0)
        rc = dataset_tx_begin(ds, DATASET_TX_FREE, COST_NAME, &tx);
    if (rc == 0) {
        rc = default_in(master, kind, objects, limit, &tx);
        dataset_tx_end(&tx);
        if (rc == 0 && fs)
            quota_default_changed(fs, kind, objects, limit);
    }
    dnode_rele(master);
    return rc;
}

int fs_owner_set_quota(struct dataset *ds, struct fs *fs, enum fs_owner_kind kind, bool objects,
                       uint64_t id, uint64_t limit)
{
    struct objset *os;
    struct dnode *master = NULL;
    struct tx tx;
    uint64_t map = 0;
    int rc = dataset_is_snapshot(ds) ? -EROFS : hold_master(ds, &os, &master);
    if (rc == 0 && kind == FS_PROJECT && !(objset_flags(os) & OBJSET_FLAG_PROJECTQUOTA))
        rc = err_set(ENOTSUP, "projects are not counted in this file system");
    if (rc == 0)
        rc = dataset_tx_begin(ds, DATASET_TX_FREE, COST_NAME, &tx);
    if (rc == 0) {
        rc = set_in(os, master, kind, objects, id, limit, &tx, &map);
        dataset_tx_end(&tx);
        if (rc == 0 && fs)
            quota_map_changed(fs, kind, objects, map);
    }
    if (master)
        dnode_rele(master);
    return rc;
}
