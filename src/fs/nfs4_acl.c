/*
 * What a Windows or Solaris server has left with a file and POSIX has no place for: owners that are
 * accounts of a Windows domain (FUIDs, spec 06 11) and NFSv4 access lists (06 10.2). Linux shows the
 * low halves of such ids and the mode; this is to show the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/zap.h"
#include "fs/fs_impl.h"
#include "fs/sa_impl.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define HOST             BYTES_HOST_BIG
#define MASTER_NODE      1
#define ACE_MAX          1024
#define ACE_SIZE_MAX     48
#define ACE_HEADER       8
#define ACE_OLD          12
#define WHO_BITS         0x7040u /* 0 and 0x40: an id follows */
#define PFLAG_TRIVIAL    0x4u
#define FUID_TABLE_MAX   ((size_t)1 << 20)

/* The old znode's list within its 88 bytes (06 4.6). */
#define OLD_ACL          176
#define OLD_ACL_SIZE     (OLD_ACL + 8)
#define OLD_ACL_VERSION  (OLD_ACL + 12)
#define OLD_ACL_COUNT    (OLD_ACL + 14)
#define OLD_ACL_DATA     (OLD_ACL + 16)
#define OLD_ACL_EMBEDDED 72u

static int add(struct fs_acl *acl, const struct fs_ace *ace)
{
    if (acl->n == ACE_MAX)
        return err_set(EBADE, "the access list is too long");
    acl->ace[acl->n++] = *ace;
    return 0;
}

static int parse(struct fs_acl *acl, const unsigned char *p, size_t n)
{
    int rc = 0;
    for (size_t size; n > 0 && rc == 0; p += size, n -= size) {
        if (n < ACE_HEADER)
            return err_set(EBADE, "the access list is damaged");
        struct fs_ace a = {.type = get_u16(p, HOST),
                           .flags = get_u16(p + 2, HOST),
                           .mask = get_u32(p + 4, HOST)};
        bool id = (a.flags & WHO_BITS & ~FS_ACE_IS_GROUP) == 0;
        size = !id ? 8 : a.type >= 5 && a.type <= 8 ? ACE_SIZE_MAX : 16;
        if (n < size)
            return err_set(EBADE, "the access list is damaged");
        a.who = id ? get_u64(p + 8, HOST) : 0;
        rc = add(acl, &a);
    }
    return rc;
}

/* Version 0: who, mask, flags, type. */
static int parse_old(struct fs_acl *acl, const unsigned char *p, size_t n)
{
    int rc = 0;
    for (; n >= ACE_OLD && rc == 0; p += ACE_OLD, n -= ACE_OLD) {
        struct fs_ace a = {.who = get_u32(p, HOST),
                           .mask = get_u32(p + 4, HOST),
                           .flags = get_u16(p + 8, HOST),
                           .type = get_u16(p + 10, HOST)};
        rc = add(acl, &a);
    }
    return rc;
}

static int read_object(struct fs *fs, uint64_t object, unsigned char *to, size_t n)
{
    struct dnode *dn;
    int rc = dnode_hold(fs->os, object, &dn);
    if (rc < 0)
        return rc;
    rc = dnode_read(dn, 0, to, n);
    dnode_rele(dn);
    return rc;
}

/* In the znode, or in an object of its own if it is longer. */
static int read_legacy(struct fs *fs, const struct sa_set *s, struct fs_acl *acl)
{
    bool old = get_u16(s->bonus + OLD_ACL_VERSION, HOST) == 0;
    uint64_t n = get_u32(s->bonus + OLD_ACL_SIZE, HOST) * (uint64_t)(old ? ACE_OLD : 1);
    if (n > (size_t)ACE_MAX * ACE_SIZE_MAX || (!s->legacy_acl && n > OLD_ACL_EMBEDDED))
        return err_set(EBADE, "the access list is damaged");
    CLEANUP_FREE unsigned char *data = malloc(n + 1);
    if (!data)
        return -ENOMEM;
    if (s->legacy_acl) {
        int rc = read_object(fs, s->legacy_acl, data, n);
        if (rc == -ENOENT)
            return err_set(EBADE, "the object of the access list is missing");
        if (rc < 0)
            return rc;
    } else {
        memcpy(data, s->bonus + OLD_ACL_DATA, n);
    }
    return old ? parse_old(acl, data, n) : parse(acl, data, n);
}

static int read_acl(struct fs *fs, struct dnode *dn, struct fs_acl *acl)
{
    struct sa_set s CLEANUP_SA_SET;
    const struct sa_value *v;
    s.bonus = s.spill = NULL;
    int rc = sa_read(&fs->sa, dn, &s);
    if (rc < 0)
        return rc;
    if (dnode_bonus_type(dn) == OT_ZNODE)
        return read_legacy(fs, &s, acl);
    v = sa_set_get(&fs->sa, &s, SA_DACL_ACES);
    return v ? parse(acl, v->data, v->length) : 0;
}

int fs_acl_read(struct fs *fs, uint64_t ino, struct fs_acl *out)
{
    struct znode *zn CLEANUP_ZN = NULL;
    *out = (struct fs_acl){0};
    int rc = zn_open(fs, ino, &zn);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&zn->attr_lock);
    out->uid = zn->a.uid;
    out->gid = zn->a.gid;
    out->trivial = zn->a.flags & PFLAG_TRIVIAL;
    pthread_mutex_unlock(&zn->attr_lock);
    if (out->trivial)
        return 0;
    if (!(out->ace = calloc(ACE_MAX, sizeof *out->ace)))
        return -ENOMEM;
    rc = read_acl(fs, zn->dn, out);
    if (rc < 0)
        fs_acl_free(out);
    return rc;
}

void fs_acl_free(struct fs_acl *acl)
{
    free(acl->ace);
    acl->ace = NULL;
    acl->n = 0;
}

/* The table of domains; NULL if there is none. */
static int fuid_table(struct fs *fs, struct nvlist **out)
{
    struct dnode *master, *dn;
    unsigned char size[8];
    uint64_t object;
    size_t n;
    *out = NULL;
    int rc = dnode_hold(fs->os, MASTER_NODE, &master);
    if (rc < 0)
        return rc;
    rc = zap_get(master, "FUID", &object);
    dnode_rele(master);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    rc = dnode_hold(fs->os, object, &dn);
    if (rc < 0)
        return rc;
    rc = dnode_bonus_get(dn, size, sizeof size, &n);
    n = rc == 0 && n == 8 ? get_u64(size, HOST) : 0;
    CLEANUP_FREE unsigned char *data = n <= FUID_TABLE_MAX ? malloc(n + 1) : NULL;
    if (rc == 0 && n > 0)
        rc = data ? dnode_read(dn, 0, data, n) : err_set(EBADE, "the table of domains is damaged");
    dnode_rele(dn);
    return rc < 0 || n == 0 ? rc : nvlist_unpack(data, n, out, NULL);
}

int fs_sid(struct fs *fs, uint64_t id, char *out, size_t cap)
{
    struct nvlist *table, **domain;
    size_t n;
    if (id >> 32 == 0)
        return -ENOENT;
    int rc = fuid_table(fs, &table);
    if (rc < 0)
        return rc;
    rc = -ENOENT;
    if (table && nvlist_get_nvlist_array(table, "fuid_nvlist", &domain, &n) == 0)
        for (size_t i = 0; i < n && rc < 0; i++)
            if (nvlist_uint64_or(domain[i], "fuid_idx", 0) == id >> 32) {
                snprintf(out, cap, "%s-%" PRIu32, nvlist_string_or(domain[i], "fuid_domain", ""),
                         (uint32_t)id);
                rc = 0;
            }
    nvlist_free(table);
    return rc;
}
