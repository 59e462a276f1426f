/*
 * All native properties of OpenZFS 2.4, in the order of "zfs get all" (spec 04 5.2 and 8.5). To add one:
 * a row here, its words in props_words.c, and what it does in props_apply.c (docs/dsl.md).
 */
#include <string.h>
#include <strings.h>

#include "dsl/props_impl.h"
#include "util/bytes.h"

#define I   PROP_INHERIT
#define F   PROP_FILESYSTEM
#define V   PROP_VOLUME
#define S   PROP_SNAPSHOT
#define FV  (F | V)
#define FVS (F | V | S)
#define OK  PROP_SUPPORTED
#define ONE PROP_ONETIME
#define KEPT PROP_KEPT
#define RO  PROP_READONLY

#define NUMBER(n, a, flags, def, values, column, style)                                            \
    {n, a, PROP_NUMBER, flags, def, NULL, NULL, values, column, false, PROP_STYLE_##style}
#define INDEX(n, a, flags, def, list, values, column)                                              \
    {n, a, PROP_INDEX, flags, def, NULL, words_##list, values, column, true, PROP_STYLE_PLAIN}
#define STRING(n, flags, def, values, column)                                                      \
    {n, NULL, PROP_STRING, flags, 0, def, NULL, values, column, true, PROP_STYLE_PLAIN}

#define ONOFF "on | off"
#define COMPRESSION_VALUES                                                                         \
    "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | "          \
    "zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]"
#define DEDUP_VALUES                                                                               \
    "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | "     \
    "blake3[,verify]"

static const struct prop_info table[] = {
    INDEX("type", NULL, FVS | RO, 0, type, "filesystem | volume | snapshot | bookmark", "TYPE"),
    NUMBER("creation", NULL, FVS | RO, 0, "<date>", "CREATION", TIME),
    NUMBER("used", NULL, FVS | RO, 0, "<size>", "USED", BYTES),
    NUMBER("available", "avail", FV | RO, 0, "<size>", "AVAIL", BYTES),
    NUMBER("referenced", "refer", FVS | RO, 0, "<size>", "REFER", BYTES),
    NUMBER("compressratio", "ratio", FVS | RO, 0, "<1.00x or higher if compressed>", "RATIO", RATIO),
    INDEX("mounted", NULL, F | RO, 0, yesno, "yes | no", "MOUNTED"),
    STRING("origin", FV | RO, "", "<snapshot>", "ORIGIN"),
    NUMBER("quota", NULL, F | OK, 0, "<size> | none", "QUOTA", BYTES_NONE),
    NUMBER("reservation", "reserv", FV | OK, 0, "<size> | none", "RESERV", BYTES_NONE),
    NUMBER("volsize", NULL, V, 0, "<size>", "VOLSIZE", BYTES),
    NUMBER("volblocksize", "volblock", V | ONE, 16384, "512 to 16M, power of 2", "VOLBLOCK", BYTES),
    NUMBER("recordsize", "recsize", I | F | OK, 131072, "512 to 16M, power of 2", "RECSIZE", BYTES),
    STRING("mountpoint", I | F | OK, "/", "<path> | legacy | none", "MOUNTPOINT"),
    STRING("sharenfs", I | F | KEPT, "off", "on | off | NFS share options", "SHARENFS"),
    INDEX("checksum", NULL, I | FV | OK, 1, checksum,
          "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3", "CHECKSUM"),
    INDEX("compression", "compress", I | FV | OK, 1, compression, COMPRESSION_VALUES, "COMPRESS"),
    INDEX("atime", NULL, I | F | OK, 1, onoff, ONOFF, "ATIME"),
    INDEX("devices", NULL, I | F | S | OK, 1, onoff, ONOFF, "DEVICES"),
    INDEX("exec", NULL, I | F | S | OK, 1, onoff, ONOFF, "EXEC"),
    INDEX("setuid", NULL, I | F | S | OK, 1, onoff, ONOFF, "SETUID"),
    INDEX("readonly", "rdonly", I | FV | OK, 0, onoff, ONOFF, "RDONLY"),
    INDEX("zoned", NULL, I | F | KEPT, 0, onoff, ONOFF, "ZONED"),
    INDEX("snapdir", NULL, I | F | OK, 0, snapdir, "disabled | hidden | visible", "SNAPDIR"),
    INDEX("aclmode", NULL, I | F | KEPT, 0, aclmode, "discard | groupmask | passthrough | restricted",
          "ACLMODE"),
    INDEX("aclinherit", NULL, I | F | KEPT, 4, aclinherit,
          "discard | noallow | restricted | passthrough | passthrough-x", "ACLINHERIT"),
    NUMBER("createtxg", NULL, FVS | RO, 0, "<uint64>", "CREATETXG", PLAIN),
    INDEX("canmount", NULL, F | OK, 1, canmount, "on | off | noauto", "CANMOUNT"),
    INDEX("xattr", NULL, I | F | S | OK, 2, xattr, "on | off | dir | sa", "XATTR"),
    INDEX("copies", NULL, I | FV | OK, 1, copies, "1 | 2 | 3", "COPIES"),
    INDEX("version", NULL, F | S, 5, version, "1 | 2 | 3 | 4 | 5 | current", "VERSION"),
    INDEX("utf8only", NULL, F | S | ONE, 0, onoff, ONOFF, "UTF8ONLY"),
    INDEX("normalization", NULL, F | S | ONE, 0, normalization,
          "none | formC | formD | formKC | formKD", "NORMALIZATION"),
    INDEX("casesensitivity", NULL, F | S | ONE, 0, case, "sensitive | insensitive | mixed", "CASE"),
    INDEX("vscan", NULL, I | F | KEPT, 0, onoff, ONOFF, "VSCAN"),
    INDEX("nbmand", NULL, I | F | S | KEPT, 0, onoff, ONOFF, "NBMAND"),
    STRING("sharesmb", I | F | KEPT, "off", "on | off | SMB share options", "SHARESMB"),
    NUMBER("refquota", NULL, F | OK, 0, "<size> | none", "REFQUOTA", BYTES_NONE),
    NUMBER("refreservation", "refreserv", FV | OK, 0, "<size> | none", "REFRESERV", BYTES_NONE),
    NUMBER("guid", NULL, FVS | RO, 0, "<uint64>", "GUID", PLAIN),
    INDEX("primarycache", NULL, I | FVS | KEPT, 2, cache, "all | none | metadata", "PRIMARYCACHE"),
    INDEX("secondarycache", NULL, I | FVS | KEPT, 2, cache, "all | none | metadata", "SECONDARYCACHE"),
    NUMBER("usedbysnapshots", NULL, FV | RO, 0, "<size>", "USEDSNAP", BYTES),
    NUMBER("usedbydataset", NULL, FV | RO, 0, "<size>", "USEDDS", BYTES),
    NUMBER("usedbychildren", NULL, FV | RO, 0, "<size>", "USEDCHILD", BYTES),
    NUMBER("usedbyrefreservation", NULL, FV | RO, 0, "<size>", "USEDREFRESERV", BYTES),
    INDEX("defer_destroy", NULL, S | RO, 0, onoff, "yes | no", "DEFER_DESTROY"),
    NUMBER("userrefs", NULL, S | RO, 0, "<count>", "USERREFS", PLAIN),
    INDEX("logbias", NULL, I | FV | KEPT, 0, logbias, "latency | throughput", "LOGBIAS"),
    NUMBER("objsetid", NULL, FVS | RO, 0, "<uint64>", "OBJSETID", PLAIN),
    INDEX("dedup", NULL, I | FV | KEPT, 2, dedup, DEDUP_VALUES, "DEDUP"),
    STRING("mlslabel", I | FVS, "none", "<sensitivity label>", "MLSLABEL"),
    INDEX("sync", NULL, I | FV | KEPT, 0, sync, "standard | always | disabled", "SYNC"),
    INDEX("dnodesize", "dnsize", I | F | OK, 0, dnodesize, "legacy | auto | 1k | 2k | 4k | 8k | 16k",
          "DNSIZE"),
    NUMBER("refcompressratio", "refratio", FVS | RO, 0, "<1.00x or higher if compressed>", "REFRATIO",
           RATIO),
    NUMBER("written", NULL, FVS | RO, 0, "<size>", "WRITTEN", NICE),
    STRING("clones", S | RO, "", "<dataset>[,...]", "CLONES"),
    NUMBER("logicalused", "lused", FV | RO, 0, "<size>", "LUSED", BYTES),
    NUMBER("logicalreferenced", "lrefer", FVS | RO, 0, "<size>", "LREFER", BYTES),
    INDEX("volmode", NULL, I | FV | KEPT, 0, volmode, "default | full | geom | dev | none", "VOLMODE"),
    NUMBER("filesystem_limit", NULL, F | OK, PROP_NONE_MAX, "<count> | none", "FSLIMIT", COUNT_NONE),
    NUMBER("snapshot_limit", NULL, FV | OK, PROP_NONE_MAX, "<count> | none", "SSLIMIT", COUNT_NONE),
    NUMBER("filesystem_count", NULL, F | RO, PROP_NONE_MAX, "<count>", "FSCOUNT", COUNT_NONE),
    NUMBER("snapshot_count", NULL, FV | RO, PROP_NONE_MAX, "<count>", "SSCOUNT", COUNT_NONE),
    INDEX("snapdev", NULL, I | FV | KEPT, 0, snapdev, "hidden | visible", "SNAPDEV"),
    INDEX("acltype", NULL, I | F | S | OK, 0, acltype, "off | nfsv4 | posix", "ACLTYPE"),
    STRING("context", FVS | KEPT, "none", "<selinux context>", "CONTEXT"),
    STRING("fscontext", FVS | KEPT, "none", "<selinux fscontext>", "FSCONTEXT"),
    STRING("defcontext", FVS | KEPT, "none", "<selinux defcontext>", "DEFCONTEXT"),
    STRING("rootcontext", FVS | KEPT, "none", "<selinux rootcontext>", "ROOTCONTEXT"),
    INDEX("relatime", NULL, I | F | OK, 1, onoff, ONOFF, "RELATIME"),
    INDEX("redundant_metadata", "redund_md", I | FV | OK, 0, redundant, "all | most | some | none",
          "REDUND_MD"),
    INDEX("overlay", NULL, I | F | OK, 1, onoff, ONOFF, "OVERLAY"),
    STRING("receive_resume_token", FV | RO, "", "<string token>", "RESUMETOK"),
    INDEX("encryption", NULL, FVS | ONE, 2, encryption,
          "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | "
          "aes-256-gcm",
          "ENCRYPTION"),
    STRING("keylocation", FV, "none", "prompt | <file URI> | <https URL> | <http URL>", "KEYLOCATION"),
    INDEX("keyformat", NULL, FV | ONE, 0, keyformat, "none | raw | hex | passphrase", "KEYFORMAT"),
    NUMBER("pbkdf2iters", NULL, FV | ONE, 0, "<iters>", "PBKDF2ITERS", PLAIN),
    STRING("encryptionroot", FVS | RO, "", "<filesystem | volume>", "ENCROOT"),
    INDEX("keystatus", NULL, FVS | RO, 0, keystatus, "none | unavailable | available", "KEYSTATUS"),
    NUMBER("special_small_blocks", NULL, I | FV | KEPT, 0, "0 to 16M", "SPECIAL_SMALL_BLOCKS", NICE),
    INDEX("redacted", NULL, FVS | RO, 0, yesno, "yes | no", "REDACTED"),
    STRING("redact_snaps", FVS | RO, "", "<snapshot>[,...]", "RSNAPS"),
    NUMBER("snapshots_changed", NULL, FV | RO, 0, "<date>", "SNAPSHOTS_CHANGED", TIME_SEC),
    INDEX("prefetch", NULL, I | FVS | KEPT, 2, cache, "none | metadata | all", "PREFETCH"),
    INDEX("volthreading", NULL, V, 1, onoff, ONOFF, "VOLTHREADING"),
    INDEX("direct", NULL, I | F | KEPT, 1, direct, "disabled | standard | always", "DIRECT"),
    INDEX("longname", NULL, I | F, 0, onoff, ONOFF, "LONGNAME"),
    NUMBER("defaultuserquota", NULL, F | S, 0, "<size> | none", "DEFAULTUSERQUOTA", NICE),
    NUMBER("defaultgroupquota", NULL, F | S, 0, "<size> | none", "DEFAULTGROUPQUOTA", NICE),
    NUMBER("defaultprojectquota", NULL, F | S, 0, "<size> | none", "DEFAULTPROJECTQUOTA", NICE),
    NUMBER("defaultuserobjquota", NULL, F | S, 0, "<size> | none", "DEFAULTUSEROBJQUOTA", NICE),
    NUMBER("defaultgroupobjquota", NULL, F | S, 0, "<size> | none", "DEFAULTGROUPOBJQUOTA", NICE),
    NUMBER("defaultprojectobjquota", NULL, F | S, 0, "<size> | none", "DEFAULTPROJECTOBJQUOTA", NICE),
};

const struct prop_info *prop_table(size_t *count)
{
    *count = ARRAY_LEN(table);
    return table;
}

const struct prop_info *prop_info(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(name, table[i].name) == 0 ||
            (table[i].alias && strcmp(name, table[i].alias) == 0))
            return &table[i];
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcasecmp(name, table[i].column) == 0)
            return &table[i];
    return NULL;
}

bool prop_user_name(const char *name)
{
    size_t n = strlen(name);

    return n < 256 && n > 0 && strchr(name, ':') != NULL &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == n;
}
