/* Scans of a small live pool: gangs and further copies are looked at, and what the calls answer. */
#include "../support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "pool/block.h"
#include "pool/pool.h"
#include "spa/scan.h"
#include "spa/spa.h"
#include "vdev/vdev.h"

#define IMAGE_SIZE (128ull << 20)
#define FIRST      (4ull << 20) /* behind the front labels */
#define NOISE      (64ull << 20)

static char dir[] = "/tmp/tarn-scan-XXXXXX";
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

static int remove_images(void **state)
{
    for (int i = 0; i < 2; i++)
        unlink(image[i]);
    rmdir(dir);
    return 0;
}

static struct spa *create(bool mirror)
{
    const char *paths[] = {image[0], image[1]};
    const struct spa_create_group group = {"mirror", 2};
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = mirror ? 2 : 1,
                                   .groups = mirror ? &group : NULL, .ngroups = mirror};
    struct spa *spa = NULL;

    for (int i = 0; i < 2; i++) {
        unlink(image[i]);
        int fd = open(image[i], O_CREAT | O_RDWR, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, IMAGE_SIZE), 0);
        close(fd);
    }
    assert_ok(spa_create(&args, false, NULL, &spa));
    return spa;
}

static void make_datasets(struct spa *spa, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "tank/fs%u", i);
        assert_ok(dataset_create(spa_dsl(spa), name, NULL, 0, 0));
    }
}

static void spoil(const char *path, struct env *env, uint64_t start, uint64_t size)
{
    /* Past the page cache, as the pool writes: pages that are dirty when it does are an error to both. */
    static _Alignas(4096) unsigned char noise[1 << 16];
    int fd = open(path, O_WRONLY | O_DIRECT);

    if (fd < 0)
        fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (uint64_t at = 0; at < size; at += sizeof noise) {
        test_fill(env, noise, sizeof noise);
        assert_int_equal(pwrite(fd, noise, sizeof noise, (off_t)(start + at)), sizeof noise);
    }
    assert_int_equal(fsync(fd), 0);
    close(fd);
}

static struct spa_scan_stats scrub(struct spa *spa)
{
    struct spa_scan_stats st;

    assert_ok(spa_scan_start(spa, SPA_SCAN_SCRUB));
    assert_ok(spa_scan_wait(spa, SPA_SCAN_SCRUB, 0));
    spa_scan_stats(spa, &st);
    assert_int_equal(st.kind, SPA_SCAN_SCRUB);
    assert_int_equal(st.state, SPA_SCAN_FINISHED);
    return st;
}

/* All of a mirror's side is lost, with gangs and without; the second scrub finds it mended. */
static void noise_on_a_mirror(void **state)
{
    struct env env = test_env();

    for (int gangs = 0; gangs < 2; gangs++) {
        struct spa *spa = create(true);
        block_force_gangs(spa_pool(spa), gangs ? 2048 : 0);
        make_datasets(spa, 12);
        assert_int_equal(scrub(spa).repaired, 0);
        spoil(image[gangs], &env, FIRST, NOISE);
        struct spa_scan_stats st = scrub(spa);
        assert_int_equal(st.errors, 0);
        assert_true(st.repaired > 0);
        assert_true(st.examined > st.repaired);
        st = scrub(spa);
        assert_int_equal(st.errors, 0);
        assert_int_equal(st.repaired, 0);
        assert_ok(spa_close(spa, SPA_END_DESTROY));
    }
}

/* One disk: metadata has further copies there, and is mended from them. */
static void further_copies(void **state)
{
    struct env env = test_env();
    struct spa *spa = create(false);

    make_datasets(spa, 12);
    spoil(image[0], &env, FIRST, 2ull << 20);
    struct spa_scan_stats st = scrub(spa);
    assert_int_equal(st.errors, 0);
    assert_true(st.repaired > 0);
    assert_int_equal(scrub(spa).repaired, 0);
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

static void answers(void **state)
{
    struct spa_scan_stats st;

    assert_int_equal(setenv("TARN_SCAN_BLOCKS", "0", 1), 0);
    struct spa *spa = create(true);
    assert_int_equal(unsetenv("TARN_SCAN_BLOCKS"), 0);
    spa_scan_stats(spa, &st);
    assert_int_equal(st.kind, SPA_SCAN_NONE);
    assert_int_equal(spa_scan_stop(spa), -ENOENT);
    assert_int_equal(spa_scan_pause(spa, true), -ENOENT);
    assert_ok(spa_scan_start(spa, SPA_SCAN_RESILVER)); /* nobody lacks anything */
    spa_scan_stats(spa, &st);
    assert_int_equal(st.kind, SPA_SCAN_NONE);
    assert_ok(spa_scan_start(spa, SPA_SCAN_SCRUB));
    assert_int_equal(spa_scan_start(spa, SPA_SCAN_SCRUB), -EALREADY);
    assert_ok(spa_scan_pause(spa, true));
    assert_int_equal(spa_scan_pause(spa, true), -EALREADY);
    spa_scan_stats(spa, &st);
    assert_true(st.state == SPA_SCAN_ACTIVE && st.pause != 0);
    assert_ok(spa_scan_wait(spa, SPA_SCAN_SCRUB, 0)); /* nobody waits for what is paused */
    assert_ok(spa_scan_start(spa, SPA_SCAN_SCRUB));
    spa_scan_stats(spa, &st);
    assert_true(st.state == SPA_SCAN_ACTIVE && st.pause == 0 && st.examined == 0);
    assert_int_equal(spa_scan_wait(spa, SPA_SCAN_SCRUB, 1), -ETIMEDOUT);
    assert_ok(spa_scan_stop(spa));
    spa_scan_stats(spa, &st);
    assert_int_equal(st.state, SPA_SCAN_CANCELED);
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

/* Of a mirror's side that lacks everything, only blocks of the txgs in its set are given to it. */
static void resilver_of_a_range(void **state)
{
    struct env env = test_env();
    struct spa *spa = create(true);
    struct spa_scan_stats st;
    uint64_t first, last;

    make_datasets(spa, 12);
    struct vdev *leaf = vdev_lookup_top(spa_pool(spa)->root, 0)->child[1];
    spoil(image[1], &env, FIRST, NOISE);
    vdev_missed(leaf, 4, 1u << 20);
    spa_resilver_request(spa);
    assert_ok(spa_scan_wait(spa, SPA_SCAN_RESILVER, 0));
    spa_scan_stats(spa, &st);
    assert_int_equal(st.kind, SPA_SCAN_RESILVER);
    assert_int_equal(st.state, SPA_SCAN_FINISHED);
    assert_int_equal(st.errors, 0);
    assert_true(st.repaired > 0);
    assert_false(vdev_dtl_bounds(leaf, &first, &last));
    assert_int_equal(leaf->stats.checksum_errors, 0);
    assert_int_equal(scrub(spa).repaired, 0);
    /* Nothing was born in this txg that it could be given. */
    vdev_missed(leaf, 1, 2);
    spa_resilver_request(spa);
    assert_ok(spa_scan_wait(spa, SPA_SCAN_RESILVER, 0));
    spa_scan_stats(spa, &st);
    assert_true(st.kind == SPA_SCAN_RESILVER && st.repaired == 0);
    assert_false(vdev_dtl_bounds(leaf, &first, &last));
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_on_a_mirror),
        cmocka_unit_test(further_copies),
        cmocka_unit_test(answers),
        cmocka_unit_test(resilver_of_a_range),
    };
    return cmocka_run_group_tests(tests, make_images, remove_images);
}
