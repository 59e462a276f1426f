/*
 * Copying files out: the reading side. Files are read in large pieces; a piece that fails is read
 * again block by block, so that only the blocks that are really lost are left out; each is named by
 * file and offset.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "dsl/dataset.h"
#include "tool/tool_impl.h"
#include "util/bytes.h"
#include "util/cleanup.h"
#include "util/err.h"
#include "util/hashmap.h"

#define CHUNK (1u << 20)

/* A file with several links, and where its first one was put. */
struct link {
    struct hashmap_node node;
    uint64_t ino;
    char *path;
};

struct links {
    struct hashmap map;
};

struct reader {
    struct copy *c;
    struct fs *fs;
    struct dnode *volume; /* or this */
    uint64_t ino;
    uint32_t block; /* bytes */
    const char *from, *to;
    unsigned char *buffer;
    uint64_t lost;               /* bytes of this file */
    uint64_t lost_from, lost_to; /* neighbours are reported together */
};

/* ---- Contents ---- */

static int read_piece(struct reader *r, uint64_t off, size_t n)
{
    err_clear();
    if (r->volume)
        return dnode_read(r->volume, off, r->buffer, n);
    ssize_t got = fs_read_with(r->fs, r->ino, off, r->buffer, n, FS_READ_NOATIME);
    if (got >= 0 && (size_t)got < n)
        memset(r->buffer + got, 0, n - (size_t)got);
    return got < 0 ? (int)got : 0;
}

static void report_lost(struct reader *r)
{
    struct copy *c = r->c;
    if (r->lost_to == r->lost_from)
        return;
    tool_error(c->t, -EIO, "%s: %llu bytes at offset %llu cannot be read", r->from,
               (unsigned long long)(r->lost_to - r->lost_from), (unsigned long long)r->lost_from);
    if (c->t->json && c->rows) {
        struct json_object *o = json_object_new_object();
        json_put_name(o, "unreadable", r->from);
        json_put_number(o, "offset", r->lost_from);
        json_put_number(o, "length", r->lost_to - r->lost_from);
        tool_row(c->t, o);
    }
    r->lost_from = r->lost_to = 0;
}

static int lose(struct reader *r, uint64_t off, size_t n)
{
    if (r->lost_to != off || r->lost_to == r->lost_from) {
        report_lost(r);
        r->lost_from = off;
    }
    r->lost_to = off + n;
    r->lost += n;
    r->c->lost_bytes += n;
    return r->c->sink->lost(r->c->sink, off, n);
}

static int copy_blocks(struct reader *r, uint64_t off, uint64_t end)
{
    int rc = 0;
    while (off < end && rc == 0) {
        uint64_t next = MIN(ROUND_DOWN(off, r->block) + r->block, end);
        size_t n = (size_t)(next - off);
        if (read_piece(r, off, n) == 0)
            rc = r->c->sink->data(r->c->sink, off, r->buffer, n);
        else
            rc = lose(r, off, n);
        off = next;
    }
    return rc;
}

static int copy_extent(struct reader *r, uint64_t off, uint64_t end)
{
    uint64_t step = MAX((uint64_t)CHUNK, r->block);
    int rc = 0;
    while (off < end && rc == 0) {
        uint64_t next = MIN(ROUND_DOWN(off, step) + step, end);
        if (read_piece(r, off, (size_t)(next - off)) == 0)
            rc = r->c->sink->data(r->c->sink, off, r->buffer, (size_t)(next - off));
        else
            rc = copy_blocks(r, off, next);
        r->c->bytes += next - off;
        progress_show(&r->c->progress, r->c->bytes, 0);
        off = next;
    }
    return rc;
}

static int copy_contents(struct reader *r, const struct copy_item *item)
{
    int rc = 0;
    size_t room = MAX((size_t)CHUNK, r->block);
    if (!(r->buffer = aligned_alloc(4096, ROUND_UP(room, 4096u))))
        return -ENOMEM;
    for (size_t i = 0; i < item->nextent && rc == 0; i++)
        rc = copy_extent(r, item->extent[i].start, item->extent[i].end);
    report_lost(r);
    free(r->buffer);
    return rc;
}

/* ---- Extents ---- */

static int add_extent(struct copy_item *item, size_t *cap, uint64_t start, uint64_t end)
{
    if (item->nextent == *cap) {
        size_t more = *cap ? 2 * *cap : 8;
        void *grown = realloc(item->extent, more * sizeof *item->extent);
        if (!grown)
            return -ENOMEM;
        item->extent = grown;
        *cap = more;
    }
    item->extent[item->nextent++] = (struct copy_extent){start, end};
    return 0;
}

static int seek(struct reader *r, uint64_t off, bool hole, uint64_t *out)
{
    if (!r->volume)
        return fs_seek(r->fs, r->ino, off, hole ? SEEK_HOLE : SEEK_DATA, out);
    *out = off;
    return dnode_seek(r->volume, out, hole);
}

/* What is no hole. Where that cannot be known (damage), everything counts as data. */
static int find_extents(struct reader *r, struct copy_item *item, bool whole)
{
    uint64_t size = item->attr.size, pos = 0, start, end;
    size_t cap = 0;
    int rc = 0;
    if (whole)
        return size ? add_extent(item, &cap, 0, size) : 0;
    while (pos < size && rc == 0) {
        int one = seek(r, pos, false, &start);
        if (one == -ENXIO || (one == 0 && start >= size))
            break;
        if (one == 0)
            one = seek(r, start, true, &end);
        if (one != 0 || end <= start) {
            start = one == 0 ? start : pos;
            end = size;
        }
        end = MIN(end, size);
        rc = add_extent(item, &cap, start, end);
        pos = end;
    }
    return rc;
}

/* ---- Extended attributes ---- */

static int add_xattr(struct copy_item *item, const char *name, unsigned char *value, size_t n)
{
    void *grown = realloc(item->xattr, (item->nxattr + 1) * sizeof *item->xattr);
    char *copy = strdup(name);
    if (grown)
        item->xattr = grown;
    if (!grown || !copy) {
        free(copy);
        free(value);
        return -ENOMEM;
    }
    item->xattr[item->nxattr++] = (struct copy_xattr){copy, value, n};
    return 0;
}

static void read_xattrs(struct reader *r, struct copy_item *item)
{
    err_clear();
    ssize_t n = fs_listxattr(r->fs, r->ino, NULL, 0, true);
    CLEANUP_FREE char *names = n > 0 ? malloc((size_t)n) : NULL;
    if (names)
        n = fs_listxattr(r->fs, r->ino, names, (size_t)n, true);
    if (n < 0 && n != -EOPNOTSUPP) {
        tool_error(r->c->t, (int)n, "%s: extended attributes", r->from);
        r->c->lost_files++;
    }
    for (const char *name = names; name && n > 0 && name < names + n; name += strlen(name) + 1) {
        err_clear();
        ssize_t size = fs_getxattr(r->fs, r->ino, name, NULL, 0);
        unsigned char *value = malloc(size > 0 ? (size_t)size : 1);
        if (value && size > 0)
            size = fs_getxattr(r->fs, r->ino, name, value, (size_t)size);
        if (size < 0 || !value) {
            tool_error(r->c->t, value ? (int)size : -ENOMEM, "%s: extended attribute %s", r->from,
                       name);
            free(value);
        } else {
            add_xattr(item, name, value, (size_t)size);
        }
    }
}

static void free_item(struct copy_item *item)
{
    for (size_t i = 0; i < item->nxattr; i++) {
        free(item->xattr[i].name);
        free(item->xattr[i].value);
    }
    free(item->xattr);
    free(item->extent);
}

/* ---- Files ---- */

/* The path an earlier link of the file was copied to; NULL: this is the first. */
static const char *earlier_link(struct copy *c, const struct fs_attr *a, const char *to)
{
    struct links *l = c->links;
    struct link *k;
    if (!l || a->nlink < 2 || S_ISDIR(a->mode))
        return NULL;
    for (struct hashmap_node *n = hashmap_first(&l->map, hash_u64(a->ino)); n;
         n = hashmap_next(n)) {
        k = container_of(n, struct link, node);
        if (k->ino == a->ino)
            return k->path;
    }
    k = calloc(1, sizeof *k);
    if (k && (k->path = strdup(to))) {
        k->ino = a->ino;
        hashmap_insert(&l->map, &k->node, hash_u64(a->ino));
    } else {
        free(k);
    }
    return NULL;
}

static void free_links(struct links *l)
{
    for (size_t i = 0; l->map.slots && i <= l->map.mask; i++)
        for (struct hashmap_node *n = l->map.slots[i], *next; n; n = next) {
            next = n->next;
            free(container_of(n, struct link, node)->path);
            free(container_of(n, struct link, node));
        }
    hashmap_destroy(&l->map);
}

static int copy_item(struct reader *r, struct copy_item *item)
{
    struct copy *c = r->c;
    bool skip = false, regular = S_ISREG(item->attr.mode) || r->volume;
    int rc = 0;
    bool later = S_ISDIR(item->attr.mode) && c->sink->leave;
    if (!item->hard_link && !r->volume && !later)
        read_xattrs(r, item);
    if (regular && !item->hard_link)
        rc = find_extents(r, item, c->whole);
    if (rc == 0)
        rc = c->sink->begin(c->sink, item, &skip);
    c->files++;
    if (rc && rc != -ENOSPC && rc != -EDQUOT && rc != -EROFS && rc != -EPIPE && rc != -ENOMEM) {
        c->lost_files++; /* this one only */
        tool_error(c->t, rc, "%s", r->from);
        return 0;
    }
    if (skip) {
        c->skipped++;
        c->bytes += item->attr.blocks * 512;
        return rc;
    }
    if (rc == 0 && regular && !item->hard_link)
        rc = copy_contents(r, item);
    if (r->lost)
        c->lost_files++;
    if (rc == 0)
        rc = c->sink->end(c->sink, item, r->lost > 0);
    return rc;
}

static int copy_entry(struct copy *c, struct fs *fs, const struct fs_attr *attr, const char *from,
                      const char *to)
{
    struct copy_item item = {.path = to, .attr = *attr};
    struct reader r = {.c = c, .fs = fs, .ino = attr->ino, .from = from, .to = to};
    CLEANUP_FREE char *target = NULL;
    r.block = attr->blksize ? attr->blksize : 131072;
    c->nfs4_acls += attr->nfs4_acl;
    item.hard_link = earlier_link(c, attr, to);
    if (S_ISLNK(attr->mode)) {
        target = malloc(65536);
        err_clear();
        int n = target ? fs_readlink(fs, attr->ino, target, 65535) : -ENOMEM;
        if (n < 0) {
            tool_error(c->t, n, "%s", from);
            c->lost_files++;
            return 0;
        }
        target[n] = '\0';
        item.target = target;
    }
    if (c->verbose)
        fprintf(stderr, "%s\n", from);
    int rc = copy_item(&r, &item);
    free_item(&item);
    return rc;
}

struct tree {
    struct copy *c;
    const char *from, *to;
};

/* A directory gets its attributes last: times would change, and what is made in it would inherit
 * its default ACL. */
static int copy_leave(struct copy *c, const struct walk_entry *e, const char *to)
{
    struct copy_item item = {.path = to, .attr = e->attr};
    struct reader r = {.c = c, .fs = e->fs, .ino = e->attr.ino, .from = e->path, .to = to};
    if (!c->sink->leave)
        return 0;
    read_xattrs(&r, &item);
    int rc = c->sink->leave(c->sink, &item);
    free_item(&item);
    return rc;
}

static int visit(void *arg, const struct walk_entry *e, enum walk_when when)
{
    struct tree *t = arg;
    CLEANUP_FREE char *to = NULL;
    const char *below = e->path + strlen(t->from);
    while (*below == '/')
        below++;
    if (asprintf(&to, "%s%s%s", t->to, *t->to && *below ? "/" : "", below) < 0) {
        to = NULL;
        return -ENOMEM;
    }
    if (when == WALK_ENTRY)
        return copy_entry(t->c, e->fs, &e->attr, e->path, to);
    return copy_leave(t->c, e, to);
}

int copy_tree(struct copy *c, struct fs *fs, const struct fs_attr *attr, const char *from,
              const char *to)
{
    struct links links;
    struct tree t = {c, from, to};
    int rc = hashmap_init(&links.map, 64);
    if (rc)
        return rc;
    c->links = &links;
    rc = walk_tree(c->t, fs, attr, from, visit, &t);
    c->links = NULL;
    free_links(&links);
    return rc;
}

int copy_volume(struct copy *c, struct dataset *ds, const char *from, const char *to)
{
    struct copy_item item = {.path = to};
    struct reader r = {.c = c, .from = from, .to = to};
    struct objset *os;
    item.attr.mode = S_IFREG | 0600;
    item.attr.nlink = 1;
    int rc = tool_volume_open(c->t, ds, &item.attr.size);
    if (rc == 0)
        rc = dataset_objset(ds, &os);
    if (rc == 0)
        rc = dnode_hold(os, 1, &r.volume);
    if (rc) {
        tool_error(c->t, rc, "%s", from);
        return 0;
    }
    r.block = dnode_block_size(r.volume);
    rc = copy_item(&r, &item);
    dnode_rele(r.volume);
    free_item(&item);
    return rc;
}
