#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"
#include "nvlist/nvlist.h"
#include "util/bytes.h"
#include "util/err.h"
#include "vdev/label.h"
#include "vdev/upkeep.h"
#include "vdev/vdev.h"

static struct nvlist *leaf_config(const char *type, uint64_t id, uint64_t guid)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", type);
    nvlist_add_uint64(l, "id", id);
    nvlist_add_uint64(l, "guid", guid);
    nvlist_add_uint64(l, "ashift", 12);
    nvlist_add_uint64(l, "metaslab_shift", 24);
    nvlist_add_uint64(l, "metaslab_array", 34);
    nvlist_add_uint64(l, "asize", 129499136);
    nvlist_add_uint64(l, "is_log", 0);
    nvlist_add_uint64(l, "create_txg", 4);
    nvlist_add_uint64(l, "DTL", 77);
    nvlist_add_uint64(l, "com.delphix:vdev_zap_top", 55);
    nvlist_add_boolean(l, "com.datto:resilver_defer");
    nvlist_add_string(l, "devid", "unknown-to-us");
    nvlist_add_string(l, "path", "/nonexistent/disk");
    return l;
}

static struct nvlist *root_config(struct nvlist **children, size_t n)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", "root");
    nvlist_add_uint64(l, "id", 0);
    nvlist_add_uint64(l, "guid", 1000);
    nvlist_add_nvlist_array(l, "children", children, n);
    for (size_t i = 0; i < n; i++)
        nvlist_free(children[i]);
    return l;
}

static int parse(struct vdev **root, struct nvlist *config)
{
    int rc = vdev_tree_parse(root, config);

    nvlist_free(config);
    return rc;
}

static void parse_and_unparse(void **state)
{
    struct nvlist *children[] = {leaf_config("file", 0, 11), leaf_config("hole", 1, 0),
                                 leaf_config("disk", 2, 13)};
    struct nvlist *out, **list;
    struct vdev *root;
    size_t n;

    assert_int_equal(parse(&root, root_config(children, 3)), 0);
    assert_int_equal(root->children, 3);
    assert_int_equal(root->guid, 1000);
    assert_int_equal(vdev_guid_sum(root), 1000 + 11 + 13);
    assert_int_equal(root->child[0]->ashift, 12);
    assert_int_equal(root->child[0]->dtl_object, 77);
    assert_int_equal(root->child[0]->zap_top, 55);
    assert_ptr_equal(root->child[2]->top, root->child[2]);
    assert_ptr_equal(vdev_lookup_top(root, 2), root->child[2]);
    assert_null(vdev_lookup_top(root, 3));

    assert_int_equal(vdev_tree_config(root, VDEV_CONFIG_MOS, &out), 0);
    assert_int_equal(nvlist_get_nvlist_array(out, "children", &list, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(nvlist_uint64_or(list[0], "com.delphix:vdev_zap_top", 0), 55);
    assert_string_equal(nvlist_string_or(list[0], "devid", ""), "unknown-to-us");
    assert_true(nvlist_exists(list[0], "com.datto:resilver_defer"));
    assert_string_equal(nvlist_string_or(list[1], "type", ""), "hole");
    assert_int_equal(nvlist_uint64_or(list[1], "is_hole", 0), 1);
    assert_int_equal(nvlist_uint64_or(list[2], "whole_disk", 9), 0);
    assert_int_equal(nvlist_uint64_or(list[2], "min_alloc", 0), 4096);
    nvlist_free(out);

    assert_int_equal(vdev_tree_config(root->child[0], VDEV_CONFIG_LABEL, &out), 0);
    assert_false(nvlist_exists(out, "com.delphix:vdev_zap_top"));
    assert_false(nvlist_exists(out, "com.datto:resilver_defer"));
    assert_string_equal(nvlist_string_or(out, "devid", ""), "unknown-to-us");
    assert_int_equal(nvlist_uint64_or(out, "asize", 0), 129499136);
    nvlist_free(out);
    vdev_tree_free(root);
}

static void refuses_damaged_trees(void **state)
{
    struct vdev *root;
    struct nvlist *bad[] = {leaf_config("file", 1, 11), leaf_config("file", 0, 0),
                            leaf_config("root", 0, 5),  leaf_config("file", 0, 5),
                            leaf_config("file", 0, 5),  leaf_config("file", 0, 5)};

    nvlist_remove(bad[3], "type");
    nvlist_add_uint64(bad[4], "ashift", 70);
    nvlist_add_uint64(bad[5], "metaslab_shift", 64);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(parse(&root, root_config(&bad[i], 1)), -EINVAL);

    struct nvlist *strange = leaf_config("flying", 0, 5);
    assert_int_equal(parse(&root, root_config(&strange, 1)), -ENOTSUP);
    assert_non_null(strstr(err_text(-ENOTSUP), "flying"));
}

static void missing_device_is_named(void **state)
{
    struct nvlist *child = leaf_config("file", 0, 11);
    struct vdev *root;

    assert_int_equal(parse(&root, root_config(&child, 1)), 0);
    assert_int_equal(vdev_tree_open(root, 0, 1000), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "/nonexistent/disk"));
    assert_int_equal(root->state, VDEV_CANT_OPEN);
    assert_int_equal(root->child[0]->state, VDEV_CANT_OPEN);
    vdev_tree_free(root);
}

static void new_leaf_sizes(void **state)
{
    struct env env = test_env();
    struct device *d;
    struct vdev *v;

    assert_int_equal(device_memory(&d, (256ull << 20) + 12345), 0);
    assert_int_equal(vdev_leaf_on_device(&v, d, 0, &env), 0);
    assert_int_equal(v->psize, 256ull << 20);
    assert_int_equal(v->asize, 263716864);
    assert_int_equal(v->ashift, 9);
    assert_int_equal(v->deflate_ratio, 512);
    assert_true(v->guid != 0);
    vdev_tree_free(v);

    assert_int_equal(device_memory(&d, (64ull << 20) - 1), 0);
    assert_int_equal(vdev_leaf_on_device(&v, d, 0, &env), -EOVERFLOW);
    assert_int_equal(device_memory(&d, 64ull << 20), 0);
    assert_int_equal(vdev_leaf_on_device(&v, d, 17, &env), -EINVAL);
}

static int refuse_all(void *arg, const void *data)
{
    return -EBADE;
}

static void written(struct vdev_io *io, int rc)
{
    *(int *)io->arg = rc;
}

static void reads_and_writes(void **state)
{
    struct env env = test_env();
    unsigned char data[4096], back[4096], raw[4096];
    struct vdev *root, *v;
    struct device *d;
    int result = 1;

    assert_int_equal(device_memory(&d, 64ull << 20), 0);
    assert_int_equal(vdev_leaf_on_device(&v, d, 12, &env), 0);
    assert_int_equal(vdev_root_new(&root, 5), 0);
    assert_int_equal(vdev_add_child(root, v), 0);
    test_fill(&env, data, sizeof data);
    struct vdev_io io = {.vdev = v,
                         .write = true,
                         .offset = 8192,
                         .size = 4096,
                         .data = data,
                         .done = written,
                         .arg = &result};
    vdev_submit(&io); /* memory is done at once */
    assert_int_equal(result, 0);
    assert_int_equal(device_read(d, VDEV_LABEL_START + 8192, raw, sizeof raw), 0);
    assert_memory_equal(raw, data, sizeof raw);
    assert_int_equal(vdev_read(v, 8192, back, 4096, 4, NULL, NULL), 0);
    assert_memory_equal(back, data, sizeof back);
    assert_int_equal(vdev_read(v, 8192, back, 4096, 4, refuse_all, NULL), -EBADE);
    assert_int_equal(v->stats.checksum_errors, 1);
    assert_int_equal(vdev_read(v, 8192 + 512, back, 4096, 4, NULL, NULL), -EIO);
    assert_int_equal(vdev_read(v, v->asize, back, 4096, 4, NULL, NULL), -EIO);
    assert_int_equal(vdev_read(v, ~0ull << 12, back, 4096, 4, NULL, NULL), -EIO);
    assert_int_equal(vdev_read(NULL, 0, back, 4096, 4, NULL, NULL), -ENXIO);
    assert_int_equal(vdev_flush(root), 0);
    struct vdev_upkeep trim = {.guid = v->guid, .kind = VDEV_TRIM};
    vdev_upkeep(v, 8192, 4096, &trim, 1);
    assert_int_equal(trim.rc, 0);
    assert_int_equal(trim.bytes, 4096);
    assert_int_equal(vdev_read(v, 8192, back, 4096, 4, NULL, NULL), 0);
    assert_true(memcmp(back, data, sizeof back) != 0);
    vdev_tree_free(root);
}

/* ---- On files ---- */

static char dir[] = "/tmp/tarn-vdev-XXXXXX";

static const char *make_file(char path[static 256], const char *name, off_t size)
{
    int fd;

    snprintf(path, 256, "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
    return path;
}

static void write_labels(struct vdev *root, struct vdev *leaf, uint64_t state)
{
    struct nvlist *config = nvlist_new(), *tree;
    unsigned char *packed;
    size_t n;

    nvlist_add_uint64(config, "version", 5000);
    nvlist_add_string(config, "name", "tank");
    nvlist_add_uint64(config, "state", state);
    nvlist_add_uint64(config, "txg", 4);
    nvlist_add_uint64(config, "pool_guid", root->guid);
    nvlist_add_uint64(config, "top_guid", leaf->top->guid);
    nvlist_add_uint64(config, "guid", leaf->guid);
    assert_int_equal(vdev_tree_config(leaf->top, VDEV_CONFIG_LABEL, &tree), 0);
    nvlist_add_nvlist(config, "vdev_tree", tree);
    assert_int_equal(nvlist_pack_xdr(config, &packed, &n), 0);
    assert_int_equal(label_init(leaf->device, leaf->psize, packed, n), 0);
    free(packed);
    nvlist_free(tree);
    nvlist_free(config);
}

/* A tree of one file, labelled. */
static struct vdev *labelled(const char *path, uint64_t state, struct env *env)
{
    struct vdev *root, *leaf;

    assert_int_equal(vdev_root_new(&root, 4242), 0);
    assert_int_equal(vdev_leaf_new_forced(&leaf, path, 12, env), 0);
    assert_int_equal(vdev_add_child(root, leaf), 0);
    write_labels(root, leaf, state);
    return root;
}

static struct vdev *parse_again(const struct vdev *root)
{
    struct nvlist *config;
    struct vdev *again;

    assert_int_equal(vdev_tree_config(root, VDEV_CONFIG_MOS, &config), 0);
    assert_int_equal(parse(&again, config), 0);
    return again;
}

static void opens_what_is_labelled(void **state)
{
    struct env env = test_env();
    struct vdev *root, *again;
    char path[256], other[256];

    root = labelled(make_file(path, "a", 64 << 20), POOL_STATE_EXPORTED, &env);
    again = parse_again(root);
    assert_int_equal(vdev_tree_open(again, VDEV_OPEN_WRITE, 4242), -EBUSY); /* still open */
    assert_int_equal(vdev_tree_open(again, VDEV_OPEN_WRITE, 4242), -EBUSY);
    assert_non_null(strstr(err_text(-EBUSY), path));
    vdev_tree_close(root);
    assert_int_equal(vdev_tree_open(again, VDEV_OPEN_WRITE, 4242), 0);
    assert_int_equal(again->state, VDEV_HEALTHY);
    assert_int_equal(again->child[0]->asize, root->child[0]->asize);
    assert_int_equal(again->child[0]->psize, 64 << 20);
    vdev_tree_close(again);
    assert_int_equal(again->child[0]->state, VDEV_CLOSED);
    assert_int_equal(vdev_tree_open(again, 0, 4242), 0); /* and once more, read-only */
    vdev_tree_close(again);
    assert_int_equal(vdev_tree_open(again, 0, 4243), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "another pool"));
    again->child[0]->guid++;
    assert_int_equal(vdev_tree_open(again, 0, 4242), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "another device"));
    again->child[0]->guid--;
    free(again->child[0]->path);
    again->child[0]->path = strdup(make_file(other, "b", 64 << 20));
    assert_int_equal(vdev_tree_open(again, 0, 4242), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "missing"));
    vdev_tree_free(again);
    vdev_tree_free(root);
    unlink(path);
    unlink(other);
}

static void refuses_what_has_shrunk(void **state)
{
    struct env env = test_env();
    struct vdev *root, *again;
    char path[256];

    root = labelled(make_file(path, "a", 256 << 20), POOL_STATE_EXPORTED, &env);
    again = parse_again(root);
    vdev_tree_close(root);
    assert_int_equal(truncate(path, (256 << 20) + (64 << 20)), 0);
    assert_int_equal(vdev_tree_open(again, 0, 4242), 0); /* larger is fine */
    assert_int_equal(again->child[0]->asize, root->child[0]->asize);
    vdev_tree_close(again);
    assert_int_equal(truncate(path, 128 << 20), 0);
    assert_int_equal(vdev_tree_open(again, 0, 4242), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "smaller"));
    vdev_tree_close(again);
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_int_equal(vdev_tree_open(again, 0, 4242), -ENXIO);
    assert_non_null(strstr(err_text(-ENXIO), "too small"));
    vdev_tree_free(again);
    vdev_tree_free(root);
    unlink(path);
}

static void new_leaves_look_at_labels(void **state)
{
    struct env env = test_env();
    struct vdev *root, *leaf;
    char path[256], text[400];

    make_file(path, "a", 64 << 20);
    assert_int_equal(vdev_leaf_new(&leaf, path, 0, &env), 0); /* nothing there */
    vdev_tree_free(leaf);
    root = labelled(path, POOL_STATE_EXPORTED, &env);
    vdev_tree_free(root);
    assert_int_equal(vdev_leaf_new(&leaf, path, 0, &env), -EBUSY);
    snprintf(text, sizeof text, "%s is part of exported pool 'tank'", path);
    assert_string_equal(err_text(-EBUSY), text);
    root = labelled(path, POOL_STATE_ACTIVE, &env);
    assert_int_equal(vdev_leaf_new_forced(&leaf, path, 0, &env), -EBUSY);
    snprintf(text, sizeof text, "%s is part of active pool 'tank'", path);
    assert_string_equal(err_text(-EBUSY), text);
    vdev_tree_free(root);
    assert_int_equal(vdev_leaf_new(&leaf, path, 0, &env), -EBUSY);
    assert_non_null(strstr(err_text(-EBUSY), "potentially active"));
    vdev_tree_free(labelled(path, POOL_STATE_DESTROYED, &env));
    assert_int_equal(vdev_leaf_new(&leaf, path, 0, &env), 0);
    vdev_tree_free(leaf);
    assert_int_equal(vdev_leaf_new(&leaf, "/nonexistent/x", 0, &env), -ENOENT);
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_int_equal(vdev_leaf_new(&leaf, path, 0, &env), -EOVERFLOW);
    assert_non_null(strstr(err_text(-EOVERFLOW), path));
    unlink(path);
}

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_and_unparse),       cmocka_unit_test(refuses_damaged_trees),
        cmocka_unit_test(missing_device_is_named), cmocka_unit_test(new_leaf_sizes),
        cmocka_unit_test(reads_and_writes),        cmocka_unit_test(opens_what_is_labelled),
        cmocka_unit_test(refuses_what_has_shrunk), cmocka_unit_test(new_leaves_look_at_labels),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
