/* The forms that take an object set and a number, and keys that are numbers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dmu/zap.h"
#include "util/cleanup.h"

static void rele(struct dnode **dn)
{
    dnode_rele(*dn);
}
#define HOLD(dn, os, object)                                                                       \
    struct dnode *dn CLEANUP(rele) = NULL;                                                         \
    int rc = dnode_hold(os, object, &dn);                                                          \
    if (rc < 0)                                                                                    \
    return rc

int zap_create_simple(struct objset *os, uint8_t type, unsigned normflags, struct tx *tx,
                      uint64_t *object)
{
    struct object_params params = {.type = type};
    struct dnode *dn;
    int rc = zap_create(os, &params, normflags, tx, &dn);
    if (rc < 0)
        return rc;
    *object = dnode_object(dn);
    dnode_rele(dn);
    return 0;
}

int zap_get_u64(struct objset *os, uint64_t object, const char *name, uint64_t *value)
{
    HOLD(dn, os, object);
    return zap_lookup(dn, name, 8, 1, value);
}

int zap_set_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx)
{
    HOLD(dn, os, object);
    return zap_update(dn, name, 8, 1, &value, tx);
}

int zap_add_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx)
{
    HOLD(dn, os, object);
    return zap_add(dn, name, 8, 1, &value, tx);
}

int zap_del(struct objset *os, uint64_t object, const char *name, struct tx *tx)
{
    HOLD(dn, os, object);
    return zap_remove(dn, name, tx);
}

int zap_increment(struct objset *os, uint64_t object, const char *name, uint64_t delta,
                  bool drop_zero, struct tx *tx)
{
    HOLD(dn, os, object);
    return zap_increment_in(dn, name, delta, drop_zero, tx);
}

void zap_int_key(uint64_t key, char out[17])
{
    static const char digits[] = "0123456789abcdef";
    int n = 1;
    while (n < 16 && key >> (4 * n) != 0)
        n++;
    out[n] = 0;
    for (; n > 0; key >>= 4)
        out[--n] = digits[key & 15];
}

int zap_int_get(struct objset *os, uint64_t object, uint64_t key, uint64_t *value)
{
    char name[17];
    zap_int_key(key, name);
    return zap_get_u64(os, object, name, value);
}

int zap_int_set(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx)
{
    char name[17];
    zap_int_key(key, name);
    return zap_set_u64(os, object, name, value, tx);
}

int zap_int_del(struct objset *os, uint64_t object, uint64_t key, struct tx *tx)
{
    char name[17];
    zap_int_key(key, name);
    return zap_del(os, object, name, tx);
}

int zap_find_value(struct objset *os, uint64_t object, uint64_t value, uint64_t mask, char *name,
                   size_t cap)
{
    HOLD(dn, os, object);
    struct zap_cursor c;
    struct zap_entry e;
    zap_cursor_init(&c, dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        if (e.count == 0 || (e.first & mask) != value)
            continue;
        if (strlen(e.name) >= cap)
            return -ENAMETOOLONG;
        strcpy(name, e.name);
        return 0;
    }
    return rc;
}

int zap_destroy(struct objset *os, uint64_t object, struct tx *tx)
{
    HOLD(dn, os, object);
    return object_free(dn, tx);
}
