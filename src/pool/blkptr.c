/* Checking and printing block pointers (spec 02 3.6). */
#include "pool/blkptr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "util/err.h"

#define OLD_TYPES        54
#define BYTESWAP_CLASSES 10
#define EMBEDDED_TYPES   3

static bool type_valid(unsigned t)
{
    return t & 0x80 ? (t & 0x1f) < BYTESWAP_CLASSES : t < OLD_TYPES;
}

static int check_embedded(const struct blkptr *bp)
{
    if (bp_embedded_type(bp) >= EMBEDDED_TYPES)
        return err_set(EBADE, "block pointer: unknown kind %u of embedded data",
                       bp_embedded_type(bp));
    if (bp_psize(bp) > BLKPTR_EMBEDDED_MAX)
        return err_set(EBADE, "block pointer: %llu embedded bytes",
                       (unsigned long long)bp_psize(bp));
    if (bp_lsize(bp) > BLOCK_MAX_SIZE)
        return err_set(EBADE, "block pointer: logical size %llu", (unsigned long long)bp_lsize(bp));
    return 0;
}

/* An unused DVA may not stand before a used one, and all agree about ganging. */
static int check_dvas(const struct blkptr *bp)
{
    int max = bp_crypt(bp) && bp_encrypted(bp) ? 2 : BLKPTR_DVAS;

    if (dva_asize(bp, 0) == 0)
        return err_set(EBADE, "block pointer: DVA 0 has no size");
    for (int i = 1; i < max; i++) {
        if (dva_empty(bp, i))
            continue;
        if (dva_asize(bp, i) == 0 || dva_empty(bp, i - 1))
            return err_set(EBADE, "block pointer: DVA %d is malformed", i);
        if (dva_gang(bp, i) != dva_gang(bp, 0))
            return err_set(EBADE, "block pointer: only some DVAs are gangs");
    }
    return 0;
}

int bp_check(const struct blkptr *bp)
{
    if (!type_valid(bp_type(bp)))
        return err_set(EBADE, "block pointer: unknown object type %u", bp_type(bp));
    if (bp_compress(bp) >= COMPRESS_COUNT)
        return err_set(EBADE, "block pointer: unknown compression %u", bp_compress(bp));
    if (bp_embedded(bp))
        return check_embedded(bp);
    if (bp_lsize(bp) > BLOCK_MAX_SIZE)
        return err_set(EBADE, "block pointer: logical size %llu", (unsigned long long)bp_lsize(bp));
    if (bp_hole(bp))
        return 0;
    if (bp_checksum(bp) >= CHECKSUM_COUNT)
        return err_set(EBADE, "block pointer: unknown checksum %u", bp_checksum(bp));
    if (bp_psize(bp) > BLOCK_MAX_SIZE)
        return err_set(EBADE, "block pointer: physical size %llu",
                       (unsigned long long)bp_psize(bp));
    return check_dvas(bp);
}

struct text {
    char *at, *end;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (t->at >= t->end)
        return;
    va_start(ap, fmt);
    n = vsnprintf(t->at, (size_t)(t->end - t->at), fmt, ap);
    va_end(ap);
    t->at += n > 0 ? n : 0;
}

static void put_dvas(struct text *t, const struct blkptr *bp)
{
    for (int i = 0; i < bp_copies(bp); i++)
        put(t, "DVA[%d]=<%llu:%llx:%llx%s> ", i, (unsigned long long)dva_vdev(bp, i),
            (unsigned long long)dva_offset(bp, i), (unsigned long long)dva_asize(bp, i),
            dva_gang(bp, i) ? "G" : "");
}

static const char *checksum_name(unsigned type)
{
    const struct checksum_info *info = checksum_info(type);

    return info ? info->name : "unknown";
}

const char *bp_print(const struct blkptr *bp, char *buf, unsigned size)
{
    struct text t = {buf, buf + size};
    const char *compress = compress_name(bp_compress(bp));

    if (size > 0)
        buf[0] = 0;
    if (bp_embedded(bp)) {
        put(&t, "EMBEDDED et=%u [L%u type %u] %s size=%llxL/%llxP birth=%lluL",
            bp_embedded_type(bp), bp_level(bp), bp_type(bp), compress ? compress : "unknown",
            (unsigned long long)bp_lsize(bp), (unsigned long long)bp_psize(bp),
            (unsigned long long)bp_birth(bp));
        return buf;
    }
    if (bp_hole(bp)) {
        put(&t, "HOLE [L%u type %u] size=%llxL birth=%lluL", bp_level(bp), bp_type(bp),
            (unsigned long long)bp_lsize(bp), (unsigned long long)bp_birth(bp));
        return buf;
    }
    put_dvas(&t, bp);
    put(&t, "[L%u type %u] %s %s %s %s size=%llxL/%llxP birth=%lluL/%lluP fill=%llu ", bp_level(bp),
        bp_type(bp), checksum_name(bp_checksum(bp)), compress ? compress : "unknown",
        bp_crypt(bp) ? "encrypted" : "unencrypted", bp_big_endian(bp) ? "BE" : "LE",
        (unsigned long long)bp_lsize(bp), (unsigned long long)bp_psize(bp),
        (unsigned long long)bp_birth(bp), (unsigned long long)bp_phys_birth(bp),
        (unsigned long long)bp_fill(bp));
    put(&t, "cksum=%llx:%llx:%llx:%llx", (unsigned long long)bp->w[12],
        (unsigned long long)bp->w[13], (unsigned long long)bp->w[14],
        (unsigned long long)bp->w[15]);
    return buf;
}
