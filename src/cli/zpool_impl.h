/* The subcommands of zpool, and what they share. */
#ifndef CLI_ZPOOL_IMPL_H
#define CLI_ZPOOL_IMPL_H

#include <getopt.h>

#include "cli/command_impl.h"
#include "cli/report_impl.h"

struct json_object;

int zpool_create(int argc, char **argv);
int zpool_list(int argc, char **argv);
int zpool_status(int argc, char **argv);
int zpool_get(int argc, char **argv);
int zpool_set(int argc, char **argv);
int zpool_import(int argc, char **argv);
int zpool_export(int argc, char **argv);
int zpool_destroy(int argc, char **argv);
int zpool_sync(int argc, char **argv);
int zpool_history(int argc, char **argv);
int zpool_scrub(int argc, char **argv);
int zpool_resilver(int argc, char **argv);
int zpool_wait(int argc, char **argv);
int zpool_iostat(int argc, char **argv);
int zpool_labelclear(int argc, char **argv);
int zpool_add(int argc, char **argv);
int zpool_attach(int argc, char **argv);
int zpool_replace(int argc, char **argv);
int zpool_detach(int argc, char **argv);
int zpool_offline(int argc, char **argv);
int zpool_online(int argc, char **argv);
int zpool_clear(int argc, char **argv);
int zpool_reopen(int argc, char **argv);
int zpool_trim(int argc, char **argv);
int zpool_initialize(int argc, char **argv);

/* Calls fn for the pools named, or for all, in name order. Pools that are not open are told about,
 * and give 1. none: what to say on standard error if no pool is open at all, or NULL. Otherwise the
 * last non-zero of fn. */
typedef int pool_fn(const char *name, struct client *c, void *arg);
int each_named_pool(int argc, char **argv, pool_fn *fn, void *arg, int *missing);
int each_pool(int argc, char **argv, const char *none, pool_fn *fn, void *arg);

/* [interval [count]] at the end of the arguments, and -T. */
struct repeat {
    double interval; /* seconds, 0: once */
    unsigned long count;
    char stamp; /* 'd', 'u' or 0 */
    bool blank; /* an empty line between rounds */
};
int repeat_parse(struct repeat *r, int argc, char **argv); /* the number of arguments left */
int repeat_stamp(struct repeat *r, const char *word);      /* 0, or 2 after a message */
int repeat(const struct repeat *r, int (*fn)(void *arg), void *arg);
void repeat_sleep(const struct repeat *r); /* the interval */

/* ---- Properties of pools as columns (pool_columns.c) ---- */

/* The full name of a property, NULL if there is none of that name. */
const char *pool_prop_name(const char *name_or_alias);
void pool_column(const char *name, struct report_column *c);
/* "name,size" as columns; 0 after a message. */
size_t pool_columns(const char *text, struct report_column *columns);
size_t pool_columns_all(struct report_column *columns);

/* Asks for the properties of columns and keeps the row: a pool_fn but for the types of its
 * argument. */
struct json_object;
int take_pool_row(const char *name, struct client *c, struct report *r, struct json_object *props);

/* ---- Scans (scan_text.c) ---- */

/* What status says about the last scrub or resilver, from scan_stats of pool.status; malloc'ed, NULL: there
 * was none. */
char *scan_text(struct json_object *stats);
/* The same about members of its shape. */
char *removal_text(struct json_object *removal);
char *expansion_text(struct json_object *expansion);
char *checkpoint_text(struct json_object *checkpoint);
/* Is it active, and not paused? */
bool scan_runs(struct json_object *stats);

/* ---- Vdevs as list and status show them (vdev_names.c) ---- */

struct vdev_naming {
    bool guid;   /* -g */
    bool full;   /* -P: whole paths */
    bool follow; /* -L: links resolved */
};
/* What a vdev of pool.status is called; buf is used if it has to be made. */
const char *vdev_name(const struct vdev_naming *how, struct json_object *vdev, char *buf,
                      size_t cap);
struct json_object *vdev_children(struct json_object *vdev); /* array, or NULL */
/* The widest name in the tree, two columns in per level. */
/* Where vdevs are shown: those of a class, or a list beside the tree (spares, cache). The list ends
 * with an empty one. vdev_section: an array (to be put) of the root's vdevs that belong there;
 * removed: with what remains of removed ones. */
struct vdev_section {
    const char *list_title, *status_title; /* NULL: none */
    const char *class, *member;
};
extern const struct vdev_section vdev_sections[];
struct json_object *vdev_section(struct json_object *root, const struct vdev_section *s,
                                 bool removed);
int vdev_widest(const struct vdev_naming *how, struct json_object *vdev, int indent);
/* "name", "vdev_type", "guid", "path", "class", "state" and, if given, "parent". */
void vdev_json_head(const struct report_style *s, struct json_object *o, const char *name,
                    struct json_object *vdev, const char *parent);
/* Long options of -j: --json-int, --json-pool-key-guid, --json-flat-vdevs. */
enum { OPT_JSON_INT = 256, OPT_KEY_GUID, OPT_FLAT_VDEVS };
extern const struct option json_options[];
int json_style_check(const struct report_style *s); /* 0, or 2 after a message */

#endif
