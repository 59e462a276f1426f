/* Opening datasets for the tools: with their keys, and on demand with what their intent logs hold.
 */
#include <errno.h>

#include "dmu/zap.h"
#include "dsl/dataset.h"
#include "dsl/props.h"
#include "fs/fs.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "util/err.h"
#include "zil/zil.h"

static struct tool_pool *pool_of(struct tool *t, const struct dataset *ds)
{
    struct tool_pool *p = t->pools;
    while (p && (!p->spa || spa_dsl(p->spa) != dataset_dsl(ds)))
        p = p->next;
    return p;
}

/* The state of a file is that of the last txg: somebody who rescues files wants to know that there
 * is more. Once for a dataset that is asked for again and again. */
static void note_pending(struct tool *t, struct dataset *ds, const char *name)
{
    struct tool_pool *p = pool_of(t, ds);
    struct dataset_stats st;
    struct zil_result log;
    if (!p || dataset_stats(ds, &st) != 0 || st.object == p->noted)
        return;
    p->noted = st.object;
    int rc = zil_pending(ds, &log);
    if (rc)
        fprintf(stderr, "note: the intent log of %s cannot be read: %s\n", name, err_text(rc));
    if (rc == 0 && log.records > 0)
        fprintf(stderr,
                "note: %s has an intent log with %llu changes, which are not shown; "
                "--replay-in-memory replays it\n",
                name, (unsigned long long)log.records);
    if (rc == 0 && log.end == ZIL_END_DAMAGED)
        fprintf(stderr, "note: the intent log of %s is damaged: changes in it are lost\n", name);
    err_clear();
}

/* What came of it; the file system is shown as far as it goes. */
static void report(struct tool *t, int rc, const struct zil_replay *z, const char *name)
{
    if (rc && z->failed_seq)
        tool_error(t, rc, "%s: the intent log was replayed up to a change that fails", name);
    else if (rc)
        tool_error(t, rc, "%s: the intent log cannot be replayed", name);
    else if (z->result.end == ZIL_END_DAMAGED)
        tool_error(t, err_set(EBADE, "it is damaged there"),
                   "%s: the intent log was replayed up to record %llu", name,
                   (unsigned long long)z->result.last_seq);
    if (z->unclaimed)
        fprintf(stderr,
                "note: %s: %llu changes in the intent log are not replayed: they were made after "
                "the checkpoint\n",
                name, (unsigned long long)z->unclaimed);
    if (z->acl_lists)
        fprintf(stderr, "note: %s: %llu NFSv4 access lists in the intent log are left out\n", name,
                (unsigned long long)z->acl_lists);
}

/* fs NULL: a volume. */
static void replay(struct tool *t, struct dataset *ds, struct fs *fs)
{
    struct zil_replay z = {.claimed_only = t->checkpoint};
    char name[DATASET_NAME_MAX];
    if (dataset_is_snapshot(ds))
        return;
    dataset_name(ds, name);
    if (!t->in_memory) {
        note_pending(t, ds, name);
        return;
    }
    err_clear();
    report(t, fs ? fs_replay(fs, &z, &t->replay_time) : zil_replay_volume(ds, &z), &z, name);
}

int tool_fs_open(struct tool *t, struct dataset *ds, struct fs **out)
{
    struct fs_options o = {.readonly = true, .xattr = FS_XATTR_SA};
    o.acltype = (int)prop_get_number(ds, "acltype"); /* off: lists that are there mean nothing */
    int rc = tool_keys_load(t, ds);
    if (rc == 0)
        rc = fs_open(out, ds, &o);
    if (rc == 0)
        replay(t, ds, *out);
    return rc;
}

/* ---- Volumes: object 1 has the data, the ZAP 2 the size ---- */

int tool_volume_open(struct tool *t, struct dataset *ds, uint64_t *size)
{
    struct objset *os;
    int rc = tool_keys_load(t, ds);
    if (rc == 0)
        rc = dataset_objset(ds, &os);
    if (rc == 0)
        rc = zap_get_u64(os, 2, "size", size);
    if (rc)
        return err_prefix(rc, "the size of the volume");
    replay(t, ds, NULL);
    return 0;
}
