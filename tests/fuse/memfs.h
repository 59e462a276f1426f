/*
 * A file system in memory behind fs/fs.h: what the FUSE layer is tested and measured with. Complete
 * POSIX semantics, no storage work. It defines the fs_* functions, so a program that contains it
 * does not get those of the library.
 */
#ifndef TESTS_MEMFS_H
#define TESTS_MEMFS_H

#include "fs/fs.h"

/* limit: bytes of file data before ENOSPC, 0 for none. NULL: no memory. Ends with fs_close(). */
struct fs *memfs_new(const struct fs_options *opts, uint64_t limit);

/* Inodes that exist (named, or referenced): what leaks shows here. */
uint64_t memfs_inodes(struct fs *fs);
/* Lookup references on all inodes but the root. */
uint64_t memfs_references(struct fs *fs);

/* Set: forgetting more than was looked up is not the front end's mistake but the kernel's, and
 * ignored (for fuzzing). */
extern bool memfs_forgiving;

/* Changes a file or name behind the kernel's back, with or without telling it. */
int memfs_poke(struct fs *fs, uint64_t ino, const void *data, size_t n, bool tell);
int memfs_remove_name(struct fs *fs, uint64_t dir, const char *name, bool tell);

/* Called at the start of every read, write and fsync. For tests that need a slow file system. */
typedef void memfs_delay_fn(int op);
extern _Atomic(memfs_delay_fn *) memfs_delay; /* op: r, w, s */

#endif
