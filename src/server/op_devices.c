/* The device.* operations of docs/control-protocol.md. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "spa/upkeep.h"
#include "spa/vdevs.h"
#include "util/bytes.h"
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

/* ---- TRIM, initialize ---- */

#define NAMES_MAX 4096
#define WAIT_MAX  1 /* seconds: the pool cannot be exported meanwhile */

struct names {
    const char *name[NAMES_MAX];
    size_t n;
};

static int read_names(struct call *c, struct names *names)
{
    struct json_object *list = json_array(c->args, "devices");
    size_t n = json_count(list);
    if (n > NAMES_MAX)
        return err_set(EINVAL, "too many devices");
    for (names->n = 0; names->n < n; names->n++)
        names->name[names->n] = json_item(list, names->n);
    return 0;
}

static enum vdev_upkeep_kind upkeep_kind(struct call *c)
{
    return strcmp(json_text(c->args, "kind", ""), "initialize") == 0 ? VDEV_INITIALIZE : VDEV_TRIM;
}

static void put_refused(void *arg, const char *name, const char *why)
{
    struct json_object *one = json_object_new_object();
    put_text(one, "device", name);
    put_text(one, "why", why);
    json_object_array_add(arg, one);
}

static int op_upkeep(struct call *c)
{
    static const char *const actions[] = {"start", "suspend", "cancel", "clear"};
    struct json_object *refused = json_object_new_array();
    struct names names;
    struct spa_upkeep_args args = {.kind = upkeep_kind(c),
                                   .names = names.name,
                                   .rate = json_unsigned(c->args, "rate"),
                                   .secure = json_flag(c->args, "secure"),
                                   .refused = put_refused,
                                   .arg = refused};
    json_object_object_add(c->ok, "refused", refused);
    int rc = read_names(c, &names);
    args.n = names.n;
    unsigned a = 0;
    while (a < ARRAY_LEN(actions) && strcmp(json_text(c->args, "action", ""), actions[a]) != 0)
        a++;
    if (rc == 0 && a == ARRAY_LEN(actions))
        rc = err_set(EINVAL, "device.upkeep: no such action");
    args.action = (enum spa_upkeep_action)a;
    rc = rc ? rc : spa_upkeep(c->s->spa, &args);
    return rc == -EINVAL && json_object_array_length(refused) > 0 ? 0 : rc;
}

static int op_upkeep_wait(struct call *c)
{
    struct names names;
    uint64_t left = 0;
    int rc = read_names(c, &names);
    rc = rc ? rc : spa_upkeep_wait(c->s->spa, upkeep_kind(c), names.name, names.n, WAIT_MAX, &left);
    put_number(c->ok, "left", left);
    return rc;
}

const struct operation device_operations[] = {
    {"device.offline", 0, op_offline}, {"device.online", 0, op_online},
    {"device.clear", 0, op_clear},     {"device.reopen", 0, op_reopen},
    {"device.add", 0, op_add},         {"device.attach", 0, op_attach},
    {"device.detach", 0, op_detach},   {"device.upkeep", 0, op_upkeep},
    {"device.upkeep_wait", OP_READ, op_upkeep_wait},
    {NULL, 0, NULL},
};
