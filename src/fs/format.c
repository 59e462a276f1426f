/* A new file system (spec 06 3). */
#include "fs/format.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"

#define MASTER_NODE 1
#define ZPL_VERSION 5

static int add(struct dnode *master, const char *name, uint64_t value, struct tx *tx)
{
    return zap_add(master, name, 8, 1, &value, tx);
}

static int make_master(struct objset *os, struct tx *tx, struct dnode **out)
{
    const struct object_params params = {.type = OT_MASTER_NODE};
    int rc = object_create(os, MASTER_NODE, &params, tx, out);
    if (rc == 0)
        rc = zap_format(*out, 0, tx);
    if (rc == 0)
        rc = add(*out, "normalization", 0, tx);
    if (rc == 0)
        rc = add(*out, "utf8only", 0, tx);
    if (rc == 0)
        rc = add(*out, "casesensitivity", 0, tx);
    if (rc == 0)
        rc = add(*out, "VERSION", ZPL_VERSION, tx);
    return rc;
}

/* A ZAP whose number goes into the master node. */
static int make_zap(struct objset *os, struct dnode *master, const char *name, uint8_t type,
                    uint64_t *object, struct tx *tx)
{
    int rc = zap_create_simple(os, type, 0, tx, object);
    return rc < 0 ? rc : add(master, name, *object, tx);
}

/* The parts of a struct fs that making an object needs. */
static int make_root(struct fs *fs, uint32_t uid, uint32_t gid, struct tx *tx, uint64_t *root)
{
    struct new_object n = {.mode = S_IFDIR | 0755, .uid = uid, .gid = gid, .links = 2};
    struct znode *zn;
    int rc = object_new(fs, NULL, &n, tx, &zn);
    if (rc < 0)
        return rc;
    *root = zn->object;
    zn_put(zn);
    return 0;
}

static int fill(struct fs *fs, struct dnode *master, uint32_t uid, uint32_t gid, struct tx *tx)
{
    uint64_t sa, queue;
    int rc = make_zap(fs->os, master, "SA_ATTRS", OT_SA_MASTER, &sa, tx);
    if (rc == 0)
        rc = make_zap(fs->os, master, "DELETE_QUEUE", OT_DELETE_QUEUE, &queue, tx);
    if (rc == 0)
        rc = sa_table_open(&fs->sa, fs->os, sa);
    if (rc == 0)
        rc = sa_table_complete(&fs->sa, tx);
    if (rc == 0)
        rc = make_root(fs, uid, gid, tx, &fs->root);
    return rc < 0 ? rc : add(master, "ROOT", fs->root, tx);
}

int fs_format(struct objset *os, uint32_t uid, uint32_t gid, bool with_projid, struct tx *tx)
{
    struct dnode *master = NULL;
    struct fs *fs = calloc(1, sizeof *fs);
    if (!fs)
        return -ENOMEM;
    fs->os = os;
    fs->pool = objset_pool(os);
    fs->projects = with_projid;
    int rc = shards_init(fs);
    if (rc == 0)
        rc = make_master(os, tx, &master);
    if (rc == 0)
        rc = fill(fs, master, uid, gid, tx);
    dnode_rele(master);
    shards_fini(fs);
    if (fs->sa.layouts)
        sa_table_close(&fs->sa);
    free(fs);
    return rc;
}
