/* The devices of zpool create: words, counts, paths and the layout that -n shows. */
#include "cli_test.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/vdev_spec_impl.h"
#include "util/err.h"

static char dir[] = "/tmp/tarn-spec-XXXXXX";
static char file[8][64];
static struct caught out;

static int make_files(void **state)
{
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < 8; i++) {
        snprintf(file[i], sizeof file[i], "%s/d%d", dir, i);
        fclose(fopen(file[i], "w"));
    }
    return 0;
}

static int remove_files(void **state)
{
    for (int i = 0; i < 8; i++)
        unlink(file[i]);
    return rmdir(dir);
}

/* "mirror 0 1": digits stand for the files. */
static int parse(struct vdev_spec *s, const char *text)
{
    static char copy[300];
    char *argv[40], *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
        argv[argc++] = p[0] >= '0' && p[0] <= '7' && !p[1] ? file[p[0] - '0'] : p;
    return vdev_spec_parse(s, argc, argv);
}

static void refuse(const char *text, const char *sentence)
{
    struct vdev_spec s;
    catch_begin(&out, STDERR_FILENO);
    int rc = parse(&s, text);
    vdev_spec_free(&s);
    catch_end(&out);
    assert_int_equal(rc, 1);
    assert_string_equal(out.text, sentence);
}

static void counts(void **state)
{
    refuse("mirror 0", "invalid vdev specification: mirror requires at least 2 devices\n");
    refuse("raidz 0", "invalid vdev specification: raidz requires at least 2 devices\n");
    refuse("raidz2 0 1", "invalid vdev specification: raidz2 requires at least 3 devices\n");
    refuse("0 mirror 1 2 raidz3 3 4 5",
           "invalid vdev specification: raidz3 requires at least 4 devices\n");
}

static void paths(void **state)
{
    char text[200];
    refuse("/nonexistent/x", "cannot resolve path '/nonexistent/x'\n");
    refuse("nosuchdevice", "cannot open 'nosuchdevice': no such device in /dev\n"
                           "must be a full path or shorthand device name\n");
    snprintf(text, sizeof text, "cannot use '%s': must be a block device or regular file\n", dir);
    refuse(dir, text);
}

static void layout(void **state)
{
    struct vdev_spec s;
    char want[1000];
    assert_int_equal(parse(&s, "raidz2 0 1 2 3 spare 4 log 5 cache 6"), 0);
    catch_begin(&out, STDOUT_FILENO);
    vdev_spec_print(&s, "tank");
    catch_end(&out);
    snprintf(want, sizeof want,
             "would create 'tank' with the following layout:\n\n\ttank\n\t  raidz2\n\t    %s\n"
             "\t    %s\n\t    %s\n\t    %s\n\tlogs\n\t  %s\n\tcache\n\t  %s\n\tspares\n\t  %s\n",
             file[0], file[1], file[2], file[3], file[5], file[6], file[4]);
    assert_string_equal(out.text, want);
    assert_string_equal(vdev_spec_unsupported(&s), "spares");
    vdev_spec_free(&s);
    assert_int_equal(parse(&s, "draid 0 1 2"), 0);
    assert_string_equal(vdev_spec_unsupported(&s), "draid");
    vdev_spec_free(&s);
    assert_int_equal(parse(&s, "0 1"), 0);
    assert_null(vdev_spec_unsupported(&s));
    assert_int_equal(s.n, 1);
    assert_int_equal(s.group[0].n, 2);
    vdev_spec_free(&s);
}

static void refuse_replication(const char *words, const char *why)
{
    struct vdev_spec s;
    assert_int_equal(parse(&s, words), 0);
    assert_int_equal(vdev_spec_check_replication(&s), why ? -EBUSY : 0);
    if (why)
        assert_string_equal(err_text(-EBUSY), why);
    vdev_spec_free(&s);
}

/* The sentences of the reference. */
static void replication(void **state)
{
    const char *level = "mismatched replication level: ";
    char text[200];
    refuse_replication("0 1 2", NULL);
    refuse_replication("mirror 0 1 mirror 2 3", NULL);
    refuse_replication("raidz 0 1 2 raidz1 3 4", NULL);
    refuse_replication("mirror 0 1 raidz 2 3 4", NULL);
    snprintf(text, sizeof text, "%sboth file and mirror vdevs are present", level);
    refuse_replication("0 mirror 1 2", text);
    snprintf(text, sizeof text, "%sraidz and raidz vdevs with different redundancy, 1 vs. 2 are present",
             level);
    refuse_replication("raidz 0 1 2 raidz2 3 4 5", text);
    snprintf(text, sizeof text,
             "%sraidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present", level);
    refuse_replication("mirror 0 1 raidz2 2 3 4 5", text);
    snprintf(text, sizeof text, "%sboth 2-way and 3-way mirror vdevs are present", level);
    refuse_replication("mirror 0 1 mirror 2 3 4", text);
    assert_int_equal(truncate(file[6], 200 << 20), 0);
    refuse_replication("raidz2 0 1 6", "raidz contains devices of different sizes");
    assert_int_equal(truncate(file[6], 0), 0);
}

/* A new file system must not be lost by naming the wrong device. */
static void contents(void **state)
{
    FILE *f = fopen(file[7], "r+");
    assert_int_equal(ftruncate(fileno(f), 1 << 20), 0);
    assert_null(device_content(file[7]));
    fseek(f, 0x438, SEEK_SET);
    fwrite("\x53\xef", 1, 2, f);
    fflush(f);
    assert_string_equal(device_content(file[7]), "ext4");
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(paths),
        cmocka_unit_test(layout),
        cmocka_unit_test(replication),
        cmocka_unit_test(contents),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
