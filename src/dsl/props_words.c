/* The words that index properties take, with their stored numbers (spec 04 5.2). Where two words mean
 * one number, the first is the one that is shown. */
#include "dsl/props_impl.h"

const struct prop_word words_onoff[] = {{"on", 1}, {"off", 0}, {NULL, 0}};

#define ZSTD(level) (16 + ((uint64_t)(level) << 7))

const struct prop_word words_compression[] = {
    {"on", 1}, {"off", 2}, {"lzjb", 3}, {"gzip", 10}, {"gzip-1", 5}, {"gzip-2", 6}, {"gzip-3", 7},
    {"gzip-4", 8}, {"gzip-5", 9}, {"gzip-6", 10}, {"gzip-7", 11}, {"gzip-8", 12}, {"gzip-9", 13},
    {"zle", 14}, {"lz4", 15}, {"zstd", 16}, {"zstd-1", ZSTD(1)}, {"zstd-2", ZSTD(2)},
    {"zstd-3", ZSTD(3)}, {"zstd-4", ZSTD(4)}, {"zstd-5", ZSTD(5)}, {"zstd-6", ZSTD(6)},
    {"zstd-7", ZSTD(7)}, {"zstd-8", ZSTD(8)}, {"zstd-9", ZSTD(9)}, {"zstd-10", ZSTD(10)},
    {"zstd-11", ZSTD(11)}, {"zstd-12", ZSTD(12)}, {"zstd-13", ZSTD(13)}, {"zstd-14", ZSTD(14)},
    {"zstd-15", ZSTD(15)}, {"zstd-16", ZSTD(16)}, {"zstd-17", ZSTD(17)}, {"zstd-18", ZSTD(18)},
    {"zstd-19", ZSTD(19)}, {"zstd-fast", ZSTD(103)}, {"zstd-fast-1", ZSTD(103)},
    {"zstd-fast-2", ZSTD(104)}, {"zstd-fast-3", ZSTD(105)}, {"zstd-fast-4", ZSTD(106)},
    {"zstd-fast-5", ZSTD(107)}, {"zstd-fast-6", ZSTD(108)}, {"zstd-fast-7", ZSTD(109)},
    {"zstd-fast-8", ZSTD(110)}, {"zstd-fast-9", ZSTD(111)}, {"zstd-fast-10", ZSTD(112)},
    {"zstd-fast-20", ZSTD(113)}, {"zstd-fast-30", ZSTD(114)}, {"zstd-fast-40", ZSTD(115)},
    {"zstd-fast-50", ZSTD(116)}, {"zstd-fast-60", ZSTD(117)}, {"zstd-fast-70", ZSTD(118)},
    {"zstd-fast-80", ZSTD(119)}, {"zstd-fast-90", ZSTD(120)}, {"zstd-fast-100", ZSTD(121)},
    {"zstd-fast-500", ZSTD(122)}, {"zstd-fast-1000", ZSTD(123)}, {NULL, 0}};

const struct prop_word words_checksum[] = {
    {"on", 1}, {"off", 2}, {"fletcher2", 6}, {"fletcher4", 7}, {"sha256", 8}, {"noparity", 10},
    {"sha512", 11}, {"skein", 12}, {"edonr", 13}, {"blake3", 14}, {NULL, 0}};

const struct prop_word words_dedup[] = {
    {"on", 1}, {"off", 2}, {"verify", 257}, {"sha256", 8}, {"sha256,verify", 264}, {"sha512", 11},
    {"sha512,verify", 267}, {"skein", 12}, {"skein,verify", 268}, {"edonr,verify", 269},
    {"blake3", 14}, {"blake3,verify", 270}, {NULL, 0}};

const struct prop_word words_type[] = {
    {"filesystem", 1}, {"volume", 4}, {"snapshot", 2}, {"bookmark", 32}, {NULL, 0}};
const struct prop_word words_yesno[] = {{"yes", 1}, {"no", 0}, {NULL, 0}};
const struct prop_word words_copies[] = {{"1", 1}, {"2", 2}, {"3", 3}, {NULL, 0}};
const struct prop_word words_redundant[] = {
    {"all", 0}, {"most", 1}, {"some", 2}, {"none", 3}, {NULL, 0}};
const struct prop_word words_sync[] = {
    {"standard", 0}, {"always", 1}, {"disabled", 2}, {NULL, 0}};
const struct prop_word words_logbias[] = {{"latency", 0}, {"throughput", 1}, {NULL, 0}};
const struct prop_word words_cache[] = {{"none", 0}, {"metadata", 1}, {"all", 2}, {NULL, 0}};
const struct prop_word words_direct[] = {
    {"disabled", 0}, {"standard", 1}, {"always", 2}, {NULL, 0}};
const struct prop_word words_dnodesize[] = {
    {"legacy", 0}, {"auto", 1}, {"1k", 1024}, {"2k", 2048}, {"4k", 4096}, {"8k", 8192},
    {"16k", 16384}, {NULL, 0}};
const struct prop_word words_snapdir[] = {
    {"hidden", 0}, {"visible", 1}, {"disabled", 2}, {NULL, 0}};
const struct prop_word words_snapdev[] = {{"hidden", 0}, {"visible", 1}, {NULL, 0}};
const struct prop_word words_volmode[] = {
    {"default", 0}, {"full", 1}, {"geom", 1}, {"dev", 2}, {"none", 3}, {NULL, 0}};
const struct prop_word words_aclmode[] = {
    {"discard", 0}, {"groupmask", 2}, {"passthrough", 3}, {"restricted", 4}, {NULL, 0}};
const struct prop_word words_aclinherit[] = {
    {"discard", 0}, {"noallow", 1}, {"restricted", 4}, {"passthrough", 3},
    {"passthrough-x", 5}, {"secure", 4}, {NULL, 0}};
const struct prop_word words_acltype[] = {
    {"off", 0}, {"posix", 1}, {"nfsv4", 2}, {"disabled", 0}, {"noacl", 0}, {"posixacl", 1}, {NULL, 0}};
const struct prop_word words_xattr[] = {
    {"off", 0}, {"dir", 1}, {"sa", 2}, {"on", 2}, {NULL, 0}};
const struct prop_word words_canmount[] = {{"off", 0}, {"on", 1}, {"noauto", 2}, {NULL, 0}};
const struct prop_word words_version[] = {
    {"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}, {"5", 5}, {"current", 5}, {NULL, 0}};
const struct prop_word words_case[] = {
    {"sensitive", 0}, {"insensitive", 1}, {"mixed", 2}, {NULL, 0}};
const struct prop_word words_normalization[] = {
    {"none", 0}, {"formD", 0x10}, {"formKC", 0x60}, {"formC", 0x50}, {"formKD", 0x20}, {NULL, 0}};
const struct prop_word words_encryption[] = {
    {"on", 1}, {"off", 2}, {"aes-128-ccm", 3}, {"aes-192-ccm", 4}, {"aes-256-ccm", 5},
    {"aes-128-gcm", 6}, {"aes-192-gcm", 7}, {"aes-256-gcm", 8}, {NULL, 0}};
const struct prop_word words_keyformat[] = {
    {"none", 0}, {"raw", 1}, {"hex", 2}, {"passphrase", 3}, {NULL, 0}};
const struct prop_word words_keystatus[] = {
    {"none", 0}, {"unavailable", 1}, {"available", 2}, {NULL, 0}};
