/* A line on the terminal that says how far it is. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool/tool_impl.h"

#define SHOW_NS 200000000ull

static uint64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void progress_begin(struct progress *p, const char *what, uint64_t total)
{
    *p = (struct progress){isatty(STDERR_FILENO), what, total, now(), 0};
}

double progress_seconds(const struct progress *p)
{
    return (double)(now() - p->began) / 1e9;
}

void progress_show(struct progress *p, uint64_t bytes, uint64_t blocks)
{
    char done[32], total[32], rate[32], bar[21];
    uint64_t t;
    if (!p->on || (t = now()) - p->shown < SHOW_NS)
        return;
    p->shown = t;
    double seconds = (double)(t - p->began) / 1e9;
    tool_size(bytes, true, done);
    tool_size((uint64_t)((double)bytes / (seconds > 0.01 ? seconds : 0.01)), true, rate);
    fprintf(stderr, "\r\033[K%s: ", p->what);
    if (p->total) {
        unsigned part = bytes >= p->total ? 20 : (unsigned)(20 * (double)bytes / (double)p->total);
        memset(bar, '#', part);
        memset(bar + part, '.', 20 - part);
        bar[20] = '\0';
        fprintf(stderr, "[%s] %s of %s", bar, done, tool_size(p->total, true, total));
    } else {
        fprintf(stderr, "%s", done);
    }
    if (blocks)
        fprintf(stderr, ", %llu blocks", (unsigned long long)blocks);
    fprintf(stderr, ", %s/s", rate);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->on && p->shown)
        fprintf(stderr, "\r\033[K");
    p->on = false;
}
