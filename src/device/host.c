/* The CPU's memory: an arena (arena.c has its rules, those of a device) whose segments are mapped from the system. Fresh memory costs
 * a page fault every 4 KiB, more than most kernels need for the work on it, so segments are kept and cut again.
 *
 * What differs from a device: sizes are multiples of 64 bytes, a line. In front of the arena each thread keeps lists of the small blocks
 * that it gave back last, 64 bytes apart up to 512, then four sizes to a doubling: making and dropping one is a few loads and stores. A small
 * block lies behind its fai_buffer in one piece. The system says that there is no memory when it is too late, so of what nobody uses no more
 * is kept than a quarter of the machine's; the rest goes back, what is unused for longest first. With the caches off (tests, sanitizers)
 * each block is a segment of its own, of its own size, so that whatever touches it before or after its time is seen. */
#include "inside.h"
#include <string.h>
#include <unistd.h>
#if FAI_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)0)
#endif

enum { HEADER = 128, LINE = 64, SMALL_CLASSES = 36, KEEP_BYTES = 256 * 1024, KEEP_MOST = 256, KEEP_LEAST = 8, LARGEST_SMALL = 64 * 1024 };
_Static_assert(sizeof(fai_buffer) <= HEADER, "the elements of a small buffer begin HEADER bytes behind it");

typedef struct lists {
    struct { fai_buffer *first; uint32_t count; } list[SMALL_CLASSES];
    struct lists *before, *after; /* of other threads */
    _Atomic uint64_t blocks, bytes;
    bool watched;
} lists;
static __thread lists mine;

static bool give_back(fai_arena *arena, const fai_block *segment);
static const fai_alloc_rules rules = {.max_split = SIZE_MAX}; /* PYTORCH_ALLOC_CONF is for devices */
static struct {
    fai_arena arena; /* its lock guards all of this */
    fai_heap heap;
    lists *threads;
    size_t most; /* bytes that nobody uses */
} host = {.arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .unit_power = 6, .least = LINE, .description = offsetof(fai_block, nuses),
                    .rules = &rules, .give_back = give_back}};

static void *memory_of(const fai_block *block) { return (void *)(uintptr_t)block->address; }

/* ---- segments ---- */

static bool give_back(fai_arena *arena, const fai_block *segment) {
    (void)arena;
    ASAN_UNPOISON_MEMORY_REGION(memory_of(segment), segment->size);
    if (segment->mapped) fai_unmap(FAI_TAG_DATA, memory_of(segment), segment->size);
    else fai_free_aligned(FAI_TAG_DATA, memory_of(segment), segment->size);
    return true;
}

static fai_block *new_segment(size_t size) {
    const bool map = fai_caches_on();
    const size_t bytes = map ? fai_arena_segment(size) : size;
    fai_block *block = fai_arena_describe(&host.arena);
    void *at = !block ? NULL : map ? fai_map(FAI_TAG_DATA, bytes) : fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (!at) {
        if (block) fai_arena_forget(&host.arena, block);
        return NULL;
    }
    fai_arena_add(&host.arena, &host.heap, block, (uintptr_t)at, bytes, size);
    block->mapped = map;
    ASAN_POISON_MEMORY_REGION(at, bytes);
    return block;
}

/* ---- blocks ---- */

static void count(const fai_block *block, bool more) {
    fai_count_live(&host.arena, block, more);
    fai_count_active(&host.arena, block, more);
}

/* The lock is held. */
static fai_block *take_locked(size_t size) {
    fai_block *rest = fai_arena_describe(&host.arena);
    if (!rest) return NULL;
    fai_block *block = FAI_LIKELY(fai_caches_on()) ? fai_arena_find(&host.arena, &host.heap, size) : NULL;
    if (!block) block = new_segment(size);
    if (!block && fai_arena_release(&host.arena, &host.heap)) block = new_segment(size);
    if (block) fai_arena_trim(&host.arena, block, size, rest);
    else fai_arena_forget(&host.arena, rest);
    return block;
}

static fai_block *take(size_t size) {
    pthread_mutex_lock(&host.arena.lock);
    fai_block *block = take_locked(size);
    if (block) {
        block->asked = size;
        count(block, true);
        ASAN_UNPOISON_MEMORY_REGION(memory_of(block), block->size);
    }
    if (FAI_UNLIKELY(!fai_caches_on())) fai_arena_drop_spare(&host.arena);
    pthread_mutex_unlock(&host.arena.lock);
    return block;
}

/* The lock is held. */
static void put_locked(fai_block *block) {
    const fa_memory_stats *s = &host.arena.stats;
    count(block, false);
    ASAN_POISON_MEMORY_REGION(memory_of(block), block->size);
    block = fai_arena_put(&host.arena, block);
    const uint64_t unused = s->reserved_bytes[FA_POOL_ALL].current - s->active_bytes[FA_POOL_ALL].current;
    if (FAI_UNLIKELY(!fai_caches_on())) fai_arena_release_one(&host.arena, block);
    else if (FAI_UNLIKELY(unused > host.most)) fai_arena_release_oldest(&host.arena, unused - host.most, true);
    if (FAI_UNLIKELY(!fai_caches_on())) fai_arena_drop_spare(&host.arena);
}

static void put(fai_block *block) {
    pthread_mutex_lock(&host.arena.lock);
    put_locked(block);
    pthread_mutex_unlock(&host.arena.lock);
}

/* ---- threads, and the process ---- */

static void count_mine(int64_t blocks, size_t room) {
    const uint64_t n = atomic_load_explicit(&mine.blocks, memory_order_relaxed), bytes = atomic_load_explicit(&mine.bytes, memory_order_relaxed);
    atomic_store_explicit(&mine.blocks, n + (uint64_t)blocks, memory_order_relaxed);
    atomic_store_explicit(&mine.bytes, bytes + (uint64_t)blocks * (HEADER + room), memory_order_relaxed);
}

/* The lock is held. */
static void drop_mine(void) {
    for (unsigned c = 0; c < SMALL_CLASSES; c++) {
        for (fai_buffer *b = mine.list[c].first, *next; b; b = next) {
            next = b->context;
            count_mine(-1, b->room);
            put_locked(b->block);
        }
        mine.list[c].first = NULL;
        mine.list[c].count = 0;
    }
}

static void thread_ends(void) {
    pthread_mutex_lock(&host.arena.lock);
    drop_mine();
    if (mine.watched) {
        if (mine.after) mine.after->before = mine.before;
        if (mine.before) mine.before->after = mine.after;
        else host.threads = mine.after;
    }
    mine.watched = false;
    pthread_mutex_unlock(&host.arena.lock);
}

uint64_t fai_host_release(void) {
    pthread_mutex_lock(&host.arena.lock);
    drop_mine();
    const uint64_t released = fai_arena_release(&host.arena, &host.heap);
    fai_arena_drop_spare(&host.arena);
    pthread_mutex_unlock(&host.arena.lock);
    return released;
}

static void drop_all(void) { fai_host_release(); }

static void lock_host(void) { pthread_mutex_lock(&host.arena.lock); }
static void unlock_host(void) { pthread_mutex_unlock(&host.arena.lock); }

/* The other threads are not there; what they kept stays where it is. */
static void begin_child(void) {
    host.threads = mine.watched ? &mine : NULL;
    mine.before = mine.after = NULL;
    unlock_host();
}

static void set_up(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    host.most = pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 : (size_t)1 << 30;
    fai_on_cache_drop(drop_all);
    fai_on_thread_end(thread_ends);
    pthread_atfork(lock_host, unlock_host, begin_child);
}

static FAI_COLD void watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    if (!fai_watch_thread()) return;
    pthread_mutex_lock(&host.arena.lock);
    mine.watched = true;
    mine.before = NULL;
    mine.after = host.threads;
    if (mine.after) mine.after->before = &mine;
    host.threads = &mine;
    pthread_mutex_unlock(&host.arena.lock);
}

/* ---- small blocks, and headers: this thread's lists ---- */

static inline unsigned class_of(size_t bytes, size_t *room) {
    size_t lines = (bytes + LINE - 1) / LINE;
    if (lines <= 8) {
        if (lines == 0) lines = 1;
        *room = lines * LINE;
        return (unsigned)lines - 1;
    }
    size_t last = lines - 1;
    unsigned power = 63u - (unsigned)__builtin_clzll(last), quarter = (unsigned)(last >> (power - 2));
    *room = ((size_t)quarter + 1) << (power - 2) << 6;
    return 8 + (power - 3) * 4 + (quarter & 3);
}

static inline fai_buffer *new_small(size_t bytes) {
    size_t room;
    unsigned c = class_of(bytes, &room);
    fai_buffer *b = mine.list[c].first;
    if (FAI_LIKELY(b != NULL)) {
        mine.list[c].first = b->context;
        mine.list[c].count--;
        count_mine(-1, room);
        return b;
    }
    if (FAI_UNLIKELY(!mine.watched)) watch();
    fai_block *block = take(HEADER + room);
    if (!block) return NULL;
    b = memory_of(block);
    b->room = room;
    b->block = block;
    return b;
}

static inline bool list_has_room(unsigned c, size_t room) {
    uint32_t count = mine.list[c].count;
    return count < KEEP_LEAST || (count < KEEP_MOST && count * room < KEEP_BYTES);
}

static void free_small(fai_buffer *b, size_t room) {
    size_t same;
    unsigned c = class_of(room, &same);
    if (FAI_UNLIKELY(!mine.watched)) watch();
    if (FAI_UNLIKELY(!fai_caches_on() || !list_has_room(c, room) || !mine.watched)) {
        put(b->block);
        return;
    }
    b->room = room;
    b->context = mine.list[c].first;
    mine.list[c].first = b;
    mine.list[c].count++;
    count_mine(1, room);
    ASAN_POISON_MEMORY_REGION((char *)b + HEADER, room);
}

fai_buffer *fai_host_header(const char *op) {
    fai_buffer *b = new_small(0);
    return FAI_LIKELY(b != NULL) ? b : fai_fail_memory(op, HEADER + LINE);
}

void fai_host_header_free(fai_buffer *b) { free_small(b, LINE); }

/* ---- buffers: a large block's header keeps its own block in the line behind it ---- */

static fai_buffer *new_large(size_t bytes, const char *op) {
    fai_buffer *b = bytes >> 46 ? NULL : new_small(0); /* more than 64 TiB: no machine has it, and sizes must not overflow */
    if (!b) return fai_fail_memory(op, bytes);
    fai_block *block = take((bytes + LINE - 1) / LINE * LINE);
    if (!block) {
        free_small(b, LINE);
        return fai_fail_memory(op, bytes);
    }
    ASAN_UNPOISON_MEMORY_REGION((char *)b + HEADER, LINE);
    memcpy((char *)b + HEADER, &b->block, sizeof b->block);
    b->block = block;
    b->address = block->address;
    b->room = block->size;
    return b;
}

fai_buffer *fai_host_buffer(size_t bytes, const char *op) {
    if (FAI_UNLIKELY(bytes > LARGEST_SMALL)) return new_large(bytes, op);
    fai_buffer *b = new_small(bytes);
    if (FAI_UNLIKELY(!b)) return fai_fail_memory(op, bytes);
    b->address = (uint64_t)(uintptr_t)b + HEADER;
    ASAN_UNPOISON_MEMORY_REGION((char *)b + HEADER, b->room);
    return b;
}

void fai_host_buffer_free(fai_buffer *b) {
    if (FAI_LIKELY(b->address == (uint64_t)(uintptr_t)b + HEADER)) {
        free_small(b, b->room);
        return;
    }
    put(b->block);
    memcpy(&b->block, (char *)b + HEADER, sizeof b->block);
    free_small(b, LINE);
}

/* ---- statistics ---- */

void fai_host_stats(fa_memory_stats *out) {
    pthread_mutex_lock(&host.arena.lock);
    *out = host.arena.stats;
    for (const lists *t = host.threads; t; t = t->after) {
        const uint64_t blocks = atomic_load_explicit(&t->blocks, memory_order_relaxed), bytes = atomic_load_explicit(&t->bytes, memory_order_relaxed);
        out->allocation[FA_POOL_ALL].current -= blocks, out->allocation[FA_POOL_SMALL].current -= blocks;
        out->allocated_bytes[FA_POOL_ALL].current -= bytes, out->allocated_bytes[FA_POOL_SMALL].current -= bytes;
    }
    pthread_mutex_unlock(&host.arena.lock);
    out->max_split_size = -1;
}

void fai_host_reset_stats(void (*reset)(fa_memory_stats *stats, bool peaks), bool peaks) {
    pthread_mutex_lock(&host.arena.lock);
    reset(&host.arena.stats, peaks);
    pthread_mutex_unlock(&host.arena.lock);
}
