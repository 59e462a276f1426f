/*
 * One leaf block of a fat ZAP (spec 03 13.3-13.6): a header, a hash table of chains, and 24-byte
 * chunks that hold entries and the pieces of their names and values. Every chunk number is checked
 * before use and every chain is walked for at most as many steps as there are chunks, so that a
 * damaged leaf gives -EBADE and nothing worse.
 */
#include <errno.h>

#include "dmu/zap_impl.h"

#define LEAF_MAGIC     0x02AB1EAFu
#define HEADER_SIZE    48
#define CHUNK_SIZE     24
#define ARRAY_BYTES    21
#define CHUNK_ARRAY    251
#define CHUNK_ENTRY    252
#define CHUNK_FREE     253

#define OFF_PREFIX     16
#define OFF_MAGIC      24
#define OFF_NFREE      28
#define OFF_NENTRIES   30
#define OFF_PREFIX_LEN 32
#define OFF_FREELIST   34
#define OFF_FLAGS      36

static unsigned char *slot_at(struct leaf l, unsigned slot)
{
    return l.b + HEADER_SIZE + 2 * slot;
}

static unsigned char *chunk_at(struct leaf l, unsigned chunk)
{
    return l.b + HEADER_SIZE + 2 * leaf_slots(l.bs) + CHUNK_SIZE * chunk;
}

static unsigned slot_of(struct leaf l, uint64_t hash)
{
    unsigned shift = 64 - (l.bs - 5) - leaf_prefix_len(l);
    return hash >> shift & (leaf_slots(l.bs) - 1);
}

uint64_t leaf_prefix(struct leaf l)
{
    return load64(l.b + OFF_PREFIX);
}
unsigned leaf_prefix_len(struct leaf l)
{
    return load16(l.b + OFF_PREFIX_LEN);
}
void leaf_set_prefix(struct leaf l, uint64_t prefix, unsigned len)
{
    store64(l.b + OFF_PREFIX, prefix);
    store16(l.b + OFF_PREFIX_LEN, len);
}
bool leaf_sorted(struct leaf l)
{
    return l.b[OFF_FLAGS] & 1;
}
unsigned leaf_free_count(struct leaf l)
{
    return load16(l.b + OFF_NFREE);
}
unsigned leaf_entry_count(struct leaf l)
{
    return load16(l.b + OFF_NENTRIES);
}

void leaf_init(struct leaf l, bool sorted)
{
    unsigned chunks = leaf_chunks(l.bs);
    memset(l.b, 0, 1u << l.bs);
    store64(l.b, ZAP_TYPE_LEAF);
    store32(l.b + OFF_MAGIC, LEAF_MAGIC);
    store16(l.b + OFF_NFREE, chunks);
    l.b[OFF_FLAGS] = sorted;
    memset(slot_at(l, 0), 0xff, 2 * leaf_slots(l.bs));
    for (unsigned i = 0; i < chunks; i++) {
        chunk_at(l, i)[0] = CHUNK_FREE;
        store16(chunk_at(l, i) + 22, i + 1 < chunks ? i + 1 : LEAF_NONE);
    }
}

int leaf_check(struct leaf l)
{
    unsigned chunks = leaf_chunks(l.bs), len = leaf_prefix_len(l);
    if (load64(l.b) != ZAP_TYPE_LEAF || load32(l.b + OFF_MAGIC) != LEAF_MAGIC ||
        len > FAT_TABLE_MAX || len + l.bs - 5 > 64 || leaf_free_count(l) > chunks ||
        leaf_entry_count(l) > chunks || leaf_prefix(l) >> len != 0)
        return -EBADE;
    return 0;
}

unsigned leaf_need(size_t name_bytes, size_t value_bytes)
{
    return 1 + (name_bytes + ARRAY_BYTES - 1) / ARRAY_BYTES +
           (value_bytes + ARRAY_BYTES - 1) / ARRAY_BYTES;
}

static bool valid(struct leaf l, unsigned chunk, unsigned type)
{
    return chunk < leaf_chunks(l.bs) && chunk_at(l, chunk)[0] == type;
}

int leaf_entry(struct leaf l, unsigned chunk, struct leaf_entry *e)
{
    if (!valid(l, chunk, CHUNK_ENTRY))
        return -EBADE;
    const unsigned char *c = chunk_at(l, chunk);
    e->chunk = chunk;
    e->size = c[1];
    e->next = load16(c + 2);
    e->name = load16(c + 4);
    e->name_ints = load16(c + 6);
    e->value = load16(c + 8);
    e->value_ints = load16(c + 10);
    e->cd = load32(c + 12);
    e->hash = load64(c + 16);
    if ((e->size != 1 && e->size != 2 && e->size != 4 && e->size != 8) ||
        e->value_ints * e->size > ZAP_VALUE_MAX || e->name_ints > ZAP_NAME_MAX || e->name_ints == 0)
        return -EBADE;
    return 0;
}

/* ---- Arrays ---- */

int leaf_get_array(struct leaf l, unsigned first, unsigned char *out, size_t n)
{
    for (unsigned chunk = first; n > 0;) {
        if (!valid(l, chunk, CHUNK_ARRAY))
            return -EBADE;
        const unsigned char *c = chunk_at(l, chunk);
        size_t part = MIN(n, ARRAY_BYTES);
        memcpy(out, c + 1, part);
        out += part;
        n -= part;
        chunk = load16(c + 22);
    }
    return 0;
}

/* 1 if the array holds exactly these bytes, 0 if not, -EBADE. */
static int array_equal(struct leaf l, unsigned first, const unsigned char *bytes, size_t n)
{
    for (unsigned chunk = first; n > 0;) {
        if (!valid(l, chunk, CHUNK_ARRAY))
            return -EBADE;
        const unsigned char *c = chunk_at(l, chunk);
        size_t part = MIN(n, ARRAY_BYTES);
        if (memcmp(bytes, c + 1, part) != 0)
            return 0;
        bytes += part;
        n -= part;
        chunk = load16(c + 22);
    }
    return 1;
}

/* Are the first n chunks of the free list sound? */
static int check_free(struct leaf l, unsigned n)
{
    if (leaf_free_count(l) < n)
        return -ENOSPC;
    unsigned chunk = load16(l.b + OFF_FREELIST);
    for (; n > 0; n--) {
        if (!valid(l, chunk, CHUNK_FREE))
            return -EBADE;
        chunk = load16(chunk_at(l, chunk) + 22);
    }
    return 0;
}

static unsigned take_chunk(struct leaf l, unsigned type)
{
    unsigned chunk = load16(l.b + OFF_FREELIST);
    unsigned char *c = chunk_at(l, chunk);
    store16(l.b + OFF_FREELIST, load16(c + 22));
    store16(l.b + OFF_NFREE, leaf_free_count(l) - 1);
    memset(c, 0, CHUNK_SIZE);
    c[0] = type;
    return chunk;
}

static void give_chunk(struct leaf l, unsigned chunk)
{
    unsigned char *c = chunk_at(l, chunk);
    memset(c, 0, CHUNK_SIZE);
    c[0] = CHUNK_FREE;
    store16(c + 22, load16(l.b + OFF_FREELIST));
    store16(l.b + OFF_FREELIST, chunk);
    store16(l.b + OFF_NFREE, leaf_free_count(l) + 1);
}

static unsigned put_array(struct leaf l, const unsigned char *bytes, size_t n)
{
    unsigned first = LEAF_NONE, last = LEAF_NONE;
    while (n > 0) {
        unsigned chunk = take_chunk(l, CHUNK_ARRAY);
        size_t part = MIN(n, ARRAY_BYTES);
        memcpy(chunk_at(l, chunk) + 1, bytes, part);
        store16(chunk_at(l, chunk) + 22, LEAF_NONE);
        if (last == LEAF_NONE)
            first = chunk;
        else
            store16(chunk_at(l, last) + 22, chunk);
        last = chunk;
        bytes += part;
        n -= part;
    }
    return first;
}

static int check_array(struct leaf l, unsigned first, size_t n)
{
    for (unsigned chunk = first; n > 0; n -= MIN(n, ARRAY_BYTES)) {
        if (!valid(l, chunk, CHUNK_ARRAY))
            return -EBADE;
        chunk = load16(chunk_at(l, chunk) + 22);
    }
    return 0;
}

static void free_array(struct leaf l, unsigned first, size_t n)
{
    for (unsigned chunk = first; n > 0; n -= MIN(n, ARRAY_BYTES)) {
        if (!valid(l, chunk, CHUNK_ARRAY))
            return; /* a chain that bites its own tail */
        unsigned next = load16(chunk_at(l, chunk) + 22);
        give_chunk(l, chunk);
        chunk = next;
    }
}

/* ---- Values: big-endian integers ---- */

static void encode(const struct zap_value *v, unsigned char *out)
{
    const unsigned char *in = v->data;
    for (size_t i = 0; i < v->count; i++, in += v->size, out += v->size) {
        if (v->size == 8)
            put_be64(out, load64(in));
        else if (v->size == 4)
            put_be32(out, load32(in));
        else if (v->size == 2)
            put_be16(out, load16(in));
        else
            *out = *in;
    }
}

static uint64_t decode_one(const unsigned char *p, unsigned size)
{
    return size == 8 ? get_be64(p) : size == 4 ? get_be32(p) : size == 2 ? get_be16(p) : *p;
}

static void store_one(unsigned char *p, unsigned size, uint64_t v)
{
    if (size == 8)
        store64(p, v);
    else if (size == 4)
        store32(p, v);
    else if (size == 2)
        store16(p, v);
    else
        *p = v;
}

int leaf_get_value(struct leaf l, const struct leaf_entry *e, unsigned size, size_t count,
                   void *out)
{
    unsigned char raw[ZAP_VALUE_MAX];
    unsigned char *to = out;
    if (e->size > size || e->value_ints > count)
        return -EINVAL;
    int rc = leaf_get_array(l, e->value, raw, e->value_ints * e->size);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < e->value_ints; i++)
        store_one(to + i * size, size, decode_one(raw + i * e->size, e->size));
    memset(to + e->value_ints * size, 0, (count - e->value_ints) * size);
    return 0;
}

int leaf_set_value(struct leaf l, const struct leaf_entry *e, const struct zap_value *v)
{
    unsigned char raw[ZAP_VALUE_MAX];
    size_t had = e->value_ints * e->size, bytes = v->size * v->count;
    unsigned gives = leaf_need(0, had), takes = leaf_need(0, bytes);
    int rc = check_array(l, e->value, had);
    if (rc == 0)
        rc = check_free(l, takes > gives ? takes - gives : 0);
    if (rc < 0)
        return rc;
    free_array(l, e->value, had);
    rc = check_free(l, takes - 1);
    if (rc < 0)
        return -EBADE;
    encode(v, raw);
    unsigned char *c = chunk_at(l, e->chunk);
    c[1] = v->size;
    store16(c + 8, put_array(l, raw, bytes));
    store16(c + 10, v->count);
    return 0;
}

/* ---- Chains ---- */

static size_t name_bytes(const struct leaf_entry *e, bool word_keys)
{
    return word_keys ? 8 * MIN(e->name_ints, ZAP_WORDS_MAX) : e->name_ints;
}

int leaf_find(struct leaf l, const struct zap_key *k, bool word_keys, struct leaf_entry *e,
              unsigned char **ref)
{
    unsigned char *at = slot_at(l, slot_of(l, k->hash));
    for (unsigned steps = leaf_chunks(l.bs); load16(at) != LEAF_NONE; steps--) {
        if (steps == 0)
            return -EBADE;
        int rc = leaf_entry(l, load16(at), e);
        if (rc < 0)
            return rc;
        if (e->hash == k->hash && e->name_ints == k->ints) {
            rc = array_equal(l, e->name, k->bytes, name_bytes(e, word_keys));
            *ref = at;
            if (rc != 0)
                return rc < 0 ? rc : 0;
        }
        at = chunk_at(l, e->chunk) + 2;
    }
    return -ENOENT;
}

static bool before(uint64_t h1, uint32_t cd1, uint64_t h2, uint32_t cd2)
{
    return h1 < h2 || (h1 == h2 && cd1 < cd2);
}

int leaf_next(struct leaf l, uint64_t hash, uint32_t cd, struct leaf_entry *best)
{
    unsigned len = leaf_prefix_len(l), slots = leaf_slots(l.bs);
    uint64_t start = len ? leaf_prefix(l) << (64 - len) : 0;
    bool found = false;
    for (unsigned slot = hash > start ? slot_of(l, hash) : 0; slot < slots && !found; slot++) {
        unsigned steps = leaf_chunks(l.bs);
        for (unsigned chunk = load16(slot_at(l, slot)); chunk != LEAF_NONE; steps--) {
            struct leaf_entry e;
            int rc = steps > 0 ? leaf_entry(l, chunk, &e) : -EBADE;
            if (rc < 0)
                return rc;
            if (!before(e.hash, e.cd, hash, cd) &&
                (!found || before(e.hash, e.cd, best->hash, best->cd))) {
                *best = e;
                found = true;
            }
            chunk = e.next;
        }
    }
    return found ? 0 : -ENOENT;
}

int leaf_free_cd(struct leaf l, uint64_t hash, uint32_t *cd)
{
    *cd = 0;
    for (bool taken = true; taken;) {
        unsigned steps = leaf_chunks(l.bs);
        taken = false;
        for (unsigned chunk = load16(slot_at(l, slot_of(l, hash))); chunk != LEAF_NONE; steps--) {
            struct leaf_entry e;
            int rc = steps > 0 ? leaf_entry(l, chunk, &e) : -EBADE;
            if (rc < 0)
                return rc;
            if (e.hash == hash && e.cd == *cd) {
                (*cd)++;
                taken = true;
            }
            chunk = e.next;
        }
    }
    return 0;
}

/* Puts an entry chunk into its chain, behind all with a smaller or equal cd. */
static int link_entry(struct leaf l, unsigned chunk)
{
    unsigned char *c = chunk_at(l, chunk);
    uint32_t cd = load32(c + 12);
    unsigned char *at = slot_at(l, slot_of(l, load64(c + 16)));
    for (unsigned steps = leaf_chunks(l.bs); load16(at) != LEAF_NONE; steps--) {
        struct leaf_entry e;
        int rc = steps > 0 ? leaf_entry(l, load16(at), &e) : -EBADE;
        if (rc < 0)
            return rc;
        if (e.cd > cd)
            break;
        at = chunk_at(l, e.chunk) + 2;
    }
    store16(c + 2, load16(at));
    store16(at, chunk);
    return 0;
}

int leaf_insert(struct leaf l, const struct zap_key *k, uint32_t cd, const struct zap_value *v)
{
    unsigned char raw[ZAP_VALUE_MAX];
    size_t bytes = v->size * v->count;
    int rc = check_free(l, leaf_need(k->size, bytes));
    if (rc < 0)
        return rc;
    encode(v, raw);
    unsigned chunk = take_chunk(l, CHUNK_ENTRY);
    unsigned char *c = chunk_at(l, chunk);
    c[1] = v->size;
    store16(c + 4, put_array(l, k->bytes, k->size));
    store16(c + 6, k->ints);
    store16(c + 8, put_array(l, raw, bytes));
    store16(c + 10, v->count);
    store32(c + 12, cd);
    store64(c + 16, k->hash);
    rc = link_entry(l, chunk);
    if (rc == 0)
        store16(l.b + OFF_NENTRIES, leaf_entry_count(l) + 1);
    return rc;
}

int leaf_remove(struct leaf l, const struct leaf_entry *e, unsigned char *ref, bool word_keys)
{
    size_t name = name_bytes(e, word_keys), value = e->value_ints * e->size;
    int rc = check_array(l, e->name, name);
    if (rc == 0)
        rc = check_array(l, e->value, value);
    if (rc < 0 || leaf_entry_count(l) == 0)
        return -EBADE;
    store16(ref, e->next);
    free_array(l, e->value, value);
    free_array(l, e->name, name);
    give_chunk(l, e->chunk);
    store16(l.b + OFF_NENTRIES, leaf_entry_count(l) - 1);
    return 0;
}

/* ---- Splitting ---- */

static int move_array(struct leaf src, struct leaf dst, unsigned first, size_t n, unsigned *to)
{
    unsigned char raw[ZAP_VALUE_MAX];
    int rc = leaf_get_array(src, first, raw, n);
    if (rc == 0)
        rc = check_free(dst, leaf_need(0, n) - 1);
    if (rc < 0)
        return -EBADE;
    *to = put_array(dst, raw, n);
    free_array(src, first, n);
    return 0;
}

static int move_entry(struct leaf src, struct leaf dst, const struct leaf_entry *e, bool word_keys)
{
    unsigned name, value;
    int rc = check_free(dst, 1);
    if (rc < 0)
        return -EBADE;
    unsigned chunk = take_chunk(dst, CHUNK_ENTRY);
    rc = move_array(src, dst, e->name, name_bytes(e, word_keys), &name);
    if (rc == 0)
        rc = move_array(src, dst, e->value, e->value_ints * e->size, &value);
    if (rc < 0)
        return rc;
    unsigned char *c = chunk_at(dst, chunk);
    memcpy(c, chunk_at(src, e->chunk), CHUNK_SIZE);
    store16(c + 4, name);
    store16(c + 8, value);
    give_chunk(src, e->chunk);
    store16(dst.b + OFF_NENTRIES, leaf_entry_count(dst) + 1);
    return link_entry(dst, chunk);
}

int leaf_split(struct leaf src, struct leaf dst, bool word_keys)
{
    unsigned len = leaf_prefix_len(src), kept = 0, total = leaf_entry_count(src);
    uint64_t prefix = leaf_prefix(src);
    leaf_set_prefix(src, prefix << 1, len + 1);
    leaf_set_prefix(dst, prefix << 1 | 1, len + 1);
    /* The slot bits have moved by one: all chains are built anew. */
    memset(slot_at(src, 0), 0xff, 2 * leaf_slots(src.bs));
    for (unsigned chunk = 0; chunk < leaf_chunks(src.bs); chunk++) {
        struct leaf_entry e;
        if (chunk_at(src, chunk)[0] != CHUNK_ENTRY)
            continue;
        int rc = leaf_entry(src, chunk, &e);
        if (rc < 0)
            return rc;
        if (e.hash >> (63 - len) & 1) {
            rc = move_entry(src, dst, &e, word_keys);
        } else {
            rc = link_entry(src, chunk);
            kept++;
        }
        if (rc < 0)
            return rc;
    }
    store16(src.b + OFF_NENTRIES, kept);
    return kept + leaf_entry_count(dst) == total ? 0 : -EBADE;
}
