/* What the rows of zfs.list are made of. */
#ifndef SERVER_LIST_IMPL_H
#define SERVER_LIST_IMPL_H

struct bookmark_stats;
struct call;
struct json_object;
struct prop_info;
struct prop_value;

int op_zfs_list(struct call *c);

/* {"value": ..., "source": ...} under the property's name; borrowed. */
struct json_object *add_value(struct json_object *into, const char *name, const char *value,
                              const struct prop_value *v);
/* The same with the value formatted, and as plain numbers too. */
int add_text(const struct prop_info *info, const char *name, const struct prop_value *v,
             struct json_object *into);

/* Sends the row of a bookmark with those of the properties (names, "all") that it has. */
int bookmark_row(struct call *c, const struct bookmark_stats *b, struct json_object *props);

#endif
