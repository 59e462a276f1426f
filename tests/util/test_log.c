#include "../support/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

static void writes_lines(void **state)
{
    char text[512];
    int fds[2];
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    log_set(fds[1], LOG_LEVEL_WARN);
    log_info("not this");
    errno = EXDEV;
    log_warn("evil %s", "name\n\033[2J");
    assert_int_equal(errno, EXDEV);
    log_set(STDERR_FILENO, LOG_LEVEL_INFO);
    close(fds[1]);
    n = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    assert_true(n > 0);
    text[n] = 0;
    assert_non_null(strstr(text, "Z warning: evil name??[2J\n"));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

static void cuts_long_lines(void **state)
{
    static char text[10000];
    int fds[2];
    ssize_t n;

    memset(text, 'y', sizeof text - 1);
    assert_int_equal(pipe(fds), 0);
    log_set(fds[1], LOG_LEVEL_DEBUG);
    log_debug("%s", text);
    log_set(STDERR_FILENO, LOG_LEVEL_INFO);
    n = read(fds[0], text, sizeof text);
    assert_in_range(n, 1000, 4000);
    assert_int_equal(text[n - 1], '\n');
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_lines),
        cmocka_unit_test(cuts_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
