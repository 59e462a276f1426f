/* An object's attributes out of its bonus buffer and spill block (spec 06 4.2, 4.7, 4.8). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/sa_impl.h"
#include "util/err.h"

#define HOST BYTES_HOST_BIG

static int damaged(const struct dnode *dn, const char *what)
{
    return err_set(EBADE, "object %llu: its attributes are damaged (%s)",
                   (unsigned long long)dnode_object(dn), what);
}

void sa_set_clear(struct sa_set *s)
{
    if (s->bonus != s->inline_bonus)
        free(s->bonus);
    free(s->spill);
    s->bonus = s->spill = NULL;
    s->n = 0;
}

/* ---- Foreign byte order: swapped in our copy ---- */

static void swap_words(unsigned char *p, size_t n, unsigned size)
{
    for (; n >= size; p += size, n -= size) {
        if (size == 8)
            put_u64(p, __builtin_bswap64(get_u64(p, HOST)), HOST);
        else if (size == 4)
            put_u32(p, __builtin_bswap32(get_u32(p, HOST)), HOST);
        else
            put_u16(p, __builtin_bswap16(get_u16(p, HOST)), HOST);
    }
}

/* Packed ACEs (06 10.2). */
static void swap_acl(unsigned char *p, size_t n)
{
    while (n >= 8) {
        swap_words(p, 4, 2);
        swap_words(p + 4, 4, 4);
        unsigned type = get_u16(p, HOST), who = get_u16(p + 2, HOST) & 0x7040;
        bool short_form = who == 0x1000 || who == 0x2040 || who == 0x4000;
        size_t size = short_form ? 8 : type >= 5 && type <= 8 ? 48 : 16;
        if (size > n)
            return;
        if (!short_form)
            swap_words(p + 8, 8, 8);
        p += size;
        n -= size;
    }
}

static void swap_value(unsigned swap, unsigned char *p, size_t n)
{
    static const unsigned char size[] = {[SA_SWAP_U64] = 8, [SA_SWAP_U32] = 4, [SA_SWAP_U16] = 2};
    if (swap == SA_SWAP_ACL)
        swap_acl(p, n);
    else if (swap != SA_SWAP_BYTES)
        swap_words(p, n, size[swap]);
}

/* ---- The SA form ---- */

struct header {
    bool foreign;
    unsigned layout, size;
};

static int read_header(unsigned char *b, size_t n, struct header *h)
{
    if (n < SA_HEADER_SIZE)
        return -EBADE;
    uint32_t magic = get_u32(b, HOST);
    h->foreign = magic == __builtin_bswap32(SA_MAGIC);
    if (!h->foreign && magic != SA_MAGIC)
        return magic == 0 ? -ENOENT : -EBADE;
    unsigned info = get_u16(b + 4, HOST);
    if (h->foreign)
        info = __builtin_bswap16(info);
    h->layout = info & 0x3ff;
    h->size = (info >> 10) * 8;
    if (h->size < SA_HEADER_SIZE || h->size > n)
        return -EBADE;
    if (h->foreign)
        swap_words(b + 6, h->size - 6, 2);
    return 0;
}

static unsigned header_size(unsigned variable)
{
    return variable <= 1 ? SA_HEADER_SIZE : SA_HEADER_SIZE + ROUND_UP((variable - 1) * 2, 8);
}

/* Appends the values of one buffer to the set. */
static int parse(struct sa_table *t, struct sa_set *s, unsigned char *b, size_t n,
                 const struct header *h)
{
    uint16_t attrs[SA_ATTRS_MAX];
    unsigned count, variable = 0;
    size_t at = h->size;
    int rc = sa_layout_get(t, h->layout, attrs, &count);
    if (rc < 0)
        return rc;
    if (s->n + count > SA_ATTRS_MAX)
        return -EBADE;
    for (unsigned i = 0; i < count; i++) {
        const struct sa_attr *a = &t->attrs[attrs[i]];
        size_t length = a->length;
        if (length == 0) {
            if (6 + 2 * variable + 2 > h->size)
                return -EBADE;
            length = get_u16(b + 6 + 2 * variable++, HOST);
        }
        at = P2_ROUND_UP(at, (size_t)8);
        if (at > n || length > n - at)
            return -EBADE;
        if (h->foreign)
            swap_value(a->swap, b + at, length);
        s->v[s->n++] = (struct sa_value){attrs[i], length, b + at};
        at += length;
    }
    return h->size == header_size(variable) ? 0 : -EBADE;
}

static bool has_prefix(const struct sa_set *s)
{
    if (s->n < SA_PREFIX_ATTRS)
        return false;
    for (unsigned i = 0; i < SA_PREFIX_ATTRS; i++)
        if (s->v[i].attr != sa_prefix[i])
            return false;
    return true;
}

static int parse_bonus(struct sa_table *t, struct dnode *dn, struct sa_set *s, size_t n)
{
    struct header h;
    int rc = read_header(s->bonus, n, &h);
    if (rc == -ENOENT)
        return rc;
    if (rc == 0)
        rc = parse(t, s, s->bonus, n, &h);
    if (rc < 0)
        return damaged(dn, "bonus");
    s->header = h.size;
    s->standard = !h.foreign && has_prefix(s);
    return 0;
}

static int parse_spill(struct sa_table *t, struct dnode *dn, struct sa_set *s)
{
    struct header h;
    size_t n;
    int rc = dnode_spill_get(dn, &s->spill, &n);
    if (rc < 0 || !s->spill)
        return rc;
    s->spilled = true;
    rc = read_header(s->spill, n, &h);
    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = parse(t, s, s->spill, n, &h);
    return rc < 0 ? damaged(dn, "spill block") : 0;
}

/* ---- The old znode: layout 0 ---- */

#define ZNODE_SIZE           264
#define ZNODE_XATTR          104
#define ZNODE_RDEV           112
#define ZNODE_SYMLINK        264
#define ZNODE_FLAGS          120
#define ZNODE_MODE           72
#define ZNODE_LENGTH         80
#define ZNODE_ACL_OBJECT     176
#define FLAG_BONUS_SCANSTAMP 0x80

static void add(struct sa_set *s, unsigned attr, const unsigned char *p, unsigned length)
{
    s->v[s->n++] = (struct sa_value){attr, length, p};
}

static void add_tail(struct sa_table *t, struct sa_set *s, size_t n)
{
    const unsigned char *b = s->bonus;
    uint64_t length = get_u64(b + ZNODE_LENGTH, HOST), mode = get_u64(b + ZNODE_MODE, HOST);
    unsigned type = mode >> 12 & 15;
    if (type == 10 && length <= n - ZNODE_SYMLINK)
        add(s, t->number[SA_SYMLINK], b + ZNODE_SYMLINK, length);
    else if (get_u64(b + ZNODE_FLAGS, HOST) & FLAG_BONUS_SCANSTAMP && n >= ZNODE_SIZE + 32)
        add(s, t->number[SA_SCANSTAMP], b + ZNODE_SIZE, 32);
    if (type == 2 || type == 6)
        add(s, SA_RDEV, b + ZNODE_RDEV, 8);
    if (get_u64(b + ZNODE_XATTR, HOST) != 0)
        add(s, SA_XATTR, b + ZNODE_XATTR, 8);
}

static int parse_legacy(struct sa_table *t, struct dnode *dn, struct sa_set *s, size_t n)
{
    static const uint16_t offset[SA_PREFIX_ATTRS] = {72,  80, 64, 128, 136, 88,
                                                     120, 0,  16, 32,  48,  96};
    if (n < ZNODE_SIZE)
        return damaged(dn, "znode");
    for (unsigned i = 0; i < SA_PREFIX_ATTRS; i++)
        add(s, sa_prefix[i], s->bonus + offset[i], t->attrs[sa_prefix[i]].length);
    s->legacy_acl = get_u64(s->bonus + ZNODE_ACL_OBJECT, HOST);
    add_tail(t, s, n);
    return 0;
}

static int get_bonus(struct dnode *dn, struct sa_set *s, size_t *n)
{
    s->bonus = s->inline_bonus;
    int rc = dnode_bonus_get(dn, s->bonus, sizeof s->inline_bonus, n);
    if (rc != -ERANGE)
        return rc;
    s->bonus = malloc(DNODE_MAX_SIZE);
    return s->bonus ? dnode_bonus_get(dn, s->bonus, DNODE_MAX_SIZE, n) : -ENOMEM;
}

int sa_read(struct sa_table *t, struct dnode *dn, struct sa_set *s)
{
    size_t n;
    s->n = 0;
    s->spilled = s->standard = false;
    s->spill = NULL;
    s->legacy_acl = 0;
    s->header = SA_HEADER_SIZE;
    int rc = get_bonus(dn, s, &n);
    if (rc < 0)
        return rc;
    if (dnode_bonus_type(dn) == OT_ZNODE)
        return parse_legacy(t, dn, s, n);
    if (dnode_bonus_type(dn) != OT_SA)
        return -ENOENT;
    if (n > 0)
        rc = parse_bonus(t, dn, s, n);
    if (rc == 0)
        rc = parse_spill(t, dn, s);
    return rc == 0 && s->n == 0 ? -ENOENT : rc;
}

/* ---- Looking at and changing a set ---- */

const struct sa_value *sa_set_get(const struct sa_table *t, const struct sa_set *s, enum sa_id id)
{
    for (unsigned i = 0; i < s->n && t->number[id] != SA_NO_NUMBER; i++)
        if (s->v[i].attr == t->number[id])
            return &s->v[i];
    return NULL;
}

int sa_set_put(struct sa_table *t, struct sa_set *s, enum sa_id id, const void *data, size_t length)
{
    struct sa_value *v = (struct sa_value *)sa_set_get(t, s, id);
    if (t->number[id] == SA_NO_NUMBER)
        return -ENOTSUP;
    if (length > SA_VALUE_MAX || (!v && s->n >= SA_ATTRS_MAX))
        return -ENOSPC;
    if (!v)
        v = &s->v[s->n++];
    *v = (struct sa_value){t->number[id], length, data};
    return 0;
}

void sa_set_remove(struct sa_table *t, struct sa_set *s, enum sa_id id)
{
    struct sa_value *v = (struct sa_value *)sa_set_get(t, s, id);
    if (v)
        memmove(v, v + 1, (--s->n - (v - s->v)) * sizeof *v);
}
