/*
 * Reads and frees a block whose pointer and surroundings come from outside. Byte 0: bit 0 the byte
 * order of the pointer, bit 1 gives the pointer the right checksum, bit 2 seals what its first DVA
 * names as a gang header, bit 3 forces the first DVA to the start. Then 128 bytes of pointer; the
 * rest is what is on the device.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "device/device.h"
#include "fuzz.h"
#include "pool/alloc.h"
#include "pool/block_impl.h"
#include "pool/pool.h"
#include "util/rangeset.h"

enum { SPACE = 1 << 20 };

static struct env env;
static struct pool pool;
static struct device *device;

/* Everything is allocated, so that it can be freed. */
static int all_allocated(void *arg, struct metaslab *m, struct rangeset *allocated)
{
    return rangeset_add(allocated, m->start, m->start + m->size);
}

static void make_pool(void)
{
    struct vdev *root, *leaf;

    env_init_seeded(&env, 1);
    if (device_memory(&device, 64 << 20) || vdev_root_new(&root, 1) ||
        vdev_leaf_on_device(&leaf, device, 9, &env) || vdev_add_child(root, leaf) ||
        pool_init(&pool, "fuzz", root, &env) || alloc_init(&pool, all_allocated, NULL) ||
        alloc_add_vdev(&pool, leaf))
        abort();
    for (unsigned i = 0; i < alloc_metaslab_count(leaf); i++)
        alloc_metaslab(leaf, i)->object = 1;
}

static int no_map(void *arg, struct metaslab *m, const struct rangeset *a, const struct rangeset *f)
{
    return 0;
}

static void prepare(struct blkptr *bp, unsigned mode, uint8_t *space)
{
    uint64_t verifier[4] = {0}, at;

    if (mode & 8)
        dva_set(bp, 0, 0, 0, 512, dva_gang(bp, 0));
    at = dva_offset(bp, 0);
    if (mode & 4 && at <= SPACE - 512) {
        verifier[0] = dva_vdev(bp, 0);
        verifier[1] = at;
        verifier[2] = bp_phys_birth(bp);
        checksum_seal_trailer(space + at, 512, verifier);
    }
    if (mode & 2 && at < SPACE && bp_psize(bp) <= SPACE - at)
        block_seal(&pool, bp, space + at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint64_t txg = 4;
    static uint8_t space[SPACE];
    const struct bookmark bm = {1, 2, 3, 4};
    struct blkptr bp;
    struct buf *out;
    char text[300];
    bool any;

    if (!device)
        make_pool();
    if (n < 1 + BLKPTR_SIZE)
        return 0;
    bp_decode(&bp, data + 1, data[0] & 1);
    memset(space, 0, sizeof space);
    memcpy(space, data + 1 + BLKPTR_SIZE,
           n - 1 - BLKPTR_SIZE < SPACE ? n - 1 - BLKPTR_SIZE : SPACE);
    prepare(&bp, data[0], space);
    device_write(device, VDEV_LABEL_START, space, SPACE);
    if (strlen(bp_print(&bp, text, sizeof text)) >= sizeof text)
        abort();
    if (block_read(&pool, &bp, &bm, &out) == 0) {
        if (out->size != bp_lsize(&bp))
            abort();
        buf_unref(out);
    }
    block_dsize(&pool, &bp);
    block_free(&pool, txg, NULL, &bp);
    /* Everything that was freed is allocated again: no_map forgets. */
    if (alloc_sync(&pool, txg, no_map, NULL, &any))
        abort();
    for (int i = 0; i < 4; i++)
        alloc_sync_done(&pool, txg++);
    return 0;
}
