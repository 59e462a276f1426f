/* Private to src/pool: what writing and reading gangs have in common. */
#ifndef POOL_GANG_IMPL_H
#define POOL_GANG_IMPL_H

#include "codec/checksum.h"
#include "pool/block_impl.h"

#define GANG_HEADER_SIZE 512u
#define GANG_DEPTH_MAX   32

static inline void gang_buf_free(struct buf **b)
{
    buf_unref(*b);
}

/* Pointers in a header of this size. */
static inline unsigned gang_slots(size_t header)
{
    return (unsigned)((header - CHECKSUM_TRAILER_SIZE) / BLKPTR_SIZE);
}

/* The checksum of a header starts from the place of the leader's first DVA. */
static inline void gang_verifier(const struct blkptr *bp, uint64_t out[4])
{
    out[0] = dva_vdev(bp, 0);
    out[1] = dva_offset(bp, 0);
    out[2] = bp_phys_birth(bp);
    out[3] = 0;
}

/* A header that is being read. */
struct gang_header {
    const struct blkptr *bp;
    size_t room;  /* the larger size to try */
    size_t found; /* the size that has the right checksum */
    bool big;
};

/* gang_read.c: before reading; returns the bytes to read from each copy. */
size_t gang_header_begin(const struct pool *pool, const struct blkptr *bp, struct gang_header *h);
size_t gang_header_buffer(const struct gang_header *h); /* size of a buffer for any vdev */
int gang_header_verify(void *header, const void *data); /* 0 or -EBADE */
/* The i-th member; false if the slot is unused. *rc tells whether it is a possible member: also
 * that it has no more than the *left bytes of the leader that the members before have left, which
 * keeps the number of members small however gangs name each other. */
bool gang_member(const struct buf *header, unsigned i, bool big, struct blkptr *bp, uint64_t *left,
                 int *rc);

#endif
