/* Pools: memory of a device that is kept apart from what everybody gets.
 *
 * A graph knows addresses, so nobody else may have them while it lives, and they may not go back to the driver; and a program may
 * want to keep its own memory apart (fa_mempool). A pool has a name, a number, and a heap for each stream that took memory from
 * it. When the last who has it lets go, its heaps end: their unused segments go back to the driver as any others do, and a heap
 * goes with its last segment. */
#include "inside.h"
#include "graph.h"
#include <string.h>

static _Atomic uint64_t last_id;

uint64_t fa_graph_pool_new(void) { return atomic_fetch_add(&last_id, 1) + 1; }

fai_mempool *fai_mempool_take(fai_dev *dev, uint64_t id, const char *op) {
    pthread_mutex_lock(&dev->memory.lock);
    fai_mempool *pool = dev->pools;
    while (pool && pool->id != id) pool = pool->next;
    if (!pool && (pool = fai_calloc(FAI_TAG_OTHER, sizeof *pool))) {
        pool->id = id;
        pool->next = dev->pools;
        dev->pools = pool;
    }
    if (pool) pool->refs++;
    pthread_mutex_unlock(&dev->memory.lock);
    return pool ? pool : fai_fail_memory(op, sizeof *pool);
}

static void end_pool(fai_dev *dev, fai_mempool *pool) {
    fai_mempool **link = &dev->pools;
    while (*link != pool) link = &(*link)->next;
    *link = pool->next;
    for (fai_heap *h = dev->heaps, *next; h; h = next) {
        next = h->next;
        if (h->pool != pool) continue;
        h->pool = NULL;
        h->ends = true;
        if (h->segments == 0) fai_heap_drop(dev, h);
    }
    fai_free(FAI_TAG_OTHER, pool, sizeof *pool);
}

void fai_mempool_give(fai_dev *dev, fai_mempool *pool) {
    pthread_mutex_lock(&dev->memory.lock);
    if (--pool->refs == 0) end_pool(dev, pool);
    pthread_mutex_unlock(&dev->memory.lock);
    if (!fai_caches_on()) fai_release_unused(dev);
}

fai_heap *fai_mempool_heap(fai_dev *dev, fai_mempool *pool, fai_stream *s, const char *op) {
    pthread_mutex_lock(&dev->memory.lock);
    fai_heap *heap = dev->heaps;
    while (heap && (heap->pool != pool || heap->stream != s)) heap = heap->next;
    pthread_mutex_unlock(&dev->memory.lock);
    if (heap) return heap;
    heap = fai_calloc(FAI_TAG_OTHER, sizeof *heap);
    if (!heap) return fai_fail_memory(op, sizeof *heap);
    heap->stream = s;
    heap->pool = pool;
    fai_heap_add(dev, heap);
    return heap;
}

/* ---- pools that a program makes ---- */

struct fa_mempool {
    fai_object object;
    fai_dev *dev;
    fai_mempool *pool;
};

fai_heap *fai_heap_elsewhere(fai_dev *dev, const char *op) {
    fai_stream *s = fai_stream_now(dev);
    const fa_graph *g = fai_capture_of(s);
    const fa_mempool *mine = fai_tls.memory_pool;
    if (g) return g->heap;
    if (!mine || mine->dev != dev || s->paused) return &s->heap;
    return fai_mempool_heap(dev, mine->pool, s, op);
}

static void destroy(void *object) {
    fa_mempool *p = object;
    if (p->pool && !fai_forked_child()) fai_mempool_give(p->dev, p->pool);
    fai_free(FAI_TAG_OBJECT, p, sizeof *p);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_MEMPOOL, destroy); }

fa_mempool *fa_mempool_new(fa_device device) {
    if (!fai_device_resolve(&device, "mempool")) return NULL;
    if (device.type == FA_DEVICE_CPU)
        return fai_fail(
            FA_ERR_VALUE, "mempool",
            "Expected an accelerator, but got: cpu. Pools keep memory of a device apart; the CPU's memory is the system's");
    fa_mempool *p = fai_calloc(FAI_TAG_OBJECT, sizeof *p);
    if (!p) return fai_fail_memory("mempool", sizeof *p);
    fai_object_init(p, FAI_MEMPOOL);
    p->dev = fai_dev_find(device);
    p->pool = fai_mempool_take(p->dev, fa_graph_pool_new(), "mempool");
    if (!p->pool) {
        destroy(p);
        return NULL;
    }
    return fai_scope_add(p, "mempool") ? p : NULL;
}

static bool check(const fa_mempool *pool, const char *op) {
    if (pool) return true;
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, op, "argument 'pool' is NULL: one from fa_mempool_new(device) is needed");
    return false;
}

uint64_t fa_mempool_id(const fa_mempool *pool) { return check(pool, "mempool_id") ? pool->pool->id : 0; }

uint64_t fa_mempool_reserved(const fa_mempool *pool) {
    uint64_t bytes = 0;
    if (!check(pool, "mempool_reserved")) return 0;
    pthread_mutex_lock(&pool->dev->memory.lock);
    for (const fai_block *first = pool->dev->memory.segments; first; first = first->segment_after)
        for (const fai_block *b = first; b && first->heap->pool == pool->pool; b = b->right) bytes += b->size;
    pthread_mutex_unlock(&pool->dev->memory.lock);
    return bytes;
}

fa_mempool *fa_mempool_enter(fa_mempool *pool) {
    fa_mempool *before = fai_tls.memory_pool;
    if (pool) atomic_fetch_add(&pool->dev->pools_in_use, 1);
    fai_tls.memory_pool = fai_ref(pool);
    return before;
}

void fa_mempool_leave(fa_mempool *before) {
    fa_mempool *now = fai_tls.memory_pool;
    fai_tls.memory_pool = before;
    if (!now) return;
    atomic_fetch_sub(&now->dev->pools_in_use, 1);
    fai_unref(now);
}
