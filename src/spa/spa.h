/*
 * The live pool: creating, importing, exporting, the sync of each txg from the first dirty dataset to the
 * uberblock, and what the MOS says about the pool as a whole (configuration, space maps, history,
 * pool properties). Spec 01, 05 10-11.
 *
 * One struct spa per open pool; everything a front end needs is reached from it.
 */
#ifndef SPA_SPA_H
#define SPA_SPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsl/feature.h"
#include "util/env.h"

struct dsl;
struct nvlist;
struct objset;
struct pool;
struct spa;

/* What a feature gets at creation. */
enum spa_feature_choice { SPA_FEATURE_DEFAULT, SPA_FEATURE_ON, SPA_FEATURE_OFF };

/* A top-level vdev: takes the next n paths. */
struct spa_create_group {
    const char *type;              /* "mirror", "raidz1" to "raidz3"; NULL: each path by itself */
    size_t n;
};

struct spa_create_args {
    const char *name;
    const char *const *paths;      /* files and disks */
    size_t npaths;
    const struct spa_create_group *groups; /* NULL: each path is a top-level vdev */
    size_t ngroups;
    unsigned ashift;               /* 0 = by the device */
    bool force;                    /* devices that look in use but are not active */
    bool no_features;              /* -d: start from none */
    enum spa_feature_choice feature[FEATURE_COUNT];
    const struct nvlist *pool_props; /* name -> string as given; may be NULL */
    const struct nvlist *fs_props;   /* of the root dataset: name -> string as given; may be NULL */
    uint32_t uid, gid;             /* own the root directory */
    const char *command;           /* for the history, NULL = none */
    const struct env *env;         /* NULL = the system's */
};
/* Checks everything first; on error nothing has been written unless the sentence says so. With
 * dry_run only the checks are made and *config (may be NULL) gets the tree that would be used. */
int spa_create(const struct spa_create_args *args, bool dry_run, struct nvlist **config,
               struct spa **out);

struct spa_open_args {
    const struct nvlist *config;   /* from vdev/scan.h: the assembled root configuration */
    const char *new_name;          /* NULL = its own */
    bool readonly;
    bool force;                    /* another host's, or not exported */
    uint64_t max_txg;              /* 0 = newest; else rewind (read-only in this version) */
    bool checkpoint;               /* as it was when the checkpoint was taken (read-only) */
    bool in_memory;                /* with readonly: datasets can be changed (a log replayed) in memory;
                                      nothing is ever written */
    size_t cache_limit;            /* bytes, at most; 0 = the pool's own choice */
    const struct env *env;
};
/* Opens (imports) a pool. If it cannot be kept right when written, and the caller did not ask for
 * readonly: -EROFS with the reason; open again with readonly. Other errors: -ENOENT, -ENXIO (devices
 * missing), -EBUSY (in use: the sentence names the holder), -ENOTSUP (features), -EBADE/-EIO (damage),
 * -EEXIST (active on another host). */
int spa_open(const struct spa_open_args *args, struct spa **out);
/* The pool's own configuration, read from what devices there are: it knows those that no label was
 * found of. config as in spa_open_args. With its lists of spares and cache devices (spares, l2cache),
 * and in each top-level vdev its class: normal, log, special or dedup. */
#define SPA_KEY_CLASS "tarn:class"
int spa_peek(const struct nvlist *config, struct nvlist **out);
/* The configuration as a MOS has it, and its object unless object is NULL. */
int spa_config_read(struct objset *mos, struct nvlist **out, uint64_t *object);

/* Ends it. EXPORT and DESTROY sync, write the state into config and labels and fail if datasets are
 * still held (-EBUSY, the pool stays open). DROP just syncs and lets go (the pool stays "active" on
 * disk); it cannot fail. A suspended pool can only be dropped. */
enum spa_end { SPA_END_EXPORT, SPA_END_DESTROY, SPA_END_DROP };
int spa_close(struct spa *spa, enum spa_end how);

struct pool *spa_pool(struct spa *spa);
struct dsl *spa_dsl(struct spa *spa);
const char *spa_name(const struct spa *spa);
bool spa_readonly(const struct spa *spa);
int spa_sync_now(struct spa *spa);             /* zpool sync: durable when it returns */

/* The host id that is written into pools; 0 if this host has none. */
uint32_t spa_host_id(void);

/* ---- State and numbers ---- */

struct spa_stats {
    uint64_t guid, size, alloc, free, dspace;  /* bytes; size/alloc/free raw as zpool list */
    uint64_t freeing;                          /* $FREE: bytes still to be freed */
    uint64_t txg;                              /* last synced */
    uint64_t time;                             /* of its uberblock, seconds since 1970 */
    unsigned fragmentation;                    /* percent or ~0u */
    bool suspended;
    uint64_t version;
    char hostname[256];
};
void spa_stats(struct spa *spa, struct spa_stats *out);
/* The vdev tree as a list for status and iostat: per vdev name, type, state, counters, sizes
 * ({name, type, guid, state, why, read_errors, write_errors, checksum_errors, size, alloc, frag,
 * children: [...]}). Caller frees. */
int spa_vdev_list(struct spa *spa, struct nvlist **out);
/* Changes of the pool's shape, under way or the last ones, and its checkpoint, as far as there are any:
 * {removal: {name, state, vdev, start, end, to_copy, copied, mapping_memory}, expansion: {name, state,
 * vdev, start, end, to_copy, copied}, checkpoint: {start, space}}; states none, scanning, finished,
 * canceled; times in seconds since 1970, the rest in bytes. Caller frees. */
int spa_shape_list(struct spa *spa, struct nvlist **out);
/* What a metaslab's space map, with the logs, says is allocated, added to a set (empty on entry). For
 * checking. -EBADE, -EIO, -ENOMEM. */
struct metaslab;
struct rangeset;
int spa_metaslab_allocated(struct spa *spa, struct metaslab *m, struct rangeset *allocated);
/* The MOS configuration as it would be written now. */
int spa_config(struct spa *spa, struct nvlist **out);

/* ---- Pool properties (01 16 and the computed ones) ---- */

/* Text of a property ("size", "feature@x", "comment", ...) and its source ("-", "default", "local");
 * -ENOENT: no such property. exact: plain numbers. */
int spa_prop_get(struct spa *spa, const char *name, bool exact, char *value, size_t cap, char source[16]);
const char *const *spa_prop_names(size_t *n);  /* in zpool get all's order, features last */
/* The user properties that are set; stops at the first non-zero result. */
int spa_prop_user_each(struct spa *spa, int (*fn)(void *arg, const char *name), void *arg);
int spa_prop_set(struct spa *spa, const char *name, const char *value);
/* Whether a value could be set, without a pool (before one is created or imported). */
int spa_prop_check(const char *name, const char *value);

/* ---- History (01 18) ---- */

int spa_history_command(struct spa *spa, const char *command, uint32_t uid);
/* The same, with what else is to be noted in that txg: calls that were answered (name/value lists that lack
 * time and host), before the command (NULL: none). */
int spa_history_commands(struct spa *spa, struct nvlist *const *calls, size_t n, const char *command,
                         uint32_t uid);
/* The same for the command that imported the pool, behind the events of opening it. */
int spa_history_import(struct spa *spa, const char *command, uint32_t uid);
/* Calls fn for every record, oldest first. */
typedef int spa_history_fn(void *arg, const struct nvlist *record);
int spa_history_each(struct spa *spa, spa_history_fn *fn, void *arg);

#endif
