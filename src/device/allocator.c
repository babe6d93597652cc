/* The caching allocator of a device: an arena (arena.c has its rules) whose segments are the driver's. Heaps keep the memory of
 * each stream and of each pool apart; what other streams still use waits; when the driver has no more, or the cache is emptied,
 * unused segments go back. rules.c knows what users may change of this. */
#include "inside.h"
#include <string.h>

/* What the queue still uses must not go: the caller has waited. Memory of a lost device is gone with it. */
static bool give_back(fai_arena *arena, const fai_block *segment) {
    const fai_dev *dev = (const fai_dev *)(const void *)((const char *)arena - offsetof(fai_dev, memory));
    const int code = dev->backend->release(dev->ordinal, segment->address);
    return code == 0 || code == FA_BACKEND_LOST;
}

void fai_allocator_init(fai_dev *dev) {
    dev->memory = (fai_arena){.unit_power = 9, .least = 512, .description = sizeof(fai_block), .rules = &fai_rules, .give_back = give_back};
    pthread_mutex_init(&dev->memory.lock, NULL);
}

/* ---- blocks that were freed while other streams may still use them ---- */

/* Those whose streams have come past the place where the block was freed become free; all: the caller has waited for everything. */
static void settle_waiting(fai_dev *dev, bool all) {
    for (fai_block **link = &dev->waiting, *block; (block = *link);) {
        bool done = true;
        for (int i = 0; !all && done && i < block->nuses; i++) done = fai_stream_came_to(block->use[i].stream, block->use[i].place);
        if (!done) {
            link = &block->after;
            continue;
        }
        *link = block->after;
        block->nuses = 0;
        fai_count_active(&dev->memory, block, false);
        fai_arena_put(&dev->memory, block);
    }
}

/* True if the block has to wait. More streams than there is room for are waited for at once. */
static bool must_wait(fai_dev *dev, fai_block *block) {
    if (FAI_LIKELY(block->nuses == 0)) return false;
    if (block->nuses > 3) {
        fai_queue_wait(dev, "free");
        block->nuses = 0;
        return fai_queue_hangs(dev);
    }
    for (int i = 0; i < block->nuses; i++) block->use[i].place = block->use[i].stream->place;
    return true;
}

void fai_block_used_by(fai_dev *dev, fai_block *block, const fai_stream *s) {
    pthread_mutex_lock(&dev->memory.lock);
    int i = 0;
    while (i < block->nuses && i < 3 && block->use[i].stream != s) i++;
    if (s != block->heap->stream && i == block->nuses) {
        if (i < 3) block->use[i].stream = s->dev->streams[s->id];
        block->nuses++;
    }
    pthread_mutex_unlock(&dev->memory.lock);
}

/* ---- heaps ---- */

void fai_heap_add(fai_dev *dev, fai_heap *heap) {
    pthread_mutex_lock(&dev->memory.lock);
    heap->next = dev->heaps;
    dev->heaps = heap;
    pthread_mutex_unlock(&dev->memory.lock);
}

void fai_heap_drop(fai_dev *dev, fai_heap *heap) {
    fai_heap **link = &dev->heaps;
    while (*link != heap) link = &(*link)->next;
    *link = heap->next;
    fai_free(FAI_TAG_OTHER, heap, sizeof *heap);
}

static void drop_ended_heaps(fai_dev *dev) {
    for (fai_heap *h = dev->heaps, *next; h; h = next) {
        next = h->next;
        if (h->ends && h->segments == 0) fai_heap_drop(dev, h);
    }
}

/* A stream that was given up may still write to it: then nothing is given back. What belongs to a pool stays: graphs know its addresses. */
static uint64_t release_unused_locked(fai_dev *dev) {
    uint64_t unused = dev->waiting ? 1 : 0, released = 0;
    for (const fai_heap *h = dev->heaps; h && !unused; h = h->next)
        if (!h->pool) unused = fai_arena_unused(h);
    if (!unused) return 0;
    fai_queue_wait(dev, "empty_cache");
    dev->memory.stats.num_sync_all_streams++;
    if (fai_queue_hangs(dev)) return 0;
    settle_waiting(dev, true);
    for (fai_heap *h = dev->heaps; h; h = h->next)
        if (!h->pool) released += fai_arena_release(&dev->memory, h);
    drop_ended_heaps(dev);
    return released;
}

uint64_t fai_release_unused(fai_dev *dev) {
    pthread_mutex_lock(&dev->memory.lock);
    uint64_t released = release_unused_locked(dev);
    fai_arena_drop_spare(&dev->memory);
    pthread_mutex_unlock(&dev->memory.lock);
    return released;
}

/* Beyond PyTorch's garbage_collection_threshold, a part of the limit that was set: large blocks that nobody uses go, what is unused for
 * longest first, before the driver is asked for more. */
static void collect_old(fai_dev *dev) {
    const uint64_t reserved = dev->memory.stats.reserved_bytes[FA_POOL_ALL].current, most = (uint64_t)(fai_rules.collects * (double)dev->limit);
    if (!dev->limited || reserved <= most || !fai_arena_has_old(&dev->memory)) return;
    fai_queue_wait(dev, "garbage_collection_threshold");
    if (fai_queue_hangs(dev)) return;
    fai_arena_release_oldest(&dev->memory, reserved - most, false);
    drop_ended_heaps(dev);
}

/* ---- blocks ---- */

/* What new_block found out when there was no memory; the error is set when the lock is free again. */
typedef struct shortage {
    bool found;
    uint64_t released; /* by the last try */
} shortage;

static int driver_allocate(fai_dev *dev, size_t segment, fa_address *address) {
    if (dev->limited && dev->memory.stats.reserved_bytes[FA_POOL_ALL].current + segment > dev->limit) return FA_BACKEND_NO_MEMORY;
    return dev->backend->allocate(dev->ordinal, segment, address);
}

/* The caches are given back. What other streams were still using is free by then too, and may serve without the driver: *found. */
static int allocate_again(fai_dev *dev, fai_heap *heap, size_t size, shortage *lack, fa_address *address, fai_block **found) {
    dev->memory.stats.num_alloc_retries++;
    lack->released = release_unused_locked(dev);
    if ((*found = fai_arena_find(&dev->memory, heap, size))) return 0;
    return lack->released ? driver_allocate(dev, fai_arena_segment(size), address) : FA_BACKEND_NO_MEMORY;
}

static fai_block *new_segment(fai_dev *dev, fai_heap *heap, size_t size, const char *op, shortage *lack) {
    fai_block *block = fai_arena_describe(&dev->memory), *found = NULL;
    if (!block) return fai_fail_memory(op, sizeof *block);
    const size_t segment = fai_arena_segment(size);
    fa_address address = 0;
    atomic_store(&dev->touched, true);
    if (FAI_UNLIKELY(fai_rules.collects > 0)) collect_old(dev);
    int code = driver_allocate(dev, segment, &address);
    if (code == FA_BACKEND_NO_MEMORY) code = allocate_again(dev, heap, size, lack, &address, &found);
    if (code != 0 || found) {
        fai_arena_forget(&dev->memory, block);
        if (found) return found;
        lack->found = code == FA_BACKEND_NO_MEMORY;
        if (lack->found) dev->memory.stats.num_ooms++;
        else fai_fail_backend(dev, code, op, "allocating memory");
        return NULL;
    }
    fai_arena_add(&dev->memory, heap, block, address, segment, size);
    return block;
}

static void make_live(fai_dev *dev, fai_block *block, size_t asked, uint32_t site, const char *op) {
    size_t i = 0;
    block->asked = asked;
    block->site = site;
    for (; op && op[i] && i < sizeof block->op - 1; i++) block->op[i] = op[i];
    block->op[i] = 0;
    block->before = NULL;
    block->after = dev->live;
    if (dev->live) dev->live->before = block;
    dev->live = block;
    fai_count_live(&dev->memory, block, true);
    fai_count_active(&dev->memory, block, true);
}

static fai_block *new_block(fai_dev *dev, fai_heap *heap, size_t bytes, uint32_t site, const char *op, shortage *lack) {
    const size_t unit = (size_t)1 << dev->memory.unit_power;
    size_t size = FAI_UNLIKELY(fai_rules.divides) ? fai_rules_divided(bytes, unit) : bytes;
    size = (size + unit - 1) & ~(unit - 1);
    if (FAI_UNLIKELY(dev->waiting != NULL)) settle_waiting(dev, false);
    fai_block *rest = fai_arena_describe(&dev->memory); /* before anything changes, in case the block is to be cut */
    if (!rest) return fai_fail_memory(op, sizeof *rest);
    fai_block *block = fai_arena_find(&dev->memory, heap, size);
    if (!block) block = new_segment(dev, heap, size, op, lack);
    if (block) fai_arena_trim(&dev->memory, block, size, rest);
    else fai_arena_forget(&dev->memory, rest);
    if (block) make_live(dev, block, bytes, site, op);
    else if (!fai_caches_on()) fai_arena_drop_spare(&dev->memory);
    return block;
}

fai_block *fai_block_new(fai_dev *dev, fai_heap *heap, size_t bytes, const char *op) {
    if (bytes >> 50) {
        char upper[16];
        fai_type_upper(upper, dev->name.type);
        return fai_fail(FA_ERR_DEVICE_MEMORY, op,
                        "%s out of memory. Tried to allocate more than 1EB memory. Look at the sizes: %zu bytes are more than "
                        "any device has",
                        upper, bytes);
    }
    if (FAI_UNLIKELY(!atomic_load_explicit(&fai_rules_known, memory_order_acquire))) fai_rules_read();
    uint32_t site = fai_other_face.site ? fai_other_face.site() : 0;
    shortage lack = {0};
    pthread_mutex_lock(&dev->memory.lock);
    fai_block *block = new_block(dev, heap, bytes, site, op, &lack);
    if (block) fai_trace_took(dev, block);
    pthread_mutex_unlock(&dev->memory.lock);
    return FAI_UNLIKELY(lack.found) ? fai_fail_device_memory(dev, bytes, lack.released, op) : block;
}

fai_block *fai_block_try(fai_dev *dev, fai_heap *heap, size_t bytes) {
    shortage lack = {0};
    return new_block(dev, heap, bytes, 0, NULL, &lack);
}

static atomic_bool caching = true;

bool fa_memory_caching(bool on) { return atomic_exchange(&caching, on); }

static void free_block(fai_dev *dev, fai_block *block) {
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else dev->live = block->after;
    fai_count_live(&dev->memory, block, false);
    if (FAI_UNLIKELY(must_wait(dev, block))) {
        block->after = dev->waiting;
        dev->waiting = block;
    } else {
        fai_count_active(&dev->memory, block, false);
        fai_arena_put(&dev->memory, block);
    }
    if (FAI_UNLIKELY(!fai_caches_on() || !atomic_load_explicit(&caching, memory_order_relaxed))) {
        release_unused_locked(dev);
        fai_arena_drop_spare(&dev->memory);
    }
}

void fai_block_free(fai_dev *dev, fai_block *block) {
    pthread_mutex_lock(&dev->memory.lock);
    fai_trace_gave(dev, block);
    free_block(dev, block);
    pthread_mutex_unlock(&dev->memory.lock);
}

fa_address fai_block_address(const fai_block *block) { return block->address; }
size_t fai_block_size(const fai_block *block) { return block->size; }

/* ---- what users ask ---- */

bool fa_empty_cache(fa_device device) {
    if (fai_forked_child()) return fai_fail_forked("empty_cache");
    fai_dev *dev = fai_dev_find(device);
    if (dev) fai_release_unused(dev);
    else if (device.type == FA_DEVICE_CPU) fai_host_release();
    return true;
}
