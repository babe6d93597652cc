/* The caching allocator of a device, with torch's observable numbers.
 *
 * Requests are rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of
 * 20 MiB, larger ones from a segment of their own, rounded up to 2 MiB. A segment is cut into blocks; a free block takes the
 * best-fitting request and is cut again where enough remains; neighbours that are both free become one. Segments go back to
 * the driver when the cache is emptied, or when the driver has no more.
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

enum { REPORTED = 5 };

struct fai_block {
    fai_block *left, *right;      /* neighbours in the segment */
    fai_block *before, *after;    /* in its bin while free, in dev->live while not */
    fa_address address;
    size_t size;
    bool free, small;
    char op[30];                  /* who made the buffer, for the report */
};

/* ---- bins ---- */

static unsigned bin_of(size_t size) {
    size_t units = size / UNIT;
    if (units < 64) return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned bin = 64 + (power - 6) * 16 + (unsigned)(units >> (power - 4) & 15);
    return bin < FAI_BINS ? bin : FAI_BINS - 1;
}

static fai_pool *pool_of(fai_dev *dev, const fai_block *block) { return block->small ? &dev->small : &dev->large; }

static void put_free(fai_pool *pool, fai_block *block) {
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
}

static void take_free(fai_pool *pool, fai_block *block) {
    unsigned bin = bin_of(block->size);
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else pool->bin[bin] = block->after;
    if (!pool->bin[bin]) pool->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    block->free = false;
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

/* ---- counting ---- */

static void raise_peak(_Atomic uint64_t *peak, uint64_t now) {
    if (now > atomic_load_explicit(peak, memory_order_relaxed)) atomic_store_explicit(peak, now, memory_order_relaxed);
}

static void count_allocated(fai_dev *dev, size_t more) { /* the lock is held: single writers need no locked instruction */
    uint64_t now = atomic_load_explicit(&dev->allocated, memory_order_relaxed) + more;
    atomic_store_explicit(&dev->allocated, now, memory_order_relaxed);
    raise_peak(&dev->max_allocated, now);
}

static void count_reserved(fai_dev *dev, size_t more) {
    uint64_t now = atomic_load_explicit(&dev->reserved, memory_order_relaxed) + more;
    atomic_store_explicit(&dev->reserved, now, memory_order_relaxed);
    raise_peak(&dev->max_reserved, now);
}

/* ---- segments ---- */

static size_t segment_size(size_t size) {
    if (size <= SMALL_MOST) return SMALL_SEGMENT;
    if (size < MIDDLE_MOST) return MIDDLE_SEGMENT;
    return (size + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
}

/* With the lock held. What the queue still uses must not go: the caller has waited. */
static uint64_t release_from(fai_dev *dev, fai_pool *pool) {
    uint64_t released = 0;
    for (unsigned bin = 0; bin < FAI_BINS; bin++) {
        for (fai_block *block = pool->bin[bin], *next; block; block = next) {
            next = block->after;
            if (block->left || block->right) continue;
            if (dev->backend->release(dev->ordinal, block->address) != 0) continue; /* a lost device: it stays on the books */
            take_free(pool, block);
            count_reserved(dev, (size_t)0 - block->size);
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

static uint64_t release_unused_locked(fai_dev *dev) {
    if (unused_bytes(&dev->small) + unused_bytes(&dev->large) == 0) return 0;
    fai_queue_wait(dev, "empty_cache");
    return release_from(dev, &dev->small) + release_from(dev, &dev->large);
}

uint64_t fai_release_unused(fai_dev *dev) {
    pthread_mutex_lock(&dev->memory_lock);
    uint64_t released = release_unused_locked(dev);
    drop_spare_descriptions(dev);
    pthread_mutex_unlock(&dev->memory_lock);
    return released;
}

/* ---- no memory: who has it, and what would help ---- */

static size_t find_largest(const fai_dev *dev, const fai_block *largest[REPORTED]) {
    size_t found = 0;
    for (const fai_block *block = dev->live; block; block = block->after) {
        size_t at = found;
        while (at > 0 && largest[at - 1]->size < block->size) at--;
        if (at == REPORTED) continue;
        if (found < REPORTED) found++;
        for (size_t i = found - 1; i > at; i--) largest[i] = largest[i - 1];
        largest[at] = block;
    }
    return found;
}

static size_t add_text(char *out, size_t n, size_t used, const char *format, ...) FA_PRINTF(4, 5);
static size_t add_text(char *out, size_t n, size_t used, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int more = used < n ? vsnprintf(out + used, n - used, format, arguments) : 0;
    va_end(arguments);
    return used + (size_t)(more > 0 ? more : 0);
}

static size_t add_holders(const fai_dev *dev, char *out, size_t n, size_t used) {
    const fai_block *largest[REPORTED];
    size_t found = find_largest(dev, largest);
    char amount[32];
    if (found == 0) return add_text(out, n, used, "No tensor of this process lies there.");
    used = add_text(out, n, used, "The largest live buffers:");
    for (size_t i = 0; i < found; i++) {
        fai_text_bytes(amount, sizeof amount, largest[i]->size);
        used = add_text(out, n, used, "%s %s made by '%s'", i ? "," : "", amount, largest[i]->op);
    }
    return add_text(out, n, used, ".");
}

/* Everything unused was given back before this was called, so an emptied cache is no remedy any more; the text says so. */
static fai_block *fail_no_memory(const fai_dev *dev, size_t bytes, uint64_t released, const char *op) {
    uint64_t available = 0, total = 0, allocated = atomic_load(&dev->allocated), reserved = atomic_load(&dev->reserved);
    char tried[32], capacity[32], room[32], live[32], cached[32], gone[32], upper[16], text[1600];
    dev->backend->memory_info(dev->ordinal, &available, &total);
    fai_text_bytes(tried, sizeof tried, bytes);
    fai_text_bytes(capacity, sizeof capacity, total);
    fai_text_bytes(room, sizeof room, available);
    fai_text_bytes(live, sizeof live, allocated);
    fai_text_bytes(cached, sizeof cached, reserved - allocated);
    fai_text_bytes(gone, sizeof gone, released);
    fai_type_upper(upper, dev->name.type);
    size_t used =
        add_text(text, sizeof text, 0,
                 "%s out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free. Of the "
                 "allocated memory %s is allocated by Facula, and %s is reserved by Facula but unallocated. ",
                 upper, tried, dev->name.index, capacity, room, live, cached);
    used = add_holders(dev, text, sizeof text, used);
    if (released)
        used = add_text(text, sizeof text, used,
                        " The cache was emptied first (%s given back), so fa_empty_cache would not help.", gone);
    else if (reserved == allocated)
        used = add_text(text, sizeof text, used, " Nothing is cached, so fa_empty_cache would not help.");
    else
        used = add_text(text, sizeof text, used,
                        " fa_empty_cache would free nothing: what is cached lies between live buffers of the same segments.");
    add_text(text, sizeof text, used,
             " Use a smaller batch, drop what is no longer needed (a list of losses keeps every graph: keep fa_item(loss) "
             "instead), or compute without gradients where none are needed.");
    return fai_fail(FA_ERR_DEVICE_MEMORY, op, "%s", text);
}

/* ---- blocks ---- */

static fai_block *new_segment(fai_dev *dev, size_t size, size_t bytes, const char *op) {
    fai_block *block = new_description(dev);
    if (!block) return fai_fail_memory(op, sizeof *block);
    size_t segment = segment_size(size);
    uint64_t released = 0;
    fa_address address = 0;
    atomic_store(&dev->touched, true);
    int code = dev->backend->allocate(dev->ordinal, segment, &address);
    if (code == FA_BACKEND_NO_MEMORY && (released = release_unused_locked(dev)) > 0)
        code = dev->backend->allocate(dev->ordinal, segment, &address);
    if (code != 0) {
        free_description(dev, block);
        if (code == FA_BACKEND_NO_MEMORY) return fail_no_memory(dev, bytes, released, op);
        fai_fail_backend(dev, code, op, "allocating memory");
        return NULL;
    }
    memset(block, 0, sizeof *block);
    block->address = address;
    block->size = segment;
    block->small = size <= SMALL_MOST;
    count_reserved(dev, segment);
    return block;
}

static bool worth_cutting(const fai_block *block, size_t size) {
    size_t rest = block->size - size;
    return block->small ? rest >= UNIT : rest > SMALL_MOST;
}

/* The block keeps its left part; the rest goes to its bin. */
static void cut(fai_dev *dev, fai_block *block, size_t size, fai_block *rest) {
    memset(rest, 0, sizeof *rest);
    rest->address = block->address + size;
    rest->size = block->size - size;
    rest->small = block->small;
    rest->left = block;
    rest->right = block->right;
    if (rest->right) rest->right->left = rest;
    block->right = rest;
    block->size = size;
    put_free(pool_of(dev, rest), rest);
}

static void make_live(fai_dev *dev, fai_block *block, const char *op) {
    size_t i = 0;
    for (; op && op[i] && i < sizeof block->op - 1; i++) block->op[i] = op[i];
    block->op[i] = 0;
    block->free = false;
    block->before = NULL;
    block->after = dev->live;
    if (dev->live) dev->live->before = block;
    dev->live = block;
    count_allocated(dev, block->size);
}

static fai_block *new_block(fai_dev *dev, size_t bytes, const char *op) {
    size_t size = (bytes + UNIT - 1) / UNIT * UNIT;
    fai_pool *pool = size <= SMALL_MOST ? &dev->small : &dev->large;
    fai_block *rest = new_description(dev); /* before anything changes, in case the block is to be cut */
    if (!rest) return fai_fail_memory(op, sizeof *rest);
    fai_block *block = best_fit(pool, size);
    if (block) take_free(pool, block);
    else block = new_segment(dev, size, bytes, op);
    if (block && worth_cutting(block, size)) cut(dev, block, size, rest);
    else free_description(dev, rest);
    if (block) make_live(dev, block, op);
    else if (!fai_caches_on()) drop_spare_descriptions(dev);
    return block;
}

fai_block *fai_block_new(fai_dev *dev, size_t bytes, const char *op) {
    if (bytes >> 50) {
        char upper[16];
        fai_type_upper(upper, dev->name.type);
        return fai_fail(FA_ERR_DEVICE_MEMORY, op,
                        "%s out of memory. Tried to allocate more than 1EB memory. Look at the sizes: %zu bytes are more than "
                        "any device has",
                        upper, bytes);
    }
    pthread_mutex_lock(&dev->memory_lock);
    fai_block *block = new_block(dev, bytes, op);
    pthread_mutex_unlock(&dev->memory_lock);
    return block;
}

/* Makes one block of two neighbours; the right one's description goes. */
static void join(fai_dev *dev, fai_block *left, fai_block *right) {
    left->size += right->size;
    left->right = right->right;
    if (left->right) left->right->left = left;
    free_description(dev, right);
}

static void free_block(fai_dev *dev, fai_block *block) {
    fai_pool *pool = pool_of(dev, block);
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else dev->live = block->after;
    count_allocated(dev, (size_t)0 - block->size);
    if (block->right && block->right->free) {
        take_free(pool, block->right);
        join(dev, block, block->right);
    }
    if (block->left && block->left->free) {
        block = block->left;
        take_free(pool, block);
        join(dev, block, block->right);
    }
    put_free(pool, block);
    if (FAI_UNLIKELY(!fai_caches_on())) {
        if (!block->left && !block->right) release_unused_locked(dev);
        drop_spare_descriptions(dev);
    }
}

void fai_block_free(fai_dev *dev, fai_block *block) {
    pthread_mutex_lock(&dev->memory_lock);
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

static uint64_t read_counter(fa_device device, size_t offset) {
    fai_dev *dev = fai_dev_find(device);
    return dev ? atomic_load((_Atomic uint64_t *)((char *)dev + offset)) : 0;
}

uint64_t fa_memory_allocated(fa_device device) { return read_counter(device, offsetof(fai_dev, allocated)); }
uint64_t fa_memory_reserved(fa_device device) { return read_counter(device, offsetof(fai_dev, reserved)); }
uint64_t fa_max_memory_allocated(fa_device device) { return read_counter(device, offsetof(fai_dev, max_allocated)); }
uint64_t fa_max_memory_reserved(fa_device device) { return read_counter(device, offsetof(fai_dev, max_reserved)); }

void fa_reset_peak_memory_stats(fa_device device) {
    fai_dev *dev = fai_dev_find(device);
    if (!dev || fai_forked_child()) return;
    pthread_mutex_lock(&dev->memory_lock);
    atomic_store(&dev->max_allocated, atomic_load(&dev->allocated));
    atomic_store(&dev->max_reserved, atomic_load(&dev->reserved));
    pthread_mutex_unlock(&dev->memory_lock);
}
