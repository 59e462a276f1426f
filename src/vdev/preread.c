/* Reading a range of a vdev before its blocks are read, with one request for each device. */
#include <stdlib.h>

#include "util/buf.h"
#include "util/bytes.h"
#include "vdev/gate_impl.h"
#include "vdev/leaf_impl.h"
#include "vdev/upkeep.h"
#include "vdev/vdev_impl.h"
#include "vdev/wait_impl.h"

struct piece {
    struct device_io io; /* the first, for done */
    struct vdev *leaf;
    struct buf *data;
    uint64_t start, writes;
    struct vdev_wait *wait;
    struct piece *next;
};

struct preread {
    uint64_t from, to;
    struct piece *pieces;
    unsigned n;
};

static void piece_done(struct device_io *io, int rc)
{
    struct piece *p = (struct piece *)io;

    if (rc) {
        buf_unref(p->data);
        p->data = NULL;
    }
    vdev_wait_done(p->wait, 0);
}

static int add_piece(struct vdev *leaf, void *arg)
{
    struct preread *r = arg;
    uint64_t from = r->from, to = r->to;
    struct piece *p;

    if (!leaf->device || !vdev_readable(leaf) || !vdev_has_ranges(leaf) ||
        __atomic_load_n(&leaf->lacking, __ATOMIC_ACQUIRE)) /* it is going to be written, not read */
        return 0;
    vdev_leaf_range(leaf, &from, &to);
    to = MIN(to, leaf_data_size(leaf));
    if (to <= from || !(p = calloc(1, sizeof *p)))
        return 0;
    p->data = buf_new((size_t)(to - from));
    if (!p->data) {
        free(p);
        return 0;
    }
    p->leaf = leaf;
    p->start = from;
    p->next = r->pieces;
    r->pieces = p;
    r->n++;
    return 0;
}

static void send(struct piece *p, struct vdev_wait *wait)
{
    p->wait = wait;
    p->writes = leaf_ahead_begin(leaf_queue_ahead(p->leaf));
    p->io = (struct device_io){.op = DEVICE_READ,
                               .offset = p->start + VDEV_LABEL_START,
                               .size = p->data->size,
                               .data = p->data->data,
                               .done = piece_done};
    device_submit(p->leaf->device, &p->io);
}

void vdev_preread(struct vdev *top, uint64_t offset, uint64_t size)
{
    unsigned slot = gate_enter(top->gate);
    struct preread r = {.from = offset, .to = offset + size};
    struct vdev_wait wait;

    vdev_each_leaf(top, add_piece, &r);
    vdev_wait_init(&wait, r.n);
    for (struct piece *p = r.pieces; p; p = p->next)
        send(p, &wait);
    vdev_wait_all(&wait);
    for (struct piece *p = r.pieces, *next; p; p = next) {
        next = p->next;
        if (p->data)
            leaf_ahead_add(leaf_queue_ahead(p->leaf), p->writes, p->start, p->data);
        free(p);
    }
    gate_leave(top->gate, slot);
}
