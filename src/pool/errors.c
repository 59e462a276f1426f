#include "pool/errors.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/block.h"
#include "pool/pool.h"
#include "util/cleanup.h"
#include "util/hashmap.h"

#define ERRORS_MAX 100000 /* what comes then is no longer counted */

struct damaged {
    struct hashmap_node node;
    struct bookmark where;
    struct damaged *next;
    bool old; /* not seen since a scrub began */
};

struct pool_errors {
    pthread_mutex_t lock; /* guards what follows */
    struct hashmap map;
    struct damaged *head;
};

int pool_errors_new(struct pool_errors **out)
{
    struct pool_errors *e = calloc(1, sizeof *e);

    if (!e || hashmap_init(&e->map, 16) != 0) {
        free(e);
        return -ENOMEM;
    }
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return 0;
}

void pool_errors_free(struct pool_errors *e)
{
    if (!e)
        return;
    while (e->head) {
        struct damaged *d = e->head;
        e->head = d->next;
        free(d);
    }
    hashmap_destroy(&e->map);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static bool same(const struct bookmark *a, const struct bookmark *b)
{
    return a->objset == b->objset && a->object == b->object && a->level == b->level &&
           a->blkid == b->blkid;
}

void pool_errors_note(struct pool *pool, const struct bookmark *bm)
{
    struct pool_errors *e = pool->errors;
    uint64_t hash = hash_u64(bm->objset ^ hash_u64(bm->object ^ hash_u64((uint64_t)bm->level ^
                                                                         hash_u64(bm->blkid))));

    MUTEX_GUARD(&e->lock);
    for (struct hashmap_node *n = hashmap_first(&e->map, hash); n; n = hashmap_next(n))
        if (same(&container_of(n, struct damaged, node)->where, bm)) {
            container_of(n, struct damaged, node)->old = false;
            return;
        }
    struct damaged *d = e->map.count < ERRORS_MAX ? malloc(sizeof *d) : NULL;
    if (!d)
        return;
    d->where = *bm;
    d->old = false;
    d->next = e->head;
    e->head = d;
    hashmap_insert(&e->map, &d->node, hash);
}

void pool_errors_scan_begin(struct pool *pool)
{
    MUTEX_GUARD(&pool->errors->lock);
    for (struct damaged *d = pool->errors->head; d; d = d->next)
        d->old = true;
}

void pool_errors_scan_end(struct pool *pool, bool whole)
{
    struct pool_errors *e = pool->errors;

    MUTEX_GUARD(&e->lock);
    for (struct damaged **at = &e->head; *at && whole;) {
        struct damaged *d = *at;
        if (!d->old) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        hashmap_remove(&e->map, &d->node);
        free(d);
    }
}

size_t pool_errors_count(const struct pool *pool)
{
    MUTEX_GUARD(&pool->errors->lock);

    return pool->errors->map.count;
}

static int by_object(const void *a, const void *b)
{
    const struct damaged_object *x = a, *y = b;

    if (x->objset != y->objset)
        return x->objset < y->objset ? -1 : 1;
    return x->object < y->object ? -1 : x->object > y->object;
}

int pool_errors_objects(const struct pool *pool, struct damaged_object **out, size_t *n)
{
    struct pool_errors *e = pool->errors;
    size_t all = 0, kept = 0;

    MUTEX_GUARD(&e->lock);
    struct damaged_object *list = calloc(e->map.count + 1, sizeof *list);
    if (!list)
        return -ENOMEM;
    for (const struct damaged *d = e->head; d; d = d->next)
        list[all++] = (struct damaged_object){d->where.objset, d->where.object};
    qsort(list, all, sizeof *list, by_object);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || by_object(&list[i - 1], &list[i]) != 0)
            list[kept++] = list[i];
    *out = list;
    *n = kept;
    return 0;
}
