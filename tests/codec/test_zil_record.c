/* Records of intent logs: those that the reference wrote (data/log/records.bin: one of each kind
 * that two of its crashed pools had), both byte orders, and damage of each field that says a size.
 */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "codec/zil_record.h"
#include "util/bytes.h"

/* The n-th record (from 0) of a type in the file. */
struct real {
    unsigned char *bytes;
    size_t size;
};

static int load(void **state)
{
    static struct real real;
    real.bytes = test_load("log/records.bin", &real.size);
    *state = &real;
    return 0;
}

static int unload(void **state)
{
    free(((struct real *)*state)->bytes);
    return 0;
}

static const unsigned char *find(void **state, unsigned type, unsigned n, struct zil_record *r)
{
    const struct real *real = *state;
    for (size_t at = 0; at < real->size; at += r->h.size) {
        const unsigned char *p = real->bytes + at;
        assert_int_equal(zil_record_header(p, real->size - at, false, &r->h), 0);
        if (r->h.type == type && n-- == 0) {
            struct zil_record_header h = r->h;
            assert_int_equal(zil_record_decode(p, &h, false, r), 0);
            return p;
        }
    }
    fail_msg("no record of type %u", type);
    return NULL;
}

static void names(void **state)
{
    struct zil_record r;
    find(state, ZIL_REMOVE, 0, &r);
    assert_int_equal(r.h.seq, 46);
    assert_int_equal(r.h.txg, 17);
    assert_false(r.h.caseless);
    assert_int_equal(r.remove.dir, 34);
    assert_string_equal(r.remove.name, "before");
    find(state, ZIL_RMDIR, 0, &r);
    assert_string_equal(r.remove.name, "gone");
    find(state, ZIL_LINK, 0, &r);
    assert_int_equal(r.link.dir, 34);
    assert_int_equal(r.link.object, 128);
    assert_string_equal(r.link.name, "hard");
    find(state, ZIL_RENAME, 0, &r);
    assert_int_equal(r.rename.from, 130);
    assert_int_equal(r.rename.to, 130);
    assert_string_equal(r.rename.name, "in");
    assert_string_equal(r.rename.newname, "out");
    find(state, ZIL_RENAME_EXCHANGE, 0, &r);
    assert_string_equal(r.rename.name, "x1");
    assert_string_equal(r.rename.newname, "x2");
    assert_int_equal(zil_record_file(&r), 0);
}

static void new_objects(void **state)
{
    struct zil_record r;
    find(state, ZIL_CREATE, 0, &r);
    assert_int_equal(r.create.dir, 34);
    assert_int_equal(r.create.new.object, 3);
    assert_int_equal(r.create.new.dnode_size, 512);
    assert_int_equal(r.create.new.mode, 0100666);
    assert_int_equal(r.create.new.gen, 11);
    assert_int_equal(r.create.new.crtime.sec, 0x6b0d4775);
    assert_int_equal(r.create.new.crtime.nsec, 0x212bc5ed);
    assert_string_equal(r.create.name, "src");
    assert_null(r.create.target);
    find(state, ZIL_MKDIR, 0, &r);
    assert_int_equal(r.create.new.mode, 040777);
    assert_string_equal(r.create.name, "dir");
    find(state, ZIL_SYMLINK, 0, &r);
    assert_string_equal(r.create.name, "sym");
    assert_string_equal(r.create.target, "big");
    find(state, ZIL_MKXATTR, 0, &r);
    assert_int_equal(r.create.dir, 3);
    assert_int_equal(r.create.new.object, 96);
    assert_int_equal(r.create.new.mode, 041777);
    assert_string_equal(r.create.name, "");
    find(state, ZIL_RENAME_WHITEOUT, 0, &r);
    assert_int_equal(r.rename.whiteout.object, 128);
    assert_int_equal(r.rename.whiteout.dnode_size, 1024);
    assert_int_equal(r.rename.whiteout.mode, 020000);
    assert_int_equal(r.rename.whiteout.gen, 54);
    assert_string_equal(r.rename.name, "w");
    assert_string_equal(r.rename.newname, "w2");
}

static void contents(void **state)
{
    const unsigned char *first;
    struct zil_record r;
    size_t count;
    const unsigned char *p = find(state, ZIL_WRITE, 0, &r);
    assert_int_equal(r.write.object, 2);
    assert_int_equal(r.write.length, 7);
    assert_memory_equal(r.write.data, "before\n", 7);
    assert_int_equal(zil_record_pointers(p, &r.h, false, &first, &count), 0);
    assert_int_equal(count, 0);
    p = find(state, ZIL_WRITE, 1, &r);
    assert_int_equal(r.write.length, 0x8000);
    assert_null(r.write.data);
    assert_ptr_equal(r.write.pointer, p + 64);
    assert_int_equal(zil_record_pointers(p, &r.h, false, &first, &count), 0);
    assert_int_equal(count, 1);
    assert_ptr_equal(first, p + 64);
    p = find(state, ZIL_CLONE_RANGE, 0, &r);
    assert_int_equal(r.clone.object, 4);
    assert_int_equal(r.clone.length, 100000);
    assert_int_equal(r.clone.block_size, 0x8000);
    assert_int_equal(r.clone.count, 4);
    assert_ptr_equal(r.clone.pointers, p + 72);
    find(state, ZIL_TRUNCATE, 0, &r);
    assert_int_equal(r.truncate.object, 1);
    assert_int_equal(r.truncate.offset, 65536);
    assert_int_equal(r.truncate.length, 131072);
    assert_int_equal(zil_record_file(&r), 1);
}

static void attributes(void **state)
{
    struct zil_record r;
    find(state, ZIL_SETATTR, 0, &r);
    assert_int_equal(r.setattr.object, 129);
    assert_int_equal(r.setattr.mask, ZIL_SET_SIZE);
    assert_int_equal(r.setattr.size, 300001);
    assert_int_equal(r.setattr.mtime.nsec, 584516791);
    find(state, ZIL_SETATTR, 1, &r);
    assert_int_equal(r.setattr.mask, ZIL_SET_MODE | ZIL_SET_CTIME);
    assert_int_equal(r.setattr.mode, 0104711);
    find(state, ZIL_SETATTR, 2, &r);
    assert_int_equal(r.setattr.mask, ZIL_SET_XVATTR);
    assert_int_equal(r.setattr.attr.requested, ZIL_ATTR_APPENDONLY | ZIL_ATTR_PROJID);
    assert_int_equal(r.setattr.attr.on, ZIL_ATTR_APPENDONLY);
    assert_int_equal(r.setattr.attr.projid, 0);
    find(state, ZIL_SETSAXATTR, 0, &r);
    assert_int_equal(r.xattr.object, 128);
    assert_string_equal(r.xattr.name, "user.z");
    assert_int_equal(r.xattr.size, 3);
    assert_memory_equal(r.xattr.value, "zil", 3);
}

/* A writer of the other byte order: all words of the body are swapped, but not what is bytes. */
static void other_byte_order(void **state)
{
    struct zil_record r, swapped;
    unsigned char copy[256];
    const unsigned char *p = find(state, ZIL_CREATE, 0, &r);
    memcpy(copy, p, r.h.size);
    for (size_t at = 0; at < 104; at += 8)
        put_be64(copy + at, get_le64(p + at));
    assert_int_equal(zil_record_header(copy, r.h.size, true, &swapped.h), 0);
    struct zil_record_header h = swapped.h;
    assert_int_equal(zil_record_decode(copy, &h, true, &swapped), 0);
    assert_int_equal(swapped.h.seq, r.h.seq);
    assert_int_equal(swapped.create.new.object, r.create.new.object);
    assert_int_equal(swapped.create.new.crtime.nsec, r.create.new.crtime.nsec);
    assert_string_equal(swapped.create.name, "src");
    assert_int_equal(zil_record_header(copy, r.h.size, false, &h), -EBADE);
}

/* ---- Damage ---- */

static int decode(const unsigned char *p, size_t n)
{
    struct zil_record_header h;
    struct zil_record r;
    int rc = zil_record_header(p, n, false, &h);
    return rc ? rc : zil_record_decode(p, &h, false, &r);
}

static void damaged_header(void **state)
{
    struct zil_record r;
    unsigned char copy[256];
    const unsigned char *p = find(state, ZIL_REMOVE, 0, &r);
    size_t n = r.h.size;
    memcpy(copy, p, n);
    assert_int_equal(decode(copy, n), 0);
    assert_int_equal(decode(copy, n - 8), -EBADE); /* longer than what is left */
    assert_int_equal(decode(copy, 31), -EBADE);
    for (unsigned bad = 0; bad < 32; bad += 8) {
        put_le64(copy + 8, bad);
        assert_int_equal(decode(copy, n), -EBADE);
    }
    put_le64(copy + 8, n - 4);
    assert_int_equal(decode(copy, n), -EBADE);
    put_le64(copy + 8, n);
    for (uint64_t type = ZIL_TYPES; type; type <<= 8) { /* also such as look small when cut short */
        put_le64(copy, type);
        assert_int_equal(decode(copy, n), -ENOTSUP);
    }
    put_le64(copy, 0); /* COMMIT is never on disk */
    assert_int_equal(decode(copy, n), -ENOTSUP);
    put_le64(copy, 1ull << 63 | ZIL_REMOVE);
    assert_int_equal(decode(copy, n), 0);
}

/* Every record cut short at each place either ends sooner, or is refused. */
static void cut_short(void **state)
{
    static const unsigned ends_with_name[] = {ZIL_REMOVE, ZIL_RENAME, ZIL_SYMLINK,
                                              ZIL_LINK,   ZIL_CREATE, ZIL_RENAME_WHITEOUT};
    for (size_t i = 0; i < ARRAY_LEN(ends_with_name); i++) {
        struct zil_record r;
        unsigned char copy[256];
        const unsigned char *p = find(state, ends_with_name[i], 0, &r);
        for (size_t n = ZIL_HEADER_SIZE; n < r.h.size; n += 8) {
            memcpy(copy, p, n);
            put_le64(copy + 8, n);
            int rc = decode(copy, n);
            if (n + 8 < r.h.size || copy[n - 1] != 0)
                assert_int_equal(rc, -EBADE);
        }
    }
}

static void damaged_sizes(void **state)
{
    struct zil_record r;
    unsigned char copy[1024];
    const unsigned char *p = find(state, ZIL_WRITE, 0, &r);
    memcpy(copy, p, r.h.size);
    put_le64(copy + 48, 9); /* more than there is */
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    put_le64(copy + 48, UINT64_MAX - 3);
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    p = find(state, ZIL_CLONE_RANGE, 0, &r);
    memcpy(copy, p, r.h.size);
    put_le64(copy + 64, 5);
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    put_le64(copy + 64, 1ull << 57); /* times 128 that is 0 */
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    p = find(state, ZIL_SETSAXATTR, 0, &r);
    memcpy(copy, p, r.h.size);
    put_le64(copy + 40, 18);
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    put_le64(copy + 40, 0);
    assert_int_equal(decode(copy, r.h.size), 0); /* the attribute goes */
    p = find(state, ZIL_SETATTR, 2, &r);
    memcpy(copy, p, r.h.size);
    put_le32(copy + 112, 0);
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    put_le32(copy + 112, 33);
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    put_le32(copy + 112, 5); /* then the rest lies 8 bytes further on */
    assert_int_equal(decode(copy, r.h.size), -EBADE);
    p = find(state, ZIL_CREATE, 0, &r);
    memcpy(copy, p, r.h.size);
    put_le64(copy + 56, 1ull << 32 | 5); /* a user of a Windows domain */
    assert_int_equal(decode(copy, r.h.size), -ENOTSUP);
    memcpy(copy, p, r.h.size);
    copy[47] = 32; /* 33 slots */
    assert_int_equal(decode(copy, r.h.size), -EBADE);
}

/* With an access list and attributes between the fixed part and the name. */
static void create_with_all(void **state)
{
    unsigned char b[320] = {0};
    struct zil_record_header h;
    struct zil_record r;
    size_t at = 144;
    put_le64(b, ZIL_MKDIR_ACL_ATTR);
    put_le64(b + 32, 34);
    put_le64(b + 40, 77);
    put_le64(b + 104, 2);  /* entries */
    put_le64(b + 120, 1);  /* fuids */
    put_le64(b + 128, 20); /* bytes: padded to 24 */
    put_le32(b + at, 3);
    put_le32(b + at + 4, ZIL_ATTR_PROJID | ZIL_ATTR_IMMUTABLE);
    put_le64(b + at + 16, ZIL_ATTR_IMMUTABLE);
    put_le64(b + at + 40, 4711);
    at += 72 + 24 + 8;
    strcpy((char *)b + at, "name");
    put_le64(b + 8, at + 8);
    assert_int_equal(zil_record_header(b, sizeof b, false, &h), 0);
    assert_int_equal(zil_record_decode(b, &h, false, &r), 0);
    assert_string_equal(r.create.name, "name");
    assert_true(r.create.has_acl);
    assert_int_equal(r.create.attr.on, ZIL_ATTR_IMMUTABLE);
    assert_int_equal(r.create.attr.projid, 4711);
    put_le64(b + 128, UINT64_MAX - 2);
    assert_int_equal(zil_record_decode(b, &h, false, &r), -EBADE);
    put_le64(b + 128, 20);
    put_le64(b + 120, UINT64_MAX / 8 + 2);
    assert_int_equal(zil_record_decode(b, &h, false, &r), -EBADE);
}

static void chains(void **state)
{
    size_t n;
    unsigned char *file = test_load("log/zilog2.bin", &n), *block = file + ZIL_POINTER_SIZE;
    struct zil_record_header h;
    struct zil_chain c;
    size_t at = 0;
    unsigned count = 0;
    n -= ZIL_POINTER_SIZE;
    assert_int_equal(zil_chain_decode(block, n, false, false, &c), 0);
    assert_ptr_equal(c.next, block + 8);
    assert_int_equal(c.size, get_le64(block + ZIL_CHAIN_USED) - ZIL_CHAIN_SIZE);
    for (; at < c.size; at += h.size, count++)
        assert_int_equal(zil_record_header(c.records + at, c.size - at, false, &h), 0);
    assert_int_equal(count, 1);
    put_le64(block + ZIL_CHAIN_USED, ZIL_CHAIN_SIZE - 8);
    assert_int_equal(zil_chain_decode(block, n, false, false, &c), -EBADE);
    put_le64(block + ZIL_CHAIN_USED, n + 8);
    assert_int_equal(zil_chain_decode(block, n, false, false, &c), -EBADE);
    assert_int_equal(zil_chain_decode(block, ZIL_CHAIN_SIZE - 8, false, false, &c), -EBADE);
    /* The old kind: at the end, and used counts records alone. */
    put_le64(block + n - ZIL_CHAIN_SIZE + ZIL_CHAIN_USED, 64);
    assert_int_equal(zil_chain_decode(block, n, true, false, &c), 0);
    assert_ptr_equal(c.records, block);
    assert_int_equal(c.size, 64);
    put_le64(block + n - ZIL_CHAIN_SIZE + ZIL_CHAIN_USED, n - ZIL_CHAIN_SIZE + 8);
    assert_int_equal(zil_chain_decode(block, n, true, false, &c), -EBADE);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(new_objects),
        cmocka_unit_test(contents),
        cmocka_unit_test(attributes),
        cmocka_unit_test(other_byte_order),
        cmocka_unit_test(damaged_header),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(damaged_sizes),
        cmocka_unit_test(create_with_all),
        cmocka_unit_test(chains),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
