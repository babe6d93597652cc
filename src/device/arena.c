/* Memory cut from segments: the rules of the caching allocator, which the memory of each device and that of the host share, with
 * torch's observable numbers.
 *
 * Requests are rounded up to the arena's unit. Those up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of
 * 20 MiB, larger ones from a segment of their own, rounded up to 2 MiB. A segment is cut into blocks; a free block takes the
 * best-fitting request and is cut again where enough remains; neighbours that are both free become one. Where segments come from,
 * and when they go back, is the owner's: allocator.c for devices, host.c for the CPU.
 *
 * Free blocks lie in bins by size (each size of its own up to 64 units, then 16 steps per doubling), with one bit per bin. All of
 * this runs with the arena's lock held. */
#include "inside.h"
#include <string.h>

#define MIB ((size_t)1 << 20)
#define SMALL_MOST MIB            /* the largest request of the small pool */
#define SMALL_SEGMENT (2 * MIB)
#define MIDDLE_MOST (10 * MIB)    /* requests below this share segments */
#define MIDDLE_SEGMENT (20 * MIB)
#define LARGE_STEP (2 * MIB)

size_t fai_arena_segment(size_t size) {
    if (size <= SMALL_MOST) return SMALL_SEGMENT;
    if (size < MIDDLE_MOST) return MIDDLE_SEGMENT;
    return (size + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
}

/* ---- bins ---- */

static unsigned bin_of(const fai_arena *a, size_t size) {
    size_t units = size >> a->unit_power;
    if (units < 64) return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned bin = 64 + (power - 6) * 16 + (unsigned)(units >> (power - 4) & 15);
    return bin < FAI_BINS ? bin : FAI_BINS - 1;
}

static fai_pool *pool_of(const fai_block *block) { return block->small ? &block->heap->small : &block->heap->large; }

static bool is_whole(const fai_block *block) { return !block->left && !block->right; } /* a segment of its own */

static void put_free(fai_arena *a, fai_block *block) {
    fai_pool *pool = pool_of(block);
    unsigned bin = bin_of(a, block->size);
    fai_block *before = NULL, *after = pool->bin[bin];
    while (after && after->size < block->size) before = after, after = after->after;
    block->before = before;
    block->after = after;
    if (after) after->before = block;
    if (before) before->after = block;
    else pool->bin[bin] = block;
    pool->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    block->free = true;
    block->since = ++a->calls;
    if (!is_whole(block)) fai_count_inactive(a, block, true);
}

static void take_free(fai_arena *a, fai_block *block) {
    fai_pool *pool = pool_of(block);
    unsigned bin = bin_of(a, block->size);
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else pool->bin[bin] = block->after;
    if (!pool->bin[bin]) pool->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    block->free = false;
    if (!is_whole(block)) fai_count_inactive(a, block, false);
}

static fai_block *best_fit(const fai_arena *a, const fai_pool *pool, size_t size) {
    unsigned bin = bin_of(a, size);
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
static fai_block *fitting(const fai_arena *a, fai_heap *heap, size_t size) {
    const size_t most = a->rules->max_split;
    fai_block *block = best_fit(a, size <= SMALL_MOST ? &heap->small : &heap->large, size);
    if (FAI_LIKELY(!block || block->size < most)) return block;
    return size < most || block->size >= size + MIDDLE_SEGMENT ? NULL : block;
}

fai_block *fai_arena_find(fai_arena *a, fai_heap *heap, size_t size) {
    fai_block *block = fitting(a, heap, size);
    if (block) take_free(a, block);
    return block;
}

/* ---- descriptions of blocks ---- */

fai_block *fai_arena_describe(fai_arena *a) {
    fai_block *block = a->spare;
    if (FAI_LIKELY(block != NULL)) a->spare = block->after;
    else block = fai_alloc(FAI_TAG_OBJECT, a->description);
    return block;
}

void fai_arena_forget(fai_arena *a, fai_block *block) {
    block->after = a->spare;
    a->spare = block;
}

void fai_arena_drop_spare(fai_arena *a) {
    for (fai_block *block = a->spare, *next; block; block = next) {
        next = block->after;
        fai_free(FAI_TAG_OBJECT, block, a->description);
    }
    a->spare = NULL;
}

/* ---- segments ---- */

void fai_arena_add(fai_arena *a, fai_heap *heap, fai_block *block, fa_address address, size_t bytes, size_t size) {
    memset(block, 0, a->description);
    block->address = address;
    block->size = bytes;
    block->small = size <= SMALL_MOST;
    block->heap = heap;
    block->segment_after = a->segments;
    if (a->segments) a->segments->segment_before = block;
    a->segments = block;
    heap->segments++;
    fai_count_segment(a, block, true);
}

static void drop_segment(fai_arena *a, fai_block *block) {
    if (block->segment_after) block->segment_after->segment_before = block->segment_before;
    if (block->segment_before) block->segment_before->segment_after = block->segment_after;
    else a->segments = block->segment_after;
    block->heap->segments--;
    fai_count_segment(a, block, false);
}

/* The owner may refuse: then it stays on the books. */
static uint64_t give_back(fai_arena *a, fai_block *block) {
    const uint64_t bytes = block->size;
    if (!a->give_back(a, block)) return 0;
    take_free(a, block);
    drop_segment(a, block);
    fai_arena_forget(a, block);
    return bytes;
}

static uint64_t release_from(fai_arena *a, fai_pool *pool) {
    uint64_t released = 0;
    for (unsigned bin = 0; bin < FAI_BINS; bin++)
        for (fai_block *block = pool->bin[bin], *next; block; block = next) {
            next = block->after;
            if (is_whole(block)) released += give_back(a, block);
        }
    return released;
}

uint64_t fai_arena_release(fai_arena *a, fai_heap *heap) { return release_from(a, &heap->small) + release_from(a, &heap->large); }

uint64_t fai_arena_release_one(fai_arena *a, fai_block *block) { return is_whole(block) ? give_back(a, block) : 0; }

uint64_t fai_arena_unused(const fai_heap *heap) {
    uint64_t bytes = 0;
    const fai_pool *const pools[] = {&heap->small, &heap->large};
    for (int i = 0; i < 2; i++)
        for (unsigned bin = 0; bin < FAI_BINS; bin++)
            for (const fai_block *block = pools[i]->bin[bin]; block; block = block->after)
                if (is_whole(block)) bytes += block->size;
    return bytes;
}

/* Of the segments that nobody uses, the one that is free for longest. */
static fai_block *oldest(const fai_arena *a, bool small) {
    fai_block *found = NULL;
    for (fai_block *s = a->segments; s; s = s->segment_after)
        if (s->free && is_whole(s) && (small || !s->small) && !s->heap->pool && (!found || s->since < found->since)) found = s;
    return found;
}

bool fai_arena_has_old(const fai_arena *a) { return oldest(a, false) != NULL; }

uint64_t fai_arena_release_oldest(fai_arena *a, uint64_t bytes, bool small) {
    uint64_t released = 0;
    for (fai_block *block; released < bytes && (block = oldest(a, small));) {
        const uint64_t more = give_back(a, block);
        if (!more) break;
        released += more;
    }
    return released;
}

/* ---- blocks ---- */

static bool worth_cutting(const fai_arena *a, const fai_block *block, size_t size) {
    size_t rest = block->size - size;
    return block->small ? rest >= a->least : rest > SMALL_MOST && size < a->rules->max_split;
}

/* The block keeps its left part; the rest goes to its bin. */
static void cut(fai_arena *a, fai_block *block, size_t size, fai_block *rest) {
    memset(rest, 0, a->description);
    rest->address = block->address + size;
    rest->size = block->size - size;
    rest->small = block->small;
    rest->heap = block->heap;
    rest->left = block;
    rest->right = block->right;
    if (rest->right) rest->right->left = rest;
    block->right = rest;
    block->size = size;
    put_free(a, rest);
}

void fai_arena_trim(fai_arena *a, fai_block *block, size_t size, fai_block *rest) {
    if (worth_cutting(a, block, size)) cut(a, block, size, rest);
    else fai_arena_forget(a, rest);
}

/* Makes one block of two neighbours; the right one's description goes. */
static void join(fai_arena *a, fai_block *left, fai_block *right) {
    left->size += right->size;
    left->right = right->right;
    if (left->right) left->right->left = left;
    fai_arena_forget(a, right);
}

fai_block *fai_arena_put(fai_arena *a, fai_block *block) {
    if (block->right && block->right->free) {
        take_free(a, block->right);
        join(a, block, block->right);
    }
    if (block->left && block->left->free) {
        block = block->left;
        take_free(a, block);
        join(a, block, block->right);
    }
    put_free(a, block);
    return block;
}
