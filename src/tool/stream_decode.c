#include "tool/stream_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"
#include "util/err.h"

#define CHECKSUM_AT 280

const char *const stream_type_names[STREAM_TYPES] = {
    "BEGIN",       "OBJECT", "FREEOBJECTS",    "WRITE",        "FREE",   "END",
    "WRITE_BYREF", "SPILL",  "WRITE_EMBEDDED", "OBJECT_RANGE", "REDACT",
};

void stream_open(struct stream *s, stream_read_fn *read, void *arg)
{
    *s = (struct stream){.read = read, .arg = arg};
}

void stream_close(struct stream *s)
{
    free(s->payload);
    *s = (struct stream){0};
}

/* Fletcher-4 that goes on from where it was. */
static void feed(struct stream *s, const unsigned char *p, size_t n)
{
    uint64_t a = s->sum[0], b = s->sum[1], c = s->sum[2], d = s->sum[3];
    for (size_t i = 0; i + 4 <= n; i += 4) {
        a += get_u32(p + i, s->big);
        b += a;
        c += b;
        d += c;
    }
    s->sum[0] = a;
    s->sum[1] = b;
    s->sum[2] = c;
    s->sum[3] = d;
}

static int fill(struct stream *s, void *data, size_t n, bool at_start)
{
    int64_t got = s->read(s->arg, data, n);
    if (got < 0)
        return (int)got;
    s->at += (uint64_t)got;
    if ((size_t)got == n)
        return 0;
    return got == 0 && at_start ? -ENOENT
                                : err_set(EBADMSG, "the stream ends in the middle of a record");
}

/* ---- Fields ---- */

struct fields {
    const unsigned char *p;
    bool big;
};

static uint64_t f64(struct fields f, unsigned at)
{
    return get_u64(f.p + at, f.big);
}

static uint32_t f32(struct fields f, unsigned at)
{
    return get_u32(f.p + at, f.big);
}

static void decode_begin(struct stream_record *r, struct fields f)
{
    r->version_info = f64(f, 16);
    r->header_type = r->version_info & 3;
    r->features = r->version_info >> 2 & ((1ull << 56) - 1);
    r->creation_time = f64(f, 24);
    r->object_set_type = f32(f, 32);
    r->begin_flags = f32(f, 36);
    r->to_guid = f64(f, 40);
    r->from_guid = f64(f, 48);
    memcpy(r->to_name, f.p + 56, 256);
}

static void decode_object(struct stream_record *r, struct fields f)
{
    r->object_type = f32(f, 16);
    r->bonus_type = f32(f, 20);
    r->block_size = f32(f, 24);
    r->bonus_length = f32(f, 28);
    r->checksum_type = f.p[32];
    r->compression = f.p[33];
    r->dnode_slots = f.p[34];
    r->flags = f.p[35];
    r->raw_bonus_length = f32(f, 36);
    r->to_guid = f64(f, 40);
    r->indirect_shift = f.p[48];
    r->levels = f.p[49];
    r->pointers = f.p[50];
    r->max_blkid = f64(f, 56);
}

static void decode_key(struct stream_record *r, struct fields f, unsigned at)
{
    for (unsigned i = 0; i < 4; i++)
        r->key_checksum[i] = f64(f, at + 8 * i);
    r->key_prop = f64(f, at + 32);
}

static void decode_write(struct stream_record *r, struct fields f)
{
    r->object_type = f32(f, 16);
    r->offset = f64(f, 24);
    r->logical_size = f64(f, 32);
    r->to_guid = f64(f, 40);
    r->checksum_type = f.p[48];
    r->flags = f.p[49];
    r->compression = f.p[50];
    decode_key(r, f, 56);
    r->compressed_size = f64(f, 96);
    memcpy(r->salt, f.p + 104, sizeof r->salt);
    memcpy(r->iv, f.p + 112, sizeof r->iv);
    memcpy(r->mac, f.p + 124, sizeof r->mac);
}

static void decode_range(struct stream_record *r, struct fields f)
{
    r->offset = f64(f, 16);
    r->length = f64(f, 24);
    r->to_guid = f64(f, 32);
}

static void decode_byref(struct stream_record *r, struct fields f)
{
    decode_range(r, f);
    r->ref_guid = f64(f, 40);
    r->ref_object = f64(f, 48);
    r->ref_offset = f64(f, 56);
    r->checksum_type = f.p[64];
    r->flags = f.p[65];
    decode_key(r, f, 72);
}

static void decode_spill(struct stream_record *r, struct fields f)
{
    r->length = f64(f, 16);
    r->to_guid = f64(f, 24);
    r->flags = f.p[32];
    r->compression = f.p[33];
    r->compressed_size = f64(f, 40);
    memcpy(r->salt, f.p + 48, sizeof r->salt);
    memcpy(r->iv, f.p + 56, sizeof r->iv);
    memcpy(r->mac, f.p + 68, sizeof r->mac);
}

static void decode_embedded(struct stream_record *r, struct fields f)
{
    decode_range(r, f);
    r->compression = f.p[40];
    r->embedded_type = f.p[41];
    r->embedded_lsize = f32(f, 48);
    r->embedded_psize = f32(f, 52);
}

static void decode_object_range(struct stream_record *r, struct fields f)
{
    r->count = f64(f, 16);
    r->to_guid = f64(f, 24);
    memcpy(r->salt, f.p + 32, sizeof r->salt);
    memcpy(r->iv, f.p + 40, sizeof r->iv);
    memcpy(r->mac, f.p + 52, sizeof r->mac);
    r->flags = f.p[68];
}

static void decode(struct stream_record *r, struct fields f)
{
    r->object = f64(f, 8); /* in all but BEGIN and END */
    switch (r->type) {
    case STREAM_BEGIN:
        decode_begin(r, f);
        break;
    case STREAM_OBJECT:
        decode_object(r, f);
        break;
    case STREAM_FREEOBJECTS:
        r->count = f64(f, 16);
        r->to_guid = f64(f, 24);
        break;
    case STREAM_WRITE:
        decode_write(r, f);
        break;
    case STREAM_END:
        for (unsigned i = 0; i < 4; i++)
            r->checksum[i] = f64(f, 8 + 8 * i);
        r->to_guid = f64(f, 40);
        break;
    case STREAM_WRITE_BYREF:
        decode_byref(r, f);
        break;
    case STREAM_SPILL:
        decode_spill(r, f);
        break;
    case STREAM_WRITE_EMBEDDED:
        decode_embedded(r, f);
        break;
    case STREAM_OBJECT_RANGE:
        decode_object_range(r, f);
        break;
    default: /* FREE, REDACT */
        decode_range(r, f);
        break;
    }
}

uint64_t stream_payload(const struct stream_record *r, uint32_t stated)
{
    switch (r->type) {
    case STREAM_BEGIN:
        return stated;
    case STREAM_OBJECT:
        return r->raw_bonus_length ? r->raw_bonus_length
                                   : P2_ROUND_UP((uint64_t)r->bonus_length, 8ull);
    case STREAM_WRITE:
        return r->compression ? r->compressed_size : r->logical_size;
    case STREAM_SPILL:
        return r->compressed_size ? r->compressed_size : r->length;
    case STREAM_WRITE_EMBEDDED:
        return P2_ROUND_UP((uint64_t)r->embedded_psize, 8ull);
    default:
        return 0;
    }
}

/* ---- Records ---- */

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Which byte order, at the start of a stream: BEGIN's magic, or the END that ends a package. */
static int find_order(struct stream *s, const unsigned char *p)
{
    uint32_t type = get_le32(p);
    if (type == STREAM_BEGIN && get_le64(p + 8) == STREAM_MAGIC)
        s->big = false;
    else if (type == STREAM_BEGIN && get_be64(p + 8) == STREAM_MAGIC)
        s->big = true;
    else if ((type == STREAM_END || get_be32(p) == STREAM_END) && s->at > STREAM_RECORD)
        s->big = type != STREAM_END;
    else
        return err_set(EINVAL, s->at > STREAM_RECORD ? "no BEGIN where the next stream should begin"
                                                     : "this is no send stream");
    memset(s->sum, 0, sizeof s->sum);
    return 0;
}

/* The running checksum: of all before the last 32 bytes of the record. A field of zeros says
 * nothing. */
static void check_sum(struct stream *s, struct stream_record *r, const unsigned char *p)
{
    uint64_t before[4];
    memcpy(before, s->sum, sizeof before);
    feed(s, p, r->type == STREAM_BEGIN ? STREAM_RECORD : CHECKSUM_AT);
    if (r->type == STREAM_BEGIN)
        return;
    for (unsigned i = 0; i < 4 && !all_zero(p + CHECKSUM_AT, 32); i++)
        r->bad_checksum |= get_u64(p + CHECKSUM_AT + 8 * i, s->big) != s->sum[i];
    for (unsigned i = 0; i < 4 && r->type == STREAM_END && s->inside; i++)
        r->bad_checksum |= r->checksum[i] != before[i];
    feed(s, p + CHECKSUM_AT, STREAM_RECORD - CHECKSUM_AT);
}

static int read_payload(struct stream *s, uint64_t n)
{
    if (n > STREAM_PAYLOAD_MAX)
        return err_set(EINVAL, "a record with %llu bytes behind it", (unsigned long long)n);
    if (n > s->capacity) {
        unsigned char *grown = realloc(s->payload, n);
        if (!grown)
            return -ENOMEM;
        s->payload = grown;
        s->capacity = n;
    }
    return n ? fill(s, s->payload, n, false) : 0;
}

int stream_next(struct stream *s, struct stream_record *out)
{
    unsigned char p[STREAM_RECORD];
    int rc = fill(s, p, sizeof p, !s->inside);
    if (rc == 0 && !s->inside)
        rc = find_order(s, p);
    if (rc)
        return rc;
    *out = (struct stream_record){.big = s->big, .at = s->at - sizeof p};
    uint32_t type = get_u32(p, s->big);
    if (type >= STREAM_TYPES)
        return err_set(ENOTSUP, "an unknown record of type %u at offset %llu", type,
                       (unsigned long long)out->at);
    if (type == STREAM_BEGIN && s->inside)
        return err_set(EINVAL, "a stream begins inside another, at offset %llu",
                       (unsigned long long)out->at);
    out->type = type;
    decode(out, (struct fields){p, s->big});
    check_sum(s, out, p);
    uint64_t n = stream_payload(out, get_u32(p + 4, s->big));
    rc = read_payload(s, n);
    if (rc)
        return rc;
    out->payload = (uint32_t)n;
    feed(s, s->payload, n);
    s->inside = type != STREAM_END;
    return 0;
}
