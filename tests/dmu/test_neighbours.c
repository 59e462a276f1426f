/* Which small files are read ahead of their readers. */
#include "dmu_test.h"

#include "dmu/dmu_impl.h"

#define FILES 200
#define GROUP 32 /* objects whose dnodes are in one block */

struct setup {
    struct dmu_pool p;
    uint64_t object[FILES];
};

static void begin(struct setup *s, uint8_t type)
{
    struct object_params params = {.type = type, .block_size = 4096, .bonus_type = OT_SA};

    dmu_pool_new(&s->p);
    s->p.check_every = 0;
    add_set(&s->p, OBJSET_OTHER, 0, &test_props);
    for (unsigned i = 0; i < FILES; i++) {
        struct tx tx = open_tx(&s->p);
        struct dnode *dn;
        assert_int_equal(object_create(s->p.sets[0], 0, &params, &tx, &dn), 0);
        assert_int_equal(dnode_write(dn, 0, &i, sizeof i, &tx), 0);
        s->object[i] = dnode_object(dn);
        assert_true(i == 0 || s->object[i] == s->object[i - 1] + 1);
        dnode_rele(dn);
    }
    sync_now(&s->p);
    reopen(&s->p);
}

static void wait_until_idle(struct objset *os)
{
    pthread_mutex_lock(&os->lock);
    while (os->async > 0)
        pthread_cond_wait(&os->idle, &os->lock);
    pthread_mutex_unlock(&os->lock);
}

static void read_file(struct setup *s, unsigned i)
{
    struct dnode *dn;
    unsigned found;

    assert_int_equal(dnode_hold(s->p.sets[0], s->object[i], &dn), 0);
    assert_int_equal(dnode_read(dn, 0, &found, sizeof found), 0);
    assert_int_equal(found, i);
    dnode_rele(dn);
    wait_until_idle(s->p.sets[0]);
}

static bool in_memory(struct setup *s, unsigned i)
{
    struct dnode *dn;
    bool absent;

    assert_int_equal(dnode_hold(s->p.sets[0], s->object[i], &dn), 0);
    absent = dnode_block_absent(dn, 0);
    dnode_rele(dn);
    return !absent;
}

/* How many of the files of a group, but for those of lower numbers, are in memory. */
static unsigned count_group(struct setup *s, uint64_t group)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FILES; i++)
        n += s->object[i] / GROUP == group && in_memory(s, i);
    return n;
}

static void one_after_the_other(void **state)
{
    struct setup s;

    begin(&s, OT_PLAIN_FILE);
    for (unsigned i = 0; i < 3; i++)
        read_file(&s, i);
    assert_int_equal(count_group(&s, 0), 3); /* too few to tell */
    read_file(&s, 3);
    assert_int_equal(count_group(&s, 0), GROUP - s.object[0]);
    assert_int_equal(count_group(&s, 1), GROUP);
    assert_int_equal(count_group(&s, 2), 0);
    for (unsigned i = 4; s.object[i] < GROUP; i++)
        read_file(&s, i);
    assert_int_equal(count_group(&s, 2), 0);
    read_file(&s, GROUP - (unsigned)s.object[0]); /* the last group that was asked for */
    assert_int_equal(count_group(&s, 2), GROUP);
    assert_int_equal(count_group(&s, 3), 0);
    dmu_pool_free(&s.p);
}

static void far_from_each_other(void **state)
{
    struct setup s;
    unsigned n = 0;

    begin(&s, OT_PLAIN_FILE);
    for (unsigned i = 0; i < FILES; i += 2 * GROUP)
        read_file(&s, i);
    for (uint64_t group = 0; group <= FILES / GROUP; group++)
        n += count_group(&s, group);
    assert_int_equal(n, (FILES + 2 * GROUP - 1) / (2 * GROUP));
    dmu_pool_free(&s.p);
}

static void only_files(void **state)
{
    struct setup s;

    begin(&s, OT_OTHER_UINT64);
    for (unsigned i = 0; i < 8; i++)
        read_file(&s, i);
    assert_int_equal(count_group(&s, 0), 8);
    dmu_pool_free(&s.p);
}

/* What is not there, is being written, or is a hole is no reason for anything. */
static void gaps(void **state)
{
    struct setup s;

    begin(&s, OT_PLAIN_FILE);
    for (unsigned i = 8; i < 24; i++) {
        struct tx tx = open_tx(&s.p);
        struct dnode *dn;
        assert_int_equal(dnode_hold(s.p.sets[0], s.object[i], &dn), 0);
        if (i % 3 == 0)
            assert_int_equal(object_free(dn, &tx), 0);
        else if (i % 3 == 1)
            assert_int_equal(dnode_free_range(dn, 0, UINT64_MAX, &tx), 0);
        else
            assert_int_equal(dnode_write(dn, 0, &i, sizeof i, &tx), 0);
        dnode_rele(dn);
    }
    for (unsigned i = 0; i < 8; i++)
        read_file(&s, i);
    for (unsigned i = 24; s.object[i] < GROUP; i++)
        assert_true(in_memory(&s, i));
    sync_now(&s.p);
    check_pool(&s.p);
    dmu_pool_free(&s.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(far_from_each_other),
        cmocka_unit_test(only_files),
        cmocka_unit_test(gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
