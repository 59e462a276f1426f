/* Is a new pool, or what is added to one, equally redundant everywhere? A vdev that is less so is
 * mostly a slip of the hand. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
#include "cli/zpool_impl.h"
#include "server/json.h"
#include "util/err.h"

#define SIZE_FUZZ (16ll << 20) /* smaller differences are nobody's mistake */

struct replication {
    const char *type; /* "mirror", "raidz", "file", "disk" */
    unsigned long long children, parity;
};

/* Bytes of a file or block device, -1 if that is not known. */
static long long size_of(const char *path, bool *is_file)
{
    struct stat st;
    long long size = -1;
    *is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (*is_file)
        return st.st_size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = lseek(fd, 0, SEEK_END);
        close(fd);
    }
    return size;
}

static const char *kind_of(const char *path)
{
    bool is_file;
    size_of(path, &is_file);
    return is_file ? "file" : "disk";
}

static int check_children(const struct vdev_group *g, const char *type)
{
    bool first_file, file;
    long long first = size_of(g->path[0], &first_file);
    for (size_t i = 1; i < g->n; i++) {
        long long size = size_of(g->path[i], &file);
        if (file != first_file)
            return err_set(EBUSY, "mismatched replication level: %s contains both files and devices",
                           type);
        if (first >= 0 && size >= 0 && llabs(size - first) > SIZE_FUZZ)
            return err_set(EBUSY, "%s contains devices of different sizes", type);
    }
    return 0;
}

static bool is_type(const struct replication *r, const char *type)
{
    return strcmp(r->type, type) == 0;
}

/* The devices that may fail: of RAID-Z and mirrors these are compared, in either order. */
static int compare_redundant(const struct replication *a, const struct replication *b)
{
    const struct replication *raidz = is_type(a, "raidz") ? a : b, *mirror = raidz == a ? b : a;
    if (is_type(a, "raidz") && is_type(b, "raidz"))
        return a->parity == b->parity
                   ? 0
                   : err_set(EBUSY,
                             "mismatched replication level: raidz and raidz vdevs with different "
                             "redundancy, %llu vs. %llu are present",
                             a->parity, b->parity);
    if (raidz->parity != mirror->children - 1)
        return err_set(EBUSY,
                       "mismatched replication level: raidz and mirror vdevs with different "
                       "redundancy, %llu vs. %llu (%llu-way) are present",
                       raidz->parity, mirror->children - 1, mirror->children);
    return 0;
}

static int compare(const struct replication *a, const struct replication *b)
{
    bool raidz = is_type(a, "raidz") || is_type(b, "raidz");
    bool others = (!is_type(a, "raidz") && !is_type(a, "mirror")) ||
                  (!is_type(b, "raidz") && !is_type(b, "mirror"));
    if (raidz && !others)
        return compare_redundant(a, b);
    if (strcmp(a->type, b->type) != 0)
        return err_set(EBUSY, "mismatched replication level: both %s and %s vdevs are present",
                       a->type, b->type);
    if (a->children != b->children)
        return err_set(EBUSY,
                       "mismatched replication level: both %llu-way and %llu-way %s vdevs are present",
                       a->children, b->children, a->type);
    return 0;
}

static struct replication of_group(const struct vdev_group *g)
{
    bool raidz = strncmp(g->type, "raidz", 5) == 0;
    unsigned long long parity = !raidz ? 0 : g->type[5] ? (unsigned)(g->type[5] - '0') : 1;
    return (struct replication){raidz ? "raidz" : g->type, g->n, parity};
}

int vdev_spec_check_replication(const struct vdev_spec *s)
{
    struct replication last = {NULL, 0, 0};
    for (size_t i = 0; i < s->n; i++) {
        const struct vdev_group *g = &s->group[i];
        int rc = g->type && !g->heading ? check_children(g, of_group(g).type) : 0;
        for (size_t k = 0; k < (g->type ? 1 : g->n) && rc == 0 && !g->heading; k++) {
            struct replication r =
                g->type ? of_group(g) : (struct replication){kind_of(g->path[k]), 1, 0};
            rc = last.type ? compare(&last, &r) : 0;
            last = r;
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- Against a pool that is there ---- */

static struct replication of_present(struct json_object *vdev)
{
    const char *type = json_text(vdev, "type", "?"), *name = json_text(vdev, "name", "");
    struct json_object *list = vdev_children(vdev);
    unsigned long long n = list ? json_object_array_length(list) : 1;
    if (strcmp(type, "raidz") == 0)
        return (struct replication){type, n, name[5] ? (unsigned)(name[5] - '0') : 1};
    /* A device that is being replaced counts as one. */
    if (strcmp(type, "replacing") == 0 || strcmp(type, "spare") == 0)
        return list && n > 0 ? of_present(json_object_array_get_idx(list, 0))
                             : (struct replication){"file", 1, 0};
    return (struct replication){type, n, 0};
}

static int compare_redundant_with_pool(const struct replication *pool,
                                       const struct replication *added)
{
    const struct replication *raidz = is_type(pool, "raidz") ? pool : added;
    const struct replication *mirror = raidz == pool ? added : pool;
    if (is_type(pool, "raidz") && is_type(added, "raidz"))
        return pool->parity == added->parity
                   ? 0
                   : err_set(EBUSY,
                             "mismatched replication level: pool and new vdev with different "
                             "redundancy, raidz and raidz vdevs, %llu vs. %llu",
                             pool->parity, added->parity);
    if (raidz->parity != mirror->children - 1)
        return err_set(EBUSY,
                       "mismatched replication level: pool and new vdev with different "
                       "redundancy, raidz and mirror vdevs, %llu vs. %llu (%llu-way)",
                       raidz->parity, mirror->children - 1, mirror->children);
    return 0;
}

static int compare_with_pool(const struct replication *pool, const struct replication *added)
{
    bool raidz = is_type(pool, "raidz") || is_type(added, "raidz");
    bool redundant = (is_type(pool, "raidz") || is_type(pool, "mirror")) &&
                     (is_type(added, "raidz") || is_type(added, "mirror"));
    if (raidz && redundant)
        return compare_redundant_with_pool(pool, added);
    if (strcmp(pool->type, added->type) != 0)
        return err_set(EBUSY, "mismatched replication level: pool uses %s and new vdev is %s",
                       pool->type, added->type);
    if (pool->children != added->children)
        return err_set(EBUSY,
                       "mismatched replication level: pool uses %llu-way %s and new vdev uses "
                       "%llu-way %s",
                       pool->children, pool->type, added->children, added->type);
    return 0;
}

/* The first of the new vdevs stands for all: they have been compared with each other. A pool that
 * is not equal everywhere itself is compared by its last vdev. */
int vdev_spec_check_against(const struct vdev_spec *s, struct json_object *tree)
{
    struct json_object *list = vdev_section(tree, &vdev_sections[0], false);
    size_t n = json_object_array_length(list);
    const struct vdev_group *g = s->n > 0 ? &s->group[0] : NULL;
    int rc = 0;
    if (n > 0 && g && !g->heading) {
        struct replication pool = of_present(json_object_array_get_idx(list, n - 1));
        struct replication added =
            g->type ? of_group(g) : (struct replication){kind_of(g->path[0]), 1, 0};
        rc = compare_with_pool(&pool, &added);
    }
    json_object_put(list);
    return rc;
}
