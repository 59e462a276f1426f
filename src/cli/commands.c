/* The tables of subcommands. A command without a function is one of OpenZFS's that is still to
 * come. */
#include "cli/zfs_impl.h"
#include "cli/zpool_impl.h"

#define LATER       NULL, NULL
#define SPACE_USAGE                                                                                \
    "[-Hinp] [-o FIELD,...] [-s FIELD]... [-S FIELD]... [-t TYPE,...] FILESYSTEM | SNAPSHOT"

const struct command zpool_commands[] = {
    {"add", zpool_add, "[-fgLnP] [-o ashift=N] POOL DEVICE..."},
    {"attach", zpool_attach, "[-f] [-o ashift=N] POOL DEVICE NEW-DEVICE"},
    {"clear", zpool_clear, "POOL [DEVICE]"},
    {"create", zpool_create,
     "[-fnd] [-o PROPERTY=VALUE]... [-O FS-PROPERTY=VALUE]... [-m MOUNTPOINT] [-R ROOT] POOL "
     "DEVICE..."},
    {"destroy", zpool_destroy, "[-f] POOL"},
    {"detach", zpool_detach, "POOL DEVICE"},
    {"export", zpool_export, "[-f] -a | POOL..."},
    {"get", zpool_get,
     "[-Hp] [-j [--json-int] [--json-pool-key-guid]] [-o FIELD,...] all | PROPERTY,... [POOL]..."},
    {"help", LATER},
    {"history", zpool_history, "[-il] [POOL]..."},
    {"import", zpool_import,
     "[-d DIR | -d DEVICE]... [-D]\n"
     "       zpool import [-d DIR | -d DEVICE]... [-DflN] [-o PROPERTY=VALUE]... [-R ROOT]\n"
     "                    [--rewind-to-checkpoint] [-T TXG]\n"
     "                    -a | POOL [NEWNAME] | GUID [NEWNAME]"},
    {"iostat", zpool_iostat,
     "[-gHLnpPvy] [-T d|u] [POOL... | POOL VDEV...] [INTERVAL [COUNT]]"},
    {"labelclear", zpool_labelclear, "[-f] DEVICE"},
    {"list", zpool_list,
     "[-gHLpPv] [-j [--json-int] [--json-pool-key-guid]] [-o PROPERTY,...] [-T d|u] [POOL]...\n"
     "                  [INTERVAL [COUNT]]"},
    {"offline", zpool_offline, "[-t] POOL DEVICE..."},
    {"online", zpool_online, "POOL DEVICE..."},
    {"reopen", zpool_reopen, "[-n] [POOL]..."},
    {"replace", zpool_replace, "[-f] [-o ashift=N] POOL DEVICE [NEW-DEVICE]"},
    {"resilver", zpool_resilver, "POOL..."},
    {"scrub", zpool_scrub, "[-s | -p] [-w] -a | POOL..."},
    {"set", zpool_set, "PROPERTY=VALUE POOL"},
    {"status", zpool_status,
     "[-dDegiLpPstvx] [-j [--json-int] [--json-flat-vdevs] [--json-pool-key-guid]] [-T d|u]\n"
     "                    [POOL]... [INTERVAL [COUNT]]"},
    {"sync", zpool_sync, "[POOL]..."},
    {"version", NULL, "[-j]"},
    {"wait", zpool_wait, "[-Hp] [-T d|u] [-t ACTIVITY[,...]] POOL [INTERVAL]"},
    {"checkpoint", LATER},
    {"ddtprune", LATER},
    {"events", LATER},
    {"initialize", zpool_initialize, "[-c | -s | -u] [-w] -a | POOL [DEVICE]..."},
    {"prefetch", LATER},
    {"reguid", LATER},
    {"remove", LATER},
    {"split", LATER},
    {"trim", zpool_trim, "[-dw] [-r RATE] [-c | -s] -a | POOL [DEVICE]..."},
    {"upgrade", LATER},
    {NULL, LATER},
};

const struct command zfs_commands[] = {
    {"allow", zfs_allow,
     "FILESYSTEM|VOLUME\n"
     "       zfs allow [-dglu] USER|GROUP[,...] PERMISSION|@SET[,...] FILESYSTEM|VOLUME\n"
     "       zfs allow [-dl] -e|everyone PERMISSION|@SET[,...] FILESYSTEM|VOLUME\n"
     "       zfs allow -c PERMISSION|@SET[,...] FILESYSTEM|VOLUME\n"
     "       zfs allow -s @SET PERMISSION|@SET[,...] FILESYSTEM|VOLUME"},
    {"bookmark", zfs_bookmark, "SNAPSHOT | BOOKMARK NEWBOOKMARK"},
    {"clone", zfs_clone, "[-pu] [-o PROPERTY=VALUE]... SNAPSHOT FILESYSTEM"},
    {"create", zfs_create, "[-nPpuv] [-o PROPERTY=VALUE]... FILESYSTEM"},
    {"destroy", zfs_destroy,
     "[-fnpRrv] FILESYSTEM\n       zfs destroy [-dnpRrv] FILESYSTEM@SNAPSHOT[%SNAPSHOT][,...]\n"
     "       zfs destroy FILESYSTEM#BOOKMARK"},
    {"diff", zfs_diff, "[-FHth] SNAPSHOT [SNAPSHOT | FILESYSTEM]"},
    {"get", zfs_get,
     "[-rHp] [-j [--json-int]] [-d DEPTH] [-o FIELD,...] [-t TYPE,...] [-s SOURCE,...]\n"
     "               all | PROPERTY,... [DATASET | MOUNTPOINT]..."},
    {"help", LATER},
    {"hold", zfs_hold, "[-r] TAG SNAPSHOT..."},
    {"holds", zfs_holds, "[-rHp] SNAPSHOT..."},
    {"inherit", zfs_inherit, "[-rS] PROPERTY DATASET..."},
    {"list", zfs_list,
     "[-rHp] [-j [--json-int]] [-d DEPTH] [-o PROPERTY,...] [-s PROPERTY]... [-S PROPERTY]...\n"
     "                [-t TYPE,...] [DATASET | MOUNTPOINT]..."},
    {"load-key", zfs_load_key, "[-rn] [-L KEYLOCATION] -a | FILESYSTEM|VOLUME"},
    {"mount", zfs_mount, "[-j]\n       zfs mount [-lOv] [-o OPTIONS] -a | FILESYSTEM"},
    {"project", zfs_project,
     "[-d|-r] FILE|DIRECTORY...\n"
     "       zfs project -C [-kr] FILE|DIRECTORY...\n"
     "       zfs project -c [-0] [-d|-r] [-p ID] FILE|DIRECTORY...\n"
     "       zfs project [-p ID] [-rs] FILE|DIRECTORY..."},
    {"promote", zfs_promote, "FILESYSTEM"},
    {"release", zfs_release, "[-r] TAG SNAPSHOT..."},
    {"rename", zfs_rename,
     "[-fpu] FILESYSTEM FILESYSTEM\n       zfs rename [-r] SNAPSHOT SNAPSHOT"},
    {"rollback", zfs_rollback, "[-rRf] SNAPSHOT"},
    {"set", zfs_set, "[-u] PROPERTY=VALUE... DATASET..."},
    {"snapshot", zfs_snapshot, "[-r] [-o PROPERTY=VALUE]... DATASET@NAME..."},
    {"snap", zfs_snapshot, "[-r] [-o PROPERTY=VALUE]... DATASET@NAME..."},
    {"unallow", zfs_unallow,
     "[-dglru] USER|GROUP[,...] [PERMISSION|@SET[,...]] FILESYSTEM|VOLUME\n"
     "       zfs unallow [-dlr] -e|everyone [PERMISSION|@SET[,...]] FILESYSTEM|VOLUME\n"
     "       zfs unallow [-r] -c [PERMISSION|@SET[,...]] FILESYSTEM|VOLUME\n"
     "       zfs unallow [-r] -s @SET [PERMISSION|@SET[,...]] FILESYSTEM|VOLUME"},
    {"unload-key", zfs_unload_key, "[-r] -a | FILESYSTEM|VOLUME"},
    {"unmount", zfs_unmount, "[-f] -a | FILESYSTEM | MOUNTPOINT"},
    {"upgrade", zfs_upgrade, "[-v]\n       zfs upgrade [-r] [-V VERSION] -a | FILESYSTEM..."},
    {"userspace", zfs_userspace, SPACE_USAGE},
    {"groupspace", zfs_groupspace, SPACE_USAGE},
    {"projectspace", zfs_projectspace, SPACE_USAGE},
    {"umount", zfs_unmount, "[-f] -a | FILESYSTEM | MOUNTPOINT"},
    {"version", NULL, "[-j]"},
    {"change-key", LATER},
    {"program", LATER},
    {"receive", LATER},
    {"recv", LATER},
    {"redact", LATER},
    {"rewrite", LATER},
    {"send", LATER},
    {"share", LATER},
    {"unshare", LATER},
    {"unzone", LATER},
    {"wait", LATER},
    {"zone", LATER},
    {NULL, LATER},
};
