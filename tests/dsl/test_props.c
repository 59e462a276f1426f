/* Properties on a live pool: setting, inheriting, sources, effects. */
#include "dsl_test.h"

#include "util/err.h"

static struct dsl_test p;

static int setup(void **state)
{
    dsl_test_new(&p, 256 << 20, 12, NULL);
    assert_int_equal(dataset_create(p.dsl, "tank/a", NULL, 0, 0), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/a/b", NULL, 0, 0), 0);
    return 0;
}

static int teardown(void **state)
{
    dsl_test_free(&p);
    return 0;
}

static void check_prop(const char *name, const char *prop, const char *value, enum prop_source source,
                       const char *from)
{
    struct dataset *ds = hold(&p, name);
    const struct prop_info *info = prop_info(prop);
    struct prop_value v;
    char text[256];
    int rc = prop_get(ds, prop, &v);

    if (rc != 0)
        fail_msg("%s of %s: %s", prop, name, err_text(rc));
    if (info)
        prop_format(info, v.number, v.string, false, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", v.string);
    assert_string_equal(text, value);
    assert_int_equal(v.source, source);
    if (from)
        assert_string_equal(v.from, from);
    prop_value_clear(&v);
    dataset_rele(ds);
}

static void refuse(const char *ds, const char *name, const char *value, int err, const char *sentence)
{
    struct nvlist *l = nvlist_new();
    int rc;

    nvlist_add_string(l, name, value);
    rc = prop_set(p.dsl, ds, l);
    assert_int_equal(rc, -err);
    if (sentence)
        assert_string_equal(err_text(rc), sentence);
    nvlist_free(l);
}

static void inheritance_and_sources(void **state)
{
    check_prop("tank/a/b", "compression", "on", SOURCE_DEFAULT, NULL);
    set_prop(&p, "tank", "compression", "lz4");
    check_prop("tank", "compression", "lz4", SOURCE_LOCAL, NULL);
    check_prop("tank/a/b", "compression", "lz4", SOURCE_INHERITED, "tank");
    set_prop(&p, "tank/a", "compression", "gzip");
    check_prop("tank/a/b", "compression", "gzip", SOURCE_INHERITED, "tank/a");
    assert_int_equal(prop_inherit(p.dsl, "tank/a", "compression", false), 0);
    check_prop("tank/a", "compression", "lz4", SOURCE_INHERITED, "tank");
    assert_int_equal(prop_inherit(p.dsl, "tank", "compression", false), 0);
    check_prop("tank/a", "compression", "on", SOURCE_DEFAULT, NULL);
}

static void not_inherited(void **state)
{
    set_prop(&p, "tank", "canmount", "noauto");
    check_prop("tank", "canmount", "noauto", SOURCE_LOCAL, NULL);
    check_prop("tank/a", "canmount", "on", SOURCE_DEFAULT, NULL);
}

static void user_properties(void **state)
{
    struct dataset *ds;
    struct nvlist *l;
    struct prop_value v;

    set_prop(&p, "tank/a", "com.example:k", "v w");
    check_prop("tank/a/b", "com.example:k", "v w", SOURCE_INHERITED, "tank/a");
    ds = hold(&p, "tank/a/b");
    assert_int_equal(prop_user_list(ds, &l), 0);
    assert_string_equal(nvlist_string_or(l, "com.example:k", ""), "v w");
    nvlist_free(l);
    assert_int_equal(prop_get(ds, "com.example:none", &v), -ENOENT);
    assert_int_equal(prop_get(ds, "nosuch", &v), -EINVAL);
    dataset_rele(ds);
    assert_int_equal(prop_inherit(p.dsl, "tank/a", "com.example:k", false), 0);
    ds = hold(&p, "tank/a");
    assert_int_equal(prop_get(ds, "com.example:k", &v), -ENOENT);
    dataset_rele(ds);
}

static void snapshots_have_their_own(void **state)
{
    struct dataset *ds;
    struct prop_value v;

    set_prop(&p, "tank/a", "com.example:fs", "1");
    snapshot(&p, "tank/a@s");
    set_prop(&p, "tank/a@s", "com.example:snap", "2");
    check_prop("tank/a@s", "com.example:snap", "2", SOURCE_LOCAL, NULL);
    check_prop("tank/a@s", "com.example:fs", "1", SOURCE_INHERITED, "tank/a");
    check_prop("tank/a@s", "type", "snapshot", SOURCE_NONE, NULL);
    ds = hold(&p, "tank/a@s");
    assert_int_equal(prop_get(ds, "mountpoint", &v), -ENOENT);
    assert_int_equal(prop_get(ds, "quota", &v), -ENOENT);
    dataset_rele(ds);
    assert_int_equal(prop_inherit(p.dsl, "tank/a@s", "com.example:snap", false), 0);
    refuse("tank/a@s", "atime", "off", EINVAL, "this property can not be modified for snapshots");
}

static void mountpoints(void **state)
{
    struct dataset *ds;
    char *path;

    check_prop("tank", "mountpoint", "/tank", SOURCE_DEFAULT, NULL);
    check_prop("tank/a/b", "mountpoint", "/tank/a/b", SOURCE_DEFAULT, NULL);
    set_prop(&p, "tank/a", "mountpoint", "/elsewhere");
    check_prop("tank/a", "mountpoint", "/elsewhere", SOURCE_LOCAL, NULL);
    check_prop("tank/a/b", "mountpoint", "/elsewhere/b", SOURCE_INHERITED, "tank/a");
    ds = hold(&p, "tank/a/b");
    assert_int_equal(prop_mountpoint(ds, "/mnt", &path, NULL), 0);
    assert_string_equal(path, "/mnt/elsewhere/b");
    free(path);
    dataset_rele(ds);
    set_prop(&p, "tank/a", "mountpoint", "/");
    check_prop("tank/a", "mountpoint", "/", SOURCE_LOCAL, NULL);
    check_prop("tank/a/b", "mountpoint", "/b", SOURCE_INHERITED, "tank/a");
    set_prop(&p, "tank/a", "mountpoint", "none");
    check_prop("tank/a/b", "mountpoint", "none", SOURCE_INHERITED, "tank/a");
    set_prop(&p, "tank/a", "mountpoint", "legacy");
    check_prop("tank/a/b", "mountpoint", "legacy", SOURCE_INHERITED, "tank/a");
    assert_int_equal(prop_inherit(p.dsl, "tank/a", "mountpoint", false), 0);
    ds = hold(&p, "tank");
    assert_int_equal(prop_mountpoint(ds, "/mnt", &path, NULL), 0);
    assert_string_equal(path, "/mnt/tank");
    free(path);
    dataset_rele(ds);
}

static void refused_values(void **state)
{
    refuse("tank/a", "nocolon", "v", EINVAL, "invalid property 'nocolon'");
    refuse("tank/a", "used", "3", EINVAL, "'used' is readonly");
    refuse("tank/a", "casesensitivity", "insensitive", EINVAL, "'casesensitivity' is readonly");
    refuse("tank/a", "volsize", "20M", EINVAL, "'volsize' does not apply to datasets of this type");
    refuse("tank/a", "quota", "1K", ENOSPC, "size is less than current used or reserved space");
    refuse("tank/a", "longname", "on", ENOTSUP, "property 'longname' is not supported yet");
    refuse("tank/a", "reservation", "10G", ENOSPC, "size is greater than available space");
    refuse("tank/nosuch", "atime", "off", ENOENT, "dataset does not exist");
    set_prop(&p, "tank/a", "longname", "off"); /* what it is anyway */
    set_prop(&p, "tank/a", "dedup", "on"); /* kept */
    check_prop("tank/a/b", "dedup", "on", SOURCE_INHERITED, "tank/a");
    set_prop(&p, "tank/a", "dedup", "off");
    assert_int_equal(prop_inherit(p.dsl, "tank/a", "nosuch", false), -EINVAL);
    assert_int_equal(prop_inherit(p.dsl, "tank/a", "quota", false), -EINVAL);
}

/* All of a list or nothing. */
static void several_at_once(void **state)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "atime", "off");
    nvlist_add_string(l, "longname", "on");
    assert_int_equal(prop_set(p.dsl, "tank/a", l), -ENOTSUP);
    check_prop("tank/a", "atime", "on", SOURCE_DEFAULT, NULL);
    nvlist_add_string(l, "longname", "off");
    assert_int_equal(prop_set(p.dsl, "tank/a", l), 0);
    check_prop("tank/a", "atime", "off", SOURCE_LOCAL, NULL);
    nvlist_free(l);
}

static void at_creation(void **state)
{
    struct nvlist *text = nvlist_new(), *encoded;

    nvlist_add_string(text, "recordsize", "16K");
    nvlist_add_string(text, "mountpoint", "/x");
    nvlist_add_string(text, "com.example:a", "b");
    nvlist_add_string(text, "quota", "10M");
    nvlist_add_string(text, "casesensitivity", "sensitive");
    assert_int_equal(prop_encode(text, &encoded), 0);
    assert_int_equal(dataset_create(p.dsl, "tank/c", encoded, 0, 0), 0);
    check_prop("tank/c", "recordsize", "16K", SOURCE_LOCAL, NULL);
    check_prop("tank/c", "mountpoint", "/x", SOURCE_LOCAL, NULL);
    check_prop("tank/c", "com.example:a", "b", SOURCE_LOCAL, NULL);
    check_prop("tank/c", "quota", "10M", SOURCE_LOCAL, NULL);
    nvlist_free(encoded);
    nvlist_add_string(text, "recordsize", "3000");
    assert_int_equal(prop_encode(text, &encoded), -EINVAL);
    nvlist_free(text);
}

/* What open object sets write with follows at once, also below. */
static void live_effects(void **state)
{
    struct dataset *ds = hold(&p, "tank/a/b");
    struct objset_props props;
    struct objset *os;

    assert_int_equal(dataset_objset(ds, &os), 0);
    set_prop(&p, "tank/a", "recordsize", "1M");
    set_prop(&p, "tank/a", "checksum", "sha256");
    set_prop(&p, "tank", "compression", "zstd-7");
    set_prop(&p, "tank", "dnodesize", "auto");
    set_prop(&p, "tank/a/b", "redundant_metadata", "some");
    objset_props(os, &props);
    assert_int_equal(props.recordsize, 1 << 20);
    assert_int_equal(props.checksum, CHECKSUM_SHA256);
    assert_int_equal(props.compress, COMPRESS_ZSTD);
    assert_int_equal(props.compress_level, 7);
    assert_int_equal(props.dnodesize, 1024);
    assert_int_equal(props.redundant_metadata, 2);
    dataset_rele(ds);
    check_prop("tank/a/b", "redundant_metadata", "some", SOURCE_LOCAL, NULL);
    assert_int_equal(prop_inherit(p.dsl, "tank/a/b", "redundant_metadata", false), 0);
    check_prop("tank/a/b", "redundant_metadata", "all", SOURCE_DEFAULT, NULL);
}

static unsigned changes;

static void on_change(void *arg, struct dataset *ds, const char *name)
{
    char text[DATASET_NAME_MAX];

    dataset_name(ds, text);
    assert_string_equal(name, "readonly");
    changes |= strcmp(text, "tank/a") == 0 ? 1 : strcmp(text, "tank/a/b") == 0 ? 2 : 4;
}

static void listeners_hear_of_descendants(void **state)
{
    struct dataset *ds = hold(&p, "tank/a/b"), *root = hold(&p, "tank");

    prop_on_change(p.dsl, on_change, NULL);
    set_prop(&p, "tank/a", "readonly", "on");
    prop_on_change(p.dsl, NULL, NULL);
    assert_int_equal(changes, 3);
    dataset_rele(ds);
    dataset_rele(root);
}

/* Spec 04 19.7: a reservation raises what the parent uses, not what the dataset does. */
static void reservations_in_the_books(void **state)
{
    struct dataset *ds = hold(&p, "tank/a"), *root = hold(&p, "tank");
    struct dataset_stats a, r0, r1;

    assert_int_equal(dataset_stats(root, &r0), 0);
    set_prop(&p, "tank/a", "reservation", "20M");
    assert_int_equal(dataset_stats(root, &r1), 0);
    assert_int_equal(dataset_stats(ds, &a), 0);
    assert_true(r1.used - r0.used > (19 << 20));
    assert_true(a.used < 1 << 20);
    set_prop(&p, "tank/a", "reservation", "none");
    set_prop(&p, "tank/a", "refreservation", "5M");
    assert_int_equal(dataset_stats(ds, &a), 0);
    assert_int_equal(a.used_by_refreservation + a.unique, 5 << 20);
    set_prop(&p, "tank/a", "refreservation", "none");
    dataset_rele(ds);
    dataset_rele(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inheritance_and_sources), cmocka_unit_test(not_inherited),
        cmocka_unit_test(user_properties), cmocka_unit_test(snapshots_have_their_own),
        cmocka_unit_test(mountpoints), cmocka_unit_test(refused_values),
        cmocka_unit_test(several_at_once), cmocka_unit_test(at_creation),
        cmocka_unit_test(live_effects), cmocka_unit_test(listeners_hear_of_descendants),
        cmocka_unit_test(reservations_in_the_books),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
