/* Properties of datasets as columns. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/zfs_impl.h"
#include "dsl/props.h"
#include "util/bytes.h"

#define NUMBER_WIDTH 5 /* columns of numbers are at least so wide */

/* The longest word an index property can have; of "type" only what is there counts. */
static size_t word_width(const struct prop_info *info)
{
    size_t w = 0;
    if (info->kind != PROP_INDEX || strcmp(info->name, "type") == 0)
        return 0;
    for (const struct prop_word *p = info->words; p->word; p++)
        w = MAX(w, strlen(p->word));
    return w;
}

bool counted_property(const char *name)
{
    static const char *const kinds[] = {"user", "group", "project"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(name, kinds[i], n) == 0 &&
            (strncmp(name + n, "used@", 5) == 0 || strncmp(name + n, "quota@", 6) == 0 ||
             strncmp(name + n, "objused@", 8) == 0 || strncmp(name + n, "objquota@", 9) == 0))
            return true;
    }
    return strncmp(name, "written@", 8) == 0 || strncmp(name, "written#", 8) == 0;
}

int zfs_column(const char *name, struct report_column *c)
{
    const struct prop_info *info = prop_info(name);
    *c = (struct report_column){.prop = name, .left = true};
    if (strcmp(name, "name") == 0) {
        snprintf(c->head, sizeof c->head, "NAME");
    } else if (info) {
        c->prop = info->name;
        bool date = info->style == PROP_STYLE_TIME || info->style == PROP_STYLE_TIME_SEC;
        c->left = info->left || date;
        c->width = c->left ? word_width(info) : NUMBER_WIDTH;
        snprintf(c->head, sizeof c->head, "%s", info->column);
    } else if (prop_user_name(name)) {
        snprintf(c->head, sizeof c->head, "%s", name);
        for (char *p = c->head; *p; p++)
            *p = (char)toupper((unsigned char)*p);
    } else if (counted_property(name)) {
        bool written = strncmp(name, "written", 7) == 0;
        snprintf(c->head, sizeof c->head, "%s", name);
        for (char *p = c->head; *p && (written || *p != '@'); p++)
            *p = (char)toupper((unsigned char)*p);
        c->left = false;
    } else {
        return usage_error("bad property list: invalid property '%s'", name);
    }
    return 0;
}
