/* Scrub and resilver: pool.scan starts, pauses and stops them, pool.activity waits and tells. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "nvlist/nvlist.h"
#include "server/calls_impl.h"
#include "server/names_impl.h"
#include "server/rows_impl.h"
#include "server/server_impl.h"
#include "spa/scan.h"
#include "spa/spa.h"
#include "spa/upkeep.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define WAIT_MAX 1 /* seconds that an operation waits: the pool cannot be exported meanwhile */

static const char *const kinds[] = {"none", "scrub", "resilver"};
static const char *const states[] = {"none", "scanning", "finished", "canceled"};

void put_scan(struct call *c, struct json_object *o)
{
    struct spa_scan_stats st;
    spa_scan_stats(c->s->spa, &st);
    if (st.kind == SPA_SCAN_NONE || st.kind >= ARRAY_LEN(kinds) || st.state >= ARRAY_LEN(states))
        return;
    struct json_object *s = json_object_new_object();
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {
        {"start", st.start},
        {"end", st.end},
        {"pause", st.pause},
        {"paused_seconds", st.paused_seconds},
        {"to_examine", st.to_examine},
        {"examined", st.examined},
        {"skipped", st.skipped},
        {"issued", st.issued},
        {"repaired", st.repaired},
        {"errors", st.errors},
        {"pass_start", st.pass_start},
        {"pass_examined", st.pass_examined},
        {"pass_issued", st.pass_issued},
    };
    put_text(s, "kind", kinds[st.kind]);
    put_text(s, "state", states[st.state]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        put_number(s, numbers[i].key, numbers[i].n);
    json_object_object_add(o, "scan_stats", s);
}

/* As the reference notes its call. */
static void note(struct call *c, uint64_t type, uint64_t command)
{
    CLEANUP_NVLIST struct nvlist *in = nvlist_new();
    if (!in || nvlist_add_uint64(in, "scan_type", type) ||
        nvlist_add_uint64(in, "scan_command", command) ||
        nvlist_add_uint64(in, "scan_date_start", 0) || nvlist_add_uint64(in, "scan_date_end", 0))
        return;
    call_note(c, "scrub", STEAL(in), NULL);
}

static int op_scan(struct call *c)
{
    struct spa *spa = c->s->spa;
    const char *action = json_text(c->args, "action", "");
    bool resilver = strcmp(json_text(c->args, "kind", "scrub"), "resilver") == 0;
    enum spa_scan_kind kind = resilver ? SPA_SCAN_RESILVER : SPA_SCAN_SCRUB;
    bool pause = strcmp(action, "pause") == 0;
    int rc;
    if (pause)
        rc = spa_scan_pause(spa, true);
    else if (strcmp(action, "stop") == 0)
        rc = spa_scan_stop(spa);
    else
        rc = spa_scan_start(spa, kind);
    if (pause && rc == -ENOENT)
        rc = 0; /* nothing is there to be paused: as the reference has it */
    if (rc == 0)
        note(c, strcmp(action, "stop") == 0 ? 0 : kind, pause);
    return rc;
}

static bool replaces(const struct nvlist *v)
{
    struct nvlist **child;
    size_t n;
    if (nvlist_get_nvlist_array(v, "children", &child, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (replaces(child[i]))
            return true;
    return strcmp(nvlist_string_or(v, "type", ""), "replacing") == 0;
}

/* What goes on, after at most a second of waiting for the end of a scan. */
static int op_activity(struct call *c)
{
    CLEANUP_NVLIST struct nvlist *tree = NULL;
    const char *wait = json_text(c->args, "wait", "");
    struct spa *spa = c->s->spa;
    struct spa_stats st;
    int rc = 0;
    for (unsigned i = 0; i < ARRAY_LEN(kinds) && *wait; i++)
        if (strcmp(wait, kinds[i]) == 0)
            rc = spa_scan_wait(spa, (enum spa_scan_kind)i, WAIT_MAX);
    rc = rc == -ETIMEDOUT ? 0 : rc;
    for (unsigned k = 0; k < VDEV_UPKEEP_KINDS && rc == 0; k++) {
        static const char *const names[VDEV_UPKEEP_KINDS] = {[VDEV_TRIM] = "trim",
                                                             [VDEV_INITIALIZE] = "initialize"};
        uint64_t left;
        rc = spa_upkeep_wait(spa, (enum vdev_upkeep_kind)k, NULL, 0,
                             strcmp(wait, names[k]) == 0 ? WAIT_MAX : 0, &left);
        put_number(c->ok, names[k], left);
    }
    rc = rc ? rc : spa_vdev_list(spa, &tree);
    if (rc != 0)
        return rc;
    spa_stats(spa, &st);
    put_scan(c, c->ok);
    put_number(c->ok, "freeing", st.freeing);
    json_object_object_add(c->ok, "replacing", json_object_new_boolean(replaces(tree)));
    return st.suspended ? err_set(EIO, "the pool is suspended") : 0;
}

const struct operation scan_operations[] = {
    {"pool.scan", OP_BESIDE, op_scan},
    {"pool.activity", OP_READ, op_activity},
    {NULL, 0, NULL},
};
