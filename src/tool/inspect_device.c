/* tarn inspect label and uberblocks: what is on one device, also if no pool can be opened. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "device/device.h"
#include "nvlist/nvlist.h"
#include "pool/blkptr.h"
#include "tool/inspect_impl.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/uberblock.h"

static const char *state_word(uint64_t state)
{
    static const char *const words[] = {"active", "exported", "destroyed", "spare", "cache"};
    return state < sizeof words / sizeof *words ? words[state] : "unknown";
}

static const char *condition(const struct label *l)
{
    switch (l->rc) {
    case 0:
        return "good";
    case -EBADE:
        return "wrong checksum";
    case -EINVAL:
        return "damaged list";
    case -ENOENT:
        return "no label";
    default:
        return "cannot be read";
    }
}

static void label_row(struct inspect *x, const char *path, unsigned number, const struct label *l)
{
    struct json_object *o = json_object_new_object();
    json_put_name(o, "device", path);
    json_put_number(o, "label", number);
    json_put_number(o, "offset", l->offset);
    json_put_text(o, "condition", condition(l));
    if (l->config) {
        json_put_text(o, "state", state_word(l->state));
        json_object_object_add(o, "config", tool_nvlist_row(l->config));
    }
    tool_print_fields(x->t, o);
    if (!x->t->json)
        printf("\n");
}

/* Equal labels are shown once unless -v. */
static bool same(const struct label *a, const struct label *b)
{
    return a->rc == b->rc && a->txg == b->txg && a->guid == b->guid && a->state == b->state;
}

static void labels(struct inspect *x, const char *path)
{
    struct device *d;
    struct label_set set;
    err_clear();
    int rc = label_open_device(&d, path, 0);
    if (rc) {
        tool_error(x->t, rc, "%s", path);
        return;
    }
    rc = label_read(d, &set);
    if (rc) {
        if (rc == -ENOENT)
            err_set(ENOENT, "there is no label");
        tool_error(x->t, rc, "%s", path);
        device_close(d);
        return;
    }
    for (unsigned i = 0; i < LABELS; i++)
        if (i == 0 || x->verbose || x->t->json || !same(&set.label[i], &set.label[0]))
            label_row(x, path, i, &set.label[i]);
    unsigned equal = 0;
    for (unsigned i = 1; i < LABELS; i++)
        equal += same(&set.label[i], &set.label[0]);
    if (!x->t->json && !x->verbose && equal)
        printf("%u of the other labels say the same (-v shows all)\n", equal);
    label_set_free(&set);
    device_close(d);
}

int inspect_label(struct inspect *x, int argc, char **argv)
{
    if (argc == 0)
        return tool_usage(x->t, "missing image");
    for (int i = 0; i < argc; i++)
        labels(x, argv[i]);
    return 0;
}

/* ---- Uberblocks ---- */

struct ring {
    struct inspect *x;
    const char *path;
    bool begun;
};

static int uberblock_row(void *arg, const struct uberblock *u, unsigned label, uint64_t offset)
{
    static const struct tool_column columns[] = {{"label", "LABEL", false, 5},
                                                 {"txg", "TXG", false, 10},
                                                 {"timestamp", "TIMESTAMP", false, 11},
                                                 {"version", "VERSION", false, 7},
                                                 {"guid_sum", "GUID SUM", false, 20},
                                                 {"checkpoint_txg", "CHECKPOINT", false, 10},
                                                 {"root", "ROOT", true, 10}};
    struct ring *r = arg;
    struct json_object *o = json_object_new_object();
    struct blkptr bp;
    char text[512];
    memcpy(bp.w, u->rootbp, sizeof bp.w);
    json_put_name(o, "device", r->path);
    json_put_number(o, "label", label);
    json_put_number(o, "offset", offset);
    json_put_number(o, "txg", u->txg);
    json_put_number(o, "timestamp", u->timestamp);
    json_put_number(o, "version", u->version);
    json_put_number(o, "guid_sum", u->guid_sum);
    json_put_number(o, "checkpoint_txg", u->checkpoint_txg);
    json_put_number(o, "software_version", u->software_version);
    json_put_number(o, "mmp_delay", u->mmp_delay);
    json_put_number(o, "raidz_reflow", u->raidz_reflow);
    json_put_bool(o, "big_endian", u->big);
    json_put_text(o, "root", bp_print(&bp, text, sizeof text));
    inspect_table(r->x, columns, sizeof columns / sizeof *columns, &r->begun, o);
    return 0;
}

int inspect_uberblocks(struct inspect *x, int argc, char **argv)
{
    if (argc == 0)
        return tool_usage(x->t, "missing image");
    for (int i = 0; i < argc; i++) {
        struct ring r = {x, argv[i], false};
        struct device *d;
        struct label_set set;
        err_clear();
        int rc = label_open_device(&d, argv[i], 0);
        if (rc) {
            tool_error(x->t, rc, "%s", argv[i]);
            continue;
        }
        rc = label_read(d, &set);
        if (rc == 0) {
            rc = uberblock_scan(d, set.psize, uberblock_row, &r);
            label_set_free(&set);
        }
        if (rc == -ENOENT || (rc == 0 && !r.begun))
            rc = err_set(ENOENT, "there is no uberblock");
        if (rc)
            tool_error(x->t, rc, "%s", argv[i]);
        device_close(d);
    }
    return 0;
}
