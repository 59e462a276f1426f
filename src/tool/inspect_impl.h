/* tarn inspect: a function per kind of structure. */
#ifndef TOOL_INSPECT_IMPL_H
#define TOOL_INSPECT_IMPL_H

#include "tool/tool_impl.h"

struct blkptr;
struct dnode;
struct nvlist;

struct inspect {
    struct tool *t;
    bool mos;    /* --mos: objects of the pool itself */
    bool blocks; /* --blocks */
    bool verbose;
    struct objset *temporary; /* of an encrypted dataset without its key, or NULL */
};

/* argv: what follows the kind. They return the exit status; errors have been reported. */
int inspect_label(struct inspect *x, int argc, char **argv);
int inspect_uberblocks(struct inspect *x, int argc, char **argv);
int inspect_config(struct inspect *x, int argc, char **argv);
int inspect_features(struct inspect *x, int argc, char **argv);
int inspect_history(struct inspect *x, int argc, char **argv);
int inspect_spacemaps(struct inspect *x, int argc, char **argv);
int inspect_mos(struct inspect *x, int argc, char **argv);
int inspect_dataset(struct inspect *x, int argc, char **argv);
int inspect_object(struct inspect *x, int argc, char **argv);
int inspect_block(struct inspect *x, int argc, char **argv);

/* A list as JSON (stream.c). */
struct json_object *tool_nvlist_row(const struct nvlist *l);
struct json_object *inspect_bp_row(const struct blkptr *bp);
/* What is known of an object, without its contents. */
struct json_object *inspect_dnode_row(struct dnode *dn);
/* Prints rows as a table: the head before the first one. */
void inspect_table(struct inspect *x, const struct tool_column *c, size_t n, bool *begun,
                   struct json_object *row);
/* Bytes as offset, hex and text. */
void inspect_dump(const unsigned char *p, size_t n);

#endif
