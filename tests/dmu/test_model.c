/*
 * Random operations by several threads on objects of a set, beside the thread that syncs, compared
 * with a model in memory; after each sync the independent reader checks the devices. Every now and
 * then everything is closed and opened again. Each thread has objects of its own.
 */
#include <pthread.h>

#include "dmu_test.h"

#define WINDOW  (768u << 10) /* bytes of an object that are written to */
#define OBJECTS 6            /* per thread */
#define THREADS 3
#define SA_LEN  168

struct model {
    uint64_t object; /* 0: none */
    uint64_t base;   /* offset of the window */
    uint32_t block_size;
    bool small;      /* only one block, any size */
    unsigned char *data;
    unsigned char bonus[320];
    size_t bonus_len;
    unsigned char spill[2048];
    size_t spill_len;
};

struct worker {
    struct dmu_pool *p;
    struct objset *os;
    struct env env;
    struct model objects[OBJECTS];
    unsigned ops;
    pthread_t thread;
};

static bool taken[1 << 16]; /* by object: numbers must not be given out twice */

static uint64_t below(struct worker *w, uint64_t n)
{
    return test_below(&w->env, n);
}

static uint64_t window(const struct model *m)
{
    return m->small ? m->block_size : WINDOW;
}

static void fill(struct worker *w, unsigned char *p, size_t n)
{
    uint64_t r = w->env.random(&w->env);

    if (r % 8 == 0) {
        memset(p, 0, n);
    } else if (r % 8 < 5) {
        for (size_t i = 0; i < n; i++)
            p[i] = (unsigned char)(r >> (i & 3));
    } else {
        for (size_t i = 0; i < n; i++)
            p[i] = (unsigned char)((r = r * 6364136223846793005ull + 1442695040888963407ull) >> 56);
    }
}

static void put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, 8);
}

static void new_bonus(struct worker *w, struct model *m, size_t len)
{
    memset(m->bonus, 0, sizeof m->bonus);
    for (size_t i = 8; i < len; i++)
        m->bonus[i] = (unsigned char)w->env.random(&w->env);
    memcpy(m->bonus, "\x5a\x50\x2f\0\2\4\0\0", 8);
    put64(m->bonus + 8 + 24, below(w, 4));
    put64(m->bonus + 8 + 32, 100 + below(w, 3));
    put64(m->bonus + 8 + 48, below(w, 2) << 47);
    put64(m->bonus + 8 + 128, below(w, 3));
    m->bonus_len = len;
}

static void create(struct worker *w, struct model *m, struct tx *tx)
{
    static const uint32_t sizes[] = {512, 1024, 4096, 16384, 131072};
    struct object_params params = {.type = OT_PLAIN_FILE, .bonus_type = OT_SA, .bonus_len = SA_LEN};
    struct dnode *dn;

    m->small = below(w, 4) == 0;
    m->block_size = m->small ? 512 * (uint32_t)(1 + below(w, 40)) : sizes[below(w, 5)];
    m->base = m->small || below(w, 2) ? 0 : below(w, 1 << 20) * 3000000;
    m->base -= m->base % m->block_size;
    m->spill_len = 0;
    memset(m->data, 0, WINDOW);
    params.block_size = m->block_size;
    params.dnode_size = below(w, 3) ? 512 : 1024;
    if (below(w, 4) == 0)
        params.indirect_shift = 12;
    new_bonus(w, m, SA_LEN);
    assert_int_equal(object_create(w->os, 0, &params, tx, &dn), 0);
    m->object = dnode_object(dn);
    assert_false(__atomic_exchange_n(&taken[m->object], true, __ATOMIC_SEQ_CST));
    assert_int_equal(dnode_bonus_set(dn, m->bonus, SA_LEN, 0, tx), 0);
    dnode_rele(dn);
}

static void do_write(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    uint64_t max = below(w, 4) ? 20000 : 300000, off = below(w, window(m));
    size_t n = 1 + below(w, MIN(max, window(m) - off));

    if (below(w, 3) == 0 && !m->small) { /* whole blocks */
        off -= off % m->block_size;
        n = P2_ROUND_UP(n, (size_t)m->block_size);
        n = MIN(n, window(m) - off);
    }
    fill(w, m->data + off, n);
    assert_int_equal(dnode_write(dn, m->base + off, m->data + off, n, tx), 0);
}

static void do_free(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    uint64_t off = below(w, window(m)), n = 1 + below(w, window(m) - off);

    if (below(w, 2)) {
        off = below(w, 4) ? off : 0;
        memset(m->data + off, 0, WINDOW - off);
        assert_int_equal(dnode_free_range(dn, off ? m->base + off : 0, UINT64_MAX, tx), 0);
    } else {
        memset(m->data + off, 0, n);
        assert_int_equal(dnode_free_range(dn, m->base + off, n, tx), 0);
    }
}

static void do_bonus(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    size_t off = 8 + 24 + 8 * below(w, 2), most = dnode_bonus_capacity(dn, m->spill_len > 0);

    if (below(w, 3)) {
        put64(m->bonus + off, below(w, 5) + (off == 40 ? 100 : 0));
        assert_int_equal(dnode_bonus_patch(dn, off, m->bonus + off, 8, tx), 0);
    } else {
        most = MIN(most, sizeof m->bonus);
        new_bonus(w, m, SA_LEN + below(w, most - SA_LEN + 1));
        assert_int_equal(dnode_bonus_set(dn, m->bonus, m->bonus_len, 0, tx), 0);
    }
}

static void do_spill(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    if (m->spill_len && below(w, 2)) {
        m->spill_len = 0;
    } else if (m->bonus_len > dnode_bonus_capacity(dn, true)) {
        assert_int_equal(dnode_spill_set(dn, m->data, 10, tx), -E2BIG);
        return;
    } else {
        m->spill_len = 512 * (1 + below(w, 4));
        fill(w, m->spill, m->spill_len);
        m->spill[0] = 1;
    }
    assert_int_equal(dnode_spill_set(dn, m->spill, m->spill_len, tx), 0);
}

static void do_block(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    uint64_t off = below(w, window(m)), blk = (m->base + off) / m->block_size;
    struct dbuf *db;

    off -= off % m->block_size;
    assert_int_equal(dbuf_hold(dn, blk, 0, &db), 0);
    assert_int_equal(dbuf_size(db), m->block_size);
    assert_memory_equal(dbuf_data(db), m->data + off, m->block_size);
    assert_int_equal(dbuf_dirty(db, tx), 0);
    fill(w, m->data + off, m->block_size);
    memcpy(dbuf_data(db), m->data + off, m->block_size);
    dbuf_rele(db);
}

static void do_resize(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    uint32_t size = 512 * (uint32_t)(1 + below(w, 40));

    if (!m->small)
        return;
    if (size < m->block_size)
        memset(m->data + size, 0, m->block_size - size);
    m->block_size = size;
    assert_int_equal(dnode_set_block_size(dn, size, 0, tx), 0);
}

/* What is said to be a hole has no bytes but zeros. */
static void check_holes(struct model *m, struct dnode *dn)
{
    uint64_t pos = m->base, end = m->base + window(m);

    while (pos < end) {
        uint64_t data = pos, hole;
        int rc = dnode_seek(dn, &data, false);
        if (rc == -ENXIO)
            data = end;
        else
            assert_int_equal(rc, 0);
        data = MIN(data, end);
        assert_true(buf_is_zero(m->data + (pos - m->base), data - pos));
        if (data == end)
            break;
        hole = data;
        rc = dnode_seek(dn, &hole, true);
        assert_true(rc == 0 || rc == -ENXIO);
        assert_true(hole >= data);
        if (hole == data) { /* zeros that have just been written, as a hole */
            hole = MIN(ROUND_DOWN(data, m->block_size) + m->block_size, end);
            assert_true(buf_is_zero(m->data + (data - m->base), hole - data));
        }
        pos = hole;
    }
}

static void expect_same(struct model *m, struct dnode *dn, const unsigned char *got)
{
    uint64_t i = 0;

    while (i < window(m) && got[i] == m->data[i])
        i++;
    if (i < window(m))
        fail_msg("object %llu, block %llu + %llu (of %u, base %llu): %02x instead of %02x, max %llu",
                 (unsigned long long)m->object, (unsigned long long)((m->base + i) / m->block_size),
                 (unsigned long long)((m->base + i) % m->block_size), m->block_size,
                 (unsigned long long)m->base, got[i], m->data[i],
                 (unsigned long long)dnode_max_blkid(dn));
}

static void compare(struct worker *w, struct model *m, struct dnode *dn)
{
    unsigned char *got = malloc(WINDOW), *spill;
    size_t len;

    assert_int_equal(dnode_block_size(dn), m->block_size);
    assert_int_equal(dnode_read(dn, m->base, got, window(m)), 0);
    expect_same(m, dn, got);
    assert_int_equal(dnode_bonus_get(dn, got, WINDOW, &len), 0);
    assert_int_equal(len, m->bonus_len);
    assert_memory_equal(got, m->bonus, len);
    assert_int_equal(dnode_spill_get(dn, &spill, &len), 0);
    assert_int_equal(len, m->spill_len);
    assert_memory_equal(spill ? spill : got, m->spill, len);
    check_holes(m, dn);
    free(spill);
    free(got);
}

static void one_op(struct worker *w, struct model *m, struct dnode *dn, struct tx *tx)
{
    switch (below(w, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        do_write(w, m, dn, tx);
        break;
    case 4:
        do_free(w, m, dn, tx);
        break;
    case 5:
    case 6:
        do_bonus(w, m, dn, tx);
        break;
    case 7:
        do_spill(w, m, dn, tx);
        break;
    case 8:
        do_block(w, m, dn, tx);
        break;
    case 9:
        do_resize(w, m, dn, tx);
        break;
    case 10:
        compare(w, m, dn);
        break;
    default:
        if (below(w, 3) == 0) {
            __atomic_store_n(&taken[m->object], false, __ATOMIC_SEQ_CST);
            assert_int_equal(object_free(dn, tx), 0);
            m->object = 0;
        }
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i < w->ops; i++) {
        struct model *m = &w->objects[below(w, OBJECTS)];
        struct dnode *dn;
        struct tx tx;
        unsigned n = 1 + (unsigned)below(w, 3);
        assert_int_equal(tx_begin(&tx, &w->p->t.pool), 0);
        if (m->object == 0)
            create(w, m, &tx);
        assert_int_equal(dnode_hold(w->os, m->object, &dn), 0);
        while (n-- > 0 && m->object)
            one_op(w, m, dn, &tx);
        dnode_rele(dn);
        tx_end(&tx);
    }
    return NULL;
}

/* One thread, with operations of txg T + 1 before T is synced: repeats exactly. */
static void some_ops(struct worker *w, unsigned ops, uint64_t txg)
{
    struct tx tx = {.pool = &w->p->t.pool, .txg = txg};

    while (ops-- > 0) {
        struct model *m = &w->objects[below(w, OBJECTS)];
        struct dnode *dn;
        if (m->object == 0)
            create(w, m, &tx);
        assert_int_equal(dnode_hold(w->os, m->object, &dn), 0);
        one_op(w, m, dn, &tx);
        dnode_rele(dn);
    }
}

static unsigned count_objects(struct objset *os)
{
    uint64_t object = 0;
    unsigned n = 0;

    while (objset_next_object(os, &object) == 0)
        n++;
    return n;
}

static void compare_all(struct worker *workers)
{
    unsigned n = 0;

    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            struct model *m = &workers[t].objects[i];
            struct dnode *dn;
            if (m->object == 0)
                continue;
            n++;
            assert_int_equal(dnode_hold(workers[t].os, m->object, &dn), 0);
            compare(&workers[t], m, dn);
            dnode_rele(dn);
        }
    }
    assert_int_equal(count_objects(workers[0].os), n);
}

static void run_model(const struct objset_props *props, uint64_t cache_limit, unsigned rounds,
                      unsigned ops)
{
    struct worker workers[THREADS];
    struct env env = test_env();
    struct dmu_pool p;

    dmu_pool_new(&p);
    p.t.pool.cache_limit = cache_limit;
    add_set(&p, OBJSET_ZPL, 7, props);
    memset(workers, 0, sizeof workers);
    memset(taken, 0, sizeof taken);
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.p = &p, .ops = ops};
        env_init_seeded(&workers[t].env, env.random(&env));
        for (unsigned i = 0; i < OBJECTS; i++)
            workers[t].objects[i].data = calloc(1, WINDOW);
    }
    assert_int_equal(txg_engine_start(p.t.pool.txg), 0);
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned t = 0; t < THREADS; t++) {
            workers[t].os = p.sets[0];
            pthread_create(&workers[t].thread, NULL, work, &workers[t]);
        }
        for (unsigned t = 0; t < THREADS; t++)
            pthread_join(workers[t].thread, NULL);
        compare_all(workers);
        assert_int_equal(txg_wait_synced(p.t.pool.txg, 0), 0);
        compare_all(workers);
        reopen(&p);
        for (unsigned t = 0; t < THREADS; t++)
            workers[t].os = p.sets[0];
        compare_all(workers);
    }
    txg_engine_stop(p.t.pool.txg);
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < OBJECTS; i++)
            free(workers[t].objects[i].data);
    dmu_pool_free(&p);
}

static void run_alone(uint64_t cache_limit, unsigned syncs)
{
    struct worker w;
    struct dmu_pool p;

    dmu_pool_new(&p);
    p.t.pool.cache_limit = cache_limit;
    add_set(&p, OBJSET_ZPL, 7, &test_props);
    memset(taken, 0, sizeof taken);
    w = (struct worker){.p = &p, .os = p.sets[0], .env = test_env()};
    for (unsigned i = 0; i < OBJECTS; i++)
        w.objects[i].data = calloc(1, WINDOW);
    for (unsigned i = 0; i < syncs; i++) {
        some_ops(&w, (unsigned)below(&w, 10), p.txg);
        some_ops(&w, (unsigned)below(&w, 6), p.txg + 1);
        sync_now(&p);
    }
    sync_now(&p);
    for (unsigned i = 0; i < OBJECTS; i++)
        free(w.objects[i].data);
    dmu_pool_free(&p);
}

static unsigned scale(void)
{
    const char *s = getenv("TARN_MODEL_SCALE");

    return s ? (unsigned)atoi(s) : 1;
}

static void test_alone(void **state)
{
    run_alone(64 << 20, 150 * scale());
    run_alone(1 << 20, 150 * scale());
}

static void test_compressed(void **state)
{
    run_model(&test_props, 64 << 20, 4 * scale(), 300);
}

static void test_plain(void **state)
{
    struct objset_props props = test_props;

    props.compress = COMPRESS_OFF;
    props.redundant_metadata = 1;
    run_model(&props, 64 << 20, 4 * scale(), 300);
}

/* Nearly nothing stays in memory. */
static void test_small_cache(void **state)
{
    run_model(&test_props, 1 << 20, 2 * scale(), 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_small_cache),
    };

    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure in any thread ends the program */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
