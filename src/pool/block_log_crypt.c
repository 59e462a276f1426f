/*
 * Intent log blocks of encrypted datasets (spec 09 9): the chain structure, the headers of records
 * and the block pointers in them are in the clear and authenticated; all else is one message, taken
 * from the records in order. Who only follows the chain needs no key.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/crypt.h"
#include "codec/zil_record.h"
#include "pool/block_impl.h"
#include "pool/mac.h"
#include "util/bytes.h"
#include "util/cleanup.h"

enum { TAIL_OF_WRITE = 192, POINTER_OF_WRITE = 64, COUNT_OF_CLONE = 64 };

struct parts {
    unsigned char *aad, *text; /* NULL aad: text is put back */
    size_t aad_size, text_size;
};

static void clear(struct parts *p, const unsigned char *bytes, size_t n)
{
    if (p->aad)
        memcpy(p->aad + p->aad_size, bytes, n);
    p->aad_size += n;
}

static void secret(struct parts *p, unsigned char *bytes, size_t n)
{
    if (p->aad)
        memcpy(p->text + p->text_size, bytes, n);
    else
        memcpy(bytes, p->text + p->text_size, n);
    p->text_size += n;
}

static void record(struct parts *p, unsigned char *r, const struct zil_record_header *h)
{
    clear(p, r, ZIL_HEADER_SIZE);
    if (h->type == ZIL_WRITE) {
        secret(p, r + ZIL_HEADER_SIZE, POINTER_OF_WRITE - ZIL_HEADER_SIZE);
        clear(p, r + POINTER_OF_WRITE, ZIL_POINTER_SIZE);
        secret(p, r + TAIL_OF_WRITE, h->size - TAIL_OF_WRITE);
    } else if (h->type == ZIL_CLONE_RANGE) {
        secret(p, r + ZIL_HEADER_SIZE, COUNT_OF_CLONE - ZIL_HEADER_SIZE);
        clear(p, r + COUNT_OF_CLONE, h->size - COUNT_OF_CLONE);
    } else {
        secret(p, r + ZIL_HEADER_SIZE, h->size - ZIL_HEADER_SIZE);
    }
}

static bool too_short(const struct zil_record_header *h)
{
    return (h->type == ZIL_WRITE && h->size < TAIL_OF_WRITE) ||
           (h->type == ZIL_CLONE_RANGE && h->size < COUNT_OF_CLONE);
}

static int take_apart(unsigned char *block, size_t n, bool big, struct parts *p)
{
    struct zil_chain chain;
    struct zil_record_header h;
    int rc = zil_chain_decode(block, n, false, big, &chain);
    if (rc)
        return rc;
    clear(p, block, ZIL_CHAIN_TRAILER);
    for (size_t at = 0; at < chain.size; at += h.size) {
        unsigned char *r = block + (chain.records - block) + at;
        rc = zil_record_header(r, chain.size - at, big, &h);
        if (rc || too_short(&h))
            return -EBADE;
        record(p, r, &h);
    }
    return 0;
}

int log_unseal(const struct blkptr *bp, const struct crypt_key *key, unsigned char *block)
{
    size_t n = bp_psize(bp);
    uint8_t salt[CRYPT_SALT_SIZE], iv[CRYPT_IV_SIZE];
    unsigned char *space CLEANUP_FREE = malloc(2 * n);
    struct parts p = {.aad = space, .text = space ? space + n : NULL};
    bool big = get_be64(block + ZIL_CHAIN_TRAILER) == CHECKSUM_TRAILER_MAGIC;

    if (!space)
        return -ENOMEM;
    if (bp_checksum(bp) != CHECKSUM_ZILOG2)
        return -EBADE;
    int rc = take_apart(block, n, big, &p);
    if (rc)
        return rc;
    mac_nonce_of_bp(bp, salt, iv);
    rc = crypt_decrypt(key, salt, iv, block + ZIL_CHAIN_SIZE - CRYPT_MAC_SIZE, p.aad, p.aad_size,
                       p.text, p.text_size);
    p = (struct parts){.text = p.text};
    return rc ? rc : take_apart(block, n, big, &p);
}
