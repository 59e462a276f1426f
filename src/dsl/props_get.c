/* Looking properties up, with inheritance (spec 04 5.1). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/zap.h"
#include "dsl/dsl_impl.h"
#include "dsl/props_impl.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/err.h"

/* ---- One property ZAP ---- */

static void make_key(char key[ZAP_NAME_MAX], const char *name, const char *suffix)
{
    snprintf(key, ZAP_NAME_MAX, "%s%s", name, suffix);
}

/* One key: a number, or a string of bytes. */
static int read_key(struct dnode *zap, const char *key, struct prop_value *out)
{
    unsigned size;
    size_t count;
    int rc = zap_length(zap, key, &size, &count);

    if (rc != 0)
        return rc;
    if (size == 8 && count == 1)
        return zap_lookup(zap, key, 8, 1, &out->number);
    if (size != 1 || count > (1u << 20))
        return err_set(EBADE, "property %s has a value of the wrong form", key);
    out->string = calloc(1, count + 1);
    rc = out->string ? zap_lookup(zap, key, 1, count, out->string) : -ENOMEM;
    if (rc != 0) {
        free(out->string);
        out->string = NULL;
    }
    return rc;
}

/* A newer value that older software would not know, if we know it. */
static int read_iuv(struct dnode *zap, const struct prop_info *p, struct prop_value *out)
{
    char key[ZAP_NAME_MAX];
    int rc;

    if (!p || p->kind != PROP_INDEX)
        return -ENOENT;
    make_key(key, p->name, "$iuv");
    rc = zap_lookup(zap, key, 8, 1, &out->number);
    return rc == 0 && !prop_known(p, out->number) ? -ENOENT : rc;
}

/* The value set at this place: local, or received unless inherited on purpose. */
static int read_zap(struct dsl *dsl, uint64_t object, const char *name, const struct prop_info *p,
                    struct prop_value *out)
{
    char key[ZAP_NAME_MAX];
    struct dnode *zap;
    unsigned size;
    size_t count;
    int rc;

    if (object == 0)
        return -ENOENT;
    rc = dnode_hold(dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    out->source = SOURCE_LOCAL;
    rc = read_iuv(zap, p, out);
    if (rc == -ENOENT)
        rc = read_key(zap, name, out);
    if (rc == -ENOENT) {
        make_key(key, name, "$inherit");
        if (zap_length(zap, key, &size, &count) != 0) {
            make_key(key, name, "$recvd");
            rc = read_key(zap, key, out);
            out->source = SOURCE_RECEIVED;
        }
    }
    dnode_rele(zap);
    return rc;
}

/* ---- Up the tree ---- */

/* *at is the directory where it was found, NULL for a snapshot's own. */
static int find_value(struct dir *own, struct dataset *snap, const char *name, const struct prop_info *p,
                      struct prop_value *out, struct dir **at)
{
    bool inherits = !p || (p->flags & PROP_INHERIT);
    int rc = snap ? read_zap(own->dsl, snap->w[DS_PROPS], name, p, out) : -ENOENT;

    *at = NULL;
    for (struct dir *d = own; d && rc == -ENOENT; d = d->parent) {
        if ((d != own || snap) && !inherits)
            break;
        rc = read_zap(own->dsl, d->w[DIR_PROPS], name, p, out);
        *at = d;
    }
    return rc;
}

static int lookup(struct dataset *ds, const char *name, const struct prop_info *p, struct prop_value *out)
{
    struct dataset *snap = ds_is_snapshot(ds) ? ds : NULL;
    struct dir *at;
    int rc = find_value(ds->dir, snap, name, p, out, &at);

    if (rc != 0)
        return rc;
    if (at && (at != ds->dir || snap)) {
        out->source = SOURCE_INHERITED;
        dir_name(at, out->from);
    }
    return 0;
}

static int set_default(const struct prop_info *p, struct prop_value *out)
{
    out->source = SOURCE_DEFAULT;
    out->number = p->number;
    if (p->kind != PROP_STRING)
        return 0;
    out->string = strdup(p->string ? p->string : "");
    return out->string ? 0 : -ENOMEM;
}

uint64_t prop_dir_number(struct dir *d, const char *name)
{
    const struct prop_info *p = prop_info(name);
    struct prop_value v = {0};
    struct dir *at;
    int rc = find_value(d, NULL, p->name, p, &v, &at);

    prop_value_clear(&v);
    return rc == 0 && prop_known(p, v.number) ? v.number : p->number;
}

/* ---- How a dataset writes ---- */

static uint8_t usable_checksum(struct dsl *dsl, uint64_t kind)
{
    const struct checksum_info *info = kind < CHECKSUM_COUNT ? checksum_info((unsigned)kind) : NULL;

    if (kind == CHECKSUM_OFF)
        return CHECKSUM_OFF;
    if (!info || !info->compute)
        return CHECKSUM_ON;
    if (info->feature) {
        enum feature_id f = feature_by_guid(info->feature);

        if (f == FEATURE_COUNT || !feature_enabled(dsl, f))
            return CHECKSUM_ON;
    }
    return (uint8_t)kind;
}

static void usable_compression(struct dsl *dsl, uint64_t value, struct objset_props *out)
{
    unsigned kind = value & 0x7f;

    out->compress = COMPRESS_ON;
    out->compress_level = 0;
    if (kind == COMPRESS_INHERIT || kind >= COMPRESS_COUNT || kind == COMPRESS_EMPTY)
        return;
    if (kind == COMPRESS_ZSTD && !feature_enabled(dsl, FEATURE_ZSTD_COMPRESS))
        return;
    if (kind == COMPRESS_LZ4 && !feature_enabled(dsl, FEATURE_LZ4_COMPRESS))
        return;
    out->compress = (uint8_t)kind;
    out->compress_level = (int8_t)(value >> 7);
}

static uint32_t usable_recordsize(struct dsl *dsl, uint64_t size)
{
    if (!is_pow2(size) || size < BLOCK_MIN_SIZE || size > BLOCK_MAX_SIZE)
        return BLOCK_OLD_MAX;
    if (size > BLOCK_OLD_MAX && !feature_enabled(dsl, FEATURE_LARGE_BLOCKS))
        return BLOCK_OLD_MAX;
    return (uint32_t)size;
}

static uint32_t usable_dnodesize(struct dsl *dsl, uint64_t size)
{
    if (size == 0 || !feature_enabled(dsl, FEATURE_LARGE_DNODE))
        return DNODE_MIN_SIZE;
    return size == 1 ? 1024 : (uint32_t)size;
}

void prop_objset(struct dir *d, struct objset_props *out)
{
    struct dsl *dsl = d->dsl;

    out->checksum = usable_checksum(dsl, prop_dir_number(d, "checksum"));
    usable_compression(dsl, prop_dir_number(d, "compression"), out);
    out->copies = (uint8_t)MAX(1u, MIN(3u, prop_dir_number(d, "copies")));
    out->redundant_metadata = (uint8_t)prop_dir_number(d, "redundant_metadata");
    out->recordsize = usable_recordsize(dsl, prop_dir_number(d, "recordsize"));
    out->dnodesize = usable_dnodesize(dsl, prop_dir_number(d, "dnodesize"));
}

/* ---- Mount points ---- */

/* What is below the directory that has the value: "" or "/a/b". */
static const char *below(const char *name, const char *from)
{
    size_t n = strlen(from);

    return strncmp(name, from, n) == 0 && (name[n] == '/' || name[n] == 0) ? name + n : "";
}

static char *join_mountpoint(struct dataset *ds, const char *altroot, const struct prop_value *v)
{
    char name[DATASET_NAME_MAX], *out = NULL;
    const char *base = v->string, *rest = "";

    ds_name(ds, name);
    if (v->source == SOURCE_DEFAULT) {
        base = "";
        rest = name;
    } else if (v->source == SOURCE_INHERITED) {
        rest = below(name, v->from);
    }
    if (strcmp(base, "none") == 0 || strcmp(base, "legacy") == 0)
        return strdup(base);
    if (strcmp(base, "/") == 0)
        base = "";
    if (rest[0] == '/')
        rest++;
    if (asprintf(&out, "%s%s%s%s", altroot ? altroot : "", base,
                 rest[0] || (base[0] == 0 && !altroot) ? "/" : "", rest) < 0)
        return NULL;
    return out;
}

static int mountpoint(struct dataset *ds, const char *altroot, char **out, struct prop_value *raw)
{
    const struct prop_info *p = prop_info("mountpoint");
    struct prop_value v = {0};
    int rc = lookup(ds, "mountpoint", p, &v);

    if (rc == -ENOENT || (rc == 0 && !v.string))
        rc = set_default(p, &v);
    if (rc != 0)
        return rc;
    if (altroot && strcmp(altroot, "/") == 0)
        altroot = NULL;
    *out = join_mountpoint(ds, altroot, &v);
    if (raw)
        *raw = v;
    else
        prop_value_clear(&v);
    return *out ? 0 : -ENOMEM;
}

int prop_mountpoint(struct dataset *ds, const char *altroot, char **out, struct prop_value *raw)
{
    DSL_READ_GUARD(ds->dsl);

    return mountpoint(ds, altroot, out, raw);
}

/* ---- Public ---- */

void prop_value_clear(struct prop_value *v)
{
    free(v->string);
    v->string = NULL;
}

static bool applies(struct dataset *ds, const struct prop_info *p)
{
    if (ds_is_snapshot(ds))
        return p->flags & PROP_SNAPSHOT;
    return p->flags & (dataset_type(ds) == OBJSET_ZVOL ? PROP_VOLUME : PROP_FILESYSTEM);
}

static int get_native(struct dataset *ds, const struct prop_info *p, struct prop_value *out)
{
    int rc;

    if (!applies(ds, p))
        return -ENOENT;
    rc = prop_compute(ds, p, out);
    if (rc != -ENODATA)
        return rc;
    if (strcmp(p->name, "mountpoint") == 0) {
        char *path;

        rc = mountpoint(ds, NULL, &path, out);
        if (rc == 0) {
            free(out->string);
            out->string = path;
        }
        return rc;
    }
    rc = lookup(ds, p->name, p, out);
    return rc == -ENOENT ? set_default(p, out) : rc;
}

int prop_get(struct dataset *ds, const char *name, struct prop_value *out)
{
    const struct prop_info *p = prop_info(name);
    DSL_READ_GUARD(ds->dsl);
    int rc;

    memset(out, 0, sizeof *out);
    if (ds->dead)
        return err_set(ENOENT, "dataset does not exist");
    if (p) {
        rc = get_native(ds, p, out);
    } else if (strchr(name, ':')) {
        rc = lookup(ds, name, NULL, out);
        if (rc == 0 && !out->string && asprintf(&out->string, "%llu",
                                                (unsigned long long)out->number) < 0)
            rc = -ENOMEM;
    } else {
        return err_set(EINVAL, "invalid property '%s'", name);
    }
    if (rc != 0)
        prop_value_clear(out);
    return rc;
}

uint64_t prop_get_number(struct dataset *ds, const char *name)
{
    const struct prop_info *p = prop_info(name);
    struct prop_value v;
    uint64_t n = p ? p->number : 0;

    if (prop_get(ds, name, &v) == 0)
        n = v.number;
    prop_value_clear(&v);
    return n;
}

/* ---- User properties ---- */

/* Adds the user properties that a ZAP names and that are not yet in the list. */
static int list_zap(struct dataset *ds, uint64_t object, struct nvlist *list)
{
    struct zap_cursor c;
    struct zap_entry e;
    struct dnode *zap;
    int rc;

    if (object == 0)
        return 0;
    rc = dnode_hold(ds->dsl->mos, object, &zap);
    if (rc != 0)
        return rc;
    zap_cursor_init(&c, zap, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        struct prop_value v = {0};
        char *suffix = strchr(e.name, '$');

        if (!strchr(e.name, ':') || (suffix && strcmp(suffix, "$recvd") != 0))
            continue;
        if (suffix)
            *suffix = 0;
        if (nvlist_exists(list, e.name))
            continue;
        rc = lookup(ds, e.name, NULL, &v);
        if (rc == 0 && v.string)
            rc = nvlist_add_string(list, e.name, v.string);
        prop_value_clear(&v);
        if (rc != 0 && rc != -ENOENT)
            break;
    }
    dnode_rele(zap);
    return rc == -ENOENT ? 0 : rc;
}

int prop_user_list(struct dataset *ds, struct nvlist **out)
{
    DSL_READ_GUARD(ds->dsl);
    struct nvlist *list = nvlist_new();
    int rc = list ? 0 : -ENOMEM;

    if (rc == 0 && ds->dead)
        rc = err_set(ENOENT, "dataset does not exist");
    if (rc == 0)
        rc = list_zap(ds, ds_is_snapshot(ds) ? ds->w[DS_PROPS] : 0, list);
    for (struct dir *d = ds->dir; d && rc == 0; d = d->parent)
        rc = list_zap(ds, d->w[DIR_PROPS], list);
    if (rc != 0) {
        nvlist_free(list);
        return rc;
    }
    *out = list;
    return 0;
}
