/* --rewind: a pool whose newest state cannot be read is shown as of an older txg, as zpool import
 * -F does it, but for looking only. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "device/device.h"
#include "dsl/dataset.h"
#include "nvlist/nvlist.h"
#include "spa/spa.h"
#include "tool/tool_impl.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/uberblock.h"

struct txgs {
    uint64_t *txg;
    size_t n, cap;
    uint64_t max;
};

/* ---- Which txgs there are ---- */

static int add_txg(void *arg, const struct uberblock *u, unsigned label, uint64_t offset)
{
    struct txgs *l = arg;
    if (u->txg > l->max)
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        uint64_t *more = realloc(l->txg, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->txg = more;
        l->cap = cap;
    }
    l->txg[l->n++] = u->txg;
    return 0;
}

/* Of a device; what cannot be read has none. */
static int add_device(struct txgs *l, const char *path)
{
    struct device *d;
    struct label_set set;
    int rc = 0;
    if (label_open_device(&d, path, 0) != 0)
        return 0;
    if (label_read(d, &set) == 0) {
        rc = uberblock_scan(d, set.psize, add_txg, l);
        label_set_free(&set);
    }
    device_close(d);
    return rc == -ENOMEM ? rc : 0;
}

static int add_devices(struct txgs *l, const struct nvlist *tree)
{
    struct nvlist **child;
    size_t n;
    int rc = 0;
    const char *path = nvlist_string_or(tree, "path", NULL);
    if (nvlist_get_nvlist_array(tree, "children", &child, &n) == 0)
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = add_devices(l, child[i]);
    else if (path)
        rc = add_device(l, path);
    return rc;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* ---- Which of them can be read ---- */

static int check_dataset(void *arg, struct dataset *ds)
{
    struct objset *os;
    int rc = dataset_objset(ds, &os);
    return rc == -EACCES ? 0 : rc; /* its key is not loaded */
}

/* The pool and the root block of each of its datasets. */
static int try_open(const struct spa_open_args *args, struct spa **out)
{
    int rc = spa_open(args, out);
    if (rc)
        return rc;
    rc = dataset_each(spa_dsl(*out), spa_name(*out), -1, false, check_dataset, NULL);
    if (rc) {
        spa_close(*out, SPA_END_DROP);
        *out = NULL;
    }
    return rc;
}

static void note(const struct spa *spa, uint64_t txg, uint64_t time)
{
    char text[64] = "";
    time_t seconds = (time_t)time;
    struct tm tm;
    if (localtime_r(&seconds, &tm))
        strftime(text, sizeof text, "%F %T", &tm);
    fprintf(stderr,
            "note: pool '%s' is shown as of txg %" PRIu64 " (%s): newer states cannot be read\n",
            spa_name(spa), txg, text);
}

static int go_back(struct spa_open_args *args, struct txgs *l, int rc, struct spa **out)
{
    struct spa_stats st;
    char why[1024];
    snprintf(why, sizeof why, "%s", err_text(rc));
    qsort(l->txg, l->n, sizeof *l->txg, newest_first);
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0 && l->txg[i] == l->txg[i - 1])
            continue;
        args->max_txg = l->txg[i];
        err_clear();
        if (try_open(args, out) != 0)
            continue;
        spa_stats(*out, &st);
        note(*out, st.txg, st.time);
        return 0;
    }
    return err_set(-rc, "%s; no older txg can be read either", why);
}

int tool_spa_open(struct tool *t, struct spa_open_args *args, struct spa **out)
{
    struct txgs l = {.max = args->max_txg ? args->max_txg : UINT64_MAX};
    struct nvlist *tree;
    if (!t->rewind)
        return spa_open(args, out);
    int rc = try_open(args, out);
    if (rc == 0 || rc == -ENOMEM || rc == -EBUSY ||
        nvlist_get_nvlist(args->config, "vdev_tree", &tree) != 0)
        return rc;
    int found = add_devices(&l, tree);
    rc = found ? found : go_back(args, &l, rc, out);
    free(l.txg);
    return rc;
}
