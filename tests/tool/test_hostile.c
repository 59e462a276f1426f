/* A directory with names that lead out of it: copying must stay in its folder and take the rest. */
#include "../support/test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dmu/objset.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "fs/fs.h"
#include "spa/spa.h"
#include "tool/tool.h"
#include "util/err.h"

#define IMAGE_SIZE (64ull << 20)
#define MASTER     1

static char dir[] = "/tmp/tarn-hostile-XXXXXX", image[64], folder[64], outside[64], good[64];

static int make_folder(void **state)
{
    dsl_register_format(fs_format);
    if (!mkdtemp(dir))
        return -1;
    snprintf(image, sizeof image, "%s/disk.img", dir);
    snprintf(folder, sizeof folder, "%s/out", dir);
    snprintf(outside, sizeof outside, "%s/evil", dir);
    snprintf(good, sizeof good, "%s/out/good", dir);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(good);
    unlink(outside);
    rmdir(folder);
    unlink(image);
    return rmdir(dir);
}

/* The entry of "good" once more, under names that no file system would make. */
static void add_names(struct dataset *ds)
{
    static const char *const names[] = {"../evil", "x/../../evil"};
    uint64_t root, value;
    struct objset *os;
    struct tx tx;
    assert_ok(dataset_objset(ds, &os));
    assert_ok(zap_get_u64(os, MASTER, "ROOT", &root));
    assert_ok(zap_get_u64(os, root, "good", &value));
    assert_ok(dataset_tx_begin(ds, DATASET_TX_WRITE, 1 << 20, &tx));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ok(zap_set_u64(os, root, names[i], value, &tx));
    dataset_tx_end(&tx);
}

static void make_pool(void)
{
    const char *paths[] = {image};
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = 1};
    struct fs_options o = {.xattr = FS_XATTR_SA};
    struct fs_new new = {.mode = S_IFREG | 0644};
    struct fs_attr attr;
    struct dataset *ds;
    struct spa *spa;
    struct fs *fs;
    int fd = open(image, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, IMAGE_SIZE), 0);
    close(fd);
    assert_ok(spa_create(&args, false, NULL, &spa));
    assert_ok(dataset_hold(spa_dsl(spa), "tank", &ds));
    assert_ok(fs_open(&fs, ds, &o));
    assert_ok(fs_create(fs, FS_ROOT_INO, "good", &new, &attr));
    assert_int_equal(fs_write(fs, attr.ino, 0, "contents", 8, 0), 8);
    fs_close(fs);
    add_names(ds);
    dataset_rele(ds);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void stays_in_its_folder(void **state)
{
    char *argv[] = {(char *)"extract", image, folder, NULL};
    struct stat st;
    int status;
    make_pool();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(tool_main(3, argv));
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_int_equal(stat(good, &st), 0);
    assert_int_equal(st.st_size, 8);
    assert_int_equal(access(outside, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stays_in_its_folder)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
