/* Two processes and one device: the second is refused and told by whom. */
#include "device_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "util/err.h"

static char dir[PATH_MAX], path[PATH_MAX + 16];

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/vdev", dir);
    make_file(path, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    remove_dir(dir);
    return 0;
}

/* A child that has the device open until its standard input ends. */
static pid_t holder(unsigned flags, int *end)
{
    int ready[2], go[2];
    char c;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct device *d;
        prctl(PR_SET_NAME, "the holder");
        close(go[1]);
        if (device_open(&d, path, flags) || write(ready[1], "x", 1) != 1)
            _exit(1);
        ssize_t n = read(go[0], &c, 1);
        _exit(n == 0 ? 0 : 1);
    }
    close(go[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    *end = go[1];
    return pid;
}

static void finish(pid_t pid, int end)
{
    int status;
    close(end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_writer_refuses_all(void **state)
{
    int end;
    struct device *d;
    char want[PATH_MAX + 100];
    pid_t pid = holder(DEVICE_OPEN_WRITE, &end);
    snprintf(want, sizeof want, "%s is in use by process %d (the holder)", path, (int)pid);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE), -EBUSY);
    assert_string_equal(err_text(-EBUSY), want);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_SHARED), -EBUSY);
    assert_string_equal(err_text(-EBUSY), want);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_NOLOCK), 0);
    device_close(d);
    finish(pid, end);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE), 0);
    device_close(d);
}

static void test_readers_share(void **state)
{
    int end;
    struct device *d;
    pid_t pid = holder(DEVICE_OPEN_SHARED, &end);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_SHARED), 0);
    device_close(d);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE), -EBUSY);
    assert_non_null(strstr(err_text(-EBUSY), "(the holder)"));
    finish(pid, end);
}

/* A process that merely has the file open is not the one that is named. */
static void test_bystander(void **state)
{
    int end1, end2;
    struct device *d;
    char want[100];
    pid_t bystander = holder(DEVICE_OPEN_NOLOCK, &end1);
    pid_t pid = holder(DEVICE_OPEN_WRITE, &end2);
    snprintf(want, sizeof want, "process %d ", (int)pid);
    assert_int_equal(device_open(&d, path, DEVICE_OPEN_WRITE), -EBUSY);
    assert_non_null(strstr(err_text(-EBUSY), want));
    finish(pid, end2); /* first: it has a copy of end1 */
    finish(bystander, end1);
}

static void test_same_process(void **state)
{
    struct device *a, *b;
    assert_int_equal(device_open(&a, path, DEVICE_OPEN_WRITE), 0);
    assert_int_equal(device_open(&b, path, DEVICE_OPEN_WRITE), -EBUSY);
    assert_non_null(strstr(err_text(-EBUSY), "is in use by this process"));
    /* Another open and close of the file does not drop the lock. */
    assert_int_equal(device_open(&b, path, DEVICE_OPEN_NOLOCK), 0);
    device_close(b);
    assert_int_equal(device_open(&b, path, DEVICE_OPEN_WRITE), -EBUSY);
    device_close(a);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writer_refuses_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readers_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bystander, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_process, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
