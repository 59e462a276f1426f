/* Extended attributes as files in a hidden directory (spec 06 9.1). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

#define XATTR_SIZE_LIMIT (1u << 20) /* more than Linux lets anybody write: damage */

/* The file with this attribute's value. */
static int find(struct znode *hidden, const char *name, struct znode **out)
{
    uint64_t value;
    int rc = dir_find(hidden, name, &value);
    if (rc == 0)
        rc = zn_get(hidden->fs, value & OBJECT_MASK, out);
    return rc == -ENOENT ? -ENODATA : rc;
}

static int read_value(struct znode *zn, unsigned char **value, size_t *n)
{
    struct zattr a;
    zn_attr(zn, &a);
    if (a.size > XATTR_SIZE_LIMIT)
        return -EIO;
    *value = malloc(a.size + 1);
    if (!*value)
        return -ENOMEM;
    *n = a.size;
    return dnode_read(zn->dn, 0, *value, a.size);
}

int xattr_dir_get(struct znode *zn, const char *name, unsigned char **value, size_t *n)
{
    struct znode *hidden CLEANUP_ZN = NULL, *file CLEANUP_ZN = NULL;
    int rc = zn_get(zn->fs, zn->a.xattr, &hidden);
    if (rc == 0)
        rc = find(hidden, name, &file);
    return rc < 0 ? rc : read_value(file, value, n);
}

int xattr_dir_each(struct znode *zn, xattr_each_fn *fn, void *arg)
{
    struct znode *hidden CLEANUP_ZN = NULL;
    struct zap_cursor c;
    struct zap_entry e;
    int rc = zn_get(zn->fs, zn->a.xattr, &hidden);
    if (rc < 0)
        return rc;
    zap_cursor_init(&c, hidden->dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = fn(arg, e.name);
        if (rc < 0)
            return rc;
    }
    return rc == -ENOENT ? 0 : rc;
}

/* ---- Changing ---- */

int xattr_dir_make(struct znode *zn, struct zattr *a, struct tx *tx, struct znode **out)
{
    unsigned char object[8];
    struct new_object n = {
        .mode = S_IFDIR | 01777,
        .uid = a->uid,
        .gid = a->gid,
        .links = 2,
        .flags = PFLAG_XATTR,
        .parent = zn->object,
    };
    int rc = object_new(zn->fs, NULL, &n, tx, out);
    if (rc < 0)
        return rc;
    a->xattr = (*out)->object;
    put_u64(object, a->xattr, BYTES_HOST_BIG);
    const struct sa_change c = {SA_XATTR, object, 8};
    return zn_store_more(zn, a, &c, 1, tx);
}

static int count_entries(struct znode *hidden, int delta, struct tx *tx)
{
    struct zattr a;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(hidden);
    zn_attr(hidden, &a);
    a.size = MAX((int64_t)a.size + delta, 2);
    zattr_touch(hidden->fs, &a, true);
    return zn_store(hidden, &a, tx);
}

static int make_file(struct znode *hidden, const char *name, struct tx *tx, struct znode **out)
{
    struct new_object n = {
        .mode = S_IFREG | 0644,
        .uid = hidden->a.uid,
        .gid = hidden->a.gid,
        .links = 1,
        .flags = PFLAG_XATTR,
        .parent = hidden->object,
    };
    int rc = object_new(hidden->fs, NULL, &n, tx, out);
    if (rc < 0)
        return rc;
    uint64_t value = dir_value(*out);
    rc = zap_add(hidden->dn, name, 8, 1, &value, tx);
    return rc < 0 ? rc : count_entries(hidden, 1, tx);
}

static int write_value(struct znode *file, const void *value, size_t n, struct tx *tx)
{
    struct zattr a;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(file);
    zn_attr(file, &a);
    int rc = file_set_size(file, &a, 0, tx);
    if (rc == 0)
        rc = file_grow_block(file, 0, n, tx);
    if (rc == 0 && n > 0)
        rc = dnode_write(file->dn, 0, value, n, tx);
    if (rc < 0)
        return rc;
    a.size = n;
    zattr_touch(file->fs, &a, true);
    return zn_store(file, &a, tx);
}

int xattr_dir_set(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
                  struct tx *tx)
{
    struct znode *hidden CLEANUP_ZN = NULL, *file CLEANUP_ZN = NULL;
    int rc = a->xattr ? zn_get(zn->fs, a->xattr, &hidden) : xattr_dir_make(zn, a, tx, &hidden);
    if (rc == 0)
        rc = find(hidden, name, &file);
    if (rc == -ENODATA)
        rc = make_file(hidden, name, tx, &file);
    if (rc == 0)
        rc = write_value(file, value, n, tx);
    return rc < 0 ? rc : zn_store(zn, a, tx);
}

int xattr_dir_remove(struct znode *zn, const char *name, struct tx *tx)
{
    struct znode *hidden CLEANUP_ZN = NULL, *file CLEANUP_ZN = NULL;
    int rc = zn_get(zn->fs, zn->a.xattr, &hidden);
    if (rc == 0)
        rc = find(hidden, name, &file);
    if (rc == 0)
        rc = zap_remove(hidden->dn, name, tx);
    if (rc == 0)
        rc = count_entries(hidden, -1, tx);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(file);
    return drop_link(file, tx);
}
