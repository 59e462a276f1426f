/* Private to the pool process. */
#ifndef SERVER_SERVER_IMPL_H
#define SERVER_SERVER_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "server/mounts_impl.h"
#include "server/server.h"
#include "server/wire_impl.h"

struct calls;
struct dataset;
struct fs;
struct fuse_mount;
struct fuse_server;
struct json_object;
struct spa;

uint64_t clock_ns(void); /* monotonic */

struct server {
    struct spa *spa;
    struct fuse_server *fuse;
    uint64_t started; /* clock_ns */
    char *altroot;
    char socket_path[1200];
    int listener;         /* the main loop's */
    int log;              /* locked as long as the pool's name is taken; -1: none */
    _Atomic bool visible; /* the socket is in its folder */
    int wake[2];          /* written to by whoever wants the main loop to look at `end` */

    pthread_mutex_t lock; /* guards mounts and warning; held during mounting and unmounting */
    char *warning;        /* for the answer to the change of a property, or NULL */
    TAILQ_HEAD(mount_list, mount) mounts; /* in the order they were made */

    pthread_mutex_t admin;   /* one changing operation at a time */
    pthread_rwlock_t in_use; /* operations hold it shared; ending the pool exclusively */
    _Atomic int end;         /* 0 serving; enum server_end */
    _Atomic int connections;
    _Atomic int answering; /* operations that have not been answered yet */
};

enum server_end {
    SERVER_SERVING,
    SERVER_ENDED /* the pool is closed */,
    SERVER_TERMINATE /* signal */
};

/* One request being answered. */
struct call {
    struct server *s;
    struct wire *wire;
    struct json_object *args;
    uid_t uid;
    gid_t gid;
    const uint32_t *groups; /* all that the caller is in */
    size_t ngroups;
    bool trusted;  /* may do everything: root and the user who runs the process */
    struct calls *calls;   /* of the connection, for the history (calls_impl.h) */
    uint64_t started;      /* clock_ns() */
    bool *changed; /* something was, over this connection: it may be recorded in the history */
    struct json_object *ok; /* to be filled by the operation */
};
int call_row(struct call *c, struct json_object *row); /* consumes row */

enum {
    OP_READ = 1,  /* anybody may ask; runs beside others */
    OP_ENDS = 2,  /* closes the pool: nobody else may be using it */
    OP_BESIDE = 4, /* only who may change the pool, but beside others */
    OP_DELEGATED = 8, /* others may ask: run() looks whether they were given the permission */
    OP_RECORDS = 16 /* takes note of what the connection did before: once */
};

struct operation {
    const char *name;
    unsigned flags;
    int (*run)(struct call *c);
};
extern const struct operation pool_operations[]; /* end with name NULL */
extern const struct operation device_operations[];
extern const struct operation scan_operations[];
extern const struct operation zfs_operations[];
extern const struct operation mount_operations[];
extern const struct operation key_operations[];

/* process.c */
void server_init_locks(struct server *s); /* and the list of mounts; s is zeroed otherwise */

/* listen.c */
int server_listen(struct server *s);
/* Answers what comes over a connected socket until its end, and closes it. */
void server_serve(struct server *s, int fd, uid_t uid, gid_t gid);
void server_loop(struct server *s);
void server_hide(struct server *s);
void server_unlisten(struct server *s);
void server_wake(struct server *s);

#endif
