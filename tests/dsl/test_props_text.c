#include "../support/test.h"

#include <errno.h>
#include <string.h>

#include "dsl/props.h"
#include "util/err.h"

static void check_size(uint64_t n, const char *text)
{
    char out[16];

    prop_format_size(n, out);
    assert_string_equal(out, text);
}

/* Pairs seen side by side in "zfs list" and "zfs list -p" of the reference. */
static void sizes_as_zfs_prints_them(void **state)
{
    check_size(0, "0B");
    check_size(512, "512B");
    check_size(16236544, "15.5M");
    check_size(42483712, "40.5M");
    check_size(3188736, "3.04M");
    check_size(3174400, "3.03M");
    check_size(25600, "25K");
    check_size(24576, "24K");
    check_size(12595200, "12.0M");
    check_size(12582912, "12M");
    check_size(55066624, "52.5M");
    check_size(14336, "14K");
    check_size(1ull << 40, "1T");
    check_size(UINT64_MAX, "16.0E");
}

static void check_parse(const char *text, uint64_t want)
{
    uint64_t n;

    assert_int_equal(prop_parse_size(text, &n), 0);
    assert_int_equal(n, want);
}

static void sizes_are_parsed(void **state)
{
    check_parse("0", 0);
    check_parse("128K", 131072);
    check_parse("128k", 131072);
    check_parse("128KB", 131072);
    check_parse("128KiB", 131072);
    check_parse("10B", 10);
    check_parse("1.5M", 1572864);
}

static void size_errors(void **state)
{
    uint64_t n;
    int rc = prop_parse_size("10x", &n);

    assert_int_equal(rc, -EINVAL);
    assert_string_equal(err_text(rc), "invalid numeric suffix 'x'");
    rc = prop_parse_size("x", &n);
    assert_string_equal(err_text(rc), "bad numeric value 'x'");
    rc = prop_parse_size("16E", &n);
    assert_string_equal(err_text(rc), "numeric value is too large");
    assert_int_equal(prop_parse_size("99999999999999999999", &n), -ERANGE);
    assert_int_equal(prop_parse_size("1KK", &n), -EINVAL);
    assert_int_equal(prop_parse_size("1BB", &n), -EINVAL);
    assert_int_equal(prop_parse_size("", &n), -EINVAL);
    assert_int_equal(prop_parse_size("-1", &n), -EINVAL);
}

static void check_value(const char *name, const char *text, uint64_t number)
{
    const struct prop_info *p = prop_info(name);
    uint64_t n;
    char out[64];

    assert_non_null(p);
    assert_int_equal(prop_parse(p, text, &n), 0);
    assert_int_equal(n, number);
    prop_format(p, n, NULL, false, out, sizeof out);
    assert_string_equal(out, text);
}

/* Stored values of spec 04 5.2 and 19.1. */
static void words_and_numbers(void **state)
{
    check_value("compression", "zstd-7", 912);
    check_value("compression", "zstd-fast-6", 13840);
    check_value("compression", "gzip-5", 9);
    check_value("compression", "gzip", 10);
    check_value("compression", "zstd", 16);
    check_value("compression", "lz4", 15);
    check_value("dedup", "skein,verify", 268);
    check_value("checksum", "sha256", 8);
    check_value("dnodesize", "4k", 4096);
    check_value("quota", "none", 0);
    check_value("quota", "100M", 104857600);
    check_value("snapshot_limit", "50", 50);
    check_value("snapshot_limit", "none", UINT64_MAX);
    check_value("recordsize", "1M", 1 << 20);
    check_value("xattr", "sa", 2);
    check_value("aclinherit", "restricted", 4);
    check_value("canmount", "noauto", 2);
}

static void check_error(const char *name, const char *text, const char *sentence)
{
    uint64_t n;
    int rc = prop_parse(prop_info(name), text, &n);

    assert_int_not_equal(rc, 0);
    assert_string_equal(err_text(rc), sentence);
}

static void errors_as_the_reference_words_them(void **state)
{
    check_error("compression", "bad",
                "'compression' must be one of 'on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd "
                "| zstd-[1-19] | zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]'");
    check_error("recordsize", "3000", "'recordsize' must be power of 2 from 512B to 16M");
    check_error("recordsize", "64M", "'recordsize' must be power of 2 from 512B to 16M");
    check_error("mountpoint", "relative", "'mountpoint' must be an absolute path, 'none', or 'legacy'");
    check_error("quota", "10x", "invalid numeric suffix 'x'");
}

static void aliases(void **state)
{
    assert_string_equal(prop_info("rdonly")->name, "readonly");
    assert_string_equal(prop_info("compress")->name, "compression");
    assert_string_equal(prop_info("usedsnap")->name, "usedbysnapshots");
    assert_string_equal(prop_info("avail")->name, "available");
    assert_null(prop_info("nosuch"));
    assert_true(prop_user_name("com.example:k"));
    assert_false(prop_user_name("nocolon"));
    assert_false(prop_user_name("Com.example:k"));
    assert_false(prop_user_name("a:b c"));
}

static void formats_of_computed_numbers(void **state)
{
    char out[64];

    prop_format(prop_info("compressratio"), 100, NULL, false, out, sizeof out);
    assert_string_equal(out, "1.00x");
    prop_format(prop_info("compressratio"), 100, NULL, true, out, sizeof out);
    assert_string_equal(out, "1.00");
    prop_format(prop_info("written"), 0, NULL, false, out, sizeof out);
    assert_string_equal(out, "0");
    prop_format(prop_info("used"), 0, NULL, false, out, sizeof out);
    assert_string_equal(out, "0B");
    setenv("TZ", "UTC", 1);
    prop_format(prop_info("creation"), 1796033796, NULL, false, out, sizeof out);
    assert_string_equal(out, "Mon Nov 30 10:16 2026");
    prop_format(prop_info("snapshots_changed"), 1796033802, NULL, false, out, sizeof out);
    assert_string_equal(out, "Mon Nov 30 10:16:42 2026");
    prop_format(prop_info("creation"), 1796033796, NULL, true, out, sizeof out);
    assert_string_equal(out, "1796033796");
    prop_format(prop_info("quota"), 0, NULL, true, out, sizeof out);
    assert_string_equal(out, "0");
    prop_format(prop_info("compression"), 9999, NULL, false, out, sizeof out);
    assert_string_equal(out, "9999");
}

/* "zfs get all" of a file system in the reference, less what a fresh one does not show. */
static void table_in_the_reference_order(void **state)
{
    static const char *const names[] = {
        "type", "creation", "used", "available", "referenced", "compressratio", "mounted", "quota",
        "reservation", "recordsize", "mountpoint", "sharenfs", "checksum", "compression", "atime",
        "devices", "exec", "setuid", "readonly", "zoned", "snapdir", "aclmode", "aclinherit",
        "createtxg", "canmount", "xattr", "copies", "version", "utf8only", "normalization",
        "casesensitivity", "vscan", "nbmand", "sharesmb", "refquota", "refreservation", "guid",
        "primarycache", "secondarycache", "usedbysnapshots", "usedbydataset", "usedbychildren",
        "usedbyrefreservation", "logbias", "objsetid", "dedup", "mlslabel", "sync", "dnodesize",
        "refcompressratio", "written", "logicalused", "logicalreferenced", "volmode",
        "filesystem_limit", "snapshot_limit", "filesystem_count", "snapshot_count", "snapdev",
        "acltype", "context", "fscontext", "defcontext", "rootcontext", "relatime",
        "redundant_metadata", "overlay", "encryption", "keylocation", "keyformat", "pbkdf2iters",
        "special_small_blocks", "snapshots_changed", "prefetch", "direct", "longname",
        "defaultuserquota", "defaultgroupquota", "defaultprojectquota", "defaultuserobjquota",
        "defaultgroupobjquota", "defaultprojectobjquota"};
    static const char *const hidden[] = {"origin", "receive_resume_token", "encryptionroot", "keystatus",
                                         "redacted", "redact_snaps"};
    size_t count, at = 0;
    const struct prop_info *p = prop_table(&count);

    for (size_t i = 0; i < count; i++) {
        bool skip = !(p[i].flags & PROP_FILESYSTEM);

        for (size_t h = 0; h < sizeof hidden / sizeof hidden[0]; h++)
            skip |= strcmp(p[i].name, hidden[h]) == 0;
        if (!skip)
            assert_string_equal(p[i].name, names[at++]);
    }
    assert_int_equal(at, sizeof names / sizeof names[0]);
}

/* Defaults as the reference shows them. */
static void defaults(void **state)
{
    static const char *const rows[][2] = {
        {"quota", "none"}, {"recordsize", "128K"}, {"checksum", "on"}, {"compression", "on"},
        {"atime", "on"}, {"readonly", "off"}, {"snapdir", "hidden"}, {"aclinherit", "restricted"},
        {"xattr", "sa"}, {"copies", "1"}, {"primarycache", "all"}, {"logbias", "latency"},
        {"dedup", "off"}, {"sync", "standard"}, {"dnodesize", "legacy"}, {"volmode", "default"},
        {"filesystem_limit", "none"}, {"filesystem_count", "none"}, {"acltype", "off"},
        {"relatime", "on"}, {"redundant_metadata", "all"}, {"overlay", "on"}, {"encryption", "off"},
        {"special_small_blocks", "0"}, {"prefetch", "all"}, {"direct", "standard"},
        {"longname", "off"}, {"volblocksize", "16K"}, {"mlslabel", "none"}, {"version", "5"},
        {"sharenfs", "off"}, {"keylocation", "none"}, {"pbkdf2iters", "0"}, {"defaultuserquota", "0"}};
    char out[64];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct prop_info *p = prop_info(rows[i][0]);

        prop_format(p, p->number, p->string, false, out, sizeof out);
        assert_string_equal(out, rows[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_as_zfs_prints_them), cmocka_unit_test(sizes_are_parsed),
        cmocka_unit_test(size_errors), cmocka_unit_test(words_and_numbers),
        cmocka_unit_test(errors_as_the_reference_words_them), cmocka_unit_test(aliases),
        cmocka_unit_test(formats_of_computed_numbers), cmocka_unit_test(table_in_the_reference_order),
        cmocka_unit_test(defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
