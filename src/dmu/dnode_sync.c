/* One dnode's part of a txg, in the order of 03 9.2. */
#include <errno.h>
#include <stdlib.h>

#include "dmu/sync_impl.h"
#include "util/cleanup.h"
#include "util/rangeset.h"

/* ---- Fields and tail of the image ---- */

static void apply_fields(struct sync *s, struct dnode *dn, struct change *ch)
{
    unsigned char *im = dn->image;

    MUTEX_GUARD(&dn->lock);
    if (s->accounts && !dnode_is_special(dn))
        im[DN_FLAGS] |= DNODE_FLAG_ACCOUNTED |
                        (s->os->flags & OBJSET_FLAG_USEROBJACCOUNTING ? DNODE_FLAG_OBJACCOUNTED : 0);
    if (ch->flags & CHANGE_TYPE)
        im[DN_TYPE] = ch->type;
    if (ch->flags & CHANGE_BLOCK_SIZE) {
        set_host16(im + DN_BLOCK_SECTORS, (uint16_t)(ch->block_size >> 9));
        im[DN_INDIRECT_SHIFT] = ch->indirect_shift;
    }
}

/* Bonus and spill pointer come last, so that neither overwrites what the other still needs; the
 * number of the last block as well, which may be lower than that of blocks just freed. */
static void install_tail(struct dnode *dn, struct change *ch, const struct blkptr *spill)
{
    unsigned char *im = dn->image;
    size_t off = image_bonus_offset(im), end = image_size(im);

    if (ch->flags & CHANGE_MAX_BLKID)
        set_host64(im + DN_MAX_BLKID, ch->max_blkid);
    if (spill && !bp_hole(spill))
        im[DN_FLAGS] |= DNODE_FLAG_SPILL;
    if (im[DN_FLAGS] & DNODE_FLAG_SPILL)
        end -= BLKPTR_SIZE;
    if (ch->flags & CHANGE_BONUS) {
        memcpy(im + off, ch->bonus, ch->bonus_len);
        memset(im + off + ch->bonus_len, 0, end - off - ch->bonus_len);
        set_host16(im + DN_BONUS_LEN, ch->bonus_len);
        im[DN_BONUS_TYPE] = ch->bonus_type;
    }
    if (spill && !bp_hole(spill))
        bp_encode(spill, image_spill(im));
}

/* ---- Spill ---- */

static void old_spill(struct dnode *dn, struct blkptr *bp)
{
    bp_zero(bp);
    if (dn->image[DN_FLAGS] & DNODE_FLAG_SPILL)
        bp_decode(bp, image_spill(dn->image), BYTES_HOST_BIG);
}

static void remove_spill(struct dnode_sync *ds, struct change *ch)
{
    struct dnode *dn = ds->dn;
    struct blkptr bp;

    old_spill(dn, &bp);
    {
        MUTEX_GUARD(&dn->lock);
        if (dn->image[DN_FLAGS] & DNODE_FLAG_SPILL)
            memset(image_spill(dn->image), 0, BLKPTR_SIZE);
        dn->image[DN_FLAGS] &= (unsigned char)~DNODE_FLAG_SPILL;
        ch->flags &= ~(unsigned)CHANGE_SPILL_REMOVE; /* from now on the image tells */
    }
    tree_kill(ds, &bp);
}

static int write_spill(struct dnode_sync *ds, struct change *ch, struct buf *data,
                       struct blkptr *bp)
{
    unsigned char *im = ds->dn->image;
    struct policy_for what = {.type = ch->flags & CHANGE_BONUS ? ch->bonus_type : im[DN_BONUS_TYPE],
                              .spill = true};

    old_spill(ds->dn, bp);
    return tree_write_block(ds, &what, 1, data, bp);
}

/* ---- Leaves ---- */

struct leaves {
    struct leaf few[4]; /* most objects have no more */
    struct leaf *v;
    size_t n;
    struct dirty *spill;
    struct buf *spill_data; /* a reference */
};

static int compare_leaves(const void *a, const void *b)
{
    uint64_t x = ((const struct leaf *)a)->blkid, y = ((const struct leaf *)b)->blkid;

    return x < y ? -1 : x > y;
}

static int collect_leaves(struct dnode *dn, struct change *ch, struct leaves *l)
{
    bool sorted = true;

    MUTEX_GUARD(&dn->lock);
    l->v = ch->write_count > ARRAY_LEN(l->few) ? malloc(ch->write_count * sizeof(*l->v)) : l->few;
    if (!l->v)
        return -ENOMEM;
    for (struct dirty *d = ch->writes; d; d = d->next) {
        struct buf *data = buf_ref(d->buf ? d->buf : d->db->buf);
        if (d->db->blkid == SPILL_BLKID) {
            l->spill = d;
            l->spill_data = data;
            continue;
        }
        sorted &= l->n == 0 || l->v[l->n - 1].blkid < d->db->blkid;
        l->v[l->n++] = (struct leaf){.blkid = d->db->blkid, .fill = 1, .data = data, .dirty = d};
    }
    if (!sorted)
        qsort(l->v, l->n, sizeof(*l->v), compare_leaves);
    return 0;
}

/* ---- The order ---- */

#define ROUND_SHARE 8 /* parents in memory: of the cache limit, one part in so many */
#define ROUND_LEAST 4

static int sync_freed(struct dnode_sync *ds, struct change *ch)
{
    int rc;

    remove_spill(ds, ch);
    rc = free_sync_object(ds);
    return rc;
}

static int apply_ranges(struct dnode_sync *ds, struct change *ch)
{
    struct rangeset *ranges = ch->freed;
    int rc = ranges ? free_sync_ranges(ds, ranges) : 0;

    pthread_mutex_lock(&ds->dn->lock);
    ch->freed = NULL; /* from now on the tree tells */
    pthread_mutex_unlock(&ds->dn->lock);
    rangeset_free(ranges);
    return rc;
}

/* Each leaf's parent is in memory until it is written, and leaves all over a large file have a
 * parent each, which may be hundreds of times as large. So there may be several rounds, each of
 * which writes the tree to its top: the end of the round that begins at leaf i. */
static size_t round_end(const struct dnode *dn, const struct leaves *l, size_t i)
{
    unsigned epbs = dnode_epbs(dn);
    uint64_t most = MAX(cache_limit(dn->os->cache) / ROUND_SHARE >> dn->image[DN_INDIRECT_SHIFT],
                        (uint64_t)ROUND_LEAST);
    uint64_t parents = 0;

    for (; i < l->n; i++) {
        if (i == 0 || l->v[i].blkid >> epbs != l->v[i - 1].blkid >> epbs)
            parents++;
        if (parents > most)
            break;
    }
    return i;
}

static int write_round(struct dnode_sync *ds, struct change *ch, struct leaf *v, size_t n)
{
    struct dnode *dn = ds->dn;
    int rc = tree_grow(ds, MAX(host64(dn->image + DN_MAX_BLKID),
                               ch->flags & CHANGE_MAX_BLKID ? ch->max_blkid : 0));

    if (rc == 0)
        rc = tree_write_leaves(ds, v, n);
    if (rc == 0)
        rc = tree_finish(ds);
    if (rc == 0)
        tree_release_leaves(ds, v, n);
    return rc;
}

static int write_contents(struct dnode_sync *ds, struct change *ch, struct leaves *l)
{
    struct dnode *dn = ds->dn;
    struct blkptr spill;
    int rc = l->spill ? write_spill(ds, ch, l->spill_data, &spill) : 0;
    size_t from = 0, to;

    do {
        to = round_end(dn, l, from);
        if (rc == 0)
            rc = write_round(ds, ch, l->v + from, to - from);
        if (from > 0)
            cache_trim(dn->os->cache);
        from = to;
    } while (from < l->n && rc == 0);
    if (rc < 0)
        return rc;
    MUTEX_GUARD(&dn->lock);
    install_tail(dn, ch, l->spill ? &spill : NULL);
    if (l->spill)
        dirty_release(l->spill);
    return 0;
}

static void free_leaves(struct leaves *l)
{
    for (size_t i = 0; i < l->n; i++)
        buf_unref(l->v[i].data);
    buf_unref(l->spill_data);
    if (l->v != l->few)
        free(l->v);
}

static int sync_live(struct dnode_sync *ds, struct change *ch)
{
    struct sync *s = ds->s;
    struct dnode *dn = ds->dn;
    struct leaves l = {.v = NULL};
    int rc;

    apply_fields(s, dn, ch);
    if (ch->flags & CHANGE_SPILL_REMOVE)
        remove_spill(ds, ch);
    rc = apply_ranges(ds, ch);
    if (rc == 0)
        rc = collect_leaves(dn, ch, &l);
    if (rc == 0)
        rc = write_contents(ds, ch, &l);
    if (rc == 0 && s->accounts && !dnode_is_special(dn))
        rc = accounts_note(s->accounts, dn, 1, l.spill_data);
    if (dn->image[DN_EXTRA_SLOTS] > 0)
        atomic_fetch_or(&s->os->uses, OBJSET_USES_LARGE_DNODE);
    free_leaves(&l);
    return rc;
}

int dnode_sync_change(struct sync *s, struct change *ch)
{
    struct dnode *dn = ch->dn;
    struct dnode_sync ds = {.s = s, .dn = dn, .levels = dn->image[DN_LEVELS]};
    int rc = 0;

    if (s->accounts && dn->on_disk && !dnode_is_special(dn))
        rc = accounts_note(s->accounts, dn, -1, NULL);
    if (rc == 0)
        rc = ch->flags & CHANGE_FREE ? sync_freed(&ds, ch) : sync_live(&ds, ch);
    if (rc < 0) {
        tree_abandon(&ds);
        return rc;
    }
    MUTEX_GUARD(&dn->lock);
    dn->changes[s->txg & TXG_MASK] = NULL;
    return 0;
}
