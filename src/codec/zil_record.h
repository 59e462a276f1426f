/*
 * What stands in a block of an intent log (spec 06 17.2, 17.4): the chain structure and the
 * records, each an operation on a file system or volume that was promised to survive a crash.
 * Decoding only; the bytes are hostile input. Results point into the block and live as long as it
 * does. big is the byte order of the writer.
 */
#ifndef CODEC_ZIL_RECORD_H
#define CODEC_ZIL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZIL_CHAIN_SIZE    184 /* bytes, at the start of a zilog2 block, at the end of a zilog one */
#define ZIL_CHAIN_NEXT    8   /* offsets in it: the pointer to the next block */
#define ZIL_CHAIN_USED    136
#define ZIL_CHAIN_TRAILER 144 /* magic and checksum, 40 bytes */
#define ZIL_HEADER_SIZE   32  /* of a record, at least; every size is a multiple of 8 */
#define ZIL_POINTER_SIZE  128

enum zil_type {
    ZIL_CREATE = 1,
    ZIL_MKDIR,
    ZIL_MKXATTR,
    ZIL_SYMLINK,
    ZIL_REMOVE,
    ZIL_RMDIR,
    ZIL_LINK,
    ZIL_RENAME,
    ZIL_WRITE,
    ZIL_TRUNCATE,
    ZIL_SETATTR,
    ZIL_ACL_V0,
    ZIL_ACL,
    ZIL_CREATE_ACL,
    ZIL_CREATE_ATTR,
    ZIL_CREATE_ACL_ATTR,
    ZIL_MKDIR_ACL,
    ZIL_MKDIR_ATTR,
    ZIL_MKDIR_ACL_ATTR,
    ZIL_WRITE2,
    ZIL_SETSAXATTR,
    ZIL_RENAME_EXCHANGE,
    ZIL_RENAME_WHITEOUT,
    ZIL_CLONE_RANGE,
    ZIL_TYPES
};
const char *zil_type_name(unsigned type); /* "CREATE"; "?" if it is unknown */

/* ---- The chain structure ---- */

struct zil_chain {
    const unsigned char *next;    /* ZIL_POINTER_SIZE bytes */
    const unsigned char *records; /* size bytes of them */
    size_t size;
};
/* block: n bytes, whose checksum was right; at_end: of the kind zilog. -EBADE. */
int zil_chain_decode(const void *block, size_t n, bool at_end, bool big, struct zil_chain *out);

/* ---- Records ---- */

/* What every record begins with; of an encrypted block this, and the pointers, are in the clear. */
struct zil_record_header {
    unsigned type; /* enum zil_type, or a number that is not known */
    bool caseless; /* names mean any case */
    uint64_t txg;  /* the operation is on disk if this txg is */
    uint64_t seq;  /* grows within a chain, with gaps */
    size_t size;   /* bytes, of the whole record */
};
/* n: bytes that are left. -EBADE: the sizes make no sense. */
int zil_record_header(const void *data, size_t n, bool big, struct zil_record_header *out);

/* Where the pointers of blocks in a record are (of WRITE and CLONE_RANGE): the first of *count.
 * NULL and 0 if it has none. -EBADE. */
int zil_record_pointers(const void *data, const struct zil_record_header *h, bool big,
                        const unsigned char **first, size_t *count);

struct zil_time {
    uint64_t sec, nsec; /* sec is a signed number in a u64 */
};

/* Attributes beyond POSIX, each bit one of ZIL_ATTR_*. */
struct zil_xvattr {
    uint64_t requested; /* those that are given */
    uint64_t on;        /* of the flags among them: those that are set */
    uint64_t projid;
    struct zil_time crtime;
};
#define ZIL_ATTR_CRTIME      0x1ull
#define ZIL_ATTR_ARCHIVE     0x4ull
#define ZIL_ATTR_NOUNLINK    0x20ull
#define ZIL_ATTR_IMMUTABLE   0x40ull
#define ZIL_ATTR_APPENDONLY  0x80ull
#define ZIL_ATTR_NODUMP      0x100ull
#define ZIL_ATTR_PROJINHERIT 0x20000ull
#define ZIL_ATTR_PROJID      0x40000ull

/* A new object. */
struct zil_new {
    uint64_t object;
    uint32_t dnode_size;      /* bytes */
    uint64_t mode, gen, rdev; /* rdev: major in the bits from 20 on; 0 but for devices */
    uint32_t uid, gid;
    struct zil_time crtime;
};

/* CREATE, MKDIR, MKXATTR, SYMLINK and their forms with attributes and access lists. */
struct zil_create {
    uint64_t dir; /* MKXATTR: the object whose hidden directory it is */
    struct zil_new new;
    bool has_acl; /* an NFSv4 list follows, which is not decoded: new.mode has what it says */
    struct zil_xvattr attr;
    const char *name;   /* "" for MKXATTR */
    const char *target; /* SYMLINK, else NULL */
};

struct zil_remove { /* REMOVE, RMDIR */
    uint64_t dir;
    const char *name;
};

struct zil_link {
    uint64_t dir, object;
    const char *name;
};

struct zil_rename {    /* RENAME, RENAME_EXCHANGE, RENAME_WHITEOUT */
    uint64_t from, to; /* directories */
    const char *name, *newname;
    struct zil_new whiteout; /* RENAME_WHITEOUT: left under the old name */
};

struct zil_write {                   /* WRITE, WRITE2 */
    uint64_t object, offset, length; /* bytes */
    const unsigned char *data;    /* length bytes, or NULL: a whole block at pointer (not WRITE2) */
    const unsigned char *pointer; /* ZIL_POINTER_SIZE bytes */
};

struct zil_truncate {
    uint64_t object, offset, length; /* length 0: the file ends at offset; else a range is freed */
};

struct zil_setattr {
    uint64_t object;
    unsigned mask; /* ZIL_SET_*: the other fields mean nothing */
    uint32_t mode, uid, gid;
    uint64_t size;
    struct zil_time atime,
        mtime; /* mtime also with ZIL_SET_SIZE alone: the reference uses it then */
    struct zil_xvattr attr;
};
#define ZIL_SET_MODE   1u /* as Linux numbers them */
#define ZIL_SET_UID    2u
#define ZIL_SET_GID    4u
#define ZIL_SET_SIZE   8u
#define ZIL_SET_ATIME  16u
#define ZIL_SET_MTIME  32u
#define ZIL_SET_CTIME  64u /* to the time of the operation */
#define ZIL_SET_XVATTR 0x80000000u

struct zil_xattr { /* SETSAXATTR */
    uint64_t object;
    const char *name;
    const unsigned char *value; /* NULL: the attribute goes */
    size_t size;
};

struct zil_clone { /* CLONE_RANGE */
    uint64_t object, offset, length, block_size;
    const unsigned char *pointers; /* count of ZIL_POINTER_SIZE bytes */
    size_t count;
};

struct zil_record {
    struct zil_record_header h;
    union { /* by h.type */
        struct zil_create create;
        struct zil_remove remove;
        struct zil_link link;
        struct zil_rename rename;
        struct zil_write write;
        struct zil_truncate truncate;
        struct zil_setattr setattr;
        uint64_t acl_object; /* ACL, ACL_V0: the list itself is not decoded */
        struct zil_xattr xattr;
        struct zil_clone clone;
    };
};
/* A record whose header was decoded from the same bytes. -EBADE: it makes no sense; -ENOTSUP: a
 * type, or users of a kind (of Windows domains), that nobody here knows. */
int zil_record_decode(const void *data, const struct zil_record_header *h, bool big,
                      struct zil_record *out);
/* The object that it makes, or NULL. */
const struct zil_new *zil_record_new(const struct zil_record *r);
/* The object that an operation on a file is about, 0 for those on names. Such records may come out
 * of order: if the object is gone by now, that is no error (17.4). */
uint64_t zil_record_file(const struct zil_record *r);

#endif
