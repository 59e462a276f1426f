/*
 * What the authentication codes of encrypted datasets cover (spec 09 7, 8): pure functions of bytes
 * and pointers, shared by those who verify blocks and object sets.
 */
#ifndef POOL_MAC_H
#define POOL_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/blkptr.h"

#define MAC_VERSION     1  /* of datasets made since 0.8.0; version 0 was that of its candidates */
#define MAC_RECORD_SIZE 32 /* of a pointer, at most */
#define MAC_DNODE_SIZE  (64 + 4 * MAC_RECORD_SIZE) /* of a dnode's structure, at most */

/* The MAC of a pointer as bytes; of an encrypted block also salt and IV. */
void mac_of_bp(const struct blkptr *bp, uint8_t mac[16]);
void mac_nonce_of_bp(const struct blkptr *bp, uint8_t salt[8], uint8_t iv[12]);

/* The record that stands for a pointer; returns its size. */
size_t mac_record(const struct blkptr *bp, unsigned version, uint8_t out[MAC_RECORD_SIZE]);

/* A dnode of 512 bytes as an object set's codes see it: core, pointers, spill pointer. big says the
 * byte order of dn; the result is always little-endian. Returns its size; 0: the dnode is damaged.
 */
size_t mac_dnode(const uint8_t *dn, bool big, unsigned version, uint8_t out[MAC_DNODE_SIZE]);

/*
 * A block of dnodes is taken apart: aad gets what is only authenticated, text the bonus areas that
 * are encrypted, in order. Both have room for n bytes, the size of the block. gather false puts
 * text back into the block instead and leaves aad alone. -EBADE with a sentence: a dnode is
 * damaged.
 */
struct mac_dnodes {
    uint8_t *aad, *text;
    size_t aad_size, text_size;
};
int mac_dnode_block(uint8_t *block, size_t n, bool big, unsigned version, bool gather,
                    struct mac_dnodes *d);

#endif
