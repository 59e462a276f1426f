/* Requests as bytes, without a kernel: decoding, and the replies' contents. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fuse/request_impl.h"
#include "memfs.h"
#include "util/bytes.h"

struct world {
    struct fs *fs;
    struct fuse_conn c;
    _Alignas(8) unsigned char in[80 + FUSE_PAYLOAD_MAX];
    _Alignas(8) unsigned char out[FUSE_PAYLOAD_MAX];
    struct fuse_request r;
    unsigned attr_forgotten;
};

static struct world w;

static void forget_attr(struct fuse_conn *c, uint64_t ino)
{
    w.attr_forgotten++;
}

static int setup(void **state)
{
    struct fs_options o = {.acltype = FS_ACL_POSIX};
    struct fs_attr a;

    w.fs = memfs_new(&o, 0);
    assert_non_null(w.fs);
    assert_int_equal(fs_getattr(w.fs, 1, &a), 0);
    assert_int_not_equal(a.ino, 1);
    w.c = (struct fuse_conn){.fs = w.fs,
                             .root_ino = a.ino,
                             .setxattr_ext = true,
                             .negative_valid = 7,
                             .forget_attr = forget_attr};
    w.attr_forgotten = 0;
    return 0;
}

static int teardown(void **state)
{
    fs_close(w.fs);
    return 0;
}

/* Sends a message made of up to three parts; by a user if uid is not 0. */
static int send_as(uint32_t uid, uint32_t op, uint64_t node, const void *a, size_t an,
                   const void *b, size_t bn)
{
    struct fuse_in_header h = {.len = (uint32_t)(sizeof h + an + bn),
                               .opcode = op,
                               .unique = 5,
                               .nodeid = node,
                               .uid = uid,
                               .gid = uid};
    int rc;

    memcpy(w.in, &h, sizeof h);
    if (an)
        memcpy(w.in + sizeof h, a, an);
    if (bn)
        memcpy(w.in + sizeof h + an, b, bn);
    w.r = (struct fuse_request){.c = &w.c, .out = w.out, .out_cap = sizeof w.out};
    rc = fuse_request_split(&w.r, w.in, h.len);
    return rc ? rc : fuse_request_run(&w.r);
}

static int send(uint32_t op, uint64_t node, const void *a, size_t an, const void *b, size_t bn)
{
    return send_as(0, op, node, a, an, b, bn);
}

static int send_name(uint32_t op, uint64_t node, const char *name)
{
    return send(op, node, NULL, 0, name, strlen(name) + 1);
}

static const struct fuse_entry_out *entry(void)
{
    assert_int_equal(w.r.out_len, sizeof(struct fuse_entry_out));
    return (const void *)w.out;
}

static uint64_t make(uint64_t dir, const char *name, uint32_t mode)
{
    struct fuse_mknod_in in = {.mode = mode};
    struct fuse_mkdir_in din = {.mode = mode & 07777};

    if (S_ISDIR(mode))
        assert_int_equal(send(FUSE_MKDIR, dir, &din, sizeof din, name, strlen(name) + 1), 0);
    else
        assert_int_equal(send(FUSE_MKNOD, dir, &in, sizeof in, name, strlen(name) + 1), 0);
    return entry()->nodeid;
}

static void test_malformed(void **state)
{
    struct fuse_in_header h = {.len = sizeof h, .opcode = FUSE_LOOKUP, .nodeid = 1};
    struct fuse_write_in wr = {.size = 100};
    struct fuse_setxattr_in sx = {.size = 10};
    char longname[300];

    memcpy(w.in, &h, sizeof h);
    w.r = (struct fuse_request){.c = &w.c, .out = w.out, .out_cap = sizeof w.out};
    assert_int_equal(fuse_request_split(&w.r, w.in, 10), -EINVAL);
    assert_int_equal(fuse_request_split(&w.r, w.in, sizeof h + 8), -EINVAL); /* len differs */
    assert_int_equal(send(FUSE_LOOKUP, 1, NULL, 0, NULL, 0), -EINVAL);       /* no name */
    assert_int_equal(send(FUSE_LOOKUP, 1, NULL, 0, "abc", 3), -EINVAL);      /* no NUL */
    assert_int_equal(send(FUSE_READ, 1, "short", 5, NULL, 0), -EINVAL);
    assert_int_equal(send_name(FUSE_LOOKUP, 1, "a/b"), -EINVAL);
    assert_int_equal(send_name(FUSE_LOOKUP, 1, ""), -EINVAL);
    assert_int_equal(send_name(FUSE_UNLINK, 1, ".."), -EINVAL);
    assert_int_equal(send(FUSE_WRITE, 1, &wr, sizeof wr, "x", 1), -EINVAL);
    assert_int_equal(send(FUSE_SETXATTR, 1, &sx, sizeof sx, "user.a\0x", 8), -EINVAL);
    assert_int_equal(send(60, 1, NULL, 0, NULL, 0), -ENOSYS);
    assert_int_equal(send(0x7fffffff, 1, NULL, 0, NULL, 0), -ENOSYS);
    memset(longname, 'n', 299);
    longname[299] = 0;
    assert_int_equal(send_name(FUSE_LOOKUP, 1, longname), -ENAMETOOLONG);
}

/* What the kernel is to do without is refused with ENOSYS, and nothing else is. */
static void test_not_needed(void **state)
{
    static const uint32_t not [] = {FUSE_ACCESS, FUSE_FLUSH, FUSE_CREATE, FUSE_BMAP,
                                    FUSE_POLL,   FUSE_GETLK, FUSE_SETLK,  FUSE_SETLKW};
    struct fuse_open_in o = {0};
    char zeros[128] = {0};

    for (size_t i = 0; i < ARRAY_LEN(not ); i++)
        assert_int_equal(send(not [i], 1, zeros, sizeof zeros, NULL, 0), -ENOSYS);
    assert_int_equal(send(FUSE_OPEN, 1, &o, sizeof o, NULL, 0), -ENOSYS);
    assert_int_equal(send(FUSE_OPENDIR, 1, &o, sizeof o, NULL, 0), -ENOSYS);
    w.c.keep_open = true; /* a kernel that cannot */
    assert_int_equal(send(FUSE_OPEN, 1, &o, sizeof o, NULL, 0), 0);
    assert_int_equal(send(FUSE_IOCTL, 1, zeros, 32, NULL, 0), -ENOTTY);
}

/* The forms that Linux sends for chattr(1), lsattr(1) and FS_IOC_FS[GS]ETXATTR. */
static void test_flags(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 0644);
    struct fuse_ioctl_in in = {.cmd = FS_IOC_SETFLAGS, .in_size = 4};
    uint32_t flags = FS_APPEND_FL | FS_NODUMP_FL;
    const unsigned char *reply = w.out + sizeof(struct fuse_ioctl_out);
    struct fsxattr x = {0};
    struct fuse_open_in open = {.flags = O_WRONLY};
    struct fuse_statx_in sx = {0};

    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, &flags, 4), 0);
    assert_int_equal(w.r.out_len, sizeof(struct fuse_ioctl_out));
    in = (struct fuse_ioctl_in){.cmd = FS_IOC_GETFLAGS, .out_size = 4};
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, NULL, 0), 0);
    assert_int_equal(w.r.out_len, sizeof(struct fuse_ioctl_out) + 4);
    memcpy(&flags, reply, 4);
    assert_int_equal(flags, FS_APPEND_FL | FS_NODUMP_FL);
    assert_int_equal(send(FUSE_STATX, f, &sx, sizeof sx, NULL, 0), 0);
    assert_int_equal(((const struct fuse_statx_out *)w.out)->stat.attributes,
                     STATX_ATTR_APPEND | STATX_ATTR_NODUMP);

    in = (struct fuse_ioctl_in){.cmd = FS_IOC_FSSETXATTR, .in_size = sizeof x};
    x = (struct fsxattr){.fsx_xflags = FS_XFLAG_IMMUTABLE, .fsx_projid = 77};
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, &x, sizeof x), 0);
    in = (struct fuse_ioctl_in){.cmd = FS_IOC_FSGETXATTR, .out_size = sizeof x};
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, NULL, 0), 0);
    memcpy(&x, reply, sizeof x);
    assert_int_equal(x.fsx_xflags, FS_XFLAG_IMMUTABLE);
    assert_int_equal(x.fsx_projid, 77);

    /* Flags that we do not have; and an address: from a process, whose right nobody checked. */
    in = (struct fuse_ioctl_in){.cmd = FS_IOC_SETFLAGS, .in_size = 4};
    flags = FS_COMPR_FL;
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, &flags, 4), -EOPNOTSUPP);
    in.arg = 0x1000;
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, &flags, 4), -ENOTTY);

    /* With check_open the kernel asks: immutable, then append-only. */
    w.c.check_open = true;
    assert_int_equal(send(FUSE_OPEN, f, &open, sizeof open, NULL, 0), -EPERM);
    in = (struct fuse_ioctl_in){.cmd = FS_IOC_SETFLAGS, .in_size = 4};
    flags = FS_APPEND_FL;
    assert_int_equal(send(FUSE_IOCTL, f, &in, sizeof in, &flags, 4), 0);
    assert_int_equal(send(FUSE_OPEN, f, &open, sizeof open, NULL, 0), -EPERM);
    open.flags = O_WRONLY | O_APPEND;
    assert_int_equal(send(FUSE_OPEN, f, &open, sizeof open, NULL, 0), 0);
    open.flags = O_RDONLY;
    assert_int_equal(send(FUSE_OPEN, f, &open, sizeof open, NULL, 0), 0);
}

static void test_init(void **state)
{
    struct fuse_init_in in = {.major = 7,
                              .minor = 45,
                              .flags = 0xffffffff & ~(1u << 31),
                              .flags2 = 0xffffffff,
                              .max_readahead = 131072};
    const struct fuse_init_out *o = (const void *)w.out;
    uint64_t flags;

    w.c.offer_uring = true;
    w.c.ring_payload = 1 << 17;
    w.c.posix_acl = true;
    assert_int_equal(send(FUSE_INIT, 0, &in, sizeof in, NULL, 0), 0);
    flags = o->flags | (uint64_t)o->flags2 << 32;
    assert_true(w.c.uring && (flags & FUSE_OVER_IO_URING));
    assert_true(flags & FUSE_POSIX_ACL);
    assert_false(flags & (FUSE_WRITEBACK_CACHE | FUSE_ATOMIC_O_TRUNC | FUSE_AUTO_INVAL_DATA));
    assert_int_equal(o->max_write, 1 << 17);
    assert_int_equal(o->max_pages, 32);
    assert_int_equal(w.c.negative_valid, 3600);
    assert_false(w.c.keep_open);

    in.minor = 38; /* cannot be told to forget all names */
    in.flags &= ~(uint32_t)FUSE_NO_OPENDIR_SUPPORT;
    in.flags2 = 0;
    assert_int_equal(send(FUSE_INIT, 0, &in, sizeof in, NULL, 0), 0);
    assert_false(w.c.uring);
    assert_int_equal(o->max_write, FUSE_PAYLOAD_MAX);
    assert_int_equal(o->max_pages, FUSE_PAYLOAD_MAX / 4096);
    assert_int_equal(o->minor, 38);
    assert_int_equal(w.c.negative_valid, 1);
    assert_true(w.c.keep_open);

    in.minor = 12;
    assert_int_equal(send(FUSE_INIT, 0, &in, sizeof in, NULL, 0), -EPROTO);
    in.major = 8; /* asks again with ours */
    assert_int_equal(send(FUSE_INIT, 0, &in, sizeof in, NULL, 0), 0);
    assert_int_equal(o->major, 7);
    assert_int_equal(w.r.out_len, FUSE_COMPAT_INIT_OUT_SIZE);
}

static void test_lookup(void **state)
{
    uint64_t d = make(1, "d", S_IFDIR | 0755), f = make(d, "f", S_IFREG | 0644);

    assert_int_equal(send_name(FUSE_LOOKUP, d, "f"), 0);
    assert_int_equal(entry()->nodeid, f);
    assert_int_equal(entry()->attr.ino, f);
    assert_true(entry()->entry_valid == 3600);
    assert_int_equal(entry()->attr_valid, FUSE_SETTLE_SECONDS); /* it has just changed */
    assert_int_equal(send_name(FUSE_LOOKUP, d, "g"), 0);
    assert_int_equal(entry()->nodeid, 0);
    assert_int_equal(entry()->entry_valid, 7);
    assert_int_equal(send_name(FUSE_LOOKUP, f, "."), 0); /* handles */
    assert_int_equal(entry()->nodeid, f);
    assert_int_equal(send_name(FUSE_LOOKUP, 99999, "."), -ESTALE);
    assert_int_equal(send_name(FUSE_LOOKUP, d, ".."), 0);
    assert_int_equal(entry()->nodeid,
                     FUSE_ROOT_ID); /* the root has one name, whatever its number */
    assert_int_equal(entry()->attr.ino, w.c.root_ino);
    assert_int_equal(send_name(FUSE_LOOKUP, f, "x"), -ENOTDIR);
    assert_int_equal(memfs_references(w.fs), 4);
    assert_int_equal(send_name(FUSE_UNLINK, d, "f"), 0);
    assert_int_equal(send_name(FUSE_LOOKUP, f, "."), -ESTALE); /* FORGET will come */
    assert_int_equal(memfs_references(w.fs), 4);
}

static void test_forget(void **state)
{
    uint64_t a = make(1, "a", S_IFREG | 0644), b = make(1, "b", S_IFREG | 0644);
    struct fuse_forget_in one = {.nlookup = 1};
    struct {
        struct fuse_batch_forget_in h;
        struct fuse_forget_one item[2];
    } batch = {{.count = 1000}, {{a, 1}, {b, 1}}}; /* the count is a lie */

    assert_int_equal(memfs_references(w.fs), 2);
    assert_int_equal(send_name(FUSE_LOOKUP, 1, "a"), 0);
    assert_int_equal(memfs_references(w.fs), 3);
    assert_int_equal(send(FUSE_FORGET, a, &one, sizeof one, NULL, 0), FUSE_NO_REPLY);
    assert_int_equal(send_name(FUSE_UNLINK, 1, "a"), 0);
    assert_int_equal(memfs_inodes(w.fs), 3); /* still referenced */
    assert_int_equal(send(FUSE_BATCH_FORGET, 0, &batch, sizeof batch, NULL, 0), FUSE_NO_REPLY);
    assert_int_equal(memfs_references(w.fs), 0);
    assert_int_equal(memfs_inodes(w.fs), 2);
}

/* A reply that did not arrive must not leave references behind. */
static void test_undo(void **state)
{
    struct fuse_read_in rd = {.size = 65536};

    make(1, "a", S_IFREG | 0644);
    fuse_request_undo(&w.r);
    assert_int_equal(memfs_references(w.fs), 0);
    assert_int_equal(send_name(FUSE_LOOKUP, 1, "a"), 0);
    fuse_request_undo(&w.r);
    assert_int_equal(send_name(FUSE_LOOKUP, 1, "nothing"), 0);
    fuse_request_undo(&w.r);
    assert_int_equal(send(FUSE_READDIRPLUS, 1, &rd, sizeof rd, NULL, 0), 0);
    assert_int_equal(memfs_references(w.fs), 1);
    fuse_request_undo(&w.r);
    assert_int_equal(memfs_references(w.fs), 0);
}

/* Reads a directory through buffers of a size; returns the number of names. */
static unsigned list(uint32_t op, uint32_t size)
{
    struct fuse_read_in rd = {.size = size};
    unsigned n = 0;

    for (;;) {
        size_t at = 0;

        assert_int_equal(send(op, 1, &rd, sizeof rd, NULL, 0), 0);
        assert_true(w.r.out_len <= size);
        if (w.r.out_len == 0)
            return n;
        while (at < w.r.out_len) {
            struct fuse_direntplus *p = (void *)(w.out + at);
            struct fuse_dirent *d = op == FUSE_READDIR ? (void *)p : &p->dirent;
            bool dots = d->name[0] == '.';

            if (op == FUSE_READDIRPLUS) {
                assert_int_equal(p->entry_out.nodeid == 0, dots);
                if (!dots)
                    assert_int_equal(p->entry_out.attr.ino, d->ino);
            }
            rd.offset = d->off;
            n++;
            at += op == FUSE_READDIR ? FUSE_DIRENT_SIZE(d) : FUSE_DIRENTPLUS_SIZE(p);
        }
        assert_int_equal(at, w.r.out_len);
    }
}

static void test_readdir(void **state)
{
    struct fuse_read_in tiny = {.size = 8};
    char name[40];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "file-%.*s%d", i % 20, "xxxxxxxxxxxxxxxxxxxx", i);
        make(1, name, S_IFREG | 0644);
    }
    assert_int_equal(list(FUSE_READDIR, 4096), 102);
    assert_int_equal(list(FUSE_READDIR, 100), 102);
    assert_int_equal(memfs_references(w.fs), 100);
    assert_int_equal(list(FUSE_READDIRPLUS, 4096), 102);
    assert_int_equal(memfs_references(w.fs), 200); /* one for each entry that was returned */
    assert_int_equal(list(FUSE_READDIRPLUS, FUSE_PAYLOAD_MAX), 102);
    assert_int_equal(memfs_references(w.fs), 300);
    assert_int_equal(send(FUSE_READDIR, 1, &tiny, sizeof tiny, NULL, 0), -EINVAL);
}

static void test_data(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 0644), g = make(1, "g", S_IFREG | 0644);
    struct fuse_write_in wr = {.offset = 3, .size = 5};
    struct fuse_read_in rd = {.offset = 0, .size = 100};
    struct fuse_copy_file_range_in cp = {.off_in = 3, .nodeid_out = g, .len = 1 << 30};
    struct fuse_lseek_in sk = {.offset = 0, .whence = SEEK_CUR};

    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "hello", 5), 0);
    assert_int_equal(((struct fuse_write_out *)w.out)->size, 5);
    assert_int_equal(send(FUSE_READ, f, &rd, sizeof rd, NULL, 0), 0);
    assert_int_equal(w.r.out_len, 8);
    assert_memory_equal(w.out, "\0\0\0hello", 8);
    rd.size = UINT32_MAX; /* more than there is room for */
    assert_int_equal(send(FUSE_READ, f, &rd, sizeof rd, NULL, 0), 0);
    rd.offset = 1ull << 63;
    assert_int_equal(send(FUSE_READ, f, &rd, sizeof rd, NULL, 0), -EINVAL);
    wr.offset = INT64_MAX - 2;
    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "hello", 5), -EFBIG);
    assert_int_equal(send(FUSE_COPY_FILE_RANGE, f, &cp, sizeof cp, NULL, 0), 0);
    assert_int_equal(((struct fuse_write_out *)w.out)->size, 5);
    cp.off_out = 5;
    assert_int_equal(send(FUSE_COPY_FILE_RANGE_64, f, &cp, sizeof cp, NULL, 0), 0);
    assert_int_equal(((struct fuse_copy_file_range_out *)w.out)->bytes_copied, 5);
    rd.offset = 0;
    assert_int_equal(send(FUSE_READ, g, &rd, sizeof rd, NULL, 0), 0);
    assert_int_equal(w.r.out_len, 10);
    assert_memory_equal(w.out, "hellohello", 10);
    cp.off_out = INT64_MAX;
    assert_int_equal(send(FUSE_COPY_FILE_RANGE, f, &cp, sizeof cp, NULL, 0), -EFBIG);
    assert_int_equal(send(FUSE_LSEEK, f, &sk, sizeof sk, NULL, 0), -EINVAL);
    sk.whence = SEEK_DATA;
    sk.offset = UINT64_MAX;
    assert_int_equal(send(FUSE_LSEEK, f, &sk, sizeof sk, NULL, 0), -ENXIO);
}

static uint32_t mode_of(uint64_t ino)
{
    struct fs_attr a;

    assert_int_equal(fs_getattr(w.fs, ino, &a), 0);
    return a.mode & 07777;
}

/* Set-id bits go when the contents or the owner change, and the kernel hears of it. */
static void test_set_id(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 06777), d = make(1, "d", S_IFDIR | 02777);
    struct fuse_write_in wr = {.size = 1};
    struct fuse_setattr_in sa = {.valid = FATTR_UID, .uid = 5};
    struct fuse_setattr_in chmod = {.valid = FATTR_MODE, .mode = 06777};
    struct fuse_setattr_in nothing = {0};
    struct fuse_fallocate_in fa = {.length = 10};

    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "x", 1), 0);
    assert_int_equal(mode_of(f), 06777);
    assert_int_equal(w.attr_forgotten, 0);
    wr.write_flags = FUSE_WRITE_KILL_SUIDGID;
    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "x", 1), 0);
    assert_int_equal(mode_of(f), 0777);
    assert_int_equal(w.attr_forgotten, 1);
    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "x", 1), 0);
    assert_int_equal(w.attr_forgotten, 1); /* nothing was dropped */

    assert_int_equal(send(FUSE_SETATTR, f, &chmod, sizeof chmod, NULL, 0), 0);
    assert_int_equal(mode_of(f), 06777);
    assert_int_equal(send_as(7, FUSE_FALLOCATE, f, &fa, sizeof fa, NULL, 0), 0);
    assert_int_equal(mode_of(f), 0777);
    assert_int_equal(send(FUSE_SETATTR, f, &chmod, sizeof chmod, NULL, 0), 0);
    assert_int_equal(send(FUSE_SETATTR, f, &sa, sizeof sa, NULL, 0), 0);
    assert_int_equal(mode_of(f), 0777);
    assert_int_equal(send(FUSE_SETATTR, d, &sa, sizeof sa, NULL, 0), 0);
    assert_int_equal(mode_of(d), 02777); /* a directory keeps it */

    assert_int_equal(send(FUSE_SETATTR, f, &chmod, sizeof chmod, NULL, 0), 0);
    assert_int_equal(send(FUSE_SETATTR, f, &nothing, sizeof nothing, NULL, 0), 0);
    assert_int_equal(mode_of(f), 0777); /* chown(-1, -1) */

    /* Without the group's execute bit it goes only if the writer is not in the file's group. */
    chmod.mode = 02646;
    assert_int_equal(send(FUSE_SETATTR, f, &chmod, sizeof chmod, NULL, 0), 0);
    assert_int_equal(send(FUSE_WRITE, f, &wr, sizeof wr, "x", 1), 0);
    assert_int_equal(mode_of(f), 02646);
    assert_int_equal(send_as(7, FUSE_WRITE, f, &wr, sizeof wr, "x", 1), 0);
    assert_int_equal(mode_of(f), 0646);
}

static void test_setattr(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 0644);
    struct fuse_setattr_in sa = {.valid = FATTR_SIZE, .size = 1ull << 63};
    struct fs_attr a;

    assert_int_equal(send(FUSE_SETATTR, f, &sa, sizeof sa, NULL, 0), -EFBIG);
    sa = (struct fuse_setattr_in){.valid = FATTR_MTIME, .mtimensec = 1000000000};
    assert_int_equal(send(FUSE_SETATTR, f, &sa, sizeof sa, NULL, 0), -EINVAL);
    sa = (struct fuse_setattr_in){.valid = FATTR_MTIME | FATTR_ATIME | FATTR_ATIME_NOW,
                                  .mtime = (uint64_t)-5,
                                  .mtimensec = 7,
                                  .atime = 1};
    assert_int_equal(send(FUSE_SETATTR, f, &sa, sizeof sa, NULL, 0), 0);
    assert_int_equal(fs_getattr(w.fs, f, &a), 0);
    assert_int_equal(a.mtime.tv_sec, -5);
    assert_true(a.atime.tv_sec > 1000);
}

static void test_xattr(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 0644);
    struct fuse_setxattr_in sx = {.size = 3};
    struct fuse_getxattr_in ask = {.size = 0}, get = {.size = 100}, small = {.size = 1};
    char longname[300] = "user.";

    assert_int_equal(send(FUSE_SETXATTR, f, &sx, sizeof sx, "user.a\0val", 10), 0);
    assert_int_equal(send(FUSE_SETXATTR, f, &sx, sizeof sx, "trusted.t\0val", 13), 0);
    sx.flags = XATTR_CREATE;
    assert_int_equal(send(FUSE_SETXATTR, f, &sx, sizeof sx, "user.a\0val", 10), -EEXIST);
    assert_int_equal(send(FUSE_GETXATTR, f, &ask, sizeof ask, "user.a", 7), 0);
    assert_int_equal(((struct fuse_getxattr_out *)w.out)->size, 3);
    assert_int_equal(send(FUSE_GETXATTR, f, &get, sizeof get, "user.a", 7), 0);
    assert_int_equal(w.r.out_len, 3);
    assert_memory_equal(w.out, "val", 3);
    assert_int_equal(send(FUSE_GETXATTR, f, &small, sizeof small, "user.a", 7), -ERANGE);
    assert_int_equal(send(FUSE_GETXATTR, f, &get, sizeof get, "user.b", 7), -ENODATA);
    assert_int_equal(send(FUSE_LISTXATTR, f, &get, sizeof get, NULL, 0), 0);
    assert_int_equal(w.r.out_len, 17);
    assert_int_equal(send_as(5, FUSE_LISTXATTR, f, &get, sizeof get, NULL, 0), 0);
    assert_int_equal(w.r.out_len, 7); /* trusted.* is root's */
    assert_int_equal(send_name(FUSE_REMOVEXATTR, f, "user.a"), 0);
    assert_int_equal(send_name(FUSE_REMOVEXATTR, f, "user.a"), -ENODATA);
    assert_int_equal(send_name(FUSE_REMOVEXATTR, f, "system.posix_acl_access"), 0); /* as Linux */
    memset(longname + 5, 'x', 294);
    assert_int_equal(send(FUSE_GETXATTR, f, &get, sizeof get, longname, sizeof longname), -ERANGE);
    w.c.setxattr_ext = false; /* the short form of older kernels */
    assert_int_equal(send(FUSE_SETXATTR, f, &sx, 8, "user.c\0val", 10), 0);
}

/* In a ring, the reply is written over the request's names and data. */
static void test_reply_over_request(void **state)
{
    uint64_t f = make(1, "f", S_IFREG | 0644);
    struct fuse_getxattr_in get = {.size = 4000};
    char value[300];

    memset(value, 'v', sizeof value);
    assert_int_equal(fs_setxattr(w.fs, f, "user.name", value, sizeof value, 0, false), 0);
    w.r = (struct fuse_request){.c = &w.c,
                                .in = {.opcode = FUSE_GETXATTR, .nodeid = f},
                                .arg = &get,
                                .data = w.out,
                                .data_len = 10,
                                .out = w.out,
                                .out_cap = sizeof w.out};
    memcpy(w.out, "user.name", 10);
    assert_int_equal(fuse_request_run(&w.r), 0);
    assert_int_equal(w.r.out_len, 300);
    assert_memory_equal(w.out, value, 300);
    w.r = (struct fuse_request){.c = &w.c,
                                .in = {.opcode = FUSE_SYMLINK, .nodeid = 1},
                                .data = w.out,
                                .data_len = 9,
                                .out = w.out,
                                .out_cap = sizeof w.out};
    memcpy(w.out, "sl\0target", 10);
    w.r.data_len = 10;
    assert_int_equal(fuse_request_run(&w.r), 0);
    f = entry()->nodeid;
    assert_int_equal(send(FUSE_READLINK, f, NULL, 0, NULL, 0), 0);
    assert_int_equal(w.r.out_len, 6);
    assert_memory_equal(w.out, "target", 6);
}

static void test_statx(void **state)
{
    struct fuse_statx_in in = {0};
    struct fuse_statx_out *o = (void *)w.out;

    assert_int_equal(send(FUSE_STATX, 1, &in, sizeof in, NULL, 0), 0);
    assert_int_equal(o->stat.ino, w.c.root_ino);
    assert_true(o->stat.mask & STATX_BTIME);
    assert_true(o->stat.btime.tv_sec > 0);
    assert_int_equal(send(FUSE_STATFS, 1, NULL, 0, NULL, 0), 0);
    assert_int_equal(w.r.out_len, sizeof(struct fuse_statfs_out));
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(malformed),
        T(not_needed),
        T(flags),
        T(init),
        T(lookup),
        T(forget),
        T(undo),
        T(readdir),
        T(data),
        T(set_id),
        T(setattr),
        T(xattr),
        T(reply_over_request),
        T(statx),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
