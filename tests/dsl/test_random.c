/* Random operations on datasets, all books recomputed after every txg, in the end everything destroyed:
 * the pool must be as empty as a new one. */
#include "dsl_test.h"

#include "dsl/dsl_impl.h"

#define DATASETS  6
#define OBJECTS   8
#define SNAPSHOTS 12
#define MARKS     5

struct model {
    struct dsl_test p;
    struct dataset *ds[DATASETS];
    char name[DATASETS][64];
    uint64_t object[DATASETS][OBJECTS];
    uint32_t block[DATASETS][OBJECTS];
    bool snap[DATASETS][SNAPSHOTS];
    unsigned born[DATASETS][SNAPSHOTS];   /* the order in which they were taken */
    unsigned clones[DATASETS][SNAPSHOTS]; /* of each snapshot */
    unsigned holds[DATASETS][SNAPSHOTS];  /* bit per tag */
    bool deferred[DATASETS][SNAPSHOTS];   /* goes with the last of its holds and clones */
    unsigned mark[DATASETS][MARKS], mark_born[DATASETS][MARKS]; /* bookmarks' numbers, 0 = none, and age */
    int origin[DATASETS][2];              /* dataset and snapshot, -1 = none */
    unsigned next, taken;
};

static uint64_t below(struct model *m, uint64_t n)
{
    return test_below(&m->p.t.env, n);
}

static bool has_children(struct model *m, unsigned i)
{
    size_t n = strlen(m->name[i]);

    for (unsigned k = 0; k < DATASETS; k++)
        if (m->ds[k] && k != i && strncmp(m->name[k], m->name[i], n) == 0 && m->name[k][n] == '/')
            return true;
    return false;
}

static void forget_snapshots(struct model *m, unsigned i)
{
    memset(m->snap[i], 0, sizeof m->snap[i]);
    memset(m->holds[i], 0, sizeof m->holds[i]);
    memset(m->deferred[i], 0, sizeof m->deferred[i]);
    memset(m->mark[i], 0, sizeof m->mark[i]);
}

static void op_create(struct model *m, unsigned i)
{
    unsigned parent = (unsigned)below(m, DATASETS);
    char up[64] = "tank";

    if (m->ds[i])
        return;
    if (m->ds[parent] && strlen(m->name[parent]) < 30 && below(m, 2))
        strcpy(up, m->name[parent]);
    snprintf(m->name[i], sizeof m->name[i], "%.40s/d%u", up, m->next++);
    assert_int_equal(dataset_create(m->p.dsl, m->name[i], NULL, 0, 0), 0);
    m->ds[i] = hold(&m->p, m->name[i]);
    memset(m->object[i], 0, sizeof m->object[i]);
    forget_snapshots(m, i);
    m->origin[i][0] = -1;
}

static void op_clone(struct model *m, unsigned i)
{
    unsigned from = (unsigned)below(m, DATASETS), k = (unsigned)below(m, SNAPSHOTS);
    char origin[96];

    if (m->ds[i] || !m->ds[from] || !m->snap[from][k])
        return;
    snprintf(origin, sizeof origin, "%s@s%u", m->name[from], k);
    snprintf(m->name[i], sizeof m->name[i], "tank/c%u", m->next++);
    assert_int_equal(dataset_clone(m->p.dsl, origin, m->name[i], NULL, 0), 0);
    m->ds[i] = hold(&m->p, m->name[i]);
    /* Objects of the origin may be gone from the snapshot: the clone begins with none that are known. */
    memset(m->object[i], 0, sizeof m->object[i]);
    forget_snapshots(m, i);
    m->origin[i][0] = (int)from;
    m->origin[i][1] = (int)k;
    m->clones[from][k]++;
}

/* Overwrites something that the dataset shares with its origin. */
static void op_overwrite(struct model *m, unsigned i)
{
    struct objset *os;
    uint64_t object = 1;

    if (!m->ds[i] || m->origin[i][0] < 0)
        return;
    assert_int_equal(dataset_objset(m->ds[i], &os), 0);
    for (uint64_t n = 1 + below(m, 6); n > 0; n--)
        if (objset_next_object(os, &object) != 0)
            return;
    if (below(m, 4))
        write_object(&m->p, m->ds[i], object, below(m, 1 << 20), 1 + below(m, 300000), true);
    else
        for (unsigned k = 0; k < OBJECTS; k++)
            if (m->object[i][k] == object)
                return;
    if (object > 1 && below(m, 4) == 0) {
        for (unsigned k = 0; k < OBJECTS; k++)
            if (m->object[i][k] == object)
                m->object[i][k] = 0;
        free_object(&m->p, m->ds[i], object);
    }
}

static void op_write(struct model *m, unsigned i)
{
    static const uint32_t blocks[] = {512, 4096, 131072, 262144};
    unsigned k = (unsigned)below(m, OBJECTS);

    if (!m->ds[i])
        return;
    if (!m->object[i][k]) {
        m->block[i][k] = blocks[below(m, 4)];
        m->object[i][k] = make_object(&m->p, m->ds[i], m->block[i][k]);
    }
    for (unsigned n = 0; n < 4; n++)
        write_object(&m->p, m->ds[i], m->object[i][k], below(m, 40) * m->block[i][k],
                     1 + below(m, 3 * m->block[i][k]), below(m, 2));
}

static void op_free(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, OBJECTS);

    if (!m->ds[i] || !m->object[i][k])
        return;
    free_object(&m->p, m->ds[i], m->object[i][k]);
    m->object[i][k] = 0;
}

static void op_snapshot(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, SNAPSHOTS);
    char name[96];

    if (!m->ds[i] || m->snap[i][k])
        return;
    snprintf(name, sizeof name, "%s@s%u", m->name[i], k);
    snapshot(&m->p, name);
    m->snap[i][k] = true;
    m->holds[i][k] = 0;
    m->deferred[i][k] = false;
    m->born[i][k] = ++m->taken;
}

static void destroy_snapshot(struct model *m, unsigned i, unsigned k)
{
    char name[96];
    const char *names = name;

    if (!m->ds[i] || !m->snap[i][k])
        return;
    snprintf(name, sizeof name, "%s@s%u", m->name[i], k);
    bool needed = m->clones[i][k] > 0 || m->holds[i][k] != 0, defer = below(m, 3) == 0;

    assert_int_equal(dataset_snapshot_destroy(m->p.dsl, &names, 1, defer),
                     !needed || defer  ? 0
                     : m->clones[i][k] ? -EEXIST
                                       : -EBUSY);
    m->snap[i][k] = needed;
    m->deferred[i][k] |= needed && defer;
}

/* The last hold or clone may have gone. */
static void deferred_destroy(struct model *m, unsigned i, unsigned k)
{
    if (m->deferred[i][k] && m->holds[i][k] == 0 && m->clones[i][k] == 0)
        m->snap[i][k] = false;
}

static void op_hold(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, SNAPSHOTS), tag = (unsigned)below(m, 3);
    char name[96], text[16];
    const char *names = name;
    bool has = m->holds[i][k] >> tag & 1;

    if (!m->ds[i] || !m->snap[i][k])
        return;
    snprintf(name, sizeof name, "%s@s%u", m->name[i], k);
    snprintf(text, sizeof text, "tag%u", tag);
    if (below(m, 2)) {
        assert_int_equal(dataset_userref_add(m->p.dsl, &names, 1, text), has ? -EEXIST : 0);
        m->holds[i][k] |= 1u << tag;
    } else {
        assert_int_equal(dataset_userref_remove(m->p.dsl, &names, 1, text), has ? 0 : -ESRCH);
        m->holds[i][k] &= ~(1u << tag);
        if (has)
            deferred_destroy(m, i, k);
    }
}

/* Of a snapshot of its own, or of another bookmark; or one goes. */
static void op_bookmark(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, SNAPSHOTS), b = (unsigned)below(m, MARKS), from = (unsigned)below(m, MARKS);
    char name[96], source[96];
    const char *names = name;

    if (!m->ds[i])
        return;
    if (m->mark[i][b]) {
        snprintf(name, sizeof name, "%s#m%u", m->name[i], m->mark[i][b]);
        assert_int_equal(bookmark_destroy(m->p.dsl, &names, 1), 0);
        m->mark[i][b] = 0;
        return;
    }
    snprintf(name, sizeof name, "%s#m%u", m->name[i], m->next + 1);
    if (m->snap[i][k])
        snprintf(source, sizeof source, "%s@s%u", m->name[i], k);
    else if (m->mark[i][from])
        snprintf(source, sizeof source, "%s#m%u", m->name[i], m->mark[i][from]);
    else
        return;
    assert_int_equal(bookmark_create(m->p.dsl, name, source), 0);
    m->mark[i][b] = ++m->next;
    m->mark_born[i][b] = m->snap[i][k] ? m->born[i][k] : m->mark_born[i][from];
}

static void op_destroy(struct model *m, unsigned i)
{
    int want = 0, rc;

    if (!m->ds[i])
        return;
    for (unsigned k = 0; k < SNAPSHOTS; k++)
        if (m->snap[i][k])
            want = -EEXIST;
    if (has_children(m, i))
        want = -EEXIST;
    rc = dataset_destroy(m->p.dsl, m->name[i]);
    assert_int_equal(rc, want);
    if (rc != 0)
        return;
    dataset_rele(m->ds[i]);
    m->ds[i] = NULL;
    if (m->origin[i][0] >= 0) {
        m->clones[m->origin[i][0]][m->origin[i][1]]--;
        deferred_destroy(m, (unsigned)m->origin[i][0], (unsigned)m->origin[i][1]);
    }
    m->origin[i][0] = -1;
}

static void op_rollback(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, SNAPSHOTS);
    bool newest = true;
    char name[96];

    if (!m->ds[i] || !m->snap[i][k])
        return;
    for (unsigned n = 0; n < SNAPSHOTS; n++)
        if (m->snap[i][n] && m->born[i][n] > m->born[i][k])
            newest = false;
    for (unsigned n = 0; n < MARKS; n++)
        if (m->mark[i][n] && m->mark_born[i][n] > m->born[i][k])
            newest = false;
    snprintf(name, sizeof name, "%s@s%u", m->name[i], k);
    assert_int_equal(dataset_rollback(m->p.dsl, name), newest ? 0 : -EEXIST);
    if (newest)
        memset(m->object[i], 0, sizeof m->object[i]);
}

static void move_bookmarks(struct model *m, unsigned from, unsigned upto, unsigned to)
{
    const char *names;
    char name[96];

    for (unsigned b = 0; b < MARKS; b++) {
        unsigned n = 0;

        if (!m->mark[from][b] || m->mark_born[from][b] > upto)
            continue;
        while (n < MARKS && m->mark[to][n])
            n++;
        if (n < MARKS) {
            m->mark[to][n] = m->mark[from][b];
            m->mark_born[to][n] = m->mark_born[from][b];
        } else { /* more than the model keeps */
            snprintf(name, sizeof name, "%s#m%u", m->name[to], m->mark[from][b]);
            names = name;
            assert_int_equal(bookmark_destroy(m->p.dsl, &names, 1), 0);
        }
        m->mark[from][b] = 0;
    }
}

/* Snapshots of a dataset up to one go to another dataset, with all that is known of them. */
static void move_snapshots(struct model *m, unsigned from, unsigned last, unsigned to)
{
    unsigned upto = m->born[from][last];

    move_bookmarks(m, from, upto, to);
    for (unsigned k = 0; k < SNAPSHOTS; k++) {
        if (!m->snap[from][k] || m->born[from][k] > upto)
            continue;
        m->snap[to][k] = true;
        m->born[to][k] = m->born[from][k];
        m->clones[to][k] = m->clones[from][k];
        m->holds[to][k] = m->holds[from][k];
        m->deferred[to][k] = m->deferred[from][k];
        m->snap[from][k] = false;
        m->clones[from][k] = 0;
        for (unsigned i = 0; i < DATASETS; i++)
            if (m->origin[i][0] == (int)from && m->origin[i][1] == (int)k)
                m->origin[i][0] = (int)to;
    }
}

static void op_promote(struct model *m, unsigned i)
{
    int from = m->origin[i][0], k = m->origin[i][1], want = 0, old[2];

    if (!m->ds[i])
        return;
    for (unsigned n = 0; from >= 0 && n < SNAPSHOTS; n++)
        if (m->snap[from][n] && m->born[from][n] <= m->born[from][k] && m->snap[i][n])
            want = -EEXIST;
    assert_int_equal(dataset_promote(m->p.dsl, m->name[i], 0), from < 0 ? -EINVAL : want);
    if (from < 0 || want != 0)
        return;
    memcpy(old, m->origin[from], sizeof old);
    move_snapshots(m, (unsigned)from, (unsigned)k, i);
    memcpy(m->origin[i], old, sizeof old);
    m->origin[from][0] = (int)i;
    m->origin[from][1] = k;
}

static void op_rename(struct model *m, unsigned i)
{
    unsigned parent = (unsigned)below(m, DATASETS);
    char up[64] = "tank", name[64], below_it[64];
    size_t n = strlen(m->name[i]);
    bool inside;

    if (!m->ds[i])
        return;
    if (m->ds[parent] && strlen(m->name[parent]) < 16 && below(m, 3))
        strcpy(up, m->name[parent]);
    inside = strncmp(up, m->name[i], n) == 0 && (up[n] == 0 || up[n] == '/');
    snprintf(name, sizeof name, "%.40s/r%u", up, m->next++);
    assert_int_equal(dataset_rename(m->p.dsl, m->name[i], name, 0), inside ? -EINVAL : 0);
    for (unsigned k = 0; k < DATASETS && !inside; k++) {
        if (!m->ds[k] || k == i || strncmp(m->name[k], m->name[i], n) != 0 || m->name[k][n] != '/')
            continue;
        snprintf(below_it, sizeof below_it, "%.30s%.30s", name, m->name[k] + n);
        strcpy(m->name[k], below_it);
    }
    if (!inside)
        strcpy(m->name[i], name);
}

static void op_rename_snapshot(struct model *m, unsigned i)
{
    unsigned k = (unsigned)below(m, SNAPSHOTS), to = (unsigned)below(m, SNAPSHOTS);
    char a[16], b[16];

    if (!m->ds[i] || !m->snap[i][k])
        return;
    snprintf(a, sizeof a, "s%u", k);
    snprintf(b, sizeof b, "s%u", to);
    assert_int_equal(dataset_snapshot_rename(m->p.dsl, m->name[i], a, b, false),
                     m->snap[i][to] ? -EEXIST : 0);
    if (m->snap[i][to])
        return;
    m->snap[i][to] = true;
    m->born[i][to] = m->born[i][k];
    m->clones[i][to] = m->clones[i][k];
    m->holds[i][to] = m->holds[i][k];
    m->deferred[i][to] = m->deferred[i][k];
    m->snap[i][k] = false;
    m->clones[i][k] = 0;
    for (unsigned n = 0; n < DATASETS; n++)
        if (m->origin[n][0] == (int)i && m->origin[n][1] == (int)k)
            m->origin[n][1] = (int)to;
}

static void op_property(struct model *m, unsigned i)
{
    static const char *const names[] = {"reservation", "refreservation", "compression", "recordsize",
                                        "org.example:note", "copies", "checksum"};
    static const char *const values[][3] = {{"none", "300K", "2M"}, {"none", "100K", "3M"},
                                            {"off", "lz4", "zstd-3"}, {"4K", "128K", "1M"},
                                            {"a", "bb", "ccc"}, {"1", "2", "3"},
                                            {"on", "sha256", "sha512"}};
    unsigned k = (unsigned)below(m, 7);

    if (m->ds[i])
        set_prop(&m->p, m->name[i], names[k], values[k][below(m, 3)]);
}

/* Everything in memory goes; datasets are held again by name. */
static void op_reopen(struct model *m)
{
    for (unsigned i = 0; i < DATASETS; i++)
        if (m->ds[i])
            dataset_rele(m->ds[i]);
    dsl_test_reopen(&m->p);
    for (unsigned i = 0; i < DATASETS; i++)
        if (m->ds[i])
            m->ds[i] = hold(&m->p, m->name[i]);
}

static void op_move(struct model *m, unsigned i)
{
    unsigned what = (unsigned)below(m, 10);

    if (what < 4)
        op_rollback(m, i);
    else if (what < 7)
        op_promote(m, i);
    else if (what < 9)
        op_rename(m, i);
    else
        op_rename_snapshot(m, i);
}

static void step(struct model *m)
{
    unsigned i = (unsigned)below(m, DATASETS), what = (unsigned)below(m, 100);

    if (what < 10)
        op_create(m, i);
    else if (what < 16)
        op_clone(m, i);
    else if (what < 22)
        op_overwrite(m, i);
    else if (what < 34)
        op_move(m, i);
    else if (what < 55)
        op_write(m, i);
    else if (what < 62)
        op_free(m, i);
    else if (what < 72)
        op_snapshot(m, i);
    else if (what < 75)
        op_hold(m, i);
    else if (what < 79)
        op_bookmark(m, i);
    else if (what < 87)
        destroy_snapshot(m, i, (unsigned)below(m, SNAPSHOTS));
    else if (what < 90)
        op_destroy(m, i);
    else if (what < 97)
        op_property(m, i);
    else if (what < 98)
        m->p.dsl->free_limit = below(m, 4) ? 1 + below(m, 60) : FREE_LIMIT;
    else if (what < 99)
        op_reopen(m);
    else
        m->p.hold_frees = !m->p.hold_frees;
}

static void destroy_all(struct model *m)
{
    m->p.hold_frees = false;
    m->p.dsl->free_limit = 100;
    for (unsigned n = 0; n < 40 * DATASETS; n++) {
        /* A clone above its origin can only be parted from it by promotion. */
        if (n > DATASETS)
            op_promote(m, (unsigned)below(m, DATASETS));
        for (unsigned k = 0; k < 40; k++)
            op_hold(m, (unsigned)below(m, DATASETS));
        for (unsigned i = 0; i < DATASETS; i++)
            for (unsigned k = 0; k < SNAPSHOTS; k++)
                destroy_snapshot(m, i, k);
        for (unsigned i = 0; i < DATASETS; i++)
            op_destroy(m, i);
    }
    for (unsigned i = 0; i < DATASETS; i++)
        assert_null(m->ds[i]);
    do
        wait_txg(&m->p);
    while (dsl_freeing(m->p.dsl) > 0);
}

static void run(unsigned ashift, unsigned steps, const bool *features)
{
    static struct model m;
    struct dataset *root;
    struct dataset_stats st;

    memset(&m, 0, sizeof m);
    memset(m.origin, -1, sizeof m.origin);
    dsl_test_new(&m.p, 512 << 20, ashift, features);
    for (unsigned i = 0; i < steps; i++)
        step(&m);
    destroy_all(&m);
    root = hold(&m.p, "tank");
    assert_int_equal(dataset_stats(root, &st), 0);
    assert_int_equal(st.used_by_dataset + st.used_by_children, st.used);
    assert_true(st.used < 400 << 10);
    dataset_rele(root);
    dsl_test_free(&m.p);
}

static unsigned steps(void)
{
    const char *text = getenv("TARN_STEPS");

    return text ? (unsigned)atoi(text) : 250;
}

static void random_small_sectors(void **state)
{
    run(9, steps(), NULL);
}

static void random_large_sectors(void **state)
{
    run(12, steps(), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_small_sectors),
        cmocka_unit_test(random_large_sectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
