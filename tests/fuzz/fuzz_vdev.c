/* A packed configuration is made a vdev tree; what could be made one must give a configuration that
 * makes the same. */
#include <stdlib.h>

#include "fuzz.h"
#include "nvlist/nvlist.h"
#include "vdev/vdev.h"

static void again(const struct vdev *root)
{
    struct nvlist *config;
    struct vdev *copy;

    for (int form = VDEV_CONFIG_LABEL; form <= VDEV_CONFIG_MOS; form++) {
        if (vdev_tree_config(root, form, &config) != 0)
            continue;
        if (vdev_tree_parse(&copy, config) != 0 || copy->children != root->children ||
            vdev_guid_sum(copy) != vdev_guid_sum(root))
            abort();
        vdev_tree_free(copy);
        nvlist_free(config);
    }
}

/* All is as it should be, but there are no devices: where a block is must be found out without harm. */
static void look_healthy(struct vdev *v)
{
    v->state = VDEV_HEALTHY;
    for (unsigned i = 0; i < v->children; i++)
        look_healthy(v->child[i]);
}

static void use(struct vdev *top)
{
    static unsigned char block[1 << 20];
    static const uint64_t sizes[] = {1, 2, 3, 16};
    char name[256];

    vdev_print_name(top, name, sizeof name);
    if (top->ashift == 0)
        return;
    top->asize = 1ull << 44;
    for (uint64_t at = 0; at < 1ull << 44; at = at * 5 + (1ull << 20))
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint64_t size = sizes[i] << top->ashift;
            uint64_t align = top->kind->alloc_align ? top->kind->alloc_align(top) : 1ull << top->ashift;
            uint64_t asize = vdev_psize_to_asize(top, size, at % 1000);
            if (!top->kind->leaf && asize < size)
                abort();
            if (vdev_read(top, at / align * align, block, size, at % 1000, NULL, NULL) == 0)
                abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct nvlist *config, *tree;
    struct vdev *root;

    if (nvlist_unpack(data, n, &config, NULL) != 0)
        return 0;
    tree = config;
    nvlist_get_nvlist(config, "vdev_tree", &tree);
    if (vdev_tree_parse(&root, tree) == 0) {
        again(root);
        look_healthy(root);
        vdev_set_reflow(root, 1ull << 30, data[n / 2] % 5u);
        for (unsigned i = 0; i < root->children; i++)
            use(root->child[i]);
        vdev_tree_free(root);
    }
    nvlist_free(config);
    return 0;
}
