/* Iteration in (hash, cd) order and its cookies (spec 03 14). */
#include <errno.h>

#include "dmu/zap_impl.h"

#define COOKIE_END UINT64_MAX

void zap_cursor_init(struct zap_cursor *c, struct dnode *zap, uint64_t cookie)
{
    struct zap *z CLEANUP_ZAP = NULL;
    *c = (struct zap_cursor){.zap = zap};
    c->error = zap_enter(zap, false, &z);
    if (c->error < 0)
        return;
    c->bits = z->hash_bits;
    if (cookie == COOKIE_END) {
        c->error = -ENOENT;
        return;
    }
    uint64_t cd = cookie >> c->bits, max = c->bits == 28 ? UINT32_MAX : 65535;
    c->hash = cookie << (64 - c->bits);
    c->cd = cd >= max ? 0 : cd;
}

int zap_cursor_next(struct zap_cursor *c, struct zap_entry *e)
{
    struct zap *z CLEANUP_ZAP = NULL;
    if (c->error < 0)
        return c->error;
    int rc = zap_enter(c->zap, false, &z);
    if (rc < 0)
        return rc;
    if (!z->fat) {
        rc = micro_next(z, c->zap, &c->hash, &c->cd, e);
    } else {
        struct fat f CLEANUP_FAT = {0};
        rc = fat_open(&f, z, c->zap);
        if (rc == 0)
            rc = fat_next(&f, &c->hash, &c->cd, e);
    }
    if (rc == 0)
        c->cd++;
    else if (rc == -ENOENT)
        c->error = rc;
    return rc;
}

uint64_t zap_cursor_cookie(const struct zap_cursor *c)
{
    if (c->error < 0)
        return COOKIE_END;
    return c->hash >> (64 - c->bits) | (uint64_t)c->cd << c->bits;
}
