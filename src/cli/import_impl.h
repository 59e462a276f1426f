/* zpool import: the listing. */
#ifndef CLI_IMPORT_IMPL_H
#define CLI_IMPORT_IMPL_H

#include <stdint.h>

struct scan_pool;

void import_print(const struct scan_pool *p, uint64_t own_hostid);

/* Of top-level vdevs without labels, what the pool itself knows, if it can be read. */
void import_complete(struct scan_pool *p);

#endif
