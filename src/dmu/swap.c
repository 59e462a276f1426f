/* Blocks written by a host of the other byte order, brought into ours (03 2.7, 3.3, 11.5). */
#include "dmu/dmu_impl.h"
#include "dmu/zap.h"

enum swap_class {
    SWAP_BYTES, SWAP_16, SWAP_32, SWAP_64, SWAP_ZAP, SWAP_DNODE, SWAP_OBJSET, SWAP_ZNODE,
    SWAP_OLDACL, SWAP_ACL
};

static enum swap_class swap_class(uint8_t type)
{
    static const uint8_t classes[54] = {
        SWAP_BYTES, SWAP_ZAP, SWAP_64, SWAP_BYTES, SWAP_64, SWAP_64, SWAP_64, SWAP_64, SWAP_64,
        SWAP_64, SWAP_DNODE, SWAP_OBJSET, SWAP_64, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_64, SWAP_ZNODE,
        SWAP_OLDACL, SWAP_BYTES, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_BYTES, SWAP_ZAP, SWAP_BYTES,
        SWAP_64, SWAP_ZAP, SWAP_ZAP, SWAP_BYTES, SWAP_64, SWAP_ZAP, SWAP_ZAP, SWAP_ACL, SWAP_BYTES,
        SWAP_BYTES, SWAP_64, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP,
        SWAP_BYTES, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_ZAP, SWAP_BYTES, SWAP_ZAP, SWAP_64, SWAP_ZAP,
        SWAP_64,
    };

    if (type & 0x80)
        return (type & 0x1f) <= SWAP_ACL ? (enum swap_class)(type & 0x1f) : SWAP_BYTES;
    return type < 54 ? (enum swap_class)classes[type] : SWAP_BYTES;
}

static void swap16(unsigned char *p)
{
    put_le16(p, get_be16(p));
}
static void swap32(unsigned char *p)
{
    put_le32(p, get_be32(p));
}
static void swap64(unsigned char *p)
{
    put_le64(p, get_be64(p));
}

static void swap_words(unsigned char *p, size_t n)
{
    for (size_t i = 0; i + 8 <= n; i += 8)
        swap64(p + i);
}

/* ---- File system structures of old pools (06 4.8, 10.2) ---- */

static void swap_old_aces(unsigned char *p, size_t n)
{
    for (size_t i = 0; i + 12 <= n; i += 12) {
        swap32(p + i);
        swap32(p + i + 4);
        swap16(p + i + 8);
        swap16(p + i + 10);
    }
}

/* owner@, group@ and everyone@ have no id: 8 bytes; object ACEs have 48, all others 16. */
static size_t ace_size(uint16_t type, uint16_t flags)
{
    uint16_t who = flags & 0x7040;

    if (who == 0x1000 || who == 0x2040 || who == 0x4000)
        return 8;
    return type >= 5 && type <= 8 ? 48 : 16;
}

static void swap_aces(unsigned char *p, size_t n)
{
    size_t size;

    for (size_t i = 0; i + 8 <= n; i += size) {
        swap16(p + i);
        swap16(p + i + 2);
        swap32(p + i + 4);
        size = ace_size(host16(p + i), host16(p + i + 2));
        if (size > 8 && i + 16 <= n)
            swap64(p + i + 8);
    }
}

static void swap_znode(unsigned char *p, size_t n)
{
    if (n < 264)
        return;
    swap_words(p, 184);
    swap32(p + 184);
    swap16(p + 188);
    swap16(p + 190);
    if (host16(p + 188) == 0)
        swap_old_aces(p + 192, 72);
    else
        swap_aces(p + 192, 72);
}

/* ---- Dnodes ---- */

static void swap_class_bytes(enum swap_class class, unsigned char *p, size_t n)
{
    switch (class) {
    case SWAP_16:
        for (size_t i = 0; i + 2 <= n; i += 2)
            swap16(p + i);
        break;
    case SWAP_32:
        for (size_t i = 0; i + 4 <= n; i += 4)
            swap32(p + i);
        break;
    case SWAP_64:
        swap_words(p, n);
        break;
    case SWAP_ZAP:
        zap_byteswap(p, n);
        break;
    case SWAP_ZNODE:
        swap_znode(p, n);
        break;
    case SWAP_OLDACL:
        swap_old_aces(p, n);
        break;
    case SWAP_ACL:
        swap_aces(p, n);
        break;
    default:
        break;
    }
}

void bonus_swap(uint8_t type, unsigned char *p, size_t n)
{
    swap_class_bytes(swap_class(type), p, n);
}

void dnode_image_swap(unsigned char *im)
{
    size_t size = image_size(im), bonus = image_bonus_offset(im);
    size_t end = size - (im[DN_FLAGS] & DNODE_FLAG_SPILL ? BLKPTR_SIZE : 0);

    if (im[DN_TYPE] == OT_NONE)
        return;
    swap16(im + DN_BLOCK_SECTORS);
    swap16(im + DN_BONUS_LEN);
    swap_words(im + DN_MAX_BLKID, 16);
    if (image_check(im, size) < 0)
        return; /* damaged; found again by whoever uses it */
    swap_words(im + DNODE_CORE_SIZE, bonus - DNODE_CORE_SIZE);
    bonus_swap(im[DN_BONUS_TYPE], im + bonus, end - bonus);
    if (end < size)
        swap_words(im + end, BLKPTR_SIZE);
}

static void swap_dnode_block(unsigned char *p, size_t n)
{
    for (size_t i = 0; i + DNODE_MIN_SIZE <= n;) {
        unsigned char *im = p + i;
        size_t width = im[DN_TYPE] == OT_NONE ? DNODE_MIN_SIZE : image_size(im);
        if (width > n - i)
            return;
        dnode_image_swap(im);
        i += width;
    }
}

/* The MACs are bytes (03 3.3). */
static void swap_objset(unsigned char *p, size_t n)
{
    dnode_image_swap(p);
    swap_words(p + OBJSET_OFF_ZIL, OBJSET_OFF_FLAGS + 8 - OBJSET_OFF_ZIL);
    for (size_t at = OBJSET_OFF_SPECIAL; at + DNODE_MIN_SIZE <= n && at < 2560;
         at += DNODE_MIN_SIZE)
        dnode_image_swap(p + at);
}

void block_swap(uint8_t type, unsigned level, unsigned char *p, size_t n)
{
    enum swap_class class = swap_class(type);

    if (level > 0)
        swap_words(p, n);
    else if (class == SWAP_DNODE)
        swap_dnode_block(p, n);
    else if (class == SWAP_OBJSET && n >= 1024)
        swap_objset(p, n);
    else
        swap_class_bytes(class, p, n);
}
