/*
 * Real mounts of memfs, through /dev/fuse and (as root, where the kernel has it) through io_uring.
 * Skipped where FUSE cannot be used at all.
 */
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/fuse.h"
#include "memfs.h"
#include "util/err.h"

#define URING_SWITCH "/sys/module/fuse/parameters/enable_uring"
#define MANY         40

struct world {
    bool uring; /* which transport the test is to use */
    struct fuse_server *server;
    struct fs *fs;
    struct fuse_mount *m;
    char dir[64];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned gone;
};

static struct world w;

static void gone(void *arg, struct fuse_mount *m)
{
    pthread_mutex_lock(&w.lock);
    w.gone++;
    pthread_cond_broadcast(&w.changed);
    pthread_mutex_unlock(&w.lock);
}

static void wait_gone(unsigned n)
{
    pthread_mutex_lock(&w.lock);
    while (w.gone < n)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
}

/* Switches FUSE over io_uring on or back; the lock keeps tests that run at the same time from
 * restoring each other's value. Returns false if we may not. */
static int switch_fd = -1;
static char switch_before[4];

static bool uring_on(void)
{
    switch_fd = open(URING_SWITCH, O_RDWR | O_CLOEXEC);
    if (switch_fd < 0 || flock(switch_fd, LOCK_EX))
        return false;
    return pread(switch_fd, switch_before, 2, 0) > 0 && pwrite(switch_fd, "Y", 1, 0) == 1;
}

static void uring_back(void)
{
    if (switch_fd < 0)
        return;
    if (pwrite(switch_fd, switch_before, 1, 0) != 1)
        fprintf(stderr, "cannot restore %s\n", URING_SWITCH);
    close(switch_fd);
    switch_fd = -1;
}

static int mount_it(struct fuse_mount **m, struct fuse_server *s, struct fs *fs, const char *dir,
                    bool readonly)
{
    struct fuse_mount_options o = {
        .source = "pool/some data", .target = dir, .gone = gone, .readonly = readonly};
    int rc;

    if (w.uring)
        assert_true(uring_on());
    rc = fuse_mount_new(m, s, fs, &o);
    uring_back();
    return rc;
}

static struct fs *new_fs(void)
{
    struct fs_options fo = {.atime = true, .relatime = true, .xattr = FS_XATTR_SA};
    struct fs *fs = memfs_new(&fo, 0);

    assert_non_null(fs);
    return fs;
}

static void start(void)
{
    struct fuse_server_options so = {.transport =
                                         w.uring ? FUSE_TRANSPORT_AUTO : FUSE_TRANSPORT_DEVICE};
    int rc;

    strcpy(w.dir, "/tmp/tarn-fuse-XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    w.gone = 0;
    w.fs = new_fs();
    assert_int_equal(fuse_server_new(&w.server, &so), 0);
    rc = mount_it(&w.m, w.server, w.fs, w.dir, false);
    if (rc)
        fail_msg("%s", err_text(rc));
    assert_int_equal(fuse_mount_uses_uring(w.m), w.uring);
}

static int start_device(void **state)
{
    w.uring = false;
    start();
    return 0;
}

static int start_uring(void **state)
{
    w.uring = true;
    start();
    return 0;
}

static int end(void **state)
{
    memfs_delay = NULL;
    if (w.m) {
        int rc = fuse_mount_unmount(w.m, true);

        if (rc)
            fail_msg("%s", err_text(rc));
        fuse_mount_free(w.m);
        w.m = NULL;
    }
    fuse_server_free(w.server);
    if (w.fs)
        fs_close(w.fs);
    rmdir(w.dir);
    return 0;
}

static const char *path(const char *name)
{
    static _Thread_local char buf[400];

    snprintf(buf, sizeof buf, "%s/%s", w.dir, name);
    return buf;
}

static void put(const char *name, const char *text)
{
    int fd = open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static void check(const char *name, const char *text)
{
    char buf[200] = "";
    int fd = open(path(name), O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, buf, sizeof buf), strlen(text));
    assert_string_equal(buf, text);
    close(fd);
}

static uint64_t ino_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(path(name), &st), 0);
    return st.st_ino;
}

static void test_use(void **state)
{
    struct stat st;
    struct statvfs sv;
    char other[400];

    put("a", "hello");
    check("a", "hello");
    assert_int_equal(mkdir(path("d"), 0700), 0);
    strcpy(other, path("d/b"));
    assert_int_equal(rename(path("a"), other), 0);
    check("d/b", "hello");
    assert_int_equal(stat(path("a"), &st), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(truncate(path("d/b"), 2), 0);
    check("d/b", "he");
    assert_int_equal(rmdir(path("d")), -1);
    assert_int_equal(errno, ENOTEMPTY);
    assert_int_equal(statvfs(w.dir, &sv), 0);
    assert_int_equal(sv.f_namemax, 255);
    for (int i = 0; i < 20; i++) {
        put("x", "1");
        check("x", "1");
        assert_int_equal(unlink(path("x")), 0);
    }
    /* Asked once each: the kernel does without from then on. */
    assert_true(fuse_mount_request_count(w.m, 14) <= 1);    /* OPEN */
    assert_true(fuse_mount_request_count(w.m, 27) <= 1);    /* OPENDIR */
    assert_true(fuse_mount_request_count(w.m, 25) <= 1);    /* FLUSH */
    assert_true(fuse_mount_request_count(w.m, 35) <= 1);    /* CREATE */
    assert_int_equal(fuse_mount_request_count(w.m, 18), 0); /* RELEASE */
    assert_int_equal(fuse_mount_request_count(w.m, 34), 0); /* ACCESS */
    assert_true(fuse_mount_request_count(w.m, 16) >= 21);   /* WRITE */
}

/* What was written can be read without asking again, and so can what was looked up. */
static void test_caching(void **state)
{
    uint64_t reads, lookups;
    struct stat st;

    put("a", "hello");
    check("a", "hello");
    stat(path("a"), &st);
    stat(path("nothing"), &st);
    reads = fuse_mount_request_count(w.m, 15);
    lookups = fuse_mount_request_count(w.m, 1);
    for (int i = 0; i < 10; i++) {
        check("a", "hello");
        stat(path("nothing"), &st);
    }
    assert_int_equal(fuse_mount_request_count(w.m, 15), reads);
    assert_int_equal(fuse_mount_request_count(w.m, 1), lookups);
}

static void test_big(void **state)
{
    size_t n = 5 << 20;
    unsigned char *a = malloc(n), *b = malloc(n);
    uint64_t before;
    int fd;

    for (size_t i = 0; i < n; i++)
        a[i] = (unsigned char)(i * 2654435761u >> 13);
    fd = open(path("big"), O_RDWR | O_CREAT, 0644);
    before = fuse_mount_request_count(w.m, 16);
    assert_int_equal(write(fd, a, n), n);
    assert_true(fuse_mount_request_count(w.m, 16) - before <= 21); /* 256 KiB each */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    assert_int_equal(pread(fd, b, n, 0), n);
    assert_memory_equal(a, b, n);
    close(fd);
    free(a);
    free(b);
}

static void test_unmounted_by_others(void **state)
{
    put("a", "x");
    if (geteuid() == 0) {
        assert_int_equal(umount2(w.dir, 0), 0);
    } else {
        char cmd[100];

        snprintf(cmd, sizeof cmd, "fusermount3 -u %s", w.dir);
        assert_int_equal(system(cmd), 0);
    }
    wait_gone(1);
    assert_int_equal(w.gone, 1);
    assert_int_equal(fuse_mount_unmount(w.m, false), 0); /* has gone: no error */
    assert_int_equal(rmdir(w.dir), 0);
    assert_int_equal(mkdir(w.dir, 0700), 0);
}

/* Mounted again the moment it was unmounted: the kernel gives the new mount the old one's numbers,
 * and what is done about the old one must not touch it. */
static void test_mounted_again(void **state)
{
    struct stat st;

    if (geteuid() != 0)
        skip();
    for (unsigned i = 1; i <= 50; i++) {
        struct fuse_mount *old = w.m;

        assert_int_equal(umount2(w.dir, 0), 0);
        assert_int_equal(mount_it(&w.m, w.server, w.fs, w.dir, false), 0);
        wait_gone(i);
        fuse_mount_free(old);
        put("a", "x");
        assert_int_equal(stat(w.dir, &st), 0);
        assert_int_equal(unlink(path("a")), 0);
    }
}

static void test_busy(void **state)
{
    int fd, rc;
    char c, *p, back[4] = "";
    uint64_t ino;

    put("a", "abc");
    ino = ino_of("a");
    fd = open(path("a"), O_RDWR);
    p = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    p[1] = 'X';
    rc = fuse_mount_unmount(w.m, false);
    assert_int_equal(rc, -EBUSY);
    assert_non_null(strstr(err_text(rc), w.dir));
    check("a", "aXc"); /* nothing has happened to it */
    assert_int_equal(fuse_mount_unmount(w.m, true), 0);
    assert_int_equal(w.gone, 0); /* we asked for it */
    assert_int_equal(fs_read(w.fs, ino, 0, back, 3), 3);
    assert_string_equal(back, "aXc"); /* what mmap left dirty */
    fs_close(w.fs);
    w.fs = NULL;
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_true(errno == ENOTCONN || errno == EIO || errno == ECONNABORTED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    assert_true(pread(fd, &c, 1, 4096) <= 0);
    munmap(p, 3);
    close(fd);
    fuse_mount_free(w.m);
    w.m = NULL;
}

static void *churn(void *arg)
{
    char name[40], buf[5000] = "";
    int dir = open(w.dir, O_RDONLY | O_DIRECTORY); /* not the directory below, when that comes up */

    for (unsigned i = 0;; i++) {
        int fd;

        snprintf(name, sizeof name, "f%u-%p", i % 7, arg);
        fd = openat(dir, name, O_RDWR | O_CREAT, 0644);
        if (fd < 0) {
            close(dir);
            return NULL;
        }
        if (write(fd, buf, sizeof buf) < 0 || fsync(fd) < 0 || pread(fd, buf, 99, 0) < 0) {
            close(fd);
            close(dir);
            return NULL;
        }
        close(fd);
        if (i % 3 == 0)
            unlinkat(dir, name, 0);
    }
}

/* The file system is closed the moment unmounting returns, while others are still at work. */
static void test_unmount_under_load(void **state)
{
    pthread_t id[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&id[i], NULL, churn, (void *)(uintptr_t)i);
    while (fuse_mount_request_count(w.m, 20) < 200) /* FSYNC */
        sched_yield();
    assert_int_equal(fuse_mount_unmount(w.m, true), 0);
    fs_close(w.fs);
    w.fs = NULL;
    for (int i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
    fuse_mount_free(w.m);
    w.m = NULL;
}

/* Waits for the kernel's FORGETs; the test's time limit ends it if they never come. */
static void wait_inodes(uint64_t n)
{
    while (memfs_inodes(w.fs) != n)
        sched_yield();
}

static void test_unlinked_but_open(void **state)
{
    char buf[10] = "";
    int fd;

    put("a", "alive");
    fd = open(path("a"), O_RDWR);
    assert_int_equal(unlink(path("a")), 0);
    assert_int_equal(pwrite(fd, "A", 1, 0), 1);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    assert_int_equal(read(fd, buf, 9), 5);
    assert_string_equal(buf, "Alive");
    assert_int_equal(memfs_inodes(w.fs), 2);
    close(fd);
    wait_inodes(1);
    fd = open(w.dir, O_TMPFILE | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    wait_inodes(1);
}

/* References that readdirplus and lookups take are all given back. */
static void test_no_leaks(void **state)
{
    char name[20];
    struct stat st;
    struct dirent *e;
    DIR *d;
    int n = 0;

    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "f%d", i);
        put(name, "x");
    }
    d = opendir(w.dir);
    while ((e = readdir(d))) {
        assert_int_equal(stat(path(e->d_name), &st), 0);
        if (e->d_name[0] == 'f') {
            assert_int_equal(st.st_ino, e->d_ino);
            n++;
        }
    }
    closedir(d);
    assert_int_equal(n, 500);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(unlink(path(name)), 0);
    }
    wait_inodes(1);
}

/* A file system that is slow for a while. */
static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t slow_changed = PTHREAD_COND_INITIALIZER;
static unsigned slow_waiting;
static bool slow_open;

static void slow(int op)
{
    if (op != 's')
        return;
    pthread_mutex_lock(&slow_lock);
    slow_waiting++;
    pthread_cond_broadcast(&slow_changed);
    while (!slow_open)
        pthread_cond_wait(&slow_changed, &slow_lock);
    slow_waiting--;
    pthread_mutex_unlock(&slow_lock);
}

static void *do_fsync(void *arg)
{
    char name[300];
    cpu_set_t set;
    int fd;

    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set); /* all in one queue */
    snprintf(name, sizeof name, "%s/s%p", w.dir, arg);
    fd = open(name, O_WRONLY | O_CREAT, 0644);
    fsync(fd);
    close(fd);
    return NULL;
}

/* Many callers that wait for long in the file system keep nobody else from being served. */
static void test_slow_callers(void **state)
{
    pthread_t id[12];
    struct stat st;
    cpu_set_t set;

    pthread_mutex_lock(&slow_lock);
    slow_open = false;
    slow_waiting = 0;
    pthread_mutex_unlock(&slow_lock);
    memfs_delay = slow;
    for (int i = 0; i < 12; i++)
        pthread_create(&id[i], NULL, do_fsync, (void *)(uintptr_t)i);
    pthread_mutex_lock(&slow_lock);
    while (slow_waiting < 12)
        pthread_cond_wait(&slow_changed, &slow_lock);
    pthread_mutex_unlock(&slow_lock);
    for (int cpu = 0; cpu < 2; cpu++) {
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
        for (int i = 0; i < 50; i++) {
            put("quick", "x");
            check("quick", "x");
            assert_int_equal(stat(path("absent"), &st), -1);
            assert_int_equal(unlink(path("quick")), 0);
        }
    }
    pthread_mutex_lock(&slow_lock);
    assert_int_equal(slow_waiting, 12);
    slow_open = true;
    pthread_cond_broadcast(&slow_changed);
    pthread_mutex_unlock(&slow_lock);
    for (int i = 0; i < 12; i++)
        pthread_join(id[i], NULL);
    CPU_SET(0, &set);
    CPU_SET(1, &set);
    sched_setaffinity(0, sizeof set, &set);
    memfs_delay = NULL;
}

static void test_invalidate(void **state)
{
    struct stat st;
    uint64_t ino, root = ino_of(".");

    put("a", "old");
    put("b", "x");
    put("c", "x");
    check("a", "old");
    ino = ino_of("a");
    assert_int_equal(memfs_poke(w.fs, ino, "newer", 5, true), 0);
    fuse_mount_invalidate_wait(w.m);
    check("a", "newer");
    assert_int_equal(memfs_remove_name(w.fs, root, "b", true), 0);
    fuse_mount_invalidate_wait(w.m);
    assert_int_equal(stat(path("b"), &st), -1);
    assert_int_equal(memfs_remove_name(w.fs, root, "c", false), 0);
    assert_int_equal(stat(path("c"), &st), 0); /* the kernel believes what it was told */
    fuse_mount_invalidate(w.m, root, "c");
    fuse_mount_invalidate_wait(w.m);
    assert_int_equal(stat(path("c"), &st), -1);
}

/* After a rollback: names that have come back, and names that have gone. */
static void test_invalidate_names(void **state)
{
    struct stat st;
    struct fs_attr a;
    struct fs_new new = {.mode = S_IFREG | 0644};

    put("a", "x");
    assert_int_equal(stat(path("b"), &st), -1);
    assert_int_equal(memfs_remove_name(w.fs, 1, "a", false), 0);
    assert_int_equal(fs_create(w.fs, 1, "b", &new, &a), 0);
    fs_forget(w.fs, a.ino, 1);
    assert_int_equal(stat(path("a"), &st), 0);
    if (fuse_mount_knows_epochs(w.m) || geteuid() == 0) {
        assert_int_equal(stat(path("b"), &st), -1);
        fuse_mount_invalidate_names(w.m);
        fuse_mount_invalidate_wait(w.m);
        assert_int_equal(stat(path("b"), &st), 0);
    }
    if (fuse_mount_knows_epochs(w.m))
        assert_int_equal(stat(path("a"), &st), -1);
}

static void test_many_mounts(void **state)
{
    struct fuse_mount *m[MANY];
    struct fs *fs[MANY];
    static unsigned char data[600000], back[600000]; /* several requests of any size */
    char dir[MANY][80], name[90];
    int fd;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(dir[i], sizeof dir[i], "%s/m%d", w.dir, i);
            assert_true(mkdir(dir[i], 0700) == 0 || errno == EEXIST);
            fs[i] = new_fs();
            assert_int_equal(mount_it(&m[i], w.server, fs[i], dir[i], false), 0);
        }
        for (int i = 0; i < MANY; i++) {
            strcpy(stpcpy(name, dir[i]), "/f");
            fd = open(name, O_RDWR | O_CREAT, 0644);
            assert_int_equal(write(fd, data, sizeof data), sizeof data);
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            memset(back, 0, sizeof back);
            assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
            assert_memory_equal(data, back, sizeof data);
            close(fd);
            assert_int_equal(memfs_inodes(fs[i]), 2);
        }
        for (int i = MANY - 1; i >= 0; i--) {
            assert_int_equal(fuse_mount_unmount(m[i], false), 0);
            fuse_mount_free(m[i]);
            fs_close(fs[i]);
        }
    }
}

/* The connection is aborted under a mount that stays. */
static void test_aborted(void **state)
{
    struct stat st;
    int fd;

    if (geteuid() != 0)
        skip();
    put("a", "x");
    fd = open(path("a"), O_RDONLY);
    assert_int_equal(umount2(w.dir, MNT_FORCE), -1);
    assert_int_equal(errno, EBUSY);
    wait_gone(1);
    assert_int_equal(stat(path("a"), &st), -1); /* not a dead mount but the directory below */
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fuse_mount_unmount(w.m, false), 0);
    close(fd);
}

/* Starts this program again, in a role. out becomes its standard output. */
static pid_t start_role(const char *role, int out)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (out >= 0)
            dup2(out, STDOUT_FILENO);
        execl("/proc/self/exe", "test_fuse_mount", role, w.dir, w.uring ? "uring" : "device", NULL);
        _exit(127);
    }
    return pid;
}

/* The role of a process that is killed while it has a mount. */
static int role_victim(void)
{
    struct fuse_server *s;
    struct fuse_mount *m;

    if (fuse_server_new(&s, NULL) || mount_it(&m, s, new_fs(), w.dir, false))
        return 1;
    if (write(STDOUT_FILENO, "x", 1) == 1)
        pause();
    return 1;
}

/* What a killed process leaves is replaced. */
static void test_dead_mount(void **state)
{
    struct statx st;
    int pipefd[2];
    char c;
    pid_t pid;

    assert_int_equal(fuse_mount_unmount(w.m, false), 0);
    fuse_mount_free(w.m);
    w.m = NULL;
    assert_int_equal(pipe(pipefd), 0);
    pid = start_role("--victim", pipefd[1]);
    assert_int_equal(read(pipefd[0], &c, 1), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    /* Its descriptor is closed some time after its end. */
    while (statx(AT_FDCWD, w.dir, AT_STATX_FORCE_SYNC, STATX_INO, &st) == 0)
        sched_yield();
    assert_true(errno == ENOTCONN || errno == ECONNABORTED || errno == ECANCELED);
    assert_int_equal(mount_it(&w.m, w.server, w.fs, w.dir, false), 0);
    put("a", "x");
    close(pipefd[0]);
    close(pipefd[1]);
}

#define LATENCY_DEVICE "/dev/cpu_dma_latency"

static bool kept_awake(void)
{
    char link[64], target[64];
    bool found = false;

    for (int fd = 0; fd < 256 && !found; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target);
        found = n == (ssize_t)strlen(LATENCY_DEVICE) && !memcmp(target, LATENCY_DEVICE, (size_t)n);
    }
    return found;
}

/* Processors are kept awake while requests follow one another, and only then. */
static void test_processors(void **state)
{
    time_t end = time(NULL) + 60;
    struct statx st;

    if (access(LATENCY_DEVICE, W_OK))
        skip();
    while (!kept_awake() && time(NULL) < end) {
        for (int i = 0; i < 200; i++)
            assert_int_equal(statx(AT_FDCWD, w.dir, AT_STATX_FORCE_SYNC, STATX_MODE, &st), 0);
    }
    assert_true(kept_awake());
    while (kept_awake() && time(NULL) < end)
        sched_yield();
    assert_false(kept_awake());
}

/* Unless they shall not be. */
static void test_let_halt(void **state)
{
    const struct fuse_server_options so = {.transport = FUSE_TRANSPORT_DEVICE, .let_halt = true};
    struct fuse_server *s;
    struct fuse_mount *m;
    struct statx st;

    assert_int_equal(fuse_mount_unmount(w.m, false), 0);
    fuse_mount_free(w.m);
    w.m = NULL;
    assert_int_equal(fuse_server_new(&s, &so), 0);
    assert_int_equal(mount_it(&m, s, w.fs, w.dir, false), 0);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(statx(AT_FDCWD, w.dir, AT_STATX_FORCE_SYNC, STATX_MODE, &st), 0);
        if (i % 100 == 0)
            assert_false(kept_awake());
    }
    assert_int_equal(fuse_mount_unmount(m, false), 0);
    fuse_mount_free(m);
    fuse_server_free(s);
}

static void test_read_only(void **state)
{
    struct fuse_mount_options o = {.readonly = true, .nosuid = true, .noatime = true};
    struct statvfs sv;

    put("a", "x");
    if (geteuid() != 0)
        skip();
    assert_int_equal(fuse_mount_remount(w.m, &o), 0);
    assert_int_equal(open(path("a"), O_WRONLY), -1);
    assert_int_equal(errno, EROFS);
    assert_int_equal(statvfs(w.dir, &sv), 0);
    assert_int_equal(sv.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOATIME),
                     ST_RDONLY | ST_NOSUID | ST_NOATIME);
    o = (struct fuse_mount_options){0};
    assert_int_equal(fuse_mount_remount(w.m, &o), 0);
    put("a", "y");
}

static void test_refused(void **state)
{
    struct fuse_mount *m;
    int rc;

    rc = mount_it(&m, w.server, w.fs, path("missing"), false);
    assert_int_equal(rc, -ENOENT);
    assert_non_null(strstr(err_text(rc), "missing"));
    put("file", "x");
    assert_int_equal(mount_it(&m, w.server, w.fs, path("file"), false), -ENOTDIR);
}

/* The role of nobody, who mounts through fusermount3. */
static int role_user(void)
{
    struct fs_setattr own = {.mask = FS_SET_UID | FS_SET_GID, .uid = 65534, .gid = 65534};
    struct fs *fs = new_fs();
    struct fuse_server *s;
    struct fuse_mount *m;
    struct fs_attr a;
    struct stat st;
    int fd, rc;

    if (setgid(65534) || setuid(65534))
        return 10;
    if (fs_setattr(fs, 1, &own, &a) || fuse_server_new(&s, NULL))
        return 11;
    w.uring = false;
    rc = mount_it(&m, s, fs, w.dir, false);
    if (rc) {
        fprintf(stderr, "%s\n", err_text(rc));
        return 12;
    }
    fd = open(path("f"), O_WRONLY | O_CREAT, 0644);
    if (fd < 0 || write(fd, "x", 1) != 1 || fstat(fd, &st) || st.st_uid != 65534)
        return 13;
    if (fuse_mount_unmount(m, false) != -EBUSY)
        return 14;
    close(fd);
    if (fuse_mount_unmount(m, false))
        return 15;
    fuse_mount_free(m);
    if (mount_it(&m, s, fs, w.dir, false))
        return 16;
    fd = open(path("f"), O_RDWR);
    if (fuse_mount_unmount(m, true))
        return 17;
    fs_close(fs);
    if (write(fd, "y", 1) == 1)
        return 18;
    close(fd);
    fuse_mount_free(m);
    fuse_server_free(s);
    return 0;
}

static void test_ordinary_user(void **state)
{
    int status;

    if (geteuid() != 0 || system("command -v fusermount3 >/dev/null"))
        skip();
    assert_int_equal(fuse_mount_unmount(w.m, false), 0);
    fuse_mount_free(w.m);
    w.m = NULL;
    assert_int_equal(chown(w.dir, 65534, 65534), 0);
    waitpid(start_role("--user", -1), &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define D(name) cmocka_unit_test_setup_teardown(test_##name, start_device, end)
#define U(name)                                                                                    \
    {                                                                                              \
        "uring_" #name, test_##name, start_uring, end, NULL                                        \
    }

/* An argument: only tests whose names match it ("uring_*"). */
int main(int argc, char **argv)
{
    const struct CMUnitTest device[] = {
        D(use),
        D(caching),
        D(big),
        D(unmounted_by_others),
        D(busy),
        D(unlinked_but_open),
        D(no_leaks),
        D(slow_callers),
        D(unmount_under_load),
        D(invalidate),
        D(invalidate_names),
        D(many_mounts),
        D(aborted),
        D(mounted_again),
        D(dead_mount),
        D(processors),
        D(let_halt),
        D(read_only),
        D(refused),
        D(ordinary_user),
    };
    const struct CMUnitTest uring[] = {
        U(use),
        U(caching),
        U(big),
        U(unmounted_by_others),
        U(busy),
        U(unlinked_but_open),
        U(no_leaks),
        U(slow_callers),
        U(unmount_under_load),
        U(invalidate),
        U(many_mounts),
        U(aborted),
        U(mounted_again),
        U(dead_mount),
        U(processors),
    };
    int fd = open("/dev/fuse", O_RDWR), rc;

    if (argc == 4) {
        snprintf(w.dir, sizeof w.dir, "%s", argv[2]);
        w.uring = !strcmp(argv[3], "uring");
        return strcmp(argv[1], "--user") ? role_victim() : role_user();
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (fd < 0) {
        printf("SKIP: /dev/fuse: %s\n", strerror(errno));
        return 77;
    }
    close(fd);
    rc = cmocka_run_group_tests_name("device", device, NULL, NULL);
    if (rc)
        return rc;
    if (!uring_on()) {
        uring_back();
        printf("SKIP: FUSE over io_uring: not root, or not in this kernel\n");
        return 0;
    }
    uring_back();
    return cmocka_run_group_tests_name("uring", uring, NULL, NULL);
}
