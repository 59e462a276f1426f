/* Checksums of blocks (spec 02 5.5, 5.6). */
#include <errno.h>
#include <string.h>

#include "codec/checksum.h"
#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/bytes.h"

#define TYPE_OBJSET 11

/* Blocks of encrypted datasets share the words with a MAC, except for objsets. */
static bool folded(const struct blkptr *bp)
{
    return bp_crypt(bp) && bp_type(bp) != TYPE_OBJSET;
}

static int compute(const struct pool *pool, const struct blkptr *bp, const void *data,
                   uint64_t words[4])
{
    const struct checksum_info *info = checksum_info(bp_checksum(bp));

    if (!info || !info->compute || (info->flags & CHECKSUM_EMBEDDED))
        return -ENOTSUP;
    return checksum_compute(bp_checksum(bp), data, bp_psize(bp), pool->has_salt ? pool->salt : NULL,
                            bp_big_endian(bp), words);
}

int block_verify(const struct pool *pool, const struct blkptr *bp, const void *data)
{
    uint64_t words[4];
    int rc;

    if (bp_checksum(bp) == CHECKSUM_ZILOG || bp_checksum(bp) == CHECKSUM_ZILOG2)
        return log_verify(bp, data);
    rc = compute(pool, bp, data, words);
    if (rc)
        return rc == -EINVAL ? -ENOTSUP : rc; /* a salted checksum in a pool without salt */
    if (folded(bp))
        checksum_fold(bp_checksum(bp), words);
    return memcmp(words, &bp->w[12], (folded(bp) ? 2 : 4) * sizeof words[0]) == 0 ? 0 : -EBADE;
}

int block_seal(const struct pool *pool, struct blkptr *bp, const void *data)
{
    return compute(pool, bp, data, &bp->w[12]);
}
