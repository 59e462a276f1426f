/* Rows of the server as columns, lines and JSON: the same facts in each. */
#include "cli_test.h"

#include <json-c/json.h>

#include "cli/report_impl.h"

static struct caught out;
static struct report r;

static const char *const rows[] = {
    "{\"name\":\"tank\",\"type\":\"filesystem\",\"pool\":\"tank\",\"createtxg\":1,\"props\":{"
    "\"used\":{\"value\":\"3.04M\",\"raw\":\"3188736\",\"number\":3188736,\"source\":\"-\"},"
    "\"quota\":{\"value\":\"none\",\"raw\":\"0\",\"number\":0,\"source\":\"default\"},"
    "\"a:b\":{\"value\":\"20\",\"source\":\"local\"}}}",
    "{\"name\":\"tank/x\",\"type\":\"filesystem\",\"pool\":\"tank\",\"createtxg\":7,\"props\":{"
    "\"used\":{\"value\":\"24K\",\"raw\":\"24576\",\"number\":24576,\"source\":\"-\"},"
    "\"quota\":{\"value\":\"10M\",\"raw\":\"10485760\",\"number\":10485760,\"source\":\"local\"},"
    "\"a:b\":{\"value\":\"3\",\"source\":\"inherited\",\"from\":\"tank\"}}}",
    "{\"name\":\"tank/x@s\",\"type\":\"snapshot\",\"pool\":\"tank\",\"createtxg\":9,"
    "\"dataset\":\"tank/x\",\"snapshot_name\":\"s\",\"props\":{"
    "\"used\":{\"value\":\"0B\",\"raw\":\"0\",\"number\":0,\"source\":\"-\"}}}",
};

static int take_rows(void **state)
{
    r = (struct report){0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json_object *o = json_tokener_parse(rows[i]);
        if (!o || report_take(&r, o) != 0)
            return -1;
        json_object_put(o);
    }
    return 0;
}

static int drop_rows(void **state)
{
    report_free(&r);
    return 0;
}

static const struct report_column columns[] = {
    {"name", "NAME", true, 0}, {"used", "USED", false, 5}, {"a:b", "A:B", true, 0}};

static const char *print_columns(void)
{
    catch_begin(&out, STDOUT_FILENO);
    assert_int_equal(report_columns(&r, columns, 3), 0);
    return catch_end(&out);
}

static void as_columns(void **state)
{
    assert_string_equal(print_columns(), "NAME       USED  A:B\n"
                                         "tank      3.04M  20\n"
                                         "tank/x      24K  3\n"
                                         "tank/x@s     0B  -\n");
    r.style.exact = r.style.scripted = true;
    assert_string_equal(print_columns(), "tank\t3188736\t20\ntank/x\t24576\t3\ntank/x@s\t0\t-\n");
}

static const char *sorted(const char *prop, bool reverse)
{
    static char text[300];
    struct report_sort key = {prop, reverse};
    report_sort(&r, &key, 1);
    *text = 0;
    for (size_t i = 0; i < r.n; i++)
        sprintf(text + strlen(text), "%s%s", i ? " " : "", report_value(&r, r.rows[i], "name"));
    return text;
}

/* Numbers by their size, user properties as texts, what has no value last in both directions. */
static void sorting(void **state)
{
    assert_string_equal(sorted("used", false), "tank/x@s tank/x tank");
    assert_string_equal(sorted("used", true), "tank tank/x tank/x@s");
    assert_string_equal(sorted("name", true), "tank/x@s tank/x tank");
    assert_string_equal(sorted("a:b", false), "tank tank/x tank/x@s");
    assert_string_equal(sorted("a:b", true), "tank/x tank tank/x@s");
    assert_string_equal(sorted("quota", true), "tank/x tank tank/x@s");
}

static const char *print_lines(struct report_lines *l)
{
    catch_begin(&out, STDOUT_FILENO);
    assert_int_equal(report_print_lines(&r, l), 0);
    return catch_end(&out);
}

static void as_lines(void **state)
{
    struct report_lines l = {.props = {"a:b", "quota"}, .nprops = 2, .value_width = 7};
    assert_int_equal(report_fields(&l, "name,property,value,source", true), 0);
    assert_string_equal(print_lines(&l), "NAME      PROPERTY  VALUE    SOURCE\n"
                                         "tank      a:b       20       local\n"
                                         "tank      quota     none     default\n"
                                         "tank/x    a:b       3        inherited from tank\n"
                                         "tank/x    quota     10M      local\n"
                                         "tank/x@s  a:b       -        -\n"
                                         "tank/x@s  quota     -        -\n");
    r.style.scripted = true;
    assert_int_equal(report_fields(&l, "value,name", true), 0);
    assert_int_equal(report_sources(&l, "local"), 0);
    assert_string_equal(print_lines(&l), "20\ttank\n10M\ttank/x\n");
    assert_int_equal(report_sources(&l, "none,inherited"), 0);
    assert_string_equal(print_lines(&l), "3\ttank/x\n-\ttank/x@s\n-\ttank/x@s\n");
}

static void wrong_words(void **state)
{
    static const char *const fields[] = {"nosuch", "name,all", "name=x",
                                         "name,value,name,value,name,value"};
    struct report_lines l = {0};
    catch_begin(&out, STDERR_FILENO);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_int_equal(report_fields(&l, fields[i], true), 2);
    assert_int_equal(report_fields(&l, "received", false), 2);
    assert_int_equal(report_sources(&l, "local=x"), 2);
    assert_int_equal(report_sources(&l, "nosuch"), 2);
    assert_non_null(strstr(catch_end(&out), "invalid column name 'name=x'\n"));
    assert_int_equal(report_fields(&l, "all", false), 0);
    assert_int_equal(l.nfields, 4);
    assert_int_equal(report_fields(&l, "all", true), 0);
    assert_int_equal(l.nfields, 5);
}

static const char *json(size_t row)
{
    static char text[2000];
    struct json_object *o = report_json_dataset(&r.style, r.rows[row]);
    report_json_columns(&r, r.rows[row], o, columns, 3);
    snprintf(
        text, sizeof text, "%s",
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(o);
    return text;
}

static void as_json(void **state)
{
    assert_string_equal(json(1),
                        "{\"name\":\"tank/x\",\"type\":\"FILESYSTEM\",\"pool\":\"tank\","
                        "\"createtxg\":\"7\",\"properties\":{\"used\":{\"value\":\"24K\","
                        "\"source\":{\"type\":\"NONE\",\"data\":\"-\"}},\"a:b\":{\"value\":\"3\","
                        "\"source\":{\"type\":\"INHERITED\",\"data\":\"tank\"}}}}");
    r.style.json_int = true;
    assert_string_equal(json(2),
                        "{\"name\":\"tank/x@s\",\"type\":\"SNAPSHOT\",\"pool\":\"tank\","
                        "\"createtxg\":9,\"dataset\":\"tank/x\",\"snapshot_name\":\"s\","
                        "\"properties\":{\"used\":{\"value\":0,\"source\":{\"type\":\"NONE\","
                        "\"data\":\"-\"}},\"a:b\":{\"value\":\"-\",\"source\":{\"type\":\"NONE\","
                        "\"data\":\"-\"}}}}");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, take_rows, drop_rows)
    const struct CMUnitTest tests[] = {
        TEST(as_columns), TEST(sorting), TEST(as_lines), TEST(wrong_words), TEST(as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
