/*
 * POSIX access control lists as Linux keeps them in an xattr (spec 06 10.4): a version word, then
 * entries of tag, permissions and id, little-endian.
 */
#include <errno.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

#define ACL_VERSION 2
#define ACL_HEADER  4
#define ACL_ENTRY   8
#define ACL_MAX     8192 /* entries */

enum {
    TAG_USER_OBJ = 1,
    TAG_USER = 2,
    TAG_GROUP_OBJ = 4,
    TAG_GROUP = 8,
    TAG_MASK = 16,
    TAG_OTHER = 32
};

bool acl_name(const char *name, bool *is_default)
{
    *is_default = strcmp(name, ACL_DEFAULT_NAME) == 0;
    return *is_default || strcmp(name, ACL_ACCESS_NAME) == 0;
}

static unsigned tag(const unsigned char *e)
{
    return get_le16(e);
}
static unsigned perm(const unsigned char *e)
{
    return get_le16(e + 2) & 7;
}
static void set_perm(unsigned char *e, unsigned p)
{
    put_le16(e + 2, p);
}

static size_t entry_count(size_t n)
{
    return (n - ACL_HEADER) / ACL_ENTRY;
}

/* Entries must come in order of their tags, each of the unnamed at most once, and a mask if anybody
 * is named. */
int acl_check(const void *acl, size_t n, unsigned *entries)
{
    const unsigned char *b = acl;
    unsigned seen = 0, last = 0;
    if (n < ACL_HEADER || get_le32(b) != ACL_VERSION || (n - ACL_HEADER) % ACL_ENTRY != 0 ||
        entry_count(n) > ACL_MAX)
        return -EINVAL;
    for (size_t at = ACL_HEADER; at < n; at += ACL_ENTRY) {
        unsigned t = tag(b + at);
        bool named = t == TAG_USER || t == TAG_GROUP;
        if (t == 0 || t > TAG_OTHER || (t & (t - 1)) != 0 || t < last || (seen & t && !named) ||
            get_le16(b + at + 2) > 7)
            return -EINVAL;
        seen |= t;
        last = t;
    }
    if (entries)
        *entries = entry_count(n);
    if (n == ACL_HEADER)
        return 0;
    unsigned needed = TAG_USER_OBJ | TAG_GROUP_OBJ | TAG_OTHER;
    if ((seen & needed) != needed || (seen & (TAG_USER | TAG_GROUP) && !(seen & TAG_MASK)))
        return -EINVAL;
    return 0;
}

int acl_to_mode(const void *acl, size_t n, uint32_t *mode, bool *minimal)
{
    const unsigned char *b = acl;
    uint32_t group = 0, m = *mode & ~0777u;
    bool mask = false;
    *minimal = true;
    for (size_t at = ACL_HEADER; at < n; at += ACL_ENTRY) {
        unsigned p = perm(b + at);
        switch (tag(b + at)) {
        case TAG_USER_OBJ:
            m |= p << 6;
            break;
        case TAG_GROUP_OBJ:
            group = mask ? group : p;
            break;
        case TAG_MASK:
            group = p;
            mask = true;
            *minimal = false;
            break;
        case TAG_OTHER:
            m |= p;
            break;
        default:
            *minimal = false;
        }
    }
    *mode = m | group << 3;
    return 0;
}

/* The entry that the mode's group bits stand for: the mask, or the owning group without one. */
static unsigned char *group_entry(unsigned char *b, size_t n)
{
    unsigned char *group = NULL;
    for (size_t at = ACL_HEADER; at < n; at += ACL_ENTRY)
        if (tag(b + at) == TAG_MASK || (tag(b + at) == TAG_GROUP_OBJ && !group))
            group = b + at;
    return group;
}

void acl_chmod(void *acl, size_t n, uint32_t mode)
{
    unsigned char *b = acl, *group = group_entry(b, n);
    for (size_t at = ACL_HEADER; at < n; at += ACL_ENTRY) {
        if (tag(b + at) == TAG_USER_OBJ)
            set_perm(b + at, mode >> 6 & 7);
        else if (tag(b + at) == TAG_OTHER)
            set_perm(b + at, mode & 7);
    }
    if (group)
        set_perm(group, mode >> 3 & 7);
}

void acl_inherit(void *acl, size_t n, uint32_t *mode, bool *minimal)
{
    unsigned char *b = acl, *group = group_entry(b, n);
    uint32_t m = *mode;
    unsigned user = m >> 6 & 7, other = m & 7, mid = m >> 3 & 7;
    *minimal = true;
    for (size_t at = ACL_HEADER; at < n; at += ACL_ENTRY) {
        unsigned char *e = b + at;
        if (tag(e) == TAG_USER_OBJ)
            set_perm(e, user &= perm(e));
        else if (tag(e) == TAG_OTHER)
            set_perm(e, other &= perm(e));
        else if (tag(e) != TAG_GROUP_OBJ)
            *minimal = false;
    }
    if (group)
        set_perm(group, mid &= perm(group));
    *mode = (m & ~0777u) | user << 6 | mid << 3 | other;
}
