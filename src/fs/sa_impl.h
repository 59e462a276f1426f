/*
 * System attributes (spec 06 4): the named values in an object's bonus buffer and spill block.
 *
 * sa_table.c   which attributes and layouts a file system knows (registry, layouts)
 * sa_read.c    bonus and spill into a set of values, either byte order, old znodes too
 * sa_write.c   a set of values into bonus and spill
 */
#ifndef FS_SA_IMPL_H
#define FS_SA_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "dmu/dnode.h"
#include "util/bytes.h"
#include "util/cleanup.h"

struct objset;
struct tx;

/* Attributes we know. The first sixteen have these numbers in every file system (06 4.3). */
enum sa_id {
    SA_ATIME,
    SA_MTIME,
    SA_CTIME,
    SA_CRTIME,
    SA_GEN,
    SA_MODE,
    SA_SIZE,
    SA_PARENT,
    SA_LINKS,
    SA_XATTR,
    SA_RDEV,
    SA_FLAGS,
    SA_UID,
    SA_GID,
    SA_PAD,
    SA_ZNODE_ACL,
    SA_DACL_COUNT,
    SA_SYMLINK,
    SA_SCANSTAMP,
    SA_DACL_ACES,
    SA_DXATTR,
    SA_PROJID,
    SA_IDS
};
#define SA_LEGACY_IDS 16

enum sa_swap { SA_SWAP_U64, SA_SWAP_U32, SA_SWAP_U16, SA_SWAP_BYTES, SA_SWAP_ACL };

#define SA_LAYOUT_LEGACY 0
#define SA_LAYOUT_EMPTY  1
#define SA_LAYOUT_FIRST  2
#define SA_LAYOUT_MAX    1023
#define SA_ATTRS_MAX     64 /* in one object, and in a registry */
#define SA_VALUE_MAX     65535

#define SA_MAGIC         0x002F505Au
#define SA_HEADER_SIZE   8

/* Every object's values begin with these, at fixed offsets behind the header (06 4.4). */
#define SA_PREFIX_ATTRS 12
#define SA_PREFIX_SIZE  128
extern const uint8_t sa_prefix[SA_PREFIX_ATTRS];

struct sa_attr {
    char name[32];
    uint16_t length; /* 0: varies */
    uint8_t swap;
};

struct sa_layout {
    unsigned n;
    uint16_t *attrs;
};

struct sa_table {
    struct objset *os;
    uint64_t master, registry, layout_map; /* objects; registry and layout_map 0: not there yet */
    pthread_rwlock_t lock;                 /* guards what follows */
    unsigned attr_count;
    struct sa_attr attrs[SA_ATTRS_MAX]; /* by number */
    unsigned layout_count;              /* numbers 0 and 1 included */
    struct sa_layout *layouts;          /* by number */
    uint16_t number[SA_IDS];            /* of the attributes we know; SA_NO_NUMBER */
};
#define SA_NO_NUMBER 0xffffu

/* Reads the tables (both may be missing in a set that has never had an attribute). */
int sa_table_open(struct sa_table *t, struct objset *os, uint64_t master);
void sa_table_close(struct sa_table *t);
/* Registers what we know and the set does not. */
int sa_table_complete(struct sa_table *t, struct tx *tx);
bool sa_table_is_complete(const struct sa_table *t);
/* The number of the layout with these attributes, made if need be. */
int sa_layout_number(struct sa_table *t, const uint16_t *attrs, unsigned n, unsigned *number,
                     struct tx *tx);
/* Copies a layout; -EBADE if there is none of this number. */
int sa_layout_get(struct sa_table *t, unsigned number, uint16_t attrs[SA_ATTRS_MAX], unsigned *n);

struct sa_value {
    uint16_t attr; /* number in this file system */
    uint16_t length;
    const unsigned char *data;
};

struct sa_set {
    unsigned n;
    struct sa_value v[SA_ATTRS_MAX];
    bool spilled;        /* it came with a spill block */
    bool standard;       /* native order, begins with the prefix, all in the bonus as patchable */
    unsigned header;     /* size of the bonus's header */
    uint64_t legacy_acl; /* external ACL object of an old znode */
    unsigned char *bonus, *spill; /* what data points into */
    unsigned char inline_bonus[1024];
};

/* sa_read: the values point into the set until sa_set_clear. -ENOENT: no attributes; -EBADE. */
int sa_read(struct sa_table *t, struct dnode *dn, struct sa_set *s);
void sa_set_clear(struct sa_set *s);
#define CLEANUP_SA_SET CLEANUP(sa_set_clear)
/* Replaces or appends; the bytes must live until the set is written. -ENOSPC: too many, too long.
 */
int sa_set_put(struct sa_table *t, struct sa_set *s, enum sa_id id, const void *data,
               size_t length);
void sa_set_remove(struct sa_table *t, struct sa_set *s, enum sa_id id);
const struct sa_value *sa_set_get(const struct sa_table *t, const struct sa_set *s, enum sa_id id);

/* Places the values in bonus and spill (06 4.5). -ENOSPC: more than a spill block holds. On success
 * s->header and s->standard describe what was written. */
int sa_write(struct sa_table *t, struct dnode *dn, struct sa_set *s, struct tx *tx);

/* For tests: where the spill begins (n: nowhere) and the header sizes, for a bonus of `capacity`.
 */
struct sa_place {
    unsigned split;
    size_t bonus_length;
};
void sa_place(const struct sa_table *t, const struct sa_set *s, size_t capacity,
              struct sa_place *out);

#endif
