#include "vdev/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/workers.h"
#include "vdev/scan_impl.h"

static bool is_aux(const struct label *l)
{
    return l->state == POOL_STATE_SPARE || l->state == POOL_STATE_L2CACHE;
}

/* Does it say which pool and which vdev it belongs to? */
static bool complete(const struct label *l)
{
    return is_aux(l) ||
           (nvlist_uint64_or(l->config, "pool_guid", 0) &&
            nvlist_uint64_or(l->config, "top_guid", 0) && nvlist_exists(l->config, "vdev_tree"));
}

/* A label that would be good but for its checksum. */
static bool nearly_usable(const struct label *l)
{
    return l->config && l->rc == -EBADE && l->guid && l->txg && l->state < POOL_STATE_SPARE &&
           complete(l);
}

static void judge(struct candidate *k)
{
    for (unsigned i = 0; i < LABELS; i++) {
        const struct label *l = &k->set.label[i];
        if (label_usable(l) && complete(l)) {
            k->good++;
            if (!k->label || l->txg > k->label->txg)
                k->label = l;
        }
    }
    for (unsigned i = 0; !k->good && i < LABELS; i++) {
        const struct label *l = &k->set.label[i];
        if (nearly_usable(l) && (!k->label || l->txg > k->label->txg)) {
            k->label = l;
            k->damaged = true;
        }
    }
}

int candidate_look(struct candidate *k, struct device *d)
{
    struct uberblock u;
    int rc = label_read(d, &k->set);
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    k->labelled = true;
    judge(k);
    if (!k->label || is_aux(k->label))
        return 0;
    k->pool_guid = nvlist_uint64_or(k->label->config, "pool_guid", 0);
    rc = uberblock_best(d, k->set.psize, UINT64_MAX, &u);
    if (rc == 0)
        k->ub_txg = u.txg;
    return rc == -ENOMEM ? rc : 0;
}

/* Looks into the ZFS partition of *d if there is one; *d is then that partition. */
static int look_into_partition(struct candidate *k, struct device **d)
{
    struct device *part;
    uint64_t start, size;
    int rc = device_find_gpt(*d, &start, &size);
    rc = rc ? rc : device_slice(&part, *d, start, size);
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    *d = part;
    if (k->labelled)
        label_set_free(&k->set);
    k->labelled = false;
    rc = candidate_look(k, part);
    k->partition = k->label != NULL;
    return rc;
}

/* Reads one candidate, in any thread. What cannot be read has nothing for us; only a lack of memory
 * is an error. */
static int read_candidate(void *arg, size_t i)
{
    struct candidate *k = &((struct candidates *)arg)->item[i];
    struct device *d;
    int rc = device_open(&d, k->name[0], DEVICE_OPEN_NOLOCK);
    if (rc) {
        k->denied = rc == -EACCES || rc == -EPERM;
        return rc == -ENOMEM ? rc : 0;
    }
    rc = candidate_look(k, d);
    if (rc == 0 && !k->label)
        rc = look_into_partition(k, &d);
    device_close(d);
    return rc;
}

static int read_all(struct candidates *c)
{
    enum { THREADS = 8 }; /* a disk that has to spin up must not hold up the others */
    struct workers *w;
    int rc = workers_new(&w, (unsigned)MIN(MAX(c->n, (size_t)1), (size_t)THREADS));
    if (rc)
        return rc;
    rc = workers_each(w, c->n, read_candidate, c);
    workers_free(w);
    return rc;
}

static int add_aux(struct scan *s, const struct candidate *k)
{
    for (size_t i = 0; i < s->auxs; i++)
        if (s->aux[i].guid == k->label->guid)
            return 0;
    char *path = strdup(k->name[0]);
    struct scan_device *aux = realloc(s->aux, (s->auxs + 1) * sizeof *aux);
    if (aux)
        s->aux = aux;
    if (!aux || !path) {
        free(path);
        return -ENOMEM;
    }
    s->aux[s->auxs++] = (struct scan_device){path, k->label->guid, k->label->state};
    return 0;
}

static int add_pool(struct scan *s, struct candidates *c, uint64_t guid)
{
    for (size_t i = 0; i < s->pools; i++)
        if (s->pool[i].guid == guid)
            return 0;
    struct scan_pool *pool = realloc(s->pool, (s->pools + 1) * sizeof *pool);
    if (!pool)
        return -ENOMEM;
    s->pool = pool;
    pool[s->pools] = (struct scan_pool){.guid = guid};
    s->pools++; /* so that it is freed */
    return scan_assemble(&pool[s->pools - 1], c, guid);
}

static int aux_entry(const struct scan_device *d, struct nvlist **out)
{
    struct nvlist *l CLEANUP_NVLIST = nvlist_new();
    int rc = l ? nvlist_add_uint64(l, "guid", d->guid) : -ENOMEM;
    rc = rc ? rc : nvlist_add_string(l, "path", d->path);
    if (rc == 0)
        *out = STEAL(l);
    return rc;
}

/* Which of them a pool has only its own tables tell; they get the paths of all. */
static int tell_pools(struct scan *s)
{
    struct nvlist **list = s->auxs ? calloc(s->auxs, sizeof *list) : NULL;
    size_t made = 0;
    int rc = s->auxs && !list ? -ENOMEM : 0;
    while (rc == 0 && made < s->auxs && (rc = aux_entry(&s->aux[made], &list[made])) == 0)
        made++;
    for (size_t i = 0; rc == 0 && made > 0 && i < s->pools; i++)
        if (s->pool[i].config)
            rc = nvlist_add_nvlist_array(s->pool[i].config, SCAN_KEY_AUX, list, made);
    for (size_t i = 0; i < made; i++)
        nvlist_free(list[i]);
    free(list);
    return rc;
}

static void free_candidates(struct candidates *c)
{
    candidates_free(c);
}

static void free_scan(struct scan **s)
{
    scan_free(*s);
}

int scan_run(struct scan **out, const char *const *paths, size_t n)
{
    struct candidates c CLEANUP(free_candidates) = {0};
    struct scan *s CLEANUP(free_scan) = calloc(1, sizeof *s);
    int rc = s ? 0 : -ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = candidates_add(&c, paths[i], false);
    if (rc == 0 && n == 0)
        rc = candidates_add_default(&c);
    rc = rc ? rc : candidates_merge(&c);
    rc = rc ? rc : read_all(&c);
    for (size_t i = 0; rc == 0 && i < c.n; i++) {
        struct candidate *k = &c.item[i];
        s->denied += k->denied;
        if (k->label)
            rc = is_aux(k->label) ? add_aux(s, k) : add_pool(s, &c, k->pool_guid);
    }
    rc = rc ? rc : tell_pools(s);
    if (rc == 0)
        *out = STEAL(s);
    return rc;
}

void scan_free(struct scan *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->pools; i++) {
        free(s->pool[i].name);
        free(s->pool[i].hostname);
        nvlist_free(s->pool[i].config);
    }
    for (size_t i = 0; i < s->auxs; i++)
        free(s->aux[i].path);
    free(s->pool);
    free(s->aux);
    free(s);
}

const struct scan_pool *scan_find(const struct scan *s, const char *text, size_t n)
{
    for (size_t i = 0; i < s->pools; i++) {
        char guid[24];
        snprintf(guid, sizeof guid, "%" PRIu64, s->pool[i].guid);
        if ((strcmp(text, guid) == 0 || strcmp(text, s->pool[i].name) == 0) && n-- == 0)
            return &s->pool[i];
    }
    return NULL;
}
