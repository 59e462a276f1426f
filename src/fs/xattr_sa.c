/* Extended attributes as a packed list among the system attributes (spec 06 9.2). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "nvlist/nvlist.h"
#include "util/cleanup.h"

#define SA_XATTR_VALUE_MAX 32768
#define SA_XATTR_LIST_MAX  65535

static int read_list(struct znode *zn, struct nvlist **out)
{
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n;
    int rc = zn_read_sa(zn, SA_DXATTR, &packed, &n);
    if (rc < 0)
        return rc;
    if (!packed || n == 0) {
        *out = nvlist_new();
        return *out ? 0 : -ENOMEM;
    }
    rc = nvlist_unpack(packed, n, out, NULL);
    return rc == -EINVAL ? -EIO : rc;
}

int xattr_sa_get(struct znode *zn, const char *name, unsigned char **value, size_t *n)
{
    struct nvlist *l CLEANUP_NVLIST = NULL;
    const void *v;
    int rc = read_list(zn, &l);
    if (rc == 0)
        rc = nvlist_get_bytes(l, name, &v, n);
    if (rc < 0)
        return rc == -ENOENT || rc == -EINVAL ? -ENODATA : rc;
    *value = malloc(*n + 1);
    if (!*value)
        return -ENOMEM;
    memcpy(*value, v, *n);
    return 0;
}

static int store_list(struct znode *zn, struct zattr *a, const struct nvlist *l, struct tx *tx)
{
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n;
    int rc = nvlist_pack_xdr(l, &packed, &n);
    if (rc < 0)
        return rc;
    if (n > SA_XATTR_LIST_MAX)
        return -EFBIG;
    const struct sa_change c = {SA_DXATTR, packed, n};
    rc = zn_store_more(zn, a, &c, 1, tx);
    return rc == -ENOSPC ? -EFBIG : rc;
}

int xattr_sa_set(struct znode *zn, struct zattr *a, const char *name, const void *value, size_t n,
                 struct tx *tx)
{
    struct nvlist *l CLEANUP_NVLIST = NULL;
    if (n > SA_XATTR_VALUE_MAX)
        return -EFBIG;
    int rc = read_list(zn, &l);
    if (rc == 0)
        rc = nvlist_add_bytes(l, name, value, n);
    return rc < 0 ? rc : store_list(zn, a, l, tx);
}

/* The last one leaves an empty list, as the reference does it. */
int xattr_sa_remove(struct znode *zn, struct zattr *a, const char *name, struct tx *tx)
{
    struct nvlist *l CLEANUP_NVLIST = NULL;
    int rc = read_list(zn, &l);
    if (rc == 0)
        rc = nvlist_remove(l, name);
    if (rc < 0)
        return rc == -ENOENT ? -ENODATA : rc;
    return store_list(zn, a, l, tx);
}

int xattr_sa_each(struct znode *zn, xattr_each_fn *fn, void *arg)
{
    struct nvlist *l CLEANUP_NVLIST = NULL;
    int rc = read_list(zn, &l);
    if (rc < 0)
        return rc;
    for (const struct nvpair *p = nvlist_first(l); p && rc == 0; p = nvlist_after(l, p))
        if (nvpair_type(p) == NV_BYTE_ARRAY)
            rc = fn(arg, nvpair_name(p));
    return rc;
}
