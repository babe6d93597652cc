/* Working memory for kernels: packed matrices, padded images. Asking the system each time would cost page faults, which are
 * dearer than the packing itself, so a few blocks are kept in slots that any thread takes and fills with one atomic exchange. */
#include "cpu.h"

#define SLOTS 8
#define KEEP_AT_MOST ((size_t)64 << 20) /* larger blocks go back to the system at once */
#define HEADER 64                       /* in front of every block: its size, on a line of its own */

static _Atomic(size_t *) slots[SLOTS];
static atomic_bool registered;

static void release(size_t *block) {
    if (block) fai_free_aligned(FAI_TAG_OTHER, block, *block);
}

static void drop_all(void) {
    for (int i = 0; i < SLOTS; i++) release(atomic_exchange(&slots[i], NULL));
}

void *fai_cpu_scratch_take(size_t bytes) {
    size_t room = (bytes + HEADER + 4095) & ~(size_t)4095;
    for (int i = 0; i < SLOTS; i++) {
        if (!atomic_load_explicit(&slots[i], memory_order_relaxed)) continue;
        size_t *block = atomic_exchange(&slots[i], NULL);
        if (block && *block >= room) return (char *)block + HEADER;
        release(block);
    }
    size_t *block = fai_alloc_aligned(FAI_TAG_OTHER, room);
    if (!block) return NULL;
    *block = room;
    return (char *)block + HEADER;
}

void fai_cpu_scratch_give(void *given, size_t bytes) {
    if (!given) return;
    size_t *block = (size_t *)(void *)((char *)given - HEADER);
    if (fai_caches_on() && bytes <= KEEP_AT_MOST) {
        if (!atomic_exchange(&registered, true)) fai_on_cache_drop(drop_all);
        for (int i = 0; i < SLOTS; i++) {
            size_t *empty = NULL;
            if (atomic_compare_exchange_strong(&slots[i], &empty, block)) return;
        }
    }
    release(block);
}
