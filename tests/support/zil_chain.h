/* Writing an intent log into a test's pool: records by field, blocks, and the chain they make. */
#ifndef TESTS_SUPPORT_ZIL_CHAIN_H
#define TESTS_SUPPORT_ZIL_CHAIN_H

#include <string.h>

#include "codec/zil_record.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "zil/zil.h"

#define CHAIN_BLOCK  8192u
#define CHAIN_BLOCKS 16

struct chain_writer {
    struct pool *pool;
    uint64_t txg; /* of new blocks and records */
    uint64_t seq; /* of the last record */
    uint64_t id;  /* of the chain: the first word of the seed of new blocks */
    struct blkptr bp[CHAIN_BLOCKS + 1];
    unsigned n; /* blocks so far; bp[n] is the one being filled */
    unsigned char block[CHAIN_BLOCK];
    size_t used, record; /* bytes in the block; where the last record begins */
};

static inline void chain_new_block(struct chain_writer *c)
{
    const uint64_t seed[4] = {c->id, 22, 33, c->n + 1};
    memset(c->block, 0, sizeof c->block);
    c->used = ZIL_CHAIN_SIZE;
    if (block_log_alloc(c->pool, c->txg, CHAIN_BLOCK, seed, &c->bp[c->n]) != 0)
        abort();
}

static inline void chain_begin(struct chain_writer *c, struct pool *pool, uint64_t txg)
{
    *c = (struct chain_writer){.pool = pool, .txg = txg, .id = 11};
    chain_new_block(c);
}

static inline void chain_written(void *arg, int rc)
{
    if (rc)
        abort();
}

/* Writes the block; the next one is allocated, and not written. */
static inline void chain_end_block(struct chain_writer *c)
{
    unsigned char block[CHAIN_BLOCK];
    memcpy(block, c->block, sizeof block);
    put_u64(block + ZIL_CHAIN_USED, c->used, BYTES_HOST_BIG);
    c->n++;
    chain_new_block(c);
    bp_encode(&c->bp[c->n], block + ZIL_CHAIN_NEXT);
    block_log_write(c->pool, &c->bp[c->n - 1], block, chain_written, NULL);
    block_wait(c->pool);
}

/* A record of this type; fields are added to it. */
static inline void chain_record(struct chain_writer *c, unsigned type)
{
    unsigned char *r = c->block + c->used;
    c->record = c->used;
    put_u64(r, type, BYTES_HOST_BIG);
    put_u64(r + 8, ZIL_HEADER_SIZE, BYTES_HOST_BIG);
    put_u64(r + 16, c->txg, BYTES_HOST_BIG);
    put_u64(r + 24, ++c->seq, BYTES_HOST_BIG);
    c->used += ZIL_HEADER_SIZE;
}

/* Its length again, rounded up. */
static inline void chain_add(struct chain_writer *c, const void *data, size_t n)
{
    memcpy(c->block + c->used, data, n);
    c->used += n;
    put_u64(c->block + c->record + 8, P2_ROUND_UP(c->used - c->record, (size_t)8), BYTES_HOST_BIG);
}

static inline void chain_words(struct chain_writer *c, const uint64_t *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        chain_add(c, &w[i], 8);
}
#define CHAIN_WORDS(c, ...)                                                                        \
    chain_words(c, (const uint64_t[]){__VA_ARGS__},                                                \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static inline void chain_name(struct chain_writer *c, const char *name)
{
    chain_add(c, name, strlen(name) + 1);
}

/* To the next multiple of 8. */
static inline void chain_pad(struct chain_writer *c)
{
    c->used = c->record + P2_ROUND_UP(c->used - c->record, (size_t)8);
}

static inline void chain_create(struct chain_writer *c, unsigned type, uint64_t dir,
                                uint64_t object, uint64_t mode, const char *name,
                                const char *target)
{
    chain_record(c, type);
    CHAIN_WORDS(c, dir, object, mode, 1000, 100, 5, 1700000000 + c->seq, 123456789, 0);
    chain_name(c, name);
    if (target)
        chain_name(c, target);
    chain_pad(c);
}

static inline void chain_write(struct chain_writer *c, uint64_t object, uint64_t off,
                               const void *data, size_t n)
{
    unsigned char zero[ZIL_POINTER_SIZE] = {0};
    chain_record(c, ZIL_WRITE);
    CHAIN_WORDS(c, object, off, n, 0);
    chain_add(c, zero, sizeof zero);
    chain_add(c, data, n);
    chain_pad(c);
}

static inline struct zil_header chain_header(const struct chain_writer *c)
{
    return (struct zil_header){.log = c->bp[0]};
}

#endif
