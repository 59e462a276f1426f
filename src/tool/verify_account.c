/*
 * The counters of datasets (spec 04 8). What a dataset refers to is what its previous snapshot
 * refers to, less what is on its deadlist, plus what is younger: the blocks that were found.
 */
#include <errno.h>
#include <string.h>

#include "dmu/dnode.h"
#include "dmu/objset.h"
#include "tool/verify_impl.h"
#include "util/bytes.h"
#include "util/err.h"

enum { DS_DIR = 0, DS_PREV = 1, DS_DEADLIST = 8, DS_REF = 9, DS_COMP = 10, DS_UNCOMP = 11 };

static struct counted_set *find(struct verify *v, uint64_t object)
{
    for (struct counted_set *s = v->sets; s; s = s->next)
        if (s->dataset && s->object == object)
            return s;
    return NULL;
}

/* used, compressed and uncompressed of a deadlist; false if it has the old form or is damaged. */
static bool deadlist(struct verify *v, uint64_t object, uint64_t sum[3])
{
    struct dnode *dn;
    memset(sum, 0, 3 * sizeof *sum);
    if (object == 0)
        return true;
    if (verify_hold(v, object, sum, 3, 3, &dn) != 0)
        return false;
    bool good = dnode_type(dn) == OT_DEADLIST;
    dnode_rele(dn);
    if (!good)
        memset(sum, 0, 3 * sizeof *sum);
    return good;
}

static void check(struct verify *v, struct counted_set *s)
{
    static const char *const words[] = {"referenced", "compressed", "uncompressed"};
    const struct counted_set *prev = s->words[DS_PREV] ? find(v, s->words[DS_PREV]) : NULL;
    uint64_t dead[3], found[3] = {s->used, s->compressed, s->uncompressed};
    if (s->damaged || (s->words[DS_PREV] && !prev) || !deadlist(v, s->words[DS_DEADLIST], dead))
        return;
    for (int i = 0; i < 3; i++) {
        uint64_t want = found[i] - dead[i] + (prev ? prev->words[DS_REF + i] : 0);
        if (want == s->words[DS_REF + i])
            continue;
        v->accounting++;
        verify_found(v, "counter", "dataset %llu: %s is %llu, its blocks make %llu",
                     (unsigned long long)s->object, words[i],
                     (unsigned long long)s->words[DS_REF + i], (unsigned long long)want);
    }
}

void verify_accounting(struct verify *v)
{
    for (struct counted_set *s = v->sets; s; s = s->next)
        if (s->dataset)
            check(v, s);
}
