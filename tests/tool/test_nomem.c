/* A pool whose txg could not be written for want of memory, at one allocation after the other: what
 * is on the devices is whole, the txg before or this one, with every block accounted for. */
#include "verify_test.h"

#include <errno.h>

#include "../support/alloc.h"
#include "dmu/dnode.h"
#include "util/log.h"

#define OBJECTS 12
#define SIZE    40000

/* Objects in tank/a, written or overwritten in the open txg. */
static void write_objects(struct spa *spa, unsigned char byte)
{
    static unsigned char data[SIZE];
    struct object_params params = {
        .type = OT_OTHER_UINT8, .block_size = 4096, .indirect_shift = 12};
    struct dataset *ds;
    struct objset *os;
    struct tx tx;

    memset(data, byte, sizeof data);
    assert_ok(dataset_hold(spa_dsl(spa), "tank/a", &ds));
    assert_ok(dataset_objset(ds, &os));
    assert_ok(tx_begin(&tx, spa_pool(spa)));
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct dnode *dn;
        int rc = dnode_hold(os, 1000 + i, &dn);
        if (rc == -ENOENT)
            rc = object_create(os, 1000 + i, &params, &tx, &dn);
        assert_ok(rc);
        assert_ok(dnode_write(dn, 0, data, SIZE - i * 1000, &tx));
        if (byte > 1 && i % 4 == 3)
            assert_ok(object_free(dn, &tx));
        dnode_rele(dn);
    }
    tx_end(&tx);
    dataset_rele(ds);
}

/* Several txgs, as commands wait for theirs. */
static int change(struct spa *spa)
{
    int rc = spa_sync_now(spa);

    rc = rc ? rc : dataset_create(spa_dsl(spa), "tank/b", NULL, 0, 0);
    rc = rc ? rc : dataset_destroy(spa_dsl(spa), "tank/b");
    return rc ? rc : spa_prop_set(spa, "comment", "changed");
}

static void syncs_without_memory(void **state)
{
    unsigned failures = 0, suspended = 0;
    int quiet = open("/dev/null", O_WRONLY);

    log_set(quiet, LOG_LEVEL_ERROR); /* each failure is one */
    for (unsigned at = 1;; at += 1 + at / 25) {
        struct spa *spa = create();
        struct spa_stats stats;
        bool failed;
        int rc;
        write_objects(spa, 1);
        assert_ok(spa_sync_now(spa));
        write_objects(spa, 2);
        alloc_fail_at(at);
        rc = change(spa);
        failed = alloc_failed();
        alloc_fail_at(0);
        spa_stats(spa, &stats);
        failures += rc != 0;
        suspended += stats.suspended;
        assert_true(rc == 0 || failed);
        spa_close(spa, SPA_END_DROP);
        if (verify(said, sizeof said) != 0)
            fail_msg("allocation %u failed, and verify says: %s", at, said);
        if (!failed)
            break;
    }
    log_set(STDERR_FILENO, LOG_LEVEL_INFO);
    close(quiet);
    printf("%u failures, %u of them suspended the pool\n", failures, suspended);
    assert_true(suspended > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(syncs_without_memory)};

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
