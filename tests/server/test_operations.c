/* The operations of the control protocol on a real pool, without a process: a thread serves one end
 * of a socket pair. Mounts would go below the test's own folder. */
#include "../support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "fs/format.h"
#include "fuse/fuse.h"
#include "server/owners_impl.h"
#include "server/server_impl.h"
#include "util/bytes.h"
#include "util/err.h"

static char dir[] = "/tmp/tarn-server-XXXXXX", image[64];
static struct server s;
static struct wire w;
static pthread_t thread;
static int server_fd;
static uid_t peer; /* who asks */

static void *serve(void *arg)
{
    server_serve(&s, server_fd, peer, getgid());
    return NULL;
}

static void begin(void)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    server_fd = fd[1];
    wire_init(&w, fd[0]);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void end(void)
{
    wire_destroy(&w);
    pthread_join(thread, NULL);
}

static int make_pool(void **state)
{
    struct spa_create_args args = {.name = "tank", .npaths = 1, .uid = getuid(), .gid = getgid()};
    dsl_register_format(fs_format);
    if (!mkdtemp(dir))
        return -1;
    snprintf(image, sizeof image, "%s/disk", dir);
    int fd = open(image, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 128 << 20) != 0)
        return -1;
    close(fd);
    args.paths = (const char *const[]){image};
    server_init_locks(&s);
    s.listener = s.log = -1;
    s.altroot = strdup(dir);
    if (pipe2(s.wake, O_CLOEXEC | O_NONBLOCK) != 0 || fuse_server_new(&s.fuse, NULL) != 0)
        return -1;
    peer = geteuid();
    return spa_create(&args, false, NULL, &s.spa);
}

static int remove_pool(void **state)
{
    char command[100];
    mounts_unmount_below(&s, NULL, true, false);
    fuse_server_free(s.fuse);
    if (s.spa)
        spa_close(s.spa, SPA_END_DROP);
    free(s.altroot);
    free(s.warning);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* Asks and gives the last reply; rows (may be NULL) gets all rows. */
static struct json_object *ask_text(const char *request, struct json_object *rows)
{
    struct json_object *reply;
    assert_int_equal(write(w.fd, request, strlen(request)), strlen(request));
    assert_int_equal(write(w.fd, "\n", 1), 1);
    while (wire_receive(&w, &reply) == 0) {
        struct json_object *row = json_member(reply, "row");
        if (!row)
            return reply;
        if (rows)
            json_object_array_add(rows, json_object_get(row));
        json_object_put(reply);
    }
    return NULL;
}

#define ASK(rows, ...)                                                                             \
    ({                                                                                             \
        char text_[2000];                                                                          \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                \
        ask_text(text_, rows);                                                                     \
    })

static void expect_ok(struct json_object *reply)
{
    if (!json_member(reply, "ok"))
        fail_msg("%s", json_object_to_json_string(reply));
    json_object_put(reply);
}

static void expect_error(struct json_object *reply, int err, const char *text)
{
    struct json_object *e = json_member(reply, "error");
    if (!e || json_number(e, "errno", 0) != err || strcmp(json_text(e, "text", ""), text) != 0)
        fail_msg("expected %d %s, got %s", err, text, json_object_to_json_string(reply));
    json_object_put(reply);
}

static void expect_names(struct json_object *rows, const char *names)
{
    char got[2000] = "";
    for (size_t i = 0; i < json_count(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        if (json_member(row, "reclaim")) /* of destroyed snapshots */
            continue;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "",
                 json_text(row, "name", "?"));
    }
    assert_string_equal(got, names);
    json_object_put(rows);
}

#define CREATE(name)                                                                               \
    expect_ok(ASK(NULL, "{\"op\":\"zfs.create\",\"args\":{\"name\":\"%s\"}}", name))

static void a_pool_tells_about_itself(void **state)
{
    struct json_object *rows = json_object_new_array();
    begin();
    struct json_object *reply = ASK(NULL, "{\"op\":\"pool.ping\"}"), *ok = json_member(reply, "ok");
    assert_string_equal(json_text(ok, "name", ""), "tank");
    assert_int_equal(json_number(ok, "pid", 0), getpid());
    json_object_put(reply);
    expect_ok(
        ASK(rows, "{\"op\":\"pool.get\",\"args\":{\"props\":[\"size\",\"health\",\"x:y\"]}}"));
    struct json_object *row = json_object_array_get_idx(rows, 0),
                       *props = json_member(row, "props");
    assert_string_equal(json_text(json_member(props, "size"), "value", ""), "112M");
    assert_string_equal(json_text(json_member(props, "size"), "raw", ""), "117440512");
    assert_string_equal(json_text(json_member(props, "health"), "value", ""), "ONLINE");
    assert_string_equal(json_text(json_member(props, "x:y"), "source", ""), "default");
    json_object_put(rows);
    expect_error(ASK(NULL, "{\"op\":\"pool.get\",\"args\":{\"props\":[\"nosuch\"]}}"), ENOENT,
                 "invalid property 'nosuch'");
    end();
}

static void datasets_come_and_go(void **state)
{
    struct json_object *rows = json_object_new_array();
    begin();
    CREATE("tank/a");
    CREATE("tank/a/b");
    CREATE("tank/c");
    expect_error(ASK(NULL, "{\"op\":\"zfs.create\",\"args\":{\"name\":\"tank/a\"}}"), EEXIST,
                 "dataset already exists");
    expect_ok(ASK(NULL, "{\"op\":\"zfs.snapshot\",\"args\":{\"names\":[\"tank@s\"],"
                        "\"recursive\":true}}"));
    expect_ok(ASK(rows, "{\"op\":\"zfs.list\",\"args\":{\"depth\":-1,\"types\":[\"filesystem\","
                        "\"snapshot\"],\"props\":[\"used\"]}}"));
    expect_names(rows, "tank tank@s tank/a tank/a@s tank/a/b tank/a/b@s tank/c tank/c@s");
    rows = json_object_new_array();
    expect_ok(ASK(rows, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank\",\"recursive\":true,"
                        "\"dry_run\":true}}"));
    expect_names(rows, "tank/c@s tank/c tank/a/b@s tank/a/b tank/a@s tank/a tank@s tank");
    expect_error(ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/a\"}}"), EEXIST,
                 "filesystem has children\nuse '-r' to destroy the following datasets:\n"
                 "tank/a/b@s\ntank/a/b\ntank/a@s");
    expect_ok(
        ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank@s\",\"recursive\":true}}"));
    expect_ok(
        ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/a\",\"recursive\":true}}"));
    expect_ok(ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/c\"}}"));
    rows = json_object_new_array();
    expect_ok(ASK(rows, "{\"op\":\"zfs.list\",\"args\":{\"depth\":-1}}"));
    expect_names(rows, "tank");
    end();
}

static void destroyed(const char *spec, const char *names)
{
    struct json_object *rows = json_object_new_array();
    struct json_object *reply = ASK(rows,
                                    "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"%s\","
                                    "\"dry_run\":true}}",
                                    spec);
    if (*names)
        expect_ok(reply);
    else
        expect_error(reply, ESRCH,
                     "could not find any snapshots to destroy; check snapshot names.");
    expect_names(rows, names);
}

/* What destroying frees takes a while to count: only if it is asked for. */
static void reclaims(const char *spec, bool asked)
{
    struct json_object *rows = json_object_new_array();
    size_t found = 0;
    expect_ok(ASK(rows,
                  "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"%s\",\"dry_run\":true,"
                  "\"reclaim\":%s}}",
                  spec, asked ? "true" : "false"));
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        found += json_member(json_object_array_get_idx(rows, i), "reclaim") != NULL;
    assert_int_equal(found, asked);
    json_object_put(rows);
}

static void snapshots_by_list_and_range(void **state)
{
    begin();
    CREATE("tank/r");
    for (const char *n = "abcd"; *n; n++)
        expect_ok(ASK(NULL, "{\"op\":\"zfs.snapshot\",\"args\":{\"names\":[\"tank/r@%c\"]}}", *n));
    destroyed("tank/r@b%c", "tank/r@b tank/r@c");
    destroyed("tank/r@%b", "tank/r@a tank/r@b");
    destroyed("tank/r@c%", "tank/r@c tank/r@d");
    destroyed("tank/r@%", "tank/r@a tank/r@b tank/r@c tank/r@d");
    destroyed("tank/r@d,a,nosuch,a", "tank/r@a tank/r@d");
    destroyed("tank/r@b%c,d", "tank/r@b tank/r@c tank/r@d");
    destroyed("tank/r@c%b", "");
    destroyed("tank/r@a%nosuch", "");
    destroyed("tank/r@nosuch%d", "");
    destroyed("tank/r@", "");
    destroyed("tank/r@,", "");
    reclaims("tank/r@%", true);
    reclaims("tank/r@%", false);
    expect_ok(
        ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/r\",\"recursive\":true}}"));
    end();
}

#define EXPECT_NAMES(names, ...)                                                                   \
    ({                                                                                             \
        struct json_object *rows_ = json_object_new_array();                                       \
        expect_ok(ASK(rows_, __VA_ARGS__));                                                        \
        expect_names(rows_, names);                                                                \
    })

/* All or nothing: quotas of owners too. */
static void a_bad_value_sets_nothing(void **state)
{
    static const char *const others[] = {
        "\"compression\":\"nonsense\"", "\"a:b\":\"c\",\"sync\":\"no\"", "\"userquota@5\":\"many\"",
        "\"quota\":\"1\"", "\"userused@5\":\"1\""};
    begin();
    CREATE("tank/v");
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct json_object *reply =
            ASK(NULL,
                "{\"op\":\"zfs.set\",\"args\":{\"name\":\"tank/v\",\"props\":"
                "{\"defaultuserquota\":\"1G\",\"userquota@7\":\"1G\",%s}}}",
                others[i]);
        assert_non_null(json_member(reply, "error"));
        json_object_put(reply);
        struct dataset *ds;
        struct owner_property p;
        uint64_t quota = 1;
        assert_int_equal(dataset_hold(spa_dsl(s.spa), "tank/v", &ds), 0);
        assert_true(owner_property_parse("userquota@7", &p));
        assert_int_equal(owner_property_get(ds, &p, &quota), 0);
        assert_int_equal(quota, 0);
        assert_int_equal(prop_get_number(ds, "defaultuserquota"), 0);
        dataset_rele(ds);
    }
    end();
}

static void holds_and_bookmarks(void **state)
{
    begin();
    CREATE("tank/h");
    CREATE("tank/h/k");
    expect_ok(ASK(
        NULL, "{\"op\":\"zfs.snapshot\",\"args\":{\"names\":[\"tank/h@a\"],\"recursive\":true}}"));
    expect_ok(ASK(
        NULL,
        "{\"op\":\"zfs.hold\",\"args\":{\"name\":\"tank/h@a\",\"tag\":\"t\",\"recursive\":true}}"));
    expect_error(ASK(NULL, "{\"op\":\"zfs.hold\",\"args\":{\"name\":\"tank/h@a\",\"tag\":\"t\"}}"),
                 EEXIST, "cannot hold snapshot 'tank/h@a': tag already exists on this dataset");
    EXPECT_NAMES("tank/h@a tank/h/k@a",
                 "{\"op\":\"zfs.holds\",\"args\":{\"name\":\"tank/h@a\",\"recursive\":true}}");
    expect_error(
        ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/h@a\"}}"), EBUSY,
        "cannot destroy snapshot tank/h@a: it's being held. Run 'zfs holds -r tank/h@a' to see "
        "holders.");
    expect_ok(
        ASK(NULL,
            "{\"op\":\"zfs.bookmark\",\"args\":{\"name\":\"tank/h#m\",\"source\":\"tank/h@a\"}}"));
    expect_ok(
        ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/h@a\",\"defer\":true}}"));
    expect_ok(ASK(NULL, "{\"op\":\"zfs.release\",\"args\":{\"name\":\"tank/"
                        "h@a\",\"tag\":\"t\",\"recursive\":true}}"));
    EXPECT_NAMES("tank/h#m tank/h/k@a",
                 "{\"op\":\"zfs.list\",\"args\":{\"names\":[\"tank/h\"],\"depth\":-1,\"types\":"
                 "[\"snapshot\",\"bookmark\"]}}");
    expect_ok(ASK(
        NULL, "{\"op\":\"zfs.clone\",\"args\":{\"origin\":\"tank/h/k@a\",\"name\":\"tank/h/c\"}}"));
    EXPECT_NAMES("tank/h/c tank/h/k@a tank/h/k tank/h",
                 "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/h\",\"recursive\":true}}");
    end();
}

static void others_may_only_read(void **state)
{
    static const char *const forbidden[] = {"pool.set",     "pool.command", "pool.sync",
                                            "pool.export",  "pool.destroy", "zfs.create",
                                            "zfs.destroy",  "zfs.set",      "zfs.inherit",
                                            "zfs.snapshot", "zfs.mount",    "zfs.unmount",
                                            "zfs.clone",    "zfs.promote",  "zfs.rename",
                                            "zfs.rollback", "zfs.bookmark", "zfs.load_key",
                                            "zfs.allow",    "zfs.unallow",  "zfs.unload_key"};
    begin();
    expect_ok(ASK(NULL, "{\"op\":\"zfs.create\",\"args\":{\"name\":\"tank/mine\"}}"));
    expect_ok(ASK(NULL, "{\"op\":\"zfs.snapshot\",\"args\":{\"names\":[\"tank/mine@s\"]}}"));
    end();
    peer = geteuid() + 1;
    begin();
    expect_ok(ASK(NULL, "{\"op\":\"pool.status\"}"));
    expect_ok(ASK(NULL, "{\"op\":\"zfs.list\"}"));
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        expect_error(ASK(NULL,
                         "{\"op\":\"%s\",\"args\":{\"name\":\"%s\",\"names\":[\"tank/mine@s\"],"
                         "\"props\":{\"a:b\":\"off\"},\"prop\":\"atime\",\"to\":"
                         "[{\"kind\":\"everyone\"}],\"perms\":[\"hold\"],\"origin\":\"tank/mine@s\","
                         "\"source\":\"tank/mine@s\"%s}}",
                         forbidden[i],
                         strcmp(forbidden[i], "zfs.rollback") == 0   ? "tank/mine@s"
                         : strcmp(forbidden[i], "zfs.bookmark") == 0 ? "tank/mine#m"
                                                                     : "tank/mine",
                         strcmp(forbidden[i], "zfs.rename") == 0 ? ",\"to\":\"tank/other\"" : ""),
                     EPERM, "permission denied");
    /* Nothing is shown on the way to a refusal, and what changed nothing gives nothing to record. */
    struct json_object *rows = json_object_new_array();
    expect_error(ASK(rows, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank\",\"clones\":true,"
                           "\"dry_run\":true}}"),
                 EPERM, "permission denied");
    expect_error(ASK(rows, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/mine@s\",\"dry_run\":true}}"),
                 EPERM, "permission denied");
    assert_int_equal(json_count(rows), 0);
    json_object_put(rows);
    expect_error(ASK(NULL, "{\"op\":\"zfs.set\",\"args\":{\"name\":\"tank/mine\",\"props\":{}}}"), EINVAL,
                 "no property is named");
    expect_error(ASK(NULL, "{\"op\":\"pool.command\",\"args\":{\"text\":\"zfs forged\"}}"), EPERM,
                 "permission denied");
    end();
    peer = geteuid();
    begin();
    expect_ok(ASK(NULL, "{\"op\":\"zfs.destroy\",\"args\":{\"name\":\"tank/mine\",\"clones\":true}}"));
    end();
}

/* ---- Anything may be asked: the process must survive it ---- */

static const char *const operations[] = {"pool.ping",
                                         "pool.status",
                                         "pool.get",
                                         "pool.set",
                                         "pool.history",
                                         "pool.command",
                                         "pool.sync",
                                         "zfs.list",
                                         "zfs.create",
                                         "zfs.destroy",
                                         "zfs.set",
                                         "zfs.inherit",
                                         "zfs.snapshot",
                                         "zfs.unmount",
                                         "zfs.mounts",
                                         "zfs.allow",
                                         "zfs.unallow",
                                         "zfs.allowed",
                                         "nosuch",
                                         ""};
static const char *const keys[] = {
    "name",     "names",       "props",       "depth",   "types", "user",     "dry_run",
    "exact",    "recursive",   "force",       "parents", "prop",  "received", "text",
    "internal", "keep_mounts", "compression", "quota",   "a:b",   "comment",
    "to",       "perms",       "kind",        "who",     "local", "descendents"};
static const char *const texts[] = {
    "",        "tank", "tank/x",   "tank/x@s", "tank@%",   "tank/y/z", "all",
    "used",    "name", "snapshot", "off",      "10M",      "@",        "/",
    "tank//x", "..",   "a:b",      "none",     "\xff\xfe", "mounted",  "creation",
    "user",    "everyone", "set",  "@set",     "0",        "hold"};

static struct json_object *random_value(struct env *e, int depth)
{
    struct json_object *o;
    switch (test_below(e, depth < 4 ? 8 : 6)) {
    case 0:
        return NULL;
    case 1:
        return json_object_new_boolean(test_below(e, 2));
    case 2:
        return json_object_new_int64((int64_t)e->random(e));
    case 3:
        return json_object_new_double(1.5);
    case 6:
        o = json_object_new_array();
        for (uint64_t n = test_below(e, 4); n > 0; n--)
            json_object_array_add(o, random_value(e, depth + 1));
        return o;
    case 7:
        o = json_object_new_object();
        for (uint64_t n = test_below(e, 4); n > 0; n--)
            json_object_object_add(o, keys[test_below(e, ARRAY_LEN(keys))],
                                   random_value(e, depth + 1));
        return o;
    default:
        return json_object_new_string(texts[test_below(e, ARRAY_LEN(texts))]);
    }
}

static void anything_is_answered(void **state)
{
    struct env e = test_env();
    begin();
    for (int i = 0; i < 2000; i++) {
        struct json_object *req = json_object_new_object(), *args = json_object_new_object();
        for (uint64_t n = test_below(&e, 6); n > 0; n--)
            json_object_object_add(args, keys[test_below(&e, ARRAY_LEN(keys))],
                                   random_value(&e, 0));
        json_object_object_add(
            req, "op", json_object_new_string(operations[test_below(&e, ARRAY_LEN(operations))]));
        if (test_below(&e, 20) == 0) {
            json_object_put(args);
            args = random_value(&e, 0);
        }
        json_object_object_add(req, "args", args);
        struct json_object *reply =
            ask_text(json_object_to_json_string_ext(req, JSON_C_TO_STRING_PLAIN), NULL);
        if (!json_member(reply, "ok") && !json_member(reply, "error"))
            fail_msg("no answer to %s", json_object_to_json_string(req));
        json_object_put(reply);
        json_object_put(req);
    }
    end();
}

static void the_end(void **state)
{
    begin();
    expect_ok(ASK(NULL, "{\"op\":\"pool.export\",\"args\":{\"command\":\"zpool export tank\"}}"));
    assert_null(s.spa);
    assert_int_equal(s.end, SERVER_ENDED);
    expect_error(ASK(NULL, "{\"op\":\"pool.status\"}"), ENOENT, "no such pool");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_tells_about_itself),   cmocka_unit_test(datasets_come_and_go),
        cmocka_unit_test(snapshots_by_list_and_range), cmocka_unit_test(a_bad_value_sets_nothing),
        cmocka_unit_test(holds_and_bookmarks),         cmocka_unit_test(others_may_only_read),
        cmocka_unit_test(anything_is_answered),        cmocka_unit_test(the_end),
    };
    return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
