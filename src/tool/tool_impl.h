/* What the tools share: options, opening what an argument names, output. A file per command. */
#ifndef TOOL_TOOL_IMPL_H
#define TOOL_TOOL_IMPL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fs/fs.h"
#include "tool/key.h"

struct dataset;
struct dsl;
struct json_object;
struct objset;
struct pool;
struct scan;
struct scan_pool;
struct spa;

#define TOOL_DIRS_MAX 64
#define TOOL_KEYS_MAX 64

/* One run of a command. */
struct tool {
    const char *name; /* of the command */
    const struct tool_command *command;
    const char *dirs[TOOL_DIRS_MAX]; /* -d */
    size_t ndirs;
    bool json;               /* --json */
    bool live;               /* --live: also what a process has imported for writing */
    uint64_t txg;            /* -T: go back to this txg; 0 = newest */
    bool rewind;             /* --rewind: go back as far as needed */
    bool checkpoint;         /* --rewind-to-checkpoint */
    bool destroyed;          /* -D: only destroyed pools */
    bool in_memory;          /* --replay-in-memory */
    struct timespec replay_time; /* that the changes of a replay get */
    bool load_keys;          /* --load-keys: from where the keylocation says */
    struct key_source keys[TOOL_KEYS_MAX];
    size_t nkeys;
    struct tool_pool *pools; /* what was opened */
    int status;              /* exit status so far */
    bool terminal;           /* standard output is one */
    bool told_devices;       /* the command itself has told people of errors of devices */
    size_t rows;             /* printed as JSON */
    struct json_object *errors, *summary, *devices;
};

struct tool_command {
    const char *name;
    int (*run)(struct tool *t, int argc, char **argv);
    const char *usage; /* behind "usage: tarn NAME " */
    const char *about; /* a line */
    bool structures;   /* it shows what is on disk: nothing is replayed for it */
};
extern const struct tool_command tool_commands[]; /* end with name NULL */

/* ---- options.c ---- */

/* getopt_long with the options all commands have (-d, -T, --json, --live, --help) taken out. -1 at
 * the end; '?' after a message: return 2. Long options of a command have values above TOOL_OPT. */
#define TOOL_OPT 1000
int tool_getopt(struct tool *t, int argc, char **argv, const char *shorts,
                const struct option *longs);
/* A message and the usage; returns 2. */
int tool_usage(struct tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One of the common options by hand (for find): how many arguments it took, 0 if it is none. */
int tool_common_option(struct tool *t, int argc, char **argv);
/* A decimal or 0x number; false if it is none. */
bool tool_number(const char *text, uint64_t *out);

/* ---- output.c ---- */

/* "tarn NAME: WHAT: sentence of rc" on standard error, exit status 1; with --json also among the
 * errors. what is a file name: it is escaped. Returns 1. */
int tool_error(struct tool *t, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A file name for people: what could disturb a terminal is quoted as ls(1) does if the output is
 * one. */
void tool_print_name(const struct tool *t, FILE *to, const char *name);
/* The same always, into a buffer. */
char *tool_quote(const char *name, bool always, char *out, size_t cap);
/* With --json: adds a row to the document (put). Without: just puts it. */
void tool_row(struct tool *t, struct json_object *row);
/* Ends the JSON document: {"command", "rows", "errors", "devices", "summary"}. */
void tool_finish(struct tool *t);
/* For values. A name that is no UTF-8 is given as text with U+FFFD and as KEY_hex. */
void json_put_name(struct json_object *o, const char *key, const char *name);
void json_put_text(struct json_object *o, const char *key, const char *text);
void json_put_number(struct json_object *o, const char *key, uint64_t v);
void json_put_signed(struct json_object *o, const char *key, int64_t v);
void json_put_bool(struct json_object *o, const char *key, bool v);
void json_put_hex(struct json_object *o, const char *key, const void *bytes, size_t n);

/* Rows as a table for people: the columns of each row by key. */
struct tool_column {
    const char *key, *head;
    bool left;
    int width; /* at least */
};
void tool_table_head(const struct tool_column *c, size_t n);
void tool_table_row(const struct tool *t, const struct tool_column *c, size_t n,
                    struct json_object *row);
/* Prints a row as the mode wants: "key  value" lines, or JSON; puts it. */
void tool_print_fields(struct tool *t, struct json_object *row);

/* 1.5K, 20M; plain if !human. Returns buf. */
const char *tool_size(uint64_t bytes, bool human, char buf[32]);
char tool_type_letter(uint32_t mode);
const char *tool_type_word(uint32_t mode);
void tool_mode_text(uint32_t mode, char out[11]);
struct json_object *tool_attr_row(const char *path, const struct fs_attr *a);

/* ---- device_errors.c ---- */

/* Before the pools are closed: a note for each device that had errors while it was read, and for --json
 * the state and the errors of all. */
void tool_device_errors(struct tool *t);
/* The same as an array, for one pool. */
struct json_object *tool_device_rows(struct pool *pool);

/* ---- progress.c ---- */

struct progress {
    bool on; /* standard error is a terminal */
    const char *what;
    uint64_t total; /* 0: unknown */
    uint64_t began, shown;
};
void progress_begin(struct progress *p, const char *what, uint64_t total);
/* Shows it at most a few times a second; one thread only. */
void progress_show(struct progress *p, uint64_t bytes, uint64_t blocks);
void progress_end(struct progress *p);
double progress_seconds(const struct progress *p);

/* ---- target.c ---- */

/*
 * An argument taken apart: [LOCATION:]NAME, where NAME is pool/dataset[@snap][/path]. Location is
 * the part up to the first ':' such that it exists; without one (or with_location false, because
 * there is a -d) it is NULL. The text alone may also be a location: then name is "". An empty
 * component
 * ("pool/fs//dir") ends the dataset.
 */
struct target_text {
    char *location; /* NULL: none */
    char *name;
};
int target_split(const char *text, bool with_location, bool (*exists)(const char *path),
                 struct target_text *out);
void target_text_free(struct target_text *t);

/* An open pool; the same for all arguments that name it. */
struct tool_pool {
    struct tool_pool *next;
    char *location;
    char name[256]; /* its own */
    struct spa *spa;
    struct scan *scan;
    const struct scan_pool *found; /* in scan */
    uint64_t noted;                /* the dataset about whose log a note was printed last */
};

struct target {
    const char *text; /* the argument */
    struct tool_pool *pool;
    struct dataset *ds;
    char dataset[256 + 8];
    char *path;    /* within the dataset, "" = its root; no slash at the ends */
    struct fs *fs; /* unless TARGET_DATASET */
    uint64_t ino;
    struct fs_attr attr;
};

enum {
    TARGET_POOL = 1,    /* only the pool: nothing may follow */
    TARGET_DATASET = 2, /* only a dataset or snapshot, of any kind; fs is not opened */
    TARGET_VOLUME = 4,  /* a volume is welcome too: fs is NULL for it */
};
/* Errors have been reported (tool_error) when the result is not 0. */
int target_open(struct tool *t, const char *text, unsigned flags, struct target *out);
void target_close(struct target *x);
/* Closes all pools. */
void tool_close(struct tool *t);
/* Finds and opens the pool only; name "" = the only one there is. */
int tool_pool_open(struct tool *t, const struct target_text *text, struct tool_pool **out);
/* The same without opening it: what a scan says. The caller frees *scan. */
int tool_pool_find(struct tool *t, const struct target_text *text, struct scan **scan,
                   const struct scan_pool **found, size_t *name_length);

/* ---- rewind.c ---- */

struct spa_open_args;
/* spa_open(); with --rewind, if that does not give a pool that can be read, as of the newest txg that
 * does. */
int tool_spa_open(struct tool *t, struct spa_open_args *args, struct spa **out);

/* ---- dataset.c ---- */

/* Opens the file system of a dataset for reading: its key is loaded, and with --replay-in-memory its
 * intent log is replayed; what of that fails is reported, and the file system is shown without. */
int tool_fs_open(struct tool *t, struct dataset *ds, struct fs **out);
/* The same for a volume, whose data is object 1; its size in bytes. */
int tool_volume_open(struct tool *t, struct dataset *ds, uint64_t *size);

/* ---- keys.c ---- */

/* Loads the key of an encrypted dataset by the options; 0 if it needs none. -EACCES: none fits. */
int tool_keys_load(struct tool *t, struct dataset *ds);

/* ---- walk.c ---- */

struct name_entry {
    char *name;
    uint64_t ino;
};
struct name_list {
    struct name_entry *entry;
    size_t n, cap;
};
/* The names in a directory without "." and "..", sorted. What was read before an error is there. */
int dir_list(struct fs *fs, uint64_t ino, struct name_list *out);
void dir_list_free(struct name_list *l);

struct walk_entry {
    struct fs *fs;
    const char *path; /* with what the walk began with in front */
    const char *name; /* the last component */
    size_t depth;     /* 0: where the walk began */
    struct fs_attr attr;
    const char *more; /* for tree(1): per level above, '|' if entries follow there, else ' ' */
    bool last;        /* of its directory */
};
enum walk_when { WALK_ENTRY, WALK_LEAVE /* a directory, after what is in it */ };
/* ENTRY of a directory may return 1: not to be entered. Other results end the walk. */
typedef int walk_fn(void *arg, const struct walk_entry *e, enum walk_when when);
/* Reports what cannot be read and goes on. */
int walk_tree(struct tool *t, struct fs *fs, const struct fs_attr *root, const char *path,
              walk_fn *fn, void *arg);

/* ---- stat_acl.c ---- */

/* What POSIX has no place for: "uid_sid" and "gid_sid" of owners from Windows domains, "nfs4_acl". */
void stat_put_acl(struct tool *t, const struct target *x, struct json_object *o);
void stat_print_acl(struct tool *t, const struct target *x);

/* ---- copy.c: from a dataset to a sink ---- */

struct copy_xattr {
    char *name;
    unsigned char *value;
    size_t n;
};
struct copy_extent {
    uint64_t start, end;
};
struct copy_item {
    const char *path; /* in the sink */
    struct fs_attr attr;
    const char *target;    /* of a symbolic link */
    const char *hard_link; /* path of an earlier item that is the same file; else NULL */
    struct copy_xattr *xattr;
    size_t nxattr;
    struct copy_extent *extent; /* of a file: what is no hole */
    size_t nextent;
};
struct copy_sink {
    /* Begins an item; *skip: its contents are there already. */
    int (*begin)(struct copy_sink *s, const struct copy_item *item, bool *skip);
    /* A piece of a regular file's data inside its extents, in order. */
    int (*data)(struct copy_sink *s, uint64_t off, const void *data, size_t n);
    /* A piece that cannot be read: n bytes (tar needs something in its place). */
    int (*lost)(struct copy_sink *s, uint64_t off, size_t n);
    /* The item is complete; damaged: some of it was lost. */
    int (*end)(struct copy_sink *s, const struct copy_item *item, bool damaged);
    int (*leave)(struct copy_sink *s,
                 const struct copy_item *dir); /* all in a directory is there */
    int (*finish)(struct copy_sink *s);
    void (*free)(struct copy_sink *s);
};
struct copy {
    struct tool *t;
    struct copy_sink *sink;
    struct progress progress;
    bool verbose;
    bool whole;  /* holes are copied too */
    bool rows;   /* what is unreadable is a row with --json */
    void *links; /* of the tree being copied */
    uint64_t files, bytes, lost_files, lost_bytes, skipped;
    uint64_t nfs4_acls; /* files that have one: it has no place where they go */
};
/* Copies what is at attr (a tree if it is a directory) to the sink's path. from is for messages. A
 * result that is not 0 means that the sink failed. */
int copy_tree(struct copy *c, struct fs *fs, const struct fs_attr *attr, const char *from,
              const char *to);
int copy_volume(struct copy *c, struct dataset *ds, const char *from, const char *to);

enum {
    SINK_OWNER = 1,
    SINK_TIMES = 2,
    SINK_MODE = 4,
    SINK_XATTRS = 8,
    SINK_RESUME = 16,
    SINK_ALL = SINK_OWNER | SINK_TIMES | SINK_MODE | SINK_XATTRS
};
/* Into a folder; paths are below it. */
int sink_dir_new(struct copy_sink **out, struct tool *t, const char *folder, unsigned flags);
/* As a tar archive (POSIX 2001, "pax") to an open file. */
int sink_tar_new(struct copy_sink **out, struct tool *t, int fd);

/* ---- the commands ---- */

int tool_ls(struct tool *t, int argc, char **argv);
int tool_stat(struct tool *t, int argc, char **argv);
int tool_cat(struct tool *t, int argc, char **argv);
int tool_cp(struct tool *t, int argc, char **argv);
int tool_find(struct tool *t, int argc, char **argv);
int tool_tree(struct tool *t, int argc, char **argv);
int tool_du(struct tool *t, int argc, char **argv);
int tool_diff(struct tool *t, int argc, char **argv);
int tool_extract(struct tool *t, int argc, char **argv);
int tool_inspect(struct tool *t, int argc, char **argv);
int tool_verify(struct tool *t, int argc, char **argv);
int tool_mount(struct tool *t, int argc, char **argv);
int tool_stream(struct tool *t, int argc, char **argv);

#endif
