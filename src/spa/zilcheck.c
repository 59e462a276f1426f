/*
 * Intent logs left by others (spec 06 17.9). Until this program replays logs, a pool with a log that holds
 * something must not be written: later blocks of the chain would be taken for free space. A chain whose
 * first block was never written (what a clean export leaves) is harmless as long as it is kept.
 */
#include <errno.h>

#include "dsl/dataset.h"
#include "spa/spa_impl.h"
#include "util/err.h"
#include "vdev/vdev.h"
#include "zil/zil.h"

static int check_chain(struct spa *spa, const struct zil_header *h, const char *name)
{
    const struct zil_walk walk = {.pool = &spa->pool, .header = h, .uberblock_txg = spa->ub.txg};
    struct zil_result found;
    if (!vdev_lookup_top(spa->pool.root, dva_vdev(&h->log, 0)))
        return err_set(EROFS, "%s has an intent log on a missing device", name);
    int rc = zil_walk(&walk, &found);
    if (rc == 0 && found.end == ZIL_END_DAMAGED)
        return err_set(EROFS, "%s has an intent log that is damaged", name);
    if (rc == 0 && found.blocks > 0)
        return err_set(EROFS,
                       "%s has an intent log with changes that were never replayed; this version "
                       "does not replay intent logs yet", name);
    return err_prefix(rc, "the intent log of %s", name);
}

static int check_dataset(void *arg, struct dataset *ds)
{
    struct spa *spa = arg;
    char name[DATASET_NAME_MAX];
    struct zil_header header;
    struct objset *os;
    dataset_name(ds, name);
    int rc = dataset_objset(ds, &os);
    if (rc != 0)
        return err_prefix(rc, "%s", name);
    zil_header_get(os, &header);
    return bp_hole(&header.log) ? 0 : check_chain(spa, &header, name);
}

/* 0, or -EROFS with a sentence if some dataset has a log that must be replayed first. */
int spa_check_intent_logs(struct spa *spa)
{
    return dataset_each(spa->dsl, spa->pool.name, -1, false, check_dataset, spa);
}
