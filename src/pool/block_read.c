/* Reading a block: from a pointer to bytes (spec 02 8, 17). */
#include <errno.h>
#include <string.h>

#include "codec/compress.h"
#include "pool/block_impl.h"
#include "pool/errors.h"
#include "pool/pool.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

static void cleanup_buf(struct buf **b)
{
    buf_unref(*b);
}

static int read_stored(struct pool *pool, const struct blkptr *bp, struct buf **out)
{
    struct buf *b CLEANUP(cleanup_buf) = buf_new(block_room(pool, bp));
    int rc;

    if (!b)
        return -ENOMEM;
    rc = read_places(pool, bp, 0, b);
    if (rc)
        return rc;
    b->size = bp_psize(bp);
    *out = STEAL(b);
    return 0;
}

static int expand(const struct blkptr *bp, const void *stored, size_t n, struct buf **out)
{
    struct buf *b CLEANUP(cleanup_buf) = buf_new(bp_lsize(bp));
    int rc;

    if (!b)
        return -ENOMEM;
    rc = compress_decode(bp_compress(bp), stored, n, b->data, b->size);
    if (rc == -EILSEQ)
        return err_set(EBADE, "what is stored does not decompress");
    if (rc == -ENOTSUP)
        return err_set(ENOTSUP, "compression %u is not supported", bp_compress(bp));
    if (rc)
        return rc;
    *out = STEAL(b);
    return 0;
}

static int read_embedded(const struct blkptr *bp, struct buf **out)
{
    static const unsigned char payload[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15};
    unsigned char bytes[BLKPTR_EMBEDDED_MAX];

    if (bp_redacted(bp))
        return err_set(EIO, "the data was left out of a redacted stream");
    if (bp_embedded_type(bp) != 0)
        return err_set(ENOTSUP, "unknown embedded data");
    for (size_t i = 0; i < ARRAY_LEN(payload); i++)
        put_u64(bytes + 8 * i, bp->w[payload[i]], bp_big_endian(bp));
    return expand(bp, bytes, bp_psize(bp), out);
}

static int read_expand(const struct blkptr *bp, struct buf *stored, struct buf **out)
{
    int rc;

    if (bp_compress(bp) == COMPRESS_OFF) {
        if (bp_psize(bp) != bp_lsize(bp)) {
            buf_unref(stored);
            return err_set(EBADE, "the sizes of an uncompressed block differ");
        }
        *out = stored;
        return 0;
    }
    rc = expand(bp, stored->data, bp_psize(bp), out);
    buf_unref(stored);
    return rc;
}

int read_open(const struct blkptr *bp, const struct crypt_key *key, struct buf *stored,
              struct buf **out)
{
    int rc = block_unseal(bp, key, stored->data);

    if (rc) {
        buf_unref(stored);
        return rc;
    }
    rc = read_expand(bp, stored, out);
    if (rc == 0 && key && bp_crypt(bp) && bp_level(bp) > 0 &&
        (rc = block_authenticate_indirect(bp, *out)) != 0)
        buf_unref(STEAL(*out));
    return rc;
}

static int read_any(struct pool *pool, const struct blkptr *bp, const struct crypt_key *key,
                    struct buf **out)
{
    struct buf *stored;
    int rc = bp_check(bp);

    if (rc)
        return rc;
    if (bp_embedded(bp))
        return read_embedded(bp, out);
    if (bp_hole(bp)) {
        *out = buf_new_zero(bp_lsize(bp));
        return *out ? 0 : -ENOMEM;
    }
    rc = block_key_check(bp, key);
    if (rc == 0)
        rc = read_stored(pool, bp, &stored);
    return rc ? rc : read_open(bp, key, stored, out);
}

int block_explain(int rc, const struct blkptr *bp, const struct bookmark *bm)
{
    char text[512];

    if (rc == 0 || rc == -ENOMEM)
        return rc;
    if (!bm)
        return err_prefix(rc, "block %s", bp_print(bp, text, sizeof text));
    return err_prefix(rc, "dataset %llu object %llu level %lld block %llu",
                      (unsigned long long)bm->objset, (unsigned long long)bm->object,
                      (long long)bm->level, (unsigned long long)bm->blkid);
}

int block_read(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
               struct buf **out)
{
    return block_read_key(pool, bp, bm, NULL, out);
}

/* Remembers what is lost; the end of a log chain looks like it and is not. */
static int note(struct pool *pool, int rc, const struct blkptr *bp, const struct bookmark *bm)
{
    enum { INTENT_LOG = 9 }; /* the object type (02 2); the list is in the layer above */

    if ((rc == -EIO || rc == -EBADE) && bm && bp_type(bp) != INTENT_LOG)
        pool_errors_note(pool, bm);
    return block_explain(rc, bp, bm);
}

int block_read_key(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                   const struct crypt_key *key, struct buf **out)
{
    return note(pool, read_any(pool, bp, key, out), bp, bm);
}

int block_read_stored(struct pool *pool, const struct blkptr *bp, const struct bookmark *bm,
                      struct buf **out)
{
    int rc = bp_check(bp);

    if (rc == 0 && (bp_hole(bp) || bp_embedded(bp)))
        rc = err_set(EINVAL, "the block is not stored");
    return note(pool, rc ? rc : read_stored(pool, bp, out), bp, bm);
}
