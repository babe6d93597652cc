/* The CPU's memory. Fresh memory from the system costs a page fault every 4 KiB, more than most kernels need for the work on
 * it, so blocks are kept and used again.
 *
 * Sizes are rounded up to one of four steps per doubling. Small blocks lie behind their fai_buffer in one piece and are kept
 * in lists of each thread: making and dropping one is a few loads and stores. Large blocks stand alone and are kept in bins
 * that all threads share; a block is never split, so a loop finds in the second round what it gave back in the first. */
#include "inside.h"
#include <string.h>
#include <unistd.h>

enum { HEADER = 128, LINE = 64, SMALL_CLASSES = 36, CLASSES = 136, KEEP_BYTES = 256 * 1024, KEEP_MOST = 256, KEEP_LEAST = 8 };
_Static_assert(sizeof(fai_buffer) <= HEADER, "the elements of a small buffer begin HEADER bytes behind it");

static __thread struct {
    struct { fai_buffer *first; uint32_t count; } list[SMALL_CLASSES];
    bool watched;
} mine;

typedef struct free_block { struct free_block *next; } free_block;
static struct {
    pthread_mutex_t lock;
    free_block *bin[CLASSES];
    size_t bytes, most;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- size classes: 64 bytes apart up to 512, then four to a doubling ---- */

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

/* ---- small blocks: this thread's lists ---- */

static void drop_mine(void) {
    for (unsigned c = 0; c < SMALL_CLASSES; c++) {
        for (fai_buffer *b = mine.list[c].first, *next; b; b = next) {
            next = b->context;
            fai_free_aligned(FAI_TAG_DATA, b, HEADER + b->room);
        }
        mine.list[c].first = NULL;
        mine.list[c].count = 0;
    }
}

static void thread_ends(void) {
    drop_mine();
    mine.watched = false;
}

static size_t drop_shared(void) {
    pthread_mutex_lock(&shared.lock);
    size_t dropped = shared.bytes;
    for (unsigned c = 0; c < CLASSES; c++) {
        for (free_block *block = shared.bin[c], *next; block; block = next) {
            next = block->next;
            size_t power = (c - 8) / 4 + 3, room = (((size_t)4 | (c & 3)) + 1) << (power - 2) << 6;
            fai_free_aligned(FAI_TAG_DATA, block, room);
        }
        shared.bin[c] = NULL;
    }
    shared.bytes = 0;
    pthread_mutex_unlock(&shared.lock);
    return dropped;
}

static void drop_all(void) {
    drop_mine();
    drop_shared();
}

static void lock_shared(void) { pthread_mutex_lock(&shared.lock); }
static void unlock_shared(void) { pthread_mutex_unlock(&shared.lock); }

static void register_hooks(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    shared.most = pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 : (size_t)1 << 30;
    fai_on_cache_drop(drop_all);
    fai_on_thread_end(thread_ends);
    pthread_atfork(lock_shared, unlock_shared, unlock_shared);
}

static void watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_hooks);
    fai_watch_thread();
    mine.watched = true;
}

static void *fresh(size_t bytes) {
    void *block = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    if (FAI_UNLIKELY(!block) && drop_shared() > 0) block = fai_alloc_aligned(FAI_TAG_DATA, bytes);
    return block;
}

static inline fai_buffer *new_small(size_t bytes) {
    size_t room;
    unsigned c = class_of(bytes, &room);
    fai_buffer *b = mine.list[c].first;
    if (FAI_LIKELY(b != NULL)) {
        mine.list[c].first = b->context;
        mine.list[c].count--;
        return b;
    }
    if (!mine.watched) watch();
    b = fresh(HEADER + room);
    if (b) b->room = room;
    return b;
}

static inline bool list_has_room(unsigned c, size_t room) {
    uint32_t count = mine.list[c].count;
    return count < KEEP_LEAST || (count < KEEP_MOST && count * room < KEEP_BYTES);
}

static void free_small(fai_buffer *b, size_t room) {
    size_t same;
    unsigned c = class_of(room, &same);
    if (FAI_UNLIKELY(!fai_caches_on() || !list_has_room(c, room))) {
        fai_free_aligned(FAI_TAG_DATA, b, HEADER + room);
        return;
    }
    if (FAI_UNLIKELY(!mine.watched)) watch();
    b->room = room;
    b->context = mine.list[c].first;
    mine.list[c].first = b;
    mine.list[c].count++;
}

/* ---- large blocks: everybody's bins ---- */

static void *new_large(size_t bytes, size_t *room) {
    unsigned c = class_of(bytes, room);
    pthread_mutex_lock(&shared.lock);
    free_block *block = shared.bin[c];
    if (block) {
        shared.bin[c] = block->next;
        shared.bytes -= *room;
    }
    pthread_mutex_unlock(&shared.lock);
    return block ? block : fresh(*room);
}

static void free_large(void *data, size_t room) {
    size_t same;
    unsigned c = class_of(room, &same);
    free_block *block = data;
    pthread_mutex_lock(&shared.lock);
    bool keep = fai_caches_on() && shared.bytes + room <= shared.most;
    if (keep) {
        block->next = shared.bin[c];
        shared.bin[c] = block;
        shared.bytes += room;
    }
    pthread_mutex_unlock(&shared.lock);
    if (!keep) fai_free_aligned(FAI_TAG_DATA, data, room);
}

/* ---- buffers. block: NULL for a small one, else the large block; its header is then a small one's with a line behind it ---- */

enum { LARGEST_SMALL = 64 * 1024 };

fai_buffer *fai_host_buffer(size_t bytes, const char *op) {
    if (FAI_LIKELY(bytes <= LARGEST_SMALL)) {
        fai_buffer *b = new_small(bytes);
        if (FAI_UNLIKELY(!b)) return fai_fail_memory(op, bytes);
        b->address = (uint64_t)(uintptr_t)b + HEADER;
        b->block = NULL;
        return b;
    }
    fai_buffer *b = bytes >> 46 ? NULL : new_small(0); /* more than 64 TiB: no machine has it, and sizes must not overflow */
    if (!b) return fai_fail_memory(op, bytes);
    size_t room, header_room = b->room;
    void *block = new_large(bytes, &room);
    if (!block) {
        free_small(b, header_room);
        return fai_fail_memory(op, bytes);
    }
    b->address = (uint64_t)(uintptr_t)block;
    b->block = block;
    b->room = room;
    return b;
}

void fai_host_buffer_free(fai_buffer *b) {
    if (FAI_LIKELY(!b->block)) {
        free_small(b, b->room);
        return;
    }
    free_large(b->block, b->room);
    free_small(b, FAI_HEADER_ROOM);
}
