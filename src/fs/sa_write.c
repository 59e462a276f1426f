/* A set of attributes into bonus and spill (spec 06 4.4-4.6). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/sa_impl.h"

#define HOST         BYTES_HOST_BIG
#define BLKPTR_BYTES 128 /* of the spill pointer */

static bool variable(const struct sa_table *t, const struct sa_value *v)
{
    return t->attrs[v->attr].length == 0;
}

/* The rule of 06 4.5, step by step. */
void sa_place(const struct sa_table *t, const struct sa_set *s, size_t capacity,
              struct sa_place *out)
{
    size_t total = 0, header = SA_HEADER_SIZE;
    unsigned variables = 0, split = s->n;
    bool spill = false;
    for (unsigned i = 0; i < s->n; i++) {
        bool later = variable(t, &s->v[i]) && variables++ > 0;
        size_t wanted = later ? header + 2 : header;
        total = P2_ROUND_UP(total, (size_t)8) + s->v[i].length;
        if (split == s->n && total + P2_ROUND_UP(wanted, (size_t)8) > capacity - BLKPTR_BYTES)
            split = i;
        if (later && wanted + total < capacity) {
            header = wanted;
        } else if (later) {
            spill = true;
            split = MIN(split, i);
        }
        if (total + P2_ROUND_UP(header, (size_t)8) > capacity)
            spill = true;
    }
    out->split = spill ? split : s->n;
    out->bonus_length = spill ? capacity - BLKPTR_BYTES : total + P2_ROUND_UP(header, (size_t)8);
}

static size_t header_size(const struct sa_table *t, const struct sa_value *v, unsigned n)
{
    unsigned variables = 0;
    for (unsigned i = 0; i < n; i++)
        variables += variable(t, &v[i]);
    return variables <= 1 ? SA_HEADER_SIZE : SA_HEADER_SIZE + ROUND_UP((variables - 1) * 2, 8);
}

static size_t encoded_size(const struct sa_table *t, const struct sa_value *v, unsigned n)
{
    size_t total = header_size(t, v, n);
    for (unsigned i = 0; i < n; i++)
        total = P2_ROUND_UP(total, (size_t)8) + v[i].length;
    return total;
}

/* Writes header and values; out is zeroed. */
static int encode(struct sa_table *t, const struct sa_value *v, unsigned n, unsigned char *out,
                  struct tx *tx)
{
    uint16_t attrs[SA_ATTRS_MAX] = {0};
    unsigned layout, variables = 0;
    size_t at = header_size(t, v, n);
    for (unsigned i = 0; i < n; i++)
        attrs[i] = v[i].attr;
    int rc = sa_layout_number(t, attrs, n, &layout, tx);
    if (rc < 0)
        return rc;
    put_u32(out, SA_MAGIC, HOST);
    put_u16(out + 4, layout | at / 8 << 10, HOST);
    for (unsigned i = 0; i < n; i++) {
        if (variable(t, &v[i]))
            put_u16(out + 6 + 2 * variables++, v[i].length, HOST);
        at = P2_ROUND_UP(at, (size_t)8);
        memcpy(out + at, v[i].data, v[i].length);
        at += v[i].length;
    }
    return 0;
}

/* The fixed prefix first (06 4.4), the project behind it; the others keep their order. */
static void put_in_order(const struct sa_table *t, struct sa_set *s)
{
    struct sa_value v[SA_ATTRS_MAX];
    unsigned n = 0;
    for (unsigned k = 0; k <= SA_PREFIX_ATTRS; k++) {
        unsigned attr = k < SA_PREFIX_ATTRS ? sa_prefix[k] : t->number[SA_PROJID];
        for (unsigned i = 0; i < s->n; i++) {
            if (s->v[i].attr == attr && s->v[i].data) {
                v[n++] = s->v[i];
                s->v[i].data = NULL;
            }
        }
    }
    for (unsigned i = 0; i < s->n; i++)
        if (s->v[i].data)
            v[n++] = s->v[i];
    memcpy(s->v, v, n * sizeof v[0]);
    s->n = n;
}

/* What an object is going to have. */
struct image {
    unsigned char bonus[DNODE_MAX_SIZE];
    size_t bonus_length;
    unsigned char *spill; /* NULL: none */
    size_t spill_length;
};

static int encode_spill(struct sa_table *t, const struct sa_value *v, unsigned n, struct image *im,
                        struct tx *tx)
{
    im->spill_length = P2_ROUND_UP(encoded_size(t, v, n), (size_t)512);
    if (im->spill_length > DNODE_SPILL_MAX)
        return -ENOSPC;
    im->spill = calloc(1, im->spill_length);
    return im->spill ? encode(t, v, n, im->spill, tx) : -ENOMEM;
}

/* Writes both parts or, when memory is short, none. */
static int install(struct dnode *dn, const struct image *im, bool had_spill, struct tx *tx)
{
    unsigned char old[DNODE_MAX_SIZE];
    size_t length;
    uint8_t type = dnode_bonus_type(dn);
    int rc = dnode_bonus_get(dn, old, sizeof old, &length);
    /* First: the bonus may need its room. An old znode has no spill; if there is one all the same,
     * nobody has read it, and with the new bonus it would be read. */
    if (rc == 0 && !im->spill && (had_spill || type == OT_ZNODE))
        rc = dnode_spill_set(dn, NULL, 0, tx);
    if (rc == 0)
        rc = dnode_bonus_set(dn, im->bonus, im->bonus_length, OT_SA, tx);
    if (rc < 0 || !im->spill)
        return rc;
    rc = dnode_spill_set(dn, im->spill, im->spill_length, tx);
    if (rc < 0)
        dnode_bonus_set(dn, old, length, type, tx); /* the dnode is dirty already: cannot fail */
    return rc;
}

int sa_write(struct sa_table *t, struct dnode *dn, struct sa_set *s, struct tx *tx)
{
    struct sa_place p;
    struct image im;
    put_in_order(t, s);
    sa_place(t, s, dnode_bonus_capacity(dn, false), &p);
    memset(im.bonus, 0, p.bonus_length);
    im.bonus_length = p.bonus_length;
    im.spill = NULL;
    int rc = encode(t, s->v, p.split, im.bonus, tx);
    if (rc == 0 && p.split < s->n)
        rc = encode_spill(t, s->v + p.split, s->n - p.split, &im, tx);
    if (rc == 0)
        rc = install(dn, &im, s->spilled, tx);
    free(im.spill);
    if (rc < 0)
        return rc;
    s->spilled = p.split < s->n;
    s->header = header_size(t, s->v, p.split);
    s->standard = true;
    return 0;
}
