/* Each allocation fails in turn: the call says so, a second try works, and what is on disk
 * afterwards is whole. The txg engine's thread rests meanwhile. */
#include "fs_test.h"

#include <linux/falloc.h>
#include <linux/fs.h>

#include "../support/alloc.h"

#define MORE_THAN_ENOUGH 3000

struct job {
    struct fixture f;
    uint64_t dir, file, acl_dir;
    struct fs_attr a;
};

typedef int op_fn(struct job *j);

static unsigned char data[200000];

static int op_create(struct job *j)
{
    struct fs_new n = {.mode = S_IFREG | 0644};
    return fs_create(j->f.fs, j->dir, "file", &n, &j->a);
}

static int op_mkdir(struct job *j)
{
    struct fs_new n = {.mode = S_IFDIR | 0755};
    return fs_create(j->f.fs, j->dir, "a name that is too long for a microzap, which makes it fat",
                     &n, &j->a);
}

static int op_symlink(struct job *j)
{
    char target[1000];
    struct fs_new n = {.mode = S_IFLNK | 0777, .target = target};
    memset(target, 't', sizeof target);
    target[sizeof target - 1] = 0;
    return fs_create(j->f.fs, j->dir, "symlink", &n, &j->a);
}

static int op_inherit(struct job *j)
{
    struct fs_new n = {.mode = S_IFDIR | 0770};
    return fs_create(j->f.fs, j->acl_dir, "sub", &n, &j->a);
}

static int op_tmpfile(struct job *j)
{
    struct fs_new n = {.mode = S_IFREG | 0600};
    return fs_tmpfile(j->f.fs, j->dir, &n, &j->a);
}

static int op_link_tmpfile(struct job *j)
{
    return fs_link(j->f.fs, j->a.ino, j->dir, "named", &j->a);
}

static int op_write(struct job *j)
{
    ssize_t n = fs_write(j->f.fs, j->file, 0, data, sizeof data, 0);
    return n == sizeof data ? 0 : n < 0 ? n : -EIO;
}

static int op_append(struct job *j)
{
    ssize_t n = fs_write(j->f.fs, j->file, 0, data, 1000, FS_WRITE_APPEND);
    return n == 1000 ? 0 : n < 0 ? n : -EIO;
}

static int op_read(struct job *j)
{
    static unsigned char got[sizeof data];
    ssize_t n = fs_read(j->f.fs, j->file, 0, got, sizeof got);
    return n < 0 ? n : 0;
}

static int op_truncate(struct job *j)
{
    struct fs_setattr s = {.mask = FS_SET_SIZE, .size = 1000};
    return fs_setattr(j->f.fs, j->file, &s, &j->a);
}

static int op_chmod(struct job *j)
{
    struct fs_setattr s = {.mask = FS_SET_MODE | FS_SET_UID, .mode = 0604, .uid = 5};
    return fs_setattr(j->f.fs, j->file, &s, &j->a);
}

static int op_punch(struct job *j)
{
    return fs_fallocate(j->f.fs, j->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 140000);
}

static int op_xattr(struct job *j)
{
    return fs_setxattr(j->f.fs, j->file, "user.small", data, 100, 0, false);
}

static int op_xattr_spill(struct job *j)
{
    return fs_setxattr(j->f.fs, j->file, "user.spill", data, 5000, 0, false);
}

static int op_xattr_dir(struct job *j)
{
    return fs_setxattr(j->f.fs, j->file, "user.large", data, 50000, 0, false);
}

static int op_getxattr(struct job *j)
{
    static char got[60000];
    ssize_t n = fs_getxattr(j->f.fs, j->file, "user.large", got, sizeof got);
    return n < 0 ? n : 0;
}

static int op_removexattr(struct job *j)
{
    int rc = fs_removexattr(j->f.fs, j->file, "user.spill");
    return rc == -ENODATA ? 0 : rc; /* the first try had got so far */
}

static int op_link(struct job *j)
{
    return fs_link(j->f.fs, j->file, j->acl_dir, "link", &j->a);
}

static int op_rename(struct job *j)
{
    return fs_rename(j->f.fs, j->dir, "file", j->acl_dir, "moved", 0);
}

static int op_rename_over(struct job *j)
{
    return fs_rename(j->f.fs, j->dir, "symlink", j->dir, "named", 0);
}

static int op_exchange(struct job *j)
{
    return fs_rename(j->f.fs, j->acl_dir, "moved", j->dir, "named", RENAME_EXCHANGE);
}

static int op_unlink(struct job *j)
{
    return fs_unlink(j->f.fs, j->acl_dir, "link");
}

static int op_rmdir(struct job *j)
{
    return fs_rmdir(j->f.fs, j->acl_dir, "sub");
}

struct count {
    unsigned entries, dirs;
};

static bool count(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                  uint64_t next, const struct fs_attr *attr)
{
    struct count *c = arg;
    if (name[0] != '.') {
        c->entries++;
        c->dirs += type == 4;
    }
    return true;
}

static int op_list(struct job *j)
{
    struct count c = {0};
    return fs_readdir(j->f.fs, j->dir, 0, false, count, &c);
}

static void check_dir(struct job *j, uint64_t dir)
{
    struct count c = {0};
    assert_int_equal(fs_readdir(j->f.fs, dir, 0, false, count, &c), 0);
    struct fs_attr a = attr_of(&j->f, dir);
    assert_int_equal(a.size, 2 + c.entries);
    assert_int_equal(a.nlink, 2 + c.dirs);
}

static void try_all(struct job *j, const char *name, op_fn *op)
{
    int rc = -1;
    for (unsigned at = 1; rc != 0; at += 1 + at / 100) {
        assert_true(at < MORE_THAN_ENOUGH);
        alloc_fail_at(at);
        rc = op(j);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        if (rc != 0 && !(rc == -ENOMEM && failed))
            fail_msg("%s, allocation %u fails: %d", name, at, rc);
        check_dir(j, j->dir);
        check_dir(j, j->acl_dir);
    }
}

static void set_default_acl(struct job *j)
{
    static const unsigned entries[][3] = {
        {1, 7, -1u}, {2, 6, 1234}, {4, 5, -1u}, {16, 7, -1u}, {32, 0, -1u}};
    unsigned char acl[44];
    put_le32(acl, 2);
    for (unsigned i = 0; i < ARRAY_LEN(entries); i++) {
        put_le16(acl + 4 + 8 * i, entries[i][0]);
        put_le16(acl + 6 + 8 * i, entries[i][1]);
        put_le32(acl + 8 + 8 * i, entries[i][2]);
    }
    assert_int_equal(
        fs_setxattr(j->f.fs, j->acl_dir, "system.posix_acl_default", acl, sizeof acl, 0, false), 0);
}

static void test_nomem(void **state)
{
    static const struct {
        const char *name;
        op_fn *fn;
    } ops[] = {{"create", op_create},
               {"mkdir", op_mkdir},
               {"symlink", op_symlink},
               {"inherit", op_inherit},
               {"tmpfile", op_tmpfile},
               {"link of tmpfile", op_link_tmpfile},
               {"write", op_write},
               {"append", op_append},
               {"read", op_read},
               {"punch", op_punch},
               {"xattr", op_xattr},
               {"spilled xattr", op_xattr_spill},
               {"large xattr", op_xattr_dir},
               {"getxattr", op_getxattr},
               {"chmod", op_chmod},
               {"truncate", op_truncate},
               {"removexattr", op_removexattr},
               {"link", op_link},
               {"rename", op_rename},
               {"rename over", op_rename_over},
               {"exchange", op_exchange},
               {"list", op_list},
               {"unlink", op_unlink},
               {"rmdir", op_rmdir}};
    static struct job j;
    fixture_new(&j.f, &test_props, true);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = i * 7 >> 2;
    j.dir = make_node(&j.f, FS_ROOT_INO, "dir", S_IFDIR | 0755).ino;
    j.acl_dir = make_node(&j.f, FS_ROOT_INO, "acl", S_IFDIR | 0755).ino;
    j.file = make_node(&j.f, j.dir, "data", S_IFREG | 0644).ino;
    set_default_acl(&j);
    fixture_pause(&j.f);
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        try_all(&j, ops[i].name, ops[i].fn);
    assert_int_equal(fs_readdir(j.f.fs, j.dir, 0, false, count, &(struct count){0}), 0);
    fixture_resume(&j.f);
    fixture_remount(&j.f, &test_options);
    check_dir(&j, j.dir);
    check_dir(&j, j.acl_dir);
    assert_int_equal(attr_of(&j.f, j.file).mode, S_IFREG | 0604);
    fixture_free(&j.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nomem)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
