/* tarn inspect mos, dataset, object and block: datasets, objects, and the blocks they are made of.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dmu/zap.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/inspect_impl.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "vdev/vdev.h"

#define MOS_DIRECTORY 1
#define RAW_MAX       (16u << 20)

static const struct tool_column object_columns[] = {
    {"object", "OBJECT", false, 10},   {"levels", "LVL", false, 3},
    {"block_size", "BLOCK", false, 9}, {"dnode_size", "DNODE", false, 6},
    {"used", "USED", false, 12},       {"bonus_type", "BONUS", true, 20},
    {"type", "TYPE", true, 20}};

/* ---- Sets of objects ---- */

static void list_objects(struct inspect *x, struct objset *os, const char *name)
{
    uint64_t object = 0;
    bool begun = false;
    int rc;
    while ((rc = objset_next_object(os, &object)) == 0) {
        struct dnode *dn;
        err_clear();
        int one = dnode_hold(os, object, &dn);
        if (one) {
            tool_error(x->t, one, "%s: object %" PRIu64, name, object);
            continue;
        }
        inspect_table(x, object_columns, ARRAY_LEN(object_columns), &begun, inspect_dnode_row(dn));
        dnode_rele(dn);
    }
    if (rc != -ENOENT)
        tool_error(x->t, rc, "%s", name);
}

/* ---- ZAPs ---- */

static bool is_zap(uint8_t type)
{
    static const uint64_t zaps = 1ull << 1 | 1ull << 13 | 1ull << 14 | 1ull << 15 | 1ull << 20 |
                                 1ull << 21 | 1ull << 22 | 1ull << 24 | 1ull << 27 | 1ull << 28 |
                                 1ull << 31 | 1ull << 32 | 1ull << 37 | 1ull << 38 | 1ull << 39 |
                                 1ull << 40 | 1ull << 41 | 1ull << 42 | 1ull << 43 | 1ull << 45 |
                                 1ull << 46 | 1ull << 47 | 1ull << 48 | 1ull << 50 | 1ull << 52;
    return type & 0x80 ? (type & 0x1f) == 4 : type < 54 && zaps >> type & 1;
}

static struct json_object *zap_value(struct dnode *dn, const struct zap_entry *e)
{
    CLEANUP_FREE unsigned char *v = NULL;
    if (e->count == 1 || e->count == 0 || e->key_words || e->count > 65536)
        return json_object_new_uint64(e->first);
    v = calloc(e->count, 8);
    if (!v || zap_lookup(dn, e->name, e->size, e->count, v) != 0)
        return NULL;
    if (e->size == 1 && memchr(v, '\0', e->count) == v + e->count - 1) {
        struct json_object *o = json_object_new_object(), *text;
        json_put_name(o, "v", (const char *)v);
        text = json_object_get(json_object_object_get(o, "v"));
        json_object_put(o);
        return text;
    }
    struct json_object *a = json_object_new_array();
    for (size_t i = 0; i < e->count; i++) {
        uint64_t n = e->size == 1   ? v[i]
                     : e->size == 2 ? get_u16(v + 2 * i, BYTES_HOST_BIG)
                     : e->size == 4 ? get_u32(v + 4 * i, BYTES_HOST_BIG)
                                    : get_u64(v + 8 * i, BYTES_HOST_BIG);
        json_object_array_add(a, json_object_new_uint64(n));
    }
    return a;
}

static int zap_rows(struct inspect *x, struct dnode *dn)
{
    static const struct tool_column columns[] = {{"key", "KEY", true, 40},
                                                 {"value", "VALUE", true, 20}};
    struct zap_cursor c;
    struct zap_entry e;
    bool begun = false;
    int rc;
    zap_cursor_init(&c, dn, 0);
    while ((rc = zap_cursor_next(&c, &e)) == 0) {
        struct json_object *o = json_object_new_object();
        char words[200] = "";
        for (unsigned i = 0; i < e.key_words && i < 8; i++) {
            uint64_t w;
            memcpy(&w, e.name + 8 * i, sizeof w);
            snprintf(words + strlen(words), sizeof words - strlen(words), "%s%016" PRIx64,
                     i ? " " : "", w);
        }
        json_put_name(o, "key", e.key_words ? words : e.name);
        if (dnode_type(dn) == OT_DIRECTORY) { /* the upper bits are the type of the file */
            json_put_number(o, "value", e.first & ((1ull << 48) - 1));
            json_put_number(o, "file_type", e.first >> 60);
        } else {
            json_object_object_add(o, "value", zap_value(dn, &e));
        }
        inspect_table(x, columns, ARRAY_LEN(columns), &begun, o);
    }
    return rc == -ENOENT ? 0 : rc;
}

/* ---- One object ---- */

struct find {
    struct inspect *x;
    uint64_t object;
    int64_t level; /* of the block that is looked for; -1: all are shown */
    uint64_t blkid;
    bool begun, found;
    struct blkptr bp;
};

static int take_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    static const struct tool_column columns[] = {{"level", "LEVEL", false, 5},
                                                 {"block", "BLOCK", false, 10},
                                                 {"pointer", "POINTER", true, 20}};
    struct find *f = arg;
    char text[512];
    if (bm->object != f->object)
        return 1;
    if (f->level >= 0) {
        f->found = bm->level == f->level && bm->blkid == f->blkid;
        f->bp = *bp;
        return f->found;
    }
    struct json_object *o = json_object_new_object();
    json_put_signed(o, "level", bm->level);
    json_put_number(o, "block", bm->blkid);
    json_put_text(o, "pointer", bp_print(bp, text, sizeof text));
    json_object_object_add(o, "bp", inspect_bp_row(bp));
    inspect_table(f->x, columns, ARRAY_LEN(columns), &f->begun, o);
    return 0;
}

static int walk_object(struct find *f, struct objset *os)
{
    struct bookmark from = {objset_id(os), f->object, 0, 0};
    int rc =
        objset_walk_from(objset_pool(os), objset_id(os), objset_root(os), 0, &from, take_block, f);
    return rc < 0 ? rc : 0;
}

static void object_row(struct inspect *x, struct dnode *dn, struct objset *os)
{
    struct json_object *o = inspect_dnode_row(dn);
    unsigned char bonus[DNODE_MAX_SIZE];
    size_t len = 0;
    int rc = dnode_bonus_get(dn, bonus, sizeof bonus, &len);
    json_put_number(o, "bonus_length", len);
    if (rc == 0 && len)
        json_put_hex(o, "bonus_hex", bonus, len);
    CLEANUP_FREE unsigned char *spill = NULL;
    size_t n = 0;
    if (dnode_spill_get(dn, &spill, &n) == 0 && n)
        json_put_number(o, "spill_length", n);
    tool_print_fields(x->t, o);
    if (!x->t->json)
        printf("\n");
    rc = is_zap(dnode_type(dn)) ? zap_rows(x, dn) : 0;
    if (rc == -EACCES) { /* an object like any other, to who has no key */
        fprintf(stderr, "note: object %" PRIu64 " is encrypted, and its key is not loaded\n",
                dnode_object(dn));
        rc = 0;
    }
    struct find f = {.x = x, .object = dnode_object(dn), .level = -1};
    if (rc == 0 && x->blocks)
        rc = walk_object(&f, os);
    if (rc)
        tool_error(x->t, rc, "object %" PRIu64, dnode_object(dn));
}

/* The set that is meant: a dataset's, or with --mos the pool's. Without its key an encrypted one
 * shows its structure. */
static int open_set(struct inspect *x, const char *text, struct target *target, struct objset **os)
{
    int rc = target_open(x->t, text, x->mos ? TARGET_POOL : TARGET_DATASET, target);
    if (rc)
        return rc;
    if (x->mos) {
        *os = dsl_mos(spa_dsl(target->pool->spa));
        return 0;
    }
    err_clear();
    rc = dataset_objset_plain(target->ds, os, &x->temporary);
    if (rc) {
        tool_error(x->t, rc, "%s", text);
        target_close(target);
    }
    return rc;
}

static void close_set(struct inspect *x, struct target *target)
{
    if (x->temporary)
        objset_close(x->temporary);
    x->temporary = NULL;
    target_close(target);
}

int inspect_object(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct objset *os;
    struct dnode *dn;
    uint64_t object;
    if (argc < 1 || argc > 2 || (argc == 2 && !tool_number(argv[1], &object)))
        return tool_usage(x->t, "a dataset, and the number of an object, are wanted");
    if (open_set(x, argv[0], &target, &os) != 0)
        return 0;
    if (argc == 1) {
        list_objects(x, os, argv[0]);
    } else {
        err_clear();
        int rc = dnode_hold(os, object, &dn);
        if (rc) {
            tool_error(x->t, rc, "object %s", argv[1]);
        } else {
            object_row(x, dn, os);
            dnode_rele(dn);
        }
    }
    close_set(x, &target);
    return 0;
}

int inspect_mos(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct objset *os;
    struct dnode *dn;
    x->mos = true;
    if (argc != 1)
        return tool_usage(x->t, "the name of one pool is wanted");
    if (open_set(x, argv[0], &target, &os) != 0)
        return 0;
    char text[512];
    struct json_object *o = json_object_new_object();
    json_put_text(o, "root", bp_print(objset_root(os), text, sizeof text));
    json_put_number(o, "objects", objset_object_count(os));
    tool_print_fields(x->t, o);
    if (!x->t->json)
        printf("\nobject directory:\n");
    if (dnode_hold(os, MOS_DIRECTORY, &dn) == 0) {
        int rc = zap_rows(x, dn);
        if (rc)
            tool_error(x->t, rc, "object directory");
        dnode_rele(dn);
    }
    if (!x->t->json)
        printf("\n");
    list_objects(x, os, argv[0]);
    close_set(x, &target);
    return 0;
}

/* ---- Datasets ---- */

static struct json_object *dataset_row(struct dataset *ds, int *rc)
{
    static const char *const types[] = {"none", "meta", "filesystem", "volume", "other"};
    struct dataset_stats st;
    *rc = dataset_stats(ds, &st);
    if (*rc)
        return NULL;
    struct json_object *o = json_object_new_object();
    json_put_text(o, "name", st.name);
    json_put_text(o, "type", st.snapshot ? "snapshot" : types[MIN((unsigned)st.type, 4u)]);
    json_put_number(o, "object", st.object);
    json_put_number(o, "guid", st.guid);
    json_put_number(o, "creation_txg", st.creation_txg);
    json_put_number(o, "creation", st.creation_time);
    json_put_number(o, "referenced", st.referenced);
    json_put_number(o, "compressed", st.compressed);
    json_put_number(o, "uncompressed", st.uncompressed);
    json_put_number(o, "unique", st.unique);
    if (!st.snapshot)
        json_put_number(o, "used", st.used);
    if (*st.origin)
        json_put_text(o, "origin", st.origin);
    if (st.inconsistent)
        json_put_bool(o, "inconsistent", true);
    return o;
}

struct each {
    struct inspect *x;
    bool begun;
};

static int each_dataset(void *arg, struct dataset *ds)
{
    static const struct tool_column columns[] = {
        {"object", "OBJECT", false, 8}, {"creation_txg", "TXG", false, 8},
        {"used", "USED", false, 14},    {"referenced", "REFERENCED", false, 14},
        {"type", "TYPE", true, 10},     {"name", "NAME", true, 20}};
    struct each *e = arg;
    int rc;
    err_clear();
    struct json_object *o = dataset_row(ds, &rc);
    if (o) {
        inspect_table(e->x, columns, ARRAY_LEN(columns), &e->begun, o);
        return 0;
    }
    char name[DATASET_NAME_MAX];
    dataset_name(ds, name);
    tool_error(e->x->t, rc, "%s", name);
    return 0;
}

static void one_dataset(struct inspect *x, struct target *target)
{
    struct objset *os;
    char text[512];
    int rc;
    struct json_object *o = dataset_row(target->ds, &rc);
    if (!o) {
        tool_error(x->t, rc, "%s", target->dataset);
        return;
    }
    rc = dataset_objset_plain(target->ds, &os, &x->temporary);
    if (rc) {
        tool_error(x->t, rc, "%s", target->dataset);
    } else {
        json_put_number(o, "objects", objset_object_count(os));
        json_put_number(o, "flags", objset_flags(os));
        json_put_text(o, "root", bp_print(objset_root(os), text, sizeof text));
    }
    tool_print_fields(x->t, o);
}

int inspect_dataset(struct inspect *x, int argc, char **argv)
{
    struct target target;
    struct each e = {x, false};
    if (argc != 1)
        return tool_usage(x->t, "a pool or dataset is wanted");
    if (target_open(x->t, argv[0], TARGET_DATASET, &target) != 0)
        return 0;
    if (strpbrk(target.dataset, "/@")) {
        one_dataset(x, &target);
    } else {
        int rc =
            dataset_each(spa_dsl(target.pool->spa), target.dataset, -1, true, each_dataset, &e);
        if (rc)
            tool_error(x->t, rc, "%s", argv[0]);
    }
    close_set(x, &target);
    return 0;
}

/* ---- Blocks ---- */

static void show_bytes(struct inspect *x, struct json_object *o, const unsigned char *p, size_t n)
{
    if (x->t->json) {
        json_put_hex(o, "data_hex", p, n);
        tool_row(x->t, o);
        return;
    }
    tool_print_fields(x->t, o);
    inspect_dump(p, n);
}

/* What is on a vdev, whatever it is. */
static void raw_block(struct inspect *x, struct target *target, uint64_t vdev, uint64_t offset,
                      uint64_t size)
{
    struct vdev *top = vdev_lookup_top(spa_pool(target->pool->spa)->root, vdev);
    void *data = NULL;
    int rc = 0;
    err_clear();
    if (!top)
        rc = err_set(ENXIO, "there is no vdev %" PRIu64, vdev);
    else if (size == 0 || size > RAW_MAX || (size | offset) & ((1ull << top->ashift) - 1) ||
             offset > top->asize || size > top->asize - offset)
        rc = err_set(
            EINVAL,
            "offset and size must be multiples of %llu inside of the vdev, the size at most 16 MiB",
            1ull << top->ashift);
    else if (posix_memalign(&data, 4096, size) != 0)
        rc = -ENOMEM;
    if (rc == 0)
        rc = vdev_read(top, offset, data, size, 0, NULL, NULL);
    if (rc) {
        tool_error(x->t, rc, "block");
    } else {
        struct json_object *o = json_object_new_object();
        json_put_number(o, "vdev", vdev);
        json_put_number(o, "offset", offset);
        json_put_number(o, "size", size);
        show_bytes(x, o, data, size);
    }
    free(data);
}

static void object_block(struct inspect *x, struct objset *os, uint64_t object, int64_t level,
                         uint64_t blkid)
{
    struct find f = {.x = x, .object = object, .level = level, .blkid = blkid};
    struct bookmark bm = {objset_id(os), object, level, blkid};
    struct buf *b;
    err_clear();
    int rc = walk_object(&f, os);
    if (rc == 0 && !f.found)
        rc = err_set(ENOENT, "there is no such block (a hole, perhaps)");
    if (rc == 0)
        rc = block_read(objset_pool(os), &f.bp, &bm, &b);
    if (f.found && rc)
        tool_print_fields(x->t, inspect_bp_row(&f.bp));
    if (rc) {
        tool_error(x->t, rc, "object %" PRIu64 " level %" PRId64 " block %" PRIu64, object, level,
                   blkid);
        return;
    }
    show_bytes(x, inspect_bp_row(&f.bp), b->data, b->size);
    buf_unref(b);
}

int inspect_block(struct inspect *x, int argc, char **argv)
{
    uint64_t object, a, b, c;
    struct target target;
    struct objset *os;
    char rest;
    if (argc == 2 && sscanf(argv[1], "%" SCNu64 ":%" SCNi64 ":%" SCNi64 "%c", &a, (int64_t *)&b,
                            (int64_t *)&c, &rest) == 3) {
        if (target_open(x->t, argv[0], TARGET_POOL, &target) != 0)
            return 0;
        raw_block(x, &target, a, b, c);
        target_close(&target);
        return 0;
    }
    if (argc != 3 || !tool_number(argv[1], &object) ||
        sscanf(argv[2], "%" SCNu64 ":%" SCNu64 "%c", &a, &b, &rest) != 2 || a > 64)
        return tool_usage(x->t, "POOL VDEV:OFFSET:SIZE or DATASET OBJECT LEVEL:BLOCK is wanted");
    if (open_set(x, argv[0], &target, &os) != 0)
        return 0;
    object_block(x, os, object, (int64_t)a, b);
    close_set(x, &target);
    return 0;
}
