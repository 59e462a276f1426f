/*
 * Any bytes as an object's attributes. Input: a byte of flags (1: an old znode, 2: there is a spill
 * block), a byte that says how much is bonus (times two), the bonus, the rest is the spill block.
 * What can be read is written again and must then read the same.
 */
#include "../dmu/fake_dnode.h"
#include "dmu/zap.h"
#include "fs/sa_impl.h"
#include "fuzz.h"

static struct dnode *object(struct objset *os, const uint8_t *data, size_t n, struct tx *tx)
{
    struct object_params params = {.type = OT_PLAIN_FILE, .dnode_size = 1024};
    struct dnode *dn;
    size_t bonus = MIN(2u * data[1], n - 2);
    if (object_create(os, 0, &params, tx, &dn) < 0)
        abort();
    dnode_bonus_set(dn, data + 2, bonus, data[0] & 1 ? OT_ZNODE : OT_SA, tx);
    if (data[0] & 2 && n > 2 + bonus)
        dnode_spill_set(dn, data + 2 + bonus, n - 2 - bonus, tx);
    return dn;
}

static void compare(const struct sa_set *a, const struct sa_set *b)
{
    for (unsigned i = 0; i < a->n; i++) {
        unsigned k = 0;
        while (k < b->n && (b->v[k].attr != a->v[i].attr || b->v[k].length != a->v[i].length ||
                            memcmp(b->v[k].data, a->v[i].data, a->v[i].length) != 0))
            k++;
        if (k == b->n)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct tx tx = {0};
    struct sa_table t;
    struct sa_set first, again;
    uint64_t master;
    if (n < 3 || n > 140000)
        return 0;
    struct objset *os = fake_objset(1);
    if (zap_create_simple(os, OT_SA_MASTER, 0, &tx, &master) < 0 ||
        sa_table_open(&t, os, master) < 0 || sa_table_complete(&t, &tx) < 0)
        abort();
    /* The reference's layouts 2 to 8 (06 18.8). */
    static const uint16_t layouts[][17] = {
        {15, 5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19},
        {14, 5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19},
        {15, 5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19, 17},
        {1, 17},
        {15, 5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 10, 16, 19},
        {16, 5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20},
        {1, 20}};
    for (unsigned i = 0; i < ARRAY_LEN(layouts); i++) {
        unsigned number;
        sa_layout_number(&t, layouts[i] + 1, layouts[i][0], &number, &tx);
    }
    struct dnode *dn = object(os, data, n, &tx);
    if (sa_read(&t, dn, &first) == 0 && sa_write(&t, dn, &first, &tx) == 0) {
        if (sa_read(&t, dn, &again) < 0)
            abort();
        compare(&first, &again);
        sa_set_clear(&again);
    }
    sa_set_clear(&first);
    dnode_rele(dn);
    sa_table_close(&t);
    fake_objset_free(os);
    return 0;
}
