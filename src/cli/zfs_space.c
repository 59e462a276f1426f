/* zfs userspace, zfs groupspace, zfs projectspace */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/table_impl.h"
#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "server/client.h"
#include "server/json.h"
#include "util/bytes.h"
#include "util/err.h"

enum { TYPE, NAME, USED, QUOTA, OBJUSED, OBJQUOTA, OWNER_FIELDS };
static const char *const fields[OWNER_FIELDS] = {"type",  "name",    "used",
                                                 "quota", "objused", "objquota"};
static const char *const heads[OWNER_FIELDS] = {"TYPE",  "NAME",    "USED",
                                                "QUOTA", "OBJUSED", "OBJQUOTA"};

struct owner {
    char text[2][256]; /* type, name */
    uint64_t number[OWNER_FIELDS];
};

struct space {
    bool scripted, exact, numeric;
    unsigned field[OWNER_FIELDS * 2], nfields;
    struct {
        unsigned field;
        bool down;
    } key[OWNER_FIELDS * 2];
    unsigned nkeys;
    struct owner *owner;
    size_t n;
};

static struct space *sorting; /* qsort has no argument for it */

static int find_field(const char *word, size_t n)
{
    for (int i = 0; i < OWNER_FIELDS; i++)
        if (strlen(fields[i]) == n && strncmp(fields[i], word, n) == 0)
            return i;
    return -1;
}

/* What -t can name. SMB identities are never counted here: they are users and groups as others. */
enum { KIND_USER = 1, KIND_GROUP = 2, KIND_PROJECT = 4 };
static const struct {
    const char *word;
    unsigned kinds;
} kind_words[] = {{"all", KIND_USER | KIND_GROUP},
                  {"posixuser", KIND_USER},
                  {"posixgroup", KIND_GROUP},
                  {"smbuser", 0},
                  {"smbgroup", 0},
                  {"project", KIND_PROJECT}};

#define BAD_WORD 255

static int bad_word(const char *word, size_t n, char option)
{
    fprintf(stderr, "invalid type '%.*s' for -%c option\n", (int)n, word, option);
    return BAD_WORD;
}

static int parse_kinds(unsigned *kinds, const char *text)
{
    for (*kinds = 0; *text; text += strcspn(text, ","), text += *text == ',') {
        size_t n = strcspn(text, ","), i = 0;
        while (i < ARRAY_LEN(kind_words) &&
               (strlen(kind_words[i].word) != n || strncmp(kind_words[i].word, text, n) != 0))
            i++;
        if (i == ARRAY_LEN(kind_words))
            return bad_word(text, n, 't');
        *kinds |= kind_words[i].kinds;
    }
    return 0;
}

static int parse_fields(struct space *s, const char *text)
{
    for (s->nfields = 0; *text; text += strcspn(text, ","), text += *text == ',') {
        int f = find_field(text, strcspn(text, ","));
        if (f < 0 || s->nfields == ARRAY_LEN(s->field))
            return bad_word(text, strcspn(text, ","), 'o');
        s->field[s->nfields++] = (unsigned)f;
    }
    return 0;
}

static int add_key(struct space *s, const char *word, bool down)
{
    int f = find_field(word, strlen(word));
    if (f < 0 || s->nkeys == ARRAY_LEN(s->key))
        return usage_error("invalid field '%s'", word);
    s->key[s->nkeys].field = (unsigned)f;
    s->key[s->nkeys++].down = down;
    return 0;
}

/* Numbers of owners without a name come last, in their order. */
static int compare_names(const char *a, const char *b)
{
    bool x = *a >= '0' && *a <= '9', y = *b >= '0' && *b <= '9';
    if (x != y)
        return x - y;
    unsigned long long m = strtoull(a, NULL, 10), n = strtoull(b, NULL, 10);
    return x && m != n ? (m > n) - (m < n) : strcmp(a, b);
}

static int compare_field(const struct owner *a, const struct owner *b, unsigned f)
{
    if (f == TYPE)
        return strcmp(a->text[f], b->text[f]);
    if (f == NAME)
        return compare_names(a->text[f], b->text[f]);
    return (a->number[f] > b->number[f]) - (a->number[f] < b->number[f]);
}

static int compare(const void *x, const void *y)
{
    for (unsigned i = 0; i < sorting->nkeys; i++) {
        int c = compare_field(x, y, sorting->key[i].field);
        if (c)
            return sorting->key[i].down ? -c : c;
    }
    int c = compare_field(x, y, TYPE);
    return c ? c : compare_field(x, y, NAME);
}

static int add_owner(void *arg, struct json_object *row)
{
    struct space *s = arg;
    struct owner *more = realloc(s->owner, (s->n + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    s->owner = more;
    struct owner *o = &s->owner[s->n++];
    snprintf(o->text[TYPE], sizeof o->text[TYPE], "%s", json_text(row, "type", ""));
    snprintf(o->text[NAME], sizeof o->text[NAME], "%s",
             json_text(row, s->numeric ? "id" : "name", ""));
    for (int f = USED; f < OWNER_FIELDS; f++)
        o->number[f] = json_unsigned(row, fields[f]);
    return 0;
}

static void cell(const struct space *s, const struct owner *o, unsigned f, char out[256])
{
    if (f == TYPE || f == NAME)
        snprintf(out, 256, "%s", o->text[f]);
    else if (f >= OBJUSED && o->number[OBJUSED] == 0 && o->number[OBJQUOTA] == 0)
        snprintf(out, 256, "-");
    else if ((f == QUOTA || f == OBJQUOTA) && o->number[f] == 0 && !s->exact)
        snprintf(out, 256, "none");
    else if (s->exact || f == OBJUSED || f == OBJQUOTA)
        snprintf(out, 256, "%llu", (unsigned long long)o->number[f]);
    else
        prop_format_size(o->number[f], out);
}

static int print(struct space *s)
{
    struct column columns[OWNER_FIELDS * 2];
    struct table t;
    int rc = 0;
    for (unsigned i = 0; i < s->nfields; i++)
        columns[i] = (struct column){heads[s->field[i]], s->field[i] <= NAME, 0};
    table_init(&t, columns, s->nfields);
    sorting = s;
    if (s->n > 1)
        qsort(s->owner, s->n, sizeof *s->owner, compare);
    for (size_t k = 0; k < s->n && rc == 0; k++) {
        char text[OWNER_FIELDS * 2][256];
        const char *cells[OWNER_FIELDS * 2];
        for (unsigned i = 0; i < s->nfields; i++) {
            cell(s, &s->owner[k], s->field[i], text[i]);
            cells[i] = text[i];
        }
        rc = table_add(&t, cells);
    }
    if (rc == 0)
        table_print(&t, s->scripted);
    table_free(&t);
    return rc;
}

static int show(struct space *s, unsigned kinds, const char *name)
{
    static const char *const words[] = {"user", "group", "project"};
    char head[256];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(name, "@"), name);
    struct client *c = open_pool(head);
    if (!c)
        return 1;
    int rc = 0;
    for (unsigned k = 0; k < ARRAY_LEN(words) && rc == 0; k++) {
        if (!(kinds & 1u << k))
            continue;
        struct json_object *args = json_object_new_object();
        put_string(args, "name", name);
        put_string(args, "kind", words[k]);
        rc = client_call(c, "zfs.owners", args, add_owner, s, NULL);
    }
    if (rc == 0)
        rc = print(s);
    if (rc != 0)
        fail(rc, rc == -ENOENT ? "cannot open '%s'" : "cannot get used/quota for %s", name);
    client_close(c);
    free(s->owner);
    return rc == -EPERM ? 255 : rc ? 1 : 0; /* as the reference has it */
}

static int space(unsigned kinds, int argc, char **argv)
{
    struct space s = {.nfields = 0};
    int opt, rc = parse_fields(&s, "type,name,used,quota,objused,objquota");
    while (rc == 0 && (opt = getopt(argc, argv, ":Hinpo:s:S:t:")) != -1) {
        if (opt == 'H')
            s.scripted = true;
        else if (opt == 'n')
            s.numeric = true;
        else if (opt == 'p')
            s.exact = true;
        else if (opt == 't')
            rc = parse_kinds(&kinds, optarg);
        else if (opt == 'o')
            rc = parse_fields(&s, optarg);
        else if (opt == 's' || opt == 'S')
            rc = add_key(&s, optarg, opt == 'S');
        else if (opt != 'i') /* identities of SMB, of which there are none */
            rc = usage_option(opt);
    }
    if (rc == 0 && optind == argc)
        rc = usage_shown();
    if (rc == 0 && argc - optind > 1)
        rc = usage_error("too many arguments");
    return rc ? rc : show(&s, kinds, argv[optind]);
}

int zfs_userspace(int argc, char **argv)
{
    return space(KIND_USER, argc, argv);
}

int zfs_groupspace(int argc, char **argv)
{
    return space(KIND_GROUP, argc, argv);
}

int zfs_projectspace(int argc, char **argv)
{
    return space(KIND_PROJECT, argc, argv);
}
