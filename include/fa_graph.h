/* Graphs: a piece of a device's work that is noted down once and then done again and again as a whole, without the host going
 * through it (CUDA's graphs; on other devices the library keeps the list and gives it to the device launch by launch).
 *
 *     fa_graph *g = fa_graph_new();
 *     fa_tensor *x = fa_zeros(FA_SHAPE(16, 10), .device = dev);      // inputs that stay where they are
 *     train(net, opt, x, y);                                        // once or twice before, so that all that is made once is there
 *     fa_graph_begin(g, fa_stream_new(dev, 0), 0);
 *     fa_tensor *loss = train(net, opt, x, y);                       // noted down, not done
 *     fa_graph_end(g);
 *     while (next(batch)) {
 *         fa_copy_(x, batch);                                        // new numbers at the old place
 *         fa_graph_replay(g);                                        // and loss has the new loss
 *     }
 *
 * Between begin and end nothing may depend on numbers of the device, since there are none yet: fa_item, printing, copies to the
 * host, waits and copies from the host's pageable memory are errors. Memory that is made meanwhile belongs to the graph's pool
 * and keeps its addresses as long as the graph lives; what the graph reads and writes besides is kept alive by it. Random numbers
 * go on from replay to replay as they would without a graph, and so do an optimizer's steps with the options that it has then. */
#ifndef FA_GRAPH_H
#define FA_GRAPH_H

#include "fa_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_graph fa_graph;
FA_API fa_graph *fa_graph_new(void); /* empty; belongs to the scope */

/* The stream becomes this thread's current one, and its work goes into the graph until fa_graph_end, that of streams that wait
 * for it too. It must not be the device's default stream, nor the CPU's. pool: 0, or fa_graph_pool of a graph or
 * fa_graph_pool_new(): graphs of one pool share memory, so they must be replayed in the order of their captures, and what one
 * leaves is gone when another ran. False with an error. */
FA_API bool fa_graph_begin(fa_graph *graph, fa_stream stream, uint64_t pool);
/* The thread's stream is again what it was. False with an error if the capture is worth nothing: something was asked for that
 * can't be noted down, or the device can't make a graph of it. It ends in any case, also while an error is pending. */
FA_API bool fa_graph_end(fa_graph *graph);
/* Does the work, in the current stream of its device; queued as any other work. Not from two threads at once. */
FA_API bool fa_graph_replay(fa_graph *graph);
/* Empties it: memory of its pool that no tensor and no other graph has is free again. A capture under way ends. */
FA_API bool fa_graph_reset(fa_graph *graph);

FA_API uint64_t fa_graph_pool(const fa_graph *graph); /* 0 and an error before a capture */
FA_API uint64_t fa_graph_pool_new(void);              /* the name of a pool that graphs may share */
FA_API bool fa_is_capturing(fa_device device);        /* whether work of this thread's current stream there goes into a graph */

FA_API bool fa_stream_is_capturing(fa_stream stream);

typedef struct fa_graph_facts {
    bool capturing, ready;              /* ready: it can be replayed */
    uint64_t launches, copies, fills;   /* that it consists of */
    uint64_t replays;
    uint64_t kept;                      /* buffers outside its pool that it keeps alive */
    void *native;                       /* the driver's own (a CUgraphExec); NULL where the library replays the list */
    fa_stream stream;                   /* that was captured */
} fa_graph_facts;
FA_API fa_graph_facts fa_graph_get_facts(const fa_graph *graph);
/* Writes what it consists of to a file, in the language of Graphviz. */
FA_API bool fa_graph_dump(const fa_graph *graph, const char *path);

/* ---- Pools: memory that only what is made in their scopes comes from ---- */

typedef struct fa_mempool fa_mempool;
FA_API fa_mempool *fa_mempool_new(fa_device device);    /* belongs to the scope */
FA_API uint64_t fa_mempool_id(const fa_mempool *pool);  /* for fa_graph_begin */
FA_API uint64_t fa_mempool_reserved(const fa_mempool *pool); /* bytes that it has taken from the driver */
/* From now on this thread's memory of the pool's device comes from it; NULL: from no pool. Returns what was so before, for
 * fa_mempool_leave. */
FA_API fa_mempool *fa_mempool_enter(fa_mempool *pool);
FA_API void fa_mempool_leave(fa_mempool *before);

#ifdef __cplusplus
}
#endif
#endif
