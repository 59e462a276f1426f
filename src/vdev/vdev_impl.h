/* Private to src/vdev. */
#ifndef VDEV_VDEV_IMPL_H
#define VDEV_VDEV_IMPL_H

#include "vdev/vdev.h"

extern const struct vdev_kind vdev_kind_root, vdev_kind_file, vdev_kind_disk, vdev_kind_missing,
    vdev_kind_hole, vdev_kind_mirror, vdev_kind_replacing, vdev_kind_spare, vdev_kind_raidz,
    vdev_kind_draid, vdev_kind_dspare, vdev_kind_indirect;

/* An empty vdev of a kind; NULL: out of memory. */
struct vdev *vdev_new(const struct vdev_kind *kind);
/* One vdev with what it owns, its children too. fini leaves the struct's memory. */
void vdev_free(struct vdev *v);
void vdev_fini(struct vdev *v);

/* The top-level vdev of v and of all below it. */
void vdev_set_top(struct vdev *v, struct vdev *top);

/* Sets state and reason; why is a static string or NULL. */
static inline void vdev_set_state(struct vdev *v, enum vdev_state state, const char *why)
{
    v->why = why;
    __atomic_store_n(&v->state, state, __ATOMIC_RELEASE);
}

/* Sizes from the device: psize and asize of a leaf. -EOVERFLOW if it is too small. */
int leaf_measure(struct vdev *leaf, uint64_t device_size);

/* redundant.c, for vdevs that do without some of their children. */
/* Sets the state from the children's; -ENXIO if too many of them cannot be read. */
int redundant_open(struct vdev *v, unsigned flags);
/* How many of v's children may be unreadable while v is not. */
unsigned vdev_spare_children(const struct vdev *v);
bool vdev_is_mirror(const struct vdev *v); /* also of the temporary kinds */
uint64_t smallest_child(const struct vdev *v); /* asize of the smallest readable one, 0 if none */
/* May it lack blocks born in this txg? Of an interior vdev: so much of it that it cannot be read.
 */
bool vdev_lacks(const struct vdev *v, uint64_t birth);
bool vdev_mendable(struct vdev *v);    /* may reads write to it, and has some leaf an open, writable device? */
void vdev_count_wrong(struct vdev *v); /* a checksum error of v */
int vdev_worse(int a, int b);          /* of several failures the one to report (02 17) */

/* Sets the states of interior vdevs, from v down, by their children's. */
void vdev_restate(struct vdev *v);

/* scrub.c, for the kinds' scrub(). */
int scrub_child(struct vdev *v, uint64_t offset, void *data, size_t size,
                const struct vdev_scrub *s);
/* The same when the bytes are known already: they are the verdict. */
int scrub_known(struct vdev *v, uint64_t offset, const void *data, size_t size,
                const struct vdev_scrub *s);
void scrub_report(const struct vdev_scrub *s, struct vdev *leaf, int rc);
/* The bytes are right: writes them to the devices in v that lack them. */
void scrub_give(struct vdev *v, uint64_t offset, const void *data, size_t size,
                const struct vdev_scrub *s);
static inline void scrub_count(const struct vdev_scrub *s, uint64_t bytes)
{
    if (s->given)
        *s->given += bytes;
}
/* Writes to a vdev that is no top-level one, and waits. repair: as in struct vdev_io. */
int vdev_write_below(struct vdev *v, uint64_t offset, const void *data, size_t size, uint64_t birth,
                     bool repair);
/* io.c: may this be asked of a top-level vdev (NULL: none)? -ENXIO, -EIO. */
int vdev_check_range(const struct vdev *top, uint64_t offset, size_t size);

/* upkeep.c: what of [*from, *to) of its top-level vdev is the leaf's, if vdev_has_ranges(). */
void vdev_leaf_range(const struct vdev *leaf, uint64_t *from, uint64_t *to);

/* What the kinds know beyond the struct. */
void raidz_set_reflow(struct vdev *v, uint64_t offset, unsigned state);
unsigned raidz_nparity(const struct vdev *v);
unsigned draid_nparity(const struct vdev *v);
void draid_print_name(const struct vdev *v, char *out, size_t cap);
bool dspare_usable(const struct vdev *v);

/* Of a top-level vdev whose ashift is known (05 8.1). */
static inline unsigned vdev_deflate_ratio(const struct vdev *top)
{
    enum { USUAL_BLOCK = 131072 };
    return (unsigned)(USUAL_BLOCK / (top->kind->psize_to_asize(top, USUAL_BLOCK, 0) >> 9));
}

/* Common to plain vdevs: a block takes its size rounded up to whole sectors. */
uint64_t plain_psize_to_asize(const struct vdev *v, uint64_t psize, uint64_t birth);

#endif
