/*
 * The bonus buffer and the spill block. The bonus of a txg that changed it is in its `struct change`;
 * the newest one counts, else the image's. The spill block is a level-0 block with a number of its
 * own.
 */
#include <errno.h>
#include <stdlib.h>

#include "dmu/dmu_impl.h"
#include "util/cleanup.h"

/* With the lock: the newest change that has the given flag; NULL if none. */
static struct change *newest(struct dnode *dn, unsigned flag)
{
    struct change *best = NULL;

    for (int i = 0; i < TXG_SLOTS; i++) {
        struct change *ch = dn->changes[i];
        if (ch && ch->flags & flag && (!best || ch->txg > best->txg))
            best = ch;
    }
    return best;
}

static const unsigned char *newest_bonus(struct dnode *dn)
{
    struct change *ch = newest(dn, CHANGE_BONUS);

    return ch ? ch->bonus : dn->image + image_bonus_offset(dn->image);
}

/* With the lock: 1 there is a spill block, 0 there is none. */
static int has_spill(struct dnode *dn)
{
    struct dbuf *db = dbuf_find(dn, 0, SPILL_BLKID);

    if (db && db->dirty)
        return db->state != DBUF_HOLE;
    if (newest(dn, CHANGE_SPILL_REMOVE))
        return 0;
    return (dn->image[DN_FLAGS] & DNODE_FLAG_SPILL) != 0;
}

static size_t capacity(const struct dnode *dn, bool with_spill)
{
    return image_size(dn->image) - image_bonus_offset(dn->image) - (with_spill ? BLKPTR_SIZE : 0);
}

size_t dnode_bonus_capacity(const struct dnode *dn, bool with_spill)
{
    return capacity(dn, with_spill);
}

int dnode_bonus_get(struct dnode *dn, void *out, size_t cap, size_t *len)
{
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    *len = dn->bonus_len;
    memcpy(out, newest_bonus(dn), MIN(cap, (size_t)dn->bonus_len));
    return dn->bonus_len > cap ? -ERANGE : 0;
}

/* The txg's own bonus, as a copy of the newest one, with room for len bytes. */
static int own_bonus(struct dnode *dn, struct change *ch, size_t len)
{
    size_t room = P2_ROUND_UP(MAX(len, (size_t)dn->bonus_len), (size_t)64);
    unsigned char *b;

    if (ch->flags & CHANGE_BONUS && ch->bonus_capacity >= len)
        return 0;
    b = calloc(1, room ? room : 1);
    if (!b)
        return -ENOMEM;
    memcpy(b, newest_bonus(dn), dn->bonus_len);
    free(ch->bonus);
    ch->bonus = b;
    ch->bonus_capacity = (uint16_t)room;
    ch->bonus_len = dn->bonus_len;
    ch->bonus_type = dn->bonus_type;
    ch->flags |= CHANGE_BONUS;
    return 0;
}

int dnode_bonus_set(struct dnode *dn, const void *data, size_t len, uint8_t type, struct tx *tx)
{
    struct change *ch;
    int rc;

    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (len > capacity(dn, has_spill(dn)))
        return -E2BIG;
    ch = change_get(dn, tx);
    rc = ch ? own_bonus(dn, ch, len) : -ENOMEM;
    if (rc < 0)
        return rc;
    memcpy(ch->bonus, data, len);
    ch->bonus_len = dn->bonus_len = (uint16_t)len;
    if (type)
        ch->bonus_type = dn->bonus_type = type;
    return 0;
}

int dnode_bonus_patch(struct dnode *dn, size_t off, const void *data, size_t n, struct tx *tx)
{
    struct change *ch;
    int rc;

    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (off > dn->bonus_len || n > dn->bonus_len - off)
        return -ERANGE;
    ch = change_get(dn, tx);
    rc = ch ? own_bonus(dn, ch, dn->bonus_len) : -ENOMEM;
    if (rc == 0)
        memcpy(ch->bonus + off, data, n);
    return rc;
}

int dnode_spill_get(struct dnode *dn, unsigned char **out, size_t *len)
{
    struct dbuf *db;
    int rc;

    *out = NULL;
    *len = 0;
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (!has_spill(dn))
        return 0;
    db = dbuf_get(dn, 0, SPILL_BLKID);
    rc = db ? dbuf_load(db) : -ENOMEM;
    if (rc == 0 && db->state == DBUF_CACHED) {
        *out = malloc(db->buf->size);
        if (*out)
            memcpy(*out, db->buf->data, *len = db->buf->size);
        else
            rc = -ENOMEM;
    }
    if (db)
        dbuf_unhold(db);
    return rc;
}

/* With the lock: no spill block from this txg on. */
static int remove_spill(struct dnode *dn, struct tx *tx)
{
    struct change *ch = change_get(dn, tx);
    struct dbuf *db = dbuf_find(dn, 0, SPILL_BLKID);

    if (!ch)
        return -ENOMEM;
    ch->flags |= CHANGE_SPILL_REMOVE;
    if (!db)
        return 0;
    if (db->dirty && db->dirty->change == ch)
        dirty_release(db->dirty);
    if (db->dirty && !db->dirty->buf && db->buf)
        dirty_set_aside(db->dirty);
    dbuf_set_buf(db, NULL);
    return 0;
}

int dnode_spill_set(struct dnode *dn, const void *data, size_t len, struct tx *tx)
{
    size_t size = P2_ROUND_UP(len, (size_t)512);
    struct dbuf *db;
    struct buf *b;
    int rc;

    if (len > DNODE_SPILL_MAX)
        return -E2BIG;
    objset_announce(dn->os, tx);
    MUTEX_GUARD(&dn->lock);
    if (dn->gone)
        return dn->gone;
    if (len == 0)
        return remove_spill(dn, tx);
    if (dn->bonus_len > capacity(dn, true))
        return -E2BIG;
    b = buf_new(size);
    if (!b)
        return -ENOMEM;
    memcpy(b->data, data, len);
    memset(b->data + len, 0, size - len);
    db = dbuf_get(dn, 0, SPILL_BLKID);
    if (!db) {
        buf_unref(b);
        return -ENOMEM;
    }
    rc = dbuf_make_dirty(db, tx, false, b);
    dbuf_unhold(db);
    return rc;
}
