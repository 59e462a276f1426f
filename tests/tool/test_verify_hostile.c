/* Pools made to lead verify astray: numbers that promise more than there is, and trees without an
 * end. It has to say so, and to come to an end. */
#include "verify_test.h"

#include <errno.h>

#include "dmu/dnode.h"
#include "spa/spa_impl.h"
#include "vdev/vdev.h"

#define FAR_TOO_MANY (1ull << 40)
#define DIRS         400

/* An object with these words in its bonus. */
static int make(struct dsl *dsl, uint8_t type, uint8_t bonus_type, const uint64_t *words, size_t n,
                struct tx *tx, uint64_t *object)
{
    struct object_params params = {
        .type = type, .bonus_type = bonus_type, .bonus_len = (uint16_t)(8 * n)};
    struct dnode *dn;
    int rc = object_create(dsl->mos, 0, &params, tx, &dn);
    if (rc)
        return rc;
    *object = dnode_object(dn);
    rc = dnode_bonus_patch(dn, 0, words, 8 * n, tx);
    dnode_rele(dn);
    return rc;
}

static int make_table(struct dsl *dsl, uint64_t value, struct tx *tx, uint64_t *object)
{
    int rc = zap_create_simple(dsl->mos, OT_OTHER_ZAP, 0, tx, object);
    return rc ? rc : zap_add_u64(dsl->mos, *object, "1", value, tx);
}

/* The list of a destroyed clone. */
static int add_list(struct dsl *dsl, const uint64_t words[7], struct tx *tx)
{
    uint64_t list, table, clones;
    int rc = make(dsl, OT_BPOBJ, OT_BPOBJ_HDR, words, 7, tx, &list);
    rc = rc ? rc : make_table(dsl, list, tx, &table);
    rc = rc ? rc : make_table(dsl, table, tx, &clones);
    return rc ? rc : zap_add_u64(dsl->mos, MOS_DIRECTORY, "com.delphix:deleted_clones", clones, tx);
}

static int long_list(struct dsl *dsl, void *arg, struct tx *tx)
{
    return add_list(dsl, (const uint64_t[7]){FAR_TOO_MANY}, tx);
}

static int holes_in_a_list(struct dsl *dsl, void *arg, struct tx *tx)
{
    return add_list(dsl, (const uint64_t[7]){1}, tx);
}

static int add_subs(struct dsl *dsl, uint64_t n, struct tx *tx)
{
    uint64_t subs;
    int rc = make(dsl, OT_BPOBJ_SUBOBJ, 0, NULL, 0, tx, &subs);
    return rc ? rc : add_list(dsl, (const uint64_t[7]){0, 0, 0, 0, subs, n}, tx);
}

static int many_subs(struct dsl *dsl, void *arg, struct tx *tx)
{
    return add_subs(dsl, FAR_TOO_MANY, tx);
}

static int subs_without_number(struct dsl *dsl, void *arg, struct tx *tx)
{
    return add_subs(dsl, 1, tx);
}

static int long_tree(struct dsl *dsl, void *arg, struct tx *tx)
{
    const uint64_t words[5] = {0, FAR_TOO_MANY};
    uint64_t object;
    int rc = make(dsl, OT_UINT64_METADATA, OT_UINT64_METADATA, words, 5, tx, &object);
    return rc ? rc : zap_add_u64(dsl->mos, MOS_DIRECTORY, "bptree_obj", object, tx);
}

static int long_space_map(struct dsl *dsl, void *arg, struct tx *tx)
{
    const uint64_t words[3] = {0, FAR_TOO_MANY};
    uint64_t object, table = dsl->pool->root->child[0]->zap_top;
    int rc = make(dsl, OT_SPACE_MAP, OT_SPACE_MAP_HEADER, words, 3, tx, &object);
    return rc ? rc : zap_add_u64(dsl->mos, table, "com.delphix:pool_checkpoint_sm", object, tx);
}

static int deep_tree(struct dsl *dsl, void *arg, struct tx *tx)
{
    uint64_t root, below = 0, words[32] = {0};
    struct dnode *dn;
    size_t len;
    int rc = zap_get_u64(dsl->mos, MOS_DIRECTORY, "root_dataset", &root);
    for (int i = 0; i < DIRS && rc == 0; i++) {
        uint64_t children = 0;
        if (below)
            rc = make_table(dsl, below, tx, &children);
        words[4] = children;
        rc = rc ? rc : make(dsl, OT_DSL_DIR, OT_DSL_DIR, words, 32, tx, &below);
    }
    rc = rc ? rc : dnode_hold(dsl->mos, root, &dn);
    if (rc)
        return rc;
    rc = dnode_bonus_get(dn, words, sizeof words, &len);
    dnode_rele(dn);
    return rc && rc != -ERANGE ? rc : zap_add_u64(dsl->mos, words[4], "deep", below, tx);
}

static void told(dsl_task_fn *wrong, const char *text)
{
    struct spa *spa = create();
    assert_ok(dsl_task(spa_dsl(spa), nothing, wrong, NULL, DSL_SPACE_NONE));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    assert_int_equal(verify(said, sizeof said), 1);
    if (!strstr(said, text))
        fail_msg("%s", said);
}

static void lists(void **state)
{
    told(long_list, "too small for them");
    told(holes_in_a_list, "entry 0 is no block");
    told(many_subs, "too small for them");
    told(subs_without_number, "a list below it has no number");
    told(long_tree, "too small for them");
    told(long_space_map, "the checkpoint's space map of vdev 0: it is to have");
}

static void directories(void **state)
{
    told(deep_tree, "nested too deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(directories),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
