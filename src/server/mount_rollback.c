/*
 * Rolling back under a mount: requests wait while the object set is replaced; then the kernel is
 * told what has changed, so that the old tree is seen by the time the command returns.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dsl/dataset.h"
#include "fs/fs.h"
#include "fuse/fuse.h"
#include "server/mounts_impl.h"
#include "server/server_impl.h"
#include "util/err.h"
#include "util/log.h"

/* Lock held. A file system that cannot be read any more is taken away. */
static int roll_back_mounted(struct mount *m, const char *snapshot)
{
    struct fs_before *before;
    char why[512];
    fuse_mount_flush(m->fuse);
    fuse_mount_pause(m->fuse);
    int rc = fs_reload_begin(m->fs, &before), end = 0;
    if (rc == 0) {
        rc = dataset_rollback(dataset_dsl(m->ds), snapshot);
        snprintf(why, sizeof why, "%s", err_text(rc));
        end = fs_reload_end(m->fs, before, rc == 0);
    }
    fuse_mount_continue(m->fuse);
    if (rc == 0) {
        fuse_mount_invalidate_names(m->fuse);
        fuse_mount_invalidate_wait(m->fuse);
    }
    if (end != 0) {
        log_error("%s: cannot be read after the rollback: %s", m->target, err_text(end));
        fuse_mount_unmount(m->fuse, true);
        m->gone = true;
        server_wake(m->server);
        return end;
    }
    return rc ? err_set(-rc, "%s", why) : 0;
}

int mounts_rollback(struct server *s, const char *snapshot)
{
    char head[DATASET_NAME_MAX];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(snapshot, "@"), snapshot);
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_find(s, head);
    int rc = m ? roll_back_mounted(m, snapshot) : dataset_rollback(spa_dsl(s->spa), snapshot);
    pthread_mutex_unlock(&s->lock);
    return rc;
}
