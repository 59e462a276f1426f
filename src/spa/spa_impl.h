/* Private to spa: the struct and what its files call in one another. */
#ifndef SPA_SPA_IMPL_H
#define SPA_SPA_IMPL_H

#include <pthread.h>

#include "dmu/objset.h"
#include "dsl/dsl.h"
#include "pool/alloc.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "vdev/label.h"

#define SPA_VERSION        5000
#define MOS_DIRECTORY      1 /* object number of the object directory */
#define SPA_COMMENT_MAX    256

enum spa_aux { SPA_AUX_SPARES, SPA_AUX_CACHE, SPA_AUX_KINDS };

struct spa {
    struct pool pool;
    struct env env;
    struct objset *mos;
    struct dsl *dsl;
    struct dsl_mos_space mos_space;
    struct uberblock ub;          /* of the last commit */
    uint64_t version;
    enum pool_state state;        /* written by the next commit */
    uint64_t errata;
    uint32_t hostid;
    char hostname[256];
    char comment[SPA_COMMENT_MAX];
    char compatibility[1024];
    uint64_t *hole_array;         /* ids of top-level holes, or NULL */
    size_t holes;
    struct nvlist *aux[SPA_AUX_KINDS]; /* {spares: [...]}, {l2cache: [...]} as in the MOS, or NULL */
    bool vdev_zaps;               /* the scheme of 01 20 is in use */
    bool readonly;

    /* MOS objects, 0 = absent. */
    uint64_t config_object, sync_bplist, history, pool_props, vdev_zap_map, log_zap;

    _Atomic bool config_dirty;    /* the next txg rewrites configuration and labels */
    bool creating;                /* pass 1 of the first txg builds the MOS */
    bool empty_txgs;              /* export: commit even if nothing is dirty */
    const struct spa_create_args *create_args; /* only while creating */
    struct rangeset ***unflushed; /* log space maps not yet flushed: see logmap.c */
    size_t unflushed_vdevs;
    bool logs_pending;            /* the first txg must flush them */
    pthread_mutex_t devices;      /* one change of devices at a time; outside of all others */
    struct vdev **parted;         /* leaves that left in the txg in sync; the sync thread's */
    size_t nparted;
    uint64_t mos_passes;          /* of the last txg, for statistics */
    struct scan *scan;            /* scan_impl.h */
    struct upkeep *upkeep;        /* upkeep_impl.h */

    pthread_mutex_t lock;         /* guards comment, compatibility, and ub for others than the sync thread */
};

/* config.c */
int spa_config_mos(struct spa *spa, uint64_t txg, struct nvlist **out);
int spa_config_label(struct spa *spa, struct vdev *leaf, uint64_t txg, struct nvlist **out);
int spa_config_write(struct spa *spa, struct tx *tx);
/* A packed list in an object whose bonus is its length. */
int spa_packed_read(struct objset *mos, uint64_t object, const char *what, struct nvlist **out);
int spa_config_adopt(struct spa *spa, const struct nvlist *config);

/* commit.c */
int spa_commit(struct spa *spa, uint64_t txg, const struct blkptr *root, bool labels);

/* sync.c */
int spa_sync(void *arg, uint64_t txg);
bool spa_sync_wanted(void *arg);

/* spacemap.c */
int spa_spacemap_load(void *arg, struct metaslab *m, struct rangeset *allocated);
int spa_spacemap_sync(struct spa *spa, struct tx *tx, unsigned pass, bool *any);
int spa_spacemap_open(struct spa *spa);
int spa_spacemap_append(struct spa *spa, struct metaslab *m, const struct rangeset *set, bool is_free,
                        unsigned pass, struct tx *tx);
int spa_spacemap_header(struct spa *spa, struct metaslab *m, struct tx *tx);

/* dtl.c: adds the txg to what absent devices have missed, and writes what has changed. */
int spa_dtl_sync(struct spa *spa, struct tx *tx);
/* After everything of the txg was sent and flushed: puts devices out of use that have failed. *more: somebody
 * has missed something that the MOS does not say yet. -EIO: so much that the txg must not become the pool. */
int spa_dtl_judge(struct spa *spa, struct tx *tx, bool *more);
/* A leaf leaves the pool: its set in the MOS goes. */
int spa_dtl_free(struct spa *spa, struct vdev *leaf, struct tx *tx);

/* scan.c */
/* Reads the state of the last scan. -EROFS: there is one that cannot be continued. */
int spa_scan_open(struct spa *spa);
void spa_scan_free(struct spa *spa);
void spa_scan_start_watching(struct spa *spa); /* the datasets, once the pool is open */
/* In a txg's sync. First a slice of the walk, before anything is changed; walked: it had ended before. */
bool spa_scan_walked(const struct spa *spa);
void spa_scan_slice(struct spa *spa, const struct tx *tx);
int spa_scan_sync(struct spa *spa, struct tx *tx, bool walked);
bool spa_scan_busy(void *spa);

/* upkeep.c */
int spa_upkeep_open(struct spa *spa); /* reads what is under way; -ENOMEM */
void spa_upkeep_free(struct spa *spa);
/* The work goes on while the pool is open for writing; stop waits until nobody is at it. */
void spa_upkeep_start(struct spa *spa);
void spa_upkeep_stop(struct spa *spa);
int spa_upkeep_sync(struct spa *spa, struct tx *tx);
bool spa_upkeep_wanted(struct spa *spa); /* a txg, for it has something to note */

/* logmap.c */
int spa_logmap_open(struct spa *spa);
int spa_logmap_flush(struct spa *spa, struct tx *tx);
void spa_logmap_close(struct spa *spa);
struct rangeset *spa_logmap_set(struct spa *spa, const struct metaslab *m, bool is_free);

/* vdevzap.c */
int spa_vdev_zaps_create(struct spa *spa, struct tx *tx);
/* For a top-level vdev and its leaves, or for a leaf, that join the pool; and back for a leaf that leaves. */
int spa_vdev_zaps_add(struct spa *spa, struct vdev *v, struct tx *tx);
int spa_vdev_zap_free(struct spa *spa, struct vdev *leaf, struct tx *tx);

/* vdevload.c */
int spa_mappings_load(struct spa *spa);
int spa_vdevs_load(struct spa *spa);
/* The class by the ZAP of a top-level vdev; unchanged if that does not tell. */
int spa_class_read(struct spa *spa, uint64_t zap_top, enum vdev_class *class);

/* aux.c: spares and cache devices. config: the scan's, which knows where devices are. */
void spa_aux_load(struct spa *spa, const struct nvlist *config);
/* Into a configuration: {spares: [...], l2cache: [...]}, as far as there are any. */
int spa_aux_config(struct spa *spa, struct nvlist *config);
/* Adds them to the list of the root as {name, type, guid, path, state, why, psize}. */
int spa_aux_list(struct spa *spa, struct nvlist *root);

/* bplist.c */
int spa_bplist_drain(struct spa *spa, struct tx *tx);

/* history.c */
int spa_history_create(struct spa *spa, struct tx *tx);
int spa_history_log(struct spa *spa, const struct nvlist *record, bool command, struct tx *tx);
/* "create", "open", "import": with the versions of pool and program. */
void spa_history_version(struct spa *spa, const char *event, struct tx *tx);
void spa_history_event(void *arg, const char *event, const char *dsname, uint64_t dsobj, const char *text,
                       struct tx *tx);

/* props.c */
int spa_props_write(struct spa *spa, const char *name, const char *value, struct tx *tx);
int spa_props_check(struct spa *spa, const char *name, const char *value);
/* Hands on what the layers below have to know of pool properties. */
void spa_props_apply(struct spa *spa);

/* zilcheck.c */
int spa_check_intent_logs(struct spa *spa);

/* create.c */
int spa_create_mos(struct spa *spa, struct tx *tx);

/* commit.c */
int spa_choose_uberblock(struct spa *spa, uint64_t max_txg);

/* spa.c */
int spa_start(struct spa *spa, uint64_t synced);
struct spa *spa_new(const struct env *env);
void spa_free(struct spa *spa);
void spa_load_features(struct spa *spa);

#endif
