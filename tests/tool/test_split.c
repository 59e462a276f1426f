/* Arguments of the offline tools, and names for terminals. */
#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "tool/tool_impl.h"

static bool exists(const char *path)
{
    static const char *const there[] = {"disk.img", "a:b.img", "/dir", "/dir/x:y"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (strcmp(path, there[i]) == 0)
            return true;
    return false;
}

static void check(const char *text, bool with_location, const char *location, const char *name)
{
    struct target_text t;
    assert_int_equal(target_split(text, with_location, exists, &t), 0);
    if (location)
        assert_string_equal(t.location, location);
    else
        assert_null(t.location);
    assert_string_equal(t.name, name);
    target_text_free(&t);
}

static void test_split(void **state)
{
    check("disk.img:tank/fs@s/file", true, "disk.img", "tank/fs@s/file");
    check("disk.img", true, "disk.img", "");
    check("disk.img:", true, "disk.img", "");
    check("a:b.img:tank", true, "a:b.img", "tank");
    check("/dir:tank/a:b", true, "/dir", "tank/a:b");
    check("/dir/x:y:tank", true, "/dir/x:y", "tank");
    check("tank/a:b", true, NULL, "tank/a:b");
    check("disk.img:tank", false, NULL, "disk.img:tank");
}

static void test_refused(void **state)
{
    struct target_text t;
    assert_int_equal(target_split("", true, exists, &t), -EINVAL);
    assert_int_equal(target_split("/no/such:tank", true, exists, &t), -ENOENT);
}

static void quoted(const char *name, const char *want)
{
    char out[100];
    assert_string_equal(tool_quote(name, false, out, sizeof out), want);
}

static void test_quote(void **state)
{
    quoted("plain-name_1.txt", "plain-name_1.txt");
    quoted("two words", "'two words'");
    quoted("a\nb", "'a'$'\\n''b'");
    quoted("\033[31m", "''$'\\033''[31m'");
    quoted("it's", "'it'\\''s'");
    quoted("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    quoted("bad\xff", "'bad'$'\\377'");
    quoted("c1\xc2\x9b", "'c1'$'\\302\\233'");
    quoted("", "''");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
