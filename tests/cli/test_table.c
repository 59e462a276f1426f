/* Tables: widths, alignment, and the form for scripts. */
#include "cli_test.h"

#include "cli/table_impl.h"

static struct caught out;

static void fill(struct table *t, const struct column *columns, size_t n)
{
    table_init(t, columns, n);
    assert_int_equal(table_add(t, (const char *[]){"tank", "352M", "ONLINE"}), 0);
    assert_int_equal(table_add(t, (const char *[]){"a-longer-name", "1.50G", "-"}), 0);
}

static const char *print(const struct table *t, bool scripted)
{
    catch_begin(&out, STDOUT_FILENO);
    table_print(t, scripted);
    return catch_end(&out);
}

static const struct column columns[] = {{"NAME", true, 0}, {"SIZE", false, 5}, {"HEALTH", true, 0}};

static void columns_fit_their_widest_cell(void **state)
{
    struct table t;
    fill(&t, columns, 3);
    assert_string_equal(print(&t, false), "NAME            SIZE  HEALTH\n"
                                          "tank            352M  ONLINE\n"
                                          "a-longer-name  1.50G  -\n");
    table_free(&t);
}

static void scripts_get_tabs(void **state)
{
    struct table t;
    fill(&t, columns, 3);
    assert_string_equal(print(&t, true), "tank\t352M\tONLINE\na-longer-name\t1.50G\t-\n");
    table_free(&t);
}

static void least_widths(void **state)
{
    static const struct column wide[] = {
        {"NAME", true, 9}, {"CAP", false, 5}, {"HEALTH", false, 8}};
    struct table t;
    table_init(&t, wide, 3);
    assert_int_equal(table_add(&t, (const char *[]){"one", "0%", "ONLINE"}), 0);
    assert_string_equal(print(&t, false), "NAME         CAP    HEALTH\n"
                                          "one           0%    ONLINE\n");
    table_free(&t);
}

/* Rows of vdevs are right-aligned but for their name. */
static void right_aligned_rows(void **state)
{
    static const struct column list[] = {
        {"NAME", true, 9}, {"SIZE", false, 5}, {"ALTROOT", true, 0}};
    struct table t;
    table_init(&t, list, 3);
    assert_int_equal(table_add(&t, (const char *[]){"one", "112M", "-"}), 0);
    assert_int_equal(table_add_right(&t, (const char *[]){"  /v/d0", "128M", "-"}), 0);
    assert_string_equal(print(&t, false), "NAME        SIZE  ALTROOT\n"
                                          "one         112M  -\n"
                                          "  /v/d0     128M        -\n");
    table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_fit_their_widest_cell),
        cmocka_unit_test(scripts_get_tabs),
        cmocka_unit_test(least_widths),
        cmocka_unit_test(right_aligned_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
