/*
 * TRIM and initialize: which devices are at it, the orders, and what the MOS says about them (spec 05
 * 17). The work itself is in upkeep_work.c.
 */
#include "spa/upkeep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dmu/tx.h"
#include "dmu/zap.h"
#include "spa/upkeep_impl.h"
#include "spa/vdevs_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

/* The names in the leaf's ZAP, and what people are told. */
static const struct kind {
    const char *state, *position, *time, *rate;
    const char *running, *idle;
} kinds[VDEV_UPKEEP_KINDS] = {
    [VDEV_TRIM] = {"org.zfsonlinux:vdev_trim_state", "org.zfsonlinux:next_offset_to_trim",
                   "org.zfsonlinux:vdev_trim_action_time", "org.zfsonlinux:vdev_trim_rate",
                   "currently trimming", "there is no active trim"},
    [VDEV_INITIALIZE] = {"com.delphix:vdev_initialize_state",
                         "com.delphix:next_offset_to_initialize",
                         "com.delphix:vdev_initialize_action_time", NULL, "currently initializing",
                         "there is no active initialization"},
};

/* ---- Jobs ---- */

struct job *upkeep_find(struct upkeep *u, uint64_t guid, enum vdev_upkeep_kind kind)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->job[i].guid == guid && u->job[i].kind == kind)
            return &u->job[i];
    return NULL;
}

static struct job *add_job(struct upkeep *u, const struct vdev *leaf, enum vdev_upkeep_kind kind)
{
    struct job *job = upkeep_find(u, leaf->guid, kind);
    if (job)
        return job;
    if (u->n == u->room) {
        struct job *more = realloc(u->job, (u->room + 16) * sizeof *more);
        if (!more)
            return NULL;
        u->job = more;
        u->room += 16;
    }
    u->job[u->n] = (struct job){.guid = leaf->guid, .kind = kind, .top = leaf->top};
    return &u->job[u->n++];
}

static uint64_t now(struct upkeep *u)
{
    return u->spa->env.now_ns(&u->spa->env) / 1000000000;
}

static void take_state(struct upkeep *u, struct job *job, enum spa_upkeep_state state)
{
    job->state = state;
    job->time = now(u);
    job->dirty = true;
    job->away = false;
}

/* ---- The MOS ---- */

static uint64_t word_or(struct spa *spa, const struct vdev *leaf, const char *name, uint64_t otherwise)
{
    uint64_t value;
    return name && zap_get_u64(spa->mos, leaf->zap_leaf, name, &value) == 0 ? value : otherwise;
}

static int load_leaf(struct vdev *leaf, void *arg)
{
    struct upkeep *u = arg;
    for (unsigned k = 0; k < VDEV_UPKEEP_KINDS && leaf->zap_leaf != 0; k++) {
        uint64_t state = word_or(u->spa, leaf, kinds[k].state, SPA_UPKEEP_NONE);
        if (state == SPA_UPKEEP_NONE || state > SPA_UPKEEP_COMPLETE)
            continue;
        struct job *job = add_job(u, leaf, (enum vdev_upkeep_kind)k);
        if (!job)
            return -ENOMEM;
        job->state = (enum spa_upkeep_state)state;
        uint64_t position = word_or(u->spa, leaf, kinds[k].position, 0);
        position = MIN(position, leaf->top->asize + VDEV_LABEL_START);
        job->at = position > VDEV_LABEL_START ? vdev_top_position(leaf, position - VDEV_LABEL_START) : 0;
        job->time = word_or(u->spa, leaf, kinds[k].time, 0);
        job->rate = word_or(u->spa, leaf, kinds[k].rate, 0);
    }
    return 0;
}

int spa_upkeep_open(struct spa *spa)
{
    struct upkeep *u = calloc(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    u->spa = spa;
    u->stop = true;
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    spa->upkeep = u;
    return vdev_each_leaf(spa->pool.root, load_leaf, u);
}

void spa_upkeep_free(struct spa *spa)
{
    struct upkeep *u = spa->upkeep;
    if (!u)
        return;
    upkeep_pause(u);
    while (u->workers) {
        struct worker *w = u->workers;
        u->workers = w->next;
        free(w);
    }
    free(u->job);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u);
    spa->upkeep = NULL;
}

void spa_upkeep_stop(struct spa *spa)
{
    if (spa->upkeep)
        upkeep_pause(spa->upkeep);
}

void spa_upkeep_start(struct spa *spa)
{
    if (spa->upkeep && !spa->readonly)
        upkeep_resume(spa->upkeep);
}

/* The position counts from the beginning of the device, its labels included. */
static int save(struct spa *spa, const struct vdev *leaf, const struct job *job, struct tx *tx)
{
    const struct kind *k = &kinds[job->kind];
    const struct {
        const char *name;
        uint64_t value;
    } words[] = {{k->state, job->state},
                 {k->position, vdev_leaf_position(leaf, job->at) + VDEV_LABEL_START},
                 {k->time, job->time},
                 {k->rate, job->rate}};
    int rc = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words && rc == 0; i++)
        if (words[i].name)
            rc = zap_set_u64(spa->mos, leaf->zap_leaf, words[i].name, words[i].value, tx);
    return err_prefix(rc, "the state of a device's trim or initialization");
}

/* The dirty jobs, as they are now; and those of leaves that have left are forgotten. */
static struct job *take_dirty(struct upkeep *u, size_t *n)
{
    MUTEX_GUARD(&u->lock);
    struct job *copy = malloc((u->n ? u->n : 1) * sizeof *copy);
    *n = 0;
    for (size_t i = 0; i < u->n;) {
        struct job *job = &u->job[i];
        if (!vdev_find_guid(u->spa->pool.root, job->guid)) {
            *job = u->job[--u->n];
            continue;
        }
        if (job->dirty && copy) {
            copy[(*n)++] = *job;
            job->dirty = false;
        }
        i++;
    }
    return copy;
}

int spa_upkeep_sync(struct spa *spa, struct tx *tx)
{
    struct upkeep *u = spa->upkeep;
    size_t n;
    if (!u || spa->readonly)
        return 0;
    CLEANUP_FREE struct job *dirty = take_dirty(u, &n); /* without memory they wait */
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct vdev *leaf = vdev_find_guid(spa->pool.root, dirty[i].guid);
        if (leaf->zap_leaf != 0)
            rc = save(spa, leaf, &dirty[i], tx);
    }
    MUTEX_GUARD(&u->lock);
    for (size_t i = 0; i < u->n; i++)
        u->job[i].away = false; /* perhaps its device is back */
    upkeep_wake(u);
    return rc;
}

bool spa_upkeep_wanted(struct spa *spa)
{
    struct upkeep *u = spa->upkeep;
    bool dirty = false;
    if (!u || spa->readonly)
        return false;
    MUTEX_GUARD(&u->lock);
    for (size_t i = 0; i < u->n; i++)
        dirty |= u->job[i].dirty;
    return dirty;
}

/* ---- Orders ---- */

/* The leaves that an order is for. */
struct order {
    struct spa *spa;
    const struct spa_upkeep_args *args;
    uint64_t *guid;
    size_t n, room;
    bool refused;
};

static int remember(struct order *o, uint64_t guid)
{
    if (o->n == o->room) {
        uint64_t *more = realloc(o->guid, (o->room + 16) * sizeof *more);
        if (!more)
            return -ENOMEM;
        o->guid = more;
        o->room += 16;
    }
    o->guid[o->n++] = guid;
    return 0;
}

/* Why the order cannot be given to a leaf; NULL: it can. */
static const char *obstacle(const struct order *o, const struct vdev *leaf)
{
    const struct spa_upkeep_args *a = o->args;
    const struct job *job = upkeep_find(o->spa->upkeep, leaf->guid, a->kind);
    enum spa_upkeep_state state = job ? job->state : SPA_UPKEEP_NONE;
    if (!vdev_readable(leaf))
        return "invalid device";
    if (a->kind == VDEV_TRIM && (a->secure || !vdev_can_trim(leaf)))
        return "trim operations are not supported by this device";
    if (a->action == SPA_UPKEEP_START && !vdev_has_ranges(leaf))
        return "operation not supported on this type of vdev";
    if (a->action == SPA_UPKEEP_START || a->action == SPA_UPKEEP_CLEAR)
        return state == SPA_UPKEEP_ACTIVE ? kinds[a->kind].running : NULL;
    if (state == SPA_UPKEEP_ACTIVE || (state == SPA_UPKEEP_SUSPENDED && a->action == SPA_UPKEEP_CANCEL))
        return NULL;
    return kinds[a->kind].idle;
}

static void refuse(struct order *o, const char *name, const char *why)
{
    o->refused = true;
    if (o->args->refused)
        o->args->refused(o->args->arg, name, why);
}

static int look_at(struct vdev *leaf, void *arg)
{
    struct order *o = arg;
    const char *why = obstacle(o, leaf);
    if (why)
        refuse(o, leaf->path ? leaf->path : "?", why);
    return why ? 0 : remember(o, leaf->guid);
}

/* Named leaves, in the tree. */
static int look_at_name(struct order *o, const char *name)
{
    struct vdev *leaf;
    int rc = spa_vdev_leaf(o->spa, name, &leaf);
    if (rc == 0)
        return look_at(leaf, o);
    refuse(o, name, rc == -ENOTSUP ? "invalid device" : err_text(rc));
    return 0;
}

static int look(struct order *o)
{
    struct vdev *root = o->spa->pool.root;
    unsigned slot = vdev_tree_enter(root);
    int rc = 0;
    pthread_mutex_lock(&o->spa->upkeep->lock);
    for (size_t i = 0; i < o->args->n && rc == 0; i++)
        rc = look_at_name(o, o->args->names[i]);
    for (unsigned i = 0; i < vdev_tops(root) && rc == 0 && o->args->n == 0; i++)
        if (vdev_top_at(root, i)->allocator)
            rc = vdev_each_leaf(vdev_top_at(root, i), look_at, o);
    pthread_mutex_unlock(&o->spa->upkeep->lock);
    vdev_tree_leave(root, slot);
    return rc || !o->refused ? rc : err_set(EINVAL, "not possible for all devices");
}

/* With the lock. What has come to its end meanwhile has. */
static int carry_out(struct order *o, struct vdev *leaf)
{
    struct upkeep *u = o->spa->upkeep;
    const struct spa_upkeep_args *a = o->args;
    struct job *job = add_job(u, leaf, a->kind);
    if (!job)
        return -ENOMEM;
    bool open = job->state == SPA_UPKEEP_ACTIVE || job->state == SPA_UPKEEP_SUSPENDED;
    if (a->action == SPA_UPKEEP_START) {
        if (job->state != SPA_UPKEEP_SUSPENDED)
            job->at = 0;
        job->rate = a->rate;
        job->sent = 0;
        take_state(u, job, SPA_UPKEEP_ACTIVE);
    } else if (a->action == SPA_UPKEEP_CLEAR) {
        job->at = 0;
        take_state(u, job, SPA_UPKEEP_NONE);
    } else if (open) {
        bool cancel = a->action == SPA_UPKEEP_CANCEL;
        take_state(u, job, cancel ? SPA_UPKEEP_CANCELED : SPA_UPKEEP_SUSPENDED);
    }
    return 0;
}

/* What is wanted of all has been looked at; a leaf that has left meanwhile is left alone. */
static int order_sync(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct order *o = arg;
    int rc = 0;
    MUTEX_GUARD(&o->spa->upkeep->lock);
    for (size_t i = 0; i < o->n && rc == 0; i++) {
        struct vdev *leaf = vdev_find_guid(o->spa->pool.root, o->guid[i]);
        if (leaf)
            rc = carry_out(o, leaf);
    }
    return rc;
}

int spa_upkeep(struct spa *spa, const struct spa_upkeep_args *args)
{
    struct order o = {.spa = spa, .args = args};
    MUTEX_GUARD(&spa->devices);
    if (spa->readonly)
        return err_set(EROFS, "pool is read-only");
    int rc = look(&o);
    if (rc == 0)
        rc = dsl_task(spa->dsl, NULL, order_sync, &o, DSL_SPACE_NONE);
    free(o.guid);
    return rc;
}

/* ---- What is told ---- */

static uint64_t room_before(const struct vdev *top, uint64_t at)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < alloc_metaslab_count(top); i++) {
        const struct metaslab *m = alloc_metaslab(top, i);
        uint64_t room = alloc_room(m);
        if (at >= m->start + m->size)
            sum += room;
        else if (at > m->start) /* as if what is free lay evenly */
            sum += (uint64_t)((unsigned __int128)room * (at - m->start) / m->size);
    }
    return sum;
}

void spa_upkeep_status(struct spa *spa, const struct vdev *leaf, enum vdev_upkeep_kind kind,
                       struct spa_upkeep_status *out)
{
    struct upkeep *u = spa->upkeep;
    memset(out, 0, sizeof *out);
    if (!u)
        return;
    MUTEX_GUARD(&u->lock);
    const struct job *job = upkeep_find(u, leaf->guid, kind);
    if (!job)
        return;
    out->state = job->state;
    out->time = job->time;
    if (!leaf->top || !leaf->top->allocator)
        return;
    out->total = room_before(leaf->top, leaf->top->asize);
    out->done = job->state == SPA_UPKEEP_COMPLETE ? out->total : room_before(leaf->top, job->at);
}

/* ---- Waiting ---- */

struct waiting {
    struct upkeep *u;
    enum vdev_upkeep_kind kind;
    uint64_t left;
};

static int add_left(struct vdev *leaf, void *arg)
{
    struct waiting *w = arg;
    struct spa_upkeep_status st;
    spa_upkeep_status(w->u->spa, leaf, w->kind, &st);
    if (st.state == SPA_UPKEEP_ACTIVE)
        w->left += st.total > st.done ? st.total - st.done : 1;
    return 0;
}

static int find_left(struct waiting *w, const char *const *names, size_t n)
{
    struct vdev *root = w->u->spa->pool.root, *leaf;
    unsigned slot = vdev_tree_enter(root);
    int rc = 0;
    w->left = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = spa_vdev_leaf(w->u->spa, names[i], &leaf);
        rc = rc ? rc : add_left(leaf, w);
    }
    if (n == 0)
        vdev_each_leaf(root, add_left, w);
    vdev_tree_leave(root, slot);
    return rc;
}

int spa_upkeep_wait(struct spa *spa, enum vdev_upkeep_kind kind, const char *const *names, size_t n,
                    unsigned seconds, uint64_t *left)
{
    struct waiting w = {.u = spa->upkeep, .kind = kind};
    struct timespec until;
    *left = 0;
    if (!w.u)
        return 0;
    int rc = find_left(&w, names, n);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    for (int timed_out = seconds == 0; rc == 0 && w.left > 0 && !timed_out;) {
        pthread_mutex_lock(&w.u->lock);
        timed_out = pthread_cond_timedwait(&w.u->changed, &w.u->lock, &until);
        pthread_mutex_unlock(&w.u->lock);
        rc = find_left(&w, names, n);
    }
    *left = w.left;
    return rc;
}
