/*
 * The object set is replaced under a mounted file system (rollback, receive). What is in memory
 * goes; what the front end knows by number is compared with what it was, and what has changed is
 * reported. A number that stands for another file now, or for none, is stale: calls with it give
 * -ESTALE until the front end has looked the new file up, or forgotten the old one.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"

struct known {
    uint64_t object, gen, digest; /* gen 0: it could not be read */
};

struct fs_before {
    size_t n, cap;
    struct known *known;
};

static void mix(uint64_t *h, uint64_t v)
{
    *h = hash_u64(*h ^ v);
}

static void mix_time(uint64_t *h, const struct ztime *t)
{
    mix(h, t->sec);
    mix(h, t->nsec);
}

/* Every change of a file changes one of these. */
static uint64_t digest(const struct zattr *a)
{
    const uint64_t w[] = {a->mode,  a->size,  a->gen,    a->uid,  a->gid,  a->parent,
                          a->flags, a->links, a->projid, a->rdev, a->xattr};
    uint64_t h = 1;
    for (size_t i = 0; i < ARRAY_LEN(w); i++)
        mix(&h, w[i]);
    mix_time(&h, &a->atime);
    mix_time(&h, &a->mtime);
    mix_time(&h, &a->ctime);
    mix_time(&h, &a->crtime);
    return h;
}

static struct known look_at(struct fs *fs, uint64_t object, bool *nameless)
{
    struct known k = {.object = object};
    struct znode *zn CLEANUP_ZN = NULL;
    struct zattr a;
    if (zn_get(fs, object, &zn) < 0)
        return k;
    zn_attr(zn, &a);
    k.gen = a.gen;
    k.digest = digest(&a);
    *nameless = a.links == 0;
    return k;
}

static bool add(void *arg, uint64_t object)
{
    struct fs_before *b = arg;
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 1024;
        struct known *more = realloc(b->known, cap * sizeof *more);
        if (!more)
            return false;
        b->known = more;
        b->cap = cap;
    }
    b->known[b->n++].object = object;
    return true;
}

static void before_free(struct fs_before *b)
{
    free(b->known);
    free(b);
}

int fs_reload_begin(struct fs *fs, struct fs_before **out)
{
    struct fs_before *b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    reaper_stop(fs);
    if (!add(b, fs->root) || !zn_each_lookup(fs, add, b)) {
        before_free(b);
        reaper_again(fs);
        return -ENOMEM;
    }
    for (size_t i = 0; i < b->n; i++) {
        bool nameless;
        b->known[i] = look_at(fs, b->known[i].object, &nameless);
    }
    *out = b;
    return 0;
}

static void compare(struct fs *fs, const struct fs_before *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct known *old = &b->known[i];
        bool nameless = false;
        struct known now = look_at(fs, old->object, &nameless);
        if (old->object != fs->root)
            zn_lookup_reloaded(fs, old->object, now.gen == 0 || now.gen != old->gen, nameless);
        if (now.gen == 0 || now.digest != old->digest)
            fs_invalidate(fs, old->object, NULL);
    }
}

int fs_reload_end(struct fs *fs, struct fs_before *b, bool changed)
{
    int rc = changed ? fs_reopen(fs) : 0;
    if (rc == 0 && changed)
        compare(fs, b);
    reaper_again(fs);
    if (rc == 0 && changed && !fs->readonly)
        reap_queue_of_disk(fs);
    before_free(b);
    return rc;
}
