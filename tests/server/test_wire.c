/* One JSON object per line: what is sent arrives, what is no object ends the connection. */
#include "../support/test.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/wire_impl.h"

static struct wire ours;
static int theirs;

static int connect_both(void **state)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return -1;
    struct timeval limit = {.tv_sec = 20}; /* a test that hangs is a failure, too */
    setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    wire_init(&ours, fd[0]);
    theirs = fd[1];
    return 0;
}

static int disconnect(void **state)
{
    wire_destroy(&ours);
    if (theirs >= 0)
        close(theirs);
    return 0;
}

static void say(const char *text)
{
    assert_int_equal(write(theirs, text, strlen(text)), strlen(text));
}

static void hang_up(void)
{
    close(theirs);
    theirs = -1;
}

static void lines_become_objects(void **state)
{
    struct json_object *o;
    say("{\"a\": 1}\n{\"b\": \"x\\ny\"");
    assert_int_equal(wire_receive(&ours, &o), 0);
    assert_int_equal(json_number(o, "a", 0), 1);
    json_object_put(o);
    say("}\n");
    assert_int_equal(wire_receive(&ours, &o), 0);
    assert_string_equal(json_text(o, "b", ""), "x\ny");
    json_object_put(o);
    hang_up();
    assert_int_equal(wire_receive(&ours, &o), -EPIPE);
}

static void an_unfinished_line_is_the_end(void **state)
{
    struct json_object *o;
    say("{\"a\": 1}");
    hang_up();
    assert_int_equal(wire_receive(&ours, &o), -EPIPE);
}

static void other_lines_are_refused(void **state)
{
    static const char *const bad[] = {
        "\n",  "[]\n",  "5\n",       "null\n",     "\"x\"\n",
        "{\n", "{}}\n", "{'a': 1\n", "nonsense\n", "{\"a\": 1} {\"b\": 2}\n"};
    struct json_object *o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        say(bad[i]);
        int rc = wire_receive(&ours, &o);
        if (rc == 0) {
            printf("accepted: %s", bad[i]);
            json_object_put(o);
        }
        assert_int_equal(rc, -EBADMSG);
    }
}

static void depth_is_limited(void **state)
{
    struct json_object *o;
    char text[8192] = "{\"a\":";
    memset(text + 5, '[', 2000);
    memset(text + 2005, ']', 2000);
    strcpy(text + 4005, "}\n");
    say(text);
    assert_int_equal(wire_receive(&ours, &o), -EBADMSG);
}

static void length_is_limited(void **state)
{
    struct json_object *o;
    char block[65536];
    int rc = 0;
    memset(block, ' ', sizeof block);
    if (fork() == 0) { /* the socket holds less than a line of the greatest length */
        close(ours.fd);
        while (write(theirs, block, sizeof block) > 0)
            ;
        _exit(0);
    }
    hang_up();
    rc = wire_receive(&ours, &o);
    assert_int_equal(rc, -EBADMSG);
}

static void large_objects_pass(void **state)
{
    struct json_object *sent = json_object_new_object(), *got;
    char *text = calloc(1, 1000001);
    memset(text, 'x', 1000000);
    json_object_object_add(sent, "text", json_object_new_string(text));
    json_object_object_add(sent, "guid", json_object_new_uint64(UINT64_MAX));
    if (fork() == 0) {
        struct wire w;
        close(ours.fd);
        wire_init(&w, theirs);
        _exit(wire_send(&w, sent) != 0);
    }
    json_object_put(sent);
    assert_int_equal(wire_receive(&ours, &got), 0);
    assert_string_equal(json_text(got, "text", ""), text);
    assert_true(json_unsigned(got, "guid") == UINT64_MAX);
    json_object_put(got);
    free(text);
}

static void sending_to_nobody(void **state)
{
    hang_up();
    assert_int_equal(wire_send(&ours, json_object_new_object()), -EPIPE);
}

static void members_of_other_types(void **state)
{
    struct json_object *o = json_tokener_parse(
        "{\"n\": null, \"t\": \"x\", \"i\": -1, \"d\": 1.5, \"b\": true, \"a\": [1, \"y\", null],"
        " \"o\": {}}");
    static const char *const keys[] = {"n", "t", "i", "d", "b", "a", "o", "missing"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *k = keys[i];
        assert_string_equal(json_text(o, k, "-"), *k == 't' ? "x" : "-");
        assert_int_equal(json_number(o, k, 7), *k == 'i' ? -1 : 7);
        assert_int_equal(json_flag(o, k), *k == 'b');
        assert_int_equal(json_count(json_array(o, k)), *k == 'a' ? 3 : 0);
    }
    assert_string_equal(json_item(json_array(o, "a"), 0), "");
    assert_string_equal(json_item(json_array(o, "a"), 1), "y");
    assert_string_equal(json_item(json_array(o, "a"), 2), "");
    assert_string_equal(json_text(json_member(json_member(o, "t"), "x"), "y", "-"), "-");
    json_object_put(o);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_both, disconnect)
    const struct CMUnitTest tests[] = {
        TEST(lines_become_objects),    TEST(an_unfinished_line_is_the_end),
        TEST(other_lines_are_refused), TEST(depth_is_limited),
        TEST(length_is_limited),       TEST(large_objects_pass),
        TEST(sending_to_nobody),       cmocka_unit_test(members_of_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
