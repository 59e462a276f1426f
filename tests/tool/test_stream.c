/* Real records of send streams (tests/fuzz/corpus/stream), and what is wrong with others. */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "tool/stream_decode.h"
#include "util/bytes.h"

#define CORPUS TEST_DATA "/../fuzz/corpus/stream/"

struct input {
    unsigned char data[40000];
    size_t n, at;
};

static int64_t read_input(void *arg, void *data, size_t n)
{
    struct input *in = arg;
    size_t got = MIN(n, in->n - in->at);
    memcpy(data, in->data + in->at, got);
    in->at += got;
    return (int64_t)got;
}

static void load(struct input *in, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    in->n = fread(in->data, 1, sizeof in->data, f);
    in->at = 0;
    fclose(f);
}

/* Decodes to the end; counts by type, and the bad checksums. */
static int count(struct input *in, unsigned types[STREAM_TYPES], unsigned *bad)
{
    struct stream s;
    struct stream_record r;
    int rc;
    memset(types, 0, STREAM_TYPES * sizeof *types);
    *bad = 0;
    in->at = 0;
    stream_open(&s, read_input, in);
    while ((rc = stream_next(&s, &r)) == 0) {
        types[r.type]++;
        *bad += r.bad_checksum;
    }
    stream_close(&s);
    return rc;
}

static void whole_stream(void **state)
{
    static struct input in;
    unsigned types[STREAM_TYPES], bad;
    load(&in, CORPUS "clone");
    assert_int_equal(count(&in, types, &bad), -ENOENT);
    assert_int_equal(bad, 0);
    assert_int_equal(types[STREAM_BEGIN], 1);
    assert_int_equal(types[STREAM_END], 1);
    assert_int_equal(types[STREAM_OBJECT], 29);
    assert_int_equal(types[STREAM_FREEOBJECTS], 2);
}

static void one_bit_is_seen(void **state)
{
    static struct input in;
    unsigned types[STREAM_TYPES], bad;
    load(&in, CORPUS "clone");
    in.data[312 + 200] ^= 1; /* in a field of zeros that means nothing */
    assert_int_equal(count(&in, types, &bad), -ENOENT);
    assert_true(bad > 0);
}

static void truncated(void **state)
{
    static struct input in;
    unsigned types[STREAM_TYPES], bad;
    load(&in, CORPUS "clone");
    in.n -= 400;
    assert_int_equal(count(&in, types, &bad), -EBADMSG);
    in.n = 100;
    assert_int_equal(count(&in, types, &bad), -EBADMSG);
}

static void no_stream(void **state)
{
    static struct input in;
    unsigned types[STREAM_TYPES], bad;
    in.n = 1000;
    memset(in.data, 'x', in.n);
    assert_int_equal(count(&in, types, &bad), -EINVAL);
    in.n = 0;
    assert_int_equal(count(&in, types, &bad), -ENOENT);
}

static void big_endian(void **state)
{
    static struct input in;
    struct stream s;
    struct stream_record r;
    load(&in, CORPUS "big-endian");
    stream_open(&s, read_input, &in);
    assert_int_equal(stream_next(&s, &r), 0);
    assert_true(r.big);
    assert_string_equal(r.to_name, "p/f@s");
    assert_int_equal(stream_next(&s, &r), 0);
    assert_int_equal(r.type, STREAM_OBJECT);
    assert_int_equal(r.object_type, 21);
    assert_int_equal(r.payload, 16);
    stream_close(&s);
}

static void huge_payload(void **state)
{
    static struct input in;
    unsigned types[STREAM_TYPES], bad;
    load(&in, CORPUS "clone");
    put_le32(in.data + 4, 0x7fffffff);
    assert_int_equal(count(&in, types, &bad), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_stream), cmocka_unit_test(one_bit_is_seen),
        cmocka_unit_test(truncated),    cmocka_unit_test(no_stream),
        cmocka_unit_test(big_endian),   cmocka_unit_test(huge_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
