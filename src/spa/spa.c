/* Life of a struct spa: new, started, ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dmu/objset.h"
#include "nvlist/nvlist.h"
#include "pool/txg.h"
#include "spa/spa_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"
#include "vdev/vdev.h"


struct spa *spa_new(const struct env *env)
{
    struct spa *spa = calloc(1, sizeof *spa);
    if (!spa)
        return NULL;
    spa->env = *env;
    spa->state = POOL_STATE_ACTIVE;
    spa->hostid = spa_host_id();
    if (gethostname(spa->hostname, sizeof spa->hostname - 1) != 0)
        strcpy(spa->hostname, "localhost");
    pthread_mutex_init(&spa->lock, NULL);
    pthread_mutex_init(&spa->devices, NULL);
    return spa;
}

/* Frees all that is open. */
void spa_free(struct spa *spa)
{
    spa_upkeep_stop(spa);
    if (spa->pool.txg)
        txg_engine_stop(spa->pool.txg);
    spa_upkeep_free(spa);
    if (spa->dsl)
        dsl_close(spa->dsl);
    if (spa->mos)
        objset_close(spa->mos);
    if (spa->pool.txg) /* it counts what is dirty, also what is given up */
        txg_engine_free(spa->pool.txg);
    spa->pool.txg = NULL;
    spa_scan_free(spa);
    spa_logmap_close(spa);
    for (size_t i = 0; i < spa->nparted; i++) /* their txg failed */
        vdev_tree_free(spa->parted[i]);
    free(spa->parted);
    if (spa->pool.root)
        pool_fini(&spa->pool);
    for (unsigned i = 0; i < SPA_AUX_KINDS; i++)
        nvlist_free(spa->aux[i]);
    free(spa->hole_array);
    pthread_mutex_destroy(&spa->devices);
    pthread_mutex_destroy(&spa->lock);
    free(spa);
}

/* What the write path needs to know about features. */
void spa_load_features(struct spa *spa)
{
    struct pool_features *f = &spa->pool.features;
    const struct dsl *dsl = spa->dsl;
    f->lz4 = feature_refs(dsl, FEATURE_LZ4_COMPRESS) > 0;
    f->embedded_data = feature_refs(dsl, FEATURE_EMBEDDED_DATA) > 0;
    f->hole_birth = feature_refs(dsl, FEATURE_HOLE_BIRTH) > 0;
    f->spacemap_v2 = feature_refs(dsl, FEATURE_SPACEMAP_V2) > 0;
    f->spacemap_histogram = feature_enabled(dsl, FEATURE_SPACEMAP_HISTOGRAM);
    f->log_spacemap = feature_refs(dsl, FEATURE_LOG_SPACEMAP) > 0;
    f->large_blocks = feature_enabled(dsl, FEATURE_LARGE_BLOCKS);
    f->large_dnode = feature_enabled(dsl, FEATURE_LARGE_DNODE);
    f->userobj_accounting = feature_enabled(dsl, FEATURE_USEROBJ_ACCOUNTING);
    f->project_quota = feature_enabled(dsl, FEATURE_PROJECT_QUOTA);
    f->block_cloning = feature_refs(dsl, FEATURE_BLOCK_CLONING) > 0;
}

/* Makes the txg engine and, for a writable pool, starts it. */
int spa_start(struct spa *spa, uint64_t synced)
{
    struct txg_config config = {.dirty_max = pool_dirty_max(&spa->pool),
                                .sync = spa_sync,
                                .wanted = spa_sync_wanted,
                                .busy = spa_scan_busy,
                                .arg = spa};
    dsl_on_event(spa->dsl, spa_history_event, spa);
    int rc = spa_scan_open(spa);
    if (rc == -ENOMEM)
        return rc;
    spa_scan_start_watching(spa);
    spa_props_apply(spa);
    rc = spa_upkeep_open(spa);
    if (rc != 0)
        return rc;
    rc = txg_engine_new(&spa->pool.txg, &config, synced);
    if (rc == 0 && !spa->readonly)
        rc = txg_engine_start(spa->pool.txg);
    int left = rc == 0 ? dsl_start(spa->dsl) : 0;
    if (left != 0)
        log_warn("pool %s: remains of interrupted operations stay: %s", spa->pool.name, err_text(left));
    if (rc == 0)
        spa_upkeep_start(spa);
    return rc;
}

/* Lets background frees finish and deferred space come back, then writes the final state. */
static int write_end(struct spa *spa, enum pool_state state)
{
    struct spa_stats st;
    int rc = 0;
    do {
        rc = txg_wait_synced(spa->pool.txg, 0);
        spa_stats(spa, &st);
    } while (rc == 0 && st.freeing > 0 && state == POOL_STATE_EXPORTED);
    if (rc != 0)
        return rc;
    spa->state = state;
    spa->config_dirty = true;
    return txg_wait_synced(spa->pool.txg, 0);
}

int spa_close(struct spa *spa, enum spa_end how)
{
    int rc = 0;
    spa_upkeep_stop(spa);
    if (!spa->readonly && how != SPA_END_DROP)
        rc = write_end(spa, how == SPA_END_EXPORT ? POOL_STATE_EXPORTED : POOL_STATE_DESTROYED);
    if (rc != 0) {
        spa->state = POOL_STATE_ACTIVE;
        spa_upkeep_start(spa);
        return rc;
    }
    if (spa->pool.txg && !spa->readonly)
        txg_engine_stop(spa->pool.txg);
    spa_free(spa);
    return 0;
}

struct pool *spa_pool(struct spa *spa)
{
    return &spa->pool;
}

struct dsl *spa_dsl(struct spa *spa)
{
    return spa->dsl;
}

const char *spa_name(const struct spa *spa)
{
    return spa->pool.name;
}

bool spa_readonly(const struct spa *spa)
{
    return spa->readonly;
}

int spa_sync_now(struct spa *spa)
{
    return spa->readonly ? 0 : txg_wait_synced(spa->pool.txg, 0);
}
