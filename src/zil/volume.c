/* The log of a volume: writes, freed ranges and clones of its one data object (spec 06 17.12). */
#include <errno.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dsl/dataset.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/err.h"
#include "zil/zil.h"

#define VOLUME_DATA 1 /* object */

struct volume {
    struct dataset *ds;
    struct objset *os;
    struct dnode *dn;
};

/* One change of the data, with the number of its record. data NULL: a hole. */
static int change(struct volume *v, const struct zil_record *r, uint64_t offset, const void *data,
                  uint64_t n)
{
    struct zil_header header;
    struct tx tx;
    int rc = dataset_tx_begin(v->ds, DATASET_TX_MUST, n, &tx);
    if (rc)
        return rc;
    rc = data ? dnode_write(v->dn, offset, data, n, &tx) : dnode_free_range(v->dn, offset, n, &tx);
    if (rc == 0) {
        zil_header_get(v->os, &header);
        header.replay_seq = r->h.seq;
        zil_header_set(v->os, &header, &tx);
    }
    dataset_tx_end(&tx);
    return rc;
}

/* A whole block, as it was to be linked into the volume; of a hole the n bytes at offset. */
static int change_block(struct volume *v, const struct zil_record *r, const unsigned char *pointer,
                        bool big, uint64_t offset, uint64_t n)
{
    struct buf *b;
    int rc = zil_read_data(v->os, VOLUME_DATA, pointer, big, &b);
    if (rc)
        return rc;
    if (!b)
        return n ? change(v, r, offset, NULL, n) : 0;
    if (b->size != dnode_block_size(v->dn))
        rc = err_set(EBADE, "a block of another size than the volume's");
    else
        rc = change(v, r, offset - offset % b->size, b->data, b->size);
    buf_unref(b);
    return rc;
}

static int clone_range(struct volume *v, const struct zil_record *r, bool big)
{
    const struct zil_clone *c = &r->clone;
    uint64_t size = dnode_block_size(v->dn);
    int rc = 0;
    if (c->block_size != size || c->offset % size != 0 ||
        c->count != ROUND_UP(c->length, size) / size)
        return err_set(EBADE, "it is damaged");
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        rc = zil_check_memory(objset_pool(v->os));
        if (rc == 0)
            rc = change_block(v, r, c->pointers + i * ZIL_POINTER_SIZE, big, c->offset + i * size,
                              size);
    }
    return rc;
}

static int apply(void *arg, const struct zil_record *r, bool big)
{
    struct volume *v = arg;
    if (zil_record_file(r) != VOLUME_DATA)
        return err_set(EBADE, "it is about no object of a volume");
    switch (r->h.type) {
    case ZIL_WRITE:
        return r->write.data
                   ? change(v, r, r->write.offset, r->write.data, r->write.length)
                   : change_block(v, r, r->write.pointer, big, r->write.offset, r->write.length);
    case ZIL_TRUNCATE:
        return r->truncate.length ? change(v, r, r->truncate.offset, NULL, r->truncate.length) : 0;
    case ZIL_CLONE_RANGE:
        return clone_range(v, r, big);
    default:
        return err_set(EBADE, "volumes have no such records");
    }
}

int zil_replay_volume(struct dataset *ds, struct zil_replay *z)
{
    struct volume v = {.ds = ds};
    int rc = dataset_objset(ds, &v.os);
    if (rc == 0)
        rc = dnode_hold(v.os, VOLUME_DATA, &v.dn);
    if (rc)
        return rc;
    rc = zil_replay(ds, z, apply, &v);
    dnode_rele(v.dn);
    return rc;
}
