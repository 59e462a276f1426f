/* Blocks and records of intent logs; those that make objects are in zil_create.c. */
#include "codec/zil_record.h"

#include <errno.h>

#include "codec/zil_record_impl.h"
#include "util/err.h"

#define CASELESS      (1ull << 63)
#define WRITE_POINTER 64
#define WRITE_SIZE    192 /* without data */
#define CLONE_SIZE    72  /* without pointers */
#define SETATTR_SIZE  112

const char *zil_type_name(unsigned type)
{
    static const char *const names[ZIL_TYPES] = {
        "COMMIT",          "CREATE",     "MKDIR",           "MKXATTR",
        "SYMLINK",         "REMOVE",     "RMDIR",           "LINK",
        "RENAME",          "WRITE",      "TRUNCATE",        "SETATTR",
        "ACL_V0",          "ACL",        "CREATE_ACL",      "CREATE_ATTR",
        "CREATE_ACL_ATTR", "MKDIR_ACL",  "MKDIR_ATTR",      "MKDIR_ACL_ATTR",
        "WRITE2",          "SETSAXATTR", "RENAME_EXCHANGE", "RENAME_WHITEOUT",
        "CLONE_RANGE"};
    return type < ZIL_TYPES ? names[type] : "?";
}

int zil_chain_decode(const void *block, size_t n, bool at_end, bool big, struct zil_chain *out)
{
    const unsigned char *p = block, *chain;
    if (n < ZIL_CHAIN_SIZE)
        return -EBADE;
    chain = at_end ? p + n - ZIL_CHAIN_SIZE : p;
    uint64_t used = get_u64(chain + ZIL_CHAIN_USED, big);
    size_t skipped = at_end ? 0 : ZIL_CHAIN_SIZE;
    if (used < skipped || used > (at_end ? n - ZIL_CHAIN_SIZE : n))
        return -EBADE;
    *out = (struct zil_chain){chain + ZIL_CHAIN_NEXT, p + skipped, used - skipped};
    return 0;
}

int zil_record_header(const void *data, size_t n, bool big, struct zil_record_header *out)
{
    const unsigned char *p = data;
    if (n < ZIL_HEADER_SIZE)
        return -EBADE;
    uint64_t type = get_u64(p, big), size = get_u64(p + 8, big);
    if (size < ZIL_HEADER_SIZE || size > n || size % 8 != 0)
        return -EBADE;
    *out = (struct zil_record_header){.caseless = type & CASELESS,
                                      .txg = get_u64(p + 16, big),
                                      .seq = get_u64(p + 24, big),
                                      .size = size};
    type &= ~CASELESS;
    out->type = type < ZIL_TYPES ? (unsigned)type : ZIL_TYPES;
    return 0;
}

int zil_record_pointers(const void *data, const struct zil_record_header *h, bool big,
                        const unsigned char **first, size_t *count)
{
    const unsigned char *p = data;
    *first = NULL;
    *count = 0;
    if (h->type == ZIL_WRITE) {
        if (h->size < WRITE_SIZE)
            return -EBADE;
        if (h->size > WRITE_SIZE)
            return 0; /* it has its data */
        *first = p + WRITE_POINTER;
        *count = 1;
    } else if (h->type == ZIL_CLONE_RANGE) {
        if (h->size < CLONE_SIZE)
            return -EBADE;
        uint64_t n = get_u64(p + 64, big);
        if (n > (h->size - CLONE_SIZE) / ZIL_POINTER_SIZE)
            return -EBADE;
        *first = p + CLONE_SIZE;
        *count = n;
    }
    return 0;
}

/* ---- Reading the body ---- */

const char *zil_name(struct zil_input *in)
{
    const unsigned char *end =
        in->at < in->size ? memchr(in->p + in->at, '\0', in->size - in->at) : NULL;
    const char *name = (const char *)in->p + in->at;
    if (!end) {
        in->bad = true;
        return "";
    }
    in->at = (size_t)(end - in->p) + 1;
    return name;
}

uint64_t zil_word(struct zil_input *in)
{
    if (in->at + 8 > in->size) {
        in->bad = true;
        return 0;
    }
    uint64_t v = get_u64(in->p + in->at, in->big);
    in->at += 8;
    return v;
}

struct zil_time zil_time(struct zil_input *in)
{
    uint64_t sec = zil_word(in), nsec = zil_word(in);
    return (struct zil_time){sec, nsec < 1000000000 ? nsec : 0};
}

uint64_t zil_object(struct zil_input *in)
{
    return zil_word(in) & ZIL_OBJECT_MASK;
}

uint32_t zil_id(struct zil_input *in)
{
    uint64_t id = zil_word(in);
    in->foreign |= id >> 32 != 0;
    return (uint32_t)id;
}

static void read_remove(struct zil_input *in, struct zil_record *r)
{
    r->remove.dir = zil_object(in);
    r->remove.name = zil_name(in);
}

static void read_link(struct zil_input *in, struct zil_record *r)
{
    r->link.dir = zil_object(in);
    r->link.object = zil_object(in);
    r->link.name = zil_name(in);
}

static void read_write(struct zil_input *in, struct zil_record *r)
{
    struct zil_write *w = &r->write;
    w->object = zil_object(in);
    w->offset = zil_word(in);
    w->length = zil_word(in);
    if (in->size < WRITE_SIZE || w->offset + w->length < w->offset) {
        in->bad = true;
        return;
    }
    w->pointer = in->p + WRITE_POINTER;
    if (in->size > WRITE_SIZE && r->h.type == ZIL_WRITE) {
        w->data = in->p + WRITE_SIZE;
        in->bad |= w->length > in->size - WRITE_SIZE;
    }
}

static void read_truncate(struct zil_input *in, struct zil_record *r)
{
    r->truncate.object = zil_object(in);
    r->truncate.offset = zil_word(in);
    r->truncate.length = zil_word(in);
    in->bad |= r->truncate.offset + r->truncate.length < r->truncate.offset;
}

/* Fields whose bit is clear are undefined: they are not looked at. */
static void read_setattr(struct zil_input *in, struct zil_record *r)
{
    struct zil_setattr *s = &r->setattr;
    s->object = zil_object(in);
    s->mask = (unsigned)zil_word(in);
    s->mode = (uint32_t)zil_word(in);
    uint64_t uid = zil_word(in), gid = zil_word(in);
    in->foreign |= (s->mask & ZIL_SET_UID && uid >> 32) || (s->mask & ZIL_SET_GID && gid >> 32);
    s->uid = (uint32_t)uid;
    s->gid = (uint32_t)gid;
    s->size = zil_word(in);
    s->atime = zil_time(in);
    s->mtime = zil_time(in);
    if (s->mask & ZIL_SET_XVATTR)
        zil_xvattr(in, &s->attr);
}

static void read_xattr(struct zil_input *in, struct zil_record *r)
{
    r->xattr.object = zil_object(in);
    uint64_t size = zil_word(in);
    r->xattr.name = zil_name(in);
    if (size > in->size - in->at)
        in->bad = true;
    else if (size > 0)
        r->xattr.value = in->p + in->at;
    r->xattr.size = size;
}

static void read_clone(struct zil_input *in, struct zil_record *r)
{
    struct zil_clone *c = &r->clone;
    c->object = zil_object(in);
    c->offset = zil_word(in);
    c->length = zil_word(in);
    c->block_size = zil_word(in);
    in->bad |= zil_record_pointers(in->p, &r->h, in->big, &c->pointers, &c->count) != 0 ||
               c->offset + c->length < c->offset;
}

static void read_acl(struct zil_input *in, struct zil_record *r)
{
    r->acl_object = zil_object(in);
}

static void (*const readers[ZIL_TYPES])(struct zil_input *in, struct zil_record *r) = {
    [ZIL_CREATE] = zil_read_create,
    [ZIL_MKDIR] = zil_read_create,
    [ZIL_MKXATTR] = zil_read_create,
    [ZIL_SYMLINK] = zil_read_create,
    [ZIL_CREATE_ACL] = zil_read_create,
    [ZIL_CREATE_ATTR] = zil_read_create,
    [ZIL_CREATE_ACL_ATTR] = zil_read_create,
    [ZIL_MKDIR_ACL] = zil_read_create,
    [ZIL_MKDIR_ATTR] = zil_read_create,
    [ZIL_MKDIR_ACL_ATTR] = zil_read_create,
    [ZIL_REMOVE] = read_remove,
    [ZIL_RMDIR] = read_remove,
    [ZIL_LINK] = read_link,
    [ZIL_RENAME] = zil_read_rename,
    [ZIL_RENAME_EXCHANGE] = zil_read_rename,
    [ZIL_RENAME_WHITEOUT] = zil_read_rename,
    [ZIL_WRITE] = read_write,
    [ZIL_WRITE2] = read_write,
    [ZIL_TRUNCATE] = read_truncate,
    [ZIL_SETATTR] = read_setattr,
    [ZIL_ACL_V0] = read_acl,
    [ZIL_ACL] = read_acl,
    [ZIL_SETSAXATTR] = read_xattr,
    [ZIL_CLONE_RANGE] = read_clone,
};

int zil_record_decode(const void *data, const struct zil_record_header *h, bool big,
                      struct zil_record *out)
{
    struct zil_input in = {.p = data, .size = h->size, .at = ZIL_HEADER_SIZE, .big = big};
    if (h->type >= ZIL_TYPES || !readers[h->type])
        return err_set(ENOTSUP, "its type is unknown");
    *out = (struct zil_record){.h = *h};
    readers[h->type](&in, out);
    if (in.bad)
        return err_set(EBADE, "it is damaged");
    return in.foreign ? err_set(ENOTSUP, "users of other domains are not supported") : 0;
}

const struct zil_new *zil_record_new(const struct zil_record *r)
{
    if (r->h.type == ZIL_RENAME_WHITEOUT)
        return &r->rename.whiteout;
    return r->h.type < ZIL_TYPES && readers[r->h.type] == zil_read_create ? &r->create.new : NULL;
}

uint64_t zil_record_file(const struct zil_record *r)
{
    switch (r->h.type) {
    case ZIL_WRITE:
    case ZIL_WRITE2:
        return r->write.object;
    case ZIL_TRUNCATE:
        return r->truncate.object;
    case ZIL_SETATTR:
        return r->setattr.object;
    case ZIL_ACL:
    case ZIL_ACL_V0:
        return r->acl_object;
    case ZIL_SETSAXATTR:
        return r->xattr.object;
    case ZIL_CLONE_RANGE:
        return r->clone.object;
    default:
        return 0;
    }
}
