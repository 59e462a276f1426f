/*
 * Pools made by the reference: every object of the MOS and of every dataset and snapshot is read
 * completely through the object layer (of encrypted datasets what is readable without their keys). TARN_FIXTURES is a folder with more packed pools; without it
 * those of tests/fixtures are read.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "../support/test.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dsl/dsl.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "util/err.h"
#include "vdev/scan.h"

static const struct objset_props props = {.checksum = CHECKSUM_ON, .compress = COMPRESS_ON,
                                          .copies = 1};

struct totals {
    uint64_t sets, objects, bytes, blocks, fill;
};

static void read_object(struct objset *os, uint64_t object, struct totals *t)
{
    unsigned char bonus[16384], *spill, *data;
    struct dnode *dn;
    size_t len;
    uint32_t bs;
    uint64_t pos = 0;
    int rc;

    assert_int_equal(dnode_hold(os, object, &dn), 0);
    assert_int_equal(dnode_bonus_get(dn, bonus, sizeof bonus, &len), 0);
    rc = dnode_spill_get(dn, &spill, &len);
    assert_true(rc == 0 || (rc == -EACCES && bp_crypt(objset_root(os))));
    free(spill);
    bs = dnode_block_size(dn);
    data = malloc(bs);
    while (dnode_seek(dn, &pos, false) == 0) {
        rc = dnode_read(dn, pos, data, bs);
        if (rc < 0 && !(rc == -EACCES && bp_crypt(objset_root(os))))
            fail_msg("object %llu at %llu: %s", (unsigned long long)object,
                     (unsigned long long)pos, err_text(rc));
        t->bytes += bs;
        pos += bs;
    }
    t->objects++;
    free(data);
    dnode_rele(dn);
}

static int count_block(void *arg, const struct blkptr *bp, const struct bookmark *bm)
{
    struct totals *t = arg;

    t->blocks++;
    return 0;
}

static void read_set(struct pool *pool, uint64_t id, const struct blkptr *root, struct totals *t)
{
    struct objset *os;
    uint64_t object = 0, n = t->objects;
    int rc = objset_open(&os, pool, id, root, &props, NULL, NULL);

    if (rc < 0)
        fail_msg("set %llu: %s", (unsigned long long)id, err_text(rc));
    while ((rc = objset_next_object(os, &object)) == 0)
        read_object(os, object, t);
    assert_int_equal(rc, -ENOENT);
    assert_int_equal(t->objects - n, objset_object_count(os));
    objset_close(os);
    assert_int_equal(objset_walk(pool, id, root, 0, count_block, t), 0);
    t->sets++;
}

/* All datasets and snapshots: MOS objects whose bonus has type 16; the root pointer is at 0x80. */
static void read_pool(struct spa *spa, struct totals *t)
{
    struct objset *mos = dsl_mos(spa_dsl(spa));
    uint64_t object = 0;

    while (objset_next_object(mos, &object) == 0) {
        unsigned char bonus[16384];
        struct blkptr bp;
        struct dnode *dn;
        size_t len;
        read_object(mos, object, t);
        assert_int_equal(dnode_hold(mos, object, &dn), 0);
        assert_int_equal(dnode_bonus_get(dn, bonus, sizeof bonus, &len), 0);
        if (dnode_bonus_type(dn) == OT_DSL_DATASET && len >= 256) {
            bp_decode(&bp, bonus + 128, BYTES_HOST_BIG);
            if (!bp_hole(&bp))
                read_set(spa_pool(spa), object, &bp, t);
        }
        dnode_rele(dn);
    }
}

static int list_files(const char *dir, const char **paths, int most)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d)) && n < most) {
        char *path;
        struct stat st;
        assert_true(asprintf(&path, "%s/%s", dir, e->d_name) > 0);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 64 << 20)
            paths[n++] = path;
        else
            free(path);
    }
    closedir(d);
    return n;
}

static void read_fixture(const char *folder, const char *name)
{
    char dir[] = "/tmp/tarn-fixture-XXXXXX", command[1024];
    const char *paths[32];
    struct totals t = {0};
    struct scan *scan;
    struct spa *spa;
    int n, rc;

    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command,
             "zstd -dcq --long=31 %s/%s.tar.zst | tar -C %s -xf - &&"
             " find %s -mindepth 2 -type f -exec mv -t %s {} +",
             folder, name, dir, dir, dir);
    assert_int_equal(system(command), 0);
    n = list_files(dir, paths, 32);
    assert_int_equal(scan_run(&scan, paths, (size_t)n), 0);
    assert_true(scan->pools >= 1);
    struct spa_open_args args = {.config = scan->pool[0].config, .readonly = true, .force = true};
    rc = spa_open(&args, &spa);
    if (rc < 0)
        fail_msg("%s: %s", name, err_text(rc));
    read_pool(spa, &t);
    printf("%s: %llu sets, %llu objects, %llu bytes, %llu blocks\n", name,
           (unsigned long long)t.sets, (unsigned long long)t.objects, (unsigned long long)t.bytes,
           (unsigned long long)t.blocks);
    assert_int_equal(spa_close(spa, SPA_END_DROP), 0);
    scan_free(scan);
    for (int i = 0; i < n; i++)
        free((char *)paths[i]);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_fixtures(void **state)
{
    static const char *const names[] = {"basic", "stripe", "aged", "zoo", "v28"};
    const char *folder = getenv("TARN_FIXTURES"), *only = getenv("TARN_FIXTURE");
    unsigned n = folder ? ARRAY_LEN(names) : 3;

    if (!folder)
        folder = TEST_DATA "/../fixtures";
    for (unsigned i = 0; i < n; i++) {
        if (!only || strcmp(only, names[i]) == 0)
            read_fixture(folder, names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fixtures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
