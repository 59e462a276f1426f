/* Files: both engines, with and without O_DIRECT. */
#include "device_test.h"
#include "device/queue_impl.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "util/bytes.h"
#include "util/err.h"

enum { SIZE = 8 << 20, IN_FLIGHT = 64 };

static char dir[PATH_MAX], path[PATH_MAX + 16];
static unsigned extra; /* flags of the present round */

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/vdev", dir);
    make_file(path, SIZE);
    return 0;
}

static int teardown(void **state)
{
    remove_dir(dir);
    return 0;
}

static struct device *open_it(unsigned flags)
{
    struct device *d;
    assert_int_equal(device_open(&d, path, flags | extra), 0);
    return d;
}

static void test_open_errors(void **state)
{
    struct device *d;
    char name[PATH_MAX + 32];
    snprintf(name, sizeof name, "%s/none", dir);
    assert_int_equal(device_open(&d, name, 0), -ENOENT);
    assert_non_null(strstr(err_text(-ENOENT), name));
    assert_int_equal(device_open(&d, dir, 0), -ENODEV);
    assert_int_equal(device_open(&d, dir, DEVICE_OPEN_WRITE), -ENODEV);
    assert_int_equal(device_open(&d, "/dev/null", 0), -ENODEV);
    snprintf(name, sizeof name, "%s/fifo", dir);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(device_open(&d, name, DEVICE_OPEN_NOLOCK), -ENODEV); /* and does not hang */
    device_close(NULL);
}

static void test_permission(void **state)
{
    struct device *d;
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(path, 0400), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && seteuid(65534))
            _exit(9);
        _exit(device_open(&d, path, DEVICE_OPEN_WRITE) == -EACCES ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_info_and_path(void **state)
{
    struct device_info info;
    char cwd[PATH_MAX];
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(dir), 0);
    struct device *d;
    assert_int_equal(device_open(&d, "vdev", extra), 0);
    assert_int_equal(chdir(cwd), 0);
    assert_string_equal(d->path, path);
    device_info(d, &info);
    assert_int_equal(info.kind, DEVICE_FILE);
    assert_int_equal(info.size, SIZE);
    assert_int_equal(info.logical_shift, 9);
    assert_int_equal(info.physical_shift, 9);
    assert_false(info.writable);
    char c = 0;
    assert_int_equal(device_write(d, 0, &c, 1), -EBADF);
    assert_int_equal(device_discard(d, 0, 4096), -EBADF);
    assert_int_equal(device_flush(d), 0);
    device_close(d);
}

static void test_ends(void **state)
{
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    struct device_info info;
    unsigned char buffer[1024] = {1};
    struct gate g;
    struct gated_io io;
    gate_init(&g);
    assert_int_equal(device_read(d, SIZE - 512, buffer, 512), 0);
    assert_int_equal(device_read(d, SIZE - 512, buffer, 513), -EIO);
    assert_int_equal(device_read(d, UINT64_MAX - 511, buffer, 512), -EIO);
    assert_int_equal(device_write(d, SIZE, buffer, 512), -EIO);
    gate_submit(&g, d, &io, DEVICE_WRITE, SIZE - 511, buffer, 512);
    assert_int_equal(gate_wait(&g), -EIO);
    gate_submit(&g, d, &io, DEVICE_READ, SIZE, buffer, 512);
    assert_int_equal(gate_wait(&g), -EIO);
    gate_submit(&g, d, &io, DEVICE_READ, 0, buffer, 0);
    assert_int_equal(gate_wait(&g), 0);
    /* The file grows under us, by an odd number of bytes. */
    assert_int_equal(truncate(path, SIZE + 1000), 0);
    assert_int_equal(device_read(d, SIZE, buffer, 1000), 0);
    assert_int_equal(device_write(d, SIZE, buffer, 1000), 0);
    assert_int_equal(device_read(d, SIZE, buffer, 1001), -EIO);
    device_info(d, &info);
    assert_int_equal(info.size, SIZE + 1000);
    /* And shrinks: the size we believe in is wrong now. */
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(device_read(d, 8192, buffer, 512), -EIO);
    gate_submit(&g, d, &io, DEVICE_READ, 8192, buffer, 512);
    assert_int_equal(gate_wait(&g), -EIO);
    device_close(d);
}

/* Random requests, in flight together and not overlapping, against a copy in memory. unit is what
 * offsets and sizes are multiples of, shift moves the buffers off their alignment. */
static void random_round(struct env *e, struct device *d, unsigned char *shadow, unsigned unit,
                         unsigned shift)
{
    enum { SLOT = SIZE / IN_FLIGHT };
    static unsigned char *buffers[IN_FLIGHT];
    static struct gated_io ios[IN_FLIGHT];
    uint64_t at[IN_FLIGHT], n[IN_FLIGHT];
    bool write[IN_FLIGHT];
    struct gate g;
    gate_init(&g);
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        unsigned char *whole = aligned_alloc(4096, SLOT + 4096);
        buffers[i] = whole + shift;
        uint64_t units = SLOT / unit;
        uint64_t first = test_below(e, units);
        n[i] = (1 + test_below(e, units - first)) * unit;
        at[i] = (uint64_t)i * SLOT + first * unit;
        write[i] = test_below(e, 2);
        if (write[i]) {
            memset(buffers[i], (int)test_below(e, 256), n[i]);
            put_le32(buffers[i], (uint32_t)e->random(e));
            memcpy(shadow + at[i], buffers[i], n[i]);
        }
        gate_submit(&g, d, &ios[i], write[i] ? DEVICE_WRITE : DEVICE_READ, at[i], buffers[i], n[i]);
        if (test_below(e, 8) == 0)
            assert_int_equal(device_flush(d), 0);
    }
    assert_int_equal(gate_wait(&g), 0);
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        if (!write[i])
            assert_memory_equal(buffers[i], shadow + at[i], n[i]);
        free(buffers[i] - shift);
    }
}

static void test_random(void **state)
{
    static const struct {
        unsigned unit, shift;
    } kinds[] = {{4096, 0}, {512, 0}, {512, 8}, {1, 3}, {4096, 0}};
    struct env e = test_env();
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    unsigned char *shadow = calloc(1, SIZE), *now = malloc(SIZE);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        for (int round = 0; round < 4; round++)
            random_round(&e, d, shadow, MAX(kinds[k].unit, 4u), kinds[k].shift);
    assert_int_equal(device_read(d, 0, now, SIZE), 0);
    assert_memory_equal(now, shadow, SIZE);
    device_close(d);
    d = open_it(0);
    assert_int_equal(device_read(d, 0, now, SIZE), 0);
    assert_memory_equal(now, shadow, SIZE);
    device_close(d);
    free(shadow);
    free(now);
}

/* Writes of 256 bytes each beside direct ones of their neighbours in the same page: leaving direct
 * mode must not lose any. */
static void test_leave_direct(void **state)
{
    enum { PAGES = 64, SMALL = 256, BIG = 3584 };
    static struct gated_io big[PAGES], small[PAGES];
    unsigned char *data = aligned_alloc(4096, PAGES * 4096), *now = malloc(PAGES * 4096);
    struct env e = test_env();
    struct gate g;
    gate_init(&g);
    for (int round = 0; round < 10; round++) {
        struct device *d = open_it(DEVICE_OPEN_WRITE);
        uint64_t when = test_below(&e, PAGES);
        test_fill(&e, data, PAGES * 4096);
        for (unsigned i = 0; i < PAGES; i++)
            memset(data + i * 4096 + BIG + SMALL, 0, 4096 - BIG - SMALL);
        for (unsigned i = 0; i < PAGES; i++) {
            uint64_t at = (uint64_t)i * 4096;
            gate_submit(&g, d, &big[i], DEVICE_WRITE, at, data + at, BIG);
            if (i == when)
                assert_int_equal(device_write(d, at + BIG, data + at + BIG, SMALL), 0);
            else if (i > when)
                gate_submit(&g, d, &small[i], DEVICE_WRITE, at + BIG, data + at + BIG, SMALL);
        }
        for (unsigned i = 0; i < when; i++) {
            uint64_t at = (uint64_t)i * 4096 + BIG;
            gate_submit(&g, d, &small[i], DEVICE_WRITE, at, data + at, SMALL);
        }
        assert_int_equal(gate_wait(&g), 0);
        assert_int_equal(device_flush(d), 0);
        assert_int_equal(device_read(d, 0, now, PAGES * 4096), 0);
        assert_memory_equal(now, data, PAGES * 4096);
        device_close(d);
    }
    free(data);
    free(now);
}

/* Requests in pieces, written in one order and read back in another. */
static void test_vectors(void **state)
{
    enum { PIECES = DEVICE_IOV_MAX, PAGE = 4096 };
    unsigned char *data = aligned_alloc(PAGE, PIECES * 2 * PAGE);
    unsigned char *now = aligned_alloc(PAGE, PIECES * 2 * PAGE);
    struct iovec iov[PIECES];
    struct gated_io io = {0};
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    struct device_info info;
    struct env e = test_env();
    struct gate g;
    gate_init(&g);
    device_info(d, &info);
    assert_true(info.vectors);
    for (int write = 1; write >= 0; write--) {
        size_t size = 0;
        test_fill(&e, write ? data : now, PIECES * 2 * PAGE);
        for (unsigned i = 0; i < PIECES; i++) {
            size_t n = (1 + i % 2) * PAGE;
            iov[i] = (struct iovec){(write ? data : now) + size, n};
            size += n;
        }
        io = (struct gated_io){.io = {.op = write ? DEVICE_WRITE : DEVICE_READ,
                                      .offset = 3 * PAGE,
                                      .size = size,
                                      .iov = iov,
                                      .iovcnt = PIECES,
                                      .done = gate_done},
                               .gate = &g};
        g.pending = 1;
        device_submit(d, &io.io);
        assert_int_equal(gate_wait(&g), 0);
        assert_int_equal(device_read(d, 3 * PAGE, now, size), 0);
        assert_memory_equal(now, data, size);
    }
    device_close(d);
    free(data);
    free(now);
}

/* What is left of a request in pieces after a part of it. */
static void test_vector_rest(void **state)
{
    char a[10], b[20], c[5];
    struct iovec iov[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}}, out[DEVICE_IOV_MAX];
    struct device_io io = {.iov = iov, .iovcnt = 3, .size = 35};
    assert_int_equal(iov_rest(&io, 0, out), 3);
    assert_ptr_equal(out[0].iov_base, a);
    assert_int_equal(iov_rest(&io, 12, out), 2);
    assert_ptr_equal(out[0].iov_base, b + 2);
    assert_int_equal(out[0].iov_len, 18);
    assert_int_equal(out[1].iov_len, 5);
    assert_int_equal(iov_rest(&io, 30, out), 1);
    assert_ptr_equal(out[0].iov_base, c);
    assert_int_equal(iov_rest(&io, 35, out), 0);
}

static void test_discard(void **state)
{
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    unsigned char *data = aligned_alloc(4096, 1 << 20);
    struct stat before, after;
    memset(data, 0xaa, 1 << 20);
    assert_int_equal(device_write(d, 0, data, 1 << 20), 0);
    assert_int_equal(device_flush(d), 0);
    assert_int_equal(stat(path, &before), 0);
    int rc = device_discard(d, 65536, 1 << 19);
    assert_int_equal(device_discard(d, SIZE - 4096, 8192), -EIO);
    if (rc == -EOPNOTSUPP) {
        device_close(d);
        free(data);
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(device_read(d, 0, data, 1 << 20), 0);
    assert_int_equal(data[65535], 0xaa);
    assert_int_equal(data[65536], 0);
    assert_int_equal(data[65535 + (1 << 19)], 0);
    assert_int_equal(data[65536 + (1 << 19)], 0xaa);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, SIZE);
    assert_true(after.st_blocks < before.st_blocks);
    device_close(d);
    free(data);
}

/* A request lives longer than the thread that submits it. */
struct short_lived {
    struct device *d;
    struct gate *g;
    struct gated_io io[3];
    unsigned char *data;
};

static void *submit_and_go(void *arg)
{
    struct short_lived *s = arg;
    gate_submit(s->g, s->d, &s->io[0], DEVICE_WRITE, 0, s->data, 1 << 20);
    gate_submit(s->g, s->d, &s->io[1], DEVICE_FLUSH, 0, NULL, 0);
    gate_submit(s->g, s->d, &s->io[2], DEVICE_DISCARD, 2 << 20, NULL, 1 << 20);
    return NULL;
}

static void test_submitter_exits(void **state)
{
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    struct gate g;
    struct short_lived s = {.d = d, .g = &g, .data = aligned_alloc(4096, 1 << 20)};
    memset(s.data, 7, 1 << 20);
    gate_init(&g);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, submit_and_go, &s), 0);
        pthread_join(t, NULL);
        assert_int_equal(gate_wait(&g), 0);
    }
    device_close(d);
    free(s.data);
}

/* done submits the next request; closing waits for all of the chain. */
struct chain {
    struct device_io io;
    struct device *d;
    int left, rc;
};

static void chain_done(struct device_io *io, int rc)
{
    struct chain *c = (struct chain *)io;
    if (rc)
        c->rc = rc;
    if (--c->left > 0) {
        io->offset += io->size;
        device_submit(c->d, io);
    }
}

static void test_close_waits(void **state)
{
    enum { CHAINS = 20, LENGTH = 16 };
    struct chain c[CHAINS];
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    void *data = aligned_alloc(4096, 8192);
    memset(data, 1, 8192);
    for (unsigned i = 0; i < CHAINS; i++) {
        c[i] = (struct chain){.d = d,
                              .left = LENGTH,
                              .io = {.op = i & 1 ? DEVICE_WRITE : DEVICE_READ,
                                     .offset = (uint64_t)i * LENGTH * 8192,
                                     .size = 8192,
                                     .data = data,
                                     .done = chain_done}};
        if (c[i].io.op == DEVICE_READ)
            c[i].io.data = aligned_alloc(4096, 8192);
        device_submit(d, &c[i].io);
    }
    device_close(d);
    for (unsigned i = 0; i < CHAINS; i++) {
        assert_int_equal(c[i].left, 0);
        assert_int_equal(c[i].rc, 0);
        if (c[i].io.op == DEVICE_READ)
            free(c[i].io.data);
    }
    free(data);
}

/* Many threads, sync and async, on one device. */
struct worker {
    struct device *d;
    unsigned id;
    int rc;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    enum { PART = SIZE / 8 };
    struct gated_io io;
    struct gate g;
    unsigned char *a = aligned_alloc(4096, 16384), *b = aligned_alloc(4096, 16384);
    gate_init(&g);
    for (unsigned i = 0; i < 40 && !w->rc; i++) {
        uint64_t at = (uint64_t)w->id * PART + i * 16384;
        size_t n = i == 20 && w->id == 3 ? 16000 : 16384; /* one of them ends direct mode */
        memset(a, (int)(w->id * 16 + i), n);
        if (i & 1) {
            w->rc = device_write(w->d, at, a, n);
        } else {
            gate_submit(&g, w->d, &io, DEVICE_WRITE, at, a, n);
            w->rc = gate_wait(&g);
        }
        if (w->rc == 0 && i % 3 == 0)
            w->rc = device_read(w->d, at, b, n);
        else if (w->rc == 0) {
            gate_submit(&g, w->d, &io, DEVICE_READ, at, b, n);
            w->rc = gate_wait(&g);
        }
        if (w->rc == 0 && memcmp(a, b, n))
            w->rc = -EBADE;
    }
    free(a);
    free(b);
    return NULL;
}

static void test_threads(void **state)
{
    struct device *d = open_it(DEVICE_OPEN_WRITE);
    struct worker w[8];
    pthread_t t[8];
    for (unsigned i = 0; i < 8; i++) {
        w[i] = (struct worker){.d = d, .id = i};
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(w[i].rc, 0);
    }
    device_close(d);
}

/* Pages of the file in the page cache. */
static unsigned pages_cached(uint64_t offset, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char in[1024];
    unsigned count = 0;
    void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    assert_true(map != MAP_FAILED && n <= sizeof in * 4096);
    assert_int_equal(mincore(map, n, in), 0);
    for (size_t i = 0; i < n / 4096; i++)
        count += in[i] & 1;
    munmap(map, n);
    close(fd);
    return count;
}

/* The file with random contents, none of it in the page cache; false: this file system knows no direct
 * reads. */
static bool make_uncached(struct env *e, unsigned char *data)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    test_fill(e, data, SIZE);
    assert_int_equal(fd_write(fd, 0, data, SIZE), 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void test_stream(void **state)
{
    enum { LARGE = 256 << 10, SMALL = 4096 };
    struct env e = test_env();
    unsigned char *data = malloc(SIZE), *now = aligned_alloc(4096, LARGE + 4096);
    bool direct = make_uncached(&e, data);
    struct device *d = open_it(DEVICE_OPEN_SHARED | DEVICE_OPEN_STREAM);
    struct gated_io io;
    struct gate g;
    gate_init(&g);
    gate_submit(&g, d, &io, DEVICE_READ, 1 << 20, now, LARGE);
    assert_int_equal(gate_wait(&g), 0);
    assert_memory_equal(now, data + (1 << 20), LARGE);
    if (direct)
        assert_int_equal(pages_cached(1 << 20, LARGE), 0);
    /* Neither small ones nor those that are not aligned. */
    gate_submit(&g, d, &io, DEVICE_READ, 4 << 20, now, SMALL);
    assert_int_equal(gate_wait(&g), 0);
    assert_memory_equal(now, data + (4 << 20), SMALL);
    gate_submit(&g, d, &io, DEVICE_READ, (6 << 20) + 1, now + 3, LARGE);
    assert_int_equal(gate_wait(&g), 0);
    assert_memory_equal(now + 3, data + (6 << 20) + 1, LARGE);
    if (direct && extra == 0) {
        assert_int_equal(pages_cached(4 << 20, SMALL), 1);
        assert_int_equal(pages_cached(6 << 20, LARGE), LARGE / 4096);
    }
    gate_submit(&g, d, &io, DEVICE_READ, SIZE - SMALL, now, LARGE);
    assert_int_equal(gate_wait(&g), -EIO);
    device_close(d);
    free(data);
    free(now);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_permission, setup, teardown),
        cmocka_unit_test_setup_teardown(test_info_and_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leave_direct, setup, teardown),
        cmocka_unit_test_setup_teardown(test_vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream, setup, teardown),
        cmocka_unit_test(test_vector_rest),
        cmocka_unit_test_setup_teardown(test_discard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_submitter_exits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    static const char *const engines[] = {"ring", "threads", ""};
    int bad = 0;
    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        setenv("TARN_DEVICE_ENGINE", engines[i], 1);
        struct device *d;
        if (strcmp(engines[i], "ring") == 0) { /* refused in some containers */
            setup(NULL);
            assert_int_equal(device_open(&d, path, 0), 0);
            int rc = device_flush(d);
            device_close(d);
            teardown(NULL);
            if (rc) {
                printf("SKIP ring: no io_uring here (%s)\n", strerror(-rc));
                continue;
            }
        }
        for (extra = 0; extra <= DEVICE_OPEN_DIRECT; extra += DEVICE_OPEN_DIRECT) {
            printf("engine %s, %s\n", engines[i], extra ? "direct" : "page cache");
            bad += cmocka_run_group_tests_name(engines[i], tests, NULL, NULL);
        }
    }
    return bad;
}
