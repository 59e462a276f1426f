/*
 * Any bytes as a block of an encrypted dataset. Input: a pointer, then what is stored. With the
 * right key and a wrong one nearly everything must be refused; taking a block of dnodes apart and
 * putting it together again must not change it.
 */
#include <stdlib.h>

#include "../support/crypt_keys.h"
#include "dmu/dmu_impl.h"
#include "fuzz.h"
#include "pool/block_impl.h"
#include "pool/mac.h"

#define MOST (1u << 17)

static struct crypt_key *keys[ARRAY_LEN(sample_keys)];

/* Keys are in memory where the leak checker does not look for what they refer to. */
__attribute__((destructor)) static void forget_keys(void)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        crypt_key_unref(keys[i]);
}

static void take_apart(const struct blkptr *bp, const uint8_t *data, size_t n)
{
    uint8_t *block = malloc(n), *space = malloc(2 * n);
    struct mac_dnodes d = {.aad = space, .text = space + n};

    memcpy(block, data, n);
    for (unsigned version = 0; version < 2; version++) {
        if (mac_dnode_block(block, n, bp_big_endian(bp), version, true, &d) != 0)
            continue;
        if (d.aad_size > n || d.text_size > n ||
            mac_dnode_block(block, n, bp_big_endian(bp), version, false, &d) != 0 ||
            memcmp(block, data, n) != 0)
            abort();
    }
    free(space);
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct blkptr bp;

    if (n < BLKPTR_SIZE + 512 || n > MOST)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (!keys[i] && !(keys[i] = sample_key(&sample_keys[i])))
            abort();
    bp_decode(&bp, data, false);
    data += BLKPTR_SIZE;
    n -= BLKPTR_SIZE;
    take_apart(&bp, data, n / 512 * 512);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (n >= 1024 && n <= OBJSET_SIZE)
            objset_authenticate(keys[i], data, n, bp_big_endian(&bp));
        struct buf *stored = buf_new(n), *out = NULL;
        memcpy(stored->data, data, n);
        if (bp_check(&bp) == 0 && !bp_embedded(&bp) && !bp_hole(&bp) && bp_psize(&bp) == n &&
            bp_lsize(&bp) <= MOST)
            read_open(&bp, i ? keys[i] : NULL, buf_ref(stored), &out);
        buf_unref(out);
        buf_unref(stored);
    }
    return 0;
}
