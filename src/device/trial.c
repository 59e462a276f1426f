/* The driver of trial devices: decides for each request what goes wrong with it, and when it is done. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "device/device_impl.h"
#include "device/trial_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

#define LOOK_EVERY 50000000ull /* nanoseconds between looks at the file */
#define SECTOR     512u
#define TEXT_MAX   (1u << 20)

struct trial {
    struct device device;
    struct device *below;
    struct trial_queue *queue;
    pthread_mutex_t lock; /* guards what follows */
    struct trial_spec spec;
    bool on;              /* the file says something about it */
    struct timespec changed; /* of the file, when it was read */
    uint64_t looked, said;   /* when, nanoseconds */
    uint64_t random;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- What it is at the moment ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = f ? calloc(1, TEXT_MAX + 1) : NULL;
    if (text)
        (void)!fread(text, 1, TEXT_MAX, f);
    if (f)
        fclose(f);
    return text;
}

/* With the lock. On an error all stays as it is. */
static int look(struct trial *t)
{
    const char *path = getenv("TARN_TRIAL");
    struct stat st;
    if (!path || stat(path, &st) != 0)
        return err_set(ENOENT, "TARN_TRIAL: %s cannot be read", path ? path : "?");
    if (memcmp(&st.st_mtim, &t->changed, sizeof st.st_mtim) == 0)
        return 0;
    CLEANUP_FREE char *text = read_text(path);
    struct trial_spec spec;
    int rc = text ? 0 : err_set(EIO, "TARN_TRIAL: %s cannot be read", path);
    bool found = rc == 0 && trial_spec_find(text, t->device.path, &spec, &rc);
    if (rc != 0)
        return rc;
    t->changed = st.st_mtim;
    t->on = found;
    if (found) {
        t->spec = spec;
        t->random = spec.seed;
        for (const char *p = t->device.path; *p; p++)
            t->random = (t->random ^ (unsigned char)*p) * 0x100000001b3ull;
        t->said = now();
    }
    return 0;
}

static uint64_t random_number(struct trial *t)
{
    t->random += 0x9e3779b97f4a7c15ull;
    uint64_t z = t->random;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static bool happens(struct trial *t, double chance)
{
    return chance > 0 && (double)(random_number(t) >> 11) / (double)(1ull << 53) < chance;
}

/* What is to be done with one request. */
struct verdict {
    bool error, trace;
    int fault;       /* enum trial_fault, or -1 */
    uint64_t random; /* for the fault */
    struct trial_model model;
};

static bool can_happen(enum trial_fault f, enum device_op op)
{
    switch (op) {
    case DEVICE_READ:
        return f == TRIAL_READ_ERROR || f == TRIAL_FLIP_READ;
    case DEVICE_WRITE:
        return f == TRIAL_WRITE_ERROR || f == TRIAL_LOST || f == TRIAL_TORN || f == TRIAL_MISDIRECTED ||
               f == TRIAL_FLIP_WRITE;
    case DEVICE_FLUSH:
        return f == TRIAL_FLUSH_ERROR;
    case DEVICE_DISCARD:
        break;
    }
    return false;
}

static struct verdict judge(struct trial *t, enum device_op op, uint64_t offset, uint64_t size)
{
    struct verdict v = {.fault = -1};
    uint64_t at = now();
    MUTEX_GUARD(&t->lock);
    if (at - t->looked > LOOK_EVERY) {
        int rc = look(t);
        t->looked = at;
        if (rc != 0)
            log_warn("%s: %s", t->device.path, err_text(rc));
    }
    if (!t->on)
        return v;
    const struct trial_spec *s = &t->spec;
    v.model = s->model;
    v.trace = s->trace;
    v.error = s->gone;
    uint64_t age = at - t->said;
    bool here = op == DEVICE_FLUSH || (offset < s->to && offset + size > s->from);
    for (int f = 0; f < TRIAL_FAULTS && here && age >= s->after && age < s->until && v.fault < 0; f++)
        if (can_happen(f, op) && happens(t, s->chance[f]))
            v.fault = f;
    v.error |= v.fault >= TRIAL_READ_ERROR && v.fault <= TRIAL_FLUSH_ERROR;
    v.random = random_number(t);
    return v;
}

static void note(const struct trial *t, const struct verdict *v, enum device_op op, uint64_t offset, uint64_t size)
{
    static const char *const ops[] = {"read", "write", "flush", "discard"};
    if (v->trace)
        log_info("trial %s: %s %llu+%llu%s", t->device.path, ops[op], (unsigned long long)offset,
                 (unsigned long long)size, v->error || v->fault >= 0 ? " with a fault" : "");
}

/* ---- Faults ---- */

static void flip(unsigned char *data, uint64_t size, uint64_t random)
{
    if (size > 0)
        data[random / 8 % size] ^= (unsigned char)(1u << random % 8);
}

static int bad_write(struct trial *t, const struct verdict *v, uint64_t offset, const void *data, size_t n)
{
    struct device_info info;
    device_info(t->below, &info);
    if (v->fault == TRIAL_LOST)
        return 0;
    if (v->fault == TRIAL_TORN)
        return n <= SECTOR ? 0 : device_write(t->below, offset, data, P2_ROUND_UP(n / 2, SECTOR));
    if (v->fault == TRIAL_MISDIRECTED) {
        uint64_t other = offset + 2 * n <= info.size ? offset + n : offset >= n ? offset - n : offset;
        return device_write(t->below, other, data, n);
    }
    CLEANUP_FREE unsigned char *copy = aligned_alloc(4096, P2_ROUND_UP(n, (size_t)4096));
    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, n);
    flip(copy, n, v->random);
    return device_write(t->below, offset, copy, n);
}

/* ---- The driver ---- */

static int trial_read(struct device *d, uint64_t offset, void *data, size_t n)
{
    struct trial *t = (struct trial *)d;
    return device_wait(&t->device, DEVICE_READ, offset, data, n);
}

static int trial_write(struct device *d, uint64_t offset, const void *data, size_t n)
{
    struct trial *t = (struct trial *)d;
    return device_wait(&t->device, DEVICE_WRITE, offset, (void *)data, n);
}

/* Without memory for a child's request the fault is left out. */
struct flipped {
    struct device_io io;
    struct device_io *parent;
    uint64_t random;
};

static void flipped_done(struct device_io *io, int rc)
{
    struct flipped *f = (struct flipped *)io;
    struct device_io *parent = f->parent;
    if (rc == 0)
        flip(parent->data, parent->size, f->random);
    free(f);
    parent->done(parent, rc);
}

static struct device_io *flip_later(struct device_io *io, uint64_t random)
{
    struct flipped *f = malloc(sizeof *f);
    if (!f)
        return io;
    *f = (struct flipped){.io = *io, .parent = io, .random = random};
    f->io.done = flipped_done;
    return &f->io;
}

static void trial_submit(struct device *d, struct device_io *io)
{
    struct trial *t = (struct trial *)d;
    struct verdict v = judge(t, io->op, io->offset, io->size);
    note(t, &v, io->op, io->offset, io->size);
    if (v.error) {
        io->done(io, -EIO);
        return;
    }
    if (v.fault >= 0 && io->op == DEVICE_WRITE) {
        io->done(io, bad_write(t, &v, io->offset, io->data, io->size));
        return;
    }
    if (v.fault == TRIAL_FLIP_READ)
        io = flip_later(io, v.random);
    if (v.model.any)
        trial_queue_submit(t->queue, &v.model, io);
    else
        device_submit(t->below, io);
}

static void trial_info(struct device *d, struct device_info *out)
{
    device_info(((struct trial *)d)->below, out);
    out->vectors = false; /* each request is in one piece */
}

static void trial_close(struct device *d)
{
    struct trial *t = (struct trial *)d;
    trial_queue_free(t->queue);
    device_close(t->below);
    pthread_mutex_destroy(&t->lock);
    free(t->device.path);
    free(t);
}

static const struct device_driver trial_driver = {
    .name = "trial",
    .close = trial_close,
    .info = trial_info,
    .submit = trial_submit,
    .read = trial_read,
    .write = trial_write,
};

int trial_wrap(struct device **d)
{
    if (!getenv("TARN_TRIAL"))
        return 0;
    struct trial *t CLEANUP_FREE = calloc(1, sizeof *t);
    char *path CLEANUP_FREE = strdup((*d)->path);
    struct trial_queue *q = t && path ? trial_queue_new(*d, 1) : NULL;
    if (!q)
        return -ENOMEM;
    *t = (struct trial){.device = {&trial_driver, path}, .below = *d, .queue = q};
    int rc = look(t);
    if (rc != 0) {
        trial_queue_free(q);
        return rc;
    }
    pthread_mutex_init(&t->lock, NULL);
    path = NULL;
    *d = &STEAL(t)->device;
    return 0;
}
