/* Keeping two masters away from one device. */
#ifndef DEVICE_LOCK_IMPL_H
#define DEVICE_LOCK_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Takes an open-file-description lock on the whole of fd. -EBUSY if another holds one that
 * conflicts; 0 with a warning in the log on file systems that have no locks. */
int lock_take(int fd, const char *path, bool exclusive);

/* Sets the sentence of -EBUSY for path: who holds it, as far as it can be known. Returns -EBUSY. */
int lock_busy(const char *path, const struct stat *st);

/* Can it be seen who has the file: a process, a mount, another device on it? */
bool lock_is_explained(const struct stat *st);

/* The process that has a lock on the file st, or else one that has it open (a block device: open at
 * all). Writes e.g. "process 4711 (qemu-img)" into who; false if none is found (processes of other
 * users can only be seen by root). */
bool lock_holder(const struct stat *st, char *who, size_t n);

#endif
