/* Replaying a log: its records, one after the other, through who knows what they do (spec 06 17.8).
 */
#include <errno.h>

#include "dmu/tx.h"
#include "dsl/dataset.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "util/buf.h"
#include "util/err.h"
#include "zil/zil.h"

int zil_read_data(struct objset *os, uint64_t object, const unsigned char *pointer, bool big,
                  struct buf **out)
{
    struct bookmark bm = {objset_id(os), object, 0, 0};
    struct blkptr bp;
    bp_decode(&bp, pointer, big);
    *out = NULL;
    if (bp_hole(&bp))
        return 0;
    return block_read_key(objset_pool(os), &bp, &bm, objset_key(os), out);
}

struct replay {
    struct zil_replay *z;
    zil_apply_fn *apply;
    void *arg;
    struct pool *pool;
};

/* What is replayed in memory is never written and stays dirty. */
int zil_check_memory(const struct pool *pool)
{
    if (!pool->in_memory || txg_dirty_bytes(pool->txg) < pool->cache_limit)
        return 0;
    return err_set(ENOMEM, "there is not enough memory for it (TARN_CACHE_LIMIT allows more)");
}

static int replay_record(void *arg, const void *data, const struct zil_record_header *h, bool big)
{
    struct replay *s = arg;
    struct zil_record r;
    int rc = zil_check_memory(s->pool);
    if (rc == 0)
        rc = zil_record_decode(data, h, big, &r);
    if (rc == 0)
        rc = s->apply(s->arg, &r, big);
    if (rc) {
        s->z->failed_seq = h->seq;
        s->z->failed_type = h->type;
    }
    return err_prefix(rc, "record %llu (%s)", (unsigned long long)h->seq, zil_type_name(h->type));
}

/* The log is done with. */
static int forget(struct dataset *ds, struct objset *os)
{
    const struct zil_header none = {0};
    struct tx tx;
    int rc = dataset_tx_begin(ds, DATASET_TX_MUST, 0, &tx);
    if (rc)
        return rc;
    zil_header_set(os, &none, &tx);
    dataset_tx_end(&tx);
    return 0;
}

static void fill_walk(struct objset *os, const struct zil_header *h, struct zil_walk *w)
{
    struct pool *pool = objset_pool(os);
    *w = (struct zil_walk){.pool = pool,
                           .header = h,
                           .key = objset_key(os),
                           .uberblock_txg = txg_synced_number(pool->txg)};
}

int zil_replay(struct dataset *ds, struct zil_replay *z, zil_apply_fn *apply, void *arg)
{
    struct zil_header header;
    struct zil_walk w;
    struct objset *os;
    int rc = dataset_objset(ds, &os);
    if (rc)
        return rc;
    zil_header_get(os, &header);
    if (bp_hole(&header.log) || dataset_is_snapshot(ds))
        return 0;
    struct replay s = {z, apply, arg, objset_pool(os)};
    fill_walk(os, &header, &w);
    w.arg = &s;
    w.record = replay_record;
    if (z->claimed_only && header.claim_txg == 0)
        w.record = NULL;
    rc = zil_walk(&w, &z->result);
    if (!w.record)
        z->unclaimed = z->result.records;
    if (z->failed_seq)
        z->result.records--; /* the last one was not */
    if (rc && !z->failed_seq)
        return rc; /* the rest may be read another time */
    int last = forget(ds, os);
    return rc ? rc : last;
}

int zil_pending(struct dataset *ds, struct zil_result *out)
{
    struct zil_header header;
    struct zil_walk w;
    struct objset *os;
    *out = (struct zil_result){.end = ZIL_END_OF_CHAIN};
    int rc = dataset_is_snapshot(ds) ? 0 : dataset_objset(ds, &os);
    if (rc || dataset_is_snapshot(ds))
        return rc;
    zil_header_get(os, &header);
    fill_walk(os, &header, &w);
    return zil_walk(&w, out);
}
