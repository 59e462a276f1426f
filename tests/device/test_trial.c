/* Devices of a trial: what their text says, what goes wrong on them, and how long they take. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/test.h"
#include "device/device.h"
#include "device/trial_impl.h"
#include "util/err.h"

#define SIZE (8u << 20)

static char folder[] = "/tmp/tarn-trial-XXXXXX";
static char image[64], text[64];

static void say(const char *words)
{
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    fprintf(f, "# a comment\n\n*/other.img gone\n%s %s\n", "*/image", words);
    fclose(f);
}

static int setup(void **state)
{
    assert_non_null(mkdtemp(folder));
    snprintf(image, sizeof image, "%s/image", folder);
    snprintf(text, sizeof text, "%s/text", folder);
    setenv("TARN_TRIAL", text, 1);
    return 0;
}

static int teardown(void **state)
{
    unlink(image);
    unlink(text);
    return rmdir(folder);
}

/* A new image of zeros, opened as the words say. */
static struct device *open_said(const char *words)
{
    struct device *d;
    int fd = open(image, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    close(fd);
    say(words);
    assert_int_equal(device_open(&d, image, DEVICE_OPEN_WRITE), 0);
    return d;
}

/* What is on the disk, whatever the device says. */
static void on_disk(uint64_t offset, void *data, size_t n)
{
    int fd = open(image, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, data, n, (off_t)offset), (ssize_t)n);
    close(fd);
}

static unsigned bits_set_in(const unsigned char *data, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (unsigned)__builtin_popcount(data[i]);
    return sum;
}

static void texts_are_understood(void **state)
{
    struct trial_spec s;
    int rc;
    assert_true(trial_spec_find("*/a model=hdd7200 seed=5\n*/b gone", "/x/a", &s, &rc));
    assert_true(s.model.any && s.model.seek_max > 0 && s.seed == 5 && !s.gone);
    assert_true(trial_spec_find("/x/* lost=0.5 offset=4M-1G after=2s until=1.5s\n", "/x/a", &s, &rc));
    assert_true(s.chance[TRIAL_LOST] == 0.5 && s.from == 4u << 20 && s.to == 1u << 30);
    assert_true(s.after == 2000000000 && s.until == 1500000000);
    assert_true(trial_spec_find("* rate=100M latency=5ms\n/x/a\n", "/x/a", &s, &rc)); /* the last one */
    assert_false(s.model.any);
    assert_false(trial_spec_find("*/b gone\n", "/x/a", &s, &rc));
    assert_int_equal(rc, 0);
    static const char *const wrong[] = {"model=tape", "lost=2", "lost=-1", "lost=x", "rate=5X", "offset=5",
                                        "after=3", "nonsense", "seed=", "model", "lost=nan", "rate=1e30"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[64];
        snprintf(line, sizeof line, "*/b gone\n*/a %s", wrong[i]);
        assert_false(trial_spec_find(line, "/x/a", &s, &rc));
        assert_int_equal(rc, -EINVAL);
        assert_non_null(strstr(err_text(rc), "line 2"));
    }
}

static void errors_do_nothing(void **state)
{
    unsigned char data[4096], raw[4096];
    memset(data, 7, sizeof data);
    struct device *d = open_said("write-error=1 flush-error=1");
    assert_int_equal(device_write(d, 8192, data, sizeof data), -EIO);
    assert_int_equal(device_read(d, 8192, data, sizeof data), 0);
    assert_int_equal(device_flush(d), -EIO);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, sizeof raw), 0);
    device_close(d);
    d = open_said("read-error=1");
    assert_int_equal(device_write(d, 8192, data, sizeof data), 0);
    assert_int_equal(device_read(d, 8192, data, sizeof data), -EIO);
    device_close(d);
    d = open_said("gone");
    assert_int_equal(device_read(d, 0, data, sizeof data), -EIO);
    assert_int_equal(device_discard(d, 0, 4096), -EIO);
    device_close(d);
}

static void lies_are_told(void **state)
{
    unsigned char ones[4096], raw[8192];
    memset(ones, 255, sizeof ones);
    struct device *d = open_said("lost=1");
    assert_int_equal(device_write(d, 8192, ones, sizeof ones), 0);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, sizeof raw), 0);
    device_close(d);
    d = open_said("torn=1");
    assert_int_equal(device_write(d, 8192, ones, sizeof ones), 0);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, 2048), 2048 * 8);
    assert_int_equal(bits_set_in(raw + 2048, 6144), 0);
    device_close(d);
    d = open_said("misdirected=1");
    assert_int_equal(device_write(d, 8192, ones, sizeof ones), 0);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, 4096), 0);
    assert_int_equal(bits_set_in(raw + 4096, 4096), 4096 * 8);
    assert_int_equal(device_write(d, SIZE - 4096, ones, sizeof ones), 0); /* there is no room behind it */
    device_close(d);
    d = open_said("flip-write=1");
    assert_int_equal(device_write(d, 8192, ones, sizeof ones), 0);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, 4096), 4096 * 8 - 1);
    device_close(d);
}

static void read_bits_flip_once(void **state)
{
    unsigned char data[4096], raw[4096];
    struct device *d = open_said("flip-read=1");
    assert_int_equal(device_read(d, 8192, data, sizeof data), 0);
    assert_int_equal(bits_set_in(data, sizeof data), 1);
    on_disk(8192, raw, sizeof raw);
    assert_int_equal(bits_set_in(raw, sizeof raw), 0);
    device_close(d);
}

static void places_are_kept_to(void **state)
{
    unsigned char data[4096] = {1};
    struct device *d = open_said("write-error=1 offset=1M-2M");
    assert_int_equal(device_write(d, (1 << 20) - 4096, data, sizeof data), 0);
    assert_int_equal(device_write(d, 1 << 20, data, sizeof data), -EIO);
    assert_int_equal(device_write(d, (2 << 20) - 4096, data, sizeof data), -EIO);
    assert_int_equal(device_write(d, 2 << 20, data, sizeof data), 0);
    device_close(d);
}

static void chances_repeat(void **state)
{
    uint64_t seen[2] = {0, 0};
    for (int turn = 0; turn < 2; turn++) {
        unsigned char data[512];
        struct device *d = open_said("read-error=0.5 seed=9");
        for (int i = 0; i < 60; i++)
            seen[turn] = seen[turn] << 1 | (device_read(d, 0, data, sizeof data) != 0);
        device_close(d);
    }
    assert_int_equal(seen[0], seen[1]);
    assert_in_range(__builtin_popcountll(seen[0]), 10, 50);
}

static void a_changed_text_counts(void **state)
{
    unsigned char data[512];
    struct device *d = open_said("");
    assert_int_equal(device_read(d, 0, data, sizeof data), 0);
    say("gone");
    while (device_read(d, 0, data, sizeof data) == 0)
        ; /* the text is looked at from time to time */
    say("nonsense"); /* nothing changes */
    say("");
    while (device_read(d, 0, data, sizeof data) != 0)
        ;
    device_close(d);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void slow_devices_take_their_time(void **state)
{
    static unsigned char data[1 << 20];
    struct device *d = open_said("rate=64M");
    double began = seconds();
    for (int i = 0; i < 8; i++)
        assert_int_equal(device_write(d, (uint64_t)i << 20, data, sizeof data), 0);
    assert_true(seconds() - began >= 0.124);
    device_close(d);
    d = open_said("model=hdd7200");
    began = seconds();
    for (int i = 0; i < 20; i++) /* to and fro: at least from track to track */
        assert_int_equal(device_read(d, i % 2 ? 7u << 20 : 4096, data, 4096), 0);
    assert_true(seconds() - began >= 20 * 0.0008);
    device_close(d);
    d = open_said("model=ssd");
    for (int i = 0; i < 100; i++)
        assert_int_equal(device_read(d, (uint64_t)i * 4096, data, 4096), 0);
    assert_int_equal(device_flush(d), 0);
    device_close(d);
}

static void a_wrong_text_is_refused(void **state)
{
    struct device *d = open_said("");
    device_close(d);
    say("flip=1");
    assert_int_equal(device_open(&d, image, DEVICE_OPEN_WRITE), -EINVAL);
    unlink(text);
    assert_int_equal(device_open(&d, image, DEVICE_OPEN_WRITE), -ENOENT);
    assert_int_equal(device_open(&d, image, DEVICE_OPEN_NOLOCK), 0); /* no trial for who only looks */
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_understood), cmocka_unit_test(errors_do_nothing),
        cmocka_unit_test(lies_are_told),        cmocka_unit_test(read_bits_flip_once),
        cmocka_unit_test(places_are_kept_to),   cmocka_unit_test(chances_repeat),
        cmocka_unit_test(a_changed_text_counts), cmocka_unit_test(slow_devices_take_their_time),
        cmocka_unit_test(a_wrong_text_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
