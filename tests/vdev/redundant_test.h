/* Vdevs of any shape on devices in memory that fail, lie and tell what is asked of them. */
#ifndef TESTS_VDEV_REDUNDANT_TEST_H
#define TESTS_VDEV_REDUNDANT_TEST_H

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../support/test.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "vdev/vdev.h"

#define DISKS_MAX 12

struct shape {
    const char *type;
    unsigned disks, nparity, ashift;
    unsigned ndata, nspares, ngroups; /* draid */
    const uint64_t *expand_txgs;
    unsigned expansions;
    bool expanding;
    uint64_t disk_size; /* 0: 64 MiB */
};

struct disk {
    bool dead, bad_flush;
    unsigned asked;        /* reads and writes */
    uint64_t offset, size; /* of the last one, without the labels' room */
    struct vdev *leaf;
};

struct lab {
    struct vdev *root, *top;
    struct disk disk[DISKS_MAX];
    unsigned disks;
};

static int lab_fault(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    struct disk *d = arg;

    if (op == DEVICE_FLUSH)
        return d->bad_flush ? -EIO : 0;
    if (d->dead)
        return -EIO;
    __atomic_fetch_add(&d->asked, 1, __ATOMIC_RELAXED);
    d->offset = offset - VDEV_LABEL_START;
    d->size = n;
    return 0;
}

static inline struct nvlist *lab_leaf_config(unsigned id)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", "file");
    nvlist_add_uint64(l, "id", id);
    nvlist_add_uint64(l, "guid", 100 + id);
    return l;
}

static inline struct nvlist *lab_top_config(const struct shape *s)
{
    struct nvlist *l = nvlist_new(), *child[DISKS_MAX];

    nvlist_add_string(l, "type", s->type);
    nvlist_add_uint64(l, "id", 0);
    nvlist_add_uint64(l, "guid", 77);
    nvlist_add_uint64(l, "ashift", s->ashift);
    if (s->nparity)
        nvlist_add_uint64(l, "nparity", s->nparity);
    if (s->ndata) {
        nvlist_add_uint64(l, "draid_ndata", s->ndata);
        nvlist_add_uint64(l, "draid_nspares", s->nspares);
        nvlist_add_uint64(l, "draid_ngroups", s->ngroups);
    }
    if (s->expansions)
        nvlist_add_uint64_array(l, "raidz_expand_txgs", s->expand_txgs, s->expansions);
    if (s->expanding)
        nvlist_add_boolean(l, "raidz_expanding");
    for (unsigned i = 0; i < s->disks; i++)
        child[i] = lab_leaf_config(i);
    nvlist_add_nvlist_array(l, "children", child, s->disks);
    for (unsigned i = 0; i < s->disks; i++)
        nvlist_free(child[i]);
    return l;
}

/* Takes the list of a top-level vdev over. */
static inline int lab_parse(struct vdev **root, struct nvlist *top)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", "root");
    nvlist_add_uint64(l, "id", 0);
    nvlist_add_uint64(l, "guid", 1000);
    nvlist_add_nvlist_array(l, "children", &top, 1);
    nvlist_free(top);
    int rc = vdev_tree_parse(root, l);
    nvlist_free(l);
    return rc;
}

static int lab_attach(struct vdev *leaf, void *arg)
{
    struct lab *lab = *(struct lab **)arg;
    uint64_t size = *(uint64_t *)((void **)arg)[1];
    struct disk *d = &lab->disk[lab->disks++];

    d->leaf = leaf;
    assert_int_equal(device_memory(&leaf->device, size), 0);
    assert_int_equal(device_fault(&leaf->device, leaf->device, lab_fault, d), 0);
    return 0;
}

/* Gives all leaves devices and opens the tree. */
static inline void lab_open(struct lab *lab, uint64_t disk_size)
{
    uint64_t size = disk_size ? disk_size : 64ull << 20;
    void *arg[] = {lab, &size};

    lab->top = lab->root->child[0];
    lab->disks = 0;
    vdev_each_leaf(lab->root, lab_attach, arg);
    assert_int_equal(vdev_tree_open(lab->root, VDEV_OPEN_WRITE | VDEV_OPEN_ANY_GUID, 1000), 0);
}

static inline void lab_new(struct lab *lab, const struct shape *s)
{
    memset(lab, 0, sizeof *lab);
    assert_int_equal(lab_parse(&lab->root, lab_top_config(s)), 0);
    lab->root->may_mend = true;
    lab_open(lab, s->disk_size);
}

static inline void lab_free(struct lab *lab)
{
    vdev_tree_free(lab->root);
}

struct lab_wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    int rc;
};

static void lab_done(struct vdev_io *io, int rc)
{
    struct lab_wait *w = io->arg;

    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->rc = rc;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static inline int lab_submit_to(struct vdev *v, bool write, uint64_t offset, void *data,
                                size_t size, uint64_t birth)
{
    struct lab_wait w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct vdev_io io = {.vdev = v,
                         .write = write,
                         .offset = offset,
                         .size = size,
                         .data = data,
                         .birth = birth,
                         .done = lab_done,
                         .arg = &w};

    if (v == v->top)
        vdev_submit(&io);
    else
        v->kind->submit(v, &io);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.rc;
}

/* vdev_submit, and waits. */
static inline int lab_submit(struct lab *lab, bool write, uint64_t offset, void *data, size_t size,
                             uint64_t birth)
{
    return lab_submit_to(lab->top, write, offset, data, size, birth);
}

/* A block that is on the vdev. */
struct block {
    uint64_t offset, birth;
    size_t size;
    unsigned char *data;
};

static int lab_verify(void *arg, const void *data)
{
    const struct block *b = arg;

    return memcmp(data, b->data, b->size) == 0 ? 0 : -EBADE;
}

static inline int lab_read(struct lab *lab, struct block *b)
{
    unsigned char *got = malloc(b->size);
    int rc;

    memset(got, 0xee, b->size);
    rc = vdev_read(lab->top, b->offset, got, b->size, b->birth, lab_verify, b);
    if (rc == 0)
        assert_memory_equal(got, b->data, b->size);
    free(got);
    return rc;
}

/* Random bytes over all that a disk has between the labels. */
static inline void lab_spoil(struct lab *lab, unsigned disk, struct env *env, uint64_t size)
{
    static unsigned char noise[1 << 16];
    bool dead = lab->disk[disk].dead;

    lab->disk[disk].dead = false;
    for (uint64_t at = 0; at < size; at += sizeof noise) {
        test_fill(env, noise, sizeof noise);
        assert_int_equal(lab_submit_to(lab->disk[disk].leaf, true, at, noise, sizeof noise, 1), 0);
    }
    lab->disk[disk].dead = dead;
}

#endif
