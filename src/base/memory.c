/* The one door to the host's memory. Callers give the size back at free, so the books are exact without a header before each
 * block; tests can make the n-th allocation fail, and give back what the rooms above keep in their caches.
 *
 * Three relaxed counters per call are what accounting costs (about 15 ns); rooms with a hot path keep free lists in front. */
#include "base.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20)

#define CACHES_AT_START (!FAI_ASAN) /* free lists would hide a use after free */

enum { HOOKS = 16 };

static struct {
    _Atomic uint64_t bytes, peak;
    struct { _Atomic uint64_t bytes, made, freed; } tag[FAI_TAG_COUNT];
    atomic_bool failing, sticky;
    _Atomic int64_t countdown; /* the allocation that brings it to 0 fails */
    _Atomic uint64_t failed;
    atomic_bool caches;
    void (*_Atomic drop[HOOKS])(void);
} door = {.caches = CACHES_AT_START};

/* Only called while a test has armed it. */
static bool made_to_fail(void) {
    int64_t left = atomic_fetch_sub(&door.countdown, 1) - 1;
    if (left > 0 || (left < 0 && !atomic_load(&door.sticky))) return false;
    atomic_fetch_add(&door.failed, 1);
    return true;
}

static bool may_allocate(void) {
    return FAI_LIKELY(!atomic_load_explicit(&door.failing, memory_order_relaxed)) || !made_to_fail();
}

static void count_more(fai_tag tag, uint64_t bytes) {
    uint64_t now = atomic_fetch_add_explicit(&door.bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&door.peak, memory_order_relaxed);
    while (now > peak &&
           !atomic_compare_exchange_weak_explicit(&door.peak, &peak, now, memory_order_relaxed, memory_order_relaxed)) {}
    atomic_fetch_add_explicit(&door.tag[tag].bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&door.tag[tag].made, 1, memory_order_relaxed);
}

static void count_less(fai_tag tag, uint64_t bytes) {
    atomic_fetch_sub_explicit(&door.bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&door.tag[tag].bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&door.tag[tag].freed, 1, memory_order_relaxed);
}

void *fai_alloc(fai_tag tag, size_t bytes) {
    void *block = may_allocate() ? malloc(bytes ? bytes : 1) : NULL;
    if (FAI_LIKELY(block != NULL)) count_more(tag, bytes);
    return block;
}

void *fai_calloc(fai_tag tag, size_t bytes) {
    void *block = may_allocate() ? calloc(1, bytes ? bytes : 1) : NULL;
    if (FAI_LIKELY(block != NULL)) count_more(tag, bytes);
    return block;
}

/* Large blocks begin on a huge page and ask for them: the first touch of 40 MB then takes 20 page faults, not 10,000. */
void *fai_alloc_aligned(fai_tag tag, size_t bytes) {
    if (!may_allocate()) return NULL;
    void *block = NULL;
    bool large = bytes >= 2 * HUGE_PAGE;
    if (posix_memalign(&block, large ? HUGE_PAGE : LINE, bytes ? bytes : 1)) return NULL;
#ifdef MADV_HUGEPAGE
    if (large) madvise(block, bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* advice: nothing is lost if it is refused */
#endif
    count_more(tag, bytes);
    return block;
}

void *fai_realloc(fai_tag tag, void *old, size_t old_bytes, size_t bytes) {
    if (!old) return fai_alloc(tag, bytes);
    void *block = may_allocate() ? realloc(old, bytes ? bytes : 1) : NULL;
    if (!block) return NULL;
    count_less(tag, old_bytes);
    count_more(tag, bytes);
    return block;
}

void fai_free(fai_tag tag, void *block, size_t bytes) {
    if (!block) return;
    count_less(tag, bytes);
    free(block);
}

void fai_free_aligned(fai_tag tag, void *block, size_t bytes) { fai_free(tag, block, bytes); }

/* Begins on a huge page and asks for them if it is large. The sanitizer looks for pointers in its own blocks only. */
void *fai_map(fai_tag tag, size_t bytes) {
    if (FAI_ASAN) return fai_alloc_aligned(tag, bytes);
    if (!may_allocate()) return NULL;
    const size_t ahead = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 0;
    char *block = mmap(NULL, bytes + ahead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return NULL;
    if (ahead) {
        const size_t skip = -(uintptr_t)block & (HUGE_PAGE - 1);
        if (skip) munmap(block, skip);
        if (skip < ahead) munmap(block + skip + bytes, ahead - skip);
        block += skip;
#ifdef MADV_HUGEPAGE
        madvise(block, bytes, MADV_HUGEPAGE);
#endif
    }
    count_more(tag, bytes);
    return block;
}

void fai_unmap(fai_tag tag, void *block, size_t bytes) {
    if (FAI_ASAN) {
        fai_free_aligned(tag, block, bytes);
        return;
    }
    count_less(tag, bytes);
    if (munmap(block, bytes)) madvise(block, bytes, MADV_DONTNEED); /* too many mappings: the addresses stay, the memory goes */
}

/* zlib gives no size when it frees, so that a block remembers its own. */
void *fai_zlib_alloc(void *opaque, unsigned items, unsigned size) {
    (void)opaque;
    size_t bytes = (size_t)items * size + 16;
    size_t *block = fai_alloc(FAI_TAG_FILE, bytes);
    if (block == NULL) return NULL;
    block[0] = bytes;
    return (char *)block + 16;
}

void fai_zlib_free(void *opaque, void *block) {
    (void)opaque;
    size_t *start = (size_t *)(void *)((char *)block - 16);
    fai_free(FAI_TAG_FILE, start, start[0]);
}

fa_memory_use fa_host_memory_use(void) {
    fa_memory_use use = {.bytes = atomic_load(&door.bytes), .peak_bytes = atomic_load(&door.peak)};
    for (int tag = 0; tag < FAI_TAG_COUNT; tag++) {
        uint64_t made = atomic_load(&door.tag[tag].made);
        use.total_calls += made;
        use.blocks += made - atomic_load(&door.tag[tag].freed);
    }
    return use;
}

uint64_t fai_tag_bytes(fai_tag tag) { return atomic_load(&door.tag[tag].bytes); }

void fa_test_fail_allocation(uint64_t n, bool sticky) {
    atomic_store(&door.failing, false);
    atomic_store(&door.failed, 0);
    atomic_store(&door.sticky, sticky);
    atomic_store(&door.countdown, (int64_t)n);
    atomic_store(&door.failing, n > 0);
}

uint64_t fa_test_failed_allocations(void) { return atomic_load(&door.failed); }

bool fai_caches_on(void) { return atomic_load_explicit(&door.caches, memory_order_relaxed); }

void fai_on_cache_drop(void (*drop)(void)) {
    for (int i = 0; i < HOOKS; i++) {
        void (*there)(void) = NULL;
        if (atomic_compare_exchange_strong(&door.drop[i], &there, drop) || there == drop) return;
    }
    fputs("facula: more than 16 cache-drop hooks\n", stderr);
    abort(); /* a mistake in the library itself, seen at the first start */
}

/* Last registered first: the rooms above give their blocks back to the rooms below before those are asked. */
void fai_drop_caches(void) {
    for (int i = HOOKS - 1; i >= 0; i--) {
        void (*drop)(void) = atomic_load(&door.drop[i]);
        if (drop) drop();
    }
}

void fa_test_caches(bool on) {
    atomic_store(&door.caches, on);
    if (!on) fai_drop_caches();
}
