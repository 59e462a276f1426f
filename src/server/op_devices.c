/* The device.* operations of docs/control-protocol.md. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "spa/vdevs.h"
#include "util/cleanup.h"
#include "util/err.h"

#define PATHS_MAX 65536 /* of one request */

static int op_offline(struct call *c)
{
    return spa_vdev_offline(c->s->spa, json_text(c->args, "device", ""),
                            json_flag(c->args, "temporary"));
}

static int op_online(struct call *c)
{
    enum vdev_state state = VDEV_CLOSED;
    int rc = spa_vdev_online(c->s->spa, json_text(c->args, "device", ""), &state);
    if (rc == 0)
        put_text(c->ok, "state", vdev_state_name(state));
    return rc;
}

static int op_clear(struct call *c)
{
    return spa_vdev_clear(c->s->spa, json_text(c->args, "device", NULL));
}

static int op_reopen(struct call *c)
{
    return spa_vdev_reopen(c->s->spa);
}

/* "vdevs": [{"type": "mirror" or none, "paths": [...]}, ...] */
struct given {
    const char **paths;
    struct spa_create_group *groups;
    size_t npaths, ngroups;
};

static void free_given(struct given *g)
{
    free(g->paths);
    free(g->groups);
}

static int read_given(struct json_object *args, struct given *g)
{
    struct json_object *vdevs = json_array(args, "vdevs");
    size_t n = json_count(vdevs), paths = 0;
    for (size_t i = 0; i < n; i++)
        paths += json_count(json_array(json_object_array_get_idx(vdevs, i), "paths"));
    if (paths == 0 || paths > PATHS_MAX)
        return err_set(EINVAL, "device.add needs devices");
    g->paths = calloc(paths, sizeof *g->paths);
    g->groups = calloc(n, sizeof *g->groups);
    if (!g->paths || !g->groups)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(vdevs, i), *list = json_array(one, "paths");
        g->groups[g->ngroups++] =
            (struct spa_create_group){json_text(one, "type", NULL), json_count(list)};
        for (size_t k = 0; k < json_count(list); k++)
            g->paths[g->npaths++] = json_item(list, k);
    }
    return 0;
}

static int op_add(struct call *c)
{
    CLEANUP(free_given) struct given g = {0};
    int rc = read_given(c->args, &g);
    struct spa_add_args args = {.paths = g.paths,
                                .npaths = g.npaths,
                                .groups = g.groups,
                                .ngroups = g.ngroups,
                                .ashift = (unsigned)json_unsigned(c->args, "ashift"),
                                .force = json_flag(c->args, "force")};
    return rc ? rc : spa_vdev_add(c->s->spa, &args, json_flag(c->args, "dry_run"));
}

static int op_attach(struct call *c)
{
    struct spa_attach_args args = {.name = json_text(c->args, "device", ""),
                                   .path = json_text(c->args, "path", ""),
                                   .ashift = (unsigned)json_unsigned(c->args, "ashift"),
                                   .replace = json_flag(c->args, "replace"),
                                   .force = json_flag(c->args, "force")};
    return spa_vdev_attach(c->s->spa, &args);
}

static int op_detach(struct call *c)
{
    return spa_vdev_detach(c->s->spa, json_text(c->args, "device", ""));
}

const struct operation device_operations[] = {
    {"device.offline", 0, op_offline}, {"device.online", 0, op_online},
    {"device.clear", 0, op_clear},     {"device.reopen", 0, op_reopen},
    {"device.add", 0, op_add},         {"device.attach", 0, op_attach},
    {"device.detach", 0, op_detach},   {NULL, 0, NULL},
};
