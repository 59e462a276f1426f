/* Threads that write, look and administrate at the same time, with all books checked after each txg. */
#include "dsl_test.h"

#include <pthread.h>
#include <unistd.h>

#include "util/err.h"

static struct dsl_test p;
static _Atomic bool stop;

struct worker {
    pthread_t thread;
    unsigned id;
    unsigned steps;
};

/* cmocka's own checks work in the main thread only. */
static void must(int rc, int line)
{
    if (rc == 0)
        return;
    fprintf(stderr, "line %d: %s\n", line, err_text(rc));
    abort();
}

/* ---- One dataset and its writer each ---- */

static void *writer(void *arg)
{
    struct worker *w = arg;
    struct dataset *ds;
    unsigned char block[20000];
    struct objset *os;
    char name[64];

    snprintf(name, sizeof name, "tank/w%u", w->id);
    ds = hold(&p, name);
    must(dataset_objset(ds, &os), __LINE__);
    uint64_t object = make_object(&p, ds, 4096);
    for (unsigned i = 0; i < w->steps; i++) {
        struct dnode *dn;
        struct tx tx;

        memset(block, (int)(i + w->id), sizeof block);
        for (unsigned k = 0; k < sizeof block; k += 32)
            block[k] = (unsigned char)(k * i);
        must(dataset_tx_begin(ds, DATASET_TX_WRITE, sizeof block, &tx), __LINE__);
        must(dnode_hold(os, object, &dn), __LINE__);
        must(dnode_write(dn, i % 50 * 4096, block, sizeof block, &tx), __LINE__);
        dnode_rele(dn);
        dataset_tx_end(&tx);
    }
    dataset_rele(ds);
    return NULL;
}

/* ---- Snapshots and properties ---- */

static void *administrator(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i < w->steps / 20; i++) {
        char name[96], old[96], ds[32];
        const char *names[1] = {old};

        snprintf(ds, sizeof ds, "tank/w%u", i % 3);
        snprintf(name, sizeof name, "%s@%u", ds, i);
        snapshot(&p, name);
        set_prop(&p, ds, "compression", i & 1 ? "off" : "lz4");
        if (i >= 6) {
            snprintf(old, sizeof old, "%s@%u", ds, i - 6);
            must(dataset_snapshot_destroy(p.dsl, names, 1, false), __LINE__);
        }
    }
    return NULL;
}

static void *creator(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i < w->steps / 40; i++) {
        char name[64];

        snprintf(name, sizeof name, "tank/c%u", i);
        must(dataset_create(p.dsl, name, NULL, 0, 0), __LINE__);
        if (i & 1)
            must(dataset_destroy(p.dsl, name), __LINE__);
    }
    return NULL;
}

/* ---- Readers ---- */

static int look(void *arg, struct dataset *ds)
{
    struct dataset_stats st;
    struct prop_value v;
    uint64_t a, b, c;

    int rc = dataset_stats(ds, &st);
    if (rc == -ENOENT) /* destroyed while we look */
        return 0;
    must(rc, __LINE__);
    dataset_space(ds, &a, &b, &c);
    if (prop_get(ds, "compression", &v) == 0)
        prop_value_clear(&v);
    return 0;
}

static void *reader(void *arg)
{
    while (!stop)
        must(dataset_each(p.dsl, "tank", -1, true, look, NULL), __LINE__);
    return NULL;
}

static void all_at_once(void **state)
{
    const char *text = getenv("TARN_STEPS");
    unsigned steps = text ? (unsigned)atoi(text) : 400;
    struct worker w[3] = {{.id = 0}, {.id = 1}, {.id = 2}}, admin = {.steps = steps},
                  create = {.steps = steps}, look1 = {.id = 0};

    dsl_test_new(&p, 512 << 20, 12, NULL);
    for (unsigned i = 0; i < 3; i++) {
        char name[64];

        snprintf(name, sizeof name, "tank/w%u", i);
        assert_int_equal(dataset_create(p.dsl, name, NULL, 0, 0), 0);
    }
    pthread_create(&look1.thread, NULL, reader, &look1);
    for (unsigned i = 0; i < 3; i++) {
        w[i].steps = steps;
        pthread_create(&w[i].thread, NULL, writer, &w[i]);
    }
    pthread_create(&admin.thread, NULL, administrator, &admin);
    pthread_create(&create.thread, NULL, creator, &create);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(w[i].thread, NULL);
    pthread_join(admin.thread, NULL);
    pthread_join(create.thread, NULL);
    stop = true;
    pthread_join(look1.thread, NULL);
    wait_txg(&p);
    check_books(&p);
    dsl_test_reopen(&p);
    check_books(&p);
    dsl_test_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
