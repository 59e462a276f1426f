/* Records of pointers and dnodes for authentication codes (spec 09 7.3, 7.4, 8, 12). */
#include "pool/mac.h"

#include <errno.h>

#include "util/bytes.h"
#include "util/err.h"

enum {
    SLOT = 512,
    CORE = 64,
    TYPE_OBJSET = 11,
    TYPE_NONE = 0,
    FLAG_SPILL = 4,
    RECORD_SIZE_V0 = 24,
    /* Of a dnode, 03 2.1. */
    NBLKPTR = 3,
    BONUS_TYPE = 4,
    FLAGS = 7,
    BLOCK_SECTORS = 8,
    BONUS_LEN = 10,
    EXTRA_SLOTS = 12,
    MAX_BLKID = 16,
    USED = 24
};

void mac_of_bp(const struct blkptr *bp, uint8_t mac[16])
{
    for (int i = 0; i < 2; i++)
        put_u64(mac + 8 * i, bp->w[14 + i], bp_big_endian(bp));
}

void mac_nonce_of_bp(const struct blkptr *bp, uint8_t salt[8], uint8_t iv[12])
{
    put_u64(salt, bp->w[4], bp_big_endian(bp));
    put_u64(iv, bp->w[5], bp_big_endian(bp));
    put_u32(iv + 8, (uint32_t)(bp->w[11] >> 32), bp_big_endian(bp));
}

static uint64_t masked(const struct blkptr *bp, unsigned version)
{
    uint64_t prop = bp->w[6];

    if (version > 0 && bp_hole(bp))
        return 0;
    bits_set(&prop, 62, 1, 0); /* dedup */
    bits_set(&prop, 40, 8, 0); /* checksum */
    if (version == 0 || bp_level(bp) != 0)
        bits_set(&prop, 16, 16, 0); /* physical size */
    if (version > 0 && bp_level(bp) != 0) {
        bits_set(&prop, 63, 1, 0); /* byte order */
        bits_set(&prop, 32, 7, 0); /* compression */
    }
    return prop;
}

size_t mac_record(const struct blkptr *bp, unsigned version, uint8_t out[MAC_RECORD_SIZE])
{
    memset(out, 0, MAC_RECORD_SIZE);
    put_le64(out, masked(bp, version));
    if (bp_type(bp) != TYPE_OBJSET)
        mac_of_bp(bp, out + 8);
    return version == 0 ? RECORD_SIZE_V0 : MAC_RECORD_SIZE;
}

/* ---- Dnodes ---- */

/* How a dnode divides its bytes. */
struct shape {
    size_t size, bonus, bonus_size;
    bool spill, encrypted;
};

static bool shape_of(const uint8_t *dn, size_t room, struct shape *s)
{
    size_t tail;

    s->size = SLOT * (dn[0] == TYPE_NONE ? 1 : dn[EXTRA_SLOTS] + (size_t)1);
    s->bonus = CORE + (size_t)BLKPTR_SIZE * dn[NBLKPTR];
    s->spill = dn[FLAGS] & FLAG_SPILL;
    tail = s->spill ? BLKPTR_SIZE : 0;
    if (s->size > room || s->bonus + tail > s->size)
        return false;
    s->bonus_size = s->size - s->bonus - tail;
    s->encrypted = dn[0] != TYPE_NONE && (dn[BONUS_LEN] | dn[BONUS_LEN + 1]) != 0 &&
                   object_type_encrypted(dn[BONUS_TYPE]);
    return true;
}

/* The core and the pointers, as they are stored. */
static size_t structure(const uint8_t *dn, const struct shape *s, bool big, unsigned version,
                        uint8_t *out)
{
    size_t n = CORE;
    uint8_t record[MAC_RECORD_SIZE];
    struct blkptr bp;

    memcpy(out, dn, CORE);
    out[FLAGS] &= FLAG_SPILL;
    memset(out + USED, 0, 8);
    for (unsigned i = 0; i < dn[NBLKPTR] + (s->spill ? 1u : 0u); i++) {
        size_t at = i < dn[NBLKPTR] ? CORE + (size_t)BLKPTR_SIZE * i : s->size - BLKPTR_SIZE;
        size_t len;

        bp_decode(&bp, dn + at, big);
        len = mac_record(&bp, version, record);
        memcpy(out + n, record, len);
        n += len;
    }
    return n;
}

size_t mac_dnode(const uint8_t *dn, bool big, unsigned version, uint8_t out[MAC_DNODE_SIZE])
{
    struct shape s;
    size_t n;

    if (!shape_of(dn, SLOT, &s) || dn[NBLKPTR] > 3)
        return 0;
    n = structure(dn, &s, big, version, out);
    put_le16(out + BLOCK_SECTORS, get_u16(dn + BLOCK_SECTORS, big));
    put_le16(out + BONUS_LEN, get_u16(dn + BONUS_LEN, big));
    put_le64(out + MAX_BLKID, get_u64(dn + MAX_BLKID, big));
    return n;
}

/* One dnode of a block; text_size has counted those before it. */
static void gather_one(const uint8_t *dn, const struct shape *s, bool big, unsigned version,
                       struct mac_dnodes *d)
{
    d->aad_size += structure(dn, s, big, version, d->aad + d->aad_size);
    if (s->encrypted) {
        memcpy(d->text + d->text_size, dn + s->bonus, s->bonus_size);
    } else {
        memcpy(d->aad + d->aad_size, dn + s->bonus, s->bonus_size);
        d->aad_size += s->bonus_size;
    }
}

int mac_dnode_block(uint8_t *block, size_t n, bool big, unsigned version, bool gather,
                    struct mac_dnodes *d)
{
    struct shape s;

    d->text_size = 0;
    if (gather)
        d->aad_size = 0;
    for (size_t at = 0; at < n; at += s.size) {
        uint8_t *dn = block + at;

        if (n - at < SLOT || !shape_of(dn, n - at, &s))
            return err_set(EBADE, "a damaged dnode in an encrypted dataset");
        if (gather)
            gather_one(dn, &s, big, version, d);
        else if (s.encrypted)
            memcpy(dn + s.bonus, d->text + d->text_size, s.bonus_size);
        d->text_size += s.encrypted ? s.bonus_size : 0;
    }
    return 0;
}
