/* A pool in an image, and verify run on it: in a child, as the tool forbids its process to write.
 */
#ifndef TESTS_TOOL_VERIFY_TEST_H
#define TESTS_TOOL_VERIFY_TEST_H

#include "../support/test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dmu/objset.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "dsl/dataset.h"
#include "dsl/dsl_impl.h"
#include "fs/format.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/tool.h"
#include "util/err.h"

#define IMAGE_SIZE (64ull << 20)

static char folder[] = "/tmp/tarn-verify-XXXXXX", image[64];

static inline int make_folder(void **state)
{
    dsl_register_format(fs_format);
    if (!mkdtemp(folder))
        return -1;
    snprintf(image, sizeof image, "%s/disk.img", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    unlink(image);
    rmdir(folder);
    return 0;
}

static inline struct spa *create(void)
{
    const char *paths[] = {image};
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = 1};
    struct spa *spa = NULL;
    unlink(image);
    int fd = open(image, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, IMAGE_SIZE), 0);
    close(fd);
    assert_ok(spa_create(&args, false, NULL, &spa));
    assert_ok(dataset_create(spa_dsl(spa), "tank/a", NULL, 0, 0));
    assert_ok(spa_sync_now(spa));
    return spa;
}

/* Runs the tool; its status and the beginning of what it says. */
static inline int run_tool(int argc, char **argv, char *out, size_t cap)
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        _exit(tool_main(argc, argv));
    }
    close(ends[1]);
    while (n + 1 < cap && (got = read(ends[0], out + n, cap - n - 1)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Verifies the state of a txg (0: the newest). */
static inline int verify_txg(uint64_t txg, char *out, size_t cap)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)txg);
    char *argv[] = {(char *)"verify", (char *)"--json", image, (char *)"-T", number, NULL};
    return run_tool(txg ? 5 : 3, argv, out, cap);
}

static inline int verify(char *out, size_t cap)
{
    return verify_txg(0, out, cap);
}

static char said[200000];

/* What a task may be checked with: it can always be done. */
static inline int nothing(struct dsl *dsl, void *arg, struct tx *tx)
{
    return 0;
}

#endif
