/*
 * The reaper frees files that have neither a name nor a reference (spec 06 8.3) and writes access
 * times of files that leave memory. It is a thread that starts when there is work and ends when
 * there has been none for a while: a thousand idle file systems have none. What it does not get to
 * stays in the delete queue on disk for the next mount.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "fs/fs_impl.h"
#include "pool/pool.h"
#include "pool/txg.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/log.h"
#include "util/threads.h"

#define LINGER_SECONDS 2
#define GATHER_MS      4    /* after work: what comes meanwhile wakes nobody */
#define GATHER_MOST    1024 /* files; so many do */
#define QUEUE_MAX      4096        /* more, and those who unlink wait */
#define FREE_BLOCKS    (64u << 10) /* data blocks freed in one transaction */
#define FREED_MEMORY   64          /* bytes that the txg needs for each freed block at most */

void reaper_init(struct reaper *r)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->work, &attr);
    pthread_cond_init(&r->done, NULL);
    pthread_condattr_destroy(&attr);
}

/* ---- Freeing one object ---- */

/* Freeing counts as dirty data, so that a txg does not free more than there is memory to note. */
static void count_freed(struct fs *fs, struct tx *tx, uint64_t blocks)
{
    txg_dirty_add(fs->pool->txg, tx->txg, (int64_t)(blocks * FREED_MEMORY));
}

/* Contents in pieces, so that no transaction gets too big. */
static int free_data(struct znode *zn)
{
    uint64_t bs = dnode_block_size(zn->dn), off = 0;
    if (dnode_max_blkid(zn->dn) < FREE_BLOCKS)
        return 0; /* goes with the object */
    for (;;) {
        struct fs_tx t CLEANUP_TX = {0};
        int rc = dnode_seek(zn->dn, &off, false);
        if (rc < 0)
            return rc == -ENXIO ? 0 : rc;
        rc = fs_tx_begin(zn->fs, DATASET_TX_MUST, COST_WRITE, &t);
        if (rc == 0)
            rc = dnode_free_range(zn->dn, off, FREE_BLOCKS * bs, &t.tx);
        if (rc < 0)
            return rc;
        count_freed(zn->fs, &t.tx, FREE_BLOCKS);
        off += FREE_BLOCKS * bs;
    }
}

/* The files in a hidden directory of attributes lose their names; each goes through the queue. */
static int empty_xattr_dir(struct znode *dir)
{
    for (;;) {
        struct fs_tx t CLEANUP_TX = {0};
        struct znode *zn CLEANUP_ZN = NULL;
        struct zap_cursor c;
        struct zap_entry e;
        zap_cursor_init(&c, dir->dn, 0);
        int rc = zap_cursor_next(&c, &e);
        if (rc < 0) /* an unreadable one goes as it is (03 13.10) */
            return rc == -ENOENT || rc == -EBADE ? 0 : rc;
        rc = zn_get(dir->fs, e.first & OBJECT_MASK, &zn);
        if (rc < 0 && rc != -ENOENT)
            return rc;
        rc = fs_tx_begin(dir->fs, DATASET_TX_MUST, COST_NAME, &t);
        if (rc == 0)
            rc = zap_remove(dir->dn, e.name, &t.tx);
        if (rc < 0)
            return rc;
        if (zn) {
            struct znode *locked CLEANUP_LOCK = zn_write_lock(zn);
            rc = drop_link(zn, &t.tx);
            if (rc < 0)
                return rc;
        }
    }
}

/* The last transaction: the hidden directory into the queue, the object out of it and away. */
static int free_object(struct znode *zn, struct znode *hidden)
{
    struct fs_tx t CLEANUP_TX = {0};
    int rc = fs_tx_begin(zn->fs, DATASET_TX_MUST, COST_NAME, &t);
    if (rc == 0 && hidden) {
        struct znode *locked CLEANUP_LOCK = zn_write_lock(hidden);
        rc = drop_link(hidden, &t.tx);
    }
    if (rc == 0)
        rc = unlinked_remove(zn->fs, zn->object, &t.tx);
    if (rc == 0)
        rc = object_free(zn->dn, &t.tx);
    if (rc == 0)
        count_freed(zn->fs, &t.tx, MIN(dnode_used(zn->dn) >> 9, (uint64_t)FREE_BLOCKS));
    return rc;
}

static void reap(struct znode *zn)
{
    struct znode *hidden CLEANUP_ZN = NULL;
    int rc = 0;
    if (is_file(zn))
        rc = free_data(zn);
    else if (is_dir(zn) && zn->a.flags & PFLAG_XATTR)
        rc = empty_xattr_dir(zn);
    if (rc == 0 && zn->a.xattr != 0 && zn_get(zn->fs, zn->a.xattr, &hidden) < 0)
        hidden = NULL; /* damaged: its space is lost, the file can still go */
    if (rc == 0)
        rc = free_object(zn, hidden);
    if (rc < 0)
        log_warn("object %llu of a file system could not be freed: error %d",
                 (unsigned long long)zn->object, -rc);
    zn_destroy_dying(zn);
}

static void handle(struct znode *zn)
{
    if (zn->state == ZNODE_DYING || zn->state == ZNODE_GONE) {
        reap(zn);
        return;
    }
    zn_flush_atime(zn);
    pthread_mutex_lock(&zn->attr_lock);
    zn->atime_dirty = false; /* written, or lost with the pool */
    pthread_mutex_unlock(&zn->attr_lock);
    zn_put(zn);
}

/* ---- The thread ---- */

static struct znode *take(struct reaper *r)
{
    struct znode *zn = r->first;
    r->first = zn->next;
    if (!r->first)
        r->last = NULL;
    zn->next = NULL;
    r->queued--;
    return zn;
}

static struct timespec in_ms(uint64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + ms * 1000000;
    return (struct timespec){t.tv_sec + (time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* Files go in crowds (rm -r), and waking us for each would cost its remover more than the removing. */
static void gather(struct reaper *r)
{
    struct timespec until = in_ms(GATHER_MS);
    r->gathering = true;
    while (!r->stop && r->hurry == 0 && r->queued < GATHER_MOST)
        if (pthread_cond_timedwait(&r->work, &r->lock, &until) == ETIMEDOUT)
            break;
    r->gathering = false;
}

/* False: nothing came for a while, or it is time to stop. */
static bool wait_for_work(struct reaper *r)
{
    struct timespec until = in_ms(LINGER_SECONDS * 1000);
    while (!r->first && !r->stop)
        if (pthread_cond_timedwait(&r->work, &r->lock, &until) == ETIMEDOUT)
            break;
    return r->first != NULL;
}

static void *run(void *arg)
{
    struct fs *fs = arg;
    struct reaper *r = &fs->reaper;
    pthread_mutex_lock(&r->lock);
    while (wait_for_work(r)) {
        struct znode *zn = take(r);
        r->busy = true;
        pthread_mutex_unlock(&r->lock);
        handle(zn);
        pthread_mutex_lock(&r->lock);
        r->busy = false;
        if (r->queued % 256 == 0)
            pthread_cond_broadcast(&r->done);
        if (!r->first)
            gather(r);
    }
    r->running = false;
    pthread_cond_broadcast(&r->done);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* With the lock held. */
static void start(struct fs *fs)
{
    struct reaper *r = &fs->reaper;
    if (r->running || r->stop)
        return;
    if (r->joinable)
        pthread_join(r->thread, NULL); /* it has ended or is about to */
    r->running = r->joinable = thread_start(&r->thread, "tarn-reap", run, fs) == 0;
}

void reaper_push(struct znode *zn)
{
    struct reaper *r = &zn->fs->reaper;
    pthread_mutex_lock(&r->lock);
    zn->next = NULL;
    if (r->last)
        r->last->next = zn;
    else
        r->first = zn;
    r->last = zn;
    r->queued++;
    start(zn->fs); /* if that fails the next one, or reaper_stop, takes care of it */
    if (!r->gathering || r->queued >= GATHER_MOST)
        pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

void reaper_throttle(struct fs *fs)
{
    struct reaper *r = &fs->reaper;
    pthread_mutex_lock(&r->lock);
    while (r->running && r->queued > QUEUE_MAX)
        pthread_cond_wait(&r->done, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void reaper_wait(struct fs *fs)
{
    struct reaper *r = &fs->reaper;
    pthread_mutex_lock(&r->lock);
    r->hurry++;
    pthread_cond_signal(&r->work);
    while (r->running && (r->first || r->busy))
        pthread_cond_wait(&r->done, &r->lock);
    r->hurry--;
    pthread_mutex_unlock(&r->lock);
}

void reaper_stop(struct fs *fs)
{
    struct reaper *r = &fs->reaper;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->work);
    while (r->running)
        pthread_cond_wait(&r->done, &r->lock);
    if (r->joinable)
        pthread_join(r->thread, NULL);
    r->joinable = false;
    while (r->first) { /* no thread could be had, or the last one handed us more */
        struct znode *zn = take(r);
        pthread_mutex_unlock(&r->lock);
        handle(zn);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

void reaper_again(struct fs *fs)
{
    pthread_mutex_lock(&fs->reaper.lock);
    fs->reaper.stop = false;
    pthread_mutex_unlock(&fs->reaper.lock);
}

/* ---- What is in the queue on disk when the file system is opened ---- */

static int drop_entry(struct fs *fs, uint64_t object)
{
    struct fs_tx t CLEANUP_TX = {0};
    int rc = fs_tx_begin(fs, DATASET_TX_MUST, COST_NAME, &t);
    return rc < 0 ? rc : unlinked_remove(fs, object, &t.tx);
}

void reap_queue_of_disk(struct fs *fs)
{
    struct zap_cursor c;
    struct zap_entry e;
    zap_cursor_init(&c, fs->unlinked_dn, 0);
    while (zap_cursor_next(&c, &e) == 0) {
        struct znode *zn;
        char *end;
        uint64_t object = strtoull(e.name, &end, 16);
        if (*end || object == fs->root)
            continue;
        int rc = zn_get(fs, object, &zn);
        if (rc == 0 && zn->a.links != 0)
            log_warn("object %llu is in the delete queue but has names: left alone",
                     (unsigned long long)object);
        if (rc == 0)
            zn_put(zn); /* that sends it to the reaper */
        else if (rc == -ENOENT)
            drop_entry(fs, object);
    }
}
