#include "dmu/cache_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/pool.h"
#include "pool/txg.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/hashmap.h"

#define DEFAULT_LIMIT (256ull << 20)
#define TRIM_STEPS    64
#define TRIM_WORTH    16 /* one eviction in so many steps */
#define MEASURE_EVERY 256
#define KEEP_SHARE    16 /* of the limit, one part in so many: unused buffers kept */
#define PASSED_BYTES (64ll << 20) /* most that the lists PASSED keep, or: */
#define PASSED_SHARE 8 /* ... of the limit, one part in so many */
#define LEAST_SHARE   2 /* of the limit, one part in so many: what others leave for clean items */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER; /* pool->cache and refs */

static struct cache_shard *shard_of(struct cache *c, const void *it)
{
    return &c->shards[hash_u64((uintptr_t)it >> 4) % CACHE_SHARDS];
}

uint64_t cache_limit(const struct cache *c)
{
    return c->pool->cache_limit ? c->pool->cache_limit : DEFAULT_LIMIT;
}

static struct cache *cache_new(struct pool *pool)
{
    struct cache *c = aligned_alloc(64, sizeof *c);

    if (!c)
        return NULL;
    *c = (struct cache){.pool = pool};
    for (int i = 0; i < CACHE_SHARDS; i++) {
        pthread_mutex_init(&c->shards[i].lock, NULL);
        for (int l = 0; l < CACHE_LISTS; l++)
            c->shards[i].lists[l].prev = c->shards[i].lists[l].next = &c->shards[i].lists[l];
        pthread_mutex_init(&c->waits[i].lock, NULL);
        pthread_cond_init(&c->waits[i].cond, NULL);
    }
    return c;
}

int cache_get(struct pool *pool, struct cache **out)
{
    MUTEX_GUARD(&registry_lock);
    if (!pool->cache)
        pool->cache = cache_new(pool);
    if (!pool->cache)
        return -ENOMEM;
    pool->cache->refs++;
    *out = pool->cache;
    return 0;
}

void cache_put(struct cache *c)
{
    MUTEX_GUARD(&registry_lock);
    if (--c->refs > 0)
        return;
    c->pool->cache = NULL;
    neighbours_stop(c);
    for (int i = 0; i < CACHE_SHARDS; i++) {
        pthread_mutex_destroy(&c->shards[i].lock);
        pthread_mutex_destroy(&c->waits[i].lock);
        pthread_cond_destroy(&c->waits[i].cond);
    }
    free(c);
}

static void unlink_item(struct cache *c, struct cache_shard *s, struct cache_item *it)
{
    if (it->list == CACHE_PASSED)
        atomic_fetch_sub_explicit(&c->passed, it->bytes, memory_order_relaxed);
    it->prev->next = it->next;
    it->next->prev = it->prev;
    s->bytes[it->list] -= it->bytes;
    it->list = CACHE_NONE;
}

static void push_front(struct cache *c, struct cache_shard *s, struct cache_item *it,
                       enum cache_list list)
{
    struct cache_item *head = &s->lists[list];

    if (list == CACHE_PASSED)
        atomic_fetch_add_explicit(&c->passed, it->bytes, memory_order_relaxed);
    it->list = list;
    it->prev = head;
    it->next = head->next;
    head->next->prev = it;
    head->next = it;
    s->bytes[list] += it->bytes;
}

void cache_insert(struct cache *c, struct cache_item *it, enum cache_list list, uint32_t bytes)
{
    struct cache_shard *s = shard_of(c, it);

    it->bytes = bytes;
    atomic_fetch_add_explicit(&c->total, bytes, memory_order_relaxed);
    MUTEX_GUARD(&s->lock);
    push_front(c, s, it, list);
}

void cache_resize(struct cache *c, struct cache_item *it, uint32_t bytes)
{
    struct cache_shard *s = shard_of(c, it);
    int64_t delta;

    {
        MUTEX_GUARD(&s->lock);
        if (it->list == CACHE_NONE) /* going, or one that is never evicted */
            return;
        delta = (int64_t)bytes - it->bytes;
        it->bytes = bytes;
        s->bytes[it->list] += delta;
        if (it->list == CACHE_PASSED)
            atomic_fetch_add_explicit(&c->passed, delta, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&c->total, delta, memory_order_relaxed);
    if (delta > 0)
        atomic_fetch_add_explicit(&c->inserted, (uint64_t)delta, memory_order_relaxed);
}

void cache_passed(struct cache *c, struct cache_item *it)
{
    struct cache_shard *s = shard_of(c, it);

    MUTEX_GUARD(&s->lock);
    if (it->list != CACHE_SMALL || atomic_load_explicit(&it->uses, memory_order_relaxed) > 1)
        return;
    unlink_item(c, s, it);
    push_front(c, s, it, CACHE_PASSED);
}

void cache_remove(struct cache *c, struct cache_item *it)
{
    struct cache_shard *s = shard_of(c, it);

    MUTEX_GUARD(&s->lock);
    atomic_fetch_sub_explicit(&c->total, it->bytes, memory_order_relaxed);
    unlink_item(c, s, it);
}

static bool detach(struct cache_item *it)
{
    return it->kind == CACHE_DBUF ? dbuf_try_detach(it) : dnode_try_detach(it);
}

static void dispose(struct cache_item *it)
{
    if (it->kind == CACHE_DBUF)
        dbuf_dispose(it);
    else
        dnode_dispose(it);
}

static bool over_limit(const struct cache *c)
{
    int64_t limit = (int64_t)cache_limit(c), fixed, total;

    fixed = atomic_load_explicit(&c->pool->held_bytes, memory_order_relaxed) +
            atomic_load_explicit(&c->gaps, memory_order_relaxed);
    total = atomic_load_explicit(&c->total, memory_order_relaxed) + fixed;
    if (total <= limit)
        return false;
    if (c->pool->txg)
        fixed += (int64_t)txg_dirty_bytes(c->pool->txg);
    return total > fixed + limit / LEAST_SHARE;
}

static bool passed_too_much(const struct cache *c)
{
    int64_t most = MIN(PASSED_BYTES, (int64_t)cache_limit(c) / PASSED_SHARE);

    return atomic_load_explicit(&c->passed, memory_order_relaxed) > most;
}

static bool has_too_much(const struct cache *c)
{
    return passed_too_much(c) || over_limit(c);
}

/* What buffers take without being in use, beyond what comes on top of any limit. */
static void measure_gaps(struct cache *c)
{
    size_t unused = buf_unused_bytes();

    buf_keep(cache_limit(c) / KEEP_SHARE);

    atomic_store_explicit(&c->gaps,
                          unused > BUF_KEEP_BYTES ? (int64_t)(unused - BUF_KEEP_BYTES) : 0,
                          memory_order_relaxed);
}

void cache_retry(struct cache *c)
{
    measure_gaps(c);
    atomic_store_explicit(&c->retry_at, 0, memory_order_relaxed);
}

/* Looks at the oldest item of one list: evicts it (and returns it) or gives it another round; *busy:
 * because it is in use or dirty. */
static struct cache_item *evict_oldest(struct cache *c, struct cache_shard *s, enum cache_list list,
                                       bool *busy)
{
    struct cache_item *it = s->lists[list].prev;
    uint8_t uses = atomic_load_explicit(&it->uses, memory_order_relaxed);
    bool again = list == CACHE_MAIN ? uses > 0 : uses >= 2;

    *busy = !again && !detach(it);
    if (!again && !*busy) {
        unlink_item(c, s, it);
        atomic_fetch_sub_explicit(&c->total, it->bytes, memory_order_relaxed);
        return it;
    }
    unlink_item(c, s, it);
    if (again)
        atomic_store_explicit(&it->uses, list == CACHE_MAIN ? uses - 1 : 0, memory_order_relaxed);
    push_front(c, s, it, again ? CACHE_MAIN : list);
    return NULL;
}

static bool empty(const struct cache_shard *s, enum cache_list list)
{
    return s->lists[list].next == &s->lists[list];
}

/* failed: the list whose oldest was busy at the last step; it may be all dirty. */
static enum cache_list choose_list(const struct cache *c, const struct cache_shard *s,
                                   enum cache_list failed)
{
    bool small = !empty(s, CACHE_SMALL), main = !empty(s, CACHE_MAIN);

    if (!empty(s, CACHE_PASSED) && failed != CACHE_PASSED)
        return CACHE_PASSED;
    if (!over_limit(c))
        return CACHE_NONE;
    if (small && main && failed != CACHE_NONE)
        return failed == CACHE_SMALL ? CACHE_MAIN : CACHE_SMALL;
    if (small && main)
        return s->bytes[CACHE_SMALL] * CACHE_SHARDS > (int64_t)cache_limit(c) / 8 ? CACHE_SMALL
                                                                                 : CACHE_MAIN;
    return small ? CACHE_SMALL : main ? CACHE_MAIN : CACHE_NONE;
}

/* Steps made and items evicted. */
struct trim {
    unsigned steps, evicted;
};

static void trim_shard(struct cache *c, struct cache_shard *s, struct trim *t)
{
    struct cache_item *victims = NULL;
    enum cache_list failed = CACHE_NONE;

    {
        MUTEX_GUARD(&s->lock);
        for (int i = 0; i < TRIM_STEPS && has_too_much(c); i++) {
            enum cache_list list = choose_list(c, s, failed);
            bool busy = false;
            struct cache_item *it = list == CACHE_NONE ? NULL : evict_oldest(c, s, list, &busy);
            failed = busy ? list : CACHE_NONE;
            t->steps++;
            if (list == CACHE_NONE)
                break;
            if (it) {
                it->next = victims;
                victims = it;
                t->evicted++;
            }
        }
    }
    while (victims) {
        struct cache_item *it = victims;
        victims = it->next;
        dispose(it);
    }
}

/* When nearly everything is dirty or held, each call would look at much and find nothing: the next
 * look waits until the cache has grown by another piece. */
void cache_trim(struct cache *c)
{
    int64_t total = atomic_load_explicit(&c->total, memory_order_relaxed);
    struct trim t = {0};

    if (atomic_fetch_add_explicit(&c->trims, 1, memory_order_relaxed) % MEASURE_EVERY == 0)
        measure_gaps(c);
    if (!has_too_much(c) || total < atomic_load_explicit(&c->retry_at, memory_order_relaxed))
        return;
    for (int i = 0; i < CACHE_SHARDS && has_too_much(c); i++)
        trim_shard(c,
                   &c->shards[atomic_fetch_add_explicit(&c->next_shard, 1, memory_order_relaxed) %
                              CACHE_SHARDS],
                   &t);
    atomic_store_explicit(&c->retry_at,
                          t.evicted < t.steps / TRIM_WORTH
                              ? total + (int64_t)(cache_limit(c) / 64 + (1 << 20))
                              : 0,
                          memory_order_relaxed);
}

static struct cache_wait *wait_of(struct cache *c, const void *key)
{
    return &c->waits[hash_u64((uintptr_t)key >> 4) % CACHE_SHARDS];
}

uint64_t cache_wait_number(struct cache *c, const void *key)
{
    struct cache_wait *w = wait_of(c, key);

    MUTEX_GUARD(&w->lock);
    return w->seq;
}

void cache_wait_for(struct cache *c, const void *key, uint64_t number)
{
    struct cache_wait *w = wait_of(c, key);

    MUTEX_GUARD(&w->lock);
    while (w->seq == number)
        pthread_cond_wait(&w->cond, &w->lock);
}

void cache_wake(struct cache *c, const void *key)
{
    struct cache_wait *w = wait_of(c, key);

    MUTEX_GUARD(&w->lock);
    w->seq++;
    pthread_cond_broadcast(&w->cond);
}
