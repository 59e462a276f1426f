/*
 * Datasets: file systems, volumes, snapshots by name (spec 04 1-3, 8, 9).
 */
#ifndef DSL_DATASET_H
#define DSL_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dmu/objset.h"

struct dataset;
struct dsl;
struct nvlist;
struct tx;

#define DATASET_NAME_MAX 256 /* with NUL */

/* Full names: "pool", "pool/fs", "pool/fs@snap". -ENOENT, -EINVAL (with the offending character in the
 * sentence), -ENAMETOOLONG. */
int dataset_name_check(const char *name);

/* Holds a dataset. It stays open (its objset too, once asked for) until the last release. If it is
 * destroyed meanwhile (nobody owning it), what is asked of it gives -ENOENT. */
int dataset_hold(struct dsl *dsl, const char *name, struct dataset **out);
int dataset_hold_object(struct dsl *dsl, uint64_t object, struct dataset **out);
void dataset_rele(struct dataset *ds);
void dataset_name(const struct dataset *ds, char out[DATASET_NAME_MAX]); /* as it is now */
struct dsl *dataset_dsl(const struct dataset *ds);
bool dataset_is_snapshot(const struct dataset *ds);

/* An owner (a mount, a volume, a receive) excludes other owners and destruction: -EBUSY. */
int dataset_own(struct dataset *ds, const void *who);
void dataset_disown(struct dataset *ds, const void *who);
/* Somebody reads it for long: excludes destruction only, any number of times. -ENOENT: it is gone. */
int dataset_pin(struct dataset *ds);
void dataset_unpin(struct dataset *ds);

/* The object set, opened on first use; it belongs to the dataset. Writes go through dataset_tx_begin. */
int dataset_objset(struct dataset *ds, struct objset **out);
/* The same for what is not encrypted in it: without its key, *temporary is a set of its own that the
 * caller closes; else it is NULL. */
int dataset_objset_plain(struct dataset *ds, struct objset **out, struct objset **temporary);
enum objset_type dataset_type(struct dataset *ds); /* OBJSET_ZPL, OBJSET_ZVOL; NONE on error */

/* objset_walk() over a snapshot's blocks born after a txg. */
int dataset_walk(struct dataset *snap, uint64_t since, objset_walk_fn *fn, void *arg);

/* ---- Space-checked transactions (04 8.4, 05 9) ---- */

enum dataset_tx_kind {
    DATASET_TX_WRITE,   /* normal: quotas and slop apply: -EDQUOT, -ENOSPC */
    DATASET_TX_FREE,    /* nets free space (unlink, truncate): half the slop, no quotas */
    DATASET_TX_MUST     /* may not fail for space: clean-up */
};
/* bytes: worst case of what will be dirtied, uncompressed. Waits and retries by itself while frees are in
 * flight that will make room. Must be called without locks (pool/txg.h). */
int dataset_tx_begin(struct dataset *ds, enum dataset_tx_kind kind, uint64_t bytes, struct tx *tx);
void dataset_tx_end(struct tx *tx);

/* ---- Numbers ---- */

struct dataset_stats {
    char name[DATASET_NAME_MAX], origin[DATASET_NAME_MAX]; /* origin "" if no clone */
    uint64_t object, guid, fsid_guid, creation_time, creation_txg;
    bool snapshot, inconsistent;
    enum objset_type type;
    uint64_t referenced, compressed, uncompressed, unique;
    /* file systems and volumes: */
    uint64_t used, available, logical_used, dir_compressed;
    uint64_t used_by_snapshots, used_by_dataset, used_by_children, used_by_refreservation;
    uint64_t quota, reservation, refquota, refreservation, written;
    uint64_t user_refs, num_clones; /* snapshots */
};
int dataset_stats(struct dataset *ds, struct dataset_stats *out);
/* The property written@... (04 8.5): what of ds was written since "@snap" or "#mark" of its own file system, or
 * since one with its full name. -ENOENT: there is none that is older and in its history. */
int dataset_written_since(struct dataset *ds, const char *name, uint64_t *bytes);
/* For statfs: referenced bytes, bytes available to it, objects used. Cheap. */
void dataset_space(struct dataset *ds, uint64_t *referenced, uint64_t *available, uint64_t *objects);

/* Calls fn for the dataset and, to the given depth (-1: all), its descendants in name order; with
 * snapshots in creation order after their file system. Stops at the first non-zero result. */
typedef int dataset_each_fn(void *arg, struct dataset *ds);
int dataset_each(struct dsl *dsl, const char *name, int depth, bool snapshots, dataset_each_fn *fn,
                 void *arg);

/* Calls fn for the name (behind the '@') of each snapshot of a file system or volume until it returns
 * non-zero. Reads the blocks of the map of names, each once, and nothing else: txg is 0, the order any. When
 * ordered, also the txgs of their creation, and they come in that order. */
typedef int dataset_name_fn(void *arg, const char *name, uint64_t txg);
int dataset_each_snapshot_name(struct dataset *head, bool ordered, dataset_name_fn *fn, void *arg);

/* ---- Operations (each is a task; see dsl.h) ---- */

/* props: nvlist of properties to set as local values (strings or uint64, already encoded by dsl/props.h);
 * may be NULL. uid and gid own the root directory. */
int dataset_create(struct dsl *dsl, const char *name, const struct nvlist *props, uint32_t uid,
                   uint32_t gid);
int dataset_destroy(struct dsl *dsl, const char *name); /* -EBUSY owned, -EEXIST has children */
/* All or none; props (may be NULL) as for dataset_create(), user properties only. Limits of their number
 * bind all but uid 0, who might change them: here and wherever a uid is given. */
int dataset_snapshot(struct dsl *dsl, const char *const *names, size_t n, const struct nvlist *props,
                     uint32_t uid);
/* One that goes when the tag is removed (dataset_userref_remove), or when the pool is opened for writing
 * again: what a crash leaves is cleaned up. */
int dataset_snapshot_temporary(struct dsl *dsl, const char *name, const char *tag);
/* Makes a file system or volume of a snapshot; props as for dataset_create(); uid is who makes it. */
int dataset_clone(struct dsl *dsl, const char *origin, const char *name, const struct nvlist *props,
                  uint32_t uid);
int dataset_promote(struct dsl *dsl, const char *name, uint32_t uid);
/* Of a file system or volume with all that is below it. */
int dataset_rename(struct dsl *dsl, const char *from, const char *to, uint32_t uid);
/* fs@from becomes fs@to, in fs and (recursive) in all descendants that have it. */
int dataset_snapshot_rename(struct dsl *dsl, const char *fs, const char *from, const char *to,
                            bool recursive);
/* The head becomes what its newest snapshot is; -EEXIST: there is a newer snapshot or bookmark. Nothing
 * may be writing to it: -EBUSY after many txgs. Dnodes held in its object set are stale afterwards. */
int dataset_rollback(struct dsl *dsl, const char *snapshot);
/* All or none. -EEXIST: it has clones, -EBUSY: it is held or in use; defer: such ones go with the last of
 * their holds and clones. */
int dataset_snapshot_destroy(struct dsl *dsl, const char *const *names, size_t n, bool defer);
/* Is one of them held by a tag? -EBUSY then, with the sentence of dataset_snapshot_destroy(). */
int dataset_snapshot_held(struct dsl *dsl, const char *const *names, size_t n);
/* The bytes that destroying snapshots gives back; those of a file system from the oldest on. */
int dataset_snapshot_space(struct dsl *dsl, const char *const *names, size_t n, uint64_t *bytes);

/* ---- Holds: tags that keep snapshots from being destroyed (04 13) ---- */

/* All or none. -EEXIST: a snapshot has the tag already. The sentence has a line for each refused one. */
int dataset_userref_add(struct dsl *dsl, const char *const *names, size_t n, const char *tag);
/* -ESRCH: it has not. A deferred snapshot may be destroyed by it; -EBUSY: but somebody is in it. */
int dataset_userref_remove(struct dsl *dsl, const char *const *names, size_t n, const char *tag);
/* Calls fn for each tag, with the time it was set (seconds), until it returns non-zero. */
typedef int dataset_userref_fn(void *arg, const char *tag, uint64_t when);
int dataset_userref_each(struct dataset *snap, dataset_userref_fn *fn, void *arg);

#endif
