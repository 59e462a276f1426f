/*
 * In which order datasets can be destroyed: children and snapshots before their dataset, clones
 * before the snapshot they were made of. Depth first over an explicit stack, as clones of clones
 * can be nested deeper than a thread's stack goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"
#include "dsl/props.h"
#include "server/dependents_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/hashmap.h"

struct node {
    struct hashmap_node link; /* in visit.seen */
    bool ready;               /* in the order */
    char name[];
};

/* A name to look at; looked at already: all it needs is in the order, it comes next. */
struct frame {
    char *name;
    bool ready;
};

struct visit {
    struct dsl *dsl;
    struct names *out;
    struct hashmap seen;
    struct frame *stack;
    size_t n, cap;
};

static int push(struct visit *v, const char *name, bool ready)
{
    if (v->n == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 64;
        struct frame *more = realloc(v->stack, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        v->stack = more;
        v->cap = cap;
    }
    v->stack[v->n].name = strdup(name);
    v->stack[v->n].ready = ready;
    return v->stack[v->n].name ? (v->n++, 0) : -ENOMEM;
}

static struct node *find(const struct visit *v, const char *name, uint64_t hash)
{
    for (struct hashmap_node *l = hashmap_first(&v->seen, hash); l; l = hashmap_next(l))
        if (strcmp(container_of(l, struct node, link)->name, name) == 0)
            return container_of(l, struct node, link);
    return NULL;
}

/* 1 if it is new. One that is not ready yet needs itself: a clone that is above its origin. */
static int see(struct visit *v, const char *name)
{
    size_t n = strlen(name);
    uint64_t hash = hash_bytes(name, n, 0);
    struct node *node = find(v, name, hash);
    if (node)
        return node->ready ? 0
                           : err_set(ELOOP,
                                     "cannot determine dependent datasets: recursive "
                                     "dependency at '%s'",
                                     name);
    node = malloc(sizeof *node + n + 1);
    if (!node)
        return -ENOMEM;
    node->ready = false;
    memcpy(node->name, name, n + 1);
    hashmap_insert(&v->seen, &node->link, hash);
    return 1;
}

static int finish(struct visit *v, const char *name)
{
    struct node *node = find(v, name, hash_bytes(name, strlen(name), 0));
    node->ready = true;
    return names_add(v->out, name);
}

int clones_of(struct dsl *dsl, const char *snapshot, struct names *out)
{
    struct prop_value v = {0};
    struct dataset *ds;
    int rc = dataset_hold(dsl, snapshot, &ds);
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    rc = prop_get(ds, "clones", &v);
    dataset_rele(ds);
    char *save = NULL;
    for (char *p = rc == 0 && v.string ? strtok_r(v.string, ",", &save) : NULL; p && rc == 0;
         p = strtok_r(NULL, ",", &save))
        rc = names_add(out, p);
    prop_value_clear(&v);
    return rc == -ENOENT ? 0 : rc;
}

/* What must go before a dataset: children, the last one first, then snapshots, the oldest first. */
static int needs_of_dataset(struct visit *v, const char *name, struct names *out)
{
    struct names children = {0}, snaps = {0};
    int rc = dataset_each(v->dsl, name, 1, false, names_collect, &children);
    if (rc == 0)
        rc = dataset_each(v->dsl, name, 0, true, names_collect, &snaps);
    for (size_t i = children.n; i-- > 1 && rc == 0;)
        rc = names_add(out, children.name[i]);
    for (size_t i = 1; i < snaps.n && rc == 0; i++)
        rc = names_add(out, snaps.name[i]);
    names_free(&children);
    names_free(&snaps);
    return rc == -ENOENT ? 0 : rc;
}

static int visit(struct visit *v, const char *name)
{
    struct names needs = {0};
    int rc = see(v, name);
    if (rc <= 0)
        return rc;
    rc = push(v, name, true);
    if (rc == 0)
        rc =
            strchr(name, '@') ? clones_of(v->dsl, name, &needs) : needs_of_dataset(v, name, &needs);
    for (size_t i = needs.n; i-- > 0 && rc == 0;)
        rc = push(v, needs.name[i], false);
    names_free(&needs);
    return rc;
}

static void visit_end(struct visit *v)
{
    for (size_t i = 0; i <= v->seen.mask && v->seen.slots; i++)
        while (v->seen.slots[i]) {
            struct hashmap_node *l = v->seen.slots[i];
            hashmap_remove(&v->seen, l);
            free(container_of(l, struct node, link));
        }
    hashmap_destroy(&v->seen);
    while (v->n > 0)
        free(v->stack[--v->n].name);
    free(v->stack);
}

int dependents_order(struct dsl *dsl, const struct names *tops, struct names *out)
{
    CLEANUP(visit_end) struct visit v = {.dsl = dsl, .out = out};
    int rc = hashmap_init(&v.seen, 64);
    for (size_t i = 0; i < tops->n && rc == 0; i++) {
        rc = push(&v, tops->name[i], false);
        while (rc == 0 && v.n > 0) {
            struct frame f = v.stack[--v.n];
            rc = f.ready ? finish(&v, f.name) : visit(&v, f.name);
            free(f.name);
        }
    }
    return rc;
}
