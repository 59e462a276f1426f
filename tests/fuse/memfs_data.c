/* memfs: file contents, as a sorted array of pages; what has no page is a hole. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memfs_impl.h"
#include "util/bytes.h"

static void delay(int op)
{
    memfs_delay_fn *fn = atomic_load(&memfs_delay);

    if (fn)
        fn(op);
}

/* The position of the first page with at least this index. */
static size_t page_at(const struct inode *i, uint64_t index)
{
    size_t lo = 0, hi = i->n_pages;

    if (hi && i->pages[hi - 1].index < index)
        return hi;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (i->pages[mid].index < index)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool take_space(struct fs *fs)
{
    uint64_t used = atomic_fetch_add(&fs->used, MEMFS_PAGE) + MEMFS_PAGE;

    if (!fs->limit || used <= fs->limit)
        return true;
    atomic_fetch_sub(&fs->used, MEMFS_PAGE);
    return false;
}

static int page_insert(struct fs *fs, struct inode *i, size_t at, uint64_t index, bool zero)
{
    unsigned char *data;

    if (!take_space(fs))
        return -ENOSPC;
    if (i->n_pages == i->cap_pages) {
        size_t cap = i->cap_pages ? 2 * i->cap_pages : 4;
        struct page *more = realloc(i->pages, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        i->pages = more;
        i->cap_pages = cap;
    }
    data = zero ? calloc(1, MEMFS_PAGE) : malloc(MEMFS_PAGE);
    if (!data)
        return -ENOMEM;
    memmove(i->pages + at + 1, i->pages + at, (i->n_pages - at) * sizeof *i->pages);
    i->pages[at] = (struct page){index, data};
    i->n_pages++;
    i->a.blocks = 1 + i->n_pages * (MEMFS_PAGE / 512);
    return 0;
}

/* Drops whole pages with from <= index < to. */
static void drop_pages(struct fs *fs, struct inode *i, uint64_t from, uint64_t to)
{
    size_t a = page_at(i, from), b = to > from ? page_at(i, to) : a;

    if (a == b)
        return;
    for (size_t k = a; k < b; k++)
        free(i->pages[k].data);
    memmove(i->pages + a, i->pages + b, (i->n_pages - b) * sizeof *i->pages);
    i->n_pages -= b - a;
    atomic_fetch_sub(&fs->used, (b - a) * MEMFS_PAGE);
    i->a.blocks = 1 + i->n_pages * (MEMFS_PAGE / 512);
}

void memfs_free_pages(struct fs *fs, struct inode *i)
{
    if (i->pages)
        drop_pages(fs, i, 0, UINT64_MAX);
    free(i->pages);
}

/* Zeroes [from, to), which does not cross a page. */
static void zero_in_page(struct inode *i, uint64_t from, uint64_t to)
{
    size_t at = page_at(i, from / MEMFS_PAGE);

    if (from < to && at < i->n_pages && i->pages[at].index == from / MEMFS_PAGE)
        memset(i->pages[at].data + from % MEMFS_PAGE, 0, to - from);
}

static void punch(struct fs *fs, struct inode *i, uint64_t from, uint64_t to)
{
    uint64_t first = P2_ROUND_UP(from, (uint64_t)MEMFS_PAGE);
    uint64_t last = P2_ROUND_DOWN(to, (uint64_t)MEMFS_PAGE);

    if (first > last) {
        zero_in_page(i, from, to);
        return;
    }
    zero_in_page(i, from, first);
    drop_pages(fs, i, first / MEMFS_PAGE, last / MEMFS_PAGE);
    zero_in_page(i, last, to);
}

int memfs_truncate(struct fs *fs, struct inode *i, uint64_t size)
{
    if (size < i->a.size)
        punch(fs, i, size, P2_ROUND_UP(i->a.size, (uint64_t)MEMFS_PAGE));
    i->a.size = size;
    return 0;
}

static struct inode *get_file(struct fs *fs, uint64_t ino, int *rc)
{
    struct inode *i = memfs_get(fs, ino);

    *rc = !i ? -ESTALE : S_ISDIR(i->a.mode) ? -EISDIR : S_ISREG(i->a.mode) ? 0 : -EINVAL;
    return *rc ? NULL : i;
}

static void read_pages(struct inode *i, uint64_t off, unsigned char *out, size_t n)
{
    size_t at = page_at(i, off / MEMFS_PAGE);

    while (n) {
        size_t in = off % MEMFS_PAGE, part = MIN(n, MEMFS_PAGE - in);

        if (at < i->n_pages && i->pages[at].index == off / MEMFS_PAGE)
            memcpy(out, i->pages[at++].data + in, part);
        else
            memset(out, 0, part);
        out += part;
        off += part;
        n -= part;
    }
}

static bool older(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
}

static void update_atime(struct fs *fs, struct inode *i)
{
    struct timespec now;

    if (!fs->opts.atime || fs->opts.readonly)
        return;
    now = memfs_now();
    if (fs->opts.relatime && !older(i->a.atime, i->a.mtime) && !older(i->a.atime, i->a.ctime) &&
        now.tv_sec - i->a.atime.tv_sec < 24 * 3600)
        return;
    pthread_rwlock_unlock(&i->lock);
    pthread_rwlock_wrlock(&i->lock);
    i->a.atime = now;
}

ssize_t fs_read_with(struct fs *fs, uint64_t ino, uint64_t off, void *data, size_t n,
                     unsigned flags)
{
    struct inode *i;
    int rc;

    delay('r');
    pthread_rwlock_rdlock(&fs->tree);
    i = get_file(fs, ino, &rc);
    if (i) {
        pthread_rwlock_rdlock(&i->lock);
        n = off < i->a.size ? MIN(n, i->a.size - off) : 0;
        read_pages(i, off, data, n);
        if (n)
            update_atime(fs, i);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc ? rc : (ssize_t)n;
}

static ssize_t write_pages(struct fs *fs, struct inode *i, uint64_t off, const unsigned char *data,
                           size_t n)
{
    size_t at = page_at(i, off / MEMFS_PAGE), done = 0;

    while (done < n) {
        uint64_t index = off / MEMFS_PAGE;
        size_t in = off % MEMFS_PAGE, part = MIN(n - done, MEMFS_PAGE - in);

        if (at == i->n_pages || i->pages[at].index != index) {
            int rc = page_insert(fs, i, at, index, part < MEMFS_PAGE);

            if (rc)
                return done ? (ssize_t)done : rc;
        }
        memcpy(i->pages[at++].data + in, data + done, part);
        off += part;
        done += part;
    }
    return (ssize_t)done;
}

/* Nothing is shared here: the caller reads and writes. */
ssize_t fs_share(struct fs *fs, uint64_t from, uint64_t from_off, uint64_t to, uint64_t to_off,
                 size_t n, unsigned flags)
{
    return 0;
}

ssize_t fs_write(struct fs *fs, uint64_t ino, uint64_t off, const void *data, size_t n,
                 unsigned flags)
{
    struct inode *i;
    ssize_t put = 0;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    delay('w');
    pthread_rwlock_rdlock(&fs->tree);
    i = get_file(fs, ino, &rc);
    if (i) {
        pthread_rwlock_wrlock(&i->lock);
        if (flags & FS_WRITE_APPEND)
            off = i->a.size;
        put = write_pages(fs, i, off, data, n);
        if (put > 0) {
            i->a.size = MAX(i->a.size, off + (uint64_t)put);
            i->a.mtime = i->a.ctime = memfs_now();
            memfs_kill_caps(i);
        }
        if (put > 0 && (flags & FS_WRITE_KILL_SUIDGID))
            memfs_kill_suidgid(i, flags & FS_WRITE_KILL_SGID);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc ? rc : put;
}

static int fallocate_locked(struct fs *fs, struct inode *i, int mode, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;

    if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
        punch(fs, i, off, MIN(end, P2_ROUND_UP(i->a.size, (uint64_t)MEMFS_PAGE)));
    else if ((mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE)
        punch(fs, i, off, end);
    else if (mode & ~FALLOC_FL_KEEP_SIZE)
        return -EOPNOTSUPP;
    if (!(mode & FALLOC_FL_KEEP_SIZE) && end > i->a.size)
        i->a.size = end;
    i->a.mtime = i->a.ctime = memfs_now();
    return 0;
}

int fs_fallocate(struct fs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
    struct inode *i;
    int rc;

    if (fs->opts.readonly)
        return -EROFS;
    pthread_rwlock_rdlock(&fs->tree);
    i = get_file(fs, ino, &rc);
    if (i) {
        pthread_rwlock_wrlock(&i->lock);
        rc = fallocate_locked(fs, i, mode, off, len);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

static int seek_locked(const struct inode *i, uint64_t off, int whence, uint64_t *out)
{
    size_t at = page_at(i, off / MEMFS_PAGE);
    uint64_t index = off / MEMFS_PAGE;

    if (off >= i->a.size)
        return -ENXIO;
    if (whence == SEEK_DATA) {
        if (at == i->n_pages || i->pages[at].index * MEMFS_PAGE >= i->a.size)
            return -ENXIO;
        *out = MAX(off, i->pages[at].index * MEMFS_PAGE);
        return 0;
    }
    for (; at < i->n_pages && i->pages[at].index == index; at++)
        index++;
    *out = MIN(MAX(off, index * MEMFS_PAGE), i->a.size);
    return 0;
}

int fs_seek(struct fs *fs, uint64_t ino, uint64_t off, int whence, uint64_t *out)
{
    struct inode *i;
    int rc;

    pthread_rwlock_rdlock(&fs->tree);
    i = get_file(fs, ino, &rc);
    if (i) {
        pthread_rwlock_rdlock(&i->lock);
        rc = seek_locked(i, off, whence, out);
        pthread_rwlock_unlock(&i->lock);
    }
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}

int fs_fsync(struct fs *fs, uint64_t ino, bool datasync)
{
    delay('s');
    return 0;
}

int memfs_poke(struct fs *fs, uint64_t ino, const void *data, size_t n, bool tell)
{
    struct inode *i;
    int rc;

    pthread_rwlock_rdlock(&fs->tree);
    i = get_file(fs, ino, &rc);
    if (i) {
        pthread_rwlock_wrlock(&i->lock);
        rc = memfs_truncate(fs, i, 0);
        if (write_pages(fs, i, 0, data, n) == (ssize_t)n)
            i->a.size = n;
        pthread_rwlock_unlock(&i->lock);
    }
    if (tell && fs->invalidate)
        fs->invalidate(fs->invalidate_arg, ino, NULL);
    pthread_rwlock_unlock(&fs->tree);
    return rc;
}
