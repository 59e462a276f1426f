#include <errno.h>
#include <string.h>

#include "../support/test.h"
#include "device/device.h"
#include "vdev/vdev.h"

enum { SECTOR = 4096, WRITES = 200, AT_ONCE = 10, JOINED = 64 };

/* A device that finishes requests when the test says so. */
struct held {
    struct device device;
    struct device_io *io[WRITES + 1];
    unsigned count, finished;
    bool vectors;
};

static void held_submit(struct device *d, struct device_io *io)
{
    struct held *h = (struct held *)d;

    assert_true(h->count <= WRITES);
    h->io[h->count++] = io;
}

static void held_info(struct device *d, struct device_info *out)
{
    *out = (struct device_info){.kind = DEVICE_FILE,
                                .size = 64 << 20,
                                .logical_shift = 9,
                                .physical_shift = 9,
                                .writable = true,
                                .vectors = ((struct held *)d)->vectors};
}

static void held_close(struct device *d)
{
    free(d->path);
    free(d);
}

static const struct device_driver held_driver = {
    .name = "held", .close = held_close, .info = held_info, .submit = held_submit};

static void finish(struct held *h, int rc)
{
    struct device_io *io = h->io[h->finished++];

    io->done(io, rc);
}

struct write {
    struct vdev_io io;
    _Alignas(4096) unsigned char data[SECTOR];
    int rc; /* 1: not done */
};

static void done(struct vdev_io *io, int rc)
{
    struct write *w = io->arg;

    assert_int_equal(w->rc, 1);
    w->rc = rc;
}

static struct write writes[WRITES];

static struct vdev *make(struct held **h, void **state)
{
    struct env env = test_env();
    struct vdev *root, *leaf;

    *h = calloc(1, sizeof **h);
    (*h)->vectors = *state != NULL;
    (*h)->device = (struct device){.driver = &held_driver, .path = strdup("held")};
    assert_int_equal(vdev_root_new(&root, 1), 0);
    assert_int_equal(vdev_leaf_on_device(&leaf, &(*h)->device, 12, &env), 0);
    assert_int_equal(vdev_add_child(root, leaf), 0);
    return root;
}

static void submit(struct vdev *root, unsigned i, uint64_t sector)
{
    struct write *w = &writes[i];

    memset(w->data, (int)i, sizeof w->data);
    w->rc = 1;
    w->io = (struct vdev_io){.vdev = root->child[0],
                             .write = true,
                             .offset = sector * SECTOR,
                             .size = SECTOR,
                             .data = w->data,
                             .done = done,
                             .arg = w};
    vdev_submit(&w->io);
}

/* The sector at byte at of a request. */
static const unsigned char *sector_of(const struct device_io *io, size_t at)
{
    assert_true(!io->iov == (io->data != NULL));
    for (unsigned i = 0; io->iov && i < io->iovcnt; at -= io->iov[i++].iov_len)
        if (at < io->iov[i].iov_len)
            return (const unsigned char *)io->iov[i].iov_base + at;
    assert_non_null(io->data);
    return (const unsigned char *)io->data + at;
}

static void neighbours_leave_together(void **state)
{
    struct held *h;
    struct vdev *root = make(&h, state);
    const struct device_io *io;

    for (unsigned i = 0; i < WRITES; i++)
        submit(root, i, i);
    assert_int_equal(h->count, AT_ONCE);
    finish(h, 0);
    assert_int_equal(writes[0].rc, 0);
    assert_int_equal(writes[1].rc, 1);
    assert_int_equal(h->count, AT_ONCE + 1);
    io = h->io[AT_ONCE];
    assert_int_equal(io->offset, VDEV_LABEL_START + AT_ONCE * SECTOR);
    assert_int_equal(io->size, JOINED * SECTOR);
    for (unsigned i = 0; i < JOINED; i++)
        assert_memory_equal(sector_of(io, i * SECTOR), writes[AT_ONCE + i].data, SECTOR);
    assert_int_equal(io->iov != NULL, h->vectors);
    while (h->finished < h->count)
        finish(h, 0);
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(writes[i].rc, 0);
    assert_int_equal(h->count, AT_ONCE + 3);
    assert_int_equal(root->child[0]->stats.ops[1], WRITES);
    vdev_tree_free(root);
}

/* Two streams and some lonely writes, mixed. */
static void strangers_stay_apart(void **state)
{
    struct held *h;
    struct vdev *root = make(&h, state);
    unsigned bytes = 0;

    for (unsigned i = 0; i < AT_ONCE; i++)
        submit(root, i, 5000 + 2 * i);
    for (unsigned i = AT_ONCE; i < AT_ONCE + 60; i++)
        submit(root, i, i % 3 == 0 ? i : i % 3 == 1 ? 1000 + i / 3 : 2000 + i / 3);
    while (h->finished < h->count) {
        const struct device_io *io = h->io[h->finished];
        for (size_t at = 0; at < io->size; at += SECTOR) {
            const unsigned char *data = sector_of(io, at);
            const struct write *w = &writes[data[0]];
            assert_int_equal(w->io.offset, io->offset + at - VDEV_LABEL_START);
            assert_memory_equal(data, w->data, SECTOR);
        }
        bytes += (unsigned)io->size;
        finish(h, 0);
    }
    assert_int_equal(bytes, (AT_ONCE + 60) * SECTOR);
    assert_int_equal(h->count, AT_ONCE + 20 + 2);
    for (unsigned i = 0; i < AT_ONCE + 60; i++)
        assert_int_equal(writes[i].rc, 0);
    vdev_tree_free(root);
}

/* Workers finish blocks in another order than that of the offsets. */
static void order_does_not_matter(void **state)
{
    struct held *h;
    struct vdev *root = make(&h, state);

    for (unsigned i = 0; i < AT_ONCE; i++)
        submit(root, i, 5000 + 2 * i);
    for (unsigned i = AT_ONCE; i < AT_ONCE + 40; i++)
        submit(root, i, i ^ 1);
    while (h->finished < h->count)
        finish(h, 0);
    assert_int_equal(h->count, AT_ONCE + 1);
    for (unsigned i = 0; i < AT_ONCE + 40; i++)
        assert_int_equal(writes[i].rc, 0);
    vdev_tree_free(root);
}

/* What fails goes a second time, by itself: only what fails then has failed. */
static void a_failure_is_tried_again(void **state)
{
    enum { BAD = AT_ONCE + 5 };
    struct held *h;
    struct vdev *root = make(&h, state);

    for (unsigned i = 0; i < AT_ONCE + 10; i++)
        submit(root, i, i);
    finish(h, -ENOSPC);
    assert_int_equal(writes[0].rc, 1);
    while (h->finished < h->count) {
        const struct device_io *io = h->io[h->finished];
        finish(h, io->size > SECTOR || *sector_of(io, 0) == BAD ? -EIO : 0);
    }
    for (unsigned i = 0; i < AT_ONCE + 10; i++)
        assert_int_equal(writes[i].rc, i == BAD ? -EIO : 0);
    assert_int_equal(root->child[0]->stats.write_errors, 1);
    assert_int_equal(h->count, AT_ONCE + 12); /* those, one for ten, and eleven again */
    vdev_tree_free(root);
}

#define BOTH(test)                                                                                 \
    {#test ", copied", test, NULL, NULL, NULL},                                                    \
    {                                                                                              \
#test ", vectors", test, NULL, NULL, (void *)1                                             \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(neighbours_leave_together),
        BOTH(strangers_stay_apart),
        BOTH(order_does_not_matter),
        BOTH(a_failure_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
