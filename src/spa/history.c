/* The pool's history (spec 01 18): a ring of length-prefixed native nvlists in one MOS object. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "dmu/dnode.h"
#include "dmu/tx.h"
#include "dmu/zap.h"
#include "nvlist/nvlist.h"
#include "spa/spa_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"

#define RING_MIN   (128ull << 10)
#define RING_MAX   (1ull << 30)
#define RECORD_MAX (1u << 20)

struct ring {
    uint64_t create_len, size, bof, eof, lost; /* the bonus, word by word */
};

static void free_nvlist(struct nvlist **l)
{
    nvlist_free(*l);
}

static int ring_read(struct dnode *dn, struct ring *r)
{
    uint64_t w[5];
    size_t len;
    int rc = dnode_bonus_get(dn, w, sizeof w, &len);
    if (rc != 0)
        return rc;
    *r = (struct ring){w[0], w[1], w[2], w[3], w[4]};
    if (len != sizeof w || r->size <= r->create_len || r->bof > r->eof ||
        r->eof - r->bof > r->size - r->create_len)
        return err_set(EBADE, "the pool history's header is damaged");
    return 0;
}

static int ring_write(struct dnode *dn, const struct ring *r, struct tx *tx)
{
    uint64_t w[5] = {r->create_len, r->size, r->bof, r->eof, r->lost};
    return dnode_bonus_set(dn, w, sizeof w, OT_HISTORY_OFFSETS, tx);
}

static uint64_t ring_place(const struct ring *r, uint64_t logical)
{
    if (logical < r->create_len)
        return logical;
    return (logical - r->create_len) % (r->size - r->create_len) + r->create_len;
}

/* Reads or writes n bytes at a logical offset, in two pieces where the ring wraps. */
static int ring_io(struct dnode *dn, const struct ring *r, uint64_t logical, void *data, uint64_t n,
                   struct tx *tx)
{
    unsigned char *p = data;
    int rc = 0;
    while (n > 0 && rc == 0) {
        uint64_t at = ring_place(r, logical), step = MIN(n, r->size - at);
        rc = tx ? dnode_write(dn, at, p, step, tx) : dnode_read(dn, at, p, step);
        p += step;
        logical += step;
        n -= step;
    }
    return rc;
}

/* Forgets the oldest records until n more bytes fit. */
static int ring_make_room(struct dnode *dn, struct ring *r, uint64_t n)
{
    while (r->size - r->create_len - (r->eof - r->bof) <= n) {
        unsigned char len[8];
        if (r->eof - r->bof < 8)
            return err_set(EBADE, "the pool history's header is damaged");
        int rc = ring_io(dn, r, r->bof, len, sizeof len, NULL);
        if (rc != 0)
            return rc;
        uint64_t step = 8 + MIN(get_le64(len), (uint64_t)RECORD_MAX);
        r->bof += MIN(step, r->eof - r->bof);
        r->lost++;
    }
    return 0;
}

int spa_history_create(struct spa *spa, struct tx *tx)
{
    struct alloc_space space;
    alloc_space(&spa->pool, &space);
    struct object_params p = {.type = OT_HISTORY,
                              .bonus_type = OT_HISTORY_OFFSETS,
                              .bonus_len = 40,
                              .block_size = BLOCK_OLD_MAX};
    struct ring r = {.size = MIN(MAX(space.dspace / 1000, RING_MIN), RING_MAX)};
    r.size = P2_ROUND_DOWN(r.size, 512);
    struct dnode *dn;
    int rc = object_create(spa->mos, 0, &p, tx, &dn);
    if (rc != 0)
        return rc;
    spa->history = dnode_object(dn);
    rc = ring_write(dn, &r, tx);
    dnode_rele(dn);
    if (rc == 0)
        rc = zap_add_u64(spa->mos, MOS_DIRECTORY, "history", spa->history, tx);
    return rc;
}

int spa_history_log(struct spa *spa, const struct nvlist *record, bool command, struct tx *tx)
{
    CLEANUP_FREE unsigned char *packed = NULL;
    size_t n;
    struct ring r;
    struct dnode *dn;
    unsigned char len[8];
    int rc = spa->history == 0 ? spa_history_create(spa, tx) : 0;
    if (rc == 0)
        rc = nvlist_pack_native(record, &packed, &n);
    if (rc == 0 && n > RECORD_MAX)
        rc = -E2BIG;
    if (rc == 0)
        rc = dnode_hold(spa->mos, spa->history, &dn);
    if (rc != 0)
        return rc;
    put_le64(len, n);
    rc = ring_read(dn, &r);
    if (rc == 0)
        rc = ring_make_room(dn, &r, sizeof len + n);
    if (rc == 0)
        rc = ring_io(dn, &r, r.eof, len, sizeof len, tx);
    if (rc == 0)
        rc = ring_io(dn, &r, r.eof + sizeof len, packed, n, tx);
    if (rc == 0) {
        r.eof += sizeof len + n;
        if (command && r.create_len == 0)
            r.create_len = r.bof = r.eof;
        rc = ring_write(dn, &r, tx);
    }
    dnode_rele(dn);
    return err_prefix(rc, "pool history");
}

/* ---- Records ---- */

static int add_common(struct spa *spa, struct nvlist *l)
{
    int rc = nvlist_add_uint64(l, "history time", spa->env.now_ns(&spa->env) / 1000000000);
    if (rc == 0)
        rc = nvlist_add_string(l, "history hostname", spa->hostname);
    return rc;
}

void spa_history_event(void *arg, const char *event, const char *dsname, uint64_t dsobj,
                       const char *text, struct tx *tx)
{
    struct spa *spa = arg;
    CLEANUP(free_nvlist) struct nvlist *l = nvlist_new();
    /* A history record that cannot be written is no reason to fail the operation. */
    if (!l || nvlist_add_string(l, "history internal str", text) ||
        nvlist_add_string(l, "internal_name", event) ||
        (dsname && nvlist_add_string(l, "dsname", dsname)) ||
        (dsname && nvlist_add_uint64(l, "dsid", dsobj)) ||
        nvlist_add_uint64(l, "history txg", tx->txg) || add_common(spa, l))
        return;
    (void)spa_history_log(spa, l, false, tx);
}

void spa_history_version(struct spa *spa, const char *event, struct tx *tx)
{
    struct utsname u = {0};
    char text[600];
    uname(&u);
    snprintf(text, sizeof text, "pool version %llu; software version tarn-%s; uts %s %s %s %s",
             (unsigned long long)spa->version, TARN_VERSION, u.nodename, u.release, u.version, u.machine);
    spa_history_event(spa, event, NULL, 0, text, tx);
}

struct commands {
    struct spa *spa;
    struct nvlist *const *calls;
    size_t ncalls;
    struct nvlist *command; /* or NULL */
    bool imported;
};

/* What cannot be recorded is left out: it has happened all the same. */
static int log_commands(struct dsl *dsl, void *arg, struct tx *tx)
{
    struct commands *c = arg;
    if (c->imported) {
        spa_history_version(c->spa, "open", tx);
        spa_history_version(c->spa, "import", tx);
    }
    for (size_t i = 0; i < c->ncalls; i++)
        (void)spa_history_log(c->spa, c->calls[i], false, tx);
    if (c->command)
        (void)spa_history_log(c->spa, c->command, true, tx);
    return 0;
}

static int add_who(struct spa *spa, struct nvlist *l, uint32_t uid)
{
    int rc = nvlist_add_uint64(l, "history who", uid);
    if (rc == 0)
        rc = nvlist_add_string(l, "history zone", "linux");
    return rc ? rc : add_common(spa, l);
}

static int log_all(struct commands *c, const char *command, uint32_t uid)
{
    CLEANUP(free_nvlist) struct nvlist *l = command ? nvlist_new() : NULL;
    if (c->spa->readonly)
        return 0;
    if (command &&
        (!l || nvlist_add_string(l, "history command", command) || add_who(c->spa, l, uid)))
        return -ENOMEM;
    c->command = l;
    for (size_t i = 0; i < c->ncalls; i++)
        if (add_who(c->spa, c->calls[i], uid) != 0)
            return -ENOMEM;
    return dsl_task(c->spa->dsl, NULL, log_commands, c, DSL_SPACE_NONE);
}

int spa_history_commands(struct spa *spa, struct nvlist *const *calls, size_t n, const char *command,
                         uint32_t uid)
{
    struct commands c = {.spa = spa, .calls = calls, .ncalls = n};
    return log_all(&c, command, uid);
}

int spa_history_command(struct spa *spa, const char *command, uint32_t uid)
{
    return spa_history_commands(spa, NULL, 0, command, uid);
}

int spa_history_import(struct spa *spa, const char *command, uint32_t uid)
{
    struct commands c = {.spa = spa, .imported = true};
    return log_all(&c, command, uid);
}

static int each_in(struct dnode *dn, const struct ring *r, uint64_t from, uint64_t to,
                   spa_history_fn *fn, void *arg)
{
    int rc = 0;
    while (from + 8 <= to && rc == 0) {
        unsigned char len[8];
        CLEANUP(free_nvlist) struct nvlist *l = NULL;
        rc = ring_io(dn, r, from, len, sizeof len, NULL);
        uint64_t n = get_le64(len);
        if (rc != 0 || n == 0 || n > RECORD_MAX || n > to - from - 8)
            return rc ? rc : err_set(EBADE, "the pool history is damaged");
        CLEANUP_FREE unsigned char *packed = malloc(n);
        if (!packed)
            return -ENOMEM;
        rc = ring_io(dn, r, from + 8, packed, n, NULL);
        if (rc == 0)
            rc = nvlist_unpack_native(packed, n, &l, NULL);
        if (rc == 0)
            rc = fn(arg, l);
        from += 8 + n;
    }
    return rc;
}

int spa_history_each(struct spa *spa, spa_history_fn *fn, void *arg)
{
    struct dnode *dn;
    struct ring r;
    if (spa->history == 0)
        return 0;
    int rc = dnode_hold(spa->mos, spa->history, &dn);
    if (rc != 0)
        return rc;
    rc = ring_read(dn, &r);
    if (rc == 0 && r.create_len > 0)
        rc = each_in(dn, &r, 0, r.create_len, fn, arg);
    if (rc == 0)
        rc = each_in(dn, &r, r.bof, r.eof, fn, arg);
    dnode_rele(dn);
    return rc;
}
