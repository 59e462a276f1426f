/* Mappings of removed vdevs: byte 0 is the number of entries of the first one, the rest are the entries
 * of two. What is accepted is read through: in the end there is always a device, which is not there. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "nvlist/nvlist.h"
#include "vdev/vdev.h"

#define ENTRY 24

static struct nvlist *vdev_config(const char *type, unsigned id)
{
    struct nvlist *l = nvlist_new();

    nvlist_add_string(l, "type", type);
    nvlist_add_uint64(l, "id", id);
    nvlist_add_uint64(l, "guid", 10 + id);
    nvlist_add_uint64(l, "ashift", 9);
    nvlist_add_uint64(l, "asize", 1ull << 40);
    return l;
}

static struct vdev *new_tree(void)
{
    struct nvlist *child[] = {vdev_config("file", 0), vdev_config("indirect", 1),
                              vdev_config("indirect", 2)};
    struct nvlist *l = nvlist_new();
    struct vdev *root;

    nvlist_add_string(l, "type", "root");
    nvlist_add_uint64(l, "guid", 1);
    nvlist_add_nvlist_array(l, "children", child, 3);
    if (vdev_tree_parse(&root, l) != 0)
        abort();
    for (unsigned i = 0; i < 3; i++) {
        nvlist_free(child[i]);
        root->child[i]->state = VDEV_HEALTHY;
    }
    nvlist_free(l);
    return root;
}

static void read_through(struct vdev *top, const uint8_t *entry, size_t n)
{
    static unsigned char block[16 << 10];

    for (size_t i = 0; i < n; i++) {
        uint64_t source;
        memcpy(&source, entry + i * ENTRY, sizeof source);
        if (vdev_read(top, (source & ((1ull << 63) - 1)) << 9, block, sizeof block, 5, NULL, NULL) == 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vdev *root;
    size_t first;

    if (n < 1)
        return 0;
    first = data[0] * (size_t)ENTRY;
    data++;
    n--;
    first = first < n ? first : n;
    root = new_tree();
    if (vdev_set_mapping(root->child[1], data, first) == 0 &&
        vdev_set_mapping(root->child[2], data + first, n - first) == 0) {
        read_through(root->child[1], data, first / ENTRY);
        read_through(root->child[2], data + first, (n - first) / ENTRY);
    }
    vdev_tree_free(root);
    return 0;
}
