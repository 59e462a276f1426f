/*
 * Renaming (spec 06 8.4). Four files can take part: two directories, the source, and what the new
 * name stood for. Locks: a rename that changes a file's directory takes fs->rename_lock, so that
 * the tree above it holds still; then the two directories, an ancestor before its descendant, else
 * by number; then the children by number. Nobody else locks anything but a directory and then a
 * child of it, so no circle can close: a child is never an ancestor of the directories (that is
 * refused before).
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>

#include "fs/fs_impl.h"
#include "util/cleanup.h"

struct rename {
    struct fs *fs;
    struct znode *from, *to; /* directories, perhaps the same */
    const char *name, *newname;
    unsigned flags;
    struct znode *source, *target; /* target NULL: the new name is free */
    bool tree_locked;
    struct znode *locked[4];
    unsigned nlocked;
};

static void rename_end(struct rename *r)
{
    while (r->nlocked > 0)
        pthread_rwlock_unlock(&r->locked[--r->nlocked]->lock);
    if (r->tree_locked)
        pthread_mutex_unlock(&r->fs->rename_lock);
    r->tree_locked = false;
}

static void rename_put(struct rename *r)
{
    rename_end(r);
    if (r->target)
        zn_put(r->target);
    if (r->source)
        zn_put(r->source);
    if (r->to)
        zn_put(r->to);
    if (r->from)
        zn_put(r->from);
}

static void lock_one(struct rename *r, struct znode *zn)
{
    for (unsigned i = 0; i < r->nlocked; i++)
        if (r->locked[i] == zn)
            return;
    pthread_rwlock_wrlock(&zn->lock);
    r->locked[r->nlocked++] = zn;
}

/* Is `above` the directory `object` or one of its ancestors? 1, 0, or an error. */
static int is_ancestor(struct fs *fs, uint64_t above, uint64_t object)
{
    for (unsigned depth = 0; object != above; depth++) {
        struct znode *zn CLEANUP_ZN = NULL;
        struct zattr a;
        if (object == fs->root)
            return 0;
        int rc = depth < 1000000 ? zn_get(fs, object, &zn) : -ELOOP;
        if (rc < 0)
            return rc;
        zn_attr(zn, &a);
        if (a.parent == object)
            return 0;
        object = a.parent;
    }
    return 1;
}

static int lock_dirs(struct rename *r)
{
    if (r->from == r->to) {
        lock_one(r, r->from);
        return 0;
    }
    pthread_mutex_lock(&r->fs->rename_lock);
    r->tree_locked = true;
    int to_first = is_ancestor(r->fs, r->to->object, r->from->object);
    int from_first = to_first == 0 ? is_ancestor(r->fs, r->from->object, r->to->object) : 0;
    if (to_first < 0 || from_first < 0)
        return to_first < 0 ? to_first : from_first;
    if (to_first || (!from_first && r->to->object < r->from->object)) {
        lock_one(r, r->to);
        lock_one(r, r->from);
    } else {
        lock_one(r, r->from);
        lock_one(r, r->to);
    }
    return 0;
}

static int find_child(struct rename *r, struct znode *dir, const char *name, struct znode **out)
{
    uint64_t value;
    int rc = dir_find(dir, name, &value);
    return rc < 0 ? rc : zn_get(r->fs, value & OBJECT_MASK, out);
}

static int find_children(struct rename *r)
{
    int rc = find_child(r, r->from, r->name, &r->source);
    if (rc < 0)
        return rc;
    rc = find_child(r, r->to, r->newname, &r->target);
    if (rc == -ENOENT)
        return r->flags & RENAME_EXCHANGE ? rc : 0;
    if (rc == 0 && r->flags & RENAME_NOREPLACE)
        return -EEXIST;
    return rc;
}

/* A directory may not go below itself, and one that is above the source is not empty. */
static int check_tree(struct rename *r)
{
    if (r->from == r->to)
        return 0;
    /* What its parent was says nothing: the number may be another directory's by now. */
    if (r->to->a.links == 0)
        return -ENOENT;
    int rc = is_dir(r->source) ? is_ancestor(r->fs, r->source->object, r->to->object) : 0;
    if (rc != 0)
        return rc < 0 ? rc : -EINVAL;
    if (!r->target || !is_dir(r->target))
        return 0;
    rc = is_ancestor(r->fs, r->target->object, r->from->object);
    if (rc == 1)
        return r->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
    return rc;
}

static void lock_children(struct rename *r)
{
    struct znode *a = r->source, *b = r->target;
    if (b && b->object < a->object) {
        a = r->target;
        b = r->source;
    }
    lock_one(r, a);
    if (b)
        lock_one(r, b);
}

/* ---- Is it allowed? (all locked) ---- */

static int check_project(struct znode *zn, struct znode *dir)
{
    if (dir->a.flags & PFLAG_PROJINHERIT && zn->a.flags & PFLAG_PROJID &&
        zn->a.projid != dir->a.projid)
        return -EXDEV;
    return 0;
}

static int check_replace(struct rename *r)
{
    bool empty, source_dir = is_dir(r->source), target_dir = is_dir(r->target);
    if (source_dir && !target_dir)
        return -ENOTDIR;
    if (!source_dir && target_dir)
        return -EISDIR;
    int rc = target_dir ? dir_empty(r->target, &empty) : 0;
    return rc == 0 && target_dir && !empty ? -ENOTEMPTY : rc;
}

static int check(struct rename *r)
{
    int rc = dir_may_remove(r->from, r->source);
    if (rc == 0)
        rc = dir_may_add(r->to);
    if (rc == 0 && r->target)
        rc = dir_may_remove(r->to, r->target);
    if (rc == 0 && r->target && !(r->flags & RENAME_EXCHANGE))
        rc = check_replace(r);
    if (rc == 0 && r->from != r->to) {
        rc = check_project(r->source, r->to);
        if (rc == 0 && r->flags & RENAME_EXCHANGE)
            rc = check_project(r->target, r->from);
    }
    return rc;
}

/* ---- Doing it ---- */

static int set_entry(struct znode *dir, const char *name, struct znode *zn, struct tx *tx)
{
    uint64_t value = dir_value(zn);
    return zap_update(dir->dn, name, 8, 1, &value, tx);
}

/* The old name: gone, the other file, or a whiteout. */
static int leave_old_name(struct rename *r, struct znode *whiteout, struct tx *tx)
{
    if (r->flags & RENAME_EXCHANGE)
        return set_entry(r->from, r->name, r->target, tx);
    if (whiteout)
        return set_entry(r->from, r->name, whiteout, tx);
    return zap_remove(r->from->dn, r->name, tx);
}

static void undo_new_name(struct rename *r, struct tx *tx)
{
    if (r->target)
        set_entry(r->to, r->newname, r->target, tx);
    else
        zap_remove(r->to->dn, r->newname, tx);
}

static void undo_entries(struct rename *r, struct tx *tx)
{
    set_entry(r->from, r->name, r->source, tx);
    undo_new_name(r, tx);
}

static int move_entries(struct rename *r, struct znode *whiteout, struct tx *tx)
{
    int rc = set_entry(r->to, r->newname, r->source, tx);
    if (rc < 0)
        return rc;
    rc = leave_old_name(r, whiteout, tx);
    if (rc < 0)
        undo_new_name(r, tx);
    return rc;
}

static int moved(struct znode *zn, struct znode *dir, struct tx *tx)
{
    struct zattr a;
    zn_attr(zn, &a);
    if (a.parent != dir->object && dir->a.flags & PFLAG_PROJINHERIT && is_dir(zn))
        a.flags |= PFLAG_PROJINHERIT;
    a.parent = dir->object;
    a.flags |= PFLAG_AV_MODIFIED;
    zattr_touch(zn->fs, &a, false);
    return zn_store(zn, &a, tx);
}

/* Entries and subdirectories gained or lost by a directory. */
static int changed(struct znode *dir, int entries, int subdirs, struct tx *tx)
{
    struct zattr a;
    zn_attr(dir, &a);
    a.size = MAX((int64_t)a.size + entries, 2);
    a.links = MAX((int64_t)a.links + subdirs, 2);
    zattr_touch(dir->fs, &a, true);
    return zn_store(dir, &a, tx);
}

static int count(struct rename *r, bool whiteout, struct tx *tx)
{
    int source = is_dir(r->source), target = r->target ? is_dir(r->target) : 0;
    int from = -1 + whiteout, to = r->target ? 0 : 1;
    int from_dirs = -source, to_dirs = source - target;
    if (r->flags & RENAME_EXCHANGE) {
        from = 0;
        from_dirs += target;
    }
    if (r->from == r->to)
        return changed(r->from, from + to, from_dirs + to_dirs, tx);
    int rc = changed(r->from, from, from_dirs, tx);
    return rc < 0 ? rc : changed(r->to, to, to_dirs, tx);
}

static int make_whiteout(struct rename *r, struct tx *tx, struct znode **out)
{
    struct new_object n = {
        .mode = S_IFCHR,
        .uid = r->source->a.uid,
        .gid = r->source->a.gid,
        .links = 1,
        .parent = r->from->object,
    };
    return object_new(r->fs, r->from, &n, tx, out);
}

static int prepare(struct rename *r, struct tx *tx)
{
    int rc = 0;
    for (unsigned i = 0; i < r->nlocked && rc == 0; i++)
        rc = zn_prepare(r->locked[i], tx);
    return rc;
}

/* The file that loses its name is put in the queue first: that can fail, what follows cannot. */
static int drop_target(struct rename *r, struct tx *tx)
{
    return r->target && !(r->flags & RENAME_EXCHANGE) ? drop_link(r->target, tx) : 0;
}

static int rename_locked(struct rename *r, struct tx *tx)
{
    struct znode *whiteout CLEANUP_ZN = NULL;
    int rc = check(r);
    if (rc == 0)
        rc = prepare(r, tx);
    if (rc == 0 && r->flags & RENAME_WHITEOUT)
        rc = make_whiteout(r, tx, &whiteout);
    if (rc == 0)
        rc = move_entries(r, whiteout, tx);
    if (rc == 0) {
        rc = drop_target(r, tx);
        if (rc < 0)
            undo_entries(r, tx);
    }
    if (rc == 0)
        rc = count(r, whiteout != NULL, tx);
    if (rc == 0)
        rc = moved(r->source, r->to, tx);
    if (rc == 0 && r->flags & RENAME_EXCHANGE)
        rc = moved(r->target, r->from, tx);
    return rc;
}

static int flags_check(unsigned flags)
{
    if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
        return -EINVAL;
    if (flags & RENAME_EXCHANGE && flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))
        return -EINVAL;
    return 0;
}

/* Both names of one file (or one name twice): nothing to do, says POSIX. */
static bool nothing_to_do(const struct rename *r)
{
    return r->source == r->target;
}

int fs_rename(struct fs *fs, uint64_t dir, const char *name, uint64_t newdir, const char *newname,
              unsigned flags)
{
    struct fs_tx t CLEANUP_TX = {0};
    struct rename r CLEANUP(rename_put) = {
        .fs = fs, .name = name, .newname = newname, .flags = flags};
    int rc = flags_check(flags);
    if (rc == 0)
        rc = name_check(fs, newdir, newname);
    if (rc == 0)
        rc = get_dir(fs, dir, &r.from);
    if (rc == 0)
        rc = get_dir(fs, newdir, &r.to);
    if (rc < 0)
        return rc;
    reaper_throttle(fs);
    rc = fs_tx_begin(fs, flags & RENAME_WHITEOUT ? DATASET_TX_WRITE : DATASET_TX_FREE, COST_NAME,
                     &t);
    if (rc == 0)
        rc = lock_dirs(&r);
    if (rc == 0)
        rc = find_children(&r);
    if (rc == 0 && nothing_to_do(&r))
        return 0;
    if (rc == 0)
        rc = check_tree(&r);
    if (rc < 0)
        return rc;
    lock_children(&r);
    return rename_locked(&r, &t.tx);
}
