/* The caching allocator of a device, with torch's observable numbers.
 *
 * Requests are rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of
 * 20 MiB, larger ones from a segment of their own, rounded up to 2 MiB. A segment is cut into blocks; a free block takes the
 * best-fitting request and is cut again where enough remains; neighbours that are both free become one. Segments go back to
 * the driver when the cache is emptied, or when the driver has no more. rules.c knows what users may change of this.
 *
 * Free blocks lie in bins by size (each size of its own up to 32 KiB, then 16 steps per doubling), with one bit per bin. */
#include "inside.h"
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define UNIT ((size_t)512)
#define SMALL_MOST MIB            /* the largest request of the small pool */
#define SMALL_SEGMENT (2 * MIB)
#define MIDDLE_MOST (10 * MIB)    /* requests below this share segments */
#define MIDDLE_SEGMENT (20 * MIB)
#define LARGE_STEP (2 * MIB)

/* ---- bins ---- */

static unsigned bin_of(size_t size) {
    size_t units = size / UNIT;
    if (units < 64) return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned bin = 64 + (power - 6) * 16 + (unsigned)(units >> (power - 4) & 15);
    return bin < FAI_BINS ? bin : FAI_BINS - 1;
}

static fai_pool *pool_of(const fai_block *block) { return block->small ? &block->heap->small : &block->heap->large; }

static void put_free(fai_dev *dev, fai_block *block) {
    fai_pool *pool = pool_of(block);
    unsigned bin = bin_of(block->size);
    fai_block *before = NULL, *after = pool->bin[bin];
    while (after && after->size < block->size) before = after, after = after->after;
    block->before = before;
    block->after = after;
    if (after) after->before = block;
    if (before) before->after = block;
    else pool->bin[bin] = block;
    pool->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    block->free = true;
    if (block->left || block->right) fai_count_inactive(dev, block, true);
}

static void take_free(fai_dev *dev, fai_block *block) {
    fai_pool *pool = pool_of(block);
    unsigned bin = bin_of(block->size);
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else pool->bin[bin] = block->after;
    if (!pool->bin[bin]) pool->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    block->free = false;
    if (block->left || block->right) fai_count_inactive(dev, block, false);
}

static fai_block *best_fit(const fai_pool *pool, size_t size) {
    unsigned bin = bin_of(size);
    for (fai_block *block = pool->bin[bin]; block; block = block->after)
        if (block->size >= size) return block;
    bin++;
    for (unsigned word = bin / 64; word < sizeof pool->filled / sizeof pool->filled[0]; word++) {
        uint64_t bits = pool->filled[word];
        if (word == bin / 64) bits &= ~(uint64_t)0 << bin % 64;
        if (bits) return pool->bin[word * 64 + (unsigned)__builtin_ctzll(bits)];
    }
    return NULL;
}

/* A block too large to be cut serves only those that need about as much. */
static fai_block *fitting(const fai_pool *pool, size_t size) {
    fai_block *block = best_fit(pool, size);
    if (FAI_LIKELY(!block || block->size < fai_rules.max_split)) return block;
    return size < fai_rules.max_split || block->size >= size + MIDDLE_SEGMENT ? NULL : block;
}

/* ---- descriptions of blocks ---- */

static fai_block *new_description(fai_dev *dev) {
    fai_block *block = dev->spare;
    if (block) dev->spare = block->after;
    else block = fai_alloc(FAI_TAG_OBJECT, sizeof *block);
    return block;
}

static void free_description(fai_dev *dev, fai_block *block) {
    block->after = dev->spare;
    dev->spare = block;
}

static void drop_spare_descriptions(fai_dev *dev) {
    for (fai_block *block = dev->spare, *next; block; block = next) {
        next = block->after;
        fai_free(FAI_TAG_OBJECT, block, sizeof *block);
    }
    dev->spare = NULL;
}

/* ---- segments ---- */

static size_t segment_size(size_t size) {
    if (size <= SMALL_MOST) return SMALL_SEGMENT;
    if (size < MIDDLE_MOST) return MIDDLE_SEGMENT;
    return (size + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
}

static void add_segment(fai_dev *dev, fai_block *block) {
    block->segment_before = NULL;
    block->segment_after = dev->segments;
    if (dev->segments) dev->segments->segment_before = block;
    dev->segments = block;
    block->heap->segments++;
    fai_count_segment(dev, block, true);
}

static void drop_segment(fai_dev *dev, fai_block *block) {
    if (block->segment_after) block->segment_after->segment_before = block->segment_before;
    if (block->segment_before) block->segment_before->segment_after = block->segment_after;
    else dev->segments = block->segment_after;
    block->heap->segments--;
    fai_count_segment(dev, block, false);
}

/* With the lock held. What the queue still uses must not go: the caller has waited. */
static uint64_t release_from(fai_dev *dev, fai_pool *pool) {
    uint64_t released = 0;
    for (unsigned bin = 0; bin < FAI_BINS; bin++) {
        for (fai_block *block = pool->bin[bin], *next; block; block = next) {
            next = block->after;
            if (block->left || block->right) continue;
            const int code = dev->backend->release(dev->ordinal, block->address);
            if (code != 0 && code != FA_BACKEND_LOST) continue; /* it stays on the books; but memory of a lost device is gone with it */
            take_free(dev, block);
            drop_segment(dev, block);
            released += block->size;
            free_description(dev, block);
        }
    }
    return released;
}

static uint64_t unused_bytes(const fai_pool *pool) {
    uint64_t bytes = 0;
    for (unsigned bin = 0; bin < FAI_BINS; bin++)
        for (const fai_block *block = pool->bin[bin]; block; block = block->after)
            if (!block->left && !block->right) bytes += block->size;
    return bytes;
}

static void join_neighbours(fai_dev *dev, fai_block *block);

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
        fai_count_active(dev, block, false);
        join_neighbours(dev, block);
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
    pthread_mutex_lock(&dev->memory_lock);
    int i = 0;
    while (i < block->nuses && i < 3 && block->use[i].stream != s) i++;
    if (s != block->heap->stream && i == block->nuses) {
        if (i < 3) block->use[i].stream = s->dev->streams[s->id];
        block->nuses++;
    }
    pthread_mutex_unlock(&dev->memory_lock);
}

/* ---- heaps ---- */

void fai_heap_add(fai_dev *dev, fai_heap *heap) {
    pthread_mutex_lock(&dev->memory_lock);
    heap->next = dev->heaps;
    dev->heaps = heap;
    pthread_mutex_unlock(&dev->memory_lock);
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
        if (!h->pool) unused = unused_bytes(&h->small) + unused_bytes(&h->large);
    if (!unused) return 0;
    fai_queue_wait(dev, "empty_cache");
    dev->stats.num_sync_all_streams++;
    if (fai_queue_hangs(dev)) return 0;
    settle_waiting(dev, true);
    for (fai_heap *h = dev->heaps; h; h = h->next)
        if (!h->pool) released += release_from(dev, &h->small) + release_from(dev, &h->large);
    drop_ended_heaps(dev);
    return released;
}

uint64_t fai_release_unused(fai_dev *dev) {
    pthread_mutex_lock(&dev->memory_lock);
    uint64_t released = release_unused_locked(dev);
    drop_spare_descriptions(dev);
    pthread_mutex_unlock(&dev->memory_lock);
    return released;
}

/* ---- blocks ---- */

/* What new_block found out when there was no memory; the error is set when the lock is free again. */
typedef struct shortage {
    bool found;
    uint64_t released; /* by the last try */
} shortage;

static int driver_allocate(fai_dev *dev, size_t segment, fa_address *address) {
    if (dev->limited && dev->stats.reserved_bytes[FA_POOL_ALL].current + segment > dev->limit) return FA_BACKEND_NO_MEMORY;
    return dev->backend->allocate(dev->ordinal, segment, address);
}

/* The caches are given back. What other streams were still using is free by then too, and may serve without the driver: *found. */
static int allocate_again(fai_dev *dev, fai_pool *pool, size_t size, shortage *lack, fa_address *address, fai_block **found) {
    dev->stats.num_alloc_retries++;
    lack->released = release_unused_locked(dev);
    if ((*found = fitting(pool, size))) return 0;
    return lack->released ? driver_allocate(dev, segment_size(size), address) : FA_BACKEND_NO_MEMORY;
}

static fai_block *new_segment(fai_dev *dev, fai_heap *heap, fai_pool *pool, size_t size, const char *op, shortage *lack) {
    fai_block *block = new_description(dev), *found = NULL;
    if (!block) return fai_fail_memory(op, sizeof *block);
    size_t segment = segment_size(size);
    fa_address address = 0;
    atomic_store(&dev->touched, true);
    int code = driver_allocate(dev, segment, &address);
    if (code == FA_BACKEND_NO_MEMORY) code = allocate_again(dev, pool, size, lack, &address, &found);
    if (code != 0 || found) {
        free_description(dev, block);
        if (found) take_free(dev, found);
        if (found) return found;
        lack->found = code == FA_BACKEND_NO_MEMORY;
        if (lack->found) dev->stats.num_ooms++;
        else fai_fail_backend(dev, code, op, "allocating memory");
        return NULL;
    }
    memset(block, 0, sizeof *block);
    block->address = address;
    block->size = segment;
    block->small = size <= SMALL_MOST;
    block->heap = heap;
    add_segment(dev, block);
    return block;
}

static bool worth_cutting(const fai_block *block, size_t size) {
    size_t rest = block->size - size;
    return block->small ? rest >= UNIT : rest > SMALL_MOST && size < fai_rules.max_split;
}

/* The block keeps its left part; the rest goes to its bin. */
static void cut(fai_dev *dev, fai_block *block, size_t size, fai_block *rest) {
    memset(rest, 0, sizeof *rest);
    rest->address = block->address + size;
    rest->size = block->size - size;
    rest->small = block->small;
    rest->heap = block->heap;
    rest->left = block;
    rest->right = block->right;
    if (rest->right) rest->right->left = rest;
    block->right = rest;
    block->size = size;
    put_free(dev, rest);
}

static void make_live(fai_dev *dev, fai_block *block, size_t asked, uint32_t site, const char *op) {
    size_t i = 0;
    block->asked = asked;
    block->site = site;
    for (; op && op[i] && i < sizeof block->op - 1; i++) block->op[i] = op[i];
    block->op[i] = 0;
    block->free = false;
    block->before = NULL;
    block->after = dev->live;
    if (dev->live) dev->live->before = block;
    dev->live = block;
    fai_count_live(dev, block, true);
    fai_count_active(dev, block, true);
}

static fai_block *new_block(fai_dev *dev, fai_heap *heap, size_t bytes, uint32_t site, const char *op, shortage *lack) {
    size_t size = FAI_UNLIKELY(fai_rules.divides) ? fai_rules_divided(bytes, UNIT) : bytes;
    size = (size + UNIT - 1) / UNIT * UNIT;
    fai_pool *pool = size <= SMALL_MOST ? &heap->small : &heap->large;
    if (FAI_UNLIKELY(dev->waiting != NULL)) settle_waiting(dev, false);
    fai_block *rest = new_description(dev); /* before anything changes, in case the block is to be cut */
    if (!rest) return fai_fail_memory(op, sizeof *rest);
    fai_block *block = fitting(pool, size);
    if (block) take_free(dev, block);
    else block = new_segment(dev, heap, pool, size, op, lack);
    if (block && worth_cutting(block, size)) cut(dev, block, size, rest);
    else free_description(dev, rest);
    if (block) make_live(dev, block, bytes, site, op);
    else if (!fai_caches_on()) drop_spare_descriptions(dev);
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
    pthread_mutex_lock(&dev->memory_lock);
    fai_block *block = new_block(dev, heap, bytes, site, op, &lack);
    if (block) fai_trace_took(dev, block);
    pthread_mutex_unlock(&dev->memory_lock);
    return FAI_UNLIKELY(lack.found) ? fai_fail_device_memory(dev, bytes, lack.released, op) : block;
}

fai_block *fai_block_try(fai_dev *dev, fai_heap *heap, size_t bytes) {
    shortage lack = {0};
    return new_block(dev, heap, bytes, 0, NULL, &lack);
}

/* Makes one block of two neighbours; the right one's description goes. */
static void join(fai_dev *dev, fai_block *left, fai_block *right) {
    left->size += right->size;
    left->right = right->right;
    if (left->right) left->right->left = left;
    free_description(dev, right);
}

/* The block, which nobody uses, becomes free, and one with its free neighbours. */
static void join_neighbours(fai_dev *dev, fai_block *block) {
    if (block->right && block->right->free) {
        take_free(dev, block->right);
        join(dev, block, block->right);
    }
    if (block->left && block->left->free) {
        block = block->left;
        take_free(dev, block);
        join(dev, block, block->right);
    }
    put_free(dev, block);
}

static atomic_bool caching = true;

bool fa_memory_caching(bool on) { return atomic_exchange(&caching, on); }

static void free_block(fai_dev *dev, fai_block *block) {
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else dev->live = block->after;
    fai_count_live(dev, block, false);
    if (FAI_UNLIKELY(must_wait(dev, block))) {
        block->after = dev->waiting;
        dev->waiting = block;
    } else {
        fai_count_active(dev, block, false);
        join_neighbours(dev, block);
    }
    if (FAI_UNLIKELY(!fai_caches_on() || !atomic_load_explicit(&caching, memory_order_relaxed))) {
        release_unused_locked(dev);
        drop_spare_descriptions(dev);
    }
}

void fai_block_free(fai_dev *dev, fai_block *block) {
    pthread_mutex_lock(&dev->memory_lock);
    fai_trace_gave(dev, block);
    free_block(dev, block);
    pthread_mutex_unlock(&dev->memory_lock);
}

fa_address fai_block_address(const fai_block *block) { return block->address; }
size_t fai_block_size(const fai_block *block) { return block->size; }

/* ---- what users ask ---- */

bool fa_empty_cache(fa_device device) {
    if (fai_forked_child()) return fai_fail_forked("empty_cache");
    fai_dev *dev = fai_dev_find(device);
    if (dev) fai_release_unused(dev);
    return true;
}
