/* The model test: the same random operations on two directories, side by side, compared after each.
 * Side A is the file system under test, side B one that is known to be right (a tmpfs). */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { A, B, SIDES };
enum { PATH_ROOM = 1200, MAX_OPEN = 8, BUFFER = 1 << 20 };

struct side {
    char top[512]; /* absolute path of the tree */
    int root;      /* open directory of it */
};
extern struct side side[SIDES];

/* A file open on both sides. */
struct pair {
    bool used;
    int fd[SIDES];
    int flags;
    char path[PATH_ROOM]; /* where it was opened; may be gone */
};
extern struct pair open_files[MAX_OPEN];

extern long ret[SIDES]; /* results of the last BOTH */
extern int err[SIDES];
extern unsigned long step; /* number of the operation under way */

/* Runs an expression once per side, s being the side, and insists on the same result and errno. */
#define BOTH(expression)                                                                           \
    do {                                                                                           \
        EACH(expression);                                                                          \
        agree();                                                                                   \
    } while (0)
#define EACH(expression)                                                                           \
    do {                                                                                           \
        for (int s = 0; s < SIDES; s++) {                                                          \
            errno = 0;                                                                             \
            ret[s] = (long)(expression);                                                           \
            err[s] = ret[s] < 0 ? errno : 0;                                                       \
        }                                                                                          \
        sabotage_result();                                                                         \
    } while (0)

void agree(void);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* chance.c: the one generator; everything depends on the seed alone */
void chance_seed(uint64_t seed);
uint64_t chance(uint64_t below);
bool one_in(unsigned n);
void chance_bytes(void *buf, size_t size);
uint64_t chance_size(void);
uint64_t chance_offset(uint64_t file_size);

/* world.c: names, looking and comparing */
const char *pick_new(char path[PATH_ROOM]);
const char *pick_any(char path[PATH_ROOM]);
const char *pick_file(char path[PATH_ROOM]);
const char *pick_dir(char path[PATH_ROOM]);
const char *full(int s, const char *path);
void parent_of(const char *path, char parent[PATH_ROOM]);
void compare_path(const char *path);
void compare_pair(const struct pair *p, uint64_t off, uint64_t len);
void compare_dir(const char *path);
void compare_tree(void);
struct pair *any_open(void);
struct pair *open_slot(void);
void close_pair(struct pair *p);
void close_all(void);
bool be_user(bool yes);

/* Which times an operation moves: called before and after it, on up to two paths. */
struct times {
    bool armed;
    char path[2][PATH_ROOM];
    struct timespec start;
};
void times_arm(struct times *t, const char *path, const char *other);
void times_check(const struct times *t, bool content);

/* ops.c, ops_data.c */
struct op {
    const char *name;
    unsigned weight;
    void (*run)(void);
};
extern const struct op name_ops[], data_ops[];

/* main.c: deliberate damage, to prove that the test notices */
void sabotage_result(void);

#endif
