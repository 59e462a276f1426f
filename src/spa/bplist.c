/*
 * The pool's deferred-free list (spec 05 10.3): OpenZFS leaves blocks there that it freed late in a txg.
 * They are still allocated in the maps. Our first txg frees them; we never add any, since our frees go
 * into the maps in the pass that makes them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "pool/block.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define ENTRIES_MAX (1ull << 24)

static int free_entries(struct spa *spa, struct dnode *dn, uint64_t n, struct tx *tx)
{
    unsigned char raw[BLKPTR_SIZE];
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        struct blkptr bp;
        rc = dnode_read(dn, i * BLKPTR_SIZE, raw, sizeof raw);
        if (rc != 0)
            break;
        bp_decode(&bp, raw, BYTES_HOST_BIG);
        rc = block_free(&spa->pool, tx->txg, spa->pool.batch, &bp);
    }
    if (rc == 0)
        rc = dnode_free_range(dn, 0, UINT64_MAX, tx);
    return rc;
}

int spa_bplist_drain(struct spa *spa, struct tx *tx)
{
    unsigned char bonus[64] = {0};
    size_t len;
    struct dnode *dn;
    int rc = dnode_hold(spa->mos, spa->sync_bplist, &dn);
    if (rc != 0)
        return err_prefix(rc, "deferred-free list");
    rc = dnode_bonus_get(dn, bonus, sizeof bonus, &len);
    uint64_t n;
    memcpy(&n, bonus, sizeof n);
    if (rc == 0 && n > ENTRIES_MAX)
        rc = err_set(EBADE, "the deferred-free list claims %llu entries", (unsigned long long)n);
    if (rc == 0 && n > 0) {
        rc = free_entries(spa, dn, n, tx);
        memset(bonus, 0, sizeof bonus);
        if (rc == 0)
            rc = dnode_bonus_patch(dn, 0, bonus, MIN(len, (size_t)32), tx);
    }
    dnode_rele(dn);
    return rc;
}
