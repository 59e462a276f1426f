/* Creating, opening, exporting and destroying pools on image files, and what history and properties say. */
#include "../support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "util/err.h"
#include "vdev/scan.h"

#define IMAGE_SIZE (128ull << 20)

static char dir[] = "/tmp/tarn-spa-XXXXXX";
static char image[2][64];

static int make_images(void **state)
{
    dsl_register_format(fs_format);
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < 2; i++)
        snprintf(image[i], sizeof image[i], "%s/disk%d.img", dir, i);
    return 0;
}

static void fresh_images(void)
{
    for (int i = 0; i < 2; i++) {
        unlink(image[i]);
        int fd = open(image[i], O_CREAT | O_RDWR, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, IMAGE_SIZE), 0);
        close(fd);
    }
}

static int remove_images(void **state)
{
    for (int i = 0; i < 2; i++)
        unlink(image[i]);
    rmdir(dir);
    return 0;
}

static struct spa *create(size_t n, const struct nvlist *pool_props)
{
    const char *paths[] = {image[0], image[1]};
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = n, .pool_props = pool_props,
                                   .command = "zpool create tank"};
    struct spa *spa = NULL;
    fresh_images();
    assert_ok(spa_create(&args, false, NULL, &spa));
    return spa;
}

static int reopen_rc(bool readonly, struct spa **out)
{
    const char *paths[] = {dir};
    struct scan *scan;
    assert_ok(scan_run(&scan, paths, 1));
    assert_int_equal(scan->pools, 1);
    struct spa_open_args args = {.config = scan->pool[0].config, .readonly = readonly};
    int rc = spa_open(&args, out);
    scan_free(scan);
    return rc;
}

static struct spa *reopen(bool readonly)
{
    struct spa *spa = NULL;
    assert_ok(reopen_rc(readonly, &spa));
    return spa;
}

static void create_export_import(void **state)
{
    struct spa *spa = create(2, NULL);
    assert_ok(dataset_create(spa_dsl(spa), "tank/a", NULL, 0, 0));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    spa = reopen(false);
    struct dataset *ds;
    assert_ok(dataset_hold(spa_dsl(spa), "tank/a", &ds));
    dataset_rele(ds);
    assert_int_equal(dataset_hold(spa_dsl(spa), "tank/b", &ds), -ENOENT);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    spa = reopen(true);
    assert_true(spa_readonly(spa));
    assert_ok(spa_close(spa, SPA_END_DROP));
}

/* What was synced is there after the process has just let go. */
static void drop_keeps_what_was_synced(void **state)
{
    struct spa *spa = create(1, NULL);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "tank/fs%d", i);
        assert_ok(dataset_create(spa_dsl(spa), name, NULL, 0, 0));
    }
    assert_ok(spa_close(spa, SPA_END_DROP));
    spa = reopen(false);
    struct dataset *ds;
    assert_ok(dataset_hold(spa_dsl(spa), "tank/fs19", &ds));
    dataset_rele(ds);
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

static void second_opener_is_refused(void **state)
{
    struct spa *spa = create(1, NULL), *other = NULL;
    assert_int_equal(reopen_rc(false, &other), -EBUSY);
    assert_null(other);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static int count_record(void *arg, const struct nvlist *record)
{
    int *commands = arg;
    *commands += nvlist_exists(record, "history command");
    return 0;
}

static void history_is_a_ring_that_keeps_the_first_command(void **state)
{
    struct spa *spa = create(1, NULL);
    char text[2000];
    int commands = 0;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_ok(spa_history_command(spa, "zfs set a=b tank", 0));
    assert_ok(spa_history_each(spa, count_record, &commands));
    assert_int_equal(commands, 2);
    for (int i = 0; i < 150; i++) /* more than the smallest ring of 128 KiB holds */
        assert_ok(spa_history_command(spa, text, 0));
    commands = 0;
    assert_ok(spa_history_each(spa, count_record, &commands));
    assert_in_range(commands, 40, 70);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void properties_survive(void **state)
{
    char value[256], source[16];
    struct nvlist *props = nvlist_new();
    nvlist_add_string(props, "comment", "a comment");
    nvlist_add_string(props, "failmode", "continue");
    struct spa *spa = create(1, props);
    nvlist_free(props);
    assert_int_equal(spa_prop_set(spa, "size", "1"), -EINVAL);
    assert_int_equal(spa_prop_set(spa, "failmode", "maybe"), -EINVAL);
    assert_ok(spa_prop_set(spa, "org.example:note", "hello"));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    spa = reopen(false);
    assert_ok(spa_prop_get(spa, "comment", false, value, sizeof value, source));
    assert_string_equal(value, "a comment");
    assert_ok(spa_prop_get(spa, "failmode", false, value, sizeof value, source));
    assert_string_equal(value, "continue");
    assert_string_equal(source, "local");
    assert_ok(spa_prop_get(spa, "org.example:note", false, value, sizeof value, source));
    assert_string_equal(value, "hello");
    assert_ok(spa_prop_get(spa, "feature@lz4_compress", false, value, sizeof value, source));
    assert_string_equal(value, "active");
    assert_int_equal(spa_prop_get(spa, "nosuch", false, value, sizeof value, source), -ENOENT);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_export_import),
        cmocka_unit_test(drop_keeps_what_was_synced),
        cmocka_unit_test(second_opener_is_refused),
        cmocka_unit_test(history_is_a_ring_that_keeps_the_first_command),
        cmocka_unit_test(properties_survive),
    };
    return cmocka_run_group_tests(tests, make_images, remove_images);
}
