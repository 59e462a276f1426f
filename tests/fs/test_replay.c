/* Intent logs replayed into a file system on a pool that is written: each kind of record, where a
 * log ends early, and what makes replaying restartable. The independent reader checks what came of
 * it. */
#include "fs_test.h"

#include "../support/zil_chain.h"

struct test {
    struct fixture f;
    struct chain_writer c;
    struct zil_replay z;
    uint64_t root;
    struct blkptr data; /* a block that records point to, or a hole */
};

static int setup(void **state)
{
    static struct test x;
    struct fs_attr a;
    memset(&x, 0, sizeof x);
    fixture_new(&x.f, &test_props, true);
    assert_int_equal(fs_getattr(x.f.fs, FS_ROOT_INO, &a), 0);
    x.root = a.ino;
    chain_begin(&x.c, &x.f.p.t.pool, txg_open_number(x.f.p.t.pool.txg));
    *state = &x;
    return 0;
}

static int teardown(void **state)
{
    fixture_free(&((struct test *)*state)->f);
    return 0;
}

/* The log's blocks, and those that its records point to, are the test's own: they are freed here.
 */
static void free_chain(struct test *x)
{
    struct tx tx;
    assert_int_equal(tx_begin(&tx, &x->f.p.t.pool), 0);
    for (unsigned i = 0; i <= x->c.n; i++)
        assert_int_equal(block_free(&x->f.p.t.pool, tx.txg, NULL, &x->c.bp[i]), 0);
    assert_int_equal(block_free(&x->f.p.t.pool, tx.txg, NULL, &x->data), 0);
    tx_end(&tx);
}

static int replay_from(struct test *x, uint64_t replay_seq)
{
    struct zil_header h = chain_header(&x->c);
    struct tx tx;
    h.claim_txg = x->c.txg; /* as an import would have left it */
    h.claim_blk_seq = x->c.n + 1;
    h.replay_seq = replay_seq;
    assert_int_equal(tx_begin(&tx, &x->f.p.t.pool), 0);
    zil_header_set(x->f.p.sets[0], &h, &tx);
    tx_end(&tx);
    x->z = (struct zil_replay){0};
    int rc = fs_replay(x->f.fs, &x->z, NULL);
    zil_header_get(x->f.p.sets[0], &h);
    assert_true(bp_hole(&h.log)); /* there is none any more */
    return rc;
}

static void replay(struct test *x)
{
    chain_end_block(&x->c);
    int rc = replay_from(x, 0);
    if (rc)
        fail_msg("%s", err_text(rc));
    assert_int_equal(x->z.result.records, x->c.seq);
    free_chain(x);
    fixture_remount(&x->f, &test_options);
}

static struct fs_attr look(struct test *x, uint64_t dir, const char *name)
{
    struct fs_attr a = {0};
    int rc = fs_lookup(x->f.fs, dir, name, &a);
    if (rc != 0 && rc != -ENOENT)
        fail_msg("%s: %s", name, strerror(-rc));
    return a;
}

static void has_text(struct test *x, uint64_t ino, const char *want)
{
    char got[256];
    ssize_t n = fs_read(x->f.fs, ino, 0, got, sizeof got);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, (size_t)n);
}

static void new_objects(void **state)
{
    struct test *x = *state;
    char target[16];
    chain_create(&x->c, ZIL_CREATE, x->root, 200, S_IFREG | 04641, "file", NULL);
    chain_create(&x->c, ZIL_MKDIR, x->root, 201, S_IFDIR | 02750, "dir", NULL);
    chain_create(&x->c, ZIL_SYMLINK, 201, 202, S_IFLNK | 0777, "link", "to/where");
    chain_record(&x->c, ZIL_LINK);
    CHAIN_WORDS(&x->c, 201, 200);
    chain_name(&x->c, "hard");
    chain_pad(&x->c);
    replay(x);
    struct fs_attr a = look(x, x->root, "file");
    assert_int_equal(a.ino, 200);
    assert_int_equal(a.mode, S_IFREG | 04641);
    assert_int_equal(a.uid, 1000);
    assert_int_equal(a.gen, 5);
    assert_int_equal(a.nlink, 2);
    assert_int_equal(a.mtime.tv_sec, 1700000001);
    assert_int_equal(a.crtime.tv_nsec, 123456789);
    assert_int_equal(look(x, x->root, "dir").mode, S_IFDIR | 02750);
    assert_int_equal(look(x, 201, "hard").ino, 200);
    assert_int_equal(fs_readlink(x->f.fs, look(x, 201, "link").ino, target, sizeof target), 8);
}

static void record_names(struct test *x, unsigned type, const char *name, const char *newname)
{
    chain_record(&x->c, type);
    CHAIN_WORDS(&x->c, x->root);
    if (newname)
        CHAIN_WORDS(&x->c, x->root);
    if (type == ZIL_RENAME_WHITEOUT)
        CHAIN_WORDS(&x->c, 300, S_IFCHR, 0, 0, 9, 1700000000, 0, 0);
    chain_name(&x->c, name);
    if (newname)
        chain_name(&x->c, newname);
    chain_pad(&x->c);
}

static void names(void **state)
{
    struct test *x = *state;
    const char *const old[] = {"gone", "a", "b", "from", "over", "white"};
    uint64_t ino[6];
    for (int i = 0; i < 6; i++)
        ino[i] = make_node(&x->f, FS_ROOT_INO, old[i], S_IFREG | 0644).ino;
    make_node(&x->f, FS_ROOT_INO, "dir", S_IFDIR | 0755);
    record_names(x, ZIL_REMOVE, "gone", NULL);
    record_names(x, ZIL_RMDIR, "dir", NULL);
    record_names(x, ZIL_RENAME_EXCHANGE, "a", "b");
    record_names(x, ZIL_RENAME, "from", "over");
    record_names(x, ZIL_RENAME_WHITEOUT, "white", "black");
    replay(x);
    assert_int_equal(look(x, x->root, "gone").ino, 0);
    assert_int_equal(look(x, x->root, "dir").ino, 0);
    assert_int_equal(look(x, x->root, "a").ino, ino[2]);
    assert_int_equal(look(x, x->root, "b").ino, ino[1]);
    assert_int_equal(look(x, x->root, "over").ino, ino[3]);
    assert_int_equal(look(x, x->root, "from").ino, 0);
    assert_int_equal(look(x, x->root, "black").ino, ino[5]);
    assert_int_equal(look(x, x->root, "white").ino, 300);
    assert_int_equal(look(x, x->root, "white").mode, S_IFCHR);
}

static void contents(void **state)
{
    struct test *x = *state;
    unsigned char zero[ZIL_POINTER_SIZE] = {0};
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "file", S_IFREG | 0644).ino;
    assert_int_equal(fs_write(x->f.fs, ino, 0, "0123456789", 10, 0), 10);
    chain_write(&x->c, ino, 3, "abc", 3);
    chain_record(&x->c, ZIL_TRUNCATE);
    CHAIN_WORDS(&x->c, ino, 8, 0);
    chain_write(&x->c, ino, 9, "z", 1);
    chain_record(&x->c, ZIL_TRUNCATE);
    CHAIN_WORDS(&x->c, ino, 1, 1);
    chain_record(&x->c, ZIL_WRITE2);
    CHAIN_WORDS(&x->c, ino, 10, 2, 0);
    chain_add(&x->c, zero, sizeof zero);
    replay(x);
    char got[16];
    assert_int_equal(fs_read(x->f.fs, ino, 0, got, sizeof got), 12);
    assert_memory_equal(got, "0\0002abc67\0z\0\0", 12);
}

/* A block for records to point to: 4096 bytes. */
static void write_data(struct test *x, unsigned char pointer[ZIL_POINTER_SIZE])
{
    struct block_policy policy = {.type = OT_PLAIN_FILE,
                                  .checksum = CHECKSUM_FLETCHER4,
                                  .compress = COMPRESS_OFF,
                                  .copies = 1,
                                  .fill = 1};
    struct pool *pool = &x->f.p.t.pool;
    struct buf *b = buf_new(4096);
    struct blkptr hole;
    bp_zero(&hole);
    memset(b->data, 'b', b->size);
    assert_int_equal(block_write(pool, x->c.txg, NULL, &policy, b, &hole, &x->data), 0);
    assert_int_equal(block_wait(pool), 0);
    buf_unref(b);
    bp_encode(&x->data, pointer);
}

/* A block as it was to be linked: the file ends where the record says, not where the block does. */
static void blocks(void **state)
{
    struct test *x = *state;
    unsigned char bytes[ZIL_POINTER_SIZE];
    char got[10000];
    write_data(x, bytes);
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "file", S_IFREG | 0644).ino;
    uint64_t clone = make_node(&x->f, FS_ROOT_INO, "clone", S_IFREG | 0644).ino;
    memset(got, 'o', sizeof got);
    assert_int_equal(fs_write(x->f.fs, clone, 0, got, sizeof got, 0), sizeof got);
    chain_record(&x->c, ZIL_WRITE);
    CHAIN_WORDS(&x->c, ino, 4096 + 100, 200, 0);
    chain_add(&x->c, bytes, sizeof bytes);
    chain_record(&x->c, ZIL_CLONE_RANGE);
    CHAIN_WORDS(&x->c, clone, 0, 3 * 4096, 4096, 3);
    chain_add(&x->c, bytes, sizeof bytes);
    memset(bytes, 0, sizeof bytes); /* a hole that was never written: nothing says how long it is */
    chain_add(&x->c, bytes, sizeof bytes);
    put_u64(bytes + 48, 7ull | 19ull << 48, BYTES_HOST_BIG); /* one of 4096 bytes */
    chain_add(&x->c, bytes, sizeof bytes);
    replay(x);
    assert_int_equal(fs_read(x->f.fs, ino, 0, got, sizeof got), 4096 + 300);
    assert_int_equal(got[4095], 0);
    for (int i = 4096; i < 4096 + 300; i++)
        assert_int_equal(got[i], 'b');
    assert_int_equal(look(x, x->root, "clone").size, 3 * 4096);
    assert_int_equal(fs_read(x->f.fs, clone, 0, got, sizeof got), sizeof got);
    assert_int_equal(got[4095], 'b');
    for (int i = 4096; i < (int)sizeof got; i++)
        assert_int_equal(got[i], 0);
}

/* The block that a record of cloned blocks points to must be as long as the record says. */
static void short_block(void **state)
{
    struct test *x = *state;
    unsigned char bytes[ZIL_POINTER_SIZE];
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "clone", S_IFREG | 0644).ino;
    write_data(x, bytes);
    chain_record(&x->c, ZIL_CLONE_RANGE);
    CHAIN_WORDS(&x->c, ino, 0, 8192, 8192, 1);
    chain_add(&x->c, bytes, sizeof bytes);
    chain_end_block(&x->c);
    assert_int_equal(replay_from(x, 0), -EBADE);
    assert_non_null(strstr(err_text(-EBADE), "too short"));
    free_chain(x);
}

static void setattr(struct test *x, uint64_t ino, uint64_t mask, uint64_t mode, uint64_t size)
{
    chain_record(&x->c, ZIL_SETATTR);
    CHAIN_WORDS(&x->c, ino, mask, mode, 77, 78, size, 1000, 1, 2000, 2);
}

static void attributes(void **state)
{
    struct test *x = *state;
    char value[16];
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "file", S_IFREG | 0644).ino;
    assert_int_equal(fs_setxattr(x->f.fs, ino, "user.old", "1", 1, 0, false), 0);
    setattr(x, ino, ZIL_SET_MODE | ZIL_SET_UID, S_IFREG | 0600, 0);
    setattr(x, ino, ZIL_SET_SIZE, 0, 5000);
    chain_record(&x->c, ZIL_SETSAXATTR);
    CHAIN_WORDS(&x->c, ino, 3);
    chain_name(&x->c, "user.new");
    chain_add(&x->c, "yes", 3);
    chain_pad(&x->c);
    chain_record(&x->c, ZIL_SETSAXATTR);
    CHAIN_WORDS(&x->c, ino, 0);
    chain_name(&x->c, "user.old");
    chain_pad(&x->c);
    setattr(x, ino, ZIL_SET_XVATTR, 0, 0);
    uint32_t mask[4] = {3, ZIL_ATTR_IMMUTABLE | ZIL_ATTR_PROJID, 0, 0};
    chain_add(&x->c, mask, sizeof mask);
    CHAIN_WORDS(&x->c, ZIL_ATTR_IMMUTABLE, 0, 0, 4711, 0, 0, 0);
    chain_write(&x->c, ino, 0, "all the same", 12); /* it was allowed when it was done */
    replay(x);
    struct fs_attr a = look(x, x->root, "file");
    assert_int_equal(a.mode, S_IFREG | 0600);
    assert_int_equal(a.uid, 77);
    assert_int_equal(a.gid, 100);
    assert_int_equal(a.size, 5000);
    assert_int_equal(fs_getxattr(x->f.fs, ino, "user.new", value, sizeof value), 3);
    assert_memory_equal(value, "yes", 3);
    assert_int_equal(fs_getxattr(x->f.fs, ino, "user.old", value, sizeof value), -ENODATA);
    struct fs_flags f;
    assert_int_equal(fs_getflags(x->f.fs, ino, &f), 0);
    assert_int_equal(f.flags, FS_FLAG_IMMUTABLE);
    assert_int_equal(f.projid, 4711);
    assert_int_equal(fs_read(x->f.fs, ino, 0, value, 12), 12);
    assert_memory_equal(value, "all the same", 12);
    assert_int_equal(fs_write(x->f.fs, ino, 0, "no", 2, 0), -EPERM);
}

/* Attributes in a hidden directory are three records. */
static void hidden_directory(void **state)
{
    struct test *x = *state;
    char value[16];
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "file", S_IFREG | 0644).ino;
    chain_create(&x->c, ZIL_MKXATTR, ino, 210, S_IFDIR | 01777, "", NULL);
    chain_create(&x->c, ZIL_CREATE, 210, 211, S_IFREG | 0644, "user.x", NULL);
    chain_write(&x->c, 211, 0, "value", 5);
    replay(x);
    assert_int_equal(fs_getxattr(x->f.fs, ino, "user.x", value, sizeof value), 5);
    assert_memory_equal(value, "value", 5);
    assert_int_equal(fs_lookup_ino(x->f.fs, 211, 0, &(struct fs_attr){0}), -ESTALE);
}

/* Records about files may come when the file has gone; those about names may not. */
static void out_of_order(void **state)
{
    struct test *x = *state;
    chain_write(&x->c, 999, 0, "lost", 4);
    setattr(x, 999, ZIL_SET_MODE, 0600, 0);
    chain_create(&x->c, ZIL_CREATE, x->root, 200, S_IFREG | 0644, "file", NULL);
    record_names(x, ZIL_REMOVE, "never", NULL);
    chain_create(&x->c, ZIL_CREATE, x->root, 201, S_IFREG | 0644, "too late", NULL);
    chain_end_block(&x->c);
    assert_int_equal(replay_from(x, 0), -ENOENT);
    assert_int_equal(x->z.failed_seq, 4);
    assert_int_equal(x->z.failed_type, ZIL_REMOVE);
    assert_int_equal(x->z.result.records, 3);
    free_chain(x);
    fixture_remount(&x->f, &test_options);
    assert_int_equal(look(x, x->root, "file").ino, 200);
    assert_int_equal(look(x, x->root, "too late").ino, 0);
}

/* What an attempt has done is on disk together with its number. */
static void restarted(void **state)
{
    struct test *x = *state;
    chain_create(&x->c, ZIL_CREATE, x->root, 200, S_IFREG | 0644, "first", NULL);
    chain_create(&x->c, ZIL_CREATE, x->root, 201, S_IFREG | 0644, "second", NULL);
    chain_end_block(&x->c);
    assert_int_equal(replay_from(x, 1), 0);
    assert_int_equal(x->z.result.records, 1);
    free_chain(x);
    fixture_remount(&x->f, &test_options);
    assert_int_equal(look(x, x->root, "first").ino, 0);
    assert_int_equal(look(x, x->root, "second").ino, 201);
}

/* The number that a record frees is used again by a later one. */
static void number_again(void **state)
{
    struct test *x = *state;
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "old", S_IFREG | 0644).ino;
    fs_forget(x->f.fs, ino, 1);
    record_names(x, ZIL_REMOVE, "old", NULL);
    chain_create(&x->c, ZIL_MKDIR, x->root, ino, S_IFDIR | 0755, "new", NULL);
    chain_create(&x->c, ZIL_CREATE, ino, 250, S_IFREG | 0644, "inside", NULL);
    replay(x);
    assert_int_equal(look(x, x->root, "new").ino, ino);
    assert_int_equal(look(x, ino, "inside").ino, 250);
}

static void number_in_use(void **state)
{
    struct test *x = *state;
    uint64_t ino = make_node(&x->f, FS_ROOT_INO, "there", S_IFREG | 0644).ino;
    chain_create(&x->c, ZIL_CREATE, x->root, ino, S_IFREG | 0644, "again", NULL);
    chain_end_block(&x->c);
    assert_int_equal(replay_from(x, 0), -EEXIST);
    assert_non_null(strstr(err_text(-EEXIST), "is in use"));
    free_chain(x);
}

/* Not where nothing may be changed; a quota or a read-only mount is no hindrance. */
static void read_only(void **state)
{
    struct test *x = *state;
    struct fs_options ro = test_options;
    ro.readonly = true;
    free_chain(x);
    fixture_remount(&x->f, &ro);
    x->f.ds.refuse[DATASET_TX_WRITE] = x->f.ds.refuse[DATASET_TX_FREE] = EDQUOT;
    chain_begin(&x->c, &x->f.p.t.pool, txg_open_number(x->f.p.t.pool.txg));
    chain_create(&x->c, ZIL_CREATE, x->root, 200, S_IFREG | 0644, "file", NULL);
    chain_write(&x->c, 200, 0, "text", 4);
    replay(x);
    has_text(x, 200, "text");
}

static void store_header(struct test *x, const struct zil_header *h)
{
    struct tx tx;
    assert_int_equal(tx_begin(&tx, &x->f.p.t.pool), 0);
    zil_header_set(x->f.p.sets[0], h, &tx);
    tx_end(&tx);
}

/* What can never be changed is refused only if there is something to replay. */
static void never_written(void **state)
{
    struct test *x = *state;
    x->f.ds.snapshot = true; /* when it is opened, which stands for an old version here */
    fixture_remount(&x->f, &test_options);
    x->f.ds.snapshot = false;
    assert_int_equal(fs_replay(x->f.fs, &x->z, NULL), 0);
    chain_create(&x->c, ZIL_CREATE, x->root, 200, S_IFREG | 0644, "file", NULL);
    chain_end_block(&x->c);
    struct zil_header h = chain_header(&x->c);
    h.claim_txg = x->c.txg;
    h.claim_blk_seq = x->c.n + 1;
    store_header(x, &h);
    assert_int_equal(fs_replay(x->f.fs, &x->z, NULL), -ENOTSUP);
    assert_int_equal(x->z.result.records, 1);
    store_header(x, &(struct zil_header){0});
    free_chain(x);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_objects),   TEST(names),      TEST(contents),
        TEST(blocks),        TEST(attributes), TEST(hidden_directory),
        TEST(out_of_order),  TEST(restarted),  TEST(number_again),
        TEST(number_in_use), TEST(read_only),  TEST(short_block),
        TEST(never_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
