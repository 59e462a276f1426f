/* What a pool that is opened for writing is rid of first (spec 04 1.2): datasets left half-made or
 * half-destroyed, and temporary holds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "pool/pool.h"
#include "util/err.h"
#include "util/log.h"

#define MOS_DIRECTORY 1

/* ---- Inconsistent datasets ---- */

struct names {
    char (*name)[DATASET_NAME_MAX];
    size_t n, cap;
};

static int find_inconsistent(void *arg, struct dir *d)
{
    struct names *list = arg;
    CLEANUP_DS struct dataset *head = NULL;
    uint64_t resume;
    int rc;

    if (d->w[DIR_HEAD] == 0 || d->name[0] == '$')
        return 0;
    rc = dir_each_child(d, true, false, find_inconsistent, arg);
    if (rc == 0)
        rc = ds_hold(d->dsl, d->w[DIR_HEAD], &head);
    if (rc != 0 || !(head->w[DS_FLAGS] & DS_FLAG_INCONSISTENT) ||
        ds_zap_get(head, KEY_RESUME, &resume) == 0)
        return rc;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 8;
        void *grown = realloc(list->name, cap * sizeof *list->name);

        if (!grown)
            return -ENOMEM;
        list->name = grown;
        list->cap = cap;
    }
    ds_name(head, list->name[list->n++]);
    return 0;
}

static int list_inconsistent(struct dsl *dsl, struct names *list)
{
    DSL_READ_GUARD(dsl);

    return dir_each_child(dsl->root, true, false, find_inconsistent, list);
}

static int destroy_inconsistent(struct dsl *dsl)
{
    struct names list = {0};
    int rc = list_inconsistent(dsl, &list);

    for (size_t i = 0; i < list.n && rc == 0; i++) {
        int one = dataset_destroy(dsl, list.name[i]);

        if (one != 0)
            log_warn("%s is inconsistent and cannot be destroyed: %s", list.name[i], err_text(one));
    }
    free(list.name);
    return rc;
}

/* ---- Temporary holds ---- */

static int release_one(struct dsl *dsl, const char *key, struct tx *tx)
{
    CLEANUP_DS struct dataset *snap = NULL;
    char *end;
    uint64_t object = strtoull(key, &end, 16), when;
    int rc = *end == '-' ? ds_hold(dsl, object, &snap) : -EBADE;

    if (rc == 0)
        rc = snap->w[DS_USERREFS] ? zap_get_u64(dsl->mos, snap->w[DS_USERREFS], end + 1, &when) : -ENOENT;
    if (rc == 0)
        return ds_userref_remove(snap, end + 1, tx);
    if (rc != -ENOENT && rc != -EBADE)
        return rc;
    log_warn("the temporary hold '%s' is forgotten, there is nothing that it holds: %s", key, err_text(rc));
    return 0;
}

static int release_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    uint64_t object;
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", &object);

    if (rc == 0)
        rc = dnode_hold(dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = release_one(dsl, e.name, tx);
        if (rc == 0)
            rc = zap_remove(zap, e.name, tx);
        rc = rc == -ENOENT ? 0 : rc; /* gone with the hold */
        if (rc != 0)
            break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

static int release_holds(struct dsl *dsl)
{
    struct dnode *zap;
    uint64_t object, n = 0;
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, "tmp_userrefs", &object);

    if (rc == 0)
        rc = dnode_hold(dsl->mos, object, &zap);
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = zap_count(zap, &n);
    dnode_rele(zap);
    return rc == 0 && n > 0 ? dsl_task_blocks(dsl, NULL, release_sync, NULL, DSL_SPACE_NONE, 0) : rc;
}

int dsl_start(struct dsl *dsl)
{
    int rc = dsl->pool->writable ? release_holds(dsl) : 0;

    return rc == 0 && dsl->pool->writable ? destroy_inconsistent(dsl) : rc;
}
