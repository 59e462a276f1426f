/* Discovery of pools in folders of real labels, of damaged ones and of rubbish. */
#include "label_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvlist/nvlist.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/scan.h"

static char dir[PATH_MAX];

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/tarn-test-XXXXXX", base ? base : "/var/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static const char *in_dir(const char *name)
{
    static char path[2][PATH_MAX + 64];
    static unsigned turn;
    char *p = path[turn++ & 1];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* A sparse file with the labels of a sample. */
static void put(const char *sample, const char *file)
{
    const unsigned char *bytes = sample_bytes(sample);
    uint64_t size = get_le64(bytes), psize = size_psize(size);
    int fd = open(in_dir(file), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, bytes + 8, SAMPLE_PART, 0), SAMPLE_PART);
    assert_int_equal(pwrite(fd, bytes + 8 + SAMPLE_PART, SAMPLE_PART, (off_t)(psize - SAMPLE_PART)),
                     SAMPLE_PART);
    close(fd);
}

static struct scan *scan(void)
{
    const char *paths[] = {dir};
    struct scan *s = NULL;
    assert_int_equal(scan_run(&s, paths, 1), 0);
    return s;
}

static struct nvlist *child(const struct scan_pool *p, size_t i, size_t *n)
{
    struct nvlist *root, **children;
    assert_int_equal(nvlist_get_nvlist(p->config, "vdev_tree", &root), 0);
    assert_string_equal(nvlist_string_or(root, "type", ""), "root");
    assert_int_equal(nvlist_uint64_or(root, "guid", 0), p->guid);
    assert_int_equal(nvlist_get_nvlist_array(root, "children", &children, n), 0);
    assert_true(i < *n);
    return children[i];
}

static void expect_status(const char *pool, enum scan_status status)
{
    struct scan *s = scan();
    const struct scan_pool *p = scan_find(s, pool, 0);
    assert_non_null(p);
    assert_int_equal(p->status, status);
    scan_free(s);
}

static void test_everything(void **state)
{
    static const char *const samples[] = {
        "aged-disk0",       "aux-disk0",       "aux-disk1",       "aux-disk2",
        "aux-disk3",        "aux-disk4",       "aux-disk5",       "basic-disk0",
        "checkpoint-disk0", "degraded-disk0",  "degraded-disk1",  "destroyed-disk0",
        "removed-disk0",    "stripe-disk0",    "stripe-disk1",    "stripe-disk2",
        "traidz1x3-disk0",  "traidz1x3-disk1", "traidz1x3-disk2", "v28-disk0"};
    static const char *const pools[] = {"aged",      "aux",     "basic",  "checkpoint", "degraded",
                                        "destroyed", "removed", "stripe", "traidz1x3",  "v28"};
    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        put(samples[i], samples[i]);
    struct scan *s = scan();
    assert_int_equal(s->pools, ARRAY_LEN(pools));
    assert_int_equal(s->auxs, 2);
    for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
        const struct scan_pool *p = scan_find(s, pools[i], 0);
        char guid[24];
        assert_non_null(p);
        if (p->status != SCAN_ONLINE)
            fail_msg("%s: status %d", pools[i], p->status);
        assert_string_equal(p->hostname, "oracle");
        assert_true(p->hostid != 0);
        assert_true(p->txg != 0);
        assert_int_equal(p->version, strcmp(pools[i], "v28") ? 5000 : 28);
        assert_int_equal(p->state, strcmp(pools[i], "destroyed") ? POOL_STATE_EXPORTED
                                                                 : POOL_STATE_DESTROYED);
        assert_false(nvlist_exists(p->config, "top_guid"));
        assert_false(nvlist_exists(p->config, "guid"));
        snprintf(guid, sizeof guid, "%llu", (unsigned long long)p->guid);
        assert_ptr_equal(scan_find(s, guid, 0), p);
        assert_null(scan_find(s, pools[i], 1));
    }
    assert_null(scan_find(s, "nonesuch", 0));
    for (size_t i = 0; i < 2; i++) {
        bool cache = strstr(s->aux[i].path, "disk3") != NULL;
        assert_int_equal(s->aux[i].state, cache ? POOL_STATE_L2CACHE : POOL_STATE_SPARE);
    }
    scan_free(s);
}

static void test_stripe(void **state)
{
    size_t n;
    put("stripe-disk0", "b");
    put("stripe-disk1", "a");
    put("stripe-disk2", "c");
    struct scan *s = scan();
    assert_int_equal(s->pools, 1);
    const struct scan_pool *p = &s->pool[0];
    static const char *const names[] = {"b", "a", "c"};
    for (size_t i = 0; i < 3; i++) {
        struct nvlist *c = child(p, i, &n);
        assert_int_equal(n, 3);
        assert_int_equal(nvlist_uint64_or(c, "id", 9), i);
        assert_string_equal(nvlist_string_or(c, "path", ""), in_dir(names[i]));
    }
    scan_free(s);
    /* Without one of them the pool cannot be read. */
    unlink(in_dir("a"));
    s = scan();
    p = &s->pool[0];
    assert_int_equal(p->status, SCAN_MISSING);
    assert_int_equal(p->missing_tops, 1);
    assert_string_equal(nvlist_string_or(child(p, 1, &n), "type", ""), "missing");
    scan_free(s);
}

static void test_raidz_and_mirror(void **state)
{
    struct nvlist **leaf;
    size_t n;
    put("traidz1x3-disk0", "z0");
    put("traidz1x3-disk2", "z2");
    put("degraded-disk1", "m1");
    expect_status("traidz1x3", SCAN_DEGRADED);
    expect_status("degraded", SCAN_DEGRADED);
    struct scan *s = scan();
    const struct scan_pool *p = scan_find(s, "traidz1x3", 0);
    assert_int_equal(p->missing_leaves, 1);
    assert_int_equal(nvlist_get_nvlist_array(child(p, 0, &n), "children", &leaf, &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(nvlist_string_or(leaf[0], "path", ""), in_dir("z0"));
    assert_non_null(nvlist_string_or(leaf[1], "path", NULL)); /* as the label has it */
    assert_null(strstr(nvlist_string_or(leaf[1], "path", ""), dir));
    scan_free(s);
    unlink(in_dir("z0"));
    expect_status("traidz1x3", SCAN_MISSING);
}

/* Missing spare and cache devices do not matter, a missing log does. */
static void test_missing_aux(void **state)
{
    for (unsigned gone = 0; gone < 6; gone++) {
        for (unsigned i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "aux-disk%u", i);
            if (i == gone)
                unlink(in_dir(name));
            else
                put(name, name);
        }
        struct scan *s = scan();
        const struct scan_pool *p = scan_find(s, "aux", 0);
        assert_non_null(p);
        if (gone == 3 || gone == 4) { /* cache and spare */
            assert_int_equal(p->status, SCAN_ONLINE);
            assert_int_equal(s->auxs, 1);
        } else {
            assert_int_equal(p->status, SCAN_MISSING);
        }
        scan_free(s);
    }
}

/* Copies of one device under several names, an old one among them. */
static void test_duplicates(void **state)
{
    size_t n;
    put("basic-disk0", "copy");
    put("basic-disk0", "x");
    assert_int_equal(symlink(in_dir("x"), in_dir("a-link")), 0);
    assert_int_equal(link(in_dir("x"), in_dir("hard")), 0);
    struct scan *s = scan();
    assert_int_equal(s->pools, 1);
    assert_non_null(strstr(nvlist_string_or(child(&s->pool[0], 0, &n), "path", ""), dir));
    scan_free(s);
    /* An order that is asked for is kept. */
    const char *paths[] = {in_dir("hard"), in_dir("copy")};
    char want[PATH_MAX + 64];
    snprintf(want, sizeof want, "%s", paths[0]);
    assert_int_equal(scan_run(&s, paths, 2), 0);
    assert_string_equal(nvlist_string_or(child(&s->pool[0], 0, &n), "path", ""), want);
    scan_free(s);
    /* The newest uberblock gone from the one that is preferred: the other one is it. */
    struct device *d;
    struct uberblock u;
    struct device_info info;
    assert_int_equal(device_open(&d, want, DEVICE_OPEN_WRITE), 0);
    device_info(d, &info);
    uint64_t psize = size_psize(info.size);
    assert_int_equal(uberblock_best(d, psize, UINT64_MAX, &u), 0);
    for (unsigned l = 0; l < LABELS; l++)
        assert_int_equal(
            device_write(d, uberblock_offset(psize, l, 12, uberblock_slot(12, &u, false)), "", 1),
            0);
    device_close(d);
    const char *again[] = {want, in_dir("copy")};
    assert_int_equal(scan_run(&s, again, 2), 0);
    assert_string_equal(nvlist_string_or(child(&s->pool[0], 0, &n), "path", ""), again[1]);
    assert_int_equal(s->pool[0].txg, u.txg);
    scan_free(s);
}

static void test_rubbish(void **state)
{
    struct env e = test_env();
    static unsigned char junk[300000];
    test_fill(&e, junk, sizeof junk);
    put("v28-disk0", "pool");
    for (unsigned i = 0; i < 40; i++) {
        char name[32];
        uint64_t size = i < 20 ? test_below(&e, 3 << 20) : i * 50000;
        snprintf(name, sizeof name, "junk%u", i);
        int fd = open(in_dir(name), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        for (uint64_t at = 0; at < size; at += sizeof junk) {
            size_t n = MIN(size - at, sizeof junk);
            assert_int_equal(pwrite(fd, junk, n, (off_t)at), n);
        }
        close(fd);
    }
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_int_equal(mkdir(in_dir("directory"), 0700), 0);
    assert_int_equal(symlink("nowhere", in_dir("broken")), 0);
    assert_int_equal(symlink("loop", in_dir("loop")), 0);
    assert_int_equal(symlink("/dev/null", in_dir("null")), 0);
    struct scan *s = scan();
    assert_int_equal(s->pools, 1);
    assert_string_equal(s->pool[0].name, "v28");
    scan_free(s);
    const char *fifo[] = {in_dir("fifo")};
    assert_int_equal(scan_run(&s, fifo, 1), 0);
    assert_int_equal(s->pools, 0);
    scan_free(s);
    const char *none[] = {in_dir("none")};
    assert_int_equal(scan_run(&s, none, 1), -ENOENT);
    assert_non_null(strstr(err_text(-ENOENT), "none"));
}

static void change(const char *file, uint64_t at, size_t n)
{
    int fd = open(in_dir(file), O_RDWR | O_CLOEXEC);
    unsigned char c;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pread(fd, &c, 1, (off_t)(at + i)), 1);
        c ^= 0x55;
        assert_int_equal(pwrite(fd, &c, 1, (off_t)(at + i)), 1);
    }
    close(fd);
}

static void test_damage(void **state)
{
    put("basic-disk0", "d");
    struct stat st;
    assert_int_equal(stat(in_dir("d"), &st), 0);
    uint64_t psize = size_psize((uint64_t)st.st_size);
    /* Checksums wrong in three labels, then in all. */
    for (unsigned l = 0; l < LABELS; l++) {
        expect_status("basic", SCAN_ONLINE);
        change("d", label_offset(psize, l) + LABEL_CONFIG_OFFSET + LABEL_CONFIG_SIZE - 8, 1);
    }
    expect_status("basic", SCAN_CORRUPT);
    /* No label but the bare encoding destroyed in all. */
    for (unsigned l = 0; l < LABELS; l++)
        change("d", label_offset(psize, l) + LABEL_CONFIG_OFFSET, 8);
    struct scan *s = scan();
    assert_int_equal(s->pools, 0);
    scan_free(s);
    /* Labels without uberblocks. */
    put("basic-disk0", "d");
    for (unsigned l = 0; l < LABELS; l++)
        change("d", label_offset(psize, l) + LABEL_RING_OFFSET, LABEL_RING_SIZE);
    expect_status("basic", SCAN_CORRUPT);
}

/* Labels with a changed configuration, rightly sealed. */
static void relabel(const char *file, enum label_pair pair, void (*edit)(struct nvlist *config))
{
    struct device *d;
    struct label_set set;
    unsigned char *packed;
    size_t n;
    assert_int_equal(device_open(&d, in_dir(file), DEVICE_OPEN_WRITE), 0);
    assert_int_equal(label_read(d, &set), 0);
    edit(set.label[pair].config);
    assert_int_equal(nvlist_pack_xdr(set.label[pair].config, &packed, &n), 0);
    assert_int_equal(label_write_pair(d, set.psize, pair, packed, n), 0);
    free(packed);
    label_set_free(&set);
    device_close(d);
}

static void relabel_all(const char *file, void (*edit)(struct nvlist *config))
{
    relabel(file, LABEL_PAIR_FIRST, edit);
    relabel(file, LABEL_PAIR_SECOND, edit);
}

static void too_new(struct nvlist *c)
{
    assert_int_equal(nvlist_add_uint64(c, "txg", 1000000), 0);
    assert_int_equal(nvlist_add_string(c, "name", "future"), 0);
}

static void strange_version(struct nvlist *c)
{
    assert_int_equal(nvlist_add_uint64(c, "version", 29), 0);
}

static void many_children(struct nvlist *c)
{
    assert_int_equal(nvlist_add_uint64(c, "vdev_children", UINT64_MAX), 0);
}

static void no_top(struct nvlist *c)
{
    nvlist_remove(c, "top_guid");
}

static void no_name_no_id(struct nvlist *c)
{
    struct nvlist *tree;
    nvlist_remove(c, "name");
    nvlist_remove(c, "hostname");
    assert_int_equal(nvlist_get_nvlist(c, "vdev_tree", &tree), 0);
    nvlist_remove(tree, "id");
}

static void one_is_hole(struct nvlist *c)
{
    static const uint64_t hole = 1;
    assert_int_equal(nvlist_add_uint64_array(c, "hole_array", &hole, 1), 0);
}

static void strange_types(struct nvlist *c)
{
    assert_int_equal(nvlist_add_string(c, "hostid", "x"), 0);
    assert_int_equal(nvlist_add_uint64(c, "hostname", 7), 0);
    assert_int_equal(nvlist_add_uint64(c, "vdev_tree", 7), 0);
    assert_int_equal(nvlist_add_string(c, "hole_array", "x"), 0);
}

static void test_changed_labels(void **state)
{
    /* A crash between the first label pair and the uberblock: the old labels count. */
    put("basic-disk0", "d");
    relabel("d", LABEL_PAIR_FIRST, too_new);
    expect_status("basic", SCAN_ONLINE);
    relabel("d", LABEL_PAIR_SECOND, too_new);
    expect_status("future", SCAN_CORRUPT); /* no uberblock that is as new */
    put("basic-disk0", "d");
    relabel_all("d", strange_version);
    expect_status("basic", SCAN_VERSION);
    put("basic-disk0", "d");
    relabel_all("d", many_children);
    expect_status("basic", SCAN_CORRUPT);
    put("basic-disk0", "d");
    relabel_all("d", no_top);
    struct scan *s = scan();
    assert_int_equal(s->pools, 0);
    scan_free(s);
    put("basic-disk0", "d");
    relabel_all("d", no_name_no_id);
    s = scan();
    assert_int_equal(s->pools, 1);
    assert_int_equal(s->pool[0].status, SCAN_CORRUPT);
    assert_null(s->pool[0].hostname);
    scan_free(s);
    put("basic-disk0", "d");
    relabel_all("d", strange_types);
    s = scan();
    assert_int_equal(s->pools, 1);
    assert_true(s->pool[0].status >= SCAN_MISSING);
    scan_free(s);
}

static void test_hole(void **state)
{
    size_t n;
    put("stripe-disk0", "0");
    put("stripe-disk2", "2");
    relabel_all("0", one_is_hole);
    relabel_all("2", one_is_hole);
    struct scan *s = scan();
    assert_int_equal(s->pool[0].status, SCAN_ONLINE);
    struct nvlist *c = child(&s->pool[0], 1, &n);
    assert_string_equal(nvlist_string_or(c, "type", ""), "hole");
    assert_int_equal(n, 3);
    scan_free(s);
}

static void test_denied(void **state)
{
    if (geteuid() == 0) {
        printf("SKIP: root may read everything\n");
        skip();
    }
    put("basic-disk0", "d");
    assert_int_equal(chmod(in_dir("d"), 0), 0);
    struct scan *s = scan();
    assert_int_equal(s->pools, 0);
    assert_int_equal(s->denied, 1);
    scan_free(s);
}

static void test_system(void **state)
{
    struct scan *s;
    assert_int_equal(scan_run(&s, NULL, 0), 0); /* whatever it finds */
    scan_free(s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stripe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_raidz_and_mirror, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_aux, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rubbish, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_denied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_system, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
