/* What chattr changes: immutable, append-only, nodump, and projects (spec 06 5.2, 12.2). */
#include <errno.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

#define PROJID_NONE UINT32_MAX /* no valid project */

static const struct {
    uint32_t flag;
    uint64_t pflag;
} map[] = {
    {FS_FLAG_IMMUTABLE, PFLAG_IMMUTABLE},
    {FS_FLAG_APPEND, PFLAG_APPENDONLY},
    {FS_FLAG_NODUMP, PFLAG_NODUMP},
    {FS_FLAG_PROJINHERIT, PFLAG_PROJINHERIT},
};

uint32_t flags_out(uint64_t pflags)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        flags |= pflags & map[i].pflag ? map[i].flag : 0;
    return flags;
}

static void flags_in(struct zattr *a, uint32_t flags)
{
    for (size_t i = 0; i < ARRAY_LEN(map); i++) {
        a->flags &= ~map[i].pflag;
        a->flags |= flags & map[i].flag ? map[i].pflag : 0;
    }
}

void xvattr_apply(const struct zil_xvattr *x, struct zattr *a, bool *projid)
{
    static const struct {
        uint64_t attr, pflag;
    } known[] = {{ZIL_ATTR_ARCHIVE, PFLAG_ARCHIVE},     {ZIL_ATTR_NOUNLINK, PFLAG_NOUNLINK},
                 {ZIL_ATTR_IMMUTABLE, PFLAG_IMMUTABLE}, {ZIL_ATTR_APPENDONLY, PFLAG_APPENDONLY},
                 {ZIL_ATTR_NODUMP, PFLAG_NODUMP},       {ZIL_ATTR_PROJINHERIT, PFLAG_PROJINHERIT}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!(x->requested & known[i].attr))
            continue;
        a->flags &= ~known[i].pflag;
        a->flags |= x->on & known[i].attr ? known[i].pflag : 0;
    }
    if (x->requested & ZIL_ATTR_CRTIME)
        a->crtime = (struct ztime){x->crtime.sec, x->crtime.nsec};
    *projid = x->requested & ZIL_ATTR_PROJID && a->projid != x->projid;
    if (*projid) {
        a->projid = x->projid;
        a->flags |= PFLAG_PROJID;
    }
}

int fs_getflags(struct fs *fs, uint64_t ino, struct fs_flags *out)
{
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    *out = (struct fs_flags){flags_out(a.flags), a.projid};
    return 0;
}

static int check(struct znode *zn, const struct fs_flags *set)
{
    if (!is_file(zn) && !is_dir(zn))
        return -EOPNOTSUPP;
    if (set->projid == PROJID_NONE)
        return -EINVAL;
    if (!zn->fs->projects && (set->projid != 0 || set->flags & FS_FLAG_PROJINHERIT))
        return -EOPNOTSUPP;
    return 0;
}

/* The project is one of the attributes with a fixed place, so a file that has had none before gets
 * all of its attributes laid out anew. */
static int set_locked(struct znode *zn, const struct fs_flags *set, struct tx *tx)
{
    struct zattr a;
    unsigned char projid[8];
    zn_attr(zn, &a);
    flags_in(&a, set->flags);
    a.flags |= PFLAG_ARCHIVE;
    zattr_touch(zn->fs, &a, false);
    if (a.projid == set->projid)
        return zn_store(zn, &a, tx);
    a.projid = set->projid;
    a.flags |= PFLAG_PROJID;
    put_u64(projid, a.projid, BYTES_HOST_BIG);
    const struct sa_change c = {SA_PROJID, projid, sizeof projid};
    return zn_store_more(zn, &a, &c, 1, tx);
}

int fs_setflags(struct fs *fs, uint64_t ino, const struct fs_flags *set)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    int rc = zn_open(fs, ino, &zn);
    if (rc == 0)
        rc = check(zn, set);
    if (rc < 0)
        return rc;
    zn_attr(zn, &a);
    if (a.projid != set->projid)
        rc = quota_check(fs, a.uid, a.gid, set->projid, false);
    if (rc == 0)
        rc = fs_tx_begin(fs, DATASET_TX_FREE, COST_ATTR, &t);
    if (rc < 0)
        return rc;
    struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
    return set_locked(zn, set, &t.tx);
}
