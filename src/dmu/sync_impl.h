/* What the files that write a txg share. See objset_sync.c for the story. */
#ifndef DMU_SYNC_IMPL_H
#define DMU_SYNC_IMPL_H

#include "dmu/dmu_impl.h"

struct accounts;

/* One call of objset_sync. */
struct sync {
    struct objset *os;
    struct tx *tx;
    uint64_t txg;
    bool hole_birth;
    struct accounts *accounts; /* NULL: this set is not accounted */
};

struct dbuf_list {
    struct dbuf **items;
    size_t count, capacity;
};

/* The sync of one dnode. */
struct dnode_sync {
    struct sync *s;
    struct dnode *dn;
    unsigned levels;                           /* after this sync */
    _Atomic int64_t used;                      /* change of the dnode's space, bytes */
    struct dbuf_list touched[LEVELS_MAX + 1];  /* indirect blocks to write, by level; held */
};

/* A level-0 block to write. */
struct leaf {
    uint64_t blkid;
    uint64_t fill;
    struct buf *data;    /* a reference */
    struct dirty *dirty; /* its record, or NULL (meta-dnode) */
    struct dbuf *parent; /* NULL: the dnode */
    struct blkptr bp;    /* the new pointer */
};

/* tree_sync.c */
/* Levels for the highest block; raises max_blkid. */
int tree_grow(struct dnode_sync *ds, uint64_t max_blkid);
/* Writes leaves (sorted by blkid) and installs their pointers. Their data stays the caller's. */
int tree_write_leaves(struct dnode_sync *ds, struct leaf *v, size_t n);
/* Writes what was touched above them, bottom-up, and adds up the used space. */
int tree_finish(struct dnode_sync *ds);
/* The tree leads to the leaves now: their records have served. */
void tree_release_leaves(struct dnode_sync *ds, struct leaf *v, size_t n);
void tree_abandon(struct dnode_sync *ds); /* after an error */
/* An indirect block about to be changed: in memory, with a buffer of its own, on the list. */
int tree_touch(struct dnode_sync *ds, unsigned level, uint64_t blkid, struct dbuf **out);
/* Writes one block: *bp is the old pointer, then the new one. Reports and counts both. */
int tree_write_block(struct dnode_sync *ds, const struct policy_for *what, uint64_t fill,
                     struct buf *data, struct blkptr *bp);
/* A pointer leaves the tree for good. */
void tree_kill(struct dnode_sync *ds, const struct blkptr *bp);
static inline unsigned char *block_ptr(struct dbuf *indirect, uint64_t blkid)
{
    return indirect->buf->data +
           BLKPTR_SIZE * (blkid & ((1ull << dnode_epbs(indirect->dn)) - 1));
}

/* free_sync.c */
int free_sync_ranges(struct dnode_sync *ds, const struct rangeset *ranges);
int free_sync_object(struct dnode_sync *ds);

/* dnode_sync.c */
int dnode_sync_change(struct sync *s, struct change *ch);

/* account.c */
int accounts_new(struct accounts **out, uint64_t flags);
void accounts_free(struct accounts *a);
/* Subtracts (sign -1) or adds what a dnode image is charged for. spill: contents of its spill block
 * if known. */
int accounts_note(struct accounts *a, struct dnode *dn, int sign, const struct buf *spill);
/* Applies the sums to the set's ZAPs. */
int accounts_apply(struct accounts *a, struct objset *os, struct tx *tx);

#endif
