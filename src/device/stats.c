/* What is counted of a device's memory, under PyTorch's names, and the limit that a process sets itself. The allocator counts with its
 * lock held; who asks takes the lock, but not in a forked child, where the thread that had it may be gone. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

static inline void change(fa_memory_count count[FA_POOL_COUNT], int pool, uint64_t amount, bool more) {
    const int both[] = {FA_POOL_ALL, pool};
    for (int i = 0; i < 2; i++) fai_count(&count[both[i]], amount, more);
}

void fai_count_reset(fa_memory_count *c, bool peaks) {
    if (peaks) c->peak = c->current;
    else c->allocated = c->freed = 0;
}

static inline int pool_of(const fai_block *block) { return block->small ? FA_POOL_SMALL : FA_POOL_LARGE; }

void fai_count_live(fai_arena *a, const fai_block *block, bool more) {
    fa_memory_stats *s = &a->stats;
    change(s->allocation, pool_of(block), 1, more);
    change(s->allocated_bytes, pool_of(block), block->size, more);
    change(s->requested_bytes, pool_of(block), block->asked, more);
    if (FAI_UNLIKELY(block->size >= a->rules->max_split)) fai_count(&s->oversize_allocations, 1, more);
}

void fai_count_active(fai_arena *a, const fai_block *block, bool more) {
    change(a->stats.active, pool_of(block), 1, more);
    change(a->stats.active_bytes, pool_of(block), block->size, more);
}

void fai_count_segment(fai_arena *a, const fai_block *block, bool more) {
    change(a->stats.segment, pool_of(block), 1, more);
    change(a->stats.reserved_bytes, pool_of(block), block->size, more);
    if (block->size >= a->rules->max_split) fai_count(&a->stats.oversize_segments, 1, more);
    if (more) a->stats.num_device_alloc++;
    else a->stats.num_device_free++;
}

void fai_count_inactive(fai_arena *a, const fai_block *block, bool more) {
    change(a->stats.inactive_split, pool_of(block), 1, more);
    change(a->stats.inactive_split_bytes, pool_of(block), block->size, more);
}

/* ---- asking ---- */

/* Zeros of a device that is not there. */
static void read_stats(fa_device device, fa_memory_stats *out) {
    fai_dev *dev = fai_dev_find(device);
    const bool lock = !fai_forked_child();
    memset(out, 0, sizeof *out);
    if (device.type == FA_DEVICE_CPU) fai_host_stats(out);
    if (!dev) return;
    if (lock) pthread_mutex_lock(&dev->memory.lock);
    *out = dev->memory.stats;
    if (lock) pthread_mutex_unlock(&dev->memory.lock);
    out->max_split_size = fai_rules.max_split == SIZE_MAX ? -1 : (int64_t)fai_rules.max_split;
}

static fa_memory_count read_count(fa_device device, size_t offset) {
    fa_memory_stats stats;
    read_stats(device, &stats);
    return ((fa_memory_count *)(void *)((char *)&stats + offset))[FA_POOL_ALL];
}

uint64_t fa_memory_allocated(fa_device device) { return read_count(device, offsetof(fa_memory_stats, allocated_bytes)).current; }
uint64_t fa_memory_reserved(fa_device device) { return read_count(device, offsetof(fa_memory_stats, reserved_bytes)).current; }
uint64_t fa_max_memory_allocated(fa_device device) { return read_count(device, offsetof(fa_memory_stats, allocated_bytes)).peak; }
uint64_t fa_max_memory_reserved(fa_device device) { return read_count(device, offsetof(fa_memory_stats, reserved_bytes)).peak; }

bool fa_memory_get_stats(fa_device device, fa_memory_stats *out) {
    memset(out, 0, sizeof *out);
    if (device.type != FA_DEVICE_CPU && !fai_dev_get(device, "memory_stats")) return false;
    read_stats(device, out);
    return true;
}

enum { LISTS = 9 };
_Static_assert(offsetof(fa_memory_stats, oversize_allocations) == LISTS * FA_POOL_COUNT * sizeof(fa_memory_count),
               "the counts before it lie as the names below say");

/* The struct's counts as one array: a fixed number of lists of pools, then the two of oversize. */
enum { COUNTS = LISTS * FA_POOL_COUNT + 2 };

static void reset_stats(fa_memory_stats *stats, bool peaks) {
    fa_memory_count *count = (fa_memory_count *)(void *)stats;
    for (int i = 0; i < COUNTS; i++) fai_count_reset(&count[i], peaks);
    if (!peaks) stats->num_alloc_retries = stats->num_ooms = stats->num_oom_rejections = 0;
}

static void reset(fa_device device, bool peaks) {
    fai_dev *dev = fai_dev_find(device);
    if (device.type == FA_DEVICE_CPU) fai_host_reset_stats(reset_stats, peaks);
    if (!dev || fai_forked_child()) return;
    pthread_mutex_lock(&dev->memory.lock);
    reset_stats(&dev->memory.stats, peaks);
    pthread_mutex_unlock(&dev->memory.lock);
}

void fa_reset_peak_memory_stats(fa_device device) { reset(device, true); }
void fa_reset_accumulated_memory_stats(fa_device device) { reset(device, false); }

void fa_memory_visit_stats(const fa_memory_stats *stats, void (*visit)(void *, const char *, int64_t), void *context) {
    static const char *const lists[LISTS] = {"allocation",      "segment",        "active",       "inactive_split",      "allocated_bytes",
                                             "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"};
    static const char *const pools[] = {".all", ".large_pool", ".small_pool"}, *const parts[] = {"current", "peak", "allocated", "freed"};
    const uint64_t *number = (const uint64_t *)(const void *)stats;
    char name[64];
    for (int i = 0; i < COUNTS * 4; i++) {
        int list = i / (4 * FA_POOL_COUNT);
        if (list < LISTS) snprintf(name, sizeof name, "%s%s.%s", lists[list], pools[i / 4 % FA_POOL_COUNT], parts[i % 4]);
        else snprintf(name, sizeof name, "oversize_%s.%s", i / 4 == COUNTS - 1 ? "segments" : "allocations", parts[i % 4]);
        visit(context, name, (int64_t)number[i]);
    }
    visit(context, "num_alloc_retries", (int64_t)stats->num_alloc_retries);
    visit(context, "num_ooms", (int64_t)stats->num_ooms);
    visit(context, "num_sync_all_streams", (int64_t)stats->num_sync_all_streams);
    visit(context, "num_device_alloc", (int64_t)stats->num_device_alloc);
    visit(context, "num_device_free", (int64_t)stats->num_device_free);
    visit(context, "num_oom_rejections", (int64_t)stats->num_oom_rejections);
    visit(context, "max_split_size", stats->max_split_size);
}

bool fa_memory_info(fa_device device, uint64_t *free_bytes, uint64_t *total_bytes) {
    *free_bytes = *total_bytes = 0;
    fai_dev *dev = fai_dev_get(device, "memory_info");
    if (!dev) return false;
    int code = dev->backend->memory_info(dev->ordinal, free_bytes, total_bytes);
    return code == 0 || fai_fail_backend(dev, code, "memory_info", "asking for its free memory");
}

/* ---- the limit ---- */

bool fa_set_memory_fraction(fa_device device, double fraction) {
    uint64_t unused, total;
    fai_dev *dev = fai_dev_get(device, "set_per_process_memory_fraction");
    if (!dev) return false;
    if (!(fraction >= 0 && fraction <= 1))
        return fai_fail(FA_ERR_VALUE, "set_per_process_memory_fraction", "Invalid fraction value:%g. Allowed range: 0~1", fraction);
    if (!fa_memory_info(dev->name, &unused, &total)) return false;
    pthread_mutex_lock(&dev->memory.lock);
    dev->limited = fraction < 1;
    dev->limit = (uint64_t)(fraction * (double)total);
    pthread_mutex_unlock(&dev->memory.lock);
    return true;
}

double fa_memory_fraction(fa_device device) {
    uint64_t unused, total = 0;
    fai_dev *dev = fai_dev_find(device);
    if (!dev || fai_forked_child() || !dev->limited || !fa_memory_info(dev->name, &unused, &total) || !total) return 1;
    return (double)dev->limit / (double)total;
}

/* ---- every block ---- */

static int by_address(const void *a, const void *b) {
    const fai_block *x = *(fai_block *const *)a, *y = *(fai_block *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static fa_memory_block describe(const fai_block *segment, uint64_t segment_bytes, const fai_block *block) {
    fa_memory_block out = {.segment = segment->address, .segment_bytes = segment_bytes, .address = block->address, .bytes = block->size,
                           .live = !block->free, .small = block->small};
    if (!out.live) return out;
    out.requested = block->asked;
    snprintf(out.op, sizeof out.op, "%s", block->op);
    return out;
}

/* The lock is held. */
static size_t list_blocks(fai_block *const *segments, size_t n, fa_memory_block *out, size_t room) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = 0;
        for (const fai_block *b = segments[i]; b; b = b->right) bytes += b->size;
        for (const fai_block *b = segments[i]; b; b = b->right, found++)
            if (found < room) out[found] = describe(segments[i], bytes, b);
    }
    return found;
}

size_t fa_memory_blocks(fa_device device, fa_memory_block *out, size_t room) {
    fai_dev *dev = fai_dev_find(device);
    if (!dev || fai_forked_child()) return 0;
    pthread_mutex_lock(&dev->memory.lock);
    size_t n = dev->memory.stats.segment[FA_POOL_ALL].current, i = 0, found = 0;
    fai_block **segments = fai_alloc(FAI_TAG_OTHER, n * sizeof *segments);
    if (segments) {
        for (fai_block *b = dev->memory.segments; b; b = b->segment_after) segments[i++] = b;
        qsort(segments, n, sizeof *segments, by_address);
        found = list_blocks(segments, n, out, room);
        fai_free(FAI_TAG_OTHER, segments, n * sizeof *segments);
    }
    pthread_mutex_unlock(&dev->memory.lock);
    if (!segments) fai_fail_memory("memory_blocks", n * sizeof *segments);
    return found;
}

/* ---- raw memory ---- */

uint64_t fa_memory_alloc(fa_device device, size_t bytes) {
    fai_dev *dev = fai_dev_get(device, "caching_allocator_alloc");
    fai_heap *heap = dev ? fai_heap_now(dev, "caching_allocator_alloc") : NULL;
    fai_block *block = heap ? fai_block_new(dev, heap, bytes ? bytes : 1, "caching_allocator_alloc") : NULL;
    return block ? block->address : 0;
}

bool fa_memory_free(fa_device device, uint64_t address) {
    fai_dev *dev = fai_dev_get(device, "caching_allocator_delete");
    if (!dev) return false;
    pthread_mutex_lock(&dev->memory.lock);
    fai_block *block = dev->live;
    while (block && (block->address != address || strcmp(block->op, "caching_allocator_alloc"))) block = block->after;
    pthread_mutex_unlock(&dev->memory.lock);
    if (!block)
        return fai_fail(FA_ERR_RUNTIME, "caching_allocator_delete",
                        "invalid device pointer: 0x%llx. Nothing that fa_memory_alloc gave out on %s lies there", (unsigned long long)address,
                        fa_device_text(dev->name));
    fai_block_free(dev, block);
    return true;
}
