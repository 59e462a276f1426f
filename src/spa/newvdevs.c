/* New vdevs on devices that are given by path: of a new pool, or to be added to one. */
#include <errno.h>
#include <string.h>

#include "spa/vdevs.h"
#include "spa/vdevs_impl.h"
#include "util/cleanup.h"
#include "util/err.h"

static void free_tree(struct vdev **v)
{
    if (*v)
        vdev_tree_free(*v);
}

static int add_leaf(const struct spa_add_args *args, const char *path, uint64_t create_txg,
                    struct env *env, struct vdev *parent)
{
    CLEANUP(free_tree) struct vdev *leaf = NULL;
    int rc = args->force ? vdev_leaf_new_forced(&leaf, path, args->ashift, env)
                         : vdev_leaf_new(&leaf, path, args->ashift, env);
    if (rc == 0) {
        leaf->create_txg = create_txg;
        rc = vdev_add_child(parent, leaf);
    }
    if (rc == 0)
        (void)STEAL(leaf);
    return rc;
}

/* A mirror or raidz on the next paths. */
static int add_group(const struct spa_add_args *args, const struct spa_create_group *group,
                     const char *const *paths, uint64_t create_txg, struct env *env, struct vdev *root)
{
    CLEANUP(free_tree) struct vdev *v = NULL;
    int rc = vdev_group_new(&v, group->type, env);
    for (size_t i = 0; i < group->n && rc == 0; i++)
        rc = add_leaf(args, paths[i], create_txg, env, v);
    if (rc == 0)
        rc = vdev_group_finish(v);
    if (rc == 0) {
        v->create_txg = create_txg;
        rc = vdev_add_child(root, v);
    }
    if (rc == 0)
        (void)STEAL(v);
    return rc;
}

static int check_paths(const struct spa_add_args *args)
{
    if (args->npaths == 0)
        return err_set(EINVAL, "missing vdev specification");
    for (size_t i = 0; i < args->npaths; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(args->paths[i], args->paths[k]) == 0)
                return err_set(EINVAL, "one or more vdevs refer to the same device: %s", args->paths[i]);
    return 0;
}

int spa_new_tops(const struct spa_add_args *args, uint64_t create_txg, struct env *env,
                 struct vdev *root)
{
    const struct spa_create_group single = {NULL, args->npaths};
    const struct spa_create_group *groups = args->groups ? args->groups : &single;
    size_t n = args->groups ? args->ngroups : 1, at = 0;
    int rc = check_paths(args);
    for (size_t g = 0; g < n && rc == 0; g++) {
        if (groups[g].n > args->npaths - at)
            return err_set(EINVAL, "missing vdev specification");
        if (groups[g].type)
            rc = add_group(args, &groups[g], args->paths + at, create_txg, env, root);
        for (size_t i = 0; i < groups[g].n && rc == 0 && !groups[g].type; i++)
            rc = add_leaf(args, args->paths[at + i], create_txg, env, root);
        at += groups[g].n;
    }
    return rc;
}
