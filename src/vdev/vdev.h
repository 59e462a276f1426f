/*
 * The vdev tree: how offsets of a top-level vdev become offsets of devices (spec 01 5, 10; 02 10-14).
 * A vdev kind is a table of functions in vdev_kinds[] (vdev/kinds.c); adding one touches one file and
 * one line there. Offsets inside a top-level vdev are bytes from the start of allocatable space; the
 * leaf adds the 4 MiB of front labels itself.
 *
 * Locking: what of the tree can change while the pool is in use, and who may look at it when, is in
 * vdev/change.h. I/O functions may be called from any thread.
 */
#ifndef VDEV_VDEV_H
#define VDEV_VDEV_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

struct nvlist;
struct vdev;
struct env;

#define VDEV_ID_MAX          0xffffffu
#define VDEV_LABEL_START     0x400000ull /* front labels and boot region of a leaf */
#define VDEV_LABEL_TOTAL     0x480000ull /* front + back labels */
#define VDEV_LEAF_MIN_SIZE   0x4000000ull
#define VDEV_ASHIFT_MIN      9
#define VDEV_ASHIFT_MAX      16

enum vdev_state { VDEV_CLOSED, VDEV_OFFLINE, VDEV_REMOVED, VDEV_CANT_OPEN, VDEV_FAULTED,
                  VDEV_DEGRADED, VDEV_HEALTHY };

enum vdev_class { VDEV_CLASS_NORMAL, VDEV_CLASS_LOG, VDEV_CLASS_SPECIAL, VDEV_CLASS_DEDUP };

/* One request on a top-level vdev, asynchronous. The caller owns it until done() is called (in any
 * thread, possibly before the submit returns). */
struct vdev_io {
    struct vdev *vdev;
    bool write;
    uint64_t offset;      /* bytes, multiple of 1 << ashift */
    size_t size;          /* bytes, multiple of 1 << ashift */
    void *data;
    uint64_t birth;       /* physical birth txg of the block: which copies can have it */
    bool retried;         /* the leaf's: it failed once and was sent again, alone */
    bool repair;          /* a write of what is on the other devices already: failing, nothing more is lost */
    void (*done)(struct vdev_io *io, int rc);
    void *arg;
    void (*told)(struct vdev_io *io, int rc); /* vdev_submit's: the caller's done */
    unsigned slot;                            /* vdev_submit's: where it was counted */
    struct device_io device_io; /* the leaf's */
    struct vdev *leaf;
    struct vdev_io *next;
};

/* How a block is scrubbed. */
struct vdev_scrub {
    uint64_t birth;       /* as in struct vdev_io */
    int (*verify)(void *arg, const void *data); /* 0, or -EBADE: these are not the block's bytes */
    void *arg;
    /* A leaf told something else (-EBADE) or could not be read (-EIO); in the caller. May be NULL. */
    void (*wrong)(void *arg, struct vdev *leaf, int rc);
    void *wrong_arg;
    /* Resilver: the block is read as vdev_read does, and given to the devices that lack it. What they do not
     * take counts as missed once more. */
    bool resilver;
    uint64_t *given;      /* gets what was written to devices added, bytes; may be NULL */
};

struct vdev_kind {
    const char *type;     /* as in the configuration: "file", "disk", "mirror", ... */
    bool leaf;
    int (*parse)(struct vdev *v, const struct nvlist *config);      /* kind-specific keys; may be NULL */
    int (*check)(struct vdev *v);                                   /* the children are there too; may be NULL */
    int (*unparse)(const struct vdev *v, struct nvlist *config);    /* may be NULL */
    int (*open)(struct vdev *v, unsigned flags);                    /* children are open already */
    void (*close)(struct vdev *v);
    uint64_t (*asize)(const struct vdev *v);                        /* from the open children */
    uint64_t (*psize_to_asize)(const struct vdev *v, uint64_t psize, uint64_t birth);
    /* Reads one block; if verify (may be NULL) refuses what was read, tries every other way to get
     * it, repairs what was bad if the pool is writable, and counts errors. */
    int (*read)(struct vdev *v, uint64_t offset, void *data, size_t size, uint64_t birth,
                int (*verify)(void *arg, const void *data), void *arg);
    void (*submit)(struct vdev *v, struct vdev_io *io);
    /* Reads one block from all devices that have something of it; NULL: one read does that. */
    int (*scrub)(struct vdev *v, uint64_t offset, void *data, size_t size, const struct vdev_scrub *s);
    /* Smallest unit of compressed bytes that is allocated; NULL: 1 << ashift. */
    uint64_t (*min_alloc)(const struct vdev *v);
    /* Allocations start and end at multiples of this many bytes (05 3.3); NULL: 1 << ashift. */
    uint64_t (*alloc_align)(const struct vdev *v);
    /* What of a range of v's bytes, [*from, *to), lies on this child, as bytes of the child. NULL: that is
     * no range. */
    void (*child_range)(const struct vdev *v, unsigned child, uint64_t *from, uint64_t *to);
    void (*free)(struct vdev *v);                                   /* what parse has made */
};

/* All kinds, terminated by NULL; and the one of this type or NULL. */
extern const struct vdev_kind *const vdev_kinds[];
const struct vdev_kind *vdev_kind_find(const char *type);

struct vdev_stats { uint64_t ops[2], bytes[2]; uint64_t read_errors, write_errors, checksum_errors; };

struct vdev {
    const struct vdev_kind *kind;
    struct vdev *parent, *top;       /* top: the top-level vdev above (itself for one); NULL for root */
    struct vdev_gate *gate;          /* the root's, in it and in top-level vdevs (vdev/change.h) */
    struct vdev **child;
    unsigned children, id;
    uint64_t guid, create_txg;
    bool may_mend;                   /* the topmost: the pool is ours, reads may write what they find bad */
    enum vdev_state state;
    const char *why;                 /* static words for a state that is not healthy, or NULL */
    uint64_t asize, psize;           /* bytes; psize of leaves */

    /* Top-level vdevs (01 5.1). */
    unsigned ashift, metaslab_shift;
    uint64_t metaslab_array;         /* MOS object, 0 = none yet */
    bool is_log, non_allocating, removing;
    bool joining;                    /* atomic: added in a txg that is not the pool yet: no blocks here */
    enum vdev_class class;
    uint64_t zap_top, zap_leaf, zap_root; /* MOS objects or 0 */
    unsigned deflate_ratio;          /* 05 8.1; 512 for disks and mirrors */
    bool deep;                       /* a mirror of more than devices (mirror.c) */
    unsigned reads;                  /* atomic: under way, for mirrors to choose by */
    bool config_dirty;               /* labels must be rewritten in the next commit */
    void *allocator;                 /* the pool layer's metaslab group */

    /* Leaves. */
    struct device *device;           /* NULL while closed */
    char *path;
    char *in_use;                    /* the sentence about who has the device locked, or NULL */
    uint64_t dtl_object;
    uint64_t resilver_txg;           /* in which it was attached, until it lacks nothing (01 5.1) */
    pthread_mutex_t dtl_lock;        /* guards the next three */
    struct rangeset *dtl;            /* txgs it may lack, NULL if none is known */
    bool dtl_changed;                /* since it was last written into the MOS */
    bool dtl_lost;                   /* there was no memory for it: it may lack anything */
    bool lacking;                    /* atomic: dtl is not empty */
    bool failed;                     /* atomic: a write or flush failed that nobody has dealt with */
    bool whole_disk, offline, faulted, not_present, is_spare;
    bool no_trim;                    /* atomic: the device was told something to forget, and cannot */
    bool went_away;                  /* while the pool was in use: its path is still its own */
    bool offline_for_now;            /* until the pool is imported again: not in the configuration */
    bool faulted_by_hand;            /* aux_state is external (01 5.1) */

    struct nvlist *other;            /* configuration keys we keep but do not interpret */
    void *private;                   /* the kind's */
    struct vdev_stats stats;         /* atomics inside the layer */
};

/* Builds the tree from a root configuration ({type root, children ...}); nothing is opened. -EINVAL
 * for structural errors, -ENOTSUP (with the kind's name in the sentence) for a kind not built in. */
int vdev_tree_parse(struct vdev **root, const struct nvlist *config);
void vdev_tree_free(struct vdev *root); /* closes too */

/* The configuration of a vdev and all below it: for labels (one top-level) or for the MOS (root,
 * with ZAP object numbers). The caller frees *out. */
enum vdev_config_form { VDEV_CONFIG_LABEL, VDEV_CONFIG_MOS };
int vdev_tree_config(const struct vdev *v, enum vdev_config_form form, struct nvlist **out);

enum { VDEV_OPEN_WRITE = 1, VDEV_OPEN_ANY_GUID = 2 /* no label check: the pool is being created */ };

/* Opens all devices below v, finds a GPT partition where the labels are in one, checks that the label
 * guids match, and computes sizes and states. Missing devices are not an error here: see state. 0 if
 * every top-level data vdev can be read; -EBUSY if one is locked by another process (the sentence
 * names it), -ENXIO otherwise (the sentence names the first device). */
int vdev_tree_open(struct vdev *root, unsigned flags, uint64_t pool_guid);
void vdev_tree_close(struct vdev *root);

/* A leaf on a device that is already open, which it takes over (also on error: it is closed then).
 * For tests and for callers with a device of their own; the label is not looked at. ashift 0: by the
 * device. -EOVERFLOW: too small; -EINVAL: ashift out of range or below the device's sector. */
int vdev_leaf_on_device(struct vdev **out, struct device *device, unsigned ashift,
                        struct env *env);

/* A new top-level leaf for pool creation: opens path, decides type and ashift (0 = by the device).
 * Errors name the path: too small (-EOVERFLOW); -EBUSY: in use by a process, or its label says that it
 * belongs to a pool that was not destroyed ("PATH is part of exported pool 'NAME'"). The forced form
 * does not look at the label; it refuses only what a process has open. */
int vdev_leaf_new(struct vdev **out, const char *path, unsigned ashift, struct env *env);
int vdev_leaf_new_forced(struct vdev **out, const char *path, unsigned ashift, struct env *env);
int vdev_root_new(struct vdev **out, uint64_t guid);
/* A new redundant vdev, still without children: "mirror", "raidz" (the same as "raidz1") to "raidz3".
 * Leaves are added with vdev_add_child; finish then decides ashift (the largest of theirs), sizes
 * (the smallest child counts) and state. -EINVAL: not such a word; the wrong number of children. */
int vdev_group_new(struct vdev **out, const char *word, struct env *env);
int vdev_group_finish(struct vdev *group);
int vdev_add_child(struct vdev *parent, struct vdev *child);

void vdev_stats_read(const struct vdev *v, struct vdev_stats *out); /* while others count */
uint64_t vdev_guid_sum(const struct vdev *root);
const char *vdev_state_name(enum vdev_state s);   /* "ONLINE", "DEGRADED", ... */
/* How people call a vdev: the path of a leaf, "mirror-0", "raidz2-1", "draid2:3d:7c:1s-0". */
void vdev_print_name(const struct vdev *v, char *out, size_t cap);

/* I/O on a top-level vdev. vdev_read runs in the caller. Errors: -EIO (device), -EBADE (verify refused
 * every copy), -ENXIO (no such or no readable vdev). */
struct vdev *vdev_lookup_top(const struct vdev *root, uint64_t id); /* NULL if none */
int vdev_read(struct vdev *top, uint64_t offset, void *data, size_t size, uint64_t birth,
              int (*verify)(void *arg, const void *data), void *arg);
void vdev_submit(struct vdev_io *io);
/* Reads a block as vdev_read does, but from every device that has something of it: all sides of a
 * mirror, and parity is computed again and compared. Devices that may lack the block (01 21) or are
 * not there are left out. What is wrong is counted, reported and, on writable devices, written again.
 * 0: data has the block, whatever was wrong; else as vdev_read. */
int vdev_scrub(struct vdev *top, uint64_t offset, void *data, size_t size, const struct vdev_scrub *s);
int vdev_flush(struct vdev *root);                /* write caches of all writable leaves; marks the failed */
/* Reads what the devices have of a range of a top-level vdev, each with one request, all at the same time, and
 * keeps it for the reads that follow, at least until a few more ranges were asked for. For who is going to
 * read many blocks there. size: some hundred KiB to some MiB. A hint: what cannot be read is left out. */
void vdev_preread(struct vdev *top, uint64_t offset, uint64_t size);
/* Drops what was read beside what was asked for: the next reads see what the devices have now. */
void vdev_forget_ahead(struct vdev *root);

/* What only the pool knows, to be handed over before blocks are read. Progress of a RAID-Z expansion,
 * from the uberblock (02 13): bytes copied, and the scratch state. */
void vdev_set_reflow(struct vdev *root, uint64_t offset, unsigned state);

/* The mapping of a removed vdev, from its object in the MOS (02 15): n bytes of 24-byte entries. -EBADE:
 * they are damaged. Without a mapping nothing of an indirect vdev can be read. */
int vdev_set_mapping(struct vdev *top, const void *entries, size_t n);
bool vdev_is_indirect(const struct vdev *v);
bool vdev_is_expanding(const struct vdev *v); /* a raidz to which a device is being added */
uint64_t vdev_mapping_object(const struct vdev *indirect); /* MOS object, 0 if it has none */

/* The txgs whose blocks a leaf may lack (01 21), as a set of [start, end); the leaf takes it over. It
 * is then asked for such blocks only when there is no other way. */
struct rangeset;
void vdev_set_dtl(struct vdev *leaf, struct rangeset *missing);

/*
 * The same while the pool is written, from any thread. Failed writes and flushes mark their leaf (failed);
 * the writes also add the birth of their block. The txg in sync then has to see to it that the sets
 * are in the MOS before it becomes the pool.
 */
void vdev_missed(struct vdev *leaf, uint64_t from, uint64_t to);      /* adds [from, to) */
int vdev_caught_up(struct vdev *leaf, uint64_t from, uint64_t to);    /* takes it out; -ENOMEM */
bool vdev_dtl_bounds(struct vdev *leaf, uint64_t *first, uint64_t *last); /* false: it lacks nothing */
bool vdev_dtl_changed(struct vdev *leaf);
/* Is there a device in v that lacks blocks of this txg, and could be given them now? */
bool vdev_needs(struct vdev *v, uint64_t birth);
int vdev_dtl_copy(struct vdev *leaf, struct rangeset *out); /* and takes it for written; -ENOMEM */
bool vdev_take_failed(struct vdev *leaf); /* asks for the mark and takes it off */
void vdev_set_failed(struct vdev *leaf);

/* Is it part of something that can do without it at least when all else is well? */
bool vdev_redundant(const struct vdev *leaf);
/* Could all blocks of its top-level vdev be read without it now? Devices that lack something count as
 * absent. */
bool vdev_dispensable(const struct vdev *leaf);
/* Can all blocks of a redundant top-level vdev be read now? Those of each txg are looked at by themselves:
 * what one device missed another may have. */
bool vdev_is_whole(struct vdev *top);
/* Sets the state of a leaf, and those of the vdevs above it accordingly. The device stays open. */
void vdev_change_state(struct vdev *leaf, enum vdev_state state, const char *why);

/* May it be read or written now? */
static inline bool vdev_readable(const struct vdev *v)
{
    return __atomic_load_n(&v->state, __ATOMIC_ACQUIRE) >= VDEV_DEGRADED;
}

/* The unit to which compressed sizes are rounded (02 6.2 min_alloc). */
static inline uint64_t vdev_min_alloc(const struct vdev *v)
{
    const struct vdev_kind *kind = __atomic_load_n(&v->kind, __ATOMIC_ACQUIRE);

    return kind->min_alloc ? kind->min_alloc(v) : 1ull << v->top->ashift;
}

static inline uint64_t vdev_psize_to_asize(const struct vdev *top, uint64_t psize, uint64_t birth)
{
    return __atomic_load_n(&top->kind, __ATOMIC_ACQUIRE)->psize_to_asize(top, psize, birth);
}

/* The top-level vdevs, in any thread: the list grows while the pool is in use. */
static inline unsigned vdev_tops(const struct vdev *root)
{
    return __atomic_load_n(&root->children, __ATOMIC_ACQUIRE);
}

static inline struct vdev *vdev_top_at(const struct vdev *root, unsigned i)
{
    return __atomic_load_n(&root->child, __ATOMIC_ACQUIRE)[i];
}

/* For each leaf below v, in tree order; stops at the first non-zero result and returns it. */
int vdev_each_leaf(struct vdev *v, int (*fn)(struct vdev *leaf, void *arg), void *arg);

#endif
