/*
 * Changing where file systems are mounted: what the change concerns is unmounted first, so that a
 * busy one refuses the change before anything is written; afterwards it is mounted where it belongs
 * now. What is mounted inside of it goes and comes back with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "server/mounts_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

struct move {
    char name[DATASET_NAME_MAX];
    char *place; /* where it is mounted, or would be: path, "none" or "legacy" */
    bool mounted, canmount_on;
    bool ours; /* the place was given by default or from above: its folder may go */
};

struct moves {
    struct server *s;
    const char *name;
    bool own_only; /* canmount is not inherited */
    bool force;
    struct move *move;
    size_t n;
};

/* Does a dataset at or below m->name get its mount point from there, or from above it? */
static bool concerned(const struct moves *m, const char *name, const struct prop_value *raw)
{
    if (strcmp(name, m->name) == 0)
        return true;
    if (m->own_only || raw->source == SOURCE_LOCAL || raw->source == SOURCE_RECEIVED)
        return false;
    return raw->source != SOURCE_INHERITED || strlen(raw->from) <= strlen(m->name);
}

static struct move *add_slot(struct moves *m)
{
    struct move *more = realloc(m->move, (m->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    m->move = more;
    m->move[m->n] = (struct move){0};
    return &m->move[m->n];
}

static int add_move(void *arg, struct dataset *ds)
{
    struct moves *m = arg;
    struct prop_value raw = {0};
    struct move *v = add_slot(m);
    int rc = v ? prop_mountpoint(ds, m->s->altroot, &v->place, &raw) : -ENOMEM;
    if (rc != 0)
        return rc;
    dataset_name(ds, v->name);
    v->canmount_on = prop_get_number(ds, "canmount") == 1;
    pthread_mutex_lock(&m->s->lock);
    v->mounted = mounts_of(m->s, ds) != NULL;
    pthread_mutex_unlock(&m->s->lock);
    v->ours = raw.source == SOURCE_DEFAULT || raw.source == SOURCE_INHERITED;
    if (concerned(m, v->name, &raw))
        m->n++;
    else
        free(v->place);
    prop_value_clear(&raw);
    return 0;
}

static bool is_inside(const struct moves *m, size_t n, const char *target)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(m->move[i].place);
        if (m->move[i].mounted && strncmp(target, m->move[i].place, len) == 0 && target[len] == '/')
            return true;
    }
    return false;
}

static bool is_listed(const struct moves *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->move[i].name, name) == 0)
            return true;
    return false;
}

/* Others of this pool that are mounted inside what is going to be unmounted. */
static int add_nested(struct moves *m)
{
    struct mount *k;
    size_t n = m->n;
    int rc = 0;
    pthread_mutex_lock(&m->s->lock);
    TAILQ_FOREACH (k, &m->s->mounts, link) {
        char name[DATASET_NAME_MAX];
        dataset_name(k->ds, name);
        if (rc != 0 || !is_inside(m, n, k->target) || is_listed(m, name))
            continue;
        struct move *v = add_slot(m);
        if (!v || !(v->place = strdup(k->target))) {
            rc = -ENOMEM;
            continue;
        }
        memcpy(v->name, name, sizeof name);
        v->mounted = true;
        m->n++;
    }
    pthread_mutex_unlock(&m->s->lock);
    return rc;
}

/* Shortest mount point first, so that what is inside another comes after it. */
static int compare_moves(const void *a, const void *b)
{
    const struct move *x = a, *y = b;
    size_t m = strlen(x->place), n = strlen(y->place);
    return (m > n) - (m < n);
}

static void sort_moves(struct moves *m)
{
    if (m->n > 1)
        qsort(m->move, m->n, sizeof *m->move, compare_moves);
}

static int unmount_all(struct moves *m)
{
    int rc = 0;
    sort_moves(m);
    for (size_t i = m->n; i-- > 0 && rc == 0;)
        if (m->move[i].mounted)
            rc = mounts_unmount_one(m->s, m->move[i].name, m->force);
    return rc;
}

int moves_begin(struct moves **out, struct server *s, const char *name, bool own_only, bool force)
{
    struct moves *m = calloc(1, sizeof *m);
    int rc = m ? 0 : -ENOMEM;
    if (rc != 0)
        return rc;
    *m = (struct moves){.s = s, .name = name, .own_only = own_only, .force = force};
    rc = dataset_each(spa_dsl(s->spa), name, -1, false, add_move, m);
    if (rc == 0)
        rc = add_nested(m);
    if (rc == 0)
        rc = unmount_all(m);
    if (rc == 0) {
        *out = m;
        return 0;
    }
    char why[512];
    snprintf(why, sizeof why, "%s", err_text(rc));
    moves_end(m, false, NULL);
    return err_set(-rc, "%s", why);
}

/* The datasets have other names now. */
void moves_renamed(struct moves *m, const char *from, const char *to)
{
    size_t n = strlen(from);
    for (size_t i = 0; m && i < m->n; i++) {
        char name[2 * DATASET_NAME_MAX], *old = m->move[i].name;
        if (strncmp(old, from, n) != 0 || (old[n] != 0 && old[n] != '/'))
            continue;
        snprintf(name, sizeof name, "%s%s", to, old + n);
        snprintf(old, DATASET_NAME_MAX, "%.*s", DATASET_NAME_MAX - 1, name);
    }
}

/* Where each belongs now. */
static void find_places(struct moves *m)
{
    for (size_t i = m->n; i-- > 0;) { /* the deepest first: their folders can be removed */
        struct dataset *ds;
        char *place;
        if (dataset_hold(spa_dsl(m->s->spa), m->move[i].name, &ds) != 0)
            continue;
        if (prop_get_number(ds, "canmount") == 0)
            m->move[i].mounted = m->move[i].canmount_on = false;
        if (prop_mountpoint(ds, m->s->altroot, &place, NULL) == 0) {
            /* What had no place before is mounted if it has one now. */
            if (m->move[i].place[0] != '/' && place[0] == '/' && m->move[i].canmount_on)
                m->move[i].mounted = true;
            if (m->move[i].ours && m->move[i].place[0] == '/' &&
                strcmp(m->move[i].place, place) != 0)
                rmdir(m->move[i].place);
            free(m->move[i].place);
            m->move[i].place = place;
        }
        dataset_rele(ds);
    }
    sort_moves(m);
}

void moves_end(struct moves *m, bool changed, char **warning)
{
    if (!m)
        return;
    if (changed)
        find_places(m);
    for (size_t i = 0; i < m->n; i++) {
        struct mount_request r = {.name = m->move[i].name};
        if (!m->move[i].mounted || m->move[i].place[0] != '/')
            continue;
        r.explicitly = true; /* canmount=noauto stays mounted if it was */
        int rc = mounts_mount(m->s, &r);
        if (rc != 0 && rc != -EBUSY)
            warning_add(warning, "cannot mount '%s': %s", r.name, err_text(rc));
    }
    for (size_t i = 0; i < m->n; i++)
        free(m->move[i].place);
    free(m->move);
    free(m);
}
