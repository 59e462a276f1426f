/* model [-s SEED] [-n OPS] [-c EVERY:COMMAND] [-b KIND] [-v] DIR-A DIR-B
 *
 * Runs OPS (default 10000) random operations in DIR-A/t/t and DIR-B/t/t and compares. -c runs COMMAND
 * after every EVERY operations with no file open (to export and import the pool, for instance).
 * -b proves that the test can fail: half way it damages side A behind its back (data, size, mode,
 * name, extra, owner, xattr) or falsifies one result (errno, result). */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

enum { STORY = 30, STORY_LINE = 400 };

long ret[SIDES];
int err[SIDES];
unsigned long step;

static uint64_t seed;
static char story[STORY][STORY_LINE];
static unsigned long told;
static bool verbose;
static const char *damage;
static unsigned long damage_at;

void say(const char *format, ...)
{
    va_list args;
    char *line = story[told++ % STORY];
    int n = snprintf(line, STORY_LINE, "%lu: %s", step, geteuid() ? "(user) " : "");
    va_start(args, format);
    vsnprintf(line + n, STORY_LINE - (size_t)n, format, args);
    va_end(args);
    if (verbose)
        puts(line);
}

void fail(const char *format, ...)
{
    va_list args;
    printf("the last operations:\n");
    for (unsigned long i = told > STORY ? told - STORY : 0; i < told; i++)
        printf("  %s\n", story[i % STORY]);
    printf("FAIL at operation %lu, seed %llu: ", step, (unsigned long long)seed);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    exit(1);
}

void sabotage_result(void)
{
    if (!damage || step < damage_at)
        return;
    if (!strcmp(damage, "errno") && err[A]) {
        err[A] = EIO;
        damage = NULL;
    } else if (!strcmp(damage, "result") && ret[A] > 0) {
        ret[A]--;
        damage = NULL;
    }
}

/* Damages something on side A with plain system calls; true when it did. */
static bool sabotage_side(void)
{
    char path[PATH_ROOM];
    struct stat st;
    int fd;
    bool ok = false;
    pick_file(path);
    if (fstatat(side[A].root, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (!strcmp(damage, "data") && st.st_size > 0 &&
        (fd = openat(side[A].root, path, O_RDWR)) >= 0) {
        char byte = 0;
        off_t at = (off_t)chance((uint64_t)st.st_size);
        ok = pread(fd, &byte, 1, at) == 1;
        byte ^= 0x40;
        ok = ok && pwrite(fd, &byte, 1, at) == 1;
        close(fd);
    } else if (!strcmp(damage, "size")) {
        ok = truncate(full(A, path), st.st_size + 1) == 0;
    } else if (!strcmp(damage, "mode")) {
        ok = fchmodat(side[A].root, path, st.st_mode ^ 1, 0) == 0;
    } else if (!strcmp(damage, "owner")) {
        ok = fchownat(side[A].root, path, st.st_uid + 1, (gid_t)-1, 0) == 0;
    } else if (!strcmp(damage, "name")) {
        ok = unlinkat(side[A].root, path, 0) == 0;
    } else if (!strcmp(damage, "extra")) {
        ok = (fd = openat(side[A].root, "extra", O_CREAT | O_EXCL, 0600)) >= 0;
    } else if (!strcmp(damage, "xattr")) {
        ok = lsetxattr(full(A, path), "user.extra", "x", 1, 0) == 0;
    }
    if (ok)
        printf("damaged %s of %s\n", damage, path);
    return ok;
}

static void open_sides(void)
{
    for (int s = 0; s < SIDES; s++)
        if ((side[s].root = open(side[s].top, O_RDONLY | O_DIRECTORY)) < 0)
            fail("open %s: %s", side[s].top, strerror(errno));
}

static void run_command(const char *command)
{
    say("%s", command);
    compare_tree();
    close_all();
    close(side[A].root);
    close(side[B].root);
    fflush(stdout);
    if (system(command) != 0)
        fail("the command failed");
    open_sides();
    compare_tree();
}

static void run_one(void)
{
    unsigned total = 0;
    const struct op *op;
    for (op = name_ops; op->name; op++)
        total += op->weight;
    for (op = data_ops; op->name; op++)
        total += op->weight;
    unsigned at = (unsigned)chance(total);
    for (op = name_ops; op->name && at >= op->weight; op++)
        at -= op->weight;
    if (!op->name)
        for (op = data_ops; at >= op->weight; op++)
            at -= op->weight;
    /* Without privileges now and then: but what holds open files then may be refused. */
    be_user(one_in(7));
    op->run();
    be_user(false);
}

int main(int argc, char **argv)
{
    unsigned long ops = 10000, every = 0;
    const char *command = NULL, *given = getenv("TARN_SEED");
    int c;
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
    while ((c = getopt(argc, argv, "s:n:c:b:v")) != -1) {
        char *colon = optarg ? strchr(optarg, ':') : NULL;
        if (c == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (c == 'n')
            ops = strtoul(optarg, NULL, 0);
        else if (c == 'c' && colon)
            every = strtoul(optarg, NULL, 0), command = colon + 1;
        else if (c == 'b')
            damage = optarg;
        else if (c == 'v')
            verbose = true;
        else
            return 2;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: model [-s SEED] [-n OPS] [-c EVERY:COMMAND] [-b KIND] [-v] A B\n");
        return 2;
    }
    umask(022);
    damage_at = ops / 2;
    chance_seed(seed);
    printf("seed %llu (repeat with -s %llu)\n", (unsigned long long)seed, (unsigned long long)seed);
    for (int s = 0; s < SIDES; s++) {
        /* Two levels: a link to ../x leaves the tree, and finds the same on both sides. */
        for (int level = 1; level <= 2; level++) {
            snprintf(side[s].top, sizeof side[s].top, "%s%s", argv[optind + s],
                     level == 1 ? "/t" : "/t/t");
            if (mkdir(side[s].top, 0755) < 0)
                fail("mkdir %s: %s", side[s].top, strerror(errno));
        }
    }
    open_sides();
    for (step = 1; step <= ops; step++) {
        run_one();
        if (damage && step >= damage_at && sabotage_side())
            damage = NULL;
        if (every && step % every == 0 && command)
            run_command(command);
        if (step % 2500 == 0)
            compare_tree();
    }
    compare_tree();
    close_all();
    compare_tree();
    printf("%lu operations, no difference\n", ops);
    return 0;
}
