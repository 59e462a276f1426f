/* Intent logs. First the input as one block: its chain structure and its records, in both byte
 * orders. Then as the records of a chain in a pool, whose checksums are made right: a piece of the
 * input per block, the first byte of each says how much of it counts as used. */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "fuzz.h"
#include "pool/alloc.h"
#include "support/zil_chain.h"
#include "util/env.h"
#include "vdev/vdev.h"

#define PIECE 1024

static volatile unsigned sum; /* of all that a record points to: so that it is read */

static void touch(const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += ((const unsigned char *)data)[i];
}

static void touch_name(const char *name)
{
    if (name)
        touch(name, strlen(name));
}

static void touch_record(const struct zil_record *r)
{
    switch (r->h.type) {
    case ZIL_REMOVE:
    case ZIL_RMDIR:
        touch_name(r->remove.name);
        break;
    case ZIL_LINK:
        touch_name(r->link.name);
        break;
    case ZIL_RENAME:
    case ZIL_RENAME_EXCHANGE:
    case ZIL_RENAME_WHITEOUT:
        touch_name(r->rename.name);
        touch_name(r->rename.newname);
        break;
    case ZIL_WRITE:
    case ZIL_WRITE2:
        touch(r->write.pointer, ZIL_POINTER_SIZE);
        if (r->write.data)
            touch(r->write.data, r->write.length);
        break;
    case ZIL_SETSAXATTR:
        touch_name(r->xattr.name);
        if (r->xattr.value)
            touch(r->xattr.value, r->xattr.size);
        break;
    case ZIL_CLONE_RANGE:
        touch(r->clone.pointers, r->clone.count * ZIL_POINTER_SIZE);
        break;
    default:
        if (zil_record_new(r)) {
            touch_name(r->create.name);
            touch_name(r->create.target);
        }
    }
}

static int take(void *arg, const void *data, const struct zil_record_header *h, bool big)
{
    struct zil_record r;
    if (h->size < ZIL_HEADER_SIZE)
        abort();
    if (zil_record_decode(data, h, big, &r) == 0)
        touch_record(&r);
    return 0;
}

static void one_block(const uint8_t *data, size_t n, bool at_end, bool big)
{
    struct zil_chain c;
    struct zil_record_header h;
    const unsigned char *first;
    size_t count;
    if (zil_chain_decode(data, n, at_end, big, &c) != 0)
        return;
    touch(c.next, ZIL_POINTER_SIZE);
    for (size_t at = 0; at < c.size; at += h.size) {
        if (zil_record_header(c.records + at, c.size - at, big, &h) != 0)
            return;
        if (zil_record_pointers(c.records + at, &h, big, &first, &count) == 0)
            touch(first, count * ZIL_POINTER_SIZE);
        take(NULL, c.records + at, &h, big);
    }
}

/* ---- A chain ---- */

static int no_map(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    return 0;
}

static void make_pool(struct pool *pool, struct env *env)
{
    struct device *d;
    struct vdev *leaf, *root;
    env_init_seeded(env, 1);
    if (device_memory(&d, 64 << 20) != 0 || vdev_leaf_on_device(&leaf, d, 9, env) != 0 ||
        vdev_root_new(&root, 1) != 0 || vdev_add_child(root, leaf) != 0 ||
        pool_init(pool, "fuzz", root, env) != 0 || alloc_init(pool, no_map, NULL) != 0 ||
        alloc_add_vdev(pool, leaf) != 0)
        abort();
    pool->writable = true;
}

static void chain(const uint8_t *data, size_t n)
{
    struct env env;
    struct pool pool;
    struct chain_writer c;
    struct zil_result result;
    make_pool(&pool, &env);
    chain_begin(&c, &pool, 9);
    for (unsigned i = 0; i < 4 && n > 1; i++) {
        size_t piece = n - 1 < PIECE ? n - 1 : PIECE;
        memcpy(c.block + c.used, data + 1, piece);
        c.used += 8 * (size_t)data[0] < piece ? 8 * (size_t)data[0] : piece;
        chain_end_block(&c);
        data += 1 + piece;
        n -= 1 + piece;
    }
    struct zil_header header = chain_header(&c);
    const struct zil_walk w = {
        .pool = &pool, .header = &header, .uberblock_txg = 8, .record = take, .arg = NULL};
    if (zil_walk(&w, &result) != 0 || result.blocks > c.n)
        abort();
    pool_fini(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int i = 0; i < 4; i++)
        one_block(data, n, i & 1, i & 2);
    chain(data, n);
    return 0;
}
