/*
 * Inside memfs. Locks: fs->tree guards the inode table, directories, link counts and the parents of
 * directories; inode->lock the rest of the inode. Order: tree, then one inode.
 */
#ifndef TESTS_MEMFS_IMPL_H
#define TESTS_MEMFS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "memfs.h"
#include "util/hashmap.h"

#define MEMFS_PAGE 4096u

struct page {
    uint64_t index;
    unsigned char *data;
};

struct xattr {
    struct xattr *next;
    char *name;
    size_t len;
    unsigned char value[];
};

struct entry {
    struct hashmap_node node; /* in dir->names */
    struct inode *inode;
    uint64_t cookie; /* position + 3 */
    size_t len;
    char name[];
};

struct inode {
    struct hashmap_node node; /* in fs->inodes */
    _Atomic uint64_t refs;
    pthread_rwlock_t lock;
    struct fs_attr a;
    struct page *pages; /* sorted */
    size_t n_pages, cap_pages;
    struct xattr *xattrs;
    char *target;
    /* Directories: */
    struct hashmap names;
    struct entry **order; /* by cookie; removed ones are NULL */
    size_t n_order, cap_order;
    uint64_t parent;
    uint32_t projid;
};

struct fs {
    struct fs_options opts;
    pthread_rwlock_t tree;
    struct hashmap inodes;
    struct inode *root;
    uint64_t next_ino;
    uint64_t limit;
    _Atomic uint64_t used;
    fs_invalidate_fn *invalidate;
    void *invalidate_arg;
};

struct inode *memfs_get(struct fs *fs, uint64_t ino);                   /* tree held */
struct inode *memfs_inode_new(struct fs *fs, const struct fs_new *new); /* tree held for writing */
void memfs_drop_if_dead(struct fs *fs, struct inode *i);                /* tree held for writing */
struct timespec memfs_now(void);
void memfs_attr(struct inode *i, struct fs_attr *out); /* takes i->lock */

/* i->lock held for writing. */
void memfs_kill_suidgid(struct inode *i, bool any_sgid);
void memfs_kill_caps(struct inode *i);
int memfs_truncate(struct fs *fs, struct inode *i, uint64_t size);
void memfs_free_pages(struct fs *fs, struct inode *i);
void memfs_free_xattrs(struct inode *i);
int memfs_inherit_acl(const struct inode *dir, struct inode *i, uint32_t umask);
void memfs_acl_chmod(struct inode *i);

#endif
