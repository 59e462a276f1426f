/*
 * User, group and project accounting (03 7): what each object of a file system is charged for is
 * subtracted before and added after its sync; the differences are summed up per id in memory, so
 * that each id costs one change of a ZAP however many objects changed.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/sync_impl.h"
#include "dmu/zap.h"
#include "util/cleanup.h"

#define SA_MAGIC         0x2f505au
#define SA_HAS_PROJECT   0x0000800000000000ull
#define CHARGE_PER_DNODE 512

enum { KIND_USER, KIND_GROUP, KIND_PROJECT, KINDS };

struct entry {
    struct hashmap_node node;
    unsigned kind;
    uint64_t id;
    uint64_t space, count; /* differences, mod 2^64 */
};

struct accounts {
    pthread_mutex_t lock;
    uint64_t flags;        /* of the object set */
    struct hashmap map;    /* lock */
};

struct ids {
    uint64_t id[KINDS];
};

int accounts_new(struct accounts **out, uint64_t flags)
{
    struct accounts *a = calloc(1, sizeof *a);

    *out = a;
    if (!a)
        return -ENOMEM;
    if (hashmap_init(&a->map, 16) < 0) {
        free(a);
        *out = NULL;
        return -ENOMEM;
    }
    pthread_mutex_init(&a->lock, NULL);
    a->flags = flags;
    return 0;
}

void accounts_free(struct accounts *a)
{
    if (!a)
        return;
    for (size_t i = 0; i <= a->map.mask; i++) {
        while (a->map.slots[i]) {
            struct hashmap_node *n = a->map.slots[i];
            hashmap_remove(&a->map, n);
            free(container_of(n, struct entry, node));
        }
    }
    hashmap_destroy(&a->map);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- Who owns it ---- */

/* Ids at their fixed places behind the header of system attributes (06 4.4), in either byte order. */
static void sa_ids(const unsigned char *sa, size_t n, struct ids *out)
{
    uint32_t magic = n >= 8 ? get_le32(sa) : 0;
    bool big = magic == __builtin_bswap32(SA_MAGIC);
    size_t header;

    if (magic != SA_MAGIC && !big)
        return;
    header = (size_t)(get_u16(sa + 4, big) >> 10) * 8;
    if (header + 56 > n)
        return;
    out->id[KIND_USER] = get_u64(sa + header + 24, big);
    out->id[KIND_GROUP] = get_u64(sa + header + 32, big);
    if (get_u64(sa + header + 48, big) & SA_HAS_PROJECT && header + 136 <= n)
        out->id[KIND_PROJECT] = get_u64(sa + header + 128, big);
}

/* The spill block of an image as it is on disk now. */
static int read_spill(struct dnode *dn, struct buf **out)
{
    struct bookmark bm;
    struct blkptr bp;
    int rc;

    *out = NULL;
    if (!(dn->image[DN_FLAGS] & DNODE_FLAG_SPILL))
        return 0;
    bp_decode(&bp, image_spill(dn->image), BYTES_HOST_BIG);
    dbuf_bookmark(dn, 0, SPILL_BLKID, &bm);
    rc = block_read_key(dn->os->pool, &bp, &bm, dn->os->key, out);
    return rc < 0 ? rc : dbuf_accept(dn, 0, SPILL_BLKID, &bp, out);
}

static int find_ids(struct dnode *dn, const struct buf *spill, struct ids *out)
{
    const unsigned char *im = dn->image, *bonus = im + image_bonus_offset(im);
    size_t len = host16(im + DN_BONUS_LEN);
    struct buf *b = NULL;
    int rc = 0;

    *out = (struct ids){0};
    if (im[DN_BONUS_TYPE] == OT_ZNODE) {
        if (len >= 144) {
            out->id[KIND_USER] = host64(bonus + 128);
            out->id[KIND_GROUP] = host64(bonus + 136);
        }
    } else if (len > 0) {
        sa_ids(bonus, len, out);
    } else if (spill) {
        sa_ids(spill->data, spill->size, out);
    } else {
        rc = read_spill(dn, &b);
        if (rc == 0 && b)
            sa_ids(b->data, b->size, out);
        buf_unref(b);
    }
    return rc;
}

/* ---- Sums ---- */

/* With the lock. */
static int add(struct accounts *a, unsigned kind, uint64_t id, uint64_t space, uint64_t count)
{
    uint64_t hash = hash_u64(id * KINDS + kind);
    struct hashmap_node *n;
    struct entry *e;

    for (n = hashmap_first(&a->map, hash); n; n = hashmap_next(n)) {
        e = container_of(n, struct entry, node);
        if (e->kind == kind && e->id == id) {
            e->space += space;
            e->count += count;
            return 0;
        }
    }
    e = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    *e = (struct entry){.kind = kind, .id = id, .space = space, .count = count};
    hashmap_insert(&a->map, &e->node, hash);
    return 0;
}

int accounts_note(struct accounts *a, struct dnode *dn, int sign, const struct buf *spill)
{
    const unsigned char *im = dn->image;
    uint64_t space = im[DN_FLAGS] & DNODE_FLAG_ACCOUNTED ? CHARGE_PER_DNODE + image_used(im) : 0;
    uint64_t count = im[DN_FLAGS] & DNODE_FLAG_OBJACCOUNTED ? 1 : 0;
    unsigned kinds = a->flags & OBJSET_FLAG_PROJECTQUOTA ? KINDS : KIND_PROJECT;
    struct ids ids;
    int rc;

    if ((im[DN_BONUS_TYPE] != OT_SA && im[DN_BONUS_TYPE] != OT_ZNODE) || (!space && !count))
        return 0;
    rc = find_ids(dn, spill, &ids);
    if (sign < 0) {
        space = -space;
        count = -count;
    }
    MUTEX_GUARD(&a->lock);
    for (unsigned k = 0; k < kinds && rc == 0; k++)
        rc = add(a, k, ids.id[k], space, count);
    return rc;
}

/* ---- The ZAPs ---- */

static int create_zap(struct objset *os, uint64_t object, struct tx *tx)
{
    struct object_params params = {.type = OT_USERGROUP_USED, .block_size = 512};
    struct dnode *dn = dnode_find(os, object);
    int rc = 0;

    if (!dn) {
        rc = object_create(os, object, &params, tx, &dn);
        if (rc == 0)
            rc = zap_format(dn, 0, tx);
    }
    dnode_rele(dn);
    return rc;
}

static int apply_entry(struct objset *os, const struct entry *e, struct tx *tx)
{
    uint64_t object = UINT64_MAX - e->kind;
    char key[4 + 17] = "obj-";
    int rc = 0;

    zap_int_key(e->id, key + 4);
    if (e->space)
        rc = zap_increment(os, object, key + 4, e->space, true, tx);
    if (rc == 0 && e->count)
        rc = zap_increment(os, object, key, e->count, true, tx);
    return rc;
}

int accounts_apply(struct accounts *a, struct objset *os, struct tx *tx)
{
    unsigned kinds = a->flags & OBJSET_FLAG_PROJECTQUOTA ? KINDS : KIND_PROJECT;
    int rc = 0;

    for (unsigned k = 0; k < kinds && rc == 0; k++)
        rc = create_zap(os, UINT64_MAX - k, tx);
    for (size_t i = 0; i <= a->map.mask && rc == 0; i++) {
        for (struct hashmap_node *n = a->map.slots[i]; n && rc == 0; n = n->next)
            rc = apply_entry(os, container_of(n, struct entry, node), tx);
    }
    return rc;
}
