/* tarn stream: a send stream record by record. The words are those of "zstream dump -v", which
 * people have scripts for. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "nvlist/nvlist.h"
#include "tool/inspect_impl.h"
#include "tool/stream_decode.h"
#include "tool/tool_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

struct dump {
    struct tool *t;
    bool verbose, data;
    uint64_t records[STREAM_TYPES], bytes[STREAM_TYPES], bad;
};

static int64_t read_fd(void *arg, void *data, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(*(int *)arg, (char *)data + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(errno, "cannot be read: %s", strerror(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

/* ---- Text ---- */

static void print_hex(const char *name, const unsigned char *p, size_t n)
{
    printf(" %s = ", name);
    for (size_t i = 0; i < n; i++)
        printf("%02x", p[i]);
}

static void print_begin(struct dump *d, const struct stream_record *r)
{
    printf(
        "BEGIN record\n\thdrtype = %u\n\tfeatures = %llx\n\tmagic = %llx\n\tcreation_time = %llx\n"
        "\ttype = %u\n\tflags = 0x%x\n\ttoguid = %llx\n\tfromguid = %llx\n\ttoname = ",
        r->header_type, (unsigned long long)r->features, (unsigned long long)STREAM_MAGIC,
        (unsigned long long)r->creation_time, r->object_set_type, r->begin_flags,
        (unsigned long long)r->to_guid, (unsigned long long)r->from_guid);
    tool_print_name(d->t, stdout, r->to_name);
    printf("\n\tpayloadlen = %u\n", r->payload);
}

static void print_crypt(const struct stream_record *r)
{
    print_hex("salt", r->salt, sizeof r->salt);
    print_hex("iv", r->iv, sizeof r->iv);
    print_hex("mac", r->mac, sizeof r->mac);
    printf("\n");
}

static void print_record(const struct stream_record *r)
{
    unsigned long long object = r->object, offset = r->offset, length = r->length;
    switch (r->type) {
    case STREAM_OBJECT:
        printf(
            "OBJECT object = %llu type = %u bonustype = %u blksz = %u bonuslen = %u dn_slots = %u "
            "raw_bonuslen = %u flags = %u maxblkid = %llu indblkshift = %u nlevels = %u nblkptr = "
            "%u\n",
            object, r->object_type, r->bonus_type, r->block_size, r->bonus_length, r->dnode_slots,
            r->raw_bonus_length, r->flags, (unsigned long long)r->max_blkid, r->indirect_shift,
            r->levels, r->pointers);
        break;
    case STREAM_FREEOBJECTS:
        printf("FREEOBJECTS firstobj = %llu numobjs = %llu\n", object,
               (unsigned long long)r->count);
        break;
    case STREAM_WRITE:
        printf("WRITE object = %llu type = %u checksum type = %u compression type = %u flags = %u "
               "offset = %llu logical_size = %llu compressed_size = %llu payload_size = %u props = "
               "%llx",
               object, r->object_type, r->checksum_type, r->compression, r->flags, offset,
               (unsigned long long)r->logical_size, (unsigned long long)r->compressed_size,
               r->payload, (unsigned long long)r->key_prop);
        print_crypt(r);
        break;
    case STREAM_FREE:
    case STREAM_REDACT:
        printf("%s object = %llu offset = %llu length = %lld\n", stream_type_names[r->type], object,
               offset, (long long)r->length);
        break;
    case STREAM_END:
        printf("END checksum = %llx/%llx/%llx/%llx\n", (unsigned long long)r->checksum[0],
               (unsigned long long)r->checksum[1], (unsigned long long)r->checksum[2],
               (unsigned long long)r->checksum[3]);
        break;
    case STREAM_WRITE_BYREF:
        printf(
            "WRITE_BYREF object = %llu checksum type = %u props = %llx offset = %llu length = %llu "
            "toguid = %llx refguid = %llx refobject = %llu refoffset = %llu\n",
            object, r->checksum_type, (unsigned long long)r->key_prop, offset, length,
            (unsigned long long)r->to_guid, (unsigned long long)r->ref_guid,
            (unsigned long long)r->ref_object, (unsigned long long)r->ref_offset);
        break;
    case STREAM_SPILL:
        printf("SPILL block for object = %llu length = %llu flags = %u compression type = %u "
               "compressed_size = %llu payload_size = %u",
               object, length, r->flags, r->compression, (unsigned long long)r->compressed_size,
               r->payload);
        print_crypt(r);
        break;
    case STREAM_WRITE_EMBEDDED:
        printf("WRITE_EMBEDDED object = %llu offset = %llu length = %llu toguid = %llx comp = %u "
               "etype = %u lsize = %u psize = %u\n",
               object, offset, length, (unsigned long long)r->to_guid, r->compression,
               r->embedded_type, r->embedded_lsize, r->embedded_psize);
        break;
    case STREAM_OBJECT_RANGE:
        printf("OBJECT_RANGE firstobj = %llu numslots = %llu flags = %u", object,
               (unsigned long long)r->count, r->flags);
        print_crypt(r);
        break;
    default:
        break;
    }
}

/* ---- JSON ---- */

static struct json_object *record_row(const struct stream_record *r)
{
    struct json_object *o = json_object_new_object();
    json_put_text(o, "record", stream_type_names[r->type]);
    json_put_number(o, "at", r->at);
    json_put_number(o, "payload", r->payload);
    if (r->type == STREAM_BEGIN) {
        json_put_number(o, "header_type", r->header_type);
        json_put_number(o, "features", r->features);
        json_put_number(o, "creation_time", r->creation_time);
        json_put_number(o, "type", r->object_set_type);
        json_put_number(o, "flags", r->begin_flags);
        json_put_number(o, "from_guid", r->from_guid);
        json_put_text(o, "to_name", r->to_name);
    } else if (r->type != STREAM_END) {
        json_put_number(o, "object", r->object);
    }
    json_put_number(o, "to_guid", r->to_guid);
    if (r->type == STREAM_OBJECT) {
        json_put_number(o, "object_type", r->object_type);
        json_put_number(o, "bonus_type", r->bonus_type);
        json_put_number(o, "block_size", r->block_size);
        json_put_number(o, "bonus_length", r->bonus_length);
        json_put_number(o, "dnode_slots", r->dnode_slots);
        json_put_number(o, "flags", r->flags);
    }
    if (r->type == STREAM_FREEOBJECTS || r->type == STREAM_OBJECT_RANGE)
        json_put_number(o, "count", r->count);
    if (r->type == STREAM_WRITE || r->type == STREAM_FREE || r->type == STREAM_REDACT ||
        r->type == STREAM_WRITE_EMBEDDED || r->type == STREAM_WRITE_BYREF)
        json_put_number(o, "offset", r->offset);
    if (r->type == STREAM_WRITE)
        json_put_number(o, "logical_size", r->logical_size);
    else if (r->length)
        json_put_number(o, "length", r->length);
    if (r->type == STREAM_WRITE || r->type == STREAM_WRITE_EMBEDDED || r->type == STREAM_SPILL)
        json_put_number(o, "compression", r->compression);
    if (r->bad_checksum)
        json_put_bool(o, "bad_checksum", true);
    return o;
}

/* ---- Lists in BEGIN records ---- */

static struct json_object *list_object(const struct nvlist *l, unsigned depth);

static struct json_object *pair_value(const struct nvpair *p, size_t i, unsigned depth)
{
    const char *text = nvpair_string(p, i);
    struct nvlist *inner = nvpair_nvlist(p, i);
    if (inner)
        return list_object(inner, depth + 1);
    return text ? json_object_new_string(text) : json_object_new_uint64(nvpair_uint64(p, i));
}

static struct json_object *list_object(const struct nvlist *l, unsigned depth)
{
    struct json_object *o = json_object_new_object();
    for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_after(l, p)) {
        size_t n = nvpair_count(p), size;
        const void *bytes = nvpair_bytes(p, &size);
        bool single = nvpair_type(p) <= NV_STRING || nvpair_type(p) == NV_NVLIST ||
                      nvpair_type(p) == NV_BOOLEAN_VALUE;
        if (bytes) {
            json_put_hex(o, nvpair_name(p), bytes, size);
        } else if (single) {
            json_object_object_add(o, nvpair_name(p), pair_value(p, 0, depth));
        } else {
            struct json_object *a = json_object_new_array();
            for (size_t i = 0; i < n; i++)
                json_object_array_add(a, pair_value(p, i, depth));
            json_object_object_add(o, nvpair_name(p), a);
        }
    }
    return o;
}

struct json_object *tool_nvlist_row(const struct nvlist *l)
{
    return list_object(l, 0);
}

static void show_list(struct dump *d, const struct stream *s, const struct stream_record *r,
                      struct json_object *row)
{
    struct nvlist *l;
    if (r->payload == 0 || nvlist_unpack(s->payload, r->payload, &l, NULL) != 0)
        return;
    struct json_object *o = tool_nvlist_row(l);
    if (!d->t->json)
        printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
    if (d->t->json)
        json_object_object_add(row, "list", o);
    else
        json_object_put(o);
    nvlist_free(l);
}

/* ---- The command ---- */

static void show(struct dump *d, const struct stream *s, const struct stream_record *r)
{
    d->records[r->type]++;
    d->bytes[r->type] += r->payload;
    if (r->bad_checksum) {
        d->bad++;
        err_set(EBADMSG, "the checksum of the record %s at offset %llu is wrong",
                stream_type_names[r->type], (unsigned long long)r->at);
        tool_error(d->t, -EBADMSG, "%s", "stream");
    }
    struct json_object *row = d->t->json ? record_row(r) : NULL;
    if (!d->t->json && r->type == STREAM_BEGIN)
        print_begin(d, r);
    else if (!d->t->json && (d->verbose || d->data || r->type == STREAM_END))
        print_record(r);
    if (r->type == STREAM_BEGIN)
        show_list(d, s, r, row);
    else if (!d->t->json && d->data)
        inspect_dump(s->payload, r->payload);
    if (row)
        tool_row(d->t, row);
}

static void summary(struct dump *d)
{
    uint64_t records = 0, bytes = 0;
    struct json_object *o = json_object_new_object();
    if (!d->t->json)
        printf("SUMMARY:\n");
    for (unsigned i = 0; i < STREAM_TYPES; i++) {
        if (!d->t->json)
            printf("\tTotal DRR_%s records = %llu (%llu bytes)\n", stream_type_names[i],
                   (unsigned long long)d->records[i], (unsigned long long)d->bytes[i]);
        json_put_number(o, stream_type_names[i], d->records[i]);
        records += d->records[i];
        bytes += d->bytes[i];
    }
    json_put_number(o, "records", records);
    json_put_number(o, "payload", bytes);
    json_put_number(o, "bad_checksums", d->bad);
    if (!d->t->json)
        printf("\tTotal records = %llu\n\tTotal payload size = %llu (0x%llx)\n\tTotal header "
               "overhead = %llu "
               "(0x%llx)\n\tTotal stream length = %llu (0x%llx)\n",
               (unsigned long long)records, (unsigned long long)bytes, (unsigned long long)bytes,
               (unsigned long long)records * STREAM_RECORD,
               (unsigned long long)records * STREAM_RECORD,
               (unsigned long long)(bytes + records * STREAM_RECORD),
               (unsigned long long)(bytes + records * STREAM_RECORD));
    if (d->t->json)
        d->t->summary = o;
    else
        json_object_put(o);
}

static void dump(struct dump *d, int fd, const char *name)
{
    struct stream s;
    struct stream_record r;
    int rc;
    stream_open(&s, read_fd, &fd);
    err_clear();
    while ((rc = stream_next(&s, &r)) == 0)
        show(d, &s, &r);
    if (rc == -ENOENT && s.at == 0)
        rc = err_set(EINVAL, "it is empty");
    if (rc != -ENOENT)
        tool_error(d->t, rc, "%s", name);
    summary(d);
    stream_close(&s);
}

int tool_stream(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {
        {"data", no_argument, NULL, TOOL_OPT}, {"verbose", no_argument, NULL, 'v'}, {0}};
    struct dump d = {.t = t};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "v", longs)) != -1) {
        if (opt == '?')
            return 2;
        d.verbose |= opt == 'v';
        d.data |= opt == TOOL_OPT;
    }
    if (argc - optind > 1)
        return tool_usage(t, "one file is wanted");
    const char *name = optind < argc ? argv[optind] : "-";
    CLEANUP_CLOSE int fd =
        strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        tool_error(t, err_set(errno, "%s", strerror(errno)), "%s", name);
    else
        dump(&d, fd, name);
    return 0;
}
