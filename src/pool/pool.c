/* The pool's parts of this layer, and names. */
#include "pool/pool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/alloc.h"
#include "pool/block_impl.h"
#include "pool/errors.h"
#include "util/bytes.h"
#include "util/err.h"
#include "util/workers.h"
#include "vdev/vdev.h"

#define DIRTY_FLOOR   (64ull << 20) /* less, and txgs become too small to be written well */
#define DIRTY_CEILING (4ull << 30)

static uint64_t memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 30;
}

/* TARN_CACHE_LIMIT: bytes, or with K, M, G. */
static uint64_t chosen_limit(void)
{
    static const char units[] = "KMG";
    const char *text = getenv("TARN_CACHE_LIMIT"), *unit;
    char *end;
    unsigned long long n = text ? strtoull(text, &end, 10) : 0;

    if (n == 0 || n > UINT64_MAX >> 31)
        return 0;
    unit = *end ? strchr(units, *end) : NULL;
    return unit ? n << 10 * (unit - units + 1) : n;
}

uint64_t pool_dirty_max(const struct pool *pool)
{
    uint64_t most = MIN(memory_size() / 10, DIRTY_CEILING);

    return MIN(MAX(pool->cache_limit / 2, DIRTY_FLOOR), most);
}

int pool_init(struct pool *pool, const char *name, struct vdev *root, const struct env *env)
{
    int rc;

    if (strlen(name) >= sizeof pool->name)
        return err_set(EINVAL, "the pool's name is too long");
    memset(pool, 0, sizeof *pool);
    strcpy(pool->name, name);
    pool->env = *env;
    pool->cache_limit = chosen_limit();
    if (pool->cache_limit == 0)
    pool->cache_limit = memory_size() / 4;
    rc = workers_new(&pool->workers, 0);
    if (rc)
        return rc;
    rc = block_init(pool);
    rc = rc ? rc : pool_errors_new(&pool->errors);
    if (rc) {
        block_fini(pool);
        workers_free(pool->workers);
        return rc;
    }
    pool->root = root;
    pool->guid = root->guid;
    return 0;
}

void pool_fini(struct pool *pool)
{
    if (pool->block)
        block_drain(pool);
    workers_free(pool->workers);
    block_fini(pool);
    alloc_fini(pool);
    pool_errors_free(pool->errors);
    vdev_tree_free(pool->root);
    pool->workers = NULL;
    pool->root = NULL;
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

int pool_name_check(const char *name)
{
    static const char *const reserved[] = {"mirror", "raidz", "draid", "spare"};

    if (name[0] == 0)
        return err_set(EINVAL, "name is empty");
    if (strlen(name) >= sizeof((struct pool *)0)->name)
        return err_set(EINVAL, "name is too long");
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-_.: ", *p))
            return err_set(EINVAL, "invalid character '%c' in pool name", *p);
    if (!isalpha((unsigned char)name[0]))
        return err_set(EINVAL, "name must begin with a letter");
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (starts_with(name, reserved[i]))
            return err_set(EINVAL, "name is reserved");
    if (strcmp(name, "log") == 0)
        return err_set(EINVAL, "name is reserved");
    return 0;
}
