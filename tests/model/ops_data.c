/* Operations on the content of files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "model.h"

static char data[BUFFER], read_buffer[SIDES][BUFFER];
static char one[PATH_ROOM];
static struct times times;

static uint64_t size_of(const struct pair *p)
{
    struct stat st;
    return fstat(p->fd[B], &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Times of an open file can only be looked at by its name, while it has one. */
static void arm(const struct pair *p)
{
    times_arm(&times, p->path, p->path);
    struct stat st[2];
    if (times.armed && (fstat(p->fd[B], &st[0]) < 0 ||
                        fstatat(side[B].root, p->path, &st[1], AT_SYMLINK_NOFOLLOW) < 0 ||
                        st[0].st_ino != st[1].st_ino))
        times.armed = false;
}

static void op_pwrite(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    size_t n = chance_size();
    uint64_t off = chance_offset(size_of(p));
    chance_bytes(data, n);
    say("pwrite %s %zu at %llu", p->path, n, (unsigned long long)off);
    arm(p);
    BOTH(pwrite(p->fd[s], data, n, (off_t)off));
    compare_pair(p, p->flags & O_APPEND ? size_of(p) - (ret[A] > 0 ? (uint64_t)ret[A] : 0) : off, n);
    times_check(&times, true);
}

static void op_write(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    size_t n = chance_size() % 70000;
    chance_bytes(data, n);
    int whence = one_in(2) ? SEEK_SET : SEEK_END;
    say("seek and write %s %zu", p->path, n);
    BOTH(lseek(p->fd[s], 0, whence));
    struct iovec v[3] = {{data, n / 3}, {data + n / 3, n / 2 - n / 3}, {data + n / 2, n - n / 2}};
    BOTH(writev(p->fd[s], v, 3));
    BOTH(lseek(p->fd[s], 0, SEEK_CUR));
    uint64_t end = ret[A] > 0 ? (uint64_t)ret[A] : 0;
    compare_pair(p, end > n ? end - n : 0, n);
}

static void op_append(void)
{
    pick_file(one);
    size_t n = 1 + chance(5000);
    chance_bytes(data, n);
    struct stat st;
    if (fstatat(side[B].root, one, &st, 0) == 0 && !S_ISREG(st.st_mode))
        return;
    say("append %zu to %s", n, one);
    int fd[SIDES];
    BOTH((fd[s] = openat(side[s].root, one, O_WRONLY | O_APPEND | O_CREAT, 0600)) < 0 ? -1 : 0);
    if (ret[A] == 0) {
        BOTH(lseek(fd[s], 0, SEEK_SET)); /* must not matter */
        BOTH(write(fd[s], data, n));
        close(fd[A]);
        close(fd[B]);
    }
    compare_path(one);
}

static void op_rewrite(void)
{
    pick_file(one);
    size_t n = chance_size();
    struct stat st;
    if (fstatat(side[B].root, one, &st, 0) == 0 && !S_ISREG(st.st_mode))
        return;
    chance_bytes(data, n);
    say("rewrite %s with %zu", one, n);
    int fd[SIDES];
    BOTH((fd[s] = openat(side[s].root, one, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0 ? -1 : 0);
    if (ret[A] == 0) {
        BOTH(write(fd[s], data, n));
        close(fd[A]);
        close(fd[B]);
    }
    compare_path(one);
}

static void op_pread(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    size_t n = chance_size();
    uint64_t off = chance_offset(size_of(p));
    say("pread %s %zu at %llu", p->path, n, (unsigned long long)off);
    BOTH(pread(p->fd[s], read_buffer[s], n, (off_t)off));
    if (ret[A] > 0 && memcmp(read_buffer[A], read_buffer[B], (size_t)ret[A]))
        fail("what was read differs");
}

static void op_truncate(void)
{
    pick_file(one);
    struct stat st;
    uint64_t old = fstatat(side[B].root, one, &st, 0) == 0 ? (uint64_t)st.st_size : 0, size = old;
    size = one_in(3) ? chance_offset(size) : one_in(4) ? 0 : chance(size + 1);
    say("truncate %s to %llu", one, (unsigned long long)size);
    times_arm(&times, one, one);
    BOTH(truncate(full(s, one), (off_t)size));
    compare_path(one);
    times_check(&times, size != old); /* with the same size, times may or may not move */
}

static void op_ftruncate(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    uint64_t old = size_of(p), size = one_in(2) ? chance_offset(old) : chance(old + 1);
    say("ftruncate %s to %llu", p->path, (unsigned long long)size);
    arm(p);
    BOTH(ftruncate(p->fd[s], (off_t)size));
    compare_pair(p, size > 100000 ? size - 100000 : 0, 200000);
    times_check(&times, size != old);
}

/* What one side can't do, but the other can, is done by hand where it can't. */
static void by_hand(struct pair *p, int s, int mode, uint64_t off, uint64_t len)
{
    uint64_t size = size_of(p), end = off + len;
    static char zeros[BUFFER];
    int flags = fcntl(p->fd[s], F_GETFL);
    if (fcntl(p->fd[s], F_SETFL, flags & ~O_APPEND) < 0)
        fail("fcntl: %s", strerror(errno));
    uint64_t limit = mode & FALLOC_FL_KEEP_SIZE && end > size ? size : end;
    for (uint64_t at = off; at < limit;) {
        size_t n = limit - at < BUFFER ? limit - at : BUFFER;
        if (pwrite(p->fd[s], zeros, n, (off_t)at) != (ssize_t)n)
            fail("zeroing by hand: %s", strerror(errno));
        at += n;
    }
    fcntl(p->fd[s], F_SETFL, flags);
}

static void op_fallocate(void)
{
    static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                                FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
    struct pair *p = any_open();
    if (!p)
        return;
    int mode = modes[chance(6)];
    uint64_t size = size_of(p), off = chance_offset(size < 1 << 20 ? size : 1 << 20) % (4 << 20);
    uint64_t len = chance_size();
    bool zeroes = mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
    say("fallocate %s mode %d at %llu, %llu", p->path, mode, (unsigned long long)off,
        (unsigned long long)len);
    arm(p);
    EACH(fallocate(p->fd[s], mode, (off_t)off, (off_t)len));
    for (int s = 0; s < SIDES; s++)
        if (ret[s] < 0 && err[s] == EOPNOTSUPP && ret[!s] == 0) {
            if (s == A && !(mode & FALLOC_FL_ZERO_RANGE) && mode != FALLOC_FL_KEEP_SIZE)
                fail("A does not support fallocate mode %d", mode);
            if (zeroes)
                by_hand(p, s, mode, off, len);
            else if (!(mode & FALLOC_FL_KEEP_SIZE) && off + len > size &&
                     ftruncate(p->fd[s], (off_t)(off + len)) < 0)
                fail("growing by hand: %s", strerror(errno));
            /* Zeroing nothing by hand clears no set-id bits. */
            struct stat st;
            bool was = be_user(false);
            if (fstat(p->fd[!s], &st) < 0 || fchmod(p->fd[s], st.st_mode & 07777) < 0)
                fail("mode by hand: %s", strerror(errno));
            be_user(was);
            ret[s] = err[s] = 0;
            times.armed = false;
        }
    agree();
    compare_pair(p, off, len);
    times_check(&times, mode == 0 || mode & FALLOC_FL_PUNCH_HOLE);
}

static void op_mmap_write(void)
{
    struct pair *p = any_open();
    uint64_t size = p ? size_of(p) : 0;
    if (!p || (p->flags & O_ACCMODE) != O_RDWR || size == 0 || size > 64 << 20)
        return;
    uint64_t off = chance(size), n = 1 + chance(size - off < 30000 ? size - off : 30000);
    chance_bytes(data, n);
    say("mmap %s, store %llu at %llu", p->path, (unsigned long long)n, (unsigned long long)off);
    bool sync = one_in(2), keep = one_in(3);
    for (int s = 0; s < SIDES; s++) {
        char *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd[s], 0);
        if (m == MAP_FAILED)
            fail("mmap on %c: %s", "AB"[s], strerror(errno));
        memcpy(m + off, data, n);
        if (sync && msync(m, size, MS_SYNC))
            fail("msync on %c: %s", "AB"[s], strerror(errno));
        if (keep && pread(p->fd[s], read_buffer[s], n, (off_t)off) != (ssize_t)n)
            fail("read of what was stored on %c: %s", "AB"[s], strerror(errno));
        munmap(m, size);
    }
    if (keep && memcmp(read_buffer[A], data, n))
        fail("read does not see what was stored through the mapping");
    compare_pair(p, off, n);
}

static void op_mmap_read(void)
{
    struct pair *p = any_open();
    uint64_t size = p ? size_of(p) : 0;
    if (!p || (p->flags & O_ACCMODE) == O_WRONLY || size == 0 || size > 64 << 20)
        return;
    say("mmap %s and look", p->path);
    char *m[SIDES];
    for (int s = 0; s < SIDES; s++)
        if ((m[s] = mmap(NULL, size, PROT_READ, MAP_SHARED, p->fd[s], 0)) == MAP_FAILED)
            fail("mmap on %c: %s", "AB"[s], strerror(errno));
    if (memcmp(m[A], m[B], size))
        fail("mapped content differs");
    munmap(m[A], size);
    munmap(m[B], size);
}

/* Where the holes are is each side's own affair; that they are holes is not. */
static void op_seek(void)
{
    struct pair *p = any_open();
    if (!p || (p->flags & O_ACCMODE) == O_WRONLY)
        return;
    uint64_t size = size_of(p), from = one_in(4) ? size + chance(3) : chance(size + 1);
    say("SEEK_DATA/SEEK_HOLE %s from %llu of %llu", p->path, (unsigned long long)from,
        (unsigned long long)size);
    for (int s = 0; s < SIDES; s++) {
        off_t d = lseek(p->fd[s], (off_t)from, SEEK_DATA);
        int derr = errno;
        off_t h = lseek(p->fd[s], (off_t)from, SEEK_HOLE);
        if (from >= size ? d >= 0 || h >= 0 || errno != ENXIO || derr != ENXIO : h < 0)
            fail("%c: SEEK_DATA %lld, SEEK_HOLE %lld, errno %s", "AB"[s], (long long)d,
                 (long long)h, strerror(errno));
        if (from >= size)
            continue;
        if (d < 0 && derr != ENXIO)
            fail("%c: SEEK_DATA: %s", "AB"[s], strerror(derr));
        if (d >= 0 && (d < (off_t)from || d >= (off_t)size))
            fail("%c: data at %lld", "AB"[s], (long long)d);
        if (h < (off_t)from || h > (off_t)size)
            fail("%c: hole at %lld", "AB"[s], (long long)h);
        if ((d == (off_t)from) == (h == (off_t)from) && !(d < 0 && h == (off_t)from))
            fail("%c: both or none of data and hole at the place itself (%lld, %lld)", "AB"[s],
                 (long long)d, (long long)h);
        /* Between here and the next data nothing but zeros may be on the other side. */
        uint64_t stop = d < 0 ? size : (uint64_t)d;
        for (uint64_t at = from; at < stop && at < from + 4 * BUFFER;) {
            size_t n = stop - at < BUFFER ? stop - at : BUFFER;
            ssize_t got = pread(p->fd[!s], read_buffer[0], n, (off_t)at);
            for (ssize_t i = 0; i < got; i++)
                if (read_buffer[0][i])
                    fail("%c has no data at %llu, the other side has", "AB"[s],
                         (unsigned long long)at + i);
            at += n;
        }
    }
}

static void op_fsync(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    bool only_data = one_in(2);
    say("%s %s", only_data ? "fdatasync" : "fsync", p->path);
    BOTH(only_data ? fdatasync(p->fd[s]) : fsync(p->fd[s]));
}

static void op_copy_range(void)
{
    struct pair *from = any_open(), *to = any_open();
    if (!from || !to)
        return;
    uint64_t size = size_of(from);
    if ((from->flags & O_ACCMODE) == O_WRONLY || size > 64 << 20)
        return;
    off_t in = (off_t)chance(size + 1), out = (off_t)chance(size_of(to) % (4 << 20) + 100000);
    size_t n = chance_size();
    struct stat a, b;
    if (fstat(from->fd[B], &a) < 0 || fstat(to->fd[B], &b) < 0)
        fail("fstat: %s", strerror(errno));
    if (a.st_ino == b.st_ino)
        return; /* overlap has rules of its own */
    say("copy_file_range %s at %lld to %s at %lld, %zu", from->path, (long long)in, to->path,
        (long long)out, n);
    for (int s = 0; s < SIDES; s++) { /* a short copy is legal: go on until nothing comes */
        off_t i = in, o = out;
        size_t left = n;
        ssize_t r = 0;
        ret[s] = err[s] = 0;
        while (left && (r = copy_file_range(from->fd[s], &i, to->fd[s], &o, left, 0)) > 0) {
            left -= (size_t)r;
            ret[s] += r;
        }
        if (r < 0 && ret[s] == 0) {
            ret[s] = -1;
            err[s] = errno;
        }
    }
    agree();
    if (ret[A] > 0)
        compare_pair(to, (uint64_t)out, n);
}

static void op_unlink_open(void)
{
    struct pair *p = any_open();
    if (!p || p->path[0] == '(')
        return;
    say("unlink %s while it is open, then use it", p->path);
    BOTH(unlinkat(side[s].root, p->path, 0));
    size_t n = 1 + chance(10000);
    uint64_t off = chance(100000);
    chance_bytes(data, n);
    BOTH(pwrite(p->fd[s], data, n, (off_t)off));
    compare_pair(p, off, n);
}

static void op_reopen(void)
{
    struct pair *p = any_open();
    if (!p)
        return;
    say("open %s again through /proc", p->path);
    char self[SIDES][64];
    int fd[SIDES];
    for (int s = 0; s < SIDES; s++)
        snprintf(self[s], sizeof self[s], "/proc/self/fd/%d", p->fd[s]);
    BOTH((fd[s] = open(self[s], O_RDONLY)) < 0 ? -1 : 0);
    if (ret[A] == 0) {
        BOTH(pread(fd[s], read_buffer[s], 5000, 0));
        if (ret[A] > 0 && memcmp(read_buffer[A], read_buffer[B], (size_t)ret[A]))
            fail("what was read differs");
        close(fd[A]);
        close(fd[B]);
    }
}

const struct op data_ops[] = {
    {"pwrite", 16, op_pwrite},
    {"write", 6, op_write},
    {"append", 5, op_append},
    {"rewrite", 4, op_rewrite},
    {"pread", 5, op_pread},
    {"truncate", 5, op_truncate},
    {"ftruncate", 6, op_ftruncate},
    {"fallocate", 8, op_fallocate},
    {"mmap write", 4, op_mmap_write},
    {"mmap read", 2, op_mmap_read},
    {"seek", 6, op_seek},
    {"fsync", 2, op_fsync},
    {"copy range", 5, op_copy_range},
    {"unlink open", 2, op_unlink_open},
    {"reopen", 1, op_reopen},
    {0},
};
