/* Blocks that several pointers may share: the dedup tables and the clone tables of a pool (spec
 * 08). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "pool/pool.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

#define BRT_KEY "com.fudosecurity:brt:vdev:"

static uint64_t hash_of(uint64_t vdev, uint64_t offset)
{
    return hash_u64(offset ^ hash_u64(vdev));
}

struct shared_block *verify_shared(struct verify *v, uint64_t vdev, uint64_t offset)
{
    struct hashmap_node *n = hashmap_first(&v->shared, hash_of(vdev, offset));
    for (; n; n = hashmap_next(n)) {
        struct shared_block *s = container_of(n, struct shared_block, node);
        if (s->vdev == vdev && s->offset == offset)
            return s;
    }
    return NULL;
}

static int add(struct verify *v, uint64_t vdev, uint64_t offset, uint64_t refs, bool clone)
{
    struct shared_block *s = verify_shared(v, vdev, offset);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return -ENOMEM;
        s->vdev = vdev;
        s->offset = offset;
        s->clone = clone;
        hashmap_insert(&v->shared, &s->node, hash_of(vdev, offset));
    }
    s->expected += refs + clone;
    return 0;
}

int verify_each_entry(struct verify *v, uint64_t object, verify_zap_fn *fn, uint64_t arg)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *dn;
    int rc = dnode_hold(v->mos, object, &dn), failed = 0;
    if (rc)
        return rc;
    zap_cursor_init(&c, dn, 0);
    while (!failed && (rc = zap_cursor_next(&c, &e)) == 0)
        failed = fn(v, dn, &e, arg);
    dnode_rele(dn);
    return failed ? failed : rc == -ENOENT ? 0 : rc;
}

/* ---- Clones: the key is an offset, the value how many more pointers there are ---- */

static int add_clone(struct verify *v, struct dnode *table, const struct zap_entry *e,
                     uint64_t vdev)
{
    uint64_t offset, count = e->first;
    if (e->key_words != 1)
        return 0;
    memcpy(&offset, e->name, sizeof offset);
    if (e->size != 8 || e->count != 1) {
        int rc = zap_lookup_words(table, &offset, 1, 1, sizeof count, &count);
        if (rc)
            return rc;
    }
    return add(v, vdev, offset, count, true);
}

static int load_clones(struct verify *v)
{
    struct vdev *root = v->pool->root;
    for (unsigned i = 0; i < root->children; i++) {
        char key[64];
        uint64_t object, entries;
        snprintf(key, sizeof key, BRT_KEY "%u", root->child[i]->id);
        int rc = zap_get_u64(v->mos, MOS_DIRECTORY, key, &object);
        if (rc == -ENOENT)
            continue;
        if (rc == 0)
            rc = verify_hold(v, object, &entries, 1, 1, NULL);
        if (rc == 0 && entries)
            rc = verify_each_entry(v, entries, add_clone, root->child[i]->id);
        if (rc)
            return err_prefix(rc, "the clone table of vdev %u", root->child[i]->id);
    }
    return 0;
}

/* ---- Dedup: the value has the places and the count ---- */

/* ZLE with 64: literals up to 64 bytes, or up to 192 zeros. */
static size_t expand(const unsigned char *in, size_t n, unsigned char *out, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        unsigned b = in[i++], run = b < 64 ? b + 1 : b - 63;
        if (used + run > cap || (b < 64 && run > n - i))
            return 0;
        if (b < 64) {
            memcpy(out + used, in + i, run);
            i += run;
        } else {
            memset(out + used, 0, run);
        }
        used += run;
    }
    return used;
}

/* One set of three places, with its count behind them. */
static int add_slot(struct verify *v, const unsigned char *at, bool big, bool crypt)
{
    uint64_t refs = get_u64(at + 48, big), birth = get_u64(at + 56, big);
    int rc = 0;
    for (int i = 0; i < (crypt ? 2 : 3) && rc == 0 && birth; i++) {
        struct blkptr bp = {{get_u64(at + 16 * i, big), get_u64(at + 16 * i + 8, big)}};
        if (dva_asize(&bp, 0))
            rc = add(v, dva_vdev(&bp, 0), dva_offset(&bp, 0), refs, false);
    }
    return rc;
}

static int add_value(struct verify *v, const uint64_t key[5], const unsigned char *value, size_t n)
{
    unsigned char raw[256];
    if (n < 2)
        return err_set(EBADE, "a short entry");
    bool big = !(value[0] & 0x80), crypt = key[4] >> 39 & 1;
    size_t size = n - 1;
    if ((value[0] & 0x7f) == 14)
        size = expand(value + 1, n - 1, raw, sizeof raw);
    else if (size <= sizeof raw)
        memcpy(raw, value + 1, size);
    if (size == 72)
        return add_slot(v, raw, big, crypt);
    if (size != 256)
        return err_set(EBADE, "an entry of %zu bytes", size);
    int rc = 0;
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = add_slot(v, raw + 64 * i, big, crypt);
    return rc;
}

static int add_entry(struct verify *v, struct dnode *table, const struct zap_entry *e,
                     uint64_t none)
{
    unsigned char value[300];
    uint64_t key[5];
    if (e->key_words != 5 || e->size != 1 || e->count > sizeof value)
        return err_set(EBADE, "an entry of another form");
    memcpy(key, e->name, sizeof key);
    int rc = zap_lookup_words(table, key, 5, 1, e->count, value);
    return rc ? rc : add_value(v, key, value, e->count);
}

static bool is_store(const char *name)
{
    return strncmp(name, "DDT-", 4) == 0 && strstr(name, "-zap-");
}

/* Tables are in the MOS directory (top), or in folders of their own there ("DDT-sha256"). */
static int load_dedup(struct verify *v, struct dnode *folder, const struct zap_entry *e,
                      uint64_t top)
{
    int rc = 0;
    if (e->key_words || strncmp(e->name, "DDT-", 4) != 0 || strcmp(e->name, "DDT-statistics") == 0)
        return 0;
    if (is_store(e->name))
        rc = verify_each_entry(v, e->first, add_entry, 0);
    else if (top)
        rc = verify_each_entry(v, e->first, load_dedup, false);
    return rc ? err_prefix(rc, "%s", e->name) : 0;
}

bool verify_directory_has(struct verify *v, const char *key)
{
    struct dnode *dn;
    unsigned size;
    size_t count;
    if (dnode_hold(v->mos, MOS_DIRECTORY, &dn) != 0)
        return false;
    int rc = zap_length(dn, key, &size, &count);
    dnode_rele(dn);
    return rc == 0;
}

int verify_tables_load(struct verify *v)
{
    int rc = load_clones(v);
    if (rc == 0)
        rc = verify_each_entry(v, MOS_DIRECTORY, load_dedup, true);
    if (rc == 0 || rc == -ENOMEM)
        return rc;
    verify_found(v, "table", "%s: what it shares is reported as used twice", err_text(rc));
    return 0;
}

static void check(struct verify *v, const struct shared_block *s)
{
    uint64_t seen = atomic_load(&s->seen);
    if (seen == s->expected)
        return;
    v->refcounts++;
    verify_found(
        v, "reference_count", "vdev %llu, offset 0x%llx: %llu pointers, the %s table counts %llu",
        (unsigned long long)s->vdev, (unsigned long long)s->offset, (unsigned long long)seen,
        s->clone ? "clone" : "dedup", (unsigned long long)s->expected);
}

void verify_tables_check(struct verify *v)
{
    for (size_t i = 0; v->shared.slots && i <= v->shared.mask; i++)
        for (struct hashmap_node *n = v->shared.slots[i]; n; n = n->next)
            check(v, container_of(n, struct shared_block, node));
}

void verify_tables_free(struct verify *v)
{
    for (size_t i = 0; v->shared.slots && i <= v->shared.mask; i++)
        for (struct hashmap_node *n = v->shared.slots[i], *next; n; n = next) {
            next = n->next;
            free(container_of(n, struct shared_block, node));
        }
    if (v->shared.slots)
        hashmap_destroy(&v->shared);
}
