/* Records of new objects and new names (spec 06 17.4: create layout, ACL-create layout, xvattr). */
#include "codec/zil_record_impl.h"

#define SLOT           512
#define XVATTR_WORDS   32 /* of the mask, at most: the reference has 3 */
#define SCANSTAMP_SIZE 32

/* The number of the object, and in the highest byte how many slots more than one it takes. */
static void read_object(struct zil_input *in, struct zil_new *n)
{
    uint64_t word = zil_word(in);
    n->object = word & ZIL_OBJECT_MASK;
    n->dnode_size = SLOT * (1 + (uint32_t)(word >> 56));
    in->bad |= n->dnode_size > 32 * SLOT;
}

static void read_new(struct zil_input *in, struct zil_new *n)
{
    n->mode = zil_word(in);
    n->uid = zil_id(in);
    n->gid = zil_id(in);
    n->gen = zil_word(in);
    n->crtime = zil_time(in);
    n->rdev = zil_word(in);
}

void zil_xvattr(struct zil_input *in, struct zil_xvattr *out)
{
    if (in->at + 4 > in->size) {
        in->bad = true;
        return;
    }
    size_t start = in->at;
    uint32_t words = get_u32(in->p + start, in->big);
    if (words < 1 || words > XVATTR_WORDS || start + 4 + 4 * words > in->size) {
        in->bad = true;
        return;
    }
    out->requested =
        get_u32(in->p + start + 4, in->big); /* the other words have been 0 ever since */
    in->at = start + P2_ROUND_UP(4 + 4 * (size_t)words, (size_t)8);
    out->on = zil_word(in);
    out->crtime = zil_time(in);
    size_t stamp = in->at;
    out->projid = zil_word(in);
    in->at = stamp + SCANSTAMP_SIZE;
    in->bad |= in->at > in->size;
}

static bool has_attr(unsigned type)
{
    return type == ZIL_CREATE_ATTR || type == ZIL_CREATE_ACL_ATTR || type == ZIL_MKDIR_ATTR ||
           type == ZIL_MKDIR_ACL_ATTR;
}

static bool has_acl(unsigned type)
{
    return type == ZIL_CREATE_ACL || type == ZIL_CREATE_ACL_ATTR || type == ZIL_MKDIR_ACL ||
           type == ZIL_MKDIR_ACL_ATTR;
}

/* The access list lies before the name. */
static void skip(struct zil_input *in, uint64_t n)
{
    if (n > in->size || in->at + n > in->size)
        in->bad = true;
    else
        in->at += n;
}

void zil_read_create(struct zil_input *in, struct zil_record *r)
{
    struct zil_create *c = &r->create;
    uint64_t fuids = 0, bytes = 0;
    c->dir = zil_object(in);
    read_object(in, &c->new);
    read_new(in, &c->new);
    c->has_acl = has_acl(r->h.type);
    if (c->has_acl) {
        zil_word(in);                     /* entries */
        in->foreign |= zil_word(in) != 0; /* domains */
        fuids = zil_word(in);
        bytes = zil_word(in);
        zil_word(in); /* flags */
    }
    if (has_attr(r->h.type))
        zil_xvattr(in, &c->attr);
    if (c->has_acl) {
        skip(in, bytes);
        skip(in, -bytes & 7);
        skip(in, fuids > in->size / 8 ? UINT64_MAX : 8 * fuids);
    }
    c->name = zil_name(in);
    if (r->h.type == ZIL_SYMLINK) {
        c->new.dnode_size = SLOT; /* such records do not say */
        c->new.rdev = 0;
        c->target = zil_name(in);
    }
}

void zil_read_rename(struct zil_input *in, struct zil_record *r)
{
    struct zil_rename *n = &r->rename;
    n->from = zil_object(in);
    n->to = zil_object(in);
    if (r->h.type == ZIL_RENAME_WHITEOUT) {
        read_object(in, &n->whiteout);
        read_new(in, &n->whiteout);
    }
    n->name = zil_name(in);
    n->newname = zil_name(in);
}
