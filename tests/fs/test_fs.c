/* Every call of fs.h at least once, with its errors, on a pool in memory. */
#include "fs_test.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/xattr.h>

static void test_format(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = attr_of(&f, FS_ROOT_INO);
    assert_int_equal(a.mode, S_IFDIR | 0755);
    assert_int_equal(a.uid, 1000);
    assert_int_equal(a.gid, 100);
    assert_int_equal(a.nlink, 2);
    assert_int_equal(a.size, 2);
    assert_true(a.gen != 0 && a.crtime.tv_sec != 0);
    struct fs_attr up;
    assert_int_equal(fs_parent(f.fs, FS_ROOT_INO, &up), 0);
    assert_int_equal(up.ino, a.ino);
    fixture_remount(&f, &test_options);
    assert_int_equal(attr_of(&f, FS_ROOT_INO).ino, a.ino);
    fixture_free(&f);
}

static void test_create(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr d = make_node(&f, FS_ROOT_INO, "dir", S_IFDIR | 0750);
    assert_int_equal(d.mode, S_IFDIR | 0750);
    assert_int_equal(d.nlink, 2);
    struct fs_attr a = make_node(&f, d.ino, "file", S_IFREG | 04711);
    assert_int_equal(a.mode, S_IFREG | 04711);
    assert_int_equal(a.nlink, 1);
    assert_int_equal(a.size, 0);
    make_node(&f, d.ino, "fifo", S_IFIFO | 0600);
    make_node(&f, d.ino, "sock", S_IFSOCK | 0600);
    struct fs_attr l = make_node(&f, d.ino, "link", S_IFLNK | 0777);
    char target[64];
    assert_int_equal(l.size, 8);
    assert_int_equal(fs_readlink(f.fs, l.ino, target, sizeof target), 8);
    assert_memory_equal(target, "to/where", 8);
    assert_int_equal(fs_readlink(f.fs, a.ino, target, sizeof target), -EINVAL);

    struct fs_new n = {.mode = S_IFBLK | 0640,
                       .rdev = (70000 & 0xff) | 259 << 8 | (70000 & ~0xff) << 12};
    struct fs_attr b;
    assert_int_equal(fs_create(f.fs, d.ino, "blk", &n, &b), 0);
    assert_int_equal(b.rdev, n.rdev);
    assert_int_equal(fs_create(f.fs, d.ino, "blk", &n, &b), -EEXIST);
    assert_int_equal(fs_create(f.fs, a.ino, "x", &n, &b), -ENOTDIR);
    assert_int_equal(fs_create(f.fs, 999999, "x", &n, &b), -ENOENT);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, ".zfs", &n, &b), -EPERM);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "a/b", &n, &b), -EINVAL);
    char name[300];
    memset(name, 'n', sizeof name);
    name[256] = 0;
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, name, &n, &b), -ENAMETOOLONG);
    name[255] = 0;
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, name, &n, &b), 0);

    /* umask, and a setgid directory's group. */
    n = (struct fs_new){.mode = S_IFREG | 0666, .umask = 027, .uid = 5, .gid = 6};
    assert_int_equal(fs_create(f.fs, d.ino, "masked", &n, &b), 0);
    assert_int_equal(b.mode, S_IFREG | 0640);
    assert_int_equal(b.gid, 6);
    struct fs_attr s = make_node(&f, d.ino, "sgid", S_IFDIR | 02775);
    n.mode = S_IFDIR | 0755;
    assert_int_equal(fs_create(f.fs, s.ino, "sub", &n, &b), 0);
    assert_int_equal(b.mode, S_IFDIR | 02750);
    assert_int_equal(b.gid, 100);
    struct fs_attr now = attr_of(&f, d.ino);
    assert_int_equal(now.size, 2 + 7);
    assert_int_equal(now.nlink, 3);
    fixture_remount(&f, &test_options);
    b = attr_at(&f, d.ino, "blk");
    assert_int_equal(b.rdev, (70000 & 0xff) | 259 << 8 | (70000 & ~0xff) << 12);
    assert_int_equal(fs_readlink(f.fs, l.ino, target, sizeof target), 8);
    fixture_free(&f);
}

static void test_long_symlink(void **state)
{
    struct fixture f;
    static const size_t sizes[] = {1, 17, 135, 136, 137, 144, 145, 255, 1000, 4095};
    char target[4097], got[4200];
    fixture_new(&f, &test_props, true);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char name[16];
        memset(target, 'a' + i, sizes[i]);
        target[sizes[i]] = 0;
        snprintf(name, sizeof name, "l%zu", i);
        struct fs_new n = {.mode = S_IFLNK | 0777, .target = target};
        struct fs_attr a;
        assert_int_equal(fs_create(f.fs, FS_ROOT_INO, name, &n, &a), 0);
        /* #1890: attributes besides a target leave it alone. */
        assert_int_equal(
            fs_setxattr(f.fs, a.ino, "trusted.aaaaaaaaaaa", "twelve bytes", 12, 0, false), 0);
        assert_int_equal(
            fs_setxattr(f.fs, a.ino, "trusted.bbbbbbbbbbb", "twelve bytes", 12, 0, false), 0);
    }
    fixture_remount(&f, &test_options);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char name[16];
        snprintf(name, sizeof name, "l%zu", i);
        struct fs_attr a = attr_at(&f, FS_ROOT_INO, name);
        assert_int_equal(a.size, sizes[i]);
        assert_int_equal(fs_readlink(f.fs, a.ino, got, sizeof got), (int)sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(got[k], 'a' + i);
        assert_int_equal(fs_getxattr(f.fs, a.ino, "trusted.bbbbbbbbbbb", got, 100), 12);
    }
    struct fs_new n = {.mode = S_IFLNK | 0777, .target = target};
    struct fs_attr a;
    memset(target, 'x', 4096);
    target[4096] = 0;
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "toolong", &n, &a), -ENAMETOOLONG);
    fixture_free(&f);
}

static void test_links(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "a", S_IFREG | 0644), b;
    struct fs_attr d = make_node(&f, FS_ROOT_INO, "d", S_IFDIR | 0755);
    assert_int_equal(fs_link(f.fs, a.ino, d.ino, "b", &b), 0);
    assert_int_equal(b.ino, a.ino);
    assert_int_equal(b.nlink, 2);
    assert_int_equal(fs_link(f.fs, a.ino, d.ino, "b", &b), -EEXIST);
    assert_int_equal(fs_link(f.fs, d.ino, d.ino, "c", &b), -EPERM);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "a"), 0);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "a"), -ENOENT);
    assert_int_equal(attr_of(&f, a.ino).nlink, 1);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "d"), -EISDIR);
    assert_int_equal(fs_rmdir(f.fs, FS_ROOT_INO, "d"), -ENOTEMPTY);
    assert_int_equal(fs_rmdir(f.fs, d.ino, "b"), -ENOTDIR);
    assert_int_equal(fs_unlink(f.fs, d.ino, "b"), 0);
    assert_int_equal(fs_rmdir(f.fs, FS_ROOT_INO, "d"), 0);
    /* Still referred to: an open file lives on, without a name. */
    char byte = 'x';
    assert_int_equal(attr_of(&f, a.ino).nlink, 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, &byte, 1, 0), 1);
    struct fs_new n = {.mode = S_IFREG | 0644};
    assert_int_equal(fs_create(f.fs, d.ino, "late", &n, &b), -ENOENT);
    assert_int_equal(attr_of(&f, FS_ROOT_INO).nlink, 2);
    assert_int_equal(attr_of(&f, FS_ROOT_INO).size, 2);
    fs_forget(f.fs, a.ino, 2);
    fs_forget(f.fs, d.ino, 1);
    fixture_remount(&f, &test_options);
    assert_int_equal(fs_getattr(f.fs, a.ino, &b), -ENOENT);
    assert_int_equal(fs_getattr(f.fs, d.ino, &b), -ENOENT);
    fixture_free(&f);
}

/* Nothing of it remains, whatever its size and attributes: the same objects as before. */
static void test_delete_returns_all(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    make_node(&f, FS_ROOT_INO, "keep", S_IFREG | 0644);
    fixture_remount(&f, &test_options);
    uint64_t objects = objset_object_count(f.p.sets[0]), space = test_allocated(&f.p.t);
    static char big[300000];
    memset(big, 'z', sizeof big);
    for (int i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        struct fs_attr a = make_node(&f, FS_ROOT_INO, name, S_IFREG | 0644);
        for (unsigned k = 0; k < sizeof big; k++)
            big[k] = k * 7919 >> 3 ^ i;
        assert_int_equal(fs_write(f.fs, a.ino, 0, big, sizeof big, 0), sizeof big);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.big", big, 40000, 0, false),
                         0); /* a directory */
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.mid", big, 5000, 0, false), 0); /* spill */
    }
    fixture_remount(&f, &test_options);
    assert_true(objset_object_count(f.p.sets[0]) == objects + 150);
    for (int i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, name), 0);
    }
    fixture_remount(&f, &test_options);
    assert_int_equal(objset_object_count(f.p.sets[0]), objects);
    assert_in_range(test_allocated(&f.p.t), 1, space + 20000);
    fixture_free(&f);
}

static void test_tmpfile(void **state)
{
    struct fixture f;
    struct fs_attr a, b;
    struct fs_new n = {.mode = S_IFREG | 0600, .uid = 1};
    fixture_new(&f, &test_props, true);
    assert_int_equal(fs_tmpfile(f.fs, FS_ROOT_INO, &n, &a), 0);
    assert_int_equal(a.nlink, 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "hello", 5, 0), 5);
    assert_int_equal(fs_link(f.fs, a.ino, FS_ROOT_INO, "named", &b), 0);
    assert_int_equal(b.nlink, 1);
    assert_int_equal(fs_tmpfile(f.fs, FS_ROOT_INO, &n, &b), 0);
    fs_forget(f.fs, a.ino, 2);
    fixture_sync(&f);
    fixture_remount(&f, &test_options);
    assert_int_equal(attr_at(&f, FS_ROOT_INO, "named").size, 5);
    assert_int_equal(fs_getattr(f.fs, b.ino, &b), -ENOENT);
    fixture_free(&f);
}

/* What a crash leaves in the delete queue is freed by the next mount. */
static void test_crash_with_open_unlinked(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    uint64_t objects;
    fixture_sync(&f);
    objects = objset_object_count(f.p.sets[0]);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        struct fs_attr a =
            make_node(&f, FS_ROOT_INO, name, i % 2 ? S_IFREG | 0644 : S_IFDIR | 0755);
        if (i % 2)
            assert_int_equal(fs_write(f.fs, a.ino, 12345 * i, name, 3, 0), 3);
        assert_int_equal(
            i % 2 ? fs_unlink(f.fs, FS_ROOT_INO, name) : fs_rmdir(f.fs, FS_ROOT_INO, name), 0);
    }
    fixture_sync(&f);
    struct blkptr root = f.p.roots[0];
    struct fs *crashed = f.fs;
    assert_int_equal(objset_object_count(f.p.sets[0]), objects + 20);
    (void)root;
    /* The same state on disk, mounted by somebody who knows nothing of the references. */
    f.ds.refuse[DATASET_TX_MUST] = EIO; /* the old mount's clean-up does not happen */
    fs_close(crashed);
    f.ds.refuse[DATASET_TX_MUST] = 0;
    fixture_mount(&f, &test_options);
    fixture_remount(&f, &test_options);
    assert_int_equal(objset_object_count(f.p.sets[0]), objects);
    fixture_free(&f);
}

static void test_rename(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr d1 = make_node(&f, FS_ROOT_INO, "d1", S_IFDIR | 0755);
    struct fs_attr d2 = make_node(&f, FS_ROOT_INO, "d2", S_IFDIR | 0755);
    struct fs_attr sub = make_node(&f, d1.ino, "sub", S_IFDIR | 0755);
    struct fs_attr a = make_node(&f, d1.ino, "a", S_IFREG | 0644);
    struct fs_attr b = make_node(&f, d2.ino, "b", S_IFREG | 0644), up;
    assert_int_equal(fs_rename(f.fs, d1.ino, "a", d1.ino, "aa", 0), 0);
    assert_int_equal(fs_rename(f.fs, d1.ino, "a", d1.ino, "aaa", 0), -ENOENT);
    assert_int_equal(fs_rename(f.fs, d1.ino, "aa", d2.ino, "b", RENAME_NOREPLACE), -EEXIST);
    assert_int_equal(fs_rename(f.fs, d1.ino, "aa", d2.ino, "b", RENAME_EXCHANGE), 0);
    assert_int_equal(attr_at(&f, d2.ino, "b").ino, a.ino);
    assert_int_equal(attr_at(&f, d1.ino, "aa").ino, b.ino);
    assert_int_equal(fs_rename(f.fs, d1.ino, "aa", d2.ino, "b", 0), 0);
    assert_int_equal(attr_at(&f, d2.ino, "b").ino, b.ino);
    assert_int_equal(attr_of(&f, a.ino).nlink, 0);
    assert_int_equal(attr_of(&f, d1.ino).size, 3);
    /* Directories. */
    assert_int_equal(fs_rename(f.fs, FS_ROOT_INO, "d1", sub.ino, "x", 0), -EINVAL);
    assert_int_equal(fs_rename(f.fs, FS_ROOT_INO, "d1", d1.ino, "x", 0), -EINVAL);
    assert_int_equal(fs_rename(f.fs, d1.ino, "sub", FS_ROOT_INO, "d1", 0), -ENOTEMPTY);
    assert_int_equal(fs_rename(f.fs, d1.ino, "sub", d2.ino, "b", 0), -ENOTDIR);
    assert_int_equal(fs_rename(f.fs, d2.ino, "b", d1.ino, "sub", 0), -EISDIR);
    assert_int_equal(fs_rename(f.fs, d1.ino, "sub", d2.ino, "sub2", 0), 0);
    assert_int_equal(fs_parent(f.fs, sub.ino, &up), 0);
    assert_int_equal(up.ino, d2.ino);
    assert_int_equal(attr_of(&f, d1.ino).nlink, 2);
    assert_int_equal(attr_of(&f, d2.ino).nlink, 3);
    make_node(&f, FS_ROOT_INO, "empty", S_IFDIR | 0755);
    assert_int_equal(fs_rename(f.fs, d2.ino, "sub2", FS_ROOT_INO, "empty", 0), 0);
    assert_int_equal(attr_of(&f, FS_ROOT_INO).nlink, 2 + 3);
    assert_int_equal(attr_of(&f, d2.ino).nlink, 2);
    /* A whiteout under the old name. */
    assert_int_equal(fs_rename(f.fs, d2.ino, "b", FS_ROOT_INO, "moved", RENAME_WHITEOUT), 0);
    struct fs_attr w = attr_at(&f, d2.ino, "b");
    assert_int_equal(w.mode, S_IFCHR);
    assert_int_equal(w.rdev, 0);
    /* Two names of one file: nothing happens. */
    struct fs_attr l;
    assert_int_equal(fs_link(f.fs, b.ino, d1.ino, "again", &l), 0);
    assert_int_equal(fs_rename(f.fs, d1.ino, "again", FS_ROOT_INO, "moved", 0), 0);
    assert_int_equal(attr_of(&f, b.ino).nlink, 2);
    assert_int_equal(fs_rename(f.fs, d1.ino, "again", FS_ROOT_INO, "y", RENAME_EXCHANGE), -ENOENT);
    assert_int_equal(fs_rename(f.fs, d1.ino, "again", FS_ROOT_INO, "y", 3), -EINVAL);
    fixture_remount(&f, &test_options);
    assert_true(exists(&f, d1.ino, "again"));
    fixture_free(&f);
}

struct names {
    unsigned n, max;
    uint64_t cookie;
    char name[64][16];
    uint64_t ino[64];
    unsigned with_attr;
};

static bool collect(void *arg, const char *name, size_t len, uint64_t ino, unsigned type,
                    uint64_t next, const struct fs_attr *attr)
{
    struct names *l = arg;
    if (l->n == l->max)
        return false;
    memcpy(l->name[l->n], name, len);
    l->name[l->n][len] = 0;
    l->ino[l->n++] = ino;
    l->cookie = next;
    l->with_attr += attr != NULL;
    if (attr)
        assert_int_equal(attr->ino, ino);
    return true;
}

/* Names of more than 255 bytes, as feature longname allows: found, but not made. */
static void test_long_names(void **state)
{
    struct fixture f;
    struct fs_attr a;
    struct tx tx;
    char name[FS_LOOKUP_MAX + 2];
    fixture_new(&f, &test_props, true);
    struct fs_attr file = make_node(&f, FS_ROOT_INO, "file", S_IFREG | 0644);
    uint64_t root = attr_of(&f, FS_ROOT_INO).ino;
    memset(name, 'n', sizeof name);
    name[FS_LOOKUP_MAX + 1] = 0;
    assert_int_equal(fs_lookup(f.fs, FS_ROOT_INO, name, &a), -ENAMETOOLONG);
    name[FS_LOOKUP_MAX] = 0;
    assert_int_equal(fs_lookup(f.fs, FS_ROOT_INO, name, &a), -ENOENT);
    assert_int_equal(dataset_tx_begin(&f.ds, DATASET_TX_WRITE, 0, &tx), 0);
    assert_int_equal(zap_add_u64(f.p.sets[0], root, name, 8ull << 60 | file.ino, &tx), 0);
    dataset_tx_end(&tx);
    assert_int_equal(fs_lookup(f.fs, FS_ROOT_INO, name, &a), 0);
    assert_int_equal(a.ino, file.ino);
    fs_forget(f.fs, a.ino, 2);
    name[FS_NAME_MAX + 1] = 0;
    struct fs_new new = {.mode = S_IFREG | 0644};
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, name, &new, &a), -ENAMETOOLONG);
    fixture_free(&f);
}

static void test_readdir(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr d = make_node(&f, FS_ROOT_INO, "d", S_IFDIR | 0755);
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        fs_forget(f.fs, make_node(&f, d.ino, name, S_IFREG | 0644).ino, 1);
    }
    struct names all = {.max = 64}, part = {.max = 64};
    assert_int_equal(fs_readdir(f.fs, d.ino, 0, false, collect, &all), 0);
    assert_int_equal(all.n, 42);
    assert_string_equal(all.name[0], ".");
    assert_string_equal(all.name[1], "..");
    assert_int_equal(all.ino[0], d.ino);
    assert_int_equal(all.ino[1], attr_of(&f, FS_ROOT_INO).ino);
    for (unsigned i = 0; i < 42; i++) { /* one at a time gives the same */
        part.n = 0;
        part.max = 1;
        assert_int_equal(fs_readdir(f.fs, d.ino, part.cookie, true, collect, &part), 0);
        assert_int_equal(part.n, 1);
        assert_string_equal(part.name[0], all.name[i]);
        if (i >= 2)
            fs_forget(f.fs, part.ino[0], 1);
    }
    assert_int_equal(part.with_attr, 42);
    part.n = 0;
    assert_int_equal(fs_readdir(f.fs, d.ino, part.cookie, false, collect, &part), 0);
    assert_int_equal(part.n, 0);
    assert_int_equal(fs_readdir(f.fs, all.ino[5], 0, false, collect, &part), -ENOTDIR);
    fixture_free(&f);
}

static void test_setattr(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644), b;
    struct fs_setattr s = {.mask = FS_SET_MODE, .mode = 06755};
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    assert_int_equal(b.mode, S_IFREG | 06755);
    assert_true(b.ctime.tv_sec > a.ctime.tv_sec || b.ctime.tv_nsec != a.ctime.tv_nsec);
    assert_int_equal(b.mtime.tv_nsec, a.mtime.tv_nsec);
    s = (struct fs_setattr){
        .mask = FS_SET_UID | FS_SET_GID | FS_SET_KILL_SUIDGID, .uid = 7, .gid = 8};
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    assert_int_equal(b.mode, S_IFREG | 0755);
    assert_int_equal(b.uid, 7);
    assert_int_equal(b.gid, 8);
    s = (struct fs_setattr){
        .mask = FS_SET_ATIME | FS_SET_MTIME, .atime = {-1, 999999999}, .mtime = {1ll << 40, 5}};
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    assert_true(b.atime.tv_sec == -1 && b.atime.tv_nsec == 999999999);
    assert_true(b.mtime.tv_sec == 1ll << 40 && b.mtime.tv_nsec == 5);
    s = (struct fs_setattr){.mask = FS_SET_SIZE, .size = 5000000};
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    assert_int_equal(b.size, 5000000);
    assert_int_equal(b.blksize, 131072);
    s.size = 1ull << 63;
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), -EFBIG);
    s.size = 1;
    assert_int_equal(fs_setattr(f.fs, FS_ROOT_INO, &s, &b), -EISDIR);
    fixture_remount(&f, &test_options);
    b = attr_at(&f, FS_ROOT_INO, "f");
    assert_int_equal(b.mode, S_IFREG | 0755);
    assert_true(b.atime.tv_sec == -1);
    assert_int_equal(b.size, 5000000);
    fixture_free(&f);
}

/* relatime: the first read after a change moves atime; it reaches the disk on the way out. */
static void test_atime(void **state)
{
    struct fixture f;
    char c;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "x", 1, 0), 1);
    assert_int_equal(fs_read(f.fs, a.ino, 0, &c, 1), 1);
    struct fs_attr b = attr_of(&f, a.ino);
    assert_true(b.atime.tv_nsec != a.atime.tv_nsec || b.atime.tv_sec != a.atime.tv_sec);
    assert_int_equal(fs_read(f.fs, a.ino, 0, &c, 1), 1);
    struct fs_attr again = attr_of(&f, a.ino);
    assert_true(again.atime.tv_nsec == b.atime.tv_nsec);
    fixture_remount(&f, &test_options);
    struct fs_options off = test_options;
    off.atime = false;
    assert_true(attr_of(&f, a.ino).atime.tv_nsec == b.atime.tv_nsec);
    assert_int_equal(fs_remount(f.fs, &off), 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "y", 1, 0), 1);
    assert_int_equal(fs_read(f.fs, a.ino, 0, &c, 1), 1);
    assert_true(attr_of(&f, a.ino).atime.tv_nsec == b.atime.tv_nsec);
    fixture_free(&f);
}

/* 03 4.7: size -> block size, levels, last block. */
static void test_block_sizes(void **state)
{
    static const struct {
        uint64_t size;
        uint32_t bs;
    } rows[] = {{0, 512},       {1, 512},         {512, 512},       {513, 1024},     {4097, 4608},
                {65537, 66048}, {131072, 131072}, {131073, 131072}, {300000, 131072}};
    struct fixture f;
    static char data[300000];
    fixture_new(&f, &test_props, true);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[16];
        struct dnode *dn;
        snprintf(name, sizeof name, "f%zu", i);
        struct fs_attr a = make_node(&f, FS_ROOT_INO, name, S_IFREG | 0644);
        if (rows[i].size)
            assert_int_equal(fs_write(f.fs, a.ino, 0, data, rows[i].size, 0), (int)rows[i].size);
        assert_int_equal(dnode_hold(f.p.sets[0], a.ino, &dn), 0);
        assert_int_equal(dnode_block_size(dn), rows[i].bs);
        dnode_rele(dn);
    }
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "far", S_IFREG | 0644);
    struct dnode *dn;
    assert_int_equal(fs_write(f.fs, a.ino, 3ull << 40, "abc", 3, 0), 3);
    assert_int_equal(fs_write(f.fs, a.ino, 7 * 131072, "efgh", 4, 0), 4);
    fixture_sync(&f);
    assert_int_equal(dnode_hold(f.p.sets[0], a.ino, &dn), 0);
    assert_int_equal(dnode_block_size(dn), 131072);
    assert_int_equal(dnode_max_blkid(dn), 25165824);
    assert_int_equal(dnode_levels(dn), 4);
    dnode_rele(dn);
    /* The last byte there is, and none behind it. */
    assert_int_equal(fs_write(f.fs, a.ino, INT64_MAX - 1ull, "xy", 2, 0), 1);
    assert_int_equal(fs_write(f.fs, a.ino, INT64_MAX, "y", 1, 0), -EFBIG);
    fixture_remount(&f, &test_options);
    char c[4];
    assert_int_equal(fs_read(f.fs, a.ino, INT64_MAX - 1ull, c, 4), 1);
    assert_int_equal(c[0], 'x');
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "far"), 0);
    fixture_free(&f);
}

static uint64_t seek_to(struct fixture *f, uint64_t ino, uint64_t off, int whence)
{
    uint64_t at = 0;
    int rc = fs_seek(f->fs, ino, off, whence, &at);
    return rc == 0 ? at : (uint64_t)(int64_t)rc;
}

static void test_holes(void **state)
{
    struct fixture f;
    static unsigned char data[1 << 20], got[1 << 20];
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    memset(data, 'd', sizeof data);
    assert_int_equal(seek_to(&f, a.ino, 0, SEEK_DATA), (uint64_t)-ENXIO);
    assert_int_equal(fs_write(f.fs, a.ino, 0, data, sizeof data, 0), sizeof data);
    assert_int_equal(seek_to(&f, a.ino, 0, SEEK_HOLE), sizeof data); /* dirty data is data */
    assert_int_equal(seek_to(&f, a.ino, 5, SEEK_DATA), 5);
    assert_int_equal(seek_to(&f, a.ino, sizeof data, SEEK_HOLE), (uint64_t)-ENXIO);
    assert_int_equal(fs_fallocate(f.fs, a.ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  131072 - 100, 262144 + 200),
                     0);
    memset(data + 131072 - 100, 0, 262144 + 200);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(fs_read(f.fs, a.ino, 0, got, sizeof got), sizeof got);
        assert_memory_equal(got, data, sizeof data);
        assert_int_equal(seek_to(&f, a.ino, 0, SEEK_HOLE), 131072);
        assert_int_equal(seek_to(&f, a.ino, 131072, SEEK_DATA), 3 * 131072);
        assert_int_equal(seek_to(&f, a.ino, 3 * 131072, SEEK_HOLE), sizeof data);
        fixture_sync(&f);
    }
    assert_int_equal(fs_fallocate(f.fs, a.ino, FALLOC_FL_ZERO_RANGE, sizeof data - 10, 1000), 0);
    assert_int_equal(attr_of(&f, a.ino).size, sizeof data + 990);
    assert_int_equal(fs_fallocate(f.fs, a.ino, 0, 0, 2 << 20), 0);
    assert_int_equal(attr_of(&f, a.ino).size, 2 << 20);
    assert_int_equal(fs_fallocate(f.fs, a.ino, FALLOC_FL_KEEP_SIZE, 0, 3 << 20), 0);
    assert_int_equal(fs_fallocate(f.fs, a.ino, 0, 0, 1ull << 40), -ENOSPC);
    assert_int_equal(attr_of(&f, a.ino).size, 2 << 20);
    assert_int_equal(fs_fallocate(f.fs, a.ino, FALLOC_FL_COLLAPSE_RANGE, 0, 131072), -EOPNOTSUPP);
    assert_int_equal(fs_fallocate(f.fs, a.ino, 0, 0, 0), -EINVAL);
    /* Cut short and made long again: no old bytes come back. */
    struct fs_setattr s = {.mask = FS_SET_SIZE, .size = 1000};
    struct fs_attr b;
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    s.size = 500000;
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    memset(data + 1000, 0, sizeof data - 1000);
    assert_int_equal(fs_read(f.fs, a.ino, 0, got, sizeof got), 500000);
    assert_memory_equal(got, data, 500000);
    fixture_free(&f);
}

static int set_flags(struct fixture *f, uint64_t ino, uint32_t flags, uint32_t projid)
{
    return fs_setflags(f->fs, ino, &(struct fs_flags){flags, projid});
}

/* What chattr +a, +i and -p do, and that it is on disk. */
static void test_flags(void **state)
{
    struct fixture f;
    struct fs_flags got;
    struct fs_attr b;
    struct fs_setattr cut = {.mask = FS_SET_SIZE}, mode = {.mask = FS_SET_MODE, .mode = 0600};
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    struct fs_attr d = make_node(&f, FS_ROOT_INO, "d", S_IFDIR | 0755);
    struct fs_attr l = make_node(&f, FS_ROOT_INO, "l", S_IFLNK);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "start", 5, 0), 5);
    assert_int_equal(set_flags(&f, a.ino, FS_FLAG_APPEND | FS_FLAG_NODUMP, 0), 0);
    assert_int_equal(attr_of(&f, a.ino).flags, FS_FLAG_APPEND | FS_FLAG_NODUMP);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(fs_write(f.fs, a.ino, 0, "x", 1, 0), -EPERM);
        assert_int_equal(fs_write(f.fs, a.ino, 0, "+", 1, FS_WRITE_APPEND), 1);
        assert_int_equal(fs_setattr(f.fs, a.ino, &cut, &b), -EPERM);
        assert_int_equal(fs_setattr(f.fs, a.ino, &mode, &b), -EPERM);
        assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "f"), -EPERM);
        assert_int_equal(fs_rename(f.fs, FS_ROOT_INO, "f", FS_ROOT_INO, "g", 0), -EPERM);
        fs_forget(f.fs, a.ino, 1);
        fixture_remount(&f, &test_options);
        assert_int_equal(fs_lookup(f.fs, FS_ROOT_INO, "f", &a), 0);
    }
    assert_int_equal(set_flags(&f, a.ino, FS_FLAG_IMMUTABLE, 0), 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "+", 1, FS_WRITE_APPEND), -EPERM);
    assert_int_equal(fs_setxattr(f.fs, a.ino, "user.x", "y", 1, 0, false), -EPERM);
    assert_int_equal(set_flags(&f, a.ino, 0, 0), 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "x", 1, 0), 1);
    /* A directory: nothing comes into it, and nothing goes. */
    struct fs_attr in = make_node(&f, d.ino, "in", S_IFREG | 0644);
    struct fs_new n = {.mode = S_IFREG | 0644};
    assert_int_equal(set_flags(&f, d.ino, FS_FLAG_IMMUTABLE, 0), 0);
    assert_int_equal(fs_create(f.fs, d.ino, "new", &n, &b), -EPERM);
    assert_int_equal(fs_unlink(f.fs, d.ino, "in"), -EPERM);
    assert_int_equal(fs_link(f.fs, a.ino, d.ino, "new", &b), -EPERM);
    /* Projects are inherited, and names do not go from one to another. */
    assert_int_equal(set_flags(&f, d.ino, FS_FLAG_PROJINHERIT, 4711), 0);
    struct fs_attr sub = make_node(&f, d.ino, "sub", S_IFDIR | 0755);
    assert_int_equal(fs_getflags(f.fs, sub.ino, &got), 0);
    assert_int_equal(got.projid, 4711);
    assert_int_equal(got.flags, FS_FLAG_PROJINHERIT);
    assert_int_equal(fs_rename(f.fs, FS_ROOT_INO, "f", d.ino, "f", 0), -EXDEV);
    assert_int_equal(set_flags(&f, in.ino, 0, 4712), 0);
    assert_int_equal(fs_rename(f.fs, d.ino, "in", d.ino, "still", 0), 0);
    /* A file made below has the flag too, and keeps it when others change. */
    struct fs_attr heir = make_node(&f, d.ino, "heir", S_IFREG | 0644);
    assert_int_equal(fs_getflags(f.fs, heir.ino, &got), 0);
    assert_int_equal(got.flags, FS_FLAG_PROJINHERIT);
    assert_int_equal(set_flags(&f, heir.ino, FS_FLAG_PROJINHERIT | FS_FLAG_NODUMP, 4711), 0);
    assert_int_equal(set_flags(&f, a.ino, 0, UINT32_MAX), -EINVAL);
    assert_int_equal(set_flags(&f, l.ino, FS_FLAG_APPEND, 0), -EOPNOTSUPP);
    fixture_remount(&f, &test_options); /* which adds up what the projects use */
    assert_int_equal(fs_getflags(f.fs, in.ino, &got), 0);
    assert_int_equal(got.projid, 4712);
    fixture_free(&f);
    fixture_new(&f, &test_props, false);
    assert_int_equal(set_flags(&f, FS_ROOT_INO, 0, 1), -EOPNOTSUPP);
    assert_int_equal(set_flags(&f, FS_ROOT_INO, FS_FLAG_NODUMP, 0), 0);
    fixture_free(&f);
}

static int count_owner(void *arg, const struct fs_owner *o)
{
    (*(unsigned *)arg)++;
    assert_true(o->id == 0 || o->id == 1000);
    return 0;
}

/* A user's limits: set while mounted, enforced from the next txg on, listed, and taken away. */
static void test_owner_quotas(void **state)
{
    static unsigned char data[300000];
    struct fixture f;
    struct fs_owner o;
    struct fs_attr b;
    struct fs_new n = {.mode = S_IFREG | 0644, .uid = 1000, .gid = 100};
    unsigned owners = 0;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_owner_set_quota(&f.ds, f.fs, FS_USER, false, 1000, 200000), 0);
    assert_int_equal(fs_owner_set_quota(&f.ds, f.fs, FS_GROUP, true, 100, 3), 0);
    for (size_t i = 0, x = 1; i < sizeof data; i++) /* does not compress */
        data[i] = (unsigned char)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
    assert_int_equal(fs_write(f.fs, a.ino, 0, data, sizeof data, 0), sizeof data);
    fixture_sync(&f);
    assert_int_equal(fs_write(f.fs, a.ino, 0, data, 1, 0), -EDQUOT);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "g", &n, &b), -EDQUOT);
    assert_int_equal(fs_owner_get(&f.ds, FS_USER, 1000, &o), 0);
    assert_int_equal(o.quota, 200000);
    assert_true(o.used >= sizeof data);
    assert_int_equal(o.objects, 2); /* and the root */
    assert_int_equal(fs_owner_each(&f.ds, FS_USER, count_owner, &owners), 0);
    assert_int_equal(owners, 1);
    fs_forget(f.fs, a.ino, 1);
    fixture_remount(&f, &test_options);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "g", &n, &b), -EDQUOT);
    assert_int_equal(fs_owner_set_quota(&f.ds, f.fs, FS_USER, false, 1000, 0), 0);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "g", &n, &b), 0);
    fixture_sync(&f);
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "h", &n, &b), -EDQUOT); /* three objects */
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "f"), 0);
    fixture_free(&f);
}

/* A number can be had again as soon as its free has been synced, also by a larger dnode than
 * before. */
static void test_number_again(void **state)
{
    struct fixture f;
    struct tx tx;
    struct dnode *dn;
    struct object_params small = {.type = OT_PLAIN_FILE}, large = {.type = OT_PLAIN_FILE};
    struct objset *os;
    large.dnode_size = 2048;
    fixture_new(&f, &test_props, true);
    os = f.p.sets[0];
    for (uint64_t base = 1024; base < 1024 + 32; base += 4) {
        assert_int_equal(dataset_tx_begin(&f.ds, DATASET_TX_WRITE, 1, &tx), 0);
        for (uint64_t n = base; n < base + 4; n++) {
            assert_int_equal(object_create(os, n, &small, &tx, &dn), 0);
            dnode_rele(dn);
        }
        assert_int_equal(object_create(os, base, &large, &tx, &dn), -EEXIST);
        dataset_tx_end(&tx);
    }
    fixture_sync(&f);
    assert_int_equal(dataset_tx_begin(&f.ds, DATASET_TX_WRITE, 1, &tx), 0);
    for (uint64_t n = 1024; n < 1024 + 32; n++) {
        assert_int_equal(dnode_hold(os, n, &dn), 0);
        assert_int_equal(object_free(dn, &tx), 0);
        dnode_rele(dn);
    }
    assert_int_equal(object_create(os, 1025, &small, &tx, &dn), -EBUSY);
    assert_int_equal(object_create(os, 1028, &large, &tx, &dn), -EBUSY);
    dataset_tx_end(&tx);
    assert_int_equal(object_wait_free(os, 1028, 2048), 0);
    assert_int_equal(dataset_tx_begin(&f.ds, DATASET_TX_WRITE, 1, &tx), 0);
    assert_int_equal(object_create(os, 1028, &large, &tx, &dn), 0);
    assert_int_equal(object_free(dn, &tx), 0);
    dnode_rele(dn);
    dataset_tx_end(&tx);
    assert_int_equal(object_wait_free(os, 1031, 0), 0); /* the end of the large one */
    assert_int_equal(dataset_tx_begin(&f.ds, DATASET_TX_WRITE, 1, &tx), 0);
    assert_int_equal(object_create(os, 1031, &small, &tx, &dn), 0);
    assert_int_equal(object_free(dn, &tx), 0);
    dnode_rele(dn);
    dataset_tx_end(&tx);
    fixture_free(&f);
}

static void test_append(void **state)
{
    struct fixture f;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 06755);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fs_write(f.fs, a.ino, 0, "0123456789", 10, FS_WRITE_APPEND), 10);
    assert_int_equal(attr_of(&f, a.ino).size, 1000);
    assert_int_equal(attr_of(&f, a.ino).mode, S_IFREG | 06755);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "x", 1, FS_WRITE_KILL_SUIDGID | FS_WRITE_SYNC), 1);
    assert_int_equal(attr_of(&f, a.ino).mode, S_IFREG | 0755);
    assert_int_equal(fs_fsync(f.fs, a.ino, false), 0);
    assert_int_equal(fs_sync(f.fs), 0);
    fixture_free(&f);
}

static void test_xattr(void **state)
{
    static unsigned char big[70000], got[70000];
    static const size_t sizes[] = {0, 1, 100, 130, 140, 150, 500, 5000, 20000, 32768, 32769, 65536};
    static const int modes[] = {FS_XATTR_SA, FS_XATTR_DIR};
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = i * 31 >> 2;
    for (unsigned m = 0; m < 2; m++) {
        struct fixture f;
        struct fs_options o = test_options;
        fixture_new(&f, &test_props, true);
        o.xattr = modes[m];
        fixture_remount(&f, &o);
        struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            char name[32];
            snprintf(name, sizeof name, "user.n%u", i);
            assert_int_equal(fs_setxattr(f.fs, a.ino, name, big, sizes[i], 0, false), 0);
        }
        fixture_remount(&f, &o);
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            char name[32];
            snprintf(name, sizeof name, "user.n%u", i);
            assert_int_equal(fs_getxattr(f.fs, a.ino, name, NULL, 0), sizes[i]);
            assert_int_equal(fs_getxattr(f.fs, a.ino, name, got, sizeof got), sizes[i]);
            assert_memory_equal(got, big, sizes[i]);
        }
        /* From small to large and back: one value, the newest (#4154). */
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.n1", big, 40000, XATTR_REPLACE, false), 0);
        assert_int_equal(fs_getxattr(f.fs, a.ino, "user.n1", got, sizeof got), 40000);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.n1", "s", 1, 0, false), 0);
        assert_int_equal(fs_getxattr(f.fs, a.ino, "user.n1", got, sizeof got), 1);
        assert_int_equal(fs_getxattr(f.fs, a.ino, "user.n2", got, 5), -ERANGE);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.n2", "", 0, XATTR_CREATE, false), -EEXIST);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.new", "", 0, XATTR_REPLACE, false),
                         -ENODATA);
        assert_int_equal(fs_getxattr(f.fs, a.ino, "user.new", got, 5), -ENODATA);
        assert_int_equal(fs_removexattr(f.fs, a.ino, "user.new"), -ENODATA);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.", "", 0, 0, false), -EINVAL);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.user.x", "", 0, 0, false), -EINVAL);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "strange", "", 0, 0, false), -EOPNOTSUPP);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "user.n2", big, 65537, 0, false), -E2BIG);
        assert_int_equal(fs_setxattr(f.fs, a.ino, "trusted.t", "t", 1, 0, false), 0);
        char names[1000];
        ssize_t all = fs_listxattr(f.fs, a.ino, names, sizeof names, true);
        assert_int_equal(all - fs_listxattr(f.fs, a.ino, NULL, 0, false), sizeof "trusted.t");
        assert_int_equal(fs_listxattr(f.fs, a.ino, names, 10, true), -ERANGE);
        struct fs_attr before = attr_of(&f, a.ino);
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            char name[32];
            snprintf(name, sizeof name, "user.n%u", i);
            assert_int_equal(fs_removexattr(f.fs, a.ino, name), 0);
        }
        struct fs_attr after = attr_of(&f, a.ino);
        assert_true(memcmp(&before.ctime, &after.ctime, sizeof after.ctime) != 0);
        assert_int_equal(fs_listxattr(f.fs, a.ino, names, sizeof names, true), sizeof "trusted.t");
        fixture_free(&f);
    }
}

static size_t acl_bytes(unsigned char *out, const unsigned (*e)[3], unsigned n)
{
    put_le32(out, 2);
    for (unsigned i = 0; i < n; i++) {
        put_le16(out + 4 + 8 * i, e[i][0]);
        put_le16(out + 6 + 8 * i, e[i][1]);
        put_le32(out + 8 + 8 * i, e[i][2]);
    }
    return 4 + 8 * n;
}

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

static void test_acl(void **state)
{
    static const unsigned named[][3] = {
        {1, 7, -1u}, {2, 6, 1234}, {4, 5, -1u}, {16, 6, -1u}, {32, 0, -1u}};
    static const unsigned plain[][3] = {{1, 6, -1u}, {4, 4, -1u}, {32, 0, -1u}};
    struct fixture f;
    unsigned char acl[100], got[100];
    fixture_new(&f, &test_props, true);
    struct fs_attr d = make_node(&f, FS_ROOT_INO, "d", S_IFDIR | 0755);
    struct fs_attr a = make_node(&f, d.ino, "a", S_IFREG | 0644), b;
    size_t n = acl_bytes(acl, named, 5);
    assert_int_equal(fs_getxattr(f.fs, a.ino, ACCESS, got, sizeof got), -ENODATA);
    assert_int_equal(fs_setxattr(f.fs, a.ino, ACCESS, acl, n, 0, false), 0);
    assert_int_equal(attr_of(&f, a.ino).mode, S_IFREG | 0760); /* the mask is the group's bits */
    assert_int_equal(fs_getxattr(f.fs, a.ino, ACCESS, got, sizeof got), n);
    assert_memory_equal(got, acl, n);
    /* chmod changes the mask. */
    struct fs_setattr s = {.mask = FS_SET_MODE, .mode = 0640};
    assert_int_equal(fs_setattr(f.fs, a.ino, &s, &b), 0);
    assert_int_equal(fs_getxattr(f.fs, a.ino, ACCESS, got, sizeof got), n);
    assert_int_equal(got[6], 6);
    assert_int_equal(got[6 + 24], 4);
    assert_int_equal(got[6 + 16], 5);
    /* One that says no more than the mode is not kept. */
    n = acl_bytes(acl, plain, 3);
    assert_int_equal(fs_setxattr(f.fs, a.ino, ACCESS, acl, n, 0, false), 0);
    assert_int_equal(fs_getxattr(f.fs, a.ino, ACCESS, got, sizeof got), -ENODATA);
    assert_int_equal(attr_of(&f, a.ino).mode, S_IFREG | 0640);
    acl[4] = 3;
    assert_int_equal(fs_setxattr(f.fs, a.ino, ACCESS, acl, n, 0, false), -EINVAL);
    assert_int_equal(fs_removexattr(f.fs, a.ino, ACCESS), 0);
    /* Inheritance: umask does not count, the mode asked for does. */
    n = acl_bytes(acl, named, 5);
    assert_int_equal(fs_setxattr(f.fs, a.ino, DEFAULT, acl, n, 0, false), -EACCES);
    assert_int_equal(fs_setxattr(f.fs, d.ino, DEFAULT, acl, n, 0, false), 0);
    struct fs_new new = {.mode = S_IFREG | 0644, .umask = 077};
    assert_int_equal(fs_create(f.fs, d.ino, "inherits", &new, &b), 0);
    assert_int_equal(b.mode, S_IFREG | 0640);
    assert_int_equal(fs_getxattr(f.fs, b.ino, ACCESS, got, sizeof got), n);
    assert_int_equal(got[6], 6);      /* owner: 7 & 6 */
    assert_int_equal(got[6 + 24], 4); /* mask: 6 & 4 */
    assert_int_equal(fs_getxattr(f.fs, b.ino, DEFAULT, got, sizeof got), -ENODATA);
    new.mode = S_IFDIR | 0777;
    assert_int_equal(fs_create(f.fs, d.ino, "sub", &new, &b), 0);
    assert_int_equal(fs_getxattr(f.fs, b.ino, DEFAULT, got, sizeof got), n);
    assert_memory_equal(got, acl, n);
    new.mode = S_IFLNK | 0777;
    new.target = "x";
    assert_int_equal(fs_create(f.fs, d.ino, "ln", &new, &b), 0);
    assert_int_equal(fs_getxattr(f.fs, b.ino, ACCESS, got, sizeof got), -ENODATA);
    fixture_remount(&f, &test_options);
    assert_int_equal(fs_getxattr(f.fs, attr_at(&f, d.ino, "inherits").ino, ACCESS, got, sizeof got),
                     n);
    assert_int_equal(fs_removexattr(f.fs, d.ino, DEFAULT), 0);
    new = (struct fs_new){.mode = S_IFREG | 0666, .umask = 022};
    assert_int_equal(fs_create(f.fs, d.ino, "plain", &new, &b), 0);
    assert_int_equal(b.mode, S_IFREG | 0644);
    struct fs_options off = test_options;
    off.acltype = FS_ACL_OFF;
    assert_int_equal(fs_remount(f.fs, &off), 0);
    assert_int_equal(fs_setxattr(f.fs, a.ino, ACCESS, acl, n, 0, false), -EOPNOTSUPP);
    fixture_free(&f);
}

static void test_readonly_and_full(void **state)
{
    struct fixture f;
    struct fs_attr a, b;
    struct fs_new n = {.mode = S_IFREG | 0644};
    fixture_new(&f, &test_props, true);
    a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "data", 4, 0), 4);
    f.ds.refuse[DATASET_TX_WRITE] = ENOSPC;
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "g", &n, &b), -ENOSPC);
    assert_int_equal(fs_write(f.fs, a.ino, 0, "data", 4, 0), -ENOSPC);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "f"), 0);
    f.ds.refuse[DATASET_TX_WRITE] = 0;
    struct fs_options ro = test_options;
    ro.readonly = true;
    make_node(&f, FS_ROOT_INO, "g", S_IFREG | 0644);
    fixture_remount(&f, &ro);
    assert_true(exists(&f, FS_ROOT_INO, "g"));
    assert_int_equal(fs_create(f.fs, FS_ROOT_INO, "h", &n, &b), -EROFS);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "g"), -EROFS);
    assert_int_equal(fs_rename(f.fs, FS_ROOT_INO, "g", FS_ROOT_INO, "h", 0), -EROFS);
    assert_int_equal(fs_write(f.fs, attr_at(&f, FS_ROOT_INO, "g").ino, 0, "x", 1, 0), -EROFS);
    assert_int_equal(fs_remount(f.fs, &test_options), 0);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "g"), 0);
    struct fs_statfs st;
    assert_int_equal(fs_statfs(f.fs, &st), 0);
    assert_int_equal(st.frsize, 131072);
    assert_int_equal(st.bavail, (1 << 30) / 131072);
    assert_int_equal(st.namelen, 255);
    assert_int_equal(st.fsid, 77);
    assert_true(st.files > st.ffree && st.blocks > st.bfree);
    fixture_free(&f);
}

static void test_handles(void **state)
{
    struct fixture f;
    struct fs_attr b;
    fixture_new(&f, &test_props, true);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_lookup_ino(f.fs, a.ino, a.gen, &b), 0);
    assert_int_equal(fs_lookup_ino(f.fs, a.ino, a.gen + 1, &b), -ESTALE);
    assert_int_equal(fs_lookup_ino(f.fs, 1ull << 50, 1, &b), -ESTALE);
    assert_int_equal(fs_lookup_ino(f.fs, 100000, 1, &b), -ESTALE);
    assert_int_equal(fs_unlink(f.fs, FS_ROOT_INO, "f"), 0);
    assert_int_equal(fs_lookup_ino(f.fs, a.ino, a.gen, &b),
                     0); /* as long as somebody has it open */
    fs_forget(f.fs, a.ino, 3);
    assert_int_equal(fs_lookup_ino(f.fs, a.ino, a.gen, &b), -ESTALE);
    fixture_free(&f);
}

/* Large dnodes and records, no project IDs. */
static void test_other_properties(void **state)
{
    struct fixture f;
    struct objset_props props = test_props;
    static char data[3 << 20];
    props.dnodesize = 1024;
    props.recordsize = 1 << 20;
    fixture_new(&f, &props, false);
    memset(data, 'q', sizeof data);
    struct fs_attr a = make_node(&f, FS_ROOT_INO, "f", S_IFREG | 0644);
    assert_int_equal(fs_setxattr(f.fs, a.ino, "user.a", data, 600, 0, false), 0);
    assert_int_equal(fs_write(f.fs, a.ino, 0, data, sizeof data, 0), sizeof data);
    fixture_remount(&f, &test_options);
    assert_int_equal(attr_of(&f, a.ino).blksize, 1 << 20);
    assert_int_equal(fs_getxattr(f.fs, a.ino, "user.a", data, 1000), 600);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_long_symlink),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_delete_returns_all),
        cmocka_unit_test(test_tmpfile),
        cmocka_unit_test(test_crash_with_open_unlinked),
        cmocka_unit_test(test_rename),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_readdir),
        cmocka_unit_test(test_setattr),
        cmocka_unit_test(test_atime),
        cmocka_unit_test(test_block_sizes),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_number_again),
        cmocka_unit_test(test_owner_quotas),
        cmocka_unit_test(test_xattr),
        cmocka_unit_test(test_acl),
        cmocka_unit_test(test_readonly_and_full),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_other_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
