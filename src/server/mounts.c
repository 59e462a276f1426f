/* Mounting the pool's file systems. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dsl/dataset.h"
#include "dsl/dsl.h"
#include "dsl/keys.h"
#include "dsl/props.h"
#include "fs/fs.h"
#include "fuse/fuse.h"
#include "server/mounts_impl.h"
#include "server/server_impl.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/log.h"

enum { CANMOUNT_OFF, CANMOUNT_ON, CANMOUNT_NOAUTO };

/* ---- The place ---- */

/* Makes the mount point and its parents; *made says whether the last part is new. */
static int make_target(const char *target, bool *made)
{
    int fd, rc = fuse_place_open(target, true, made, &fd);
    if (rc == 0)
        close(fd);
    else if (rc != -ELOOP && rc != -EINVAL)
        rc = err_set(-rc, "failed to create mountpoint: %s", strerror(-rc));
    return rc;
}

/* fusermount3 cannot enter a mount of an ordinary user unless others may. */
static int explain_nested(struct server *s, const char *target, int rc)
{
    struct mount *m;
    if (rc != -EACCES && rc != -EPERM)
        return rc;
    char why[512];
    snprintf(why, sizeof why, "%s", err_text(rc));
    TAILQ_FOREACH (m, &s->mounts, link) {
        size_t n = strlen(m->target);
        if (geteuid() != 0 && strncmp(m->target, target, n) == 0 && target[n] == '/')
            return err_set(-rc,
                           "%s\n(inside a mount of an ordinary user this needs the line "
                           "'user_allow_other' in /etc/fuse.conf)",
                           why);
    }
    return rc;
}

static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e = NULL;
    while (d && (e = readdir(d)) && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
        ;
    if (d)
        closedir(d);
    return e == NULL;
}

/* ---- One mount ---- */

static void on_gone(void *arg, struct fuse_mount *fuse)
{
    struct mount *m = arg;
    m->gone = true; /* cleaned up by the main loop: this is one of the FUSE server's threads */
    server_wake(m->server);
}

void mount_free(struct mount *m)
{
    fuse_mount_free(m->fuse);
    if (m->fs)
        fs_close(m->fs);
    dataset_disown(m->ds, m);
    dataset_rele(m->ds);
    if (m->made_dir)
        rmdir(m->target);
    free(m->target);
    free(m);
}

static int start_mount(struct mount *m, bool overlay)
{
    struct fs_options fo;
    struct fuse_mount_options mo;
    char name[DATASET_NAME_MAX];
    dataset_name(m->ds, name);
    int rc = make_target(m->target, &m->made_dir);
    if (rc == 0 && !overlay && !prop_get_number(m->ds, "overlay") && !is_empty(m->target))
        rc = err_set(ENOTEMPTY, "cannot mount '%s': directory is not empty", m->target);
    if (rc != 0)
        return rc;
    mount_options(m, spa_readonly(m->server->spa), &fo, &mo);
    rc = fs_open(&m->fs, m->ds, &fo);
    if (rc != 0)
        return rc;
    mo.source = name;
    mo.gone = on_gone;
    mo.arg = m;
    mo.snapshots = &mount_snapshots;
    mo.snapdir = (int)prop_get_number(m->ds, "snapdir");
    rc = fuse_mount_new(&m->fuse, m->server->fuse, m->fs, &mo);
    if (rc == 0)
        m->made_dir = false; /* the directory stays, as the reference leaves it */
    return explain_nested(m->server, m->target, rc);
}

/* Lock held; takes over the hold of ds. */
static int mount_dataset(struct server *s, struct dataset *ds, const char *target,
                         const enum temporary temporary[TEMPS], bool overlay)
{
    struct mount *m = calloc(1, sizeof *m);
    int rc = m && (m->target = strdup(target)) ? 0 : -ENOMEM;
    if (rc == 0)
        rc = dataset_own(ds, m);
    if (rc != 0) {
        dataset_rele(ds);
        if (m)
            free(m->target);
        free(m);
        return rc;
    }
    m->ds = ds;
    m->server = s;
    memcpy(m->temporary, temporary, sizeof m->temporary);
    rc = start_mount(m, overlay);
    if (rc == 0)
        TAILQ_INSERT_TAIL(&s->mounts, m, link);
    else
        mount_free(m);
    return rc;
}

int mounts_restore(struct server *s, const char *name, const char *target,
                   const enum temporary temporary[TEMPS])
{
    struct dataset *ds;
    int rc = dataset_hold(spa_dsl(s->spa), name, &ds);
    return rc ? rc : mount_dataset(s, ds, target, temporary, true);
}

struct mount *mounts_of(struct server *s, const struct dataset *ds)
{
    struct mount *m;
    TAILQ_FOREACH (m, &s->mounts, link) {
        if (m->ds == ds && !m->gone)
            return m;
    }
    return NULL;
}

struct mount *mounts_find(struct server *s, const char *name)
{
    struct mount *m;
    char own[DATASET_NAME_MAX];
    TAILQ_FOREACH (m, &s->mounts, link) {
        dataset_name(m->ds, own);
        if (!m->gone && (strcmp(own, name) == 0 || strcmp(m->target, name) == 0))
            return m;
    }
    return NULL;
}

/* Why a file system is not to be mounted: 0 = mount it; -EAGAIN = silently not. */
static int mount_wanted(struct dataset *ds, const struct mount_request *r, const char *target)
{
    uint64_t canmount = prop_get_number(ds, "canmount");
    bool legacy = strcmp(target, "legacy") == 0, placed = !legacy && strcmp(target, "none") != 0;
    if (dataset_is_snapshot(ds) || dataset_type(ds) != OBJSET_ZPL)
        return r->explicitly ? err_set(ENOTSUP, "operation not applicable to datasets of this type")
                             : -EAGAIN;
    if (r->target && !legacy)
        return err_set(EINVAL,
                       "cannot mount '%s': its mountpoint property is '%s'; use 'zfs mount', or "
                       "'zfs set mountpoint=legacy' first",
                       r->name, target);
    if (r->target || (canmount == CANMOUNT_ON && placed))
        return 0;
    if (!r->explicitly)
        return -EAGAIN;
    if (legacy)
        return err_set(EINVAL, "legacy mountpoint\nuse mount(8) to mount this filesystem");
    if (!placed)
        return err_set(EINVAL, "no mountpoint set");
    return canmount == CANMOUNT_OFF ? err_set(EINVAL, "'canmount' property is set to 'off'") : 0;
}

/* An encrypted file system needs its key. */
static int check_key(struct dataset *ds, const struct mount_request *r)
{
    struct keys_info info;
    int rc = keys_info(ds, &info);
    if (rc != 0 || !info.encrypted || info.loaded)
        return rc;
    return r->explicitly ? err_set(EACCES, "encryption key not loaded") : -EAGAIN;
}

int mounts_mount(struct server *s, const struct mount_request *r)
{
    struct dataset *ds;
    CLEANUP_FREE char *where = NULL;
    enum temporary temporary[TEMPS] = {TEMP_UNSET};
    int rc = dataset_hold(spa_dsl(s->spa), r->name, &ds);
    if (rc != 0)
        return rc;
    rc = prop_mountpoint(ds, s->altroot, &where, NULL);
    if (rc == 0)
        rc = mount_wanted(ds, r, where);
    if (rc == 0)
        rc = check_key(ds, r);
    if (rc == 0)
        rc = mount_options_parse(r->options, temporary);
    if (rc != 0) {
        dataset_rele(ds);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    mounts_settle(s, mounts_of(s, ds));
    if (mounts_of(s, ds)) {
        dataset_rele(ds);
        rc = r->explicitly ? err_set(EBUSY, "filesystem already mounted") : -EAGAIN;
    } else {
        const char *target = r->target ? r->target : where;
        struct undo *inside = mounts_lift(s, target);
        rc = mount_dataset(s, ds, target, temporary, r->overlay);
        char why[512];
        snprintf(why, sizeof why, "%s", err_text(rc));
        mounts_put_back(s, inside);
        if (rc != 0)
            err_set(-rc, "%s", why);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- All ---- */

void warning_add(char **warning, const char *fmt, ...)
{
    va_list ap;
    char *line = NULL, *both = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    log_warn("%s", line);
    if (!warning) {
        free(line);
    } else if (!*warning) {
        *warning = line;
    } else if (asprintf(&both, "%s\n%s", *warning, line) >= 0) {
        free(*warning);
        free(line);
        *warning = both;
    } else {
        free(line);
    }
}

struct place {
    char name[DATASET_NAME_MAX];
    char *target;
};

struct places {
    struct server *s;
    struct place *place;
    size_t n;
};

static int add_place(void *arg, struct dataset *ds)
{
    struct places *l = arg;
    struct place *more = realloc(l->place, (l->n + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    l->place = more;
    int rc = prop_mountpoint(ds, l->s->altroot, &more[l->n].target, NULL);
    if (rc == 0)
        dataset_name(ds, more[l->n++].name);
    return rc;
}

static void release_places(struct places *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->place[i].target);
    free(l->place);
}

/* By mount point, so that what is mounted inside another comes after it. */
static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = strcmp(x->target, y->target);
    return c ? c : strcmp(x->name, y->name);
}

static void mount_place(struct server *s, const struct mount_request *r, const char *target,
                        char **warning, mount_made_fn *made, void *arg)
{
    int rc = mounts_mount(s, r);
    if (rc == 0 && made)
        made(arg, r->name, target);
    if (rc == 0 || rc == -EAGAIN)
        return;
    if (strncmp(err_text(rc), "cannot mount '", 14) == 0)
        warning_add(warning, "%s", err_text(rc));
    else
        warning_add(warning, "cannot mount '%s': %s", r->name, err_text(rc));
}

void mounts_mount_all(struct server *s, const char *name, const struct mount_request *how,
                      char **warning, mount_made_fn *made, void *arg)
{
    struct places l = {.s = s};
    struct mount_request r = how ? *how : (struct mount_request){0};
    name = name ? name : spa_name(s->spa);
    int rc = dataset_each(spa_dsl(s->spa), name, -1, false, add_place, &l);
    if (rc != 0)
        warning_add(warning, "cannot list the file systems of '%s': %s", name, err_text(rc));
    if (l.n > 0 && access("/dev/fuse", F_OK) != 0) {
        warning_add(
            warning,
            "file systems cannot be mounted: there is no /dev/fuse (the kernel's module fuse "
            "is not loaded, or the container was not given the device)");
        release_places(&l);
        return;
    }
    if (l.n > 1)
        qsort(l.place, l.n, sizeof *l.place, compare_places);
    for (size_t i = 0; i < l.n; i++) {
        r.name = l.place[i].name;
        mount_place(s, &r, l.place[i].target, warning, made, arg);
    }
    release_places(&l);
}

/* ---- Changed properties ---- */

int mounts_refresh(struct mount *m)
{
    struct fs_options fo;
    struct fuse_mount_options mo;
    char name[DATASET_NAME_MAX];
    mount_options(m, spa_readonly(m->server->spa), &fo, &mo);
    dataset_name(m->ds, name);
    mo.source = name;
    int rc = fs_remount(m->fs, &fo);
    return rc ? rc : fuse_mount_remount(m->fuse, &mo);
}

static void snapdir_changed(struct server *s, struct dataset *ds)
{
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_of(s, ds);
    if (m) {
        fuse_mount_set_snapdir(m->fuse, (int)prop_get_number(ds, "snapdir"));
        fuse_mount_invalidate_wait(m->fuse);
    }
    pthread_mutex_unlock(&s->lock);
}

void mounts_property_changed(void *arg, struct dataset *ds, const char *property)
{
    struct server *s = arg;
    int i = mount_options_index(property), rc;
    if (strcmp(property, "snapdir") == 0) {
        snapdir_changed(s, ds);
        return;
    }
    if (i < 0 && strcmp(property, "xattr") != 0 && strcmp(property, "acltype") != 0)
        return;
    pthread_mutex_lock(&s->lock);
    struct mount *m = mounts_of(s, ds);
    if (m && i >= 0)
        m->temporary[i] = TEMP_UNSET;
    rc = m ? mounts_refresh(m) : 0;
    if (rc == -EPERM && i == TEMP_EXEC) /* not ours to change: make the mount again */
        rc = mounts_again(s, m);
    else if (rc == -EPERM)
        rc = 0; /* the file system itself obeys; only the mount table shows the old option */
    if (rc != 0 && (!s->warning || !strstr(s->warning, m->target))) /* once for each */
        warning_add(&s->warning, "'%s' takes effect at the next mount on '%s': %s", property,
                    m->target, err_text(rc));
    pthread_mutex_unlock(&s->lock);
}
