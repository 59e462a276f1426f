#include "server/permissions_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "dsl/deleg.h"
#include "dsl/dsl.h"
#include "dsl/props.h"
#include "nvlist/nvlist.h"
#include "server/names_impl.h"
#include "server/server_impl.h"
#include "util/err.h"

static int denied(void)
{
    return err_set(EPERM, "permission denied");
}

/* The pool's property: nobody is given anything while it is off. */
static bool delegating(struct call *c)
{
    char value[32], source[16];
    return spa_prop_get(c->s->spa, "delegation", false, value, sizeof value, source) == 0 &&
           strcmp(value, "on") == 0;
}

int permission_need(struct call *c, const char *name, const char *perm)
{
    const struct deleg_caller who = {c->uid, c->groups, c->ngroups};
    if (c->trusted)
        return 0;
    if (strstr(name, "/%") || strchr(name, '$')) /* internal: nobody can be given anything there */
        return denied();
    if (!delegating(c))
        return err_set(EPERM, "delegated administration is disabled on pool");
    int rc = deleg_access(spa_dsl(c->s->spa), name, perm, &who);
    return rc == -EPERM ? denied() : rc;
}

int permission_need_all(struct call *c, const struct names *l, const char *perm)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && rc == 0; i++)
        rc = permission_need(c, l->name[i], perm);
    return rc;
}

/* Cuts off the last component until it is something that exists; false: there is nothing. */
static bool nearest(struct call *c, char *name)
{
    struct dataset *ds;
    while (dataset_hold(spa_dsl(c->s->spa), name, &ds) != 0) {
        char *slash = strrchr(name, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    dataset_rele(ds);
    return true;
}

int permission_need_new(struct call *c, const char *name)
{
    char above[DATASET_NAME_MAX];
    const char *slash = strrchr(name, '/');
    if (c->trusted)
        return 0;
    snprintf(above, sizeof above, "%.*s", (int)(slash ? slash - name : 0), name);
    if (!nearest(c, above))
        return denied();
    int rc = permission_need(c, above, "create");
    return rc ? rc : permission_need(c, above, "mount");
}

int permission_need_prop(struct call *c, const char *name, const char *prop)
{
    char above[DATASET_NAME_MAX], perm[64];
    const struct prop_info *info = prop_info(prop);
    if (c->trusted)
        return 0;
    snprintf(above, sizeof above, "%.*s", (int)strcspn(name, "@#"), name);
    if (!nearest(c, above))
        return denied();
    if (prop_user_name(prop))
        return permission_need(c, above, "userprop");
    snprintf(perm, sizeof perm, "%.*s", (int)strcspn(prop, "@"), prop); /* userquota@joe */
    return permission_need(c, above, info ? info->name : perm);
}

int permission_need_props(struct call *c, const char *name, const struct nvlist *props)
{
    int rc = 0;
    for (const struct nvpair *p = c->trusted ? NULL : nvlist_first(props); p && rc == 0;
         p = nvlist_after(props, p))
        rc = permission_need_prop(c, name, nvpair_name(p));
    return rc;
}

int permission_need_unmounted(struct call *c, const char *name)
{
    char target[PATH_MAX] = "";
    if (c->trusted)
        return 0;
    pthread_mutex_lock(&c->s->lock);
    struct mount *m = mounts_find(c->s, name);
    if (m)
        snprintf(target, sizeof target, "%s", m->target);
    pthread_mutex_unlock(&c->s->lock);
    return m ? err_set(EPERM, "cannot unmount '%s': permission denied", target) : 0;
}
