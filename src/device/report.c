/* What an out-of-memory error says: who has the memory, and what would help. Every sentence is computed from what is there when the
 * memory is missing; where nothing can be said with certainty, nothing is. The rooms above say what they know through
 * fai_memory_witness: names of parameters, graphs that are kept alive. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

fai_witness fai_memory_witness;

enum { REPORTED = 5, GROUPS = 96 };
#define MIB ((uint64_t)1 << 20)

/* A live block, as it was when the lock was held. */
typedef struct holder {
    fa_address address;
    size_t size;
    uint32_t site, group;       /* group: 1 + place in groups, 0: not named */
    char op[30];
} holder;

typedef struct group {
    char title[80], largest_name[96];
    uint32_t site;              /* of those without a name */
    char op[30];
    uint64_t bytes, largest;
    size_t count;
} group;

struct fai_holders {
    holder *holder;
    size_t n;
    group group[GROUPS];
    size_t ngroups;
};

uint32_t fai_buffer_site(const fai_buffer *b) {
    return b && b->device.type != FA_DEVICE_CPU && b->context ? ((const fai_block *)b->context)->site : 0;
}

void fai_site_text(uint32_t site, char *out, size_t n) {
    out[0] = 0;
    if (!site || !fai_other_face.site_text || n < 6) return;
    fai_other_face.site_text(site, out + 4, n - 4);
    if (out[4]) memcpy(out, " at ", 4);
}

/* ---- holders ---- */

static int by_address(const void *a, const void *b) {
    const holder *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void note(group *g, const holder *h, const char *name) {
    g->bytes += h->size;
    g->count++;
    if (h->size <= g->largest) return;
    g->largest = h->size;
    snprintf(g->largest_name, sizeof g->largest_name, "%s", name);
}

void fai_holder(fai_holders *all, const fai_buffer *buffer, const char *title, const char *name) {
    holder key = {.address = buffer->address};
    holder *h = all->n ? bsearch(&key, all->holder, all->n, sizeof key, by_address) : NULL;
    if (!h || h->group) return; /* not on this device, or shared: the first name counts */
    size_t i = 0;
    while (i < all->ngroups && strcmp(all->group[i].title, title)) i++;
    if (i == GROUPS) return;
    if (i == all->ngroups) all->group[all->ngroups++] = (group){0}, snprintf(all->group[i].title, sizeof all->group[i].title, "%s", title);
    h->group = (uint32_t)i + 1;
    note(&all->group[i], h, name);
}

/* Those without a name, by the operator and the line that made them. */
static void group_the_rest(fai_holders *all) {
    for (size_t k = 0; k < all->n; k++) {
        const holder *h = &all->holder[k];
        size_t i = 0;
        if (h->group) continue;
        while (i < all->ngroups && (all->group[i].title[0] || all->group[i].site != h->site || strcmp(all->group[i].op, h->op))) i++;
        if (i == GROUPS) continue;
        if (i == all->ngroups) {
            all->group[all->ngroups++] = (group){.site = h->site};
            memcpy(all->group[i].op, h->op, sizeof h->op);
        }
        note(&all->group[i], h, "");
    }
}

static int by_bytes(const void *a, const void *b) {
    const group *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void tell_group(fai_text *out, const group *g) {
    char amount[32], largest[32], site[160];
    fai_text_bytes(amount, sizeof amount, g->bytes);
    fai_text_bytes(largest, sizeof largest, g->largest);
    fai_site_text(g->site, site, sizeof site);
    if (g->title[0] && g->count > 1)
        fai_text_add(out, " %s %s (%zu, the largest '%s' with %s)", amount, g->title, g->count, g->largest_name, largest);
    else if (g->title[0]) fai_text_add(out, " %s %s ('%s')", amount, g->title, g->largest_name);
    else if (g->count > 1) fai_text_add(out, " %s in %zu buffers made by '%s'%s", amount, g->count, g->op, site);
    else fai_text_add(out, " %s made by '%s'%s", amount, g->op, site);
}

static bool copy_holders(fai_dev *dev, fai_holders *all) {
    pthread_mutex_lock(&dev->memory.lock);
    all->n = dev->memory.stats.allocation[FA_POOL_ALL].current;
    all->holder = fai_alloc(FAI_TAG_OTHER, all->n * sizeof *all->holder);
    size_t i = 0;
    for (const fai_block *b = dev->live; all->holder && b && i < all->n; b = b->after, i++) {
        all->holder[i] = (holder){.address = b->address, .size = b->size, .site = b->site};
        memcpy(all->holder[i].op, b->op, sizeof b->op);
    }
    pthread_mutex_unlock(&dev->memory.lock);
    if (all->holder) qsort(all->holder, all->n, sizeof *all->holder, by_address);
    return all->holder != NULL;
}

void fai_tell_holders(fai_dev *dev, size_t most, fai_text *out) {
    fai_holders *all = fai_calloc(FAI_TAG_OTHER, sizeof *all);
    if (!all) return;
    if (copy_holders(dev, all) && all->n) {
        if (fai_memory_witness.names) fai_memory_witness.names(dev->name, all);
        group_the_rest(all);
        qsort(all->group, all->ngroups, sizeof *all->group, by_bytes);
        for (size_t i = 0; i < all->ngroups && i < most; i++) {
            if (i) fai_text_add(out, ",");
            tell_group(out, &all->group[i]);
        }
    }
    if (all->holder) fai_free(FAI_TAG_OTHER, all->holder, all->n * sizeof *all->holder);
    fai_free(FAI_TAG_OTHER, all, sizeof *all);
}

/* ---- the cache ---- */

fai_free_pieces fai_count_free(fai_dev *dev, int pool) {
    fai_free_pieces p = {0};
    pthread_mutex_lock(&dev->memory.lock);
    for (const fai_block *s = dev->memory.segments; s; s = s->segment_after)
        for (const fai_block *b = s; b; b = b->right) {
            if (!b->free || (pool != FA_POOL_ALL && b->small != (pool == FA_POOL_SMALL))) continue;
            p.count++;
            p.bytes += b->size;
            if (b->size > p.largest) p.largest = b->size;
            if (!b->left && !b->right) p.whole += b->size;
        }
    pthread_mutex_unlock(&dev->memory.lock);
    return p;
}

/* Everything unused was given back before, so an emptied cache is no remedy any more. */
static void tell_cache(fai_dev *dev, size_t bytes, uint64_t released, fai_text *out) {
    const fai_free_pieces p = fai_count_free(dev, bytes <= MIB ? FA_POOL_SMALL : FA_POOL_LARGE), any = fai_count_free(dev, FA_POOL_ALL);
    char cached[32], largest[32], gone[32], asked[32];
    fai_text_bytes(cached, sizeof cached, p.bytes);
    fai_text_bytes(largest, sizeof largest, p.largest);
    fai_text_bytes(gone, sizeof gone, released);
    fai_text_bytes(asked, sizeof asked, bytes);
    if (p.bytes >= bytes && p.largest < bytes)
        fai_text_add(out,
                     " Fragmentation: %s are cached and free, which would be enough, but they lie in %zu pieces between live buffers, and the "
                     "largest has %s.",
                     cached, p.count, largest);
    else if (p.bytes) fai_text_add(out, " The largest free piece of the cache has %s.", largest);
    else if (any.bytes) fai_text_add(out, " What is cached lies in segments for buffers of %s MiB.", bytes <= MIB ? "more than 1" : "up to 1");
    if (released) fai_text_add(out, " The cache was emptied first (%s given back), so fa_empty_cache would not help.", gone);
    else if (!any.bytes) fai_text_add(out, " Nothing is cached, so fa_empty_cache would not help.");
    else fai_text_add(out, " fa_empty_cache would free nothing: what is cached lies between live buffers of the same segments.");
}

/* ---- the whole ---- */

static void tell_limits(const fai_dev *dev, size_t bytes, uint64_t total, uint64_t available, uint64_t reserved, fai_text *out) {
    char amount[32];
    const uint64_t other = total > available + reserved ? total - available - reserved : 0;
    fai_text_bytes(amount, sizeof amount, other);
    if (total && bytes > total) fai_text_add(out, " This is more than the whole device has.");
    else if (dev->limited && bytes > dev->limit) fai_text_add(out, " This is more than fa_set_memory_fraction allows in all.");
    if (other >= MIB) fai_text_add(out, " Other programs and the driver itself hold %s of the device.", amount);
}

static uint64_t in_pools(fai_dev *dev) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&dev->memory.lock);
    for (const fai_block *b = dev->live; b; b = b->after) bytes += b->heap->pool ? b->size : 0;
    pthread_mutex_unlock(&dev->memory.lock);
    return bytes;
}

/* torch's words. */
static void tell_numbers(fai_dev *dev, size_t bytes, uint64_t total, uint64_t available, const fa_memory_stats *s, fai_text *out) {
    char tried[32], capacity[32], room[32], live[32], cached[32], allowed[32], upper[16], apart[96] = "", amount[32];
    const uint64_t pools = in_pools(dev);
    fai_text_bytes(amount, sizeof amount, pools);
    if (pools) snprintf(apart, sizeof apart, "with %s allocated in private pools (e.g., CUDA Graphs), ", amount);
    fai_text_bytes(tried, sizeof tried, bytes);
    fai_text_bytes(capacity, sizeof capacity, total);
    fai_text_bytes(room, sizeof room, available);
    fai_text_bytes(live, sizeof live, s->allocated_bytes[FA_POOL_ALL].current);
    fai_text_bytes(cached, sizeof cached, s->reserved_bytes[FA_POOL_ALL].current - s->allocated_bytes[FA_POOL_ALL].current);
    fai_text_bytes(allowed, sizeof allowed, dev->limit);
    fai_type_upper(upper, dev->name.type);
    fai_text_add(out,
                 "%s out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free. %s%sOf the "
                 "allocated memory %s is allocated by Facula, %sand %s is reserved by Facula but unallocated.",
                 upper, tried, dev->name.index, capacity, room, dev->limited ? allowed : "", dev->limited ? " allowed; " : "", live, apart, cached);
}

void *fai_fail_device_memory(fai_dev *dev, size_t bytes, uint64_t released, const char *op) {
    uint64_t available = 0, total = 0;
    fa_memory_stats stats = {0};
    fai_text text = {0};
    fa_memory_get_stats(dev->name, &stats);
    dev->backend->memory_info(dev->ordinal, &available, &total);
    const uint64_t live = stats.allocated_bytes[FA_POOL_ALL].current;
    tell_numbers(dev, bytes, total, available, &stats, &text);
    tell_limits(dev, bytes, total, available, stats.reserved_bytes[FA_POOL_ALL].current, &text);
    if (live) {
        fai_text_add(&text, " The largest holders:");
        fai_tell_holders(dev, REPORTED, &text);
        fai_text_add(&text, ".");
    } else {
        fai_text_add(&text, " No tensor of this process lies there.");
    }
    if (fai_memory_witness.graphs) fai_memory_witness.graphs(dev->name, live, &text);
    if (fai_memory_witness.evaluation) fai_memory_witness.evaluation(dev->name, live, &text);
    const uint64_t ours = available + stats.reserved_bytes[FA_POOL_ALL].current;
    fai_tell_batch(dev, dev->limited && dev->limit < ours ? dev->limit : ours, bytes, &text);
    if (fai_memory_witness.scopes) fai_memory_witness.scopes(dev->name, live, &text);
    tell_cache(dev, bytes, released, &text);
    fai_fail(FA_ERR_DEVICE_MEMORY, op, "%s", text.data ? text.data : "out of memory, and the host has none left for a report");
    fai_text_free(&text);
    return NULL;
}
