/* Subcommands, and what they share. One file per subcommand or pair of them. */
#ifndef CLI_COMMAND_IMPL_H
#define CLI_COMMAND_IMPL_H

#include <stdbool.h>
#include <stddef.h>

struct client;
struct json_object;

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand; NULL: not supported yet */
    const char *usage;                 /* behind "usage: zpool NAME " */
};
extern const struct command zpool_commands[]; /* end with name NULL */
extern const struct command zfs_commands[];

/* A message, then the usage of the running subcommand, on standard error; returns 2. */
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int usage_shown(void); /* without a message */
/* getopt's '?' and ':' turned into OpenZFS's sentences; returns 2. */
int usage_option(int opt);
/* "PREFIX: sentence of rc" on standard error; returns 1. */
int fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "WHAT is not supported yet" on standard error; returns 1. */
int unsupported(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The process of the pool a dataset is in. On failure "cannot open 'NAME': dataset does not exist"
 * is printed and the result is NULL. */
struct client *open_pool(const char *dataset);
/* The same for the name of a pool: "no such pool". */
struct client *open_named_pool(const char *pool);
/* One call to it: 0 or a negative errno (err_text has the sentence). */
int call_simple(struct client *c, const char *op, struct json_object *args);

/* The command line as the history records it. */
const char *command_line(void);
/* Appends it to the history of the pool of a dataset, once per pool; errors do not matter. */
void record_command(struct client *c, const char *name);

void put_flag(struct json_object *o, const char *key, bool v);
void put_string(struct json_object *o, const char *key, const char *text);

/* "name=value" into an object; false (after a message) if there is no '=' or it is there already.
 */
bool add_assignment(struct json_object *props, const char *text);
/* "a,b,c" into an array. */
struct json_object *split_list(const char *text);

int print_version(const char *program, int argc, char **argv);

#endif
