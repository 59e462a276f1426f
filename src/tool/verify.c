/* tarn verify: every block of a pool is read and checked; what is allocated must be used exactly
 * once. */
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"
#include "spa/spa.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/threads.h"
#include "vdev/scan.h"

#define THREADS_MAX 64

void verify_found(struct verify *v, const char *kind, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(text, sizeof text, "%s", v->prefix ? v->prefix : "");
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&v->lock);
    v->t->status = 1;
    if (v->progress.on && v->progress.shown)
        fprintf(stderr, "\r\033[K");
    fprintf(stderr, "tarn verify: %s\n", text);
    if (v->t->json) {
        struct json_object *o = json_object_new_object();
        json_put_text(o, "finding", kind);
        json_put_text(o, "text", text);
        tool_row(v->t, o);
    }
    pthread_mutex_unlock(&v->lock);
}

static int run(struct verify *v)
{
    int rc = claims_init(v);
    if (rc == 0)
        rc = verify_mappings_load(v);
    if (rc == 0)
        rc = verify_tables_load(v);
    if (rc == 0)
        rc = verify_walk(v);
    if (rc == 0)
        rc = verify_checkpoint(v, &v->checkpointed);
    if (rc == 0)
        rc = verify_space(v);
    if (rc == 0) {
        verify_tables_check(v);
        verify_accounting(v);
        rc = verify_livelists(v);
        rc = rc ? rc : verify_mos(v);
    }
    return rc;
}

void verify_release(struct verify *v)
{
    while (v->sets) {
        struct counted_set *s = v->sets;
        v->sets = s->next;
        free(s);
    }
    verify_tables_free(v);
    verify_mappings_free(v);
    claims_free(v);
    free(v->count);
    pthread_mutex_destroy(&v->lock);
}

static void verify_pool(struct verify *v, const char *text)
{
    struct target x;
    struct spa_stats st;
    if (target_open(v->t, text, TARGET_POOL, &x) != 0)
        return;
    v->spa = x.pool->spa;
    v->labels = x.pool->found->config;
    v->pool = spa_pool(v->spa);
    v->mos = dsl_mos(spa_dsl(v->spa));
    v->count = calloc(v->threads + 1, sizeof *v->count);
    pthread_mutex_init(&v->lock, NULL);
    spa_stats(v->spa, &st);
    progress_begin(&v->progress, "verify", v->metadata_only ? 0 : st.alloc);
    if (v->quiet)
        v->progress.on = false;
    int rc = v->count ? run(v) : -ENOMEM;
    progress_end(&v->progress);
    if (rc)
        tool_error(v->t, rc, "%s", text);
    else
        verify_print(v);
    verify_checkpoint_close(v->checkpointed);
    verify_release(v);
    target_close(&x);
}

int tool_verify(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"metadata-only", no_argument, NULL, 'm'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"threads", required_argument, NULL, 'j'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {0}};
    struct verify v = {.t = t, .threads = MAX(2 * thread_cpu_count(), 8u)};
    uint64_t n;
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "mqvj:", longs)) != -1) {
        if (opt == '?')
            return 2;
        v.metadata_only |= opt == 'm';
        v.quiet |= opt == 'q';
        v.verbose |= opt == 'v';
        if (opt == 'j' && (!tool_number(optarg, &n) || n < 1 || n > THREADS_MAX))
            return tool_usage(t, "-j wants a number from 1 to %u", THREADS_MAX);
        if (opt == 'j')
            v.threads = (unsigned)n;
    }
    if (v.threads > THREADS_MAX)
        v.threads = THREADS_MAX;
    if (argc - optind != 1)
        return tool_usage(t, "the name of one pool is wanted");
    verify_pool(&v, argv[optind]);
    return 0;
}
