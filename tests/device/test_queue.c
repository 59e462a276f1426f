/* The queue with an engine that does nothing by itself: the order in which requests may start. */
#include "device_test.h"

#include <errno.h>

#include "device/queue_impl.h"

static int woken, done_rc, done_count;

static int fake_start(struct queue *q)
{
    return 0;
}

static void fake_wake(struct queue *q)
{
    woken++;
}

static void fake_join(struct queue *q)
{
}

static const struct engine fake = {
    .name = "fake", .start = fake_start, .wake = fake_wake, .join = fake_join};

static void done(struct device_io *io, int rc)
{
    done_rc = rc;
    done_count++;
}

static struct device_io *take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct device_io *io = queue_take(q);
    pthread_mutex_unlock(&q->lock);
    return io;
}

static char dir[PATH_MAX], path[PATH_MAX + 16];
static struct queue queue;
static int fd;

static int setup(void **state)
{
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/vdev", dir);
    make_file(path, 1 << 20);
    fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(queue_init(&queue, fd, false), 0);
    queue.engine = &fake;
    atomic_store(&queue.direct, true);
    done_count = done_rc = 0;
    return 0;
}

static int teardown(void **state)
{
    queue.head = NULL; /* what a test that failed has left */
    queue.running = queue.writes = 0;
    queue_destroy(&queue);
    close(fd);
    remove_dir(dir);
    return 0;
}

static void test_leave_waits_for_writes(void **state)
{
    struct device_io a = {.op = DEVICE_WRITE, .done = done}, r = {.op = DEVICE_READ, .done = done},
                     b = {.op = DEVICE_WRITE, .done = done}, c = {.op = DEVICE_WRITE, .done = done};
    queue_submit(&queue, &a, false);
    queue_submit(&queue, &r, false);
    assert_ptr_equal(take(&queue), &a);
    assert_ptr_equal(take(&queue), &r);
    queue_submit(&queue, &b, true);
    queue_submit(&queue, &c, false);
    assert_null(take(&queue)); /* a is still writing */
    queue_finish(&queue, &r, 0);
    assert_null(take(&queue));
    assert_true(atomic_load(&queue.direct));
    woken = 0;
    queue_finish(&queue, &a, 0);
    assert_true(woken > 0);
    assert_false(atomic_load(&queue.direct));
    assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
    assert_ptr_equal(take(&queue), &b);
    assert_ptr_equal(take(&queue), &c);
    queue_finish(&queue, &b, -ENOSPC);
    assert_int_equal(done_rc, -ENOSPC);
    queue_finish(&queue, &c, 0);
    assert_int_equal(done_count, 4);
}

static void test_leave_waits_for_synchronous_writes(void **state)
{
    struct device_io b = {.op = DEVICE_WRITE, .done = done};
    queue_write_begin(&queue, false);
    queue_submit(&queue, &b, true);
    assert_null(take(&queue));
    queue_write_end(&queue);
    assert_ptr_equal(take(&queue), &b);
    queue_finish(&queue, &b, 0);
}

static _Atomic bool returned;

static void *write_leaving(void *arg)
{
    queue_write_begin(&queue, true);
    atomic_store(&returned, true);
    bool direct = atomic_load(&queue.direct);
    queue_write_end(&queue);
    return direct ? arg : NULL;
}

static void test_synchronous_write_leaves(void **state)
{
    struct device_io a = {.op = DEVICE_WRITE, .done = done};
    pthread_t t;
    void *still_direct;
    queue_submit(&queue, &a, false);
    assert_ptr_equal(take(&queue), &a);
    assert_int_equal(pthread_create(&t, NULL, write_leaving, &a), 0);
    pthread_mutex_lock(&queue.lock);
    while (!queue.leaving && !atomic_load(&returned)) { /* the thread says so when it waits */
        pthread_mutex_unlock(&queue.lock);
        sched_yield();
        pthread_mutex_lock(&queue.lock);
    }
    pthread_mutex_unlock(&queue.lock);
    assert_true(atomic_load(&queue.direct));
    queue_finish(&queue, &a, 0);
    pthread_join(t, &still_direct);
    assert_null(still_direct);
}

/* The file system refuses what it said it could do: the request is done again without O_DIRECT. */
static void test_refused(void **state)
{
    struct device_io a = {.op = DEVICE_WRITE, .done = done};
    queue_submit(&queue, &a, false);
    assert_ptr_equal(take(&queue), &a);
    queue_finish(&queue, &a, -EINVAL);
    assert_int_equal(done_count, 0);
    assert_false(atomic_load(&queue.direct));
    assert_ptr_equal(take(&queue), &a);
    queue_finish(&queue, &a, -EINVAL);
    assert_int_equal(done_count, 1);
    assert_int_equal(done_rc, -EINVAL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leave_waits_for_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leave_waits_for_synchronous_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_synchronous_write_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
