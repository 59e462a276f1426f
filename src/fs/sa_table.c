/* Registry and layouts of a file system's attributes (spec 06 4.1, 4.3). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/objset.h"
#include "dmu/zap.h"
#include "fs/sa_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static const struct sa_attr known[SA_IDS] = {
    [SA_ATIME] = {"ZPL_ATIME", 16, SA_SWAP_U64},
    [SA_MTIME] = {"ZPL_MTIME", 16, SA_SWAP_U64},
    [SA_CTIME] = {"ZPL_CTIME", 16, SA_SWAP_U64},
    [SA_CRTIME] = {"ZPL_CRTIME", 16, SA_SWAP_U64},
    [SA_GEN] = {"ZPL_GEN", 8, SA_SWAP_U64},
    [SA_MODE] = {"ZPL_MODE", 8, SA_SWAP_U64},
    [SA_SIZE] = {"ZPL_SIZE", 8, SA_SWAP_U64},
    [SA_PARENT] = {"ZPL_PARENT", 8, SA_SWAP_U64},
    [SA_LINKS] = {"ZPL_LINKS", 8, SA_SWAP_U64},
    [SA_XATTR] = {"ZPL_XATTR", 8, SA_SWAP_U64},
    [SA_RDEV] = {"ZPL_RDEV", 8, SA_SWAP_U64},
    [SA_FLAGS] = {"ZPL_FLAGS", 8, SA_SWAP_U64},
    [SA_UID] = {"ZPL_UID", 8, SA_SWAP_U64},
    [SA_GID] = {"ZPL_GID", 8, SA_SWAP_U64},
    [SA_PAD] = {"ZPL_PAD", 32, SA_SWAP_U64},
    [SA_ZNODE_ACL] = {"ZPL_ZNODE_ACL", 88, SA_SWAP_BYTES},
    [SA_DACL_COUNT] = {"ZPL_DACL_COUNT", 8, SA_SWAP_U64},
    [SA_SYMLINK] = {"ZPL_SYMLINK", 0, SA_SWAP_BYTES},
    [SA_SCANSTAMP] = {"ZPL_SCANSTAMP", 32, SA_SWAP_BYTES},
    [SA_DACL_ACES] = {"ZPL_DACL_ACES", 0, SA_SWAP_ACL},
    [SA_DXATTR] = {"ZPL_DXATTR", 0, SA_SWAP_BYTES},
    [SA_PROJID] = {"ZPL_PROJID", 8, SA_SWAP_U64},
};

const uint8_t sa_prefix[SA_PREFIX_ATTRS] = {
    SA_MODE,  SA_SIZE,  SA_GEN,   SA_UID,   SA_GID,    SA_PARENT,
    SA_FLAGS, SA_ATIME, SA_MTIME, SA_CTIME, SA_CRTIME, SA_LINKS,
};

static uint64_t registry_word(unsigned number, const struct sa_attr *a)
{
    return number | (uint64_t)a->swap << 16 | (uint64_t)a->length << 24;
}

static int damaged(const char *what)
{
    return err_set(EBADE, "the attribute tables of a file system are damaged: %s", what);
}

/* ---- Reading ---- */

static int read_attr(struct sa_table *t, const struct zap_entry *e)
{
    unsigned number = e->first & 0xffff, swap = e->first >> 16 & 0xff,
             length = e->first >> 24 & 0xffff;
    if (e->key_words || number >= SA_ATTRS_MAX || swap > SA_SWAP_ACL || t->attrs[number].name[0] ||
        strlen(e->name) >= sizeof t->attrs[0].name)
        return damaged("a strange entry in the registry");
    strcpy(t->attrs[number].name, e->name);
    t->attrs[number].swap = swap;
    t->attrs[number].length = length;
    t->attr_count++;
    return 0;
}

static void hold_cleanup(struct dnode **dn)
{
    dnode_rele(*dn);
}
#define CLEANUP_DNODE CLEANUP(hold_cleanup)

static int read_registry(struct sa_table *t)
{
    struct dnode *dn CLEANUP_DNODE = NULL;
    struct zap_cursor c;
    struct zap_entry e;
    int rc = dnode_hold(t->os, t->registry, &dn);
    if (rc < 0)
        return rc;
    zap_cursor_init(&c, dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = read_attr(t, &e);
        if (rc < 0)
            return rc;
    }
    if (rc != -ENOENT)
        return rc;
    for (unsigned i = 0; i < t->attr_count; i++)
        if (!t->attrs[i].name[0])
            return damaged("attribute numbers have gaps");
    return t->attr_count ? 0 : damaged("an empty registry");
}

static int grow_layouts(struct sa_table *t, unsigned count)
{
    if (count <= t->layout_count)
        return 0;
    struct sa_layout *more = realloc(t->layouts, count * sizeof *more);
    if (!more)
        return -ENOMEM;
    memset(more + t->layout_count, 0, (count - t->layout_count) * sizeof *more);
    t->layouts = more;
    t->layout_count = count;
    return 0;
}

static int read_layout(struct sa_table *t, struct dnode *dn, const struct zap_entry *e)
{
    char *end;
    unsigned long number = strtoul(e->name, &end, 10);
    if (*end || number < SA_LAYOUT_FIRST || number > SA_LAYOUT_MAX || e->size != 2 ||
        e->count == 0 || e->count > SA_ATTRS_MAX)
        return damaged("a strange layout");
    int rc = grow_layouts(t, number + 1);
    if (rc < 0)
        return rc;
    struct sa_layout *l = &t->layouts[number];
    l->attrs = calloc(e->count, sizeof *l->attrs);
    if (!l->attrs)
        return -ENOMEM;
    l->n = e->count;
    rc = zap_lookup(dn, e->name, 2, e->count, l->attrs);
    for (unsigned i = 0; i < l->n && rc == 0; i++)
        if (l->attrs[i] >= t->attr_count)
            rc = damaged("a layout with an unknown attribute");
    return rc;
}

static int read_layouts(struct sa_table *t)
{
    struct dnode *dn CLEANUP_DNODE = NULL;
    struct zap_cursor c;
    struct zap_entry e;
    int rc = dnode_hold(t->os, t->layout_map, &dn);
    if (rc < 0)
        return rc;
    zap_cursor_init(&c, dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        rc = read_layout(t, dn, &e);
        if (rc < 0)
            return rc;
    }
    if (rc != -ENOENT)
        return rc;
    for (unsigned i = SA_LAYOUT_FIRST; i < t->layout_count; i++)
        if (!t->layouts[i].attrs)
            return damaged("layout numbers have gaps");
    return t->layout_count > SA_LAYOUT_FIRST ? 0 : damaged("an empty list of layouts");
}

/* Which numbers the attributes we know have here. */
static void find_numbers(struct sa_table *t)
{
    for (unsigned id = 0; id < SA_IDS; id++) {
        t->number[id] = id < SA_LEGACY_IDS ? id : SA_NO_NUMBER;
        for (unsigned i = SA_LEGACY_IDS; i < t->attr_count; i++)
            if (strcmp(t->attrs[i].name, known[id].name) == 0)
                t->number[id] = i;
    }
}

static int check_known(const struct sa_table *t)
{
    for (unsigned id = 0; id < SA_IDS; id++) {
        unsigned number = t->number[id];
        if (number != SA_NO_NUMBER && number < t->attr_count &&
            t->attrs[number].length != known[id].length)
            return damaged("an attribute has another length than it must");
    }
    return 0;
}

int sa_table_open(struct sa_table *t, struct objset *os, uint64_t master)
{
    *t = (struct sa_table){.os = os, .master = master};
    pthread_rwlock_init(&t->lock, NULL);
    int rc = grow_layouts(t, SA_LAYOUT_FIRST);
    if (rc == 0 && master != 0)
        rc = zap_get_u64(os, master, "REGISTRY", &t->registry);
    if (rc == 0 && master != 0)
        rc = zap_get_u64(os, master, "LAYOUTS", &t->layout_map);
    if (rc == -ENOENT)
        rc = 0;
    if (rc == 0 && t->registry)
        rc = read_registry(t);
    if (rc == 0 && t->layout_map)
        rc = read_layouts(t);
    if (rc == 0 &&
        t->attr_count == 0) { /* old sets: nothing registered, so these are the numbers */
        memcpy(t->attrs, known, sizeof known);
        t->attr_count = SA_IDS;
    }
    find_numbers(t);
    if (rc == 0)
        rc = check_known(t);
    if (rc < 0)
        sa_table_close(t);
    return rc;
}

void sa_table_close(struct sa_table *t)
{
    for (unsigned i = 0; i < t->layout_count; i++)
        free(t->layouts[i].attrs);
    free(t->layouts);
    t->layouts = NULL;
    t->layout_count = 0;
    pthread_rwlock_destroy(&t->lock);
}

/* ---- Extending ---- */

bool sa_table_is_complete(const struct sa_table *t)
{
    for (unsigned id = 0; id < SA_IDS; id++)
        if (t->number[id] == SA_NO_NUMBER)
            return false;
    return t->registry != 0 && t->layout_map != 0;
}

static int create_maps(struct sa_table *t, struct tx *tx)
{
    int rc = 0;
    if (t->registry == 0) {
        rc = zap_create_simple(t->os, OT_SA_REGISTRATION, 0, tx, &t->registry);
        if (rc == 0)
            rc = zap_add_u64(t->os, t->master, "REGISTRY", t->registry, tx);
        for (unsigned i = 0; i < t->attr_count && rc == 0; i++)
            rc = zap_add_u64(t->os, t->registry, t->attrs[i].name, registry_word(i, &t->attrs[i]),
                             tx);
    }
    if (rc == 0 && t->layout_map == 0) {
        rc = zap_create_simple(t->os, OT_SA_LAYOUTS, 0, tx, &t->layout_map);
        if (rc == 0)
            rc = zap_add_u64(t->os, t->master, "LAYOUTS", t->layout_map, tx);
    }
    return rc;
}

int sa_table_complete(struct sa_table *t, struct tx *tx)
{
    int rc = create_maps(t, tx);
    for (unsigned id = SA_LEGACY_IDS; id < SA_IDS && rc == 0; id++) {
        unsigned number = t->attr_count;
        if (t->number[id] != SA_NO_NUMBER)
            continue;
        if (number >= SA_ATTRS_MAX)
            return -ENOSPC;
        rc = zap_add_u64(t->os, t->registry, known[id].name, registry_word(number, &known[id]), tx);
        if (rc < 0)
            return rc;
        t->attrs[number] = known[id];
        t->number[id] = number;
        t->attr_count++;
    }
    return rc;
}

static int find_layout(const struct sa_table *t, const uint16_t *attrs, unsigned n)
{
    for (unsigned i = SA_LAYOUT_FIRST; i < t->layout_count; i++)
        if (t->layouts[i].n == n && memcmp(t->layouts[i].attrs, attrs, n * sizeof *attrs) == 0)
            return i;
    return -1;
}

static int add_layout(struct sa_table *t, const uint16_t *attrs, unsigned n, unsigned *number,
                      struct tx *tx)
{
    struct dnode *dn CLEANUP_DNODE = NULL;
    char key[12];
    CLEANUP_FREE uint16_t *copy = malloc(n * sizeof *copy);
    *number = t->layout_count;
    if (*number > SA_LAYOUT_MAX)
        return -ENOSPC;
    snprintf(key, sizeof key, "%u", *number);
    int rc = copy ? grow_layouts(t, *number + 1) : -ENOMEM;
    if (rc < 0)
        return rc;
    rc = dnode_hold(t->os, t->layout_map, &dn);
    if (rc == 0)
        rc = zap_add(dn, key, 2, n, attrs, tx);
    if (rc < 0) {
        t->layout_count = *number;
        return rc;
    }
    memcpy(copy, attrs, n * sizeof *copy);
    t->layouts[*number] = (struct sa_layout){n, STEAL(copy)};
    return 0;
}

int sa_layout_number(struct sa_table *t, const uint16_t *attrs, unsigned n, unsigned *number,
                     struct tx *tx)
{
    if (n == 0) {
        *number = SA_LAYOUT_EMPTY;
        return 0;
    }
    pthread_rwlock_rdlock(&t->lock);
    int found = find_layout(t, attrs, n), rc = 0;
    pthread_rwlock_unlock(&t->lock);
    if (found < 0) {
        pthread_rwlock_wrlock(&t->lock);
        found = find_layout(t, attrs, n);
        if (found < 0)
            rc = add_layout(t, attrs, n, number, tx);
        pthread_rwlock_unlock(&t->lock);
    }
    if (found >= 0)
        *number = found;
    return rc;
}

int sa_layout_get(struct sa_table *t, unsigned number, uint16_t attrs[SA_ATTRS_MAX], unsigned *n)
{
    int rc = 0;
    pthread_rwlock_rdlock(&t->lock);
    if (number == SA_LAYOUT_EMPTY)
        *n = 0;
    else if (number < SA_LAYOUT_FIRST || number >= t->layout_count)
        rc = err_set(EBADE, "attributes in layout %u, which does not exist", number);
    else
        memcpy(attrs, t->layouts[number].attrs, (*n = t->layouts[number].n) * sizeof *attrs);
    pthread_rwlock_unlock(&t->lock);
    return rc;
}
