/*
 * Send streams (spec 07): records of 312 bytes with what follows them. Nothing of a stream is
 * trusted. Checksums are made on the way and compared.
 */
#ifndef TOOL_STREAM_DECODE_H
#define TOOL_STREAM_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_RECORD      312
#define STREAM_MAGIC       0x2f5bacbacull
#define STREAM_PAYLOAD_MAX (64u << 20) /* more is refused */

enum stream_type {
    STREAM_BEGIN,
    STREAM_OBJECT,
    STREAM_FREEOBJECTS,
    STREAM_WRITE,
    STREAM_FREE,
    STREAM_END,
    STREAM_WRITE_BYREF,
    STREAM_SPILL,
    STREAM_WRITE_EMBEDDED,
    STREAM_OBJECT_RANGE,
    STREAM_REDACT,
    STREAM_TYPES
};
extern const char *const stream_type_names[STREAM_TYPES];

struct stream_record {
    enum stream_type type;
    bool big;          /* written by a big-endian host */
    bool bad_checksum; /* its running checksum is wrong */
    uint64_t at;       /* offset in the stream */
    uint32_t payload;  /* bytes behind it */
    /* Which of them a type has: spec 07 7.3, 7.4. */
    uint64_t version_info, features, creation_time, to_guid, from_guid;
    uint32_t header_type, object_set_type, begin_flags;
    char to_name[257];
    uint64_t object, count, offset, length, max_blkid, logical_size, compressed_size;
    uint32_t object_type, bonus_type, block_size, bonus_length, raw_bonus_length;
    uint8_t checksum_type, compression, dnode_slots, flags, indirect_shift, levels, pointers,
        embedded_type;
    uint32_t embedded_lsize, embedded_psize;
    uint64_t key_prop, key_checksum[4];
    uint64_t ref_guid, ref_object, ref_offset;
    unsigned char salt[8], iv[12], mac[16];
    uint64_t checksum[4]; /* END: of all that was before it */
};

/* Reads n bytes: how many were there (less only at the end), or a negative errno. */
typedef int64_t stream_read_fn(void *arg, void *data, size_t n);

struct stream {
    stream_read_fn *read;
    void *arg;
    uint64_t at; /* offset of what is read next */
    uint64_t sum[4];
    bool big, inside;       /* between BEGIN and END */
    bool packaged;          /* the last BEGIN was a package's */
    unsigned char *payload; /* of the last record */
    size_t capacity;
};
void stream_open(struct stream *s, stream_read_fn *read, void *arg);
void stream_close(struct stream *s);
/* The next record and its payload (s->payload). -ENOENT: the end. -EBADMSG: it ends in the middle;
 * -EINVAL: no stream, or a malformed record; -ENOTSUP: an unknown record. */
int stream_next(struct stream *s, struct stream_record *out);
/* How long the payload of a record is, from its fields. */
uint64_t stream_payload(const struct stream_record *r, uint32_t stated);

#endif
