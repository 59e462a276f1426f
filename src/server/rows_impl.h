/* Building the rows and results that operations send. */
#ifndef SERVER_ROWS_IMPL_H
#define SERVER_ROWS_IMPL_H

#include <stdint.h>

struct call;
struct nvlist;
struct json_object;

void put_text(struct json_object *o, const char *key, const char *text); /* NULL: "" */
void put_number(struct json_object *o, const char *key, uint64_t n);

int need_name(struct call *c, const char **name); /* args.name, or -EINVAL */

/* "(12ms) ioctl create" and its input below it, as "zpool history -i" shows such records.
 * malloc'ed. */
char *history_ioctl_text(const struct nvlist *record);

/* What is lost: errors, error_count and, with the argument verbose, the list damaged (damage.c). */
int put_damage(struct call *c, struct json_object *o);
void put_scan(struct call *c, struct json_object *o); /* scan, scan_stats (op_scan.c) */
int op_pool_get(struct call *c);
int op_pool_status(struct call *c);
int op_zfs_destroy(struct call *c);

#endif
