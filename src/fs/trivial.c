/* The access control list that every object carries: what its mode says, in NFSv4 words (06 10.3).
 */
#include <string.h>

#include "fs/fs_impl.h"
#include "util/bytes.h"

#define HOST         BYTES_HOST_BIG

#define ACE_ALLOW    0
#define ACE_DENY     1
#define WHO_OWNER    0x1000
#define WHO_GROUP    0x2040
#define WHO_EVERYONE 0x4000
#define OWNER_ALWAYS 0x1E0198u /* besides read, write, execute */
#define OTHER_ALWAYS 0x120088u
#define MASK_READ    0x1u
#define MASK_EXECUTE 0x20u

struct acl {
    unsigned char *at;
    unsigned count;
};

static void ace(struct acl *acl, unsigned type, unsigned who, uint32_t mask)
{
    put_u16(acl->at, type, HOST);
    put_u16(acl->at + 2, who, HOST);
    put_u32(acl->at + 4, mask, HOST);
    acl->at += 8;
    acl->count++;
}

static uint32_t mask_of(uint32_t mode, unsigned bits)
{
    uint32_t write = S_ISDIR(mode) ? 0x46 : 0x6;
    return (bits & 4 ? MASK_READ : 0) | (bits & 2 ? write : 0) | (bits & 1 ? MASK_EXECUTE : 0);
}

unsigned trivial_acl(uint32_t mode, unsigned char out[TRIVIAL_ACL_MAX], size_t *length)
{
    unsigned user = mode >> 6 & 7, group = mode >> 3 & 7, other = mode & 7;
    unsigned allow0 = user & ~group & other;
    unsigned deny1 = ~user & (group | other), deny2 = ~group & other;
    struct acl acl = {out, 0};
    if (allow0)
        ace(&acl, ACE_ALLOW, WHO_OWNER, mask_of(mode, allow0));
    if (deny1)
        ace(&acl, ACE_DENY, WHO_OWNER, mask_of(mode, deny1));
    if (deny2)
        ace(&acl, ACE_DENY, WHO_GROUP, mask_of(mode, deny2));
    ace(&acl, ACE_ALLOW, WHO_OWNER, OWNER_ALWAYS | mask_of(mode, user));
    ace(&acl, ACE_ALLOW, WHO_GROUP, OTHER_ALWAYS | mask_of(mode, group));
    ace(&acl, ACE_ALLOW, WHO_EVERYONE, OTHER_ALWAYS | mask_of(mode, other));
    *length = acl.at - out;
    return acl.count;
}

bool trivial_no_execs_denied(uint32_t mode)
{
    return (mode & 0111) == 0111;
}
