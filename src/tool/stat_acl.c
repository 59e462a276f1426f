/* tarn stat: owners of Windows domains and NFSv4 access lists. */
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "tool/tool_impl.h"

struct letter {
    uint32_t bit;
    char letter;
};

/* As getfacl of FreeBSD and nfs4_getfacl have them. */
static const struct letter rights[] = {
    {0x1, 'r'},     {0x2, 'w'},     {0x20, 'x'},    {0x4, 'p'},     {0x40, 'D'},
    {0x10000, 'd'}, {0x80, 'a'},    {0x100, 'A'},   {0x8, 'R'},     {0x10, 'W'},
    {0x20000, 'c'}, {0x40000, 'C'}, {0x80000, 'o'}, {0x100000, 's'}};
static const struct letter heirs[] = {{0x1, 'f'},  {0x2, 'd'},  {0x8, 'i'}, {0x4, 'n'},
                                      {0x10, 'S'}, {0x20, 'F'}, {0x80, 'I'}};

static void spell(uint32_t bits, const struct letter *l, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bits & l[i].bit ? l[i].letter : '-';
    out[n] = '\0';
}

static const char *type_word(unsigned type)
{
    static const char *const words[] = {"allow", "deny", "audit", "alarm"};
    return type < sizeof words / sizeof *words ? words[type] : "other";
}

/* owner@, user:1000, group:S-1-5-21-...-513 */
static void who_text(const struct target *x, const struct fs_ace *a, char *out, size_t cap)
{
    char sid[512];
    if (a->flags & 0x1000)
        snprintf(out, cap, "owner@");
    else if (a->flags & 0x2000)
        snprintf(out, cap, "group@");
    else if (a->flags & 0x4000)
        snprintf(out, cap, "everyone@");
    else if (fs_sid(x->fs, a->who, sid, sizeof sid) == 0)
        snprintf(out, cap, "%s:%s", a->flags & FS_ACE_IS_GROUP ? "group" : "user", sid);
    else
        snprintf(out, cap, "%s:%" PRIu64, a->flags & FS_ACE_IS_GROUP ? "group" : "user", a->who);
}

static struct json_object *list(const struct target *x, const struct fs_acl *acl)
{
    struct json_object *rows = json_object_new_array();
    char who[600], text[32];
    for (size_t i = 0; i < acl->n; i++) {
        const struct fs_ace *a = &acl->ace[i];
        struct json_object *o = json_object_new_object();
        who_text(x, a, who, sizeof who);
        json_put_name(o, "who", who);
        spell(a->mask, rights, sizeof rights / sizeof *rights, text);
        json_put_text(o, "permissions", text);
        spell(a->flags, heirs, sizeof heirs / sizeof *heirs, text);
        json_put_text(o, "flags", text);
        json_put_text(o, "type", type_word(a->type));
        json_put_number(o, "mask", a->mask);
        json_object_array_add(rows, o);
    }
    return rows;
}

void stat_put_acl(struct tool *t, const struct target *x, struct json_object *o)
{
    struct fs_acl acl;
    char sid[512];
    int rc = fs_acl_read(x->fs, x->ino, &acl);
    if (rc) {
        tool_error(t, rc, "%s: access list", x->text);
        return;
    }
    if (fs_sid(x->fs, acl.uid, sid, sizeof sid) == 0)
        json_put_name(o, "uid_sid", sid);
    if (fs_sid(x->fs, acl.gid, sid, sizeof sid) == 0)
        json_put_name(o, "gid_sid", sid);
    if (!acl.trivial)
        json_object_object_add(o, "nfs4_acl", list(x, &acl));
    fs_acl_free(&acl);
}

static const char *text_of(struct json_object *o, const char *key)
{
    struct json_object *v;
    return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : NULL;
}

static void print_sid(struct tool *t, const char *what, const char *sid)
{
    if (!sid)
        return;
    printf("%s", what);
    tool_print_name(t, stdout, sid);
    printf("\n");
}

void stat_print_acl(struct tool *t, const struct target *x)
{
    struct json_object *o = json_object_new_object(), *rows;
    stat_put_acl(t, x, o);
    print_sid(t, " Owner: ", text_of(o, "uid_sid"));
    print_sid(t, " Group: ", text_of(o, "gid_sid"));
    for (size_t i = 0; json_object_object_get_ex(o, "nfs4_acl", &rows) &&
                       i < json_object_array_length(rows); i++) {
        struct json_object *a = json_object_array_get_idx(rows, i);
        printf(" NFSv4: ");
        tool_print_name(t, stdout, text_of(a, "who"));
        printf(":%s:%s:%s\n", text_of(a, "permissions"), text_of(a, "flags"), text_of(a, "type"));
    }
    json_object_put(o);
}
