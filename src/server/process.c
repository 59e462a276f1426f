/*
 * Starting and ending the pool process. The command forks; the child opens the pool, mounts,
 * listens, and reports through a pipe: "0\n" and warnings, or the errno and the sentence. Threads
 * are made only after the fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dsl/dsl.h"
#include "dsl/props.h"
#include "fs/format.h"
#include "fuse/fuse.h"
#include "nvlist/nvlist.h"
#include "server/client.h"
#include "server/rundir_impl.h"
#include "server/server_impl.h"
#include "util/buf.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

struct start {
    const struct spa_create_args *create; /* one of these two */
    const struct spa_open_args *open;
    const struct server_options *opts;
    const char *name;
};

static struct server *signalled; /* the server that SIGTERM ends: one per process */

static void on_signal(int sig)
{
    int saved = errno;
    if (signalled && signalled->end == SERVER_SERVING) {
        signalled->end = SERVER_TERMINATE;
        server_wake(signalled);
    }
    errno = saved;
}

static void set_signals(struct server *s)
{
    struct sigaction end = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    signalled = s;
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGHUP, &ignore, NULL);
}

static int open_pool(struct server *s, const struct start *st)
{
    dsl_register_format(fs_format);
    int rc =
        st->create ? spa_create(st->create, false, NULL, &s->spa) : spa_open(st->open, &s->spa);
    if (rc == 0 && st->open && !st->open->readonly && st->opts->command)
        rc = spa_history_import(s->spa, st->opts->command, geteuid());
    return rc;
}

/* TARN_LET_HALT in the environment: processors may halt between requests (docs/fuse.md). */
static int server_begin(struct server *s, const struct start *st, char **warning)
{
    const struct fuse_server_options fuse = {.let_halt = getenv("TARN_LET_HALT") != NULL};
    if (buf_touch_ahead() != 0)
        log_warn("no thread to touch memory ahead of its use");
    int rc = open_pool(s, st);
    if (rc == 0)
        rc = fuse_server_new(&s->fuse, &fuse);
    if (rc == 0)
        rc = server_listen(s);
    if (rc != 0)
        return rc;
    prop_on_change(spa_dsl(s->spa), mounts_property_changed, s);
    if (!st->opts->no_mount)
        mounts_mount_all(s, NULL, NULL, warning, NULL, NULL);
    return 0;
}

/* After the loop: what is still open is written and let go. */
static void server_end(struct server *s)
{
    server_unlisten(s);
    pthread_rwlock_wrlock(&s->in_use);
    if (s->fuse) {
        mounts_unmount_below(s, NULL, true, false);
        fuse_server_free(s->fuse);
    }
    if (s->spa)
        spa_close(s->spa, SPA_END_DROP);
    s->spa = NULL;
    pthread_rwlock_unlock(&s->in_use);
}

void server_init_locks(struct server *s)
{
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->admin, NULL);
    pthread_rwlock_init(&s->in_use, NULL);
    TAILQ_INIT(&s->mounts);
}

static int server_init(struct server *s, const struct start *st)
{
    *s = (struct server){.listener = -1, .log = -1, .started = clock_ns()};
    server_init_locks(s);
    if (st->opts->altroot && !(s->altroot = strdup(st->opts->altroot)))
        return -ENOMEM;
    return pipe2(s->wake, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -errno;
}

static void report(int fd, int rc, const char *text)
{
    dprintf(fd, "%d\n%s", -rc, text ? text : "");
    close(fd);
}

/* The log, locked while the pool's name is ours: another pool of that name must not take its
 * socket. */
static int open_log(struct server *s, const char *name, bool redirect)
{
    char dir[RUNDIR_MAX], path[RUNDIR_MAX + 300];
    int rc = rundir_own(dir, 1);
    if (rc == 0)
        rc = rundir_path(dir, name, "log", path, sizeof path);
    if (rc != 0)
        return rc;
    s->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (s->log < 0)
        return err_set(errno, "cannot write %s: %s", path, strerror(errno));
    if (flock(s->log, LOCK_EX | LOCK_NB) != 0)
        return err_set(EEXIST, "a pool with that name already exists");
    if (redirect)
        dup2(s->log, 2);
    return 0;
}

static int run(const struct start *st, int report_fd)
{
    static struct server s; /* one pool per process; outlives late connection threads */
    CLEANUP_FREE char *warning = NULL;
    int rc = server_init(&s, st);
    if (rc == 0)
        rc = open_log(&s, st->name, !st->opts->foreground);
    if (rc == 0) {
        set_signals(&s);
        rc = server_begin(&s, st, &warning);
    }
    report(report_fd, rc, rc ? err_text(rc) : warning);
    if (rc == 0) {
        log_info("pool %s is served by process %d", st->name, (int)getpid());
        server_loop(&s);
    }
    server_end(&s);
    if (rc == 0)
        log_info("pool %s: the process ends", st->name);
    return rc ? 1 : 0;
}

/* ---- The fork ---- */

/* Nothing of the caller's stays open: whoever waits for the end of its output must not wait for us.
 */
static int detach(int report_fd, const char *pool)
{
    char title[16]; /* what ps and the holder of a busy device show */
    snprintf(title, sizeof title, "tarn:%s", pool);
    (void)prctl(PR_SET_NAME, title, 0, 0, 0);
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    report_fd = dup2(report_fd, 3) == 3 ? 3 : report_fd;
    fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    close_range((unsigned)report_fd + 1, ~0u, 0);
    if (chdir("/") != 0)
        log_warn("cannot change to /");
    umask(022);
    /* The kernel must not make us wait for our own writes when memory is short; needs a capability.
     */
    (void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    return report_fd;
}

/* Reads the child's report: 0 or its errno, and the text. */
static int read_report(int fd, char **text)
{
    char buf[65536];
    size_t n = 0;
    ssize_t k;
    while (n < sizeof buf - 1 && (k = read(fd, buf + n, sizeof buf - 1 - n)) != 0) {
        if (k < 0 && errno != EINTR)
            break;
        n += k > 0 ? (size_t)k : 0;
    }
    buf[n] = 0;
    char *nl = strchr(buf, '\n');
    if (!nl)
        return err_set(EIO, "the pool process died while it started; see its log");
    int err = atoi(buf);
    if (err != 0)
        return err_set(err, "%s", nl + 1);
    *text = nl[1] ? strdup(nl + 1) : NULL;
    return 0;
}

static int start(const struct start *st, char **warning)
{
    struct client *c;
    CLEANUP_FREE char *text = NULL;
    int p[2];
    if (client_open(&c, st->name) == 0) {
        client_close(c);
        return err_set(EEXIST,
                       st->create ? "pool already exists" : "a pool with that name already exists");
    }
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    if (st->opts->foreground)
        return run(st, p[1]) ? -EIO : 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(p[0]);
        _exit(run(st, detach(p[1], st->name)));
    }
    close(p[1]);
    int rc = pid < 0 ? -errno : read_report(p[0], &text);
    close(p[0]);
    if (pid > 0 && rc != 0)
        waitpid(pid, NULL, 0);
    if (rc == 0 && warning)
        *warning = STEAL(text);
    return rc;
}

int server_create(const struct spa_create_args *args, const struct server_options *opts,
                  char **warning)
{
    struct start st = {.create = args, .opts = opts, .name = args->name};
    return start(&st, warning);
}

int server_import(const struct spa_open_args *args, const struct server_options *opts,
                  char **warning)
{
    const char *name =
        args->new_name ? args->new_name : nvlist_string_or(args->config, "name", "?");
    struct start st = {.open = args, .opts = opts, .name = name};
    return start(&st, warning);
}
