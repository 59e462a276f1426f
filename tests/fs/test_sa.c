/* System attributes: real bytes of the description (06 18), the placement rule (06 4.5), both byte
 * orders, old znodes. */
#include "fs_test.h"

#include "fs/fs_impl.h"

#define HEX(name, text) static const char name[] = text

/* "5a 50 2f" -> bytes; returns their number. */
static size_t unhex(const char *s, unsigned char *out)
{
    size_t n = 0;
    while (*s) {
        unsigned v;
        if (*s == ' ') {
            s++;
            continue;
        }
        assert_int_equal(sscanf(s, "%2x", &v), 1);
        out[n++] = v;
        s += 2;
    }
    return n;
}

static void open_table(struct fixture *f, struct sa_table *t)
{
    uint64_t sa;
    assert_int_equal(zap_get_u64(f->p.sets[0], 1, "SA_ATTRS", &sa), 0);
    assert_int_equal(sa_table_open(t, f->p.sets[0], sa), 0);
}

/* ---- Written ---- */

static size_t bonus_of(struct fixture *f, uint64_t object, unsigned char *out, size_t cap)
{
    struct dnode *dn;
    size_t n;
    assert_int_equal(dnode_hold(f->p.sets[0], object, &dn), 0);
    assert_int_equal(dnode_bonus_get(dn, out, cap, &n), 0);
    dnode_rele(dn);
    return n;
}

/* 18.2: all but numbers of objects, txgs and times. */
static void test_file_bytes(void **state)
{
    HEX(want, "5a502f00 0204 1800 a481000000000000 0000000000000000 0000000000000000"
              "e803000000000000 6400000000000000 0000000000000000 0400000008840000");
    HEX(tail, "0100000000000000 0000000000000000 0300000000000000 00000010 9f011e00"
              "00004020 89001200 00000040 89001200");
    struct fixture f;
    unsigned char b[512], w[64], t[64];
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    struct fs_attr root = attr_of(&f, FS_ROOT_INO);
    assert_int_equal(bonus_of(&f, a.ino, b, sizeof b), 176);
    assert_int_equal(unhex(want, w), 64);
    put_le64(w + 24, a.gen);
    put_le64(w + 48, root.ino);
    assert_memory_equal(b, w, 64);
    assert_int_equal(unhex(tail, t), 48);
    assert_memory_equal(b + 128, t, 48);
    assert_true(get_le64(b + 64) == (uint64_t)a.atime.tv_sec);
    assert_true(get_le64(b + 72) == (uint64_t)a.atime.tv_nsec);
    /* 18.8: sizes of other kinds. */
    static const struct {
        uint32_t mode;
        size_t length, header;
    } kinds[] = {{S_IFDIR | 0755, 176, 8},
                 {S_IFIFO | 0644, 168, 8},
                 {S_IFSOCK | 0644, 168, 8},
                 {S_IFCHR | 0644, 176, 8},
                 {S_IFLNK | 0777, 168 + 8 + 8, 16}};
    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        char name[8];
        snprintf(name, sizeof name, "k%u", i);
        a = make_node(&f, FS_ROOT_INO, name, kinds[i].mode);
        assert_int_equal(bonus_of(&f, a.ino, b, sizeof b), kinds[i].length);
        assert_int_equal((get_le16(b + 4) >> 10) * 8, kinds[i].header);
    }
    /* The symlink: lengths 24 and 8, flags, group's ACE. */
    assert_int_equal(get_le16(b + 6), 24);
    assert_int_equal(get_le16(b + 8), 8);
    assert_true(get_le64(b + 16 + 48) == 0x40800000104);
    assert_int_equal(get_le32(b + 16 + 136 + 12), 0x1200af);
    fixture_free(&f);
}

/* 18.1, the root directory of a set without project IDs; 18.8: its ACL today. */
static void test_root_bytes(void **state)
{
    struct fixture f;
    unsigned char b[512], acl[32];
    fixture_new(&f, &test_props, false);
    struct fs_attr root = attr_of(&f, FS_ROOT_INO);
    assert_int_equal(bonus_of(&f, root.ino, b, sizeof b), 168);
    assert_true(get_le64(b + 8 + 48) == 0x40800000144);
    assert_int_equal(unhex("00000010 ff011e00 00004020 a9001200 00000040 a9001200", acl), 24);
    assert_memory_equal(b + 144, acl, 24);
    fixture_free(&f);
}

/* The tables: numbers and orders that the reference makes (06 4.3, 4.4, 18.8). */
static void test_tables(void **state)
{
    static const struct {
        const char *name;
        uint64_t value;
    } registry[] = {{"ZPL_ATIME", 0x10000000},     {"ZPL_MODE", 0x8000005},
                    {"ZPL_PAD", 0x2000000e},       {"ZPL_ZNODE_ACL", 0x5803000f},
                    {"ZPL_DACL_COUNT", 0x8000010}, {"ZPL_SYMLINK", 0x30011},
                    {"ZPL_SCANSTAMP", 0x20030012}, {"ZPL_DACL_ACES", 0x40013},
                    {"ZPL_DXATTR", 0x30014},       {"ZPL_PROJID", 0x8000015}};
    static const uint16_t base[] = {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20};
    struct fixture f;
    struct sa_table t;
    uint16_t attrs[SA_ATTRS_MAX];
    uint64_t v;
    unsigned n;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_setxattr(f.fs, a.ino, "user.x", "v", 1, 0, false), 0);
    open_table(&f, &t);
    for (unsigned i = 0; i < ARRAY_LEN(registry); i++) {
        assert_int_equal(zap_get_u64(f.p.sets[0], t.registry, registry[i].name, &v), 0);
        assert_true(v == registry[i].value);
    }
    assert_int_equal(t.attr_count, 22);
    assert_int_equal(sa_layout_get(&t, 2, attrs, &n), 0);
    assert_int_equal(n, 15);
    assert_memory_equal(attrs, base, 2 * 15);
    assert_int_equal(sa_layout_get(&t, 3, attrs, &n), 0);
    assert_int_equal(n, 16);
    assert_memory_equal(attrs, base, 2 * 16);
    assert_int_equal(sa_layout_get(&t, 4, attrs, &n), -EBADE);
    sa_table_close(&t);
    fixture_free(&f);
}

/* ---- Placement ---- */

static void place(struct sa_table *t, bool projid, unsigned extra_id, size_t extra, size_t capacity,
                  struct sa_place *p)
{
    static const unsigned char bytes[70000];
    struct sa_set s = {0};
    for (unsigned i = 0; i < SA_PREFIX_ATTRS; i++)
        sa_set_put(t, &s, sa_prefix[i], bytes, t->attrs[sa_prefix[i]].length);
    if (projid)
        sa_set_put(t, &s, SA_PROJID, bytes, 8);
    sa_set_put(t, &s, SA_DACL_COUNT, bytes, 8);
    sa_set_put(t, &s, SA_DACL_ACES, bytes, 24);
    if (extra_id)
        sa_set_put(t, &s, extra_id, bytes, extra);
    sa_place(t, &s, capacity, p);
}

static void test_place(void **state)
{
    struct fixture f;
    struct sa_table t;
    struct sa_place p;
    fixture_new(&f, &test_props, true);
    open_table(&f, &t);
    place(&t, false, 0, 0, 320, &p);
    assert_int_equal(p.bonus_length, 168);
    place(&t, true, 0, 0, 320, &p);
    assert_int_equal(p.bonus_length, 176);
    place(&t, false, SA_SYMLINK, 6, 320, &p);
    assert_int_equal(p.bonus_length, 182);
    place(&t, false, SA_SYMLINK, 144, 320, &p);
    assert_int_equal(p.split, 15);
    place(&t, false, SA_SYMLINK, 145, 320, &p);
    assert_int_equal(p.split, 14);
    assert_int_equal(p.bonus_length, 192);
    place(&t, true, SA_DXATTR, 136, 320, &p);
    assert_int_equal(p.split, 16);
    assert_int_equal(p.bonus_length, 320);
    place(&t, true, SA_DXATTR, 140, 320, &p);
    assert_int_equal(p.split, 15);
    place(&t, true, SA_DXATTR, 124, 320, &p); /* 18.8 */
    assert_int_equal(p.bonus_length, 308);
    place(&t, true, SA_DXATTR, 244, 320, &p);
    assert_int_equal(p.split, 15);
    assert_int_equal(p.bonus_length, 192);
    place(&t, true, SA_DXATTR, 148, 832, &p); /* a dnode of 1 KiB */
    assert_int_equal(p.bonus_length, 332);
    place(&t, true, SA_DXATTR, 30048, 832, &p);
    assert_int_equal(p.bonus_length, 704);
    sa_table_close(&t);
    fixture_free(&f);
}

/* ---- Reading what others wrote ---- */

static struct dnode *object_with(struct fixture *f, struct tx *tx, uint8_t type, const void *bonus,
                                 size_t n)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .bonus_type = type, .bonus_len = n};
    struct dnode *dn;
    assert_int_equal(object_create(f->p.sets[0], 0, &params, tx, &dn), 0);
    assert_int_equal(dnode_bonus_set(dn, bonus, n, type, tx), 0);
    return dn;
}

static uint64_t u64_of(struct sa_table *t, const struct sa_set *s, enum sa_id id)
{
    const struct sa_value *v = sa_set_get(t, s, id);
    assert_non_null(v);
    return get_u64(v->data, BYTES_HOST_BIG);
}

/* The bytes of 18.1, as they are and as a host of the other byte order has them. */
static void test_read_real(void **state)
{
    HEX(root,
        "5a502f00 0204 1800 ed41000000000000 0600000000000000 0400000000000000"
        "0000000000000000 0000000000000000 2200000000000000 4401000008040000"
        "d435635c00000000 5525381000000000 d535635c00000000 f8ed6e2500000000"
        "d535635c00000000 f8ed6e2500000000 d435635c00000000 5525381000000000"
        "0300000000000000 0300000000000000 00000010 bf011e00 00004020 a9001200 00000040 a9001200");
    HEX(foreign,
        "002f505a 0402 0018 00000000000041ed 0000000000000006 0000000000000004"
        "0000000000000000 0000000000000000 0000000000000022 0000040800000144"
        "000000005c6335d4 0000000010382555 000000005c6335d5 00000000256eedf8"
        "000000005c6335d5 00000000256eedf8 000000005c6335d4 0000000010382555"
        "0000000000000003 0000000000000003 00001000 001e01bf 00002040 001200a9 00004000 001200a9");
    struct fixture f;
    struct sa_table t;
    struct tx tx;
    unsigned char bytes[2][168];
    fixture_new(&f, &test_props, false); /* its layout 2 is the one of the example */
    open_table(&f, &t);
    assert_int_equal(unhex(root, bytes[0]), 168);
    assert_int_equal(unhex(foreign, bytes[1]), 168);
    for (int i = 0; i < 2; i++) {
        struct sa_set s;
        struct zattr a;
        assert_int_equal(tx_begin(&tx, &f.p.t.pool), 0);
        struct dnode *dn = object_with(&f, &tx, OT_SA, bytes[i], 168);
        tx_end(&tx);
        assert_int_equal(sa_read(&t, dn, &s), 0);
        assert_int_equal(s.n, 14);
        assert_int_equal(s.standard, i == 0);
        assert_true(u64_of(&t, &s, SA_MODE) == 040755);
        assert_true(u64_of(&t, &s, SA_FLAGS) == 0x40800000144);
        assert_true(u64_of(&t, &s, SA_LINKS) == 3);
        const struct sa_value *acl = sa_set_get(&t, &s, SA_DACL_ACES);
        assert_int_equal(acl->length, 24);
        assert_memory_equal(acl->data, bytes[0] + 144, 24);
        sa_set_clear(&s);
        assert_int_equal(zattr_load(f.fs, dn, &a), 0);
        assert_int_equal(a.size, 6);
        assert_true(a.mtime.sec == 0x5c6335d5 && a.mtime.nsec == 0x256eedf8);
        assert_int_equal(a.parent, 34);
        /* Rewritten, it is ours. */
        assert_int_equal(tx_begin(&tx, &f.p.t.pool), 0);
        assert_int_equal(sa_read(&t, dn, &s), 0);
        assert_int_equal(sa_write(&t, dn, &s, &tx), 0);
        sa_set_clear(&s);
        unsigned char again[512];
        size_t n;
        assert_int_equal(dnode_bonus_get(dn, again, sizeof again, &n), 0);
        assert_int_equal(n, 168);
        assert_memory_equal(again, bytes[0], 168);
        assert_int_equal(object_free(dn, &tx), 0);
        dnode_rele(dn);
        tx_end(&tx);
    }
    sa_table_close(&t);
    fixture_free(&f);
}

/* 4.8: an old znode, and its conversion at the next change. */
static void test_legacy(void **state)
{
    static const uint64_t words[] = {
        11, 12, 13, 14, 15, 16, 17, 18, 5, 0100640, 7, 8, 1, 0, 0, 0x40800000004, 1000, 100};
    struct fixture f;
    struct zattr a;
    struct tx tx;
    unsigned char b[264] = {0};
    fixture_new(&f, &test_props, true);
    for (unsigned i = 0; i < ARRAY_LEN(words); i++)
        put_u64(b + 8 * i, words[i], BYTES_HOST_BIG);
    assert_int_equal(tx_begin(&tx, &f.p.t.pool), 0);
    struct dnode *dn = object_with(&f, &tx, OT_ZNODE, b, sizeof b);
    uint64_t object = dnode_object(dn);
    tx_end(&tx);
    assert_int_equal(zattr_load(f.fs, dn, &a), 0);
    assert_true(a.atime.sec == 11 && a.crtime.nsec == 18 && a.gen == 5 && a.size == 7);
    assert_true(a.parent == 8 && a.links == 1 && a.uid == 1000 && a.gid == 100);
    struct fs_setattr s = {.mask = FS_SET_MODE, .mode = 0600};
    struct fs_attr attr;
    assert_int_equal(fs_setattr(f.fs, object, &s, &attr), 0);
    assert_int_equal(attr.mode, S_IFREG | 0600);
    assert_int_equal(attr.mtime.tv_sec, 13);
    assert_int_equal(dnode_bonus_type(dn), OT_SA);
    dnode_rele(dn);
    fixture_remount(&f, &test_options);
    assert_int_equal(attr_of(&f, object).mode, S_IFREG | 0600);
    fixture_free(&f);
}

/* Any damage gives an error. */
static void test_damage(void **state)
{
    struct env env = test_env();
    struct fixture f;
    struct sa_table t;
    struct tx tx;
    unsigned char good[512], bad[512];
    fixture_new(&f, &test_props, true);
    struct fs_attr l = make_node(&f, FS_ROOT_INO, "l", S_IFLNK | 0777);
    size_t n = bonus_of(&f, l.ino, good, sizeof good);
    open_table(&f, &t);
    assert_int_equal(tx_begin(&tx, &f.p.t.pool), 0);
    struct dnode *dn = object_with(&f, &tx, OT_SA, good, n);
    for (int i = 0; i < 20000; i++) {
        struct sa_set s;
        memcpy(bad, good, n);
        for (unsigned k = 1 + test_below(&env, 3); k > 0; k--)
            bad[test_below(&env, test_below(&env, 2) ? 16 : n)] = env.random(&env);
        assert_int_equal(
            dnode_bonus_set(dn, bad, test_below(&env, 3) ? n : test_below(&env, n) + 1, OT_SA, &tx),
            0);
        int rc = sa_read(&t, dn, &s);
        assert_true(rc == 0 || rc == -EBADE || rc == -ENOENT);
        sa_set_clear(&s);
    }
    assert_int_equal(object_free(dn, &tx), 0);
    dnode_rele(dn);
    tx_end(&tx);
    sa_table_close(&t);
    fixture_free(&f);
}

/* 10.3: the access list of some modes. */
static void test_trivial(void **state)
{
    static const struct {
        uint32_t mode;
        const char *aces;
    } rows[] = {
        {S_IFREG | 0644, "00000010 9f011e00 00004020 89001200 00000040 89001200"},
        {S_IFDIR | 0755, "00000010 ff011e00 00004020 a9001200 00000040 a9001200"},
        {S_IFREG | 0604, "00000010 01000000 01004020 01000000 00000010 9f011e00 00004020 88001200"
                         "00000040 89001200"},
        {S_IFREG | 0077, "01000010 27000000 00000010 98011e00 00004020 af001200 00000040 af001200"},
    };
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned char got[TRIVIAL_ACL_MAX], want[64];
        size_t n, w = unhex(rows[i].aces, want);
        assert_int_equal(trivial_acl(rows[i].mode, got, &n), w / 8);
        assert_int_equal(n, w);
        assert_memory_equal(got, want, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_bytes), cmocka_unit_test(test_root_bytes),
        cmocka_unit_test(test_tables),     cmocka_unit_test(test_place),
        cmocka_unit_test(test_read_real),  cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_trivial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
