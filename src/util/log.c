#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int log_fd = STDERR_FILENO;
static _Atomic int log_most = LOG_LEVEL_INFO;

void log_set(int fd, enum log_level most)
{
    atomic_store(&log_fd, fd);
    atomic_store(&log_most, (int)most);
}

static size_t put_stamp(char *line, size_t cap, enum log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct timespec t;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    n = strftime(line, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, cap - n, ".%03ldZ %s: ", t.tv_nsec / 1000000, names[level]);
    return n;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char line[2048];
    int saved = errno;
    size_t start, n;
    va_list ap;
    ssize_t written;

    if ((int)level > atomic_load_explicit(&log_most, memory_order_relaxed))
        return;
    start = put_stamp(line, sizeof line, level);
    va_start(ap, fmt);
    vsnprintf(line + start, sizeof line - start - 1, fmt, ap);
    va_end(ap);
    n = start + strlen(line + start);
    /* Names in the text may come from a hostile pool: no line breaks, no terminal sequences. */
    for (size_t i = start; i < n; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    }
    line[n++] = '\n';
    /* One write, so that lines of several threads do not mix; a log that fails is not our error. */
    written = write(atomic_load(&log_fd), line, n);
    (void)written;
    errno = saved;
}
