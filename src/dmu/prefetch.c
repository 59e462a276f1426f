/*
 * Reading ahead. A dnode remembers a few streams of sequential reads. The second read in sequence
 * starts one, each further one doubles how far ahead it reads, up to AHEAD_MAX bytes. What a stream
 * has left behind is of no more use than what was written (cache_passed).
 */
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"

#define STREAMS   4
#define AHEAD_MAX (8u << 20)
#define AHEAD_MIN_BLOCKS 4
#define AT_ONCE_SHARE 4          /* of the distance, one part in so many is asked for at once, at least */
#define BEHIND_BYTES (1u << 20) /* reads of one stream overtake each other by less */

struct stream {
    uint64_t next;     /* block expected to be read next */
    uint64_t ahead;    /* first block not yet asked for */
    uint64_t behind;   /* first block not yet left behind */
    uint64_t distance; /* blocks */
    uint64_t used;     /* clock */
};

struct prefetch {
    struct stream streams[STREAMS]; /* dnode lock */
    uint64_t clock;
};

void prefetch_free(struct prefetch *p)
{
    free(p);
}

static struct stream *find_stream(struct prefetch *p, uint64_t first)
{
    struct stream *oldest = &p->streams[0];

    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &p->streams[i];
        if (s->used && (s->next == first || s->next == first + 1))
            return s;
        if (s->used < oldest->used)
            oldest = s;
    }
    *oldest = (struct stream){.next = first, .ahead = first, .behind = first};
    return oldest;
}

/* With the lock: the blocks that the stream has left behind. */
static void leave_behind(struct dnode *dn, struct stream *s)
{
    uint64_t lag = BEHIND_BYTES / dn->block_size + 1;

    for (; s->behind + lag < s->next; s->behind++) {
        struct dbuf *db = dbuf_find(dn, 0, s->behind);
        if (db && db->state == DBUF_CACHED && !db->dirty)
            cache_passed(dn->os->cache, &db->item);
    }
}

/* With the lock: notes the read; the blocks to read ahead are [*from, *to). */
static void advance(struct dnode *dn, uint64_t first, uint64_t last, uint64_t *from, uint64_t *to)
{
    struct prefetch *p = dn->prefetch;
    uint64_t most = MAX(MIN((uint64_t)AHEAD_MAX, cache_limit(dn->os->cache) / 16) / dn->block_size,
                        1ull);
    struct stream *s = find_stream(p, first);
    bool fresh = s->used == 0;

    s->used = ++p->clock;
    *from = *to = 0;
    if (last + 1 <= s->next && !fresh)
        return;
    s->next = last + 1;
    if (fresh)
        return;
    leave_behind(dn, s);
    s->distance = MIN(MAX(s->distance * 2, (uint64_t)AHEAD_MIN_BLOCKS), most);
    *from = MAX(s->ahead, last + 1);
    *to = MIN(last + 1 + s->distance, dn->max_blkid + 1);
    if (*to <= dn->max_blkid && *to - MIN(*from, *to) < s->distance / AT_ONCE_SHARE)
        *to = *from;
}

/* Is the block's parent in memory? If not, it is asked for. */
static bool parent_ready(struct dnode *dn, uint64_t blkid)
{
    bool ready;
    uint64_t parent;

    {
        struct dbuf *db;
        MUTEX_GUARD(&dn->lock);
        parent = blkid >> dnode_epbs(dn);
        if (dn->image[DN_LEVELS] == 1)
            return true;
        db = dbuf_find(dn, 1, parent);
        ready = db && (db->state == DBUF_CACHED || db->state == DBUF_HOLE);
    }
    if (!ready)
        dbuf_prefetch(dn, 1, parent);
    return ready;
}

/* Returns how far it came. */
static uint64_t read_ahead(struct dnode *dn, uint64_t from, uint64_t to)
{
    while (from < to && parent_ready(dn, from))
        dbuf_prefetch(dn, 0, from++);
    return from;
}

void prefetch_read(struct dnode *dn, uint64_t first, uint64_t last)
{
    uint64_t from, to, done;

    if (first == 0)
        neighbours_read(dn);
    {
        MUTEX_GUARD(&dn->lock);
        if (dn->max_blkid == 0 || first > dn->max_blkid)
            return;
        if (!dn->prefetch && !(dn->prefetch = calloc(1, sizeof *dn->prefetch)))
            return;
        advance(dn, first, MIN(last, dn->max_blkid), &from, &to);
    }
    if (from >= to)
        return;
    done = read_ahead(dn, from, to);
    MUTEX_GUARD(&dn->lock);
    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &dn->prefetch->streams[i];
        if (s->next == last + 1)
            s->ahead = MAX(s->ahead, done);
    }
}

bool dnode_block_absent(struct dnode *dn, uint64_t blkid)
{
    MUTEX_GUARD(&dn->lock);
    struct dbuf *db = dbuf_find(dn, 0, blkid);

    return !dn->gone && (!db || db->state == DBUF_EMPTY);
}

void dnode_prefetch(struct dnode *dn, uint64_t off, uint64_t n)
{
    uint64_t from, to;

    {
        MUTEX_GUARD(&dn->lock);
        if (n == 0 || dn->gone)
            return;
        n = MIN(n, (uint64_t)4 * AHEAD_MAX);
        from = off / dn->block_size;
        to = MIN((off + n - 1) / dn->block_size, dn->max_blkid) + 1;
    }
    read_ahead(dn, from, to);
}
