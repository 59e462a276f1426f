/* What a mount's options are: the dataset's properties, and what one mount has instead of them. */
#include <errno.h>
#include <string.h>

#include "dsl/dataset.h"
#include "dsl/props.h"
#include "fs/fs.h"
#include "fuse/fuse.h"
#include "server/mounts_impl.h"
#include "util/bytes.h"
#include "util/err.h"

static const char *const properties[TEMPS] = {
    [TEMP_READONLY] = "readonly", [TEMP_ATIME] = "atime",   [TEMP_RELATIME] = "relatime",
    [TEMP_EXEC] = "exec",         [TEMP_SETUID] = "setuid", [TEMP_DEVICES] = "devices",
};

static const struct {
    const char *word;
    int index;
    enum temporary value;
} words[] = {
    {"ro", TEMP_READONLY, TEMP_ON},           {"rw", TEMP_READONLY, TEMP_OFF},
    {"atime", TEMP_ATIME, TEMP_ON},           {"noatime", TEMP_ATIME, TEMP_OFF},
    {"relatime", TEMP_RELATIME, TEMP_ON},     {"norelatime", TEMP_RELATIME, TEMP_OFF},
    {"strictatime", TEMP_RELATIME, TEMP_OFF}, {"exec", TEMP_EXEC, TEMP_ON},
    {"noexec", TEMP_EXEC, TEMP_OFF},          {"suid", TEMP_SETUID, TEMP_ON},
    {"nosuid", TEMP_SETUID, TEMP_OFF},        {"setuid", TEMP_SETUID, TEMP_ON},
    {"nosetuid", TEMP_SETUID, TEMP_OFF},      {"dev", TEMP_DEVICES, TEMP_ON},
    {"nodev", TEMP_DEVICES, TEMP_OFF},        {"devices", TEMP_DEVICES, TEMP_ON},
    {"nodevices", TEMP_DEVICES, TEMP_OFF},
};

/* Words of fstab that mean nothing here. */
static const char *const ignored[] = {"defaults", "auto",  "noauto", "nofail",   "user",
                                      "nouser",   "users", "async",  "zfsutil",  "xattr",
                                      "_netdev",  "group", "owner",  "diratime", "nodiratime"};

static bool is_ignored(const char *word, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        if (strlen(ignored[i]) == n && strncmp(ignored[i], word, n) == 0)
            return true;
    return n == 0 || strncmp(word, "x-", 2) == 0 || strncmp(word, "comment=", 8) == 0;
}

int mount_options_parse(const char *text, enum temporary temporary[TEMPS])
{
    while (text && *text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < ARRAY_LEN(words) &&
               (strlen(words[i].word) != n || strncmp(words[i].word, text, n) != 0))
            i++;
        if (i < ARRAY_LEN(words))
            temporary[words[i].index] = words[i].value;
        else if (!is_ignored(text, n))
            return err_set(EINVAL, "invalid option '%.*s'", (int)n, text);
        text += n + (text[n] == ',');
    }
    return 0;
}

int mount_options_index(const char *property)
{
    for (int i = 0; i < TEMPS; i++)
        if (strcmp(property, properties[i]) == 0)
            return i;
    return -1;
}

bool mounts_temporary(const struct mount *m, const char *property, bool *on)
{
    int i = mount_options_index(property);
    if (!m || i < 0 || m->temporary[i] == TEMP_UNSET)
        return false;
    *on = m->temporary[i] == TEMP_ON;
    return *on != (prop_get_number(m->ds, property) != 0);
}

static bool option(const struct mount *m, int i)
{
    if (m->temporary[i] != TEMP_UNSET)
        return m->temporary[i] == TEMP_ON;
    return prop_get_number(m->ds, properties[i]) != 0;
}

/* A user property of ours that is "on". */
static bool user_option(struct dataset *ds, const char *name)
{
    struct prop_value v = {0};
    bool on = prop_get(ds, name, &v) == 0 && v.string && strcmp(v.string, "on") == 0;
    prop_value_clear(&v);
    return on;
}

void mount_options(const struct mount *m, bool pool_readonly, struct fs_options *fo,
                   struct fuse_mount_options *mo)
{
    fo->readonly = pool_readonly || dataset_is_snapshot(m->ds) || option(m, TEMP_READONLY);
    fo->atime = option(m, TEMP_ATIME);
    fo->relatime = option(m, TEMP_RELATIME);
    fo->xattr = (int)prop_get_number(m->ds, "xattr");
    fo->acltype = (int)prop_get_number(m->ds, "acltype");
    *mo = (struct fuse_mount_options){.target = m->target, .readonly = fo->readonly};
    mo->nosuid = !option(m, TEMP_SETUID);
    mo->nodev = !option(m, TEMP_DEVICES);
    mo->noexec = !option(m, TEMP_EXEC);
    mo->noatime = !fo->atime;
    mo->strictatime = fo->atime && !fo->relatime;
    mo->posix_acl = fo->acltype == FS_ACL_POSIX;
    mo->check_open = user_option(m->ds, "tarn:check_open");
}
