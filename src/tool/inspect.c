/* tarn inspect: dispatch, and what its kinds share. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "dmu/dnode.h"
#include "pool/blkptr.h"
#include "tool/inspect_impl.h"
#include "tool/verify_impl.h"

static const struct {
    const char *name;
    int (*run)(struct inspect *x, int argc, char **argv);
} kinds[] = {
    {"label", inspect_label},     {"uberblocks", inspect_uberblocks},
    {"config", inspect_config},   {"mos", inspect_mos},
    {"dataset", inspect_dataset}, {"object", inspect_object},
    {"block", inspect_block},     {"spacemaps", inspect_spacemaps},
    {"history", inspect_history}, {"features", inspect_features},
};

void inspect_dump(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        printf("  %08zx ", i);
        for (size_t k = i; k < i + 16; k++)
            printf(k < n ? " %02x" : "   ", k < n ? p[k] : 0);
        printf("  ");
        for (size_t k = i; k < i + 16 && k < n; k++)
            putchar(p[k] >= ' ' && p[k] < 0x7f ? p[k] : '.');
        printf("\n");
    }
}

void inspect_table(struct inspect *x, const struct tool_column *c, size_t n, bool *begun,
                   struct json_object *row)
{
    if (!x->t->json && !*begun)
        tool_table_head(c, n);
    *begun = true;
    if (!x->t->json)
        tool_table_row(x->t, c, n, row);
    tool_row(x->t, row);
}

struct json_object *inspect_bp_row(const struct blkptr *bp)
{
    char text[512];
    struct json_object *o = json_object_new_object();
    json_put_text(o, "text", bp_print(bp, text, sizeof text));
    if (bp_hole(bp)) {
        json_put_bool(o, "hole", true);
        json_put_number(o, "birth", bp_birth(bp));
        return o;
    }
    json_put_text(o, "type", verify_type_name(bp_type(bp) & 0x80 ? TALLY_OTHER : bp_type(bp)));
    json_put_number(o, "level", bp_level(bp));
    json_put_number(o, "lsize", bp_lsize(bp));
    json_put_number(o, "psize", bp_psize(bp));
    json_put_number(o, "compression", bp_compress(bp));
    json_put_number(o, "birth", bp_birth(bp));
    json_put_bool(o, "embedded", bp_embedded(bp));
    if (bp_embedded(bp))
        return o;
    json_put_number(o, "checksum", bp_checksum(bp));
    json_put_number(o, "physical_birth", bp_phys_birth(bp));
    json_put_number(o, "fill", bp_fill(bp));
    json_put_bool(o, "dedup", bp_dedup(bp));
    json_put_bool(o, "encrypted", bp_crypt(bp));
    json_put_bool(o, "gang", bp_gang(bp));
    struct json_object *places = json_object_new_array();
    for (int i = 0; i < bp_copies(bp); i++) {
        struct json_object *p = json_object_new_object();
        json_put_number(p, "vdev", dva_vdev(bp, i));
        json_put_number(p, "offset", dva_offset(bp, i));
        json_put_number(p, "asize", dva_asize(bp, i));
        json_object_array_add(places, p);
    }
    json_object_object_add(o, "places", places);
    return o;
}

static const char *type_name(unsigned type)
{
    static const char *const classes[] = {"uint8", "uint16", "uint32", "uint64", "zap"};
    if (type & 0x80)
        return (type & 0x1f) < 5 ? classes[type & 0x1f] : "unknown";
    return verify_type_name(type < 54 ? type : TALLY_TYPES);
}

struct json_object *inspect_dnode_row(struct dnode *dn)
{
    struct json_object *o = json_object_new_object();
    json_put_number(o, "object", dnode_object(dn));
    json_put_text(o, "type", type_name(dnode_type(dn)));
    json_put_text(o, "bonus_type", dnode_bonus_type(dn) ? type_name(dnode_bonus_type(dn)) : "-");
    json_put_number(o, "levels", dnode_levels(dn));
    json_put_number(o, "block_size", dnode_block_size(dn));
    json_put_number(o, "dnode_size", dnode_size(dn));
    json_put_number(o, "max_block", dnode_max_blkid(dn));
    json_put_number(o, "used", dnode_used(dn));
    return o;
}

int tool_inspect(struct tool *t, int argc, char **argv)
{
    static const struct option longs[] = {{"mos", no_argument, NULL, TOOL_OPT},
                                          {"blocks", no_argument, NULL, TOOL_OPT + 1},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {0}};
    struct inspect x = {.t = t};
    int opt;
    while ((opt = tool_getopt(t, argc, argv, "v", longs)) != -1) {
        if (opt == '?')
            return 2;
        x.mos |= opt == TOOL_OPT;
        x.blocks |= opt == TOOL_OPT + 1;
        x.verbose |= opt == 'v';
    }
    for (size_t i = 0; optind < argc && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[optind]) == 0)
            return kinds[i].run(&x, argc - optind - 1, argv + optind + 1);
    if (optind == argc)
        return tool_usage(t, "what is to be looked at?");
    return tool_usage(t, "there is no '%s' to look at", argv[optind]);
}
