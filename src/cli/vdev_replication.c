/* Is a new pool equally redundant everywhere? A vdev that is less so is mostly a slip of the hand. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
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
