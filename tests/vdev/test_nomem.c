/* Each allocation fails in turn: the call says so, and nothing leaks or is half done. */
#include "label_sample.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/alloc.h"
#include "nvlist/nvlist.h"
#include "vdev/label.h"
#include "vdev/scan_impl.h"

static void expect(int rc, bool failed)
{
    assert_int_equal(rc, failed ? -ENOMEM : 0);
}

static void labels(void **state)
{
    struct device *d = sample_device("basic-disk0");
    struct label_set set;
    struct uberblock u;
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        alloc_fail_at(at);
        int rc = label_read(d, &set);
        failed = alloc_failed();
        alloc_fail_at(0);
        if (rc == 0 && failed) { /* a list does without its hash */
            label_set_free(&set);
            continue;
        }
        expect(rc, failed);
    }
    uint64_t psize = set.psize;
    label_set_free(&set);
    failed = true;
    for (unsigned at = 1; failed; at++) {
        alloc_fail_at(at);
        int rc = uberblock_best(d, psize, UINT64_MAX, &u);
        rc = rc ? rc : uberblock_write(d, psize, 12, &u, false);
        rc = rc ? rc : label_write_pair(d, psize, LABEL_PAIR_FIRST, "x", 1);
        rc = rc ? rc : label_init(d, psize, "x", 1);
        failed = alloc_failed();
        alloc_fail_at(0);
        expect(rc, failed);
    }
    device_close(d);
}

/* All that a scan does, in one thread. */
static int scan(const char *dir, struct device *d[3], struct candidates *c, struct scan_pool *pool)
{
    int rc = candidates_add(c, dir, false);
    rc = rc ? rc : candidates_merge(c);
    for (size_t i = 0; rc == 0 && i < c->n; i++)
        rc = candidate_look(&c->item[i], d[i]);
    if (rc == 0)
        rc = scan_assemble(pool, c, c->item[0].pool_guid);
    return rc;
}

static void discovery(void **state)
{
    static const char *const samples[] = {"traidz1x3-disk0", "traidz1x3-disk1", "traidz1x3-disk2"};
    char dir[] = "/var/tmp/tarn-test-XXXXXX", name[64], command[64];
    struct device *d[3];
    bool failed = true;
    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < 3; i++) {
        d[i] = sample_device(samples[i]);
        snprintf(name, sizeof name, "%s/%u", dir, i);
        FILE *f = fopen(name, "w");
        assert_non_null(f);
        fclose(f);
    }
    snprintf(name, sizeof name, "%s/link", dir);
    assert_int_equal(symlink("1", name), 0);
    for (unsigned at = 1; failed; at++) {
        struct candidates c = {0};
        struct scan_pool pool = {0};
        alloc_fail_at(at);
        int rc = scan(dir, d, &c, &pool);
        failed = alloc_failed();
        alloc_fail_at(0);
        if (rc == 0)
            assert_int_equal(pool.status, SCAN_ONLINE);
        else
            expect(rc, failed);
        free(pool.name);
        free(pool.hostname);
        nvlist_free(pool.config);
        candidates_free(&c);
    }
    for (unsigned i = 0; i < 3; i++)
        device_close(d[i]);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),
        cmocka_unit_test(discovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
