/* The client against a scripted server: a thread that answers each request with lines it was given.
 */
#include "../support/test.h"

#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/client.h"
#include "server/json.h"
#include "server/rundir_impl.h"
#include "util/err.h"

static char dir[300];
static int listener = -1;
static const char *script; /* all that is ever answered to one request */
static char asked[65536];
static pthread_t server;

static void *serve(void *arg)
{
    int fd = accept(listener, NULL, NULL);
    ssize_t n = read(fd, asked, sizeof asked - 1);
    asked[n > 0 ? n : 0] = 0;
    if (script && write(fd, script, strlen(script)) < 0)
        abort();
    close(fd);
    return NULL;
}

static void start(const char *pool, const char *answer)
{
    char path[1024];
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(rundir_path(dir, pool, "sock", path, sizeof path), 0);
    assert_int_equal(rundir_bind(listener, dir, path), 0);
    assert_int_equal(listen(listener, 5), 0);
    script = answer;
    if (answer)
        assert_int_equal(pthread_create(&server, NULL, serve, NULL), 0);
}

static void stop(const char *pool)
{
    char path[1024];
    if (script)
        pthread_join(server, NULL);
    close(listener);
    rundir_path(dir, pool, "sock", path, sizeof path);
    unlink(path);
}

static int make_dir(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/tarn-client-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    return setenv("TARN_RUN_DIR", dir, 1);
}

static int remove_dir(void **state)
{
    return rmdir(dir);
}

struct rows {
    int n, stop_at;
    char text[1000];
};

static int take(void *arg, struct json_object *row)
{
    struct rows *r = arg;
    strncat(r->text, json_text(row, "v", "?"), sizeof r->text - strlen(r->text) - 1);
    return ++r->n == r->stop_at ? -ECANCELED : 0;
}

static void rows_and_a_result(void **state)
{
    struct client *c;
    struct rows r = {0};
    struct json_object *args = json_object_new_object(), *ok = NULL;
    start("tank", "{\"progress\": {\"done\": 1}}\n{\"row\": {\"v\": \"a\"}}\n"
                  "{\"row\": {\"v\": \"b\"}}\n{\"ok\": {\"n\": 5}}\n");
    assert_int_equal(client_open(&c, "tank"), 0);
    json_object_object_add(args, "x", json_object_new_int(1));
    assert_int_equal(client_call(c, "zfs.list", args, take, &r, &ok), 0);
    assert_string_equal(r.text, "ab");
    assert_int_equal(json_number(ok, "n", 0), 5);
    json_object_put(ok);
    client_close(c);
    stop("tank");
    assert_string_equal(asked, "{\"tarn\":1,\"op\":\"zfs.list\",\"args\":{\"x\":1}}\n");
}

static void errors_with_their_sentence(void **state)
{
    struct client *c;
    start("tank", "{\"error\": {\"errno\": 16, \"text\": \"dataset is busy\"}}\n");
    assert_int_equal(client_open(&c, "tank"), 0);
    int rc = client_call(c, "zfs.destroy", NULL, NULL, NULL, NULL);
    assert_int_equal(rc, -EBUSY);
    assert_string_equal(err_text(rc), "dataset is busy");
    client_close(c);
    stop("tank");
}

static void strange_errors(void **state)
{
    static const char *const answers[] = {"{\"error\": {}}\n", "{\"error\": {\"errno\": -5}}\n",
                                          "{\"error\": {\"errno\": \"x\", \"text\": 5}}\n"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct client *c;
        start("tank", answers[i]);
        assert_int_equal(client_open(&c, "tank"), 0);
        assert_int_equal(client_call(c, "x", NULL, NULL, NULL, NULL), -EIO);
        client_close(c);
        stop("tank");
    }
}

static void a_server_that_hangs(void **state)
{
    struct client *c;
    start("tank", NULL); /* takes the connection, and nobody reads from it */
    assert_int_equal(client_open(&c, "tank"), 0);
    client_limit(c, 1);
    int rc = client_call(c, "pool.ping", NULL, NULL, NULL, NULL);
    assert_int_equal(rc, -ETIMEDOUT);
    assert_string_equal(err_text(rc), "the pool process does not answer");
    client_close(c);
    stop("tank");
}

static void a_server_that_goes_away(void **state)
{
    static const char *const answers[] = {"", "{\"row\": {\"v\": \"a\"}}\n",
                                          "{\"ok\":", "nonsense\n", "{\"unknown\": 1}\n"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct client *c;
        struct rows r = {0};
        start("tank", answers[i]);
        assert_int_equal(client_open(&c, "tank"), 0);
        int rc = client_call(c, "x", NULL, take, &r, NULL);
        assert_int_equal(rc, -EPIPE);
        assert_string_equal(err_text(rc), "the pool process went away");
        client_close(c);
        stop("tank");
    }
}

static void a_row_function_can_stop(void **state)
{
    struct client *c;
    struct rows r = {.stop_at = 1};
    start("tank", "{\"row\": {\"v\": \"a\"}}\n{\"row\": {\"v\": \"b\"}}\n{\"ok\": {}}\n");
    assert_int_equal(client_open(&c, "tank"), 0);
    assert_int_equal(client_call(c, "x", NULL, take, &r, NULL), -ECANCELED);
    assert_string_equal(r.text, "a");
    client_close(c);
    stop("tank");
}

static bool exists(const char *name)
{
    char path[1024];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

static void no_server(void **state)
{
    struct client *c;
    char path[1024];
    assert_int_equal(client_open(&c, "nosuch"), -ENOENT);
    /* A killed process leaves its socket; who finds it removes it. */
    start("dead", NULL);
    close(listener);
    assert_true(exists("dead.sock"));
    int rc = client_open(&c, "dead");
    assert_int_equal(rc, -ENOENT);
    assert_string_equal(err_text(rc), "no such pool");
    assert_false(exists("dead.sock"));
    snprintf(path, sizeof path, "%s/dead.sock", dir);
    unlink(path);
}

static void all_pools(void **state)
{
    char **names;
    size_t n;
    static const char *const pools[] = {"two", "a pool", "three.x"};
    int fd[3];
    for (int i = 0; i < 3; i++) {
        start(pools[i], NULL);
        fd[i] = listener;
    }
    start("dead", NULL);
    close(listener);
    assert_int_equal(client_pools(&names, &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "a pool");
    assert_string_equal(names[1], "three.x");
    assert_string_equal(names[2], "two");
    assert_false(exists("dead.sock"));
    for (int i = 0; i < 3; i++) {
        free(names[i]);
        listener = fd[i];
        stop(pools[i]);
    }
    free(names);
}

/* Longer than the address of a socket can be. */
static void long_paths(void **state)
{
    char pool[201], before[300];
    struct client *c;
    snprintf(before, sizeof before, "%s", dir);
    assert_true(strlen(dir) + 1 + 150 < sizeof dir);
    memset(dir + strlen(before), 'd', 151); /* what follows is zeros */
    dir[strlen(before)] = '/';
    assert_int_equal(mkdir(dir, 0700), 0);
    setenv("TARN_RUN_DIR", dir, 1);
    memset(pool, 'p', 200);
    pool[200] = 0;
    start(pool, "{\"ok\": {}}\n");
    assert_int_equal(client_open(&c, pool), 0);
    assert_int_equal(client_call(c, "x", NULL, NULL, NULL, NULL), 0);
    client_close(c);
    stop(pool);
    rmdir(dir);
    snprintf(dir, sizeof dir, "%s", before);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(rows_and_a_result),
        TEST(errors_with_their_sentence),
        TEST(strange_errors),
        TEST(a_server_that_hangs),
        TEST(a_server_that_goes_away),
        TEST(a_row_function_can_stop),
        TEST(no_server),
        TEST(all_pools),
        TEST(long_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
