/*
 * Changing the devices of a live pool: what the tree is like afterwards, that a crash at any write
 * leaves the pool of before or after, and that readers, writers and the sync never see anything in
 * between.
 */
#include "../support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "fs/format.h"
#include "nvlist/nvlist.h"
#include "pool/pool.h"
#include "spa/scan.h"
#include "spa/spa.h"
#include "spa/vdevs.h"
#include "util/err.h"
#include "vdev/change.h"
#include "vdev/scan.h"

#define SCAN_BLOCKS "TARN_SCAN_BLOCKS"

#define DISKS      6
#define DISK_SIZE  (80ull << 20)
#define SHOTS_MAX  400

static char dir[] = "/tmp/tarn-devices-XXXXXX";
static char disk[DISKS][64], shots[64];

static int make_folder(void **state)
{
    /* Resilvers wait until a test wants them. */
    setenv(SCAN_BLOCKS, "0", 1);
    dsl_register_format(fs_format);
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < DISKS; i++)
        snprintf(disk[i], sizeof disk[i], "%s/disk%d.img", dir, i);
    snprintf(shots, sizeof shots, "%s.shots", dir);
    return mkdir(shots, 0700);
}

static int remove_folder(void **state)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s %s", dir, shots);
    return system(command);
}

static void fresh_disk(int i, uint64_t size)
{
    unlink(disk[i]);
    int fd = open(disk[i], O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
}

/* type NULL: each by itself */
static struct spa *create(const char *type, size_t n)
{
    const char *paths[DISKS];
    struct spa_create_group group = {type, n};
    struct spa *spa = NULL;
    for (int i = 0; i < DISKS; i++) {
        fresh_disk(i, DISK_SIZE);
        paths[i] = disk[i];
    }
    struct spa_create_args args = {.name = "tank", .paths = paths, .npaths = n, .groups = &group,
                                   .ngroups = 1};
    assert_ok(spa_create(&args, false, NULL, &spa));
    assert_ok(dataset_create(spa_dsl(spa), "tank/a", NULL, 0, 0));
    return spa;
}

static int reopen_in(const char *folder, struct spa **out)
{
    struct scan *scan;
    assert_ok(scan_run(&scan, &folder, 1));
    assert_int_equal(scan->pools, 1);
    struct spa_open_args args = {.config = scan->pool[0].config};
    int rc = spa_open(&args, out);
    scan_free(scan);
    return rc;
}

static struct spa *reopen(void)
{
    struct spa *spa = NULL;
    assert_ok(reopen_in(dir, &spa));
    return spa;
}

static struct spa *export_import(struct spa *spa)
{
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    return reopen();
}

static struct vdev *root_of(struct spa *spa)
{
    return spa_pool(spa)->root;
}

static struct vdev *find(struct spa *spa, const char *name)
{
    struct vdev *v = vdev_find(root_of(spa), name);
    assert_non_null(v);
    return v;
}

/* "mirror(0 1) 2": kinds, and numbers of disks. */
static void describe(const struct vdev *v, char *out)
{
    if (v->kind->leaf) {
        const char *number = v->path ? strstr(v->path, "disk") : NULL;
        assert_non_null(number);
        number += strlen("disk");
        strncat(out, number, strcspn(number, "."));
    } else {
        strcat(out, v->kind->type);
        strcat(out, "(");
    }
    for (unsigned i = 0; i < v->children; i++) {
        assert_int_equal(v->child[i]->id, i);
        assert_ptr_equal(v->child[i]->parent, v);
        strcat(out, i ? " " : "");
        describe(v->child[i], out);
    }
    if (!v->kind->leaf)
        strcat(out, ")");
}

static void assert_tree(struct spa *spa, const char *want)
{
    char is[400] = "";
    describe(root_of(spa), is);
    assert_string_equal(is, want);
}

static int attach(struct spa *spa, int old, int fresh, bool replace)
{
    struct spa_attach_args args = {.name = disk[old], .path = disk[fresh], .replace = replace};
    return spa_vdev_attach(spa, &args);
}

static int add(struct spa *spa, const char *type, int first, size_t n)
{
    const char *paths[DISKS];
    struct spa_create_group group = {type, n};
    for (size_t i = 0; i < n; i++)
        paths[i] = disk[first + (int)i];
    struct spa_add_args args = {.paths = paths, .npaths = n, .groups = &group, .ngroups = 1};
    return spa_vdev_add(spa, &args, false);
}

static void assert_refused(int rc, int want, const char *text)
{
    assert_int_equal(rc, want);
    if (!strstr(err_text(rc), text))
        fail_msg("'%s' is not about '%s'", err_text(rc), text);
}

static bool lacks(struct spa *spa, const char *name)
{
    uint64_t first, last;
    return vdev_dtl_bounds(find(spa, name), &first, &last);
}

static void make_dataset(struct spa *spa, const char *name)
{
    assert_ok(dataset_create(spa_dsl(spa), name, NULL, 0, 0));
}

/* ---- Out of use and back ---- */

static void a_device_goes_and_comes_back(void **state)
{
    enum vdev_state now;
    struct spa *spa = create("mirror", 2);
    assert_refused(spa_vdev_offline(spa, "nosuch", false), -ENODEV, "no such device in pool");
    assert_refused(spa_vdev_offline(spa, "mirror-0", false), -ENOTSUP, "operation not supported");
    assert_ok(spa_vdev_offline(spa, disk[1], false));
    assert_int_equal(find(spa, disk[1])->state, VDEV_OFFLINE);
    assert_int_equal(root_of(spa)->state, VDEV_DEGRADED);
    assert_refused(spa_vdev_offline(spa, disk[0], false), -EBUSY, "no valid replicas");
    make_dataset(spa, "tank/b");
    assert_true(lacks(spa, disk[1]));
    spa = export_import(spa);
    assert_int_equal(find(spa, disk[1])->state, VDEV_OFFLINE);
    assert_ok(spa_vdev_online(spa, disk[1], &now));
    assert_int_equal(now, VDEV_HEALTHY);
    assert_int_equal(root_of(spa)->state, VDEV_HEALTHY);
    assert_true(lacks(spa, disk[1]));
    /* The other has what this one lacks. */
    assert_refused(spa_vdev_offline(spa, disk[0], false), -EBUSY, "no valid replicas");
    spa = export_import(spa);
    assert_int_equal(find(spa, disk[1])->state, VDEV_HEALTHY);
    assert_ok(spa_vdev_offline(spa, disk[1], true));
    spa = export_import(spa);
    assert_int_equal(find(spa, disk[1])->state, VDEV_HEALTHY);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void only_its_own_device_comes_back(void **state)
{
    enum vdev_state now;
    struct spa *spa = create("raidz1", 3);
    assert_ok(spa_vdev_offline(spa, disk[1], false));
    fresh_disk(1, DISK_SIZE);
    assert_ok(spa_vdev_online(spa, disk[1], &now));
    assert_int_equal(now, VDEV_CANT_OPEN);
    assert_false(find(spa, disk[1])->offline);
    make_dataset(spa, "tank/b");
    spa = export_import(spa);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void devices_are_looked_for(void **state)
{
    char away[80];
    struct spa *spa = create("mirror", 2);
    snprintf(away, sizeof away, "%s.away", disk[1]);
    assert_ok(spa_vdev_reopen(spa));
    assert_int_equal(root_of(spa)->state, VDEV_HEALTHY);
    assert_int_equal(rename(disk[1], away), 0);
    assert_ok(spa_vdev_reopen(spa));
    assert_int_equal(find(spa, disk[1])->state, VDEV_CANT_OPEN);
    make_dataset(spa, "tank/b");
    assert_int_equal(rename(away, disk[1]), 0);
    assert_ok(spa_vdev_reopen(spa));
    assert_int_equal(find(spa, disk[1])->state, VDEV_HEALTHY);
    assert_true(lacks(spa, disk[1]));
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

/* ---- Devices that fail, and pictures of all devices at each write ---- */

struct stage {
    pthread_mutex_t lock;
    unsigned writes, fail_from; /* lock; 0: none fails */
    bool picture;
    unsigned pictures;
};

static struct stage stage = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void copy_sparse(const char *from, const char *to)
{
    static unsigned char buf[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    struct stat st;
    assert_true(in >= 0 && out >= 0 && fstat(in, &st) == 0 && ftruncate(out, st.st_size) == 0);
    for (off_t at = 0; (at = lseek(in, at, SEEK_DATA)) >= 0;) {
        off_t end = lseek(in, at, SEEK_HOLE);
        for (; at < end; at += (off_t)sizeof buf) {
            ssize_t n = pread(in, buf, sizeof buf, at);
            if (n > 0)
                assert_int_equal(pwrite(out, buf, (size_t)n, at), n);
        }
    }
    close(in);
    close(out);
}

static void take_picture(unsigned number)
{
    char folder[100], to[128];
    snprintf(folder, sizeof folder, "%s/%u", shots, number);
    mkdir(folder, 0700);
    for (int i = 0; i < DISKS; i++) {
        snprintf(to, sizeof to, "%s/disk%d.img", folder, i);
        copy_sparse(disk[i], to);
    }
}

static int at_request(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    int rc = 0;
    if (op != DEVICE_WRITE && op != DEVICE_FLUSH)
        return 0;
    pthread_mutex_lock(&stage.lock);
    stage.writes++;
    if (stage.picture && stage.pictures < SHOTS_MAX)
        take_picture(stage.pictures++);
    if (stage.fail_from && stage.writes >= stage.fail_from)
        rc = -EIO;
    pthread_mutex_unlock(&stage.lock);
    return rc;
}

static int wrap_leaf(struct vdev *leaf, void *arg)
{
    if (leaf->device)
        assert_ok(device_fault(&leaf->device, leaf->device, at_request, NULL));
    return 0;
}

/* From now on requests of the pool's devices are watched. */
static void watch(struct spa *spa, bool picture, unsigned fail_from)
{
    assert_ok(spa_sync_now(spa));
    vdev_each_leaf(root_of(spa), wrap_leaf, NULL);
    stage.writes = stage.pictures = 0;
    stage.picture = picture;
    stage.fail_from = fail_from;
}

typedef int change_fn(struct spa *spa);

/* The pool in a folder is that of before or after. */
static bool is_either(const char *folder, const char *before, const char *after, unsigned number)
{
    struct spa *spa = NULL;
    char is[400] = "";
    int rc = reopen_in(folder, &spa);
    if (rc != 0)
        fail_msg("%s -> %s, write %u: the pool cannot be opened: %s", before, after, number,
                 err_text(rc));
    describe(root_of(spa), is);
    if (strcmp(is, before) != 0 && strcmp(is, after) != 0)
        fail_msg("%s -> %s, write %u: the tree is %s", before, after, number, is);
    make_dataset(spa, "tank/z");
    assert_ok(spa_close(spa, SPA_END_DROP));
    return strcmp(is, after) == 0;
}

/* One in so many; opening a pool takes a tenth of a second. */
#define EVERY_PICTURE 3
#define EVERY_STOP    11

static void crash_at_each_write(const char *type, size_t n, change_fn *prepare, change_fn *change,
                                const char *before, const char *after)
{
    char folder[100];
    unsigned changed = 0;
    struct spa *spa = create(type, n);
    if (prepare)
        assert_ok(prepare(spa));
    assert_tree(spa, before);
    watch(spa, true, 0);
    assert_ok(change(spa));
    stage.picture = false;
    assert_tree(spa, after);
    assert_ok(spa_close(spa, SPA_END_DROP));
    assert_in_range(stage.pictures, 10, SHOTS_MAX - 1);
    for (unsigned i = 0; i < stage.pictures; i += EVERY_PICTURE) {
        snprintf(folder, sizeof folder, "%s/%u", shots, i);
        changed += is_either(folder, before, after, i);
    }
    assert_in_range(changed, 1, stage.pictures - 1);
}

/* All devices that the pool had fail from a write on: the pool stops, and is one of both when it is
 * opened. */
static void stop_at_each_write(const char *type, size_t n, change_fn *prepare, change_fn *change,
                               const char *before, const char *after)
{
    int rc = -EIO;
    for (unsigned i = 1; rc != 0; i += EVERY_STOP) {
        struct spa *spa = create(type, n);
        if (prepare)
            assert_ok(prepare(spa));
        watch(spa, false, i);
        rc = change(spa);
        stage.fail_from = 0;
        assert_ok(spa_close(spa, SPA_END_DROP));
        is_either(dir, before, after, i);
    }
}

static int make_mirror(struct spa *spa)
{
    return attach(spa, 0, 1, false);
}

static int add_stripe(struct spa *spa)
{
    return add(spa, NULL, 3, 1);
}

static int add_raidz(struct spa *spa)
{
    return add(spa, "raidz1", 3, 3);
}

static int detach_second(struct spa *spa)
{
    return spa_vdev_detach(spa, disk[1]);
}

static int replace_second(struct spa *spa)
{
    return attach(spa, 1, 5, true);
}

static const struct crash {
    const char *type;
    size_t n;
    change_fn *prepare, *change;
    const char *before, *after;
} crashes[] = {
    {NULL, 1, NULL, add_stripe, "root(0)", "root(0 3)"},
    {"mirror", 2, NULL, add_raidz, "root(mirror(0 1))", "root(mirror(0 1) raidz(3 4 5))"},
    {NULL, 1, NULL, make_mirror, "root(0)", "root(mirror(0 1))"},
    {"mirror", 2, NULL, detach_second, "root(mirror(0 1))", "root(0)"},
    {"mirror", 3, NULL, detach_second, "root(mirror(0 1 2))", "root(mirror(0 2))"},
    {"raidz1", 3, NULL, replace_second, "root(raidz(0 1 2))", "root(raidz(0 replacing(1 5) 2))"},
    {"raidz1", 3, replace_second, detach_second, "root(raidz(0 replacing(1 5) 2))", "root(raidz(0 5 2))"},
};

static void a_crash_leaves_the_old_or_the_new_pool(void **state)
{
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        const struct crash *c = &crashes[i];
        crash_at_each_write(c->type, c->n, c->prepare, c->change, c->before, c->after);
    }
}

static void devices_that_fail_meanwhile_leave_the_old_or_the_new_pool(void **state)
{
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        const struct crash *c = &crashes[i];
        stop_at_each_write(c->type, c->n, c->prepare, c->change, c->before, c->after);
    }
}

static bool second_fails;

static int fail_second(void *arg, enum device_op op, uint64_t offset, size_t n)
{
    return op == DEVICE_WRITE && __atomic_load_n(&second_fails, __ATOMIC_RELAXED) ? -EIO : 0;
}

static void a_faulted_device_is_usable_again_after_clear(void **state)
{
    struct spa *spa = create("mirror", 2);
    struct vdev *leaf = find(spa, disk[1]);
    assert_ok(spa_sync_now(spa));
    assert_ok(device_fault(&leaf->device, leaf->device, fail_second, NULL));
    second_fails = true;
    make_dataset(spa, "tank/b");
    assert_int_equal(leaf->state, VDEV_FAULTED);
    assert_true(leaf->stats.write_errors > 0);
    make_dataset(spa, "tank/c");
    second_fails = false;
    assert_ok(spa_vdev_clear(spa, NULL));
    assert_int_equal(leaf->state, VDEV_HEALTHY);
    assert_int_equal(leaf->stats.write_errors, 0);
    assert_true(lacks(spa, disk[1]));
    make_dataset(spa, "tank/d");
    spa = export_import(spa);
    assert_int_equal(root_of(spa)->state, VDEV_HEALTHY);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

/* ---- Joining and leaving ---- */

static void what_cannot_join_is_refused(void **state)
{
    struct spa *spa = create("raidz1", 3);
    fresh_disk(3, DISK_SIZE - (8 << 20));
    fresh_disk(4, 10 << 20);
    assert_refused(attach(spa, 1, 5, false), -ENOTSUP, "can only attach to mirrors and top-level disks");
    assert_refused(attach(spa, 1, 3, true), -EOVERFLOW, "device is too small");
    assert_refused(attach(spa, 1, 4, true), -EOVERFLOW, "device is too small");
    assert_refused(attach(spa, 1, 2, true), -EBUSY, "is part of active pool 'tank'");
    assert_refused(attach(spa, 1, 1, true), -EBUSY, "is part of active pool 'tank'");
    assert_refused(attach(spa, 5, 1, true), -ENODEV, "no such device in pool");
    assert_refused(spa_vdev_detach(spa, disk[1]), -ENOTSUP, "only applicable to mirror and replacing vdevs");
    struct spa_attach_args args = {.name = disk[1], .path = disk[5], .ashift = 13, .replace = true};
    assert_refused(spa_vdev_attach(spa, &args), -EDOM, "different optimal sector size");
    assert_refused(add(spa, NULL, 2, 1), -EBUSY, "is part of active pool 'tank'");
    assert_refused(add(spa, NULL, 4, 1), -EOVERFLOW, "too small");
    assert_tree(spa, "root(raidz(0 1 2))");
    assert_ok(attach(spa, 1, 5, true));
    fresh_disk(3, DISK_SIZE);
    assert_refused(attach(spa, 1, 3, true), -EALREADY, "already in replacing/spare config");
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

struct range_seen {
    unsigned long long max;
    unsigned ended;
};

/* No resilver walks a tree that lacks txgs of its range. It ends in a txg after its walk. */
static int look_at_record(void *arg, const struct nvlist *record)
{
    struct range_seen *seen = arg;
    const char *name = nvlist_string_or(record, "internal_name", "");
    const char *text = nvlist_string_or(record, "history internal str", "");
    if (strcmp(name, "scan setup") == 0)
        assert_int_equal(sscanf(text, "func=2 mintxg=%*u maxtxg=%llu", &seen->max), 1);
    else if (strcmp(name, "scan done") == 0 && ++seen->ended)
        assert_true(nvlist_uint64_or(record, "history txg", 0) > seen->max + 1);
    return 0;
}

static void a_resilver_waits_for_the_txgs_that_were_open(void **state)
{
    struct range_seen seen = {0, 0};
    unsetenv(SCAN_BLOCKS);
    struct spa *spa = create(NULL, 1);
    setenv(SCAN_BLOCKS, "0", 1);
    assert_ok(attach(spa, 0, 1, false));
    assert_ok(spa_scan_wait(spa, SPA_SCAN_RESILVER, 60));
    assert_false(lacks(spa, disk[1]));
    assert_ok(spa_history_each(spa, look_at_record, &seen));
    assert_int_equal(seen.ended, 1);
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

static void the_new_device_stays_when_it_has_everything(void **state)
{
    struct dataset *ds;
    struct spa *spa = create(NULL, 1);
    struct vdev *top = root_of(spa)->child[0];
    assert_ok(attach(spa, 0, 1, true));
    assert_tree(spa, "root(replacing(0 1))");
    assert_ptr_equal(root_of(spa)->child[0], top);
    assert_true(find(spa, disk[1])->resilver_txg != 0);
    spa = export_import(spa);
    assert_tree(spa, "root(replacing(0 1))");
    assert_true(lacks(spa, disk[1]));
    make_dataset(spa, "tank/b");
    unsetenv(SCAN_BLOCKS);
    spa = export_import(spa);
    setenv(SCAN_BLOCKS, "0", 1);
    assert_ok(spa_scan_wait(spa, SPA_SCAN_RESILVER, 60));
    assert_tree(spa, "root(1)");
    assert_int_equal(find(spa, disk[1])->resilver_txg, 0);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
    spa = reopen(); /* the old one has no label of the pool any more */
    assert_ok(dataset_hold(spa_dsl(spa), "tank/b", &ds));
    dataset_rele(ds);
    assert_ok(attach(spa, 1, 0, false));
    assert_tree(spa, "root(mirror(1 0))");
    assert_ok(spa_close(spa, SPA_END_DESTROY));
}

static void a_device_with_the_same_path_replaces_one_that_is_away(void **state)
{
    struct spa *spa = create("mirror", 2);
    assert_ok(spa_vdev_offline(spa, disk[1], false));
    fresh_disk(1, DISK_SIZE);
    assert_ok(attach(spa, 1, 1, true));
    struct vdev *pair = root_of(spa)->child[0]->child[1];
    assert_string_equal(pair->kind->type, "replacing");
    assert_non_null(strstr(pair->child[0]->path, "disk1.img/old"));
    assert_ok(spa_vdev_detach(spa, disk[1])); /* given up */
    assert_tree(spa, "root(mirror(0 1))");
    assert_int_equal(find(spa, disk[1])->state, VDEV_OFFLINE);
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void the_last_copy_cannot_leave(void **state)
{
    enum vdev_state now;
    struct spa *spa = create("mirror", 2);
    assert_ok(spa_vdev_offline(spa, disk[1], false));
    assert_refused(spa_vdev_detach(spa, disk[0]), -EBUSY, "no valid replicas");
    assert_ok(spa_vdev_online(spa, disk[1], &now));
    assert_refused(spa_vdev_detach(spa, disk[0]), -EBUSY, "no valid replicas");
    assert_ok(spa_vdev_detach(spa, disk[1]));
    assert_tree(spa, "root(0)");
    assert_refused(spa_vdev_detach(spa, disk[0]), -ENOTSUP, "only applicable");
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

static void new_space_is_used(void **state)
{
    struct spa_stats before, after;
    struct spa *spa = create("mirror", 2);
    spa_stats(spa, &before);
    assert_ok(add(spa, "mirror", 2, 2));
    spa_stats(spa, &after);
    assert_int_equal(after.size, 2 * before.size);
    assert_tree(spa, "root(mirror(0 1) mirror(2 3))");
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "tank/n%d", i);
        make_dataset(spa, name);
    }
    spa = export_import(spa);
    assert_tree(spa, "root(mirror(0 1) mirror(2 3))");
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

/* ---- Everything at once ---- */

struct crowd {
    struct spa *spa;
    atomic_bool stop;
    atomic_uint reads, lists;
};

static int any(void *arg, const void *data)
{
    return 0;
}

static void *read_on(void *arg)
{
    struct crowd *c = arg;
    unsigned char *buf = NULL;
    assert_int_equal(posix_memalign((void **)&buf, 4096, 4096), 0);
    for (uint64_t at = 0; !atomic_load(&c->stop); at = (at + 4096) % (16 << 20)) {
        struct vdev *root = root_of(c->spa);
        for (unsigned i = 0; i < vdev_tops(root); i++)
            assert_ok(vdev_read(vdev_lookup_top(root, i), at, buf, 4096, 1000000, any, NULL));
        atomic_fetch_add(&c->reads, 1);
    }
    free(buf);
    return NULL;
}

static void *list_on(void *arg)
{
    struct crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        struct nvlist *l = NULL;
        struct spa_stats st;
        assert_ok(spa_vdev_list(c->spa, &l));
        nvlist_free(l);
        spa_stats(c->spa, &st);
        atomic_fetch_add(&c->lists, 1);
    }
    return NULL;
}

static void *write_on(void *arg)
{
    struct crowd *c = arg;
    for (int i = 0; !atomic_load(&c->stop); i++) {
        char name[32];
        snprintf(name, sizeof name, "tank/w%d", i);
        make_dataset(c->spa, name);
    }
    return NULL;
}

static void others_never_notice(void **state)
{
    void *(*const threads[])(void *) = {read_on, read_on, list_on, write_on};
    enum { N = sizeof threads / sizeof *threads };
    struct crowd c = {.spa = create(NULL, 1)};
    enum vdev_state now;
    pthread_t thread[N];
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, threads[i], &c), 0);
    for (int round = 0; round < 6; round++) {
        assert_ok(attach(c.spa, 0, 1, false));
        assert_ok(attach(c.spa, 0, 2, false));
        assert_ok(spa_vdev_offline(c.spa, disk[2], false));
        assert_ok(spa_vdev_online(c.spa, disk[2], &now));
        assert_ok(spa_vdev_detach(c.spa, disk[1]));
        assert_ok(attach(c.spa, 2, 1, true));
        assert_ok(spa_vdev_detach(c.spa, disk[2]));
        assert_ok(spa_vdev_detach(c.spa, disk[1]));
        if (round == 2)
            assert_ok(add(c.spa, "mirror", 3, 2));
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    assert_true(atomic_load(&c.reads) > 0 && atomic_load(&c.lists) > 0);
    struct spa *spa = export_import(c.spa);
    assert_tree(spa, "root(0 mirror(3 4))");
    assert_ok(spa_close(spa, SPA_END_EXPORT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_goes_and_comes_back),
        cmocka_unit_test(only_its_own_device_comes_back),
        cmocka_unit_test(devices_are_looked_for),
        cmocka_unit_test(a_faulted_device_is_usable_again_after_clear),
        cmocka_unit_test(what_cannot_join_is_refused),
        cmocka_unit_test(the_new_device_stays_when_it_has_everything),
        cmocka_unit_test(a_resilver_waits_for_the_txgs_that_were_open),
        cmocka_unit_test(a_device_with_the_same_path_replaces_one_that_is_away),
        cmocka_unit_test(the_last_copy_cannot_leave),
        cmocka_unit_test(new_space_is_used),
        cmocka_unit_test(others_never_notice),
        cmocka_unit_test(a_crash_leaves_the_old_or_the_new_pool),
        cmocka_unit_test(devices_that_fail_meanwhile_leave_the_old_or_the_new_pool),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
