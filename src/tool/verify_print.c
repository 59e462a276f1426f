/* What tarn verify says at the end. */
#include <json-c/json.h>
#include <string.h>

#include "pool/pool.h"
#include "tool/verify_impl.h"
#include "vdev/vdev.h"

static const char *const names[TALLY_TYPES] = {
    "unallocated",
    "object directory",
    "object array",
    "packed nvlist",
    "packed nvlist size",
    "bpobj",
    "bpobj header",
    "SPA space map header",
    "SPA space map",
    "ZIL intent log",
    "DMU dnode",
    "DMU objset",
    "DSL directory",
    "DSL directory child map",
    "DSL dataset snap map",
    "DSL props",
    "DSL dataset",
    "ZFS znode",
    "ZFS V0 ACL",
    "ZFS plain file",
    "ZFS directory",
    "ZFS master node",
    "ZFS delete queue",
    "zvol object",
    "zvol prop",
    "other uint8[]",
    "other uint64[]",
    "other ZAP",
    "persistent error log",
    "SPA history",
    "SPA history offsets",
    "Pool properties",
    "DSL permissions",
    "ZFS ACL",
    "ZFS SYSACL",
    "FUID table",
    "FUID table size",
    "DSL dataset next clones",
    "scan work queue",
    "ZFS user/group/project used",
    "ZFS user/group/project quota",
    "snapshot refcount tags",
    "DDT ZAP algorithm",
    "DDT statistics",
    "System attributes",
    "SA master node",
    "SA attr registration",
    "SA attr layouts",
    "scan translations",
    "deduplicated block",
    "DSL deadlist map",
    "DSL deadlist map hdr",
    "DSL dir clones",
    "bpobj subobj",
    [TALLY_OTHER] = "other",
    [TALLY_DEFERRED] = "deferred free",
    [TALLY_DESTROY] = "being destroyed",
};

const char *verify_type_name(unsigned type)
{
    return type < TALLY_TYPES && names[type] ? names[type] : "unknown";
}

static void add(struct tally *to, const struct tally *t)
{
    to->blocks += t->blocks;
    to->lsize += t->lsize;
    to->psize += t->psize;
    to->asize += t->asize;
}

static void sum_up(const struct verify *v, struct counts *total)
{
    memset(total, 0, sizeof *total);
    for (unsigned i = 0; i <= v->threads; i++) {
        const struct counts *c = &v->count[i];
        for (unsigned t = 0; t < TALLY_TYPES; t++)
            for (unsigned l = 0; l < TALLY_LEVELS; l++)
                add(&total->type[t][l], &c->type[t][l]);
        total->embedded += c->embedded;
        total->gangs += c->gangs;
        total->dittoed += c->dittoed;
        total->extra_refs += c->extra_refs;
        total->dedup_asize += c->dedup_asize;
        total->clone_refs += c->clone_refs;
        total->clone_asize += c->clone_asize;
        total->checked_blocks += c->checked_blocks;
        total->checked_bytes += c->checked_bytes;
    }
}

static const struct tool_column columns[] = {
    {"blocks", "BLOCKS", false, 10}, {"lsize", "LSIZE", false, 14}, {"psize", "PSIZE", false, 14},
    {"asize", "ASIZE", false, 14},   {"ratio", "COMP", false, 7},   {"share", "%TOTAL", false, 7},
    {"type", "TYPE", true, 20},
};
#define COLUMNS (sizeof columns / sizeof *columns)

/* level < 0: all levels of the type. */
static void print_row(struct verify *v, const char *name, int level, const struct tally *t,
                      const struct tally *all)
{
    struct json_object *o = json_object_new_object();
    char text[64];
    json_put_number(o, "blocks", t->blocks);
    json_put_number(o, "lsize", t->lsize);
    json_put_number(o, "psize", t->psize);
    json_put_number(o, "asize", t->asize);
    snprintf(text, sizeof text, "%.2f", t->psize ? (double)t->lsize / (double)t->psize : 1.0);
    json_put_text(o, "ratio", text);
    snprintf(text, sizeof text, "%.2f",
             all->asize ? 100.0 * (double)t->asize / (double)all->asize : 0.0);
    json_put_text(o, "share", text);
    if (level >= 0 && !v->t->json) {
        snprintf(text, sizeof text, "    L%d %s", level, name);
        json_put_text(o, "type", text);
    } else {
        json_put_text(o, "type", name);
    }
    if (level >= 0)
        json_put_number(o, "level", (uint64_t)level);
    if (!v->t->json)
        tool_table_row(v->t, columns, COLUMNS, o);
    tool_row(v->t, o);
}

static void print_type(struct verify *v, const char *name, const struct tally level[TALLY_LEVELS],
                       const struct tally *all)
{
    struct tally t = {0};
    unsigned levels = 0;
    for (unsigned l = 0; l < TALLY_LEVELS; l++) {
        add(&t, &level[l]);
        levels += level[l].blocks != 0;
    }
    if (t.blocks == 0)
        return;
    for (int l = TALLY_LEVELS - 1; l >= 0 && (levels > 1 || v->t->json); l--)
        if (level[l].blocks)
            print_row(v, name, l, &level[l], all);
    print_row(v, name, -1, &t, all);
}

static void print_types(struct verify *v, const struct counts *c, const struct tally *all)
{
    struct tally total[TALLY_LEVELS] = {{0}};
    if (!v->t->json) {
        printf("\n");
        tool_table_head(columns, COLUMNS);
    }
    for (unsigned t = 0; t < TALLY_TYPES; t++) {
        print_type(v, verify_type_name(t), c->type[t], all);
        for (unsigned l = 0; l < TALLY_LEVELS; l++)
            add(&total[l], &c->type[t][l]);
    }
    print_type(v, "Total", total, all);
}

static int print_device(struct vdev *leaf, void *arg)
{
    struct vdev_stats st;
    char name[512];
    vdev_stats_read(leaf, &st);
    vdev_print_name(leaf, name, sizeof name);
    if (!vdev_readable(leaf) && leaf->kind->read && strcmp(leaf->kind->type, "hole") != 0)
        printf("  not checked: %s (%s)\n", name, vdev_state_name(leaf->state));
    else if (st.read_errors || st.checksum_errors)
        printf("  %s: %llu read errors, %llu checksum errors\n", name,
               (unsigned long long)st.read_errors, (unsigned long long)st.checksum_errors);
    return 0;
}

static struct json_object *summary(struct verify *v, const struct counts *c,
                                   const struct tally *all)
{
    static const char *const classes[] = {[VDEV_CLASS_NORMAL] = "normal",
                                          [VDEV_CLASS_LOG] = "log",
                                          [VDEV_CLASS_SPECIAL] = "special",
                                          [VDEV_CLASS_DEDUP] = "dedup"};
    struct json_object *o = json_object_new_object(), *k = json_object_new_object();
    double seconds = progress_seconds(&v->progress);
    seconds = seconds > 0.001 ? seconds : 0.001;
    json_put_text(o, "pool", v->pool->name);
    json_put_number(o, "blocks", all->blocks);
    json_put_number(o, "embedded", c->embedded);
    json_put_number(o, "gangs", c->gangs);
    json_put_number(o, "logical", all->lsize);
    json_put_number(o, "physical", all->psize);
    json_put_number(o, "allocated", all->asize);
    json_put_number(o, "deduplicated_references", c->extra_refs);
    json_put_number(o, "deduplicated", c->dedup_asize);
    json_put_number(o, "cloned_references", c->clone_refs);
    json_put_number(o, "cloned", c->clone_asize);
    json_put_number(o, "copies_on_one_vdev", c->dittoed);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (v->class_size[i])
            json_put_number(k, classes[i], v->class_alloc[i]);
    json_object_object_add(o, "space_maps", k);
    json_put_number(o, "claimed", v->found_alloc);
    json_put_number(o, "checkpoint", v->checkpoint);
    json_put_number(o, "gaps_of_removed_vdevs", v->gaps);
    json_put_number(o, "unclaimed_logs", v->unclaimed_logs);
    json_put_number(o, "unreadable", v->errors);
    json_put_number(o, "repairable", v->repairable);
    json_object_object_add(o, "devices", tool_device_rows(v->pool));
    json_put_number(o, "leaks", v->leaks);
    json_put_number(o, "leaked", v->leaked_bytes);
    json_put_number(o, "double_uses", v->double_claims);
    json_put_number(o, "used_but_free", v->used_but_free);
    json_put_number(o, "wrong_asizes", v->wrong_asize);
    json_put_number(o, "wrong_counters", v->accounting);
    json_put_number(o, "wrong_reference_counts", v->refcounts);
    json_put_number(o, "wrong_mos_references", v->mos_refs);
    json_put_number(o, "blocks_checked", c->checked_blocks);
    json_put_number(o, "bytes_checked", c->checked_bytes);
    json_object_object_add(o, "seconds", json_object_new_double(seconds));
    json_put_number(o, "blocks_per_second", (uint64_t)((double)c->checked_blocks / seconds));
    json_put_number(o, "bytes_per_second", (uint64_t)((double)c->checked_bytes / seconds));
    return o;
}

static void print_text(struct verify *v, const struct counts *c, const struct tally *all)
{
    char a[32], b[32];
    double seconds = progress_seconds(&v->progress);
    seconds = seconds > 0.001 ? seconds : 0.001;
    printf("pool '%s': %llu blocks, %llu embedded, %llu gangs\n", v->pool->name,
           (unsigned long long)all->blocks, (unsigned long long)c->embedded,
           (unsigned long long)c->gangs);
    printf("  logical %llu, physical %llu, allocated %llu bytes\n", (unsigned long long)all->lsize,
           (unsigned long long)all->psize, (unsigned long long)all->asize);
    if (c->extra_refs || c->clone_refs)
        printf("  saved by dedup %llu bytes (%llu references), by clones %llu (%llu)\n",
               (unsigned long long)c->dedup_asize, (unsigned long long)c->extra_refs,
               (unsigned long long)c->clone_asize, (unsigned long long)c->clone_refs);
    for (int k = 0; k < 4; k++)
        if (v->class_size[k])
            printf("  space maps%s: %llu bytes allocated, %.2f%% of %s\n",
                   k == VDEV_CLASS_LOG       ? " of logs"
                   : k == VDEV_CLASS_SPECIAL ? " of special vdevs"
                   : k == VDEV_CLASS_DEDUP   ? " of dedup vdevs"
                                             : "",
                   (unsigned long long)v->class_alloc[k],
                   100.0 * (double)v->class_alloc[k] / (double)v->class_size[k],
                   tool_size(v->class_size[k], true, a));
    if (v->checkpoint)
        printf("  kept for the checkpoint: %llu bytes\n", (unsigned long long)v->checkpoint);
    if (v->gaps)
        printf("  gaps between blocks of removed vdevs: %llu bytes\n", (unsigned long long)v->gaps);
    if (v->unclaimed_logs)
        printf("  intent logs that the next import will claim: %llu bytes\n",
               (unsigned long long)v->unclaimed_logs);
    printf("  checked %llu blocks, %s in %.2f s: %.0f blocks/s, %s/s\n",
           (unsigned long long)c->checked_blocks, tool_size(c->checked_bytes, true, a), seconds,
           (double)c->checked_blocks / seconds,
           tool_size((uint64_t)((double)c->checked_bytes / seconds), true, b));
    v->t->told_devices = true;
    vdev_each_leaf(v->pool->root, print_device, NULL);
    if (v->t->status == 0)
        printf("  no leaks, nothing used twice, every checksum right\n");
    else
        printf("  unreadable %llu, repairable %llu, leaks %llu (%llu bytes), used twice %llu, used "
               "but free %llu, wrong sizes %llu, wrong counters %llu, wrong reference counts %llu, "
               "wrong MOS references %llu\n",
               (unsigned long long)v->errors, (unsigned long long)v->repairable,
               (unsigned long long)v->leaks, (unsigned long long)v->leaked_bytes,
               (unsigned long long)v->double_claims, (unsigned long long)v->used_but_free,
               (unsigned long long)v->wrong_asize, (unsigned long long)v->accounting,
               (unsigned long long)v->refcounts, (unsigned long long)v->mos_refs);
}

void verify_print(struct verify *v)
{
    struct counts c;
    struct tally all = {0};
    sum_up(v, &c);
    for (unsigned t = 0; t < TALLY_TYPES; t++)
        for (unsigned l = 0; l < TALLY_LEVELS; l++)
            add(&all, &c.type[t][l]);
    if (v->t->json)
        v->t->summary = summary(v, &c, &all);
    else
        print_text(v, &c, &all);
    if (v->verbose || v->t->json)
        print_types(v, &c, &all);
}
