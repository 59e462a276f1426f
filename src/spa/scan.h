/*
 * Scrub and resilver: the walk over all blocks of a live pool that reads everything they are stored as, and
 * mends it (spec 05 18.2, 02 17). Its state is in the MOS (directory entry "scan") and is written in the
 * txg in which it changed: after a crash, or an import anywhere, the walk goes on where it was. docs/redundancy.md.
 *
 * It runs in the sync of each txg, for a share of the time, on the tree of the txg before: nothing of
 * that tree can be given to anybody else until the txg is committed.
 */
#ifndef SPA_SCAN_H
#define SPA_SCAN_H

#include <stdbool.h>
#include <stdint.h>

struct spa;
struct tx;
struct vdev;

/* The numbers are those on disk. */
enum spa_scan_kind { SPA_SCAN_NONE, SPA_SCAN_SCRUB, SPA_SCAN_RESILVER };
enum spa_scan_state { SPA_SCAN_IDLE, SPA_SCAN_ACTIVE, SPA_SCAN_FINISHED, SPA_SCAN_CANCELED };

/*
 * A scrub of everything, or (if a device lacks something) a resilver. A paused scrub goes on. Returns when
 * it has been started. -EBUSY: one is running already (the sentence says which; -EALREADY: a scrub was asked for
 * and one is running), -ENOENT: a resilver was asked for, and no device lacks anything; -EROFS.
 */
int spa_scan_start(struct spa *spa, enum spa_scan_kind kind);
/* Stops or goes on with a scrub. -ENOENT: none is active; -EBUSY: a resilver is; -EALREADY: is so already. */
int spa_scan_pause(struct spa *spa, bool pause);
/* Ends a scrub for good. -ENOENT: none is active; -EBUSY: a resilver is running, which cannot be stopped. */
int spa_scan_stop(struct spa *spa);

/*
 * A device lacks something that it could be given now: it came back, was attached, replaces another. From
 * any thread, also in a txg's sync; costs nothing. The next txg starts a resilver, in place of a scrub if there is
 * one, or starts it anew if what is lacking lies outside the txgs of the one that runs. Nothing lacks anything: no
 * effect. The set of the device (vdev_missed) must be there before.
 */
void spa_resilver_request(struct spa *spa);

/*
 * The other direction, implemented by whoever changes the vdev tree (spa/vdevs.c): called in the sync of
 * the txg in which a resilver has ended, after the sets of missed txgs were cut, before they and the
 * configuration are written. Detaches what has been replaced, if the new device lacks nothing any more
 * (vdev_dtl_bounds). Also called when a resilver ended with damage that it could not mend: devices
 * that still lack something are to be left as they are. The tree must not be changed by others in the sync thread
 * at other times while a scan is active, but in tasks (dsl_task). An error fails the txg.
 */
int spa_vdev_resilver_done(struct spa *spa, struct tx *tx);

/* Is a resilver active that gives this leaf what it lacks? ("(resilvering)" in zpool status.) */
bool spa_scan_resilvering(struct spa *spa, struct vdev *leaf);

struct spa_scan_stats {
    enum spa_scan_kind kind;    /* NONE: there never was one */
    enum spa_scan_state state;
    uint64_t start, end;        /* seconds since 1970; end 0 while active */
    uint64_t pause;             /* when it was paused, 0: it is not */
    uint64_t paused_seconds;    /* in all, in this process */
    uint64_t to_examine, examined, skipped, issued; /* bytes on the devices */
    uint64_t repaired;          /* bytes given to devices */
    uint64_t errors;
    /* Since the pool was imported or the scan went on, for rates: */
    uint64_t pass_start, pass_examined, pass_issued;
};
void spa_scan_stats(struct spa *spa, struct spa_scan_stats *out);
/* Waits until no such scan is active and not paused (kind NONE: of no kind), or until seconds have passed
 * (0: for ever). -ETIMEDOUT; -EIO: the pool is suspended. */
int spa_scan_wait(struct spa *spa, enum spa_scan_kind kind, unsigned seconds);

#endif
