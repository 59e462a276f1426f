/* ZAPs against a model, on a dnode layer in memory. */
#include "../support/test.h"
#include "dmu/zap.h"
#include "dmu/zap_impl.h"
#include "fake_dnode.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 10 /* how much less of it */
#else
#define SLOW 1
#endif

static struct tx tx;

static uint64_t seed(void)
{
    struct env e = test_env();
    return e.state;
}

static struct dnode *new_zap(struct objset *os, unsigned norm)
{
    struct object_params params = {.type = OT_DIRECTORY};
    struct dnode *dn;
    assert_int_equal(zap_create(os, &params, norm, &tx, &dn), 0);
    return dn;
}

/* 03 11.2: test vectors. */
static void test_hash(void **state)
{
    assert_true(zap_crc(0x69c7, "checksum", 8) == 0x6fb936856e5639f1);
    assert_true(zap_hash_mask(zap_crc(0x69c7, "checksum", 8), 28) == 0x6fb9368000000000);
    assert_true(zap_crc(0x69c7, "compression", 11) == 0x961ca2342f25d237);
    assert_true(zap_crc(0x4303, "root_dataset", 12) == 0xb40bb53db74eebff);
    assert_true(zap_crc(1, "a", 1) == 0x9f8169ba49a54b33);
    /* 03 16.10: a word key. */
    struct zap z = {
        .salt = 0x17c8d74f, .flags = ZAP_FLAG_HASH64 | ZAP_FLAG_WORD_KEYS, .hash_bits = 48};
    struct zap_key k;
    uint64_t word = 0xc8600;
    assert_int_equal(zap_key_words(&k, &z, &word, 1), 0);
    assert_true(k.hash == 0x00a2b49ba4230000);
}

static void test_int_key(void **state)
{
    char key[17];
    zap_int_key(0, key);
    assert_string_equal(key, "0");
    zap_int_key(0x1000, key);
    assert_string_equal(key, "1000");
    zap_int_key(UINT64_MAX, key);
    assert_string_equal(key, "ffffffffffffffff");
}

/* 03 16.4: real bytes of a microzap, and its listing order. */
static void test_micro_bytes(void **state)
{
    static const unsigned char head[] = {3, 0, 0, 0, 0, 0, 0, 0x80, 0xc7, 0x69};
    struct objset *os = fake_objset(1);
    struct dnode *dn = new_zap(os, 0);
    unsigned char b[512] = {0};
    memcpy(b, head, sizeof head);
    put_le64(b + 0x40, 8);
    memcpy(b + 0x4e, "checksum", 8);
    put_le64(b + 0x80, 10);
    memcpy(b + 0x8e, "compression", 11);
    put_le64(b + 0xc0, 0x108);
    memcpy(b + 0xce, "dedup", 5);
    dnode_write(dn, 0, b, sizeof b, &tx);
    fake_evict(dn);

    static const char *const order[] = {"checksum", "compression", "dedup"};
    struct zap_cursor c;
    struct zap_entry e;
    zap_cursor_init(&c, dn, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zap_cursor_next(&c, &e), 0);
        assert_string_equal(e.name, order[i]);
    }
    assert_int_equal(zap_cursor_next(&c, &e), -ENOENT);
    assert_true(zap_cursor_cookie(&c) == UINT64_MAX);
    uint64_t v;
    assert_int_equal(zap_lookup(dn, "dedup", 8, 1, &v), 0);
    assert_int_equal(v, 0x108);
    assert_int_equal(zap_lookup(dn, "dedu", 8, 1, &v), -ENOENT);
    assert_int_equal(zap_lookup(dn, "dedup", 4, 1, &v), -EINVAL);

    /* A new entry takes the next slot and its bytes are as in the description. */
    v = 77;
    assert_int_equal(zap_add(dn, "x", 8, 1, &v, &tx), 0);
    struct dbuf *db;
    dbuf_hold(dn, 0, 0, &db);
    const unsigned char *p = (unsigned char *)dbuf_data(db) + 0x100;
    static const unsigned char want[64] = {77, [14] = 'x'};
    assert_memory_equal(p, want, 64);
    dbuf_rele(db);
    dnode_rele(dn);
    fake_objset_free(os);
}

/* 03 16.5: the leaf of a MOS directory, as the reference writes a fresh one with the same entry. */
static void test_fat_bytes(void **state)
{
    unsigned char b[16384];
    struct leaf l = {b, 14};
    struct zap z = {.salt = 0x4303, .hash_bits = 28};
    struct zap_key k;
    uint64_t v = 0x20;
    leaf_init(l, false);
    assert_int_equal(leaf_free_count(l), 638);
    assert_int_equal(zap_key_string(&k, &z, "root_dataset"), 0);
    assert_true(k.hash == 0xb40bb53000000000);
    assert_int_equal(leaf_insert(l, &k, 0, &(struct zap_value){8, 1, &v}), 0);
    static const unsigned char chunks[72] = {
        0xfc, 8,    0xff, 0xff, 1,   0,    0x0d, 0,    2,    0,    1,    0,    0,   0,   0,
        0,    0,    0,    0,    0,   0x30, 0xb5, 0x0b, 0xb4, 0xfb, 'r',  'o',  'o', 't', '_',
        'd',  'a',  't',  'a',  's', 'e',  't',  0,    0,    0,    0,    0,    0,   0,   0,
        0,    0xff, 0xff, 0xfb, 0,   0,    0,    0,    0,    0,    0,    0x20, 0,   0,   0,
        0,    0,    0,    0,    0,   0,    0,    0,    0,    0,    0xff, 0xff};
    assert_memory_equal(b + 0x430, chunks, sizeof chunks);
    assert_int_equal(get_le16(b + 0x300), 0); /* slot 360 */
    assert_int_equal(get_le16(b + 28), 635);
    assert_int_equal(get_le16(b + 34), 3);
    assert_int_equal(leaf_check(l), 0);
    static const unsigned char magic[] = {0xaf, 0x1e, 0xab, 0x02};
    assert_memory_equal(b + 24, magic, 4);
}

/* 03 16.6: a real leaf entry with a key of words and an array value. */
static void test_word_leaf(void **state)
{
    static const unsigned char c25[] = {0xfc, 1, 0xff, 0xff, 0x1d, 0,    5,    0,
                                        0x1b, 0, 0x22, 0,    0,    0,    0,    0,
                                        0,    0, 0xbc, 0xd0, 0x4f, 0x37, 0xd2, 0x0e};
    static const unsigned char c29[] = {0xfb, 0x0e, 0xd2, 0x37, 0x4f, 0xd0, 0xbc, 0xb0,
                                        0x33, 0x34, 0x33, 0x3a, 0x4c, 0x0a, 0x21, 0x48,
                                        0x24, 0x74, 0,    0x43, 0xdb, 0xd4, 0x1c, 0};
    static const unsigned char c28[] = {0xfb, 0x94, 0x11, 0xf3, 0x66, 0xf6, 0x57, 0x2c,
                                        0x6b, 0x2c, 0x83, 0x9b, 0,    0,    0,    0x8a,
                                        0,    0,    1,    0xff, 0,    0,    0xff, 0xff};
    static const unsigned char c27[] = {0xfb, 0x8e, 0x7f, 0,    2,    0x42, 0,    1,
                                        0x42, 1,    0xd8, 0x0f, 0x55, 0x10, 0x82, 0x6f,
                                        0x9d, 0xb9, 0xc0, 0xc8, 0x86, 0xfb, 0x1a, 0};
    static const unsigned char c26[] = {0xfb, 0x2f, 0x23, 0x39, 0x88, 0x9a, 0x85, 0x8c,
                                        0x84, 1,    0x46, 0,    0xab, 0xc6, 0,    0,
                                        0,    0,    0,    0,    0,    0,    0xff, 0xff};
    unsigned char b[4096];
    struct leaf l = {b, 12};
    leaf_init(l, false);
    assert_int_equal(leaf_chunks(12), 158);
    unsigned char *chunk = b + 304;
    memcpy(chunk + 24 * 25, c25, 24);
    memcpy(chunk + 24 * 26, c26, 24);
    memcpy(chunk + 24 * 27, c27, 24);
    memcpy(chunk + 24 * 28, c28, 24);
    memcpy(chunk + 24 * 29, c29, 24);
    put_le16(b + 48 + 2 * 7, 25);
    struct zap z = {.salt = 0x53a7cf, .flags = 7, .hash_bits = 48};
    static const uint64_t words[] = {0x0ed2374fd0bcb033, 0x34333a4c0a214824, 0x740043dbd49411f3,
                                     0x66f6572c6b2c839b, 0x0000008a000001ff};
    struct zap_key k;
    struct leaf_entry e;
    unsigned char *ref, value[34];
    assert_int_equal(zap_key_words(&k, &z, words, 5), 0);
    assert_true(k.hash == 0x0ed2374fd0bc0000);
    assert_int_equal(leaf_find(l, &k, true, &e, &ref), 0);
    assert_int_equal(e.value_ints, 34);
    assert_int_equal(leaf_get_value(l, &e, 1, 34, value), 0);
    assert_memory_equal(value, c27 + 1, 21);
    assert_memory_equal(value + 21, c26 + 1, 13);
}

/* ---- The model: an array of names with values ---- */

#define MODEL_MAX 6000
struct model {
    struct {
        char *name;
        unsigned size;
        size_t count;
        unsigned char value[64];
        bool present;
    } e[MODEL_MAX];
    size_t n;
};

static void random_value(struct env *env, struct model *m, size_t i, bool plain)
{
    static const unsigned sizes[] = {1, 2, 4, 8};
    m->e[i].size = plain ? 8 : sizes[fake_random(env) % 4];
    m->e[i].count = plain ? 1 : fake_random(env) % (sizeof m->e[i].value / m->e[i].size + 1);
    for (size_t k = 0; k < sizeof m->e[i].value; k++)
        m->e[i].value[k] = fake_random(env);
}

static char *random_name(struct env *env, size_t i, bool plain)
{
    char name[300];
    size_t pad = plain ? fake_random(env) % 20 : fake_random(env) % 240;
    int n = snprintf(name, sizeof name, "%zx-", i);
    for (size_t k = 0; k < pad; k++)
        name[n++] = 'a' + fake_random(env) % 26;
    name[n] = 0;
    return strdup(name);
}

static void check_one(struct dnode *dn, struct model *m, size_t i)
{
    unsigned char value[64];
    unsigned size;
    size_t count;
    int rc = zap_length(dn, m->e[i].name, &size, &count);
    if (!m->e[i].present) {
        assert_int_equal(rc, -ENOENT);
        return;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(size, m->e[i].size);
    assert_int_equal(count, m->e[i].count);
    if (count == 0)
        return;
    assert_int_equal(zap_lookup(dn, m->e[i].name, size, count, value), 0);
    assert_memory_equal(value, m->e[i].value, size * count);
}

static void check_all(struct dnode *dn, struct model *m)
{
    uint64_t count, want = 0;
    size_t seen = 0;
    for (size_t i = 0; i < m->n; i++) {
        check_one(dn, m, i);
        want += m->e[i].present;
    }
    assert_int_equal(zap_count(dn, &count), 0);
    assert_int_equal(count, want);
    struct zap_cursor c;
    struct zap_entry e;
    zap_cursor_init(&c, dn, 0);
    uint64_t last = 0;
    while (zap_cursor_next(&c, &e) == 0) {
        size_t i = strtoul(e.name, NULL, 16);
        assert_true(i < m->n && m->e[i].present);
        assert_string_equal(e.name, m->e[i].name);
        uint64_t at = c.hash | c.cd;
        assert_true(at > last || seen == 0);
        last = at;
        seen++;
    }
    assert_int_equal(seen, want);
}

static int change(struct dnode *dn, struct model *m, size_t i, struct env *env, bool plain)
{
    bool was = m->e[i].present;
    switch (fake_random(env) % 4) {
    case 0:
        if (was)
            assert_int_equal(zap_add(dn, m->e[i].name, 8, 1, m->e[i].value, &tx), -EEXIST);
        /* fall through */
    case 1:
        random_value(env, m, i, plain);
        m->e[i].present = true;
        return zap_update(dn, m->e[i].name, m->e[i].size, m->e[i].count, m->e[i].value, &tx);
    case 2:
        if (was)
            return 0;
        random_value(env, m, i, plain);
        m->e[i].present = true;
        return zap_add(dn, m->e[i].name, m->e[i].size, m->e[i].count, m->e[i].value, &tx);
    default:
        m->e[i].present = false;
        int rc = zap_remove(dn, m->e[i].name, &tx);
        return was ? rc : rc == -ENOENT ? 0 : -1;
    }
}

static void run_model(uint64_t s, size_t names, size_t steps, bool plain, unsigned norm)
{
    struct objset *os = fake_objset(s);
    struct env env = {.state = s};
    struct dnode *dn = new_zap(os, norm);
    struct model *m = calloc(1, sizeof *m);
    m->n = names;
    for (size_t i = 0; i < names; i++)
        m->e[i].name = random_name(&env, i, plain);
    for (size_t step = 0; step < steps / SLOW; step++) {
        size_t i = fake_random(&env) % names;
        assert_int_equal(change(dn, m, i, &env, plain), 0);
        check_one(dn, m, i);
        if (fake_random(&env) % 1000 == 0)
            fake_evict(dn);
    }
    check_all(dn, m);
    fake_evict(dn);
    check_all(dn, m);
    for (size_t i = 0; i < names; i++)
        free(m->e[i].name);
    free(m);
    dnode_rele(dn);
    fake_objset_free(os);
}

static void test_model(void **state)
{
    uint64_t s = seed();
    run_model(s, 20, 500, true, 0);
    run_model(s + 1, 1500, 8000, true, 0);   /* micro of many sizes */
    run_model(s + 2, 3000, 20000, true, 0);  /* upgraded */
    run_model(s + 3, 5000, 30000, false, 0); /* all shapes */
    run_model(s + 4, 3000, 20000, true, ZAP_NORM_UPPER);
}

/* Names that fold to the same are different entries with the same hash and different cds. */
static void test_fold(void **state)
{
    struct objset *os = fake_objset(5);
    struct dnode *dn = new_zap(os, ZAP_NORM_UPPER);
    uint64_t one = 1, two = 2, v;
    assert_int_equal(zap_add(dn, "Foo", 8, 1, &one, &tx), 0);
    assert_int_equal(zap_add(dn, "foo", 8, 1, &two, &tx), 0);
    assert_int_equal(zap_lookup(dn, "foo", 8, 1, &v), 0);
    assert_int_equal(v, 2);
    assert_int_equal(zap_lookup(dn, "FOO", 8, 1, &v), -ENOENT);
    struct zap_cursor c;
    struct zap_entry e;
    zap_cursor_init(&c, dn, 0);
    assert_int_equal(zap_cursor_next(&c, &e), 0);
    uint64_t hash = c.hash;
    assert_int_equal(c.cd, 1);
    assert_int_equal(zap_cursor_next(&c, &e), 0);
    assert_true(c.hash == hash);
    assert_int_equal(c.cd, 2);
    assert_int_equal(zap_add(dn, "\xc3\xa9", 8, 1, &one, &tx), -ENOTSUP);
    dnode_rele(dn);
    fake_objset_free(os);
}

/* More than 127 names with one hash make a microzap fat; cds keep them apart. Names that differ
 * only in case share a hash in a folding ZAP, which makes collisions easy. */
static void test_collisions(void **state)
{
    struct objset *os = fake_objset(6);
    struct dnode *dn = new_zap(os, ZAP_NORM_UPPER);
    char name[11] = "abcdefghij";
    for (uint64_t i = 0; i < 200; i++) {
        for (int b = 0; b < 10; b++)
            name[b] = (i >> b & 1 ? 'A' : 'a') + b;
        assert_int_equal(zap_add(dn, name, 8, 1, &i, &tx), i < 127 || i < 210 ? 0 : -ENOSPC);
    }
    assert_int_equal(dnode_block_size(dn), 16384);
    struct zap_cursor c;
    struct zap_entry e;
    uint64_t cookie = 0;
    for (unsigned i = 0; i < 200; i++) {
        zap_cursor_init(&c, dn, cookie);
        assert_int_equal(zap_cursor_next(&c, &e), 0);
        assert_int_equal(e.first, i);
        cookie = zap_cursor_cookie(&c);
    }
    /* As many as fit in a leaf; then the hash has no bits left to tell them apart. */
    int rc = 0;
    for (uint64_t i = 200; i < 700 && rc == 0; i++) {
        for (int b = 0; b < 10; b++)
            name[b] = (i >> b & 1 ? 'A' : 'a') + b;
        rc = zap_add(dn, name, 8, 1, &i, &tx);
    }
    assert_int_equal(rc, -ENOSPC);
    dnode_rele(dn);
    fake_objset_free(os);
}

/* Listing with cookies while entries come and go: what stays must be seen exactly once. */
static void test_cookies(void **state)
{
    uint64_t s = seed();
    struct objset *os = fake_objset(s);
    struct env env = {.state = s};
    struct dnode *dn = new_zap(os, 0);
    static unsigned seen[4000];
    memset(seen, 0, sizeof seen);
    char name[40];
    for (uint64_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "stay-%llu", (unsigned long long)i);
        assert_int_equal(zap_add(dn, name, 8, 1, &i, &tx), 0);
    }
    uint64_t cookie = 0, extra = 0;
    struct zap_cursor c;
    struct zap_entry e;
    for (;;) {
        zap_cursor_init(&c, dn, cookie);
        if (zap_cursor_next(&c, &e) < 0)
            break;
        cookie = zap_cursor_cookie(&c);
        assert_true(cookie >= 1ull << 28);
        if (strncmp(e.name, "stay-", 5) == 0)
            seen[e.first]++;
        for (int k = 0; k < 4; k++, extra++) { /* upgrade and splits happen on the way */
            snprintf(name, sizeof name, "go-%llu", (unsigned long long)extra);
            assert_int_equal(zap_add(dn, name, 8, 1, &extra, &tx), 0);
        }
        if (extra > 8) {
            snprintf(name, sizeof name, "go-%llu", (unsigned long long)fake_random(&env) % extra);
            zap_remove(dn, name, &tx);
        }
        if (extra > 100000)
            fail_msg("the listing does not end");
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(dnode_block_size(dn), 16384);
    dnode_rele(dn);
    fake_objset_free(os);
}

/* The table grows to several external blocks; a half-done doubling by another writer is finished.
 */
static void test_big(void **state)
{
    enum { N = 1000000 / SLOW };
    struct objset *os = fake_objset(7);
    struct dnode *dn = new_zap(os, 0);
    struct timespec a, b;
    char name[32];
    fake_moving = false;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (uint64_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "file-%07llu", (unsigned long long)i);
        assert_int_equal(zap_add(dn, name, 8, 1, &i, &tx), 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    double add = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / N;
    a = b;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t v, k = i * 7919 % N;
        snprintf(name, sizeof name, "file-%07llu", (unsigned long long)k);
        assert_int_equal(zap_lookup(dn, name, 8, 1, &v), 0);
        assert_true(v == k);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    double get = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / N;
    a = b;
    struct zap_cursor c;
    struct zap_entry e;
    uint64_t n = 0;
    zap_cursor_init(&c, dn, 0);
    while (zap_cursor_next(&c, &e) == 0)
        n++;
    assert_true(n == N);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double list = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / N;
    a = b;
    for (uint64_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "file-%07llu", (unsigned long long)(i * 7919 % N));
        assert_int_equal(zap_remove(dn, name, &tx), 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    double del = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / N;
    print_message("%d entries, ns each: add %.0f lookup %.0f list %.0f remove %.0f\n", N, add, get,
                  list, del);
    assert_int_equal(zap_count(dn, &n), 0);
    assert_true(n == 0);
    fake_moving = true;
    dnode_rele(dn);
    fake_objset_free(os);
}

static void test_half_doubled(void **state)
{
    struct objset *os = fake_objset(8);
    struct dnode *dn = new_zap(os, 0);
    struct dbuf *db;
    char name[32];
    uint64_t i, v;
    for (i = 0;; i++) { /* until the table is external */
        snprintf(name, sizeof name, "f%llu", (unsigned long long)i);
        assert_int_equal(zap_add(dn, name, 8, 1, &i, &tx), 0);
        dbuf_hold(dn, 0, 0, &db);
        v = get_le64((unsigned char *)dbuf_data(db) + 24);
        dbuf_rele(db);
        if (v != 0 && get_le64((unsigned char *)dbuf_data(db)) == ZAP_TYPE_HEADER)
            break;
    }
    unsigned char *h = dbuf_data(db);
    uint64_t free_block = get_le64(h + 56), shift = get_le64(h + 32);
    put_le64(h + 40, free_block); /* being built there, nothing copied yet */
    put_le64(h + 56, free_block + 2);
    for (uint64_t k = i + 1; k < i + 20000; k++) {
        snprintf(name, sizeof name, "f%llu", (unsigned long long)k);
        assert_int_equal(zap_add(dn, name, 8, 1, &k, &tx), 0);
    }
    h = dbuf_data(db);
    assert_true(get_le64(h + 40) == 0);
    assert_true(get_le64(h + 32) > shift);
    for (uint64_t k = 0; k < i + 20000; k++) {
        snprintf(name, sizeof name, "f%llu", (unsigned long long)k);
        assert_int_equal(zap_lookup(dn, name, 8, 1, &v), 0);
        assert_true(v == k);
    }
    dnode_rele(dn);
    fake_objset_free(os);
}

static void test_increment(void **state)
{
    struct objset *os = fake_objset(9);
    uint64_t object, v;
    assert_int_equal(zap_create_simple(os, OT_USERGROUP_USED, 0, &tx, &object), 0);
    assert_int_equal(zap_increment(os, object, "0", 512, true, &tx), 0);
    assert_int_equal(zap_increment(os, object, "0", 1024, true, &tx), 0);
    assert_int_equal(zap_get_u64(os, object, "0", &v), 0);
    assert_int_equal(v, 1536);
    assert_int_equal(zap_increment(os, object, "0", -(uint64_t)1536, true, &tx), 0);
    assert_int_equal(zap_get_u64(os, object, "0", &v), -ENOENT);
    assert_int_equal(zap_int_set(os, object, 0xabc, 5, &tx), 0);
    assert_int_equal(zap_get_u64(os, object, "abc", &v), 0);
    char name[17];
    assert_int_equal(zap_find_value(os, object, 5, UINT64_MAX, name, sizeof name), 0);
    assert_string_equal(name, "abc");
    assert_int_equal(zap_int_del(os, object, 0xabc, &tx), 0);
    assert_int_equal(zap_destroy(os, object, &tx), 0);
    assert_int_equal(zap_get_u64(os, object, "abc", &v), -ENOENT);
    fake_objset_free(os);
}

static void test_limits(void **state)
{
    struct objset *os = fake_objset(10);
    struct dnode *dn = new_zap(os, 0);
    static uint64_t big[1025];
    char name[1200];
    memset(name, 'n', sizeof name);
    name[1023] = 0;
    assert_int_equal(zap_add(dn, name, 8, 1, big, &tx), 0);
    name[1023] = 'n';
    name[1024] = 0;
    assert_int_equal(zap_add(dn, name, 8, 1, big, &tx), -ENAMETOOLONG);
    assert_int_equal(zap_add(dn, "", 8, 1, big, &tx), -EINVAL);
    assert_int_equal(zap_add(dn, "v", 3, 1, big, &tx), -EINVAL);
    assert_int_equal(zap_add(dn, "v", 8, 1025, big, &tx), -ENOSPC);
    assert_int_equal(zap_add(dn, "v", 8, 1024, big, &tx), 0);
    uint64_t v;
    assert_int_equal(zap_lookup(dn, "v", 8, 1, &v), -EINVAL);
    assert_int_equal(zap_get(dn, "v", &v), 0);
    uint16_t layout[3] = {5, 6, 4};
    uint64_t wide[4] = {9, 9, 9, 9};
    assert_int_equal(zap_add(dn, "2", 2, 3, layout, &tx), 0);
    assert_int_equal(zap_lookup(dn, "2", 8, 4, wide), 0); /* wider and longer */
    assert_true(wide[0] == 5 && wide[2] == 4 && wide[3] == 0);
    dnode_rele(dn);
    fake_objset_free(os);
}

/* Each fallible call below fails once; after every failure the ZAP is whole and the next try works.
 */
static void test_failures(void **state)
{
    struct objset *os = fake_objset(11);
    struct dnode *dn = new_zap(os, 0);
    char name[64];
    uint64_t v;
    uint64_t n = 0;
    for (; n < 2100; n++) {
        snprintf(name, sizeof name, "entry-%llu", (unsigned long long)n);
        int rc = -1;
        for (long fail = 0; rc != 0; fail += 1 + fail / 64) {
            fake_fail_at = n < 20 || n > 2040 ? fail : -1;
            rc = zap_add(dn, name, 8, 1, &n, &tx);
            fake_fail_at = -1;
            if (rc != 0 && rc != -ENOMEM)
                fail_msg("rc %d at entry %llu, failing call %ld", rc, (unsigned long long)n, fail);
            if (rc < 0 && fail % 4 == 0) {
                assert_int_equal(zap_lookup(dn, name, 8, 1, &v), -ENOENT);
                assert_int_equal(zap_lookup(dn, "entry-0", 8, 1, &v), n ? 0 : -ENOENT);
            }
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "entry-%llu", (unsigned long long)i);
        assert_int_equal(zap_lookup(dn, name, 8, 1, &v), 0);
        assert_true(v == i);
    }
    dnode_rele(dn);
    fake_objset_free(os);
}

/* As if a host of the other byte order had written them (ours), and back. */
static void swap_blocks(struct dnode *dn, bool ours)
{
    for (uint64_t i = 0; i < dn->nblocks; i++) {
        if (!dn->blocks[i])
            continue;
        unsigned char *b = dn->blocks[i]->data;
        if (ours)
            zap_swap_as(b, dn->block_size, load64(b));
        else
            zap_byteswap(b, dn->block_size);
    }
}

static void test_byteswap(void **state)
{
    struct objset *os = fake_objset(12);
    struct dnode *dn = new_zap(os, 0);
    char name[64];
    uint64_t v;
    for (uint64_t i = 0; i < 60000; i++) {
        snprintf(name, sizeof name, "%llu", (unsigned long long)i);
        assert_int_equal(zap_add(dn, name, 8, 1, &i, &tx), 0);
        if (i == 5 || i == 50000) {
            unsigned char *b = dn->blocks[0]->data, first[512];
            memcpy(first, b, 512);
            swap_blocks(dn, true);
            assert_memory_not_equal(first, b, 512);
            swap_blocks(dn, false);
            fake_evict(dn);
        }
    }
    for (uint64_t i = 0; i < 60000; i += 7) {
        snprintf(name, sizeof name, "%llu", (unsigned long long)i);
        assert_int_equal(zap_lookup(dn, name, 8, 1, &v), 0);
        assert_true(v == i);
    }
    dnode_rele(dn);
    fake_objset_free(os);
}

/* ---- Threads ---- */

struct worker {
    struct dnode *dn;
    unsigned id;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct zap_entry e;
    struct zap_cursor c;
    char name[64];
    uint64_t v;
    for (uint64_t i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "w%u-%llu", w->id, (unsigned long long)i);
        assert_int_equal(zap_add(w->dn, name, 8, 1, &i, &tx), 0);
        snprintf(name, sizeof name, "w%u-%llu", w->id, (unsigned long long)i / 2);
        assert_int_equal(zap_lookup(w->dn, name, 8, 1, &v), 0);
        if (i % 64 == 0) {
            zap_cursor_init(&c, w->dn, 0);
            for (int k = 0; k < 50 && zap_cursor_next(&c, &e) == 0; k++)
                assert_true(e.name[0] == 'w');
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct objset *os = fake_objset(13);
    struct dnode *dn = new_zap(os, 0);
    struct worker w[4];
    pthread_t t[4];
    fake_evict(dn);
    for (unsigned i = 0; i < 4; i++) {
        w[i] = (struct worker){dn, i};
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    uint64_t n;
    assert_int_equal(zap_count(dn, &n), 0);
    assert_int_equal(n, 12000);
    dnode_rele(dn);
    fake_objset_free(os);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),         cmocka_unit_test(test_int_key),
        cmocka_unit_test(test_micro_bytes),  cmocka_unit_test(test_fat_bytes),
        cmocka_unit_test(test_word_leaf),    cmocka_unit_test(test_model),
        cmocka_unit_test(test_fold),         cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_cookies),      cmocka_unit_test(test_big),
        cmocka_unit_test(test_half_doubled), cmocka_unit_test(test_increment),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_failures),
        cmocka_unit_test(test_byteswap),     cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
