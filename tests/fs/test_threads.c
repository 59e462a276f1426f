/*
 * Many threads on a few directories: whatever they do to each other, no call fails with an error
 * that cannot be explained, nobody waits for ever, and afterwards counts and contents agree.
 */
#include "fs_test.h"

#include <linux/fs.h>

#define THREADS 6
#define DIRS    5
#define STEPS   1500
#define NAMES   8

struct shared {
    struct fixture f;
    uint64_t dir[DIRS];
    uint64_t log; /* a file that all append to */
    uint64_t seed;
    _Atomic uint64_t appended;
};

struct worker {
    struct shared *s;
    unsigned id;
    struct env env;
};

static void expect(int rc, const int *allowed, const char *what)
{
    for (; *allowed; allowed++)
        if (rc == *allowed)
            return;
    if (rc < 0)
        fail_msg("%s: %d", what, rc);
}
#define EXPECT(rc, what, ...) expect(rc, (const int[]){__VA_ARGS__, 0}, what)

static const char *name_of(struct worker *w, char *buf)
{
    sprintf(buf, "n%u", (unsigned)test_below(&w->env, NAMES));
    return buf;
}

static uint64_t some_dir(struct worker *w)
{
    return w->s->dir[test_below(&w->env, DIRS)];
}

static void create(struct worker *w)
{
    char name[16], byte = 'a';
    struct fs_new n = {.mode = test_below(&w->env, 4) ? S_IFREG | 0644 : S_IFDIR | 0755};
    struct fs_attr a;
    int rc = fs_create(w->s->f.fs, some_dir(w), name_of(w, name), &n, &a);
    EXPECT(rc, "create", -EEXIST, -ENOENT);
    if (rc < 0)
        return;
    if (S_ISREG(n.mode)) {
        uint64_t off = test_below(&w->env, 300000);
        assert_int_equal(fs_write(w->s->f.fs, a.ino, off, &byte, 1, 0), 1);
        assert_int_equal(fs_read(w->s->f.fs, a.ino, off, &byte, 1), 1);
        assert_int_equal(byte, 'a');
    }
    fs_forget(w->s->f.fs, a.ino, 1);
}

static void destroy(struct worker *w)
{
    char name[16];
    EXPECT(fs_unlink(w->s->f.fs, some_dir(w), name_of(w, name)), "unlink", -ENOENT, -EISDIR);
    EXPECT(fs_rmdir(w->s->f.fs, some_dir(w), name_of(w, name)), "rmdir", -ENOENT, -ENOTDIR,
           -ENOTEMPTY);
}

static void move(struct worker *w)
{
    static const unsigned flags[] = {0, 0, RENAME_EXCHANGE, RENAME_NOREPLACE};
    char name[16], newname[16];
    EXPECT(fs_rename(w->s->f.fs, some_dir(w), name_of(w, name), some_dir(w), name_of(w, newname),
                     flags[test_below(&w->env, 4)]),
           "rename", -ENOENT, -EISDIR, -ENOTDIR, -ENOTEMPTY, -EINVAL, -EEXIST);
}

static void hard_link(struct worker *w)
{
    char name[16];
    struct fs_attr a, b;
    if (fs_lookup(w->s->f.fs, some_dir(w), name_of(w, name), &a) < 0)
        return;
    int rc = fs_link(w->s->f.fs, a.ino, some_dir(w), name_of(w, name), &b);
    EXPECT(rc, "link", -EEXIST, -EPERM, -ENOENT);
    fs_forget(w->s->f.fs, a.ino, 1 + (rc == 0));
}

static bool count(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                  uint64_t next, const struct fs_attr *attr)
{
    struct worker *w = arg;
    if (attr && name[0] != '.')
        fs_forget(w->s->f.fs, ino, 0); /* any number, also of what is not there */
    return true;
}

static bool list_forget(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                        uint64_t next, const struct fs_attr *attr)
{
    uint64_t *inos = arg;
    if (attr && name[0] != '.' && inos[0] < 99)
        inos[++inos[0]] = ino;
    return inos[0] < 99;
}

static void list(struct worker *w)
{
    uint64_t inos[100] = {0};
    assert_int_equal(fs_readdir(w->s->f.fs, some_dir(w), 0, false, count, w), 0);
    assert_int_equal(fs_readdir(w->s->f.fs, some_dir(w), 0, true, list_forget, inos), 0);
    for (uint64_t i = 1; i <= inos[0]; i++)
        fs_forget(w->s->f.fs, inos[i], 1);
}

static void append(struct worker *w)
{
    char line[16];
    memset(line, 'A' + w->id, 15);
    line[15] = '\n';
    assert_int_equal(fs_write(w->s->f.fs, w->s->log, 0, line, 16, FS_WRITE_APPEND), 16);
    w->s->appended += 16;
}

static void attributes(struct worker *w)
{
    char name[16], value[600];
    struct fs_attr a, b;
    if (fs_lookup(w->s->f.fs, some_dir(w), name_of(w, name), &a) < 0)
        return;
    struct fs_setattr s = {.mask = FS_SET_MODE | FS_SET_MTIME_NOW,
                           .mode = test_below(&w->env, 01000)};
    assert_int_equal(fs_setattr(w->s->f.fs, a.ino, &s, &b), 0);
    memset(value, w->id, sizeof value);
    size_t n = test_below(&w->env, sizeof value);
    assert_int_equal(fs_setxattr(w->s->f.fs, a.ino, "user.w", value, n, 0, false), 0);
    ssize_t got = fs_getxattr(w->s->f.fs, a.ino, "user.w", value, sizeof value);
    assert_true(got >= 0);
    for (ssize_t i = 1; i < got; i++)
        assert_int_equal(value[i], value[0]);
    assert_int_equal(fs_getattr(w->s->f.fs, a.ino, &b), 0);
    if (test_below(&w->env, 100) == 0)
        assert_int_equal(fs_fsync(w->s->f.fs, a.ino, false), 0);
    fs_forget(w->s->f.fs, a.ino, 1);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    static void (*const ops[])(struct worker *) = {create,    create, create, destroy,   move,
                                                   hard_link, list,   append, attributes};
    for (int i = 0; i < STEPS; i++)
        ops[test_below(&w->env, ARRAY_LEN(ops))](w);
    return NULL;
}

struct totals {
    struct shared *s;
    unsigned entries, dirs;
};

static bool total(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                  uint64_t next, const struct fs_attr *attr)
{
    struct totals *t = arg;
    if (name[0] != '.') {
        t->entries++;
        t->dirs += type == 4;
    }
    return true;
}

static void check_dir(struct shared *s, uint64_t ino)
{
    struct totals t = {s, 0, 0};
    assert_int_equal(fs_readdir(s->f.fs, ino, 0, false, total, &t), 0);
    struct fs_attr a = attr_of(&s->f, ino);
    assert_int_equal(a.size, 2 + t.entries);
    assert_int_equal(a.nlink, 2 + t.dirs);
}

static void test_threads(void **state)
{
    struct env env = test_env();
    struct shared *s = calloc(1, sizeof *s);
    struct worker w[THREADS];
    pthread_t t[THREADS];
    fixture_new(&s->f, &test_props, true);
    s->f.p.t.env.now_ns = env.now_ns;
    /* Nested, so that moves go up and down. */
    s->dir[0] = FS_ROOT_INO;
    for (int i = 1; i < DIRS; i++) {
        char name[16];
        sprintf(name, "keep%d", i);
        s->dir[i] = make_node(&s->f, s->dir[i / 2], name, S_IFDIR | 0755).ino;
    }
    s->log = make_node(&s->f, FS_ROOT_INO, "log", S_IFREG | 0644).ino;
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.s = s, .id = i};
        env_init_seeded(&w[i].env, env.random(&env));
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < DIRS; i++)
        check_dir(s, s->dir[i]);
    /* Every line whole. */
    size_t n = s->appended;
    char *log = malloc(n);
    assert_int_equal(attr_of(&s->f, s->log).size, n);
    assert_int_equal(fs_read(s->f.fs, s->log, 0, log, n), n);
    for (size_t i = 0; i < n; i += 16) {
        assert_int_equal(log[i + 15], '\n');
        for (int k = 1; k < 15; k++)
            assert_int_equal(log[i + k], log[i]);
    }
    free(log);
    fixture_remount(&s->f, &test_options);
    for (int i = 0; i < DIRS; i++)
        check_dir(s, s->dir[i]);
    fixture_free(&s->f);
    free(s);
}

/* #15526: who asks for data right after a write is never told that there is a hole. */
static void *seeker(void *arg)
{
    struct worker *w = arg;
    static const char block[4096] = {1};
    for (int i = 0; i < 200; i++) {
        char name[32];
        struct fs_new n = {.mode = S_IFREG | 0644};
        struct fs_attr a;
        uint64_t at;
        sprintf(name, "s%u-%d", w->id, i);
        assert_int_equal(fs_create(w->s->f.fs, FS_ROOT_INO, name, &n, &a), 0);
        assert_int_equal(fs_write(w->s->f.fs, a.ino, 0, block, sizeof block, 0), sizeof block);
        for (int k = 0; k < 20; k++) {
            assert_int_equal(fs_seek(w->s->f.fs, a.ino, 0, SEEK_DATA, &at), 0);
            assert_int_equal(at, 0);
            assert_int_equal(fs_seek(w->s->f.fs, a.ino, 0, SEEK_HOLE, &at), 0);
            assert_int_equal(at, sizeof block);
        }
        fs_forget(w->s->f.fs, a.ino, 1);
    }
    return NULL;
}

static void test_seek_race(void **state)
{
    struct shared *s = calloc(1, sizeof *s);
    struct worker w[THREADS];
    pthread_t t[THREADS];
    fixture_new(&s->f, &test_props, true);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.s = s, .id = i};
        assert_int_equal(pthread_create(&t[i], NULL, seeker, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    fixture_free(&s->f);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_seek_race)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
