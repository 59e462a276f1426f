/* Blocks of encrypted datasets as OpenZFS wrote them: 128 bytes of pointer, then what is stored. */
#include "../support/test.h"

#include <errno.h>

#include "../support/crypt_keys.h"
#include "codec/compress.h"
#include "codec/zil_record.h"
#include "pool/block_impl.h"
#include "pool/mac.h"
#include "pool/pool.h"

struct sample {
    struct blkptr bp;
    struct buf *stored;
};

static void load(const char *key, const char *what, struct sample *s)
{
    char name[64];
    unsigned char *file;
    size_t n;

    snprintf(name, sizeof name, "crypt/%s-%s", key, what);
    file = test_load(name, &n);
    bp_decode(&s->bp, file, false);
    assert_int_equal(n, BLKPTR_SIZE + bp_psize(&s->bp));
    s->stored = buf_new(n - BLKPTR_SIZE);
    memcpy(s->stored->data, file + BLKPTR_SIZE, n - BLKPTR_SIZE);
    free(file);
}

static int open_sample(const struct sample *s, const struct crypt_key *key, struct buf **out)
{
    *out = NULL;
    return read_open(&s->bp, key, buf_copy(s->stored), out);
}

static void check_contents(const char *what, const struct sample *s, const struct buf *b)
{
    assert_int_equal(b->size, bp_lsize(&s->bp));
    if (strcmp(what, "dnodes") == 0) {
        bool sa = false; /* somewhere a bonus begins with the magic number of attributes */
        for (size_t at = 0; at < b->size; at += 512)
            sa |= get_le32(b->data + at + 192) == 0x2f505a;
        assert_true(sa);
    } else if (strcmp(what, "spill") == 0) {
        assert_int_equal(get_le32(b->data), 0x2f505a);
    } else if (strcmp(what, "directory") == 0 || strcmp(what, "master") == 0) {
        assert_int_equal(get_le64(b->data), 0x8000000000000003); /* a micro ZAP */
    }
}

static const char *const kinds[] = {"dnodes", "indirect", "master", "directory", "file", "spill"};

/* The pass-through of the checksum, too: it is folded. */
static void real_blocks(void **state)
{
    struct pool pool = {0};
    struct env e = test_env();

    for (size_t k = 0; k < ARRAY_LEN(sample_keys); k++) {
        struct crypt_key *key = sample_key(&sample_keys[k]);
        assert_non_null(key);
        for (size_t i = 0; i < (k == 0 ? 6u : 4u); i++) {
            struct sample s;
            struct buf *b;
            load(sample_keys[k].name, kinds[i], &s);
            assert_int_equal(block_verify(&pool, &s.bp, s.stored->data), 0);
            assert_int_equal(open_sample(&s, key, &b), 0);
            check_contents(kinds[i], &s, b);
            buf_unref(b);
            for (int n = 0; n < 30; n++) { /* no bit of the code may be wrong */
                struct sample bad = s;
                bad.bp.w[14 + n % 2] ^= 1ull << test_below(&e, 64);
                assert_int_equal(open_sample(&bad, key, &b), -EBADE);
            }
            if (i == 0 || i > 3) {
                struct sample bad = s;
                bad.bp.w[4 + test_below(&e, 2)] ^= 1ull << test_below(&e, 64); /* salt, IV */
                assert_int_equal(open_sample(&bad, key, &b), -EBADE);
                bad = s;
                bad.bp.w[11] ^= 1ull << (32 + test_below(&e, 32));
                assert_int_equal(open_sample(&bad, key, &b), -EBADE);
            }
            buf_unref(s.stored);
        }
        crypt_key_unref(key);
    }
}

/* Where two formats agree in all that is authenticated. */
static bool covered(const struct sample *s, size_t at)
{
    size_t in = at % 512;

    if (bp_type(&s->bp) != 10)
        return true;
    if (in < 64)
        return in != 7 && (in < 24 || in >= 32); /* flags, used bytes */
    return s->stored->data[at - in + 3] == 0;    /* of a pointer only some fields count */
}

static void changed_bytes(void **state)
{
    struct env e = test_env();
    struct crypt_key *key = sample_key(&sample_keys[0]);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct sample s;
        load("gcm", kinds[i], &s);
        for (int n = 0; n < 200; n++) {
            size_t at = test_below(&e, s.stored->size);
            struct buf *b;
            if (i == 1 || !covered(&s, at)) /* an indirect block is compressed */
                continue;
            s.stored->data[at] ^= 1;
            assert_int_equal(open_sample(&s, key, &b), -EBADE);
            s.stored->data[at] ^= 1;
        }
        buf_unref(s.stored);
    }
    crypt_key_unref(key);
}

/* What is readable by anybody. */
static void without_key(void **state)
{
    static const int want[] = {0, 0, 0, -EACCES, -EACCES, -EACCES};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct sample s;
        struct buf *b;
        load("gcm", kinds[i], &s);
        assert_int_equal(open_sample(&s, NULL, &b), want[i]);
        buf_unref(b);
        buf_unref(s.stored);
    }
}

static void hostile_dnodes(void **state)
{
    struct crypt_key *key = sample_key(&sample_keys[0]);
    static const struct {
        unsigned at;
        uint8_t value;
    } bad[] = {{3, 4}, {3, 255}, {12, 32}, {12, 255}};
    struct sample s;
    struct buf *b;

    load("gcm", "dnodes", &s);
    for (size_t slot = 0; slot < 32; slot++) {
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
            unsigned char *dn = s.stored->data + 512 * slot, saved = dn[bad[i].at];
            dn[bad[i].at] = bad[i].value;
            assert_int_equal(open_sample(&s, key, &b), -EBADE);
            dn[bad[i].at] = saved;
        }
    }
    bits_set(&s.bp.w[6], 32, 7, COMPRESS_LZ4);
    assert_int_equal(open_sample(&s, key, &b), -EBADE);
    buf_unref(s.stored);
    crypt_key_unref(key);
}

/* ---- Blocks of intent logs ---- */

/* The types of its records, in order. */
static unsigned record_types(const unsigned char *block, unsigned types[32], struct zil_record *last)
{
    struct zil_chain c;
    unsigned n = 0;

    assert_int_equal(zil_chain_decode(block, 4096, false, false, &c), 0);
    for (size_t at = 0; at < c.size; at += last->h.size) {
        struct zil_record_header h;
        assert_int_equal(zil_record_header(c.records + at, c.size - at, false, &h), 0);
        last->h = h;
        zil_record_decode(c.records + at, &h, false, last);
        types[n++] = h.type;
    }
    return n;
}

static void log_blocks(void **state)
{
    static const unsigned names[] = {ZIL_REMOVE, ZIL_RENAME, ZIL_RENAME, ZIL_RENAME_EXCHANGE,
                                     ZIL_RENAME_WHITEOUT, ZIL_MKDIR, ZIL_MKDIR, ZIL_CREATE,
                                     ZIL_WRITE};
    struct crypt_key *key = sample_key(&sample_log_key);
    struct pool pool = {0};
    struct env e = test_env();
    struct zil_record last;
    struct sample s;
    struct buf *b;
    unsigned types[32];

    assert_non_null(key);
    load("log", "7", &s);
    assert_int_equal(block_verify(&pool, &s.bp, s.stored->data), 0);
    assert_int_equal(open_sample(&s, key, &b), 0);
    assert_int_equal(record_types(b->data, types, &last), ARRAY_LEN(names));
    assert_memory_equal(types, names, sizeof names);
    assert_int_equal(last.write.length, 5);
    assert_memory_equal(last.write.data, "group", 5);
    buf_unref(b);
    /* Without the key what is in the clear can be read: enough to follow the chain. */
    assert_int_equal(open_sample(&s, NULL, &b), 0);
    assert_int_equal(record_types(b->data, types, &last), ARRAY_LEN(names));
    assert_memory_equal(types, names, sizeof names);
    buf_unref(b);
    for (int i = 0; i < 50; i++) { /* all up to the end of what is used, but for the trailer */
        size_t at = test_below(&e, 1064);
        if (at >= ZIL_CHAIN_TRAILER && at < ZIL_CHAIN_SIZE - CRYPT_MAC_SIZE)
            continue;
        s.stored->data[at] ^= 1 << test_below(&e, 8);
        assert_int_equal(open_sample(&s, key, &b), -EBADE);
        buf_unref(s.stored);
        load("log", "7", &s);
    }
    buf_unref(s.stored);
    load("log", "34", &s);
    assert_int_equal(open_sample(&s, key, &b), 0);
    assert_int_equal(record_types(b->data, types, &last), 15);
    assert_int_equal(last.h.type, ZIL_SETSAXATTR);
    assert_string_equal(last.xattr.name, "user.second");
    assert_int_equal(last.xattr.size, 300);
    buf_unref(b);
    buf_unref(s.stored);
    crypt_key_unref(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_blocks),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(without_key),
        cmocka_unit_test(hostile_dnodes),
        cmocka_unit_test(log_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
