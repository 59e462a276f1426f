/*
 * What a checkpoint keeps (spec 05 15): the pool as it was, opened a second time. Its blocks must
 * all be readable and still allocated; and what is kept for it must be its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"
#include "pool/pool.h"
#include "spa/spa.h"
#include "tool/verify_impl.h"
#include "util/err.h"

static bool has_checkpoint(struct verify *v)
{
    return verify_directory_has(v, "com.delphix:zpool_checkpoint");
}

static int walk(struct verify *c)
{
    int rc = claims_init(c);
    if (rc == 0)
        rc = verify_mappings_load(c);
    if (rc == 0)
        rc = verify_tables_load(c);
    return rc ? rc : verify_walk(c);
}

int verify_checkpoint(struct verify *v, struct verify **out)
{
    struct spa_open_args args = {
        .config = v->labels, .readonly = true, .force = true, .checkpoint = true};
    *out = NULL;
    if (!has_checkpoint(v))
        return 0;
    if (v->t->txg || v->t->rewind) {
        fprintf(stderr,
                "note: the checkpoint is not looked at, as this may not be the newest state "
                "of the pool\n");
        return 0;
    }
    struct verify *c = calloc(1, sizeof *c);
    if (!c || !(c->count = calloc(v->threads + 1, sizeof *c->count))) {
        free(c);
        return -ENOMEM;
    }
    c->t = v->t;
    c->threads = v->threads;
    c->metadata_only = v->metadata_only;
    c->quiet = true;
    c->prefix = "checkpoint: ";
    c->present = v;
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    err_clear();
    int rc = spa_open(&args, &c->spa);
    if (rc && rc != -ENOMEM) {
        verify_unreadable(v, err_prefix(rc, "the checkpoint"));
        return 0;
    }
    if (rc == 0) {
        c->pool = spa_pool(c->spa);
        c->mos = dsl_mos(spa_dsl(c->spa));
        rc = walk(c);
    }
    v->errors += c->errors;
    v->repairable += c->repairable;
    v->double_claims += c->double_claims;
    return rc;
}

void verify_checkpoint_close(struct verify *c)
{
    if (!c)
        return;
    verify_release(c);
    if (c->spa)
        spa_close(c->spa, SPA_END_DROP);
    free(c);
}
