#include <errno.h>
#include <pthread.h>

#include "device/device.h"
#include "util/log.h"
#include "vdev/label.h"
#include "vdev/label_impl.h"

struct batch {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned pending, written; /* under lock, as rc */
    int rc;
};

struct batch_io {
    struct device_io io;
    struct batch *batch;
};

static void batch_done(struct device_io *io, int rc)
{
    struct batch *b = ((struct batch_io *)io)->batch;
    pthread_mutex_lock(&b->lock);
    if (rc == 0)
        b->written++;
    else if (!b->rc)
        b->rc = rc;
    if (--b->pending == 0)
        pthread_cond_signal(&b->cond);
    pthread_mutex_unlock(&b->lock);
}

int label_write_copies(struct device *d, const struct label_copy *copies, unsigned count, size_t n,
                       unsigned *written)
{
    struct batch b = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .pending = count};
    struct batch_io ios[LABELS];
    for (unsigned i = 0; i < count; i++) {
        ios[i] = (struct batch_io){.io = {.op = DEVICE_WRITE,
                                          .offset = copies[i].offset,
                                          .size = n,
                                          .data = copies[i].data,
                                          .done = batch_done},
                                   .batch = &b};
        device_submit(d, &ios[i].io);
    }
    pthread_mutex_lock(&b.lock);
    while (b.pending)
        pthread_cond_wait(&b.cond, &b.lock);
    pthread_mutex_unlock(&b.lock);
    pthread_cond_destroy(&b.cond);
    pthread_mutex_destroy(&b.lock);
    if (b.rc && b.written)
        log_warn("%s: %u of %u label copies could not be written", d->path, count - b.written,
                 count);
    *written = b.written;
    return b.rc;
}
