/*
 * Blocks of encrypted datasets (spec 09 5-8): what stands between verifying the checksum of what is
 * stored and decompressing it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/compress.h"
#include "codec/crypt.h"
#include "pool/block_impl.h"
#include "pool/mac.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

enum { TYPE_LOG = 9, TYPE_DNODE = 10, TYPE_OBJSET = 11 };

static int mismatch(int rc)
{
    return rc == -EBADE ? err_set(EBADE, "the authentication code does not match") : rc;
}

static int decrypt(const struct crypt_key *key, const struct blkptr *bp, const void *aad, size_t m,
                   void *text, size_t n)
{
    uint8_t salt[CRYPT_SALT_SIZE], iv[CRYPT_IV_SIZE], mac[CRYPT_MAC_SIZE];

    mac_nonce_of_bp(bp, salt, iv);
    mac_of_bp(bp, mac);
    return mismatch(crypt_decrypt(key, salt, iv, mac, aad, m, text, n));
}

/* Only the bonus areas are encrypted; the structure around them is authenticated. */
static int open_dnodes(const struct crypt_key *key, const struct blkptr *bp, uint8_t *block)
{
    size_t n = bp_psize(bp);
    unsigned version = crypt_key_version(key);
    uint8_t *space CLEANUP_FREE = malloc(2 * n);
    struct mac_dnodes d = {.aad = space, .text = space ? space + n : NULL};
    int rc;

    if (!space)
        return -ENOMEM;
    if (bp_compress(bp) != COMPRESS_OFF)
        return err_set(EBADE, "dnodes of an encrypted dataset are compressed");
    rc = mac_dnode_block(block, n, bp_big_endian(bp), version, true, &d);
    if (rc == 0)
        rc = decrypt(key, bp, d.aad, d.aad_size, d.text, d.text_size);
    if (rc == 0)
        rc = mac_dnode_block(block, n, bp_big_endian(bp), version, false, &d);
    return rc;
}

static int authenticate(const struct crypt_key *key, const struct blkptr *bp, const void *stored)
{
    uint8_t hash[CRYPT_HASH_SIZE], mac[CRYPT_MAC_SIZE];

    crypt_hmac(key, stored, bp_psize(bp), hash);
    mac_of_bp(bp, mac);
    return mismatch(memcmp(hash, mac, sizeof mac) == 0 ? 0 : -EBADE);
}

int block_key_check(const struct blkptr *bp, const struct crypt_key *key)
{
    if (key || !bp_crypt(bp) || !bp_encrypted(bp) || bp_type(bp) == TYPE_DNODE ||
        bp_type(bp) == TYPE_LOG)
        return 0;
    return err_set(EACCES, "the block is encrypted, and its key is not loaded");
}

int block_unseal(const struct blkptr *bp, const struct crypt_key *key, void *stored)
{
    if (!bp_crypt(bp) || bp_level(bp) > 0 || bp_type(bp) == TYPE_OBJSET)
        return 0;
    if (!key)
        return block_key_check(bp, key);
    if (!bp_encrypted(bp))
        return authenticate(key, bp, stored);
    if (bp_type(bp) == TYPE_DNODE)
        return open_dnodes(key, bp, stored);
    if (bp_type(bp) == TYPE_LOG)
        return mismatch(log_unseal(bp, key, stored));
    return decrypt(key, bp, NULL, 0, stored, bp_psize(bp));
}

/* The code of an indirect block is a hash of those below. */
static int indirect_matches(const struct blkptr *bp, const struct buf *block, unsigned version,
                            uint8_t *records)
{
    uint8_t hash[CRYPT_HASH_SIZE], mac[CRYPT_MAC_SIZE], record[MAC_RECORD_SIZE];
    size_t used = 0;

    for (size_t at = 0; at + BLKPTR_SIZE <= block->size; at += BLKPTR_SIZE) {
        struct blkptr below;
        size_t n;

        bp_decode(&below, block->data + at, bp_big_endian(bp));
        n = mac_record(&below, version, record);
        memcpy(records + used, record, n);
        used += n;
    }
    crypt_sha512(records, used, hash);
    mac_of_bp(bp, mac);
    return memcmp(hash, mac, sizeof mac) == 0 ? 0 : -EBADE;
}

int block_authenticate_indirect(const struct blkptr *bp, const struct buf *block)
{
    uint8_t *records CLEANUP_FREE = malloc(block->size / BLKPTR_SIZE * MAC_RECORD_SIZE);
    int rc;

    if (!records)
        return -ENOMEM;
    rc = indirect_matches(bp, block, MAC_VERSION, records);
    return rc == 0 ? 0 : mismatch(indirect_matches(bp, block, 0, records));
}
